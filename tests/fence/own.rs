//! Whose a directory is: protected names in the place of others, tried behind every backend.

use crate::attacks::{BACKENDS, attack};
use crate::bench::{Bench, Run};

/// A directory `sub` that was there before, with something protected in it.
fn with_sub(name: &str) -> Bench {
    let bench = Bench::new(name);
    bench.shell_line("mkdir sub && echo known > sub/.envrc && touch sub/mark");
    bench.open_record("");
    bench
}

fn assert_stands(bench: &Bench, backend: (&str, &str), run: &Run) {
    assert!(bench.exists("sub/mark") && !bench.exists("away"), "{backend:?}: {}", run.stderr);
    assert_eq!(bench.read("sub/.envrc"), "known\n", "{backend:?}: {}", run.stderr);
    assert!(!bench.exists("sub/.vscode"), "{backend:?}");
}

#[test]
fn a_prepared_directory_does_not_take_the_place_of_another() {
    for backend in BACKENDS {
        let bench = with_sub("prepared");
        let run = attack(
            &bench,
            backend,
            "mkdir -p evil/.vscode; echo evil > evil/.envrc; echo evil > evil/.vscode/tasks.json; \
             mv -T sub away; mv -T evil sub; mv -T evil/.envrc sub/.envrc; mkdir deep; mv sub deep/sub; ls deep; false",
        );
        assert_eq!(run.stdout, "", "{backend:?}: {}", run.stderr);
        assert_stands(&bench, backend, &run);
        assert!(run.stderr.contains("sub/.envrc is protected"), "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn nor_does_one_that_a_later_launch_makes() {
    for backend in BACKENDS {
        let bench = with_sub("later");
        attack(&bench, backend, "mv sub away; mkdir evil; echo evil > evil/.envrc");
        let run =
            attack(&bench, backend, "mv evil sub/evil; mkdir sub; echo evil > sub/.envrc; mkdir sub/.vscode");
        assert_stands(&bench, backend, &run);
        assert!(!bench.exists("sub/evil"), "{backend:?}: what an earlier launch made is not this one's");
    }
}

#[test]
fn nor_by_exchanging_it_with_something_else() {
    let script = "import ctypes, os\n\
         swap = lambda a, b: ctypes.CDLL(None).renameat2(-100, a, -100, b, 2)\n\
         open('plain', 'w').close(); os.mkdir('new'); os.symlink('new', 'link')\n\
         print([swap(a, b) for one in (b'plain', b'new', b'link') for a, b in ((one, b'sub'), (b'sub', one))])\n\
         print(swap(b'plain', b'new'), os.path.isdir('plain'), os.path.isfile('new'))\n\
         open('plain/.envrc', 'w').write('own')\n";
    for backend in BACKENDS {
        let bench = with_sub("exchanged");
        bench.write("try.py", script);
        let run = attack(&bench, backend, "python3 try.py");
        assert_eq!(run.stdout, "[-1, -1, -1, -1, -1, -1]\n0 True True\n", "{backend:?}: {}", run.stderr);
        assert_stands(&bench, backend, &run);
        assert_eq!(bench.read("plain/.envrc"), "own", "{backend:?}: own by whatever name");
    }
}

#[test]
fn what_is_put_into_a_directory_of_ones_own_is_not_ones_own() {
    for backend in BACKENDS {
        let bench = with_sub("into");
        bench.shell_line("git init -q sub/repo && cp sub/repo/.git/config config");
        let wait = "for i in $(seq 400); do [ -e x/sub ] && break; sleep 0.1; done";
        let script = format!(
            "mkdir x; {wait}; echo evil > x/sub/.envrc; mkdir x/sub/.vscode; echo '[core]' > x/c; mv x/c x/sub/repo/.git/config; \
             mkdir x/sub/new && echo own > x/sub/new/.envrc; mv x y; ls"
        );
        let run = std::thread::scope(|scope| {
            let first = scope.spawn(|| attack(&bench, backend, &script));
            bench.shell_line("for i in $(seq 400); do [ -d x ] && break; sleep 0.1; done; mv sub x/sub");
            first.join().expect("it ends")
        });
        assert_eq!(bench.read("x/sub/.envrc"), "known\n", "{backend:?}: {}", run.stderr);
        assert_eq!(bench.read("x/sub/repo/.git/config"), bench.read("config"), "{backend:?}");
        assert_eq!(bench.read("x/sub/new/.envrc"), "own\n", "{backend:?}: {}", run.stderr);
        assert!(!bench.exists("x/sub/.vscode") && !bench.exists("y"), "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn the_directory_that_is_written_in_is_the_one_that_is_asked_about() {
    let own = "import os, time\n\
         os.mkdir('x'); begun = time.time()\n\
         while not os.path.exists('go') and time.time() - begun < 40: time.sleep(0.01)\n\
         made = 0\n\
         for _ in range(3000):\n\
         \x20   try: fd = os.open('x/.envrc', os.O_WRONLY | os.O_CREAT); os.write(fd, b'evil '); os.close(fd); made += 1\n\
         \x20   except OSError: pass\n\
         open('stop', 'w').close()\n\
         print('made' if made else 'never')\n";
    // Somebody who is not fenced exchanges the two all the time.
    let other = "import ctypes, os, time\n\
         libc = ctypes.CDLL(None); begun = time.time()\n\
         while not os.path.isdir('x') and time.time() - begun < 40: time.sleep(0.01)\n\
         open('go', 'w').close()\n\
         while not os.path.exists('stop') and time.time() - begun < 60: libc.renameat2(-100, b'x', -100, b'sub', 2)\n";
    for backend in BACKENDS {
        let bench = with_sub("racing");
        bench.write("own.py", own);
        bench.write("other.py", other);
        let run = std::thread::scope(|scope| {
            let first = scope.spawn(|| attack(&bench, backend, "python3 own.py"));
            bench.shell_line("python3 other.py");
            first.join().expect("it ends")
        });
        assert_eq!(run.stdout, "made\n", "{backend:?}: {}", run.stderr);
        let before = if bench.exists("sub/mark") { "sub/.envrc" } else { "x/.envrc" };
        assert_eq!(bench.read(before), "known\n", "{backend:?}");
    }
}

#[test]
fn a_number_that_is_used_again_makes_nothing_ones_own() {
    for backend in BACKENDS {
        let bench = Bench::new("again");
        bench.open_record("");
        let script = "for i in $(seq 50); do mkdir d$i; done; rmdir d*; touch ready; \
             for i in $(seq 400); do [ -e made ] && break; sleep 0.1; done; \
             for d in old*; do echo evil > $d/.envrc; done; touch done";
        std::thread::scope(|scope| {
            let first = scope.spawn(|| attack(&bench, backend, script));
            bench.shell_line(
                "for i in $(seq 400); do [ -e ready ] && break; sleep 0.1; done; for i in $(seq 50); do mkdir old$i; done; touch made",
            );
            first.join().expect("it ends")
        });
        assert!(bench.exists("done") && bench.exists("old50"), "{backend:?}");
        let evil = (1..=50).filter(|at| bench.exists(&format!("old{at}/.envrc"))).count();
        assert_eq!(evil, 0, "{backend:?}");
    }
}

#[test]
fn directories_without_protected_names_move_as_ever() {
    for backend in BACKENDS {
        let bench = Bench::new("moving");
        bench.shell_line(
            "git init -q . && mkdir -p src/deep/er node_modules/pkg/lib target/debug/incremental/a-working empty \
             && touch src/deep/er/f node_modules/pkg/lib/x target/debug/incremental/a-working/y && ln -s /etc src/link \
             && git add src && git -c user.name=a -c user.email=a@b commit -qm x",
        );
        bench.open_record("");
        let run = attack(
            &bench,
            backend,
            "set -e; mv node_modules/pkg node_modules/.pkg-x1; mv target/debug/incremental/a-working target/debug/incremental/a; \
             mv target old; git mv src source; mv empty source/deep; mkdir -p n/.vscode; mv n m; echo x > m/.vscode/a; \
             mkdir empty; mv -T m empty; git init -q r; mv r s; git -C s status >/dev/null; rm -r s empty; echo fine",
        );
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        assert!(bench.exists("source/deep/er/f") && bench.exists("old/debug/incremental/a/y"), "{backend:?}");
        assert!(!bench.exists("s") && !bench.exists("empty"), "{backend:?}: what one made can be taken away");
    }
}

#[test]
fn a_directory_in_which_protected_names_could_lie_leaves_when_none_does() {
    for backend in BACKENDS {
        let bench = Bench::new("beginning");
        bench.shell_line("mkdir -p .github/workflows .local/hooks .hg held/.config/fish; touch held/.config/fish/x; ln -s held .jj; touch .cargo");
        bench.open_record("");
        let run = attack(
            &bench,
            backend,
            "mv .github gh; mkdir .config && mv .config own; rmdir .hg; rm .cargo; mv held/.config away; rm .jj; ls -A",
        );
        assert!(bench.exists("gh/workflows") && bench.exists("own"), "{backend:?}: {}", run.stderr);
        assert!(!bench.exists(".hg") && !bench.exists(".cargo"), "{backend:?}: {}", run.stderr);
        assert!(bench.exists("held/.config/fish/x"), "{backend:?}: it holds something protected");
        assert!(bench.exists(".jj"), "{backend:?}: a link may lead to anything");
    }
}

#[test]
fn where_a_submodule_writes_is_looked_at_when_all_is_done() {
    let script = |files: &str| {
        format!(
            "mkdir -p .git/modules/lib lib; printf '[core]\\n\\tworktree = ../../../{files}\\n' > .git/modules/lib/c; \
             mv .git/modules/lib/c .git/modules/lib/config; echo 'gitdir: ../.git/modules/lib' > lib/.git; ln -s lib linked"
        )
    };
    for backend in BACKENDS {
        let cases = [
            ("lib", false, false),
            ("linked", true, true),
            (".husky", true, true),
            // Another name than the one that git is told of: to git this is no blank.
            ("lib\u{a0}", true, true),
            ("lib/deeper", true, true),
        ];
        for (files, strays, leads) in cases {
            let bench = Bench::new("straying");
            bench.shell_line("git init -q . && mkdir -p .husky");
            bench.open_record("");
            let run = attack(&bench, backend, &script(files));
            assert!(bench.read(".git/modules/lib/config").contains(files), "{backend:?}: {}", run.stderr);
            let told = |what: &str| run.stderr.contains(what);
            assert_eq!(told("has git write into"), strays, "{backend:?} {files}: {}", run.stderr);
            assert_eq!(told("leads git to settings"), leads, "{backend:?} {files}: {}", run.stderr);
        }
    }
}

#[test]
fn detours_to_a_repository_are_told_of() {
    let cases = [
        // git goes by the link, and up from where that leads.
        (
            "mkdir -p .git/worktrees/x .git/worktrees/a evil/one n; echo ../.. > .git/worktrees/x/commondir; \
             ln -s ../../../evil/one .git/worktrees/a/l; echo 'gitdir: ../.git/worktrees/a/l/../../worktrees/x' > n/.git",
            "n/.git",
        ),
        // To git a blank at the beginning is part of the name.
        (
            "mkdir -p .git/worktrees/x n; printf ' ../..\\n' > .git/worktrees/x/commondir; \
             echo 'gitdir: ../.git/worktrees/x' > n/.git",
            "commondir",
        ),
        (
            "mkdir -p .git/worktrees/x n; echo ../.. > .git/worktrees/x/commondir; \
             echo 'gitdir:  ../.git/worktrees/x' > n/.git",
            "n/.git",
        ),
    ];
    for backend in BACKENDS {
        for (script, told) in cases {
            let bench = Bench::new("detours");
            bench.shell_line("git init -q .");
            bench.open_record("");
            let run = attack(&bench, backend, script);
            let found = run.stderr.lines().any(|line| line.contains(told) && line.contains("leads git to"));
            assert!(found, "{backend:?} {script}: {}", run.stderr);
        }
        let bench = Bench::new("no-detours");
        bench
            .shell_line("git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a");
        bench.open_record("");
        let run = attack(&bench, backend, "git worktree add -q n && git -C n status");
        assert!(run.status == 0 && !run.stderr.contains("leads git to"), "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn settings_lead_by_no_detour_and_hide_nothing() {
    for backend in BACKENDS {
        let bench = Bench::new("detour");
        bench.shell_line("git init -q .");
        bench.open_record("");
        for value in ["../../../l/../hooks", "../../../x/../.git/hooks", "../../../.GIT/hooks"] {
            let script = format!(
                "mkdir -p .git/modules/lib; printf '[core]\\n\\tworktree = {value}\\n' > .git/modules/lib/c; \
                 mv .git/modules/lib/c .git/modules/lib/config"
            );
            let run = attack(&bench, backend, &script);
            assert!(run.status != 0 && !bench.exists(".git/modules/lib/config"), "{backend:?} {value}");
        }
    }
}

/// With it gone, the next launch would take what lies around for the project.
#[test]
fn what_marks_a_project_stays() {
    for backend in BACKENDS {
        let bench = Bench::new("mark");
        bench.shell_line("mkdir lib bare bare/.git && echo 'gitdir: ../x' > lib/.git");
        bench.open_record("");
        let run = attack(
            &bench,
            backend,
            "rm -f lib/.git; mv lib/.git lib/g; mv -f bare/.git lib/.git; mv bare/.git bare/g; \
             mv lib away; mkdir new new/.git; rmdir new/.git; echo x > new/.git; rm new/.git; ls -A new",
        );
        assert!(
            bench.read("lib/.git").contains("gitdir") && bench.exists("bare/.git"),
            "{backend:?}: {}",
            run.stderr
        );
        assert!(!bench.exists("new/.git"), "{backend:?}: what one made can be taken away: {}", run.stderr);
        let told =
            |name: &str| run.stderr.lines().any(|line| line.contains(&format!("{name} marks a project")));
        assert!(told("lib/.git") && told("bare/.git") && !told("new/.git"), "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn decoys_do_not_hide_what_programs_obey() {
    for backend in BACKENDS {
        let bench = Bench::new("decoys");
        bench.open_record("");
        let run = attack(
            &bench,
            backend,
            "for i in $(seq 70); do mkdir f$i; echo x > f$i/.envrc; rm f$i/.envrc; rmdir f$i; done; \
             mkdir real; echo evil > real/.envrc",
        );
        assert!(bench.exists("real/.envrc"), "{backend:?}: {}", run.stderr);
        assert!(run.stderr.contains("obey without asking"), "{backend:?}: {}", run.stderr);
    }
}
