//! What a launch leaves behind that is run or obeyed later, told at its end, tried behind every backend.

use crate::attacks::{BACKENDS, attack};
use crate::bench::Bench;

#[test]
fn what_leads_git_astray_is_told_of_by_whatever_way_it_came() {
    let prepared = "mkdir -p .git/worktrees/x; echo /prepared > f; cd .git/worktrees/x";
    for backend in BACKENDS {
        for (script, told) in [
            ("mkdir b; echo 'gitdir: prepared' > b/.git; mv b c; mkdir d; mv c d/c".to_owned(), "/d/c/.git"),
            (format!("{prepared}; cp ../../../f c; mv c commondir"), "/x/commondir"),
            (format!("{prepared}; cp ../../../f c; ln c commondir"), "/x/commondir"),
            (format!("{prepared}; ln -s ../../../f commondir"), "/x/commondir"),
            (
                format!("{prepared}; echo /prepared > commondir; cd ..; mv x y 2>/dev/null; true"),
                "/x/commondir",
            ),
        ] {
            let bench = Bench::new("astray");
            bench.shell_line("git init -q .");
            bench.open_record("");
            let run = attack(&bench, backend, &script);
            let told = format!("{told} leads git to settings of the command's own making");
            assert!(run.status == 0 && run.stderr.contains(&told), "{backend:?} {script}: {}", run.stderr);
        }
    }
}

#[test]
fn more_than_can_be_followed_is_said_too() {
    let bench = Bench::new("flood");
    bench.open_record("");
    let run = attack(
        &bench,
        BACKENDS[0],
        "for i in $(seq 70); do mkdir -p r$i/.git h$i/.vscode; done; mkdir z; echo 'gitdir: prepared' > z/.git",
    );
    assert!(run.stderr.contains("more repositories were made than could be followed"), "{}", run.stderr);
    assert!(run.stderr.contains("h5/.vscode and others\n"), "{}", run.stderr);
}

#[test]
fn names_that_programs_obey_are_told_of_where_they_stand_in_the_end() {
    for backend in BACKENDS {
        let bench = Bench::new("obeyed");
        bench.open_record("");
        let run = attack(
            &bench,
            backend,
            "mkdir n; echo a > n/.envrc; mkdir n/.claude; echo {} > n/.claude/settings.json; echo x > t; mv t n/.mcp.json; \
             mkdir g; echo a > g/.npmrc; rm -r g; mv n m; mkdir $TMPDIR/s; echo a > $TMPDIR/s/.envrc",
        );
        let line =
            run.stderr.lines().find(|line| line.contains("obeyed by other programs")).unwrap_or_default();
        for name in ["/m/.envrc", "/m/.claude", "/m/.mcp.json"] {
            assert!(line.contains(name), "{backend:?} {name}: {}", run.stderr);
        }
        assert!(!line.contains(".npmrc") && !line.contains("/s/.envrc"), "{backend:?}: {line}");
        assert_eq!(run.status, 0, "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn templates_and_clones_bring_their_own_settings() {
    let bench = Bench::new("templates");
    bench.shell_line(
        "git init -q . && git init -q origin && cd origin && mkdir -p .vscode sub && echo '{}' > .vscode/settings.json \
         && echo a > .envrc && echo a > .npmrc && echo '{}' > .mcp.json && echo a > sub/.envrc && git add -A \
         && git -c user.name=a -c user.email=a@b commit -qm x",
    );
    let script = "set -e; git clone -q origin copy; mkdir template; tar -C copy --exclude=./.git -c . | tar -C template -x; mv template app; git init -q fresh; git -C copy status --short; \
         git clone -q origin again; rm -r again; ls -A app";
    let run = bench.run(&["exec", "--agent", "builder", "--", "sh", "-c", script], "");
    assert_eq!(run.stdout, ".envrc\n.mcp.json\n.npmrc\n.vscode\nsub\n", "{}", run.stderr);
    assert!(run.status == 0 && run.stderr.contains("obeyed by other programs"), "{}", run.stderr);
    assert_eq!(bench.read("copy/.vscode/settings.json"), "{}\n");
    assert!(!bench.exists("again"), "{}", run.stderr);
}

#[test]
fn what_is_told_keeps_to_its_line() {
    let bench = Bench::new("lines");
    bench.open_record("");
    let script = "d='a\nsbx: all is well'; mkdir \"$d\"; echo 'gitdir: x' > \"$d/.git\"";
    let run = attack(&bench, BACKENDS[0], script);
    assert!(run.stderr.contains("leads git to settings"), "{}", run.stderr);
    assert!(!run.stderr.lines().any(|line| line.starts_with("sbx: all is well")), "{}", run.stderr);
}

#[test]
fn what_was_made_anew_is_told_of_too() {
    for backend in BACKENDS {
        let bench = Bench::new("anew");
        bench.open_record("");
        let make = "mkdir X; echo 'gitdir: prepared' > X/.git; echo a > X/.envrc";
        let run = attack(&bench, backend, &format!("{make}; rm -rf X; {make}; mv X Y"));
        for told in ["/Y/.git leads git to settings", "/Y/.envrc"] {
            assert!(run.stderr.contains(told), "{backend:?} {told}: {}", run.stderr);
        }
    }
}

#[test]
fn more_than_can_be_followed_is_said_when_all_is_told() {
    let bench = Bench::new("followed");
    bench.open_record("");
    let run = bench.shell_line(
        "SBX exec -a agent.yml --explain -- sh -c 'for i in $(seq 70); do mkdir -p r$i/.git; done; mkdir X; \
         echo gitdir: prepared > X/.git; mv X Y'",
    );
    assert!(run.stderr.contains("more repositories were made than could be followed"), "{}", run.stderr);
}

#[test]
fn system_calls_that_nobody_gets_are_named_with_the_reason() {
    let bench = Bench::new("closed-calls");
    bench.open_record("");
    for (backend, accepted) in crate::attacks::BACKENDS {
        let explain = |script: &str| {
            let launch = format!("SBX exec --agent agent.yml --backend {backend} {accepted} --explain");
            bench.shell_line(&format!("{launch} --status-fd 3 -- {script} 3>status"))
        };
        let run = explain("strace -o /dev/null true");
        assert_ne!(run.status, 0, "{backend}: {}", run.stderr);
        let said = "sbx: refused: the system call ptrace: Operation not permitted\n  why: Other processes\n  no grant opens it\n";
        assert!(run.stderr.contains(said), "{backend}: {}", run.stderr);
        let told: serde_json::Value = serde_json::from_str(&bench.read("status")).expect("JSON");
        let ptrace =
            told["closed_calls"].as_array().is_some_and(|all| all.iter().any(|one| one["call"] == "ptrace"));
        assert!(ptrace, "{backend}: {told}");
        // Where arguments decide, too; refused as ever, and what is not refused is not told.
        bench.write(
            "calls.py",
            "import ctypes, socket\n\
             libc = ctypes.CDLL(None, use_errno=True)\n\
             def say(answer): print(answer, ctypes.get_errno() if answer else 0)\n\
             say(libc.unshare(0x10000000))\n\
             say(libc.unshare(0x200))\n\
             say(libc.mount(b'none', b'/mnt', b'tmpfs', 0, None))\n\
             say(libc.syscall(425, 0, 0))\n\
             try: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
             except OSError as error: print(error.errno)\n",
        );
        let run = explain("python3 calls.py");
        assert_eq!(run.stdout, "-1 1\n0 0\n-1 1\n-1 38\n97\n", "{backend}: {}", run.stderr);
        for call in ["unshare", "socket", "mount", "io_uring_setup"] {
            assert!(
                run.stderr.contains(&format!("the system call {call}: ")),
                "{backend} {call}: {}",
                run.stderr
            );
        }
        assert!(!run.stderr.contains("clone3"), "{backend}: {}", run.stderr);
    }
    let run = bench.shell_line("SBX exec --agent agent.yml -- strace -o /dev/null true");
    assert!(!run.stderr.contains("system call"), "only with --explain: {}", run.stderr);
}

/// A project with a branch `other`, which has an `.envrc` of its own.
fn with_branches(name: &str) -> Bench {
    let bench = Bench::new(name);
    let git = "git -c user.name=a -c user.email=a@b";
    bench.shell_line(&format!(
        "git init -q -b main . && git config user.name a && git config user.email a@b && echo one > .envrc && echo a > f && \
         git add .envrc f && {git} commit -qm one && git checkout -qb other && echo two > .envrc && {git} commit -qam two && \
         git checkout -q main"
    ));
    bench.open_record("");
    bench
}

#[test]
fn what_is_protected_and_was_to_be_changed_is_told_of_a_command_that_is_content() {
    for backend in BACKENDS {
        let bench = with_branches("content");
        let run =
            attack(&bench, backend, "git checkout -q other 2>/dev/null; git symbolic-ref --short HEAD; true");
        assert_eq!(bench.read(".envrc"), "one\n", "{backend:?}");
        let lines: Vec<_> = run.stderr.lines().collect();
        assert!(run.status == 0 && lines.len() == 1, "{backend:?}: {}", run.stderr);
        assert!(
            lines[0].contains("/work/.envrc is protected (") && lines[0].ends_with("stayed as it was"),
            "{lines:?}"
        );
        let script =
            "for n in .envrc .vscode .idea .npmrc .mcp.json; do mkdir $n; touch $n; done 2>/dev/null; true";
        let run = attack(&bench, backend, script);
        let lines: Vec<_> = run.stderr.lines().collect();
        assert_eq!(lines.len(), 4, "{backend:?}: {}", run.stderr);
        assert!(
            lines[3].starts_with("sbx: and ")
                && lines[3].ends_with("more protected paths stayed as they were")
        );
        // What is not granted at all, and what a command does not get, is its own to tell.
        let run = attack(&bench, backend, "echo x 2>/dev/null > /etc/x; touch /usr/.envrc 2>/dev/null; true");
        assert_eq!(run.stderr, "", "{backend:?}");
    }
}

#[test]
fn ordinary_work_with_git_is_silent() {
    for backend in BACKENDS {
        let bench = with_branches("silent");
        bench.shell_line(
            "git checkout -qb side && echo b > g && git add g && git commit -qm side && git checkout -q main",
        );
        for act in [
            "git status",
            "echo b >> f; git add f; git commit -qm more",
            "git checkout -q side; git checkout -q main; git checkout -qb third",
            "echo c >> f; git stash -q; git stash pop -q; git commit -qam c",
            "git rebase -q side",
            "git checkout -q main; git merge -q side -m merged; git checkout -q third",
            "git gc -q; git repack -adq; git pack-refs --all",
            "git worktree add -q tree; git -C tree status; git worktree remove tree; git worktree prune",
            "git clone -q . copy; git -C copy log --oneline; git -C copy fetch -q",
            "git init -q new; git -C new config user.name x; git -C new status",
            "git branch -D side; git tag v1; git reset -q --hard; git clean -qfd -e agent.yml; git remote -v",
        ] {
            let run = attack(&bench, backend, &format!("set -e; {{ {act}; }} >/dev/null"));
            // That the clone has an `.envrc` of its own is told of all clones.
            let own: Vec<_> = run.stderr.lines().filter(|line| line.contains("protected")).collect();
            assert!(own.is_empty() && run.status == 0, "{backend:?} {act}: {}", run.stderr);
        }
    }
}

#[test]
fn that_root_is_not_the_owner_of_what_belongs_to_others_is_told() {
    for backend in BACKENDS {
        let bench = Bench::new("others");
        bench.open_record("");
        if !bench.is_root() {
            println!("not root: nothing can be given to others here");
            return;
        }
        bench.shell_line("touch g && chmod 755 . && chown 1234:1234 . g");
        for act in ["touch f", "rm g", "echo x > g"] {
            let run = attack(&bench, backend, act);
            let said = "belongs to user 1234, mode ";
            let own: Vec<_> = run.stderr.lines().filter(|line| line.starts_with("sbx: ")).collect();
            let told = own.iter().any(|line| line.contains(said) && line.ends_with("run sbx as that user"));
            assert!(run.status != 0 && told && own.len() == 1, "{backend:?} {act}: {}", run.stderr);
        }
        assert!(!bench.exists("f"), "{backend:?}");
    }
}
