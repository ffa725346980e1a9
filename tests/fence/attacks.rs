//! Ways out that an attack once found, tried again behind every backend.

use crate::bench::Bench;

/// Each backend with what it is let off.
pub(crate) const BACKENDS: [(&str, &str); 3] = [
    ("native", ""),
    ("bwrap", "--allow-degraded=exec-only,teardown-killed"),
    (
        "landlock",
        "--allow-degraded=fs-hidden,fs-metadata,loopback,terminals,pid-hidden,private-tmp,exec-only,teardown-killed",
    ),
];

/// Runs a script behind a backend, with a record that grants everything in the directory.
pub(crate) fn attack(bench: &Bench, (backend, accepted): (&str, &str), script: &str) -> crate::bench::Run {
    let mut words = vec!["exec", "--agent", "agent.yml", "--backend", backend];
    words.extend(Some(accepted).filter(|accepted| !accepted.is_empty()));
    words.extend(["--", "sh", "-c", script]);
    bench.run(&words, "")
}

#[test]
fn what_leads_to_a_place_below_tmp_is_not_moved_away() {
    for backend in &BACKENDS[..2] {
        let bench = Bench::below("/tmp", "leading");
        bench.record(
            "capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT}\n  - fs.write: {in: ROOT}\n",
        );
        bench.write("kept", "here");
        let above = bench.above();
        let run = attack(
            &bench,
            *backend,
            &format!(
                "cd /tmp; mv {above} zz; rm -f zz/work/kept {above}/work/kept; touch mine && rm mine && echo fine"
            ),
        );
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        assert!(bench.exists("kept"), "{backend:?}");
    }
}

#[test]
fn submodules_are_not_rewritten_by_moving_their_directories() {
    for backend in BACKENDS {
        let bench = Bench::new("modules");
        bench.shell_line(
            "git init -q . && mkdir -p .git/modules/m/hooks deep && echo a > .git/modules/m/config",
        );
        bench.open_record("");
        let run = attack(
            &bench,
            backend,
            "mv .git/modules/m .git/mm; mkdir -p .git/t/hooks; echo evil > .git/t/hooks/post-checkout; \
             mv .git/t .git/modules/t; ln -s ../../deep .git/modules/e; echo b > .git/modules/m/index.lock && \
             mv .git/modules/m/index.lock .git/modules/m/index && echo fine",
        );
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        assert_eq!(bench.read(".git/modules/m/config"), "a\n");
        assert!(!bench.exists(".git/modules/t") && !bench.exists(".git/modules/e"), "{backend:?}");
    }
}

#[test]
fn a_directory_in_the_place_of_another_holds_no_protected_files() {
    for backend in BACKENDS {
        let bench = Bench::new("swapped");
        bench.shell_line("mkdir sub && echo known > sub/.envrc");
        bench.open_record("");
        let run = attack(
            &bench,
            backend,
            "mv sub away; mkdir sub; echo evil > sub/.envrc; mkdir new && echo own > new/.envrc && echo fine",
        );
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        assert!(!bench.exists("sub/.envrc") || bench.read("sub/.envrc") == "known\n", "{backend:?}");
    }
}

#[test]
fn a_directory_that_somebody_else_put_there_is_not_ones_own() {
    for backend in BACKENDS {
        let bench = Bench::new("two");
        bench.shell_line("mkdir sub && echo known > sub/.envrc");
        bench.open_record("");
        let run = std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                attack(
                    &bench,
                    backend,
                    "mkdir x; for i in $(seq 400); do [ -e x/.envrc ] && break; sleep 0.1; done; \
                                         echo evil > x/.envrc; cat x/.envrc",
                )
            });
            // Another launch could not move it; whoever is not fenced can.
            bench.shell_line("for i in $(seq 400); do [ -d x ] && break; sleep 0.1; done; rmdir x; mv sub x");
            first.join().expect("it ends")
        });
        assert_eq!(run.stdout, "known\n", "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn what_git_runs_in_another_repository_does_not_take_an_opened_ones_place() {
    for backend in BACKENDS {
        let bench = Bench::new("opened");
        bench.shell_line("mkdir p1 p2 && echo known > p2/.envrc");
        bench.record(
            "capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT}\n  - fs.write: {in: ROOT}\n  \
             - fs.delete: {in: ROOT}\n  - fs.write: {in: ROOT, paths: [p1/.envrc]}\n",
        );
        let run = attack(
            &bench,
            backend,
            "echo mine > p1/.envrc && echo fine; mv -T p1 px; mv -T p2 p1; [ -e p2 ] || { echo evil > p1/.envrc; mv -T p1 p2; mv -T px p1; }",
        );
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        assert_eq!(bench.read("p2/.envrc"), "known\n", "{backend:?}");
    }
}

#[test]
fn what_a_protected_link_leads_to_is_protected_too() {
    for backend in BACKENDS {
        let bench = Bench::new("linked");
        bench.shell_line(
            "git init -q . && rm -r .git/hooks && mkdir scripts other && ln -s ../scripts .git/hooks && echo known > scripts/x \
             && echo known > real && ln -s real .envrc",
        );
        bench.open_record("");
        let script = "echo evil > .git/hooks/post-merge; echo evil > scripts/x; echo evil > .envrc; echo evil > real; \
                      mv scripts away; touch other/y && echo fine";
        let run = attack(&bench, backend, script);
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        assert!(!bench.exists("scripts/post-merge"), "{backend:?}");
        assert_eq!(
            (bench.read("scripts/x"), bench.read("real")),
            ("known\n".to_owned(), "known\n".to_owned())
        );
    }
}

#[test]
fn small_ways_around_are_closed() {
    let script = "import os, ctypes, fcntl, sys\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         def tells(name, done): print(name, 'done' if done else 'refused')\n\
         open('f', 'w').close(); open('g', 'w').close()\n\
         tells('whiteout', libc.renameat2(-100, b'g', -100, b'h', 4) == 0)\n\
         tells('truncate', libc.truncate(b'f', ctypes.c_long(1 << 40)) == 0)\n\
         tells('attribute', libc.setxattr(b'f', b'user.a', b'b', 1, 0) == 0)\n\
         fd = os.open('f', os.O_RDONLY)\n\
         tells('lease', libc.fcntl(fd, 1024, 0) == 0)\n";
    for backend in BACKENDS {
        let bench = Bench::new("around");
        bench.open_record("limits: {file_size: 1MiB}\n");
        bench.write("try.py", script);
        let run = attack(&bench, backend, "python3 try.py");
        let told = "whiteout refused\ntruncate refused\nattribute refused\nlease refused\n";
        assert_eq!(run.stdout, told, "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn whoever_ignores_the_end_of_children_is_served_all_the_same() {
    let bench = Bench::new("ignoring");
    bench.open_record("limits: {wall: 20s}\n");
    let run = bench.shell_line(
        "python3 -c 'import signal, os, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])' \
         SBX exec --agent agent.yml -- echo fine",
    );
    assert_eq!((run.status, run.stdout.as_str()), (0, "fine\n"), "{}", run.stderr);
}

#[test]
fn the_log_is_neither_seen_nor_replaced_from_a_home_that_is_granted() {
    for backend in &BACKENDS[..2] {
        let bench = Bench::new("log");
        let home = bench.home();
        bench.record_at(&format!(
            "capabilities:\n  - proc.exec: {{in: {home}}}\n  - fs.read: {{in: {home}}}\n  - fs.write: {{in: {home}}}\n  \
             - fs.delete: {{in: {home}}}\n"
        ));
        bench.shell_line("mkdir -p ../home/.local/share/agents ../home/.config; mv agent.yml ../home/.local/share/agents/a.yml; \
                          ln -s ../home/.local/share/agents/a.yml agent.yml; SBX exec --agent ../home/.local/share/agents/a.yml -- true");
        let mut words = vec![
            "exec",
            "--agent",
            "../home/.local/share/agents/a.yml",
            "--in",
            &home,
            "--backend",
            backend.0,
        ];
        words.extend(Some(backend.1).filter(|accepted| !accepted.is_empty()));
        let script = "ls -A .local/state/sbx; mv .local .l2; mkdir -p .local/state/sbx; echo forged >> .local/state/sbx/audit.jsonl; \
                      touch mine && echo fine";
        words.extend(["--", "sh", "-c", script]);
        let run = bench.run(&words, "");
        assert_eq!(run.stdout, "fine\n", "{backend:?}: {}", run.stderr);
        let log = bench.shell_line("cat ../home/.local/state/sbx/audit.jsonl; SBX audit verify");
        assert!(
            log.status == 0 && !log.stdout.lines().any(|line| line == "forged"),
            "{backend:?}: {} {}",
            log.stdout,
            log.stderr
        );
    }
}

#[test]
fn files_that_only_root_reads_stay_closed_to_what_root_launches() {
    for backend in BACKENDS {
        let bench = Bench::new("rootly");
        bench.open_record("");
        let run = attack(
            &bench,
            backend,
            "for f in /proc/keys /proc/slabinfo /proc/vmallocinfo /proc/timer_list; do head -c 1 $f 2>/dev/null | wc -c; done; \
             ls /etc/ssl/private 2>/dev/null | wc -l",
        );
        // Without namespaces the process list is the host's own, with what its owner may read there.
        let hidden = if backend.0 == "landlock" { "" } else { "0\n0\n0\n0\n" };
        assert!(run.stdout.ends_with("0\n") && run.stdout.starts_with(hidden), "{backend:?}: {}", run.stdout);
    }
}

#[test]
fn knobs_of_the_machine_stay_as_they_are_for_what_root_launches() {
    let bench = Bench::new("knobs");
    bench.open_record("");
    if !bench.is_root() {
        println!("left to root, whose knobs they are");
        return;
    }
    let knobs = "sys sysrq-trigger irq bus fs acpi pressure";
    let script = format!(
        "for knob in {knobs}; do [ ! -e /proc/$knob ] || \
         awk -v at=/proc/$knob '$5 == at && $6 ~ /^ro/ {{ n++ }} END {{ if (!n) print at }}' /proc/self/mountinfo; done; \
         find /proc/irq /proc/bus /proc/fs /proc/acpi /proc/pressure -type f -writable 2>/dev/null; echo looked"
    );
    for backend in &BACKENDS[..2] {
        let run = attack(&bench, *backend, &script);
        assert_eq!(run.stdout, "looked\n", "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn a_copy_is_put_down_over_what_is_protected_only_where_something_may_be_written() {
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("copy");
        bench.subdir("lib");
        bench.subdir(".git/hooks");
        bench.write(".git/hooks/same", "same");
        bench.write("lib/same", "same");
        bench.record(
            "capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT}\n  - fs.delete: {in: ROOT/lib}\n",
        );
        let launch = format!("SBX exec --agent agent.yml --backend {backend} {accepted} --");
        let rename = "import os; os.rename('lib/same', '.git/hooks/same')";
        let run = bench.shell_line(&format!("{launch} python3 -c \"{rename}\""));
        assert!(run.status != 0 && bench.exists("lib/same"), "{backend}: {}", run.stderr);
        let run = bench.shell_line(&format!("{launch} rm lib/same"));
        assert!(run.status == 0 && !bench.exists("lib/same"), "{backend}: {}", run.stderr);
    }
}

#[test]
fn one_of_a_pair_of_sockets_gets_no_name() {
    for backend in BACKENDS {
        let bench = Bench::new("named");
        bench.open_record("");
        let run = attack(
            &bench,
            backend,
            "cat > try.py <<'.'\nimport socket\nfor name in ('.envrc', 'plain', '.vscode'):\n  a, b = socket.socketpair()\n  \
             try: a.bind(name)\n  except OSError: pass\na, b = socket.socketpair()\na.send(b'x')\nprint(b.recv(1))\n.\npython3 try.py",
        );
        assert_eq!(run.stdout, "b'x'\n", "{backend:?}: {}", run.stderr);
        for name in [".envrc", "plain", ".vscode"] {
            assert!(!bench.exists(name), "{backend:?}: {name}");
        }
    }
}

#[test]
fn devices_are_written_to_and_stay_as_they_are() {
    for backend in &BACKENDS[..2] {
        let bench = Bench::new("devices");
        bench.open_record("");
        let run = attack(
            &bench,
            *backend,
            "cat > try.py <<'.'\nimport os\nfor what in ('/dev/null', '/dev/zero', '/dev/full', '/dev/urandom'):\n  \
             try: os.utime(what); print('touched', what)\n  except OSError as e: assert e.errno == 30, (what, e)\n\
             os.write(os.open('/dev/null', os.O_WRONLY), b'x')\nprint(len(os.read(os.open('/dev/zero', 0), 4)))\n.\n\
             python3 try.py; echo gone > /dev/null && echo fine",
        );
        assert_eq!(run.stdout, "4\nfine\n", "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn a_descriptor_that_was_opened_for_reading_cannot_be_cut_through() {
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("cut");
        bench.write("kept", "whole\n");
        bench.record("capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT}\n");
        let accepted = if accepted.is_empty() { "--allow-degraded=fs-glob" } else { accepted };
        let line = format!(
            "exec 5<kept; exec SBX exec --agent agent.yml --backend {backend} {accepted} --pass-fd 5 -- \
             python3 -c 'import os\ntry: os.open(\"/proc/self/fd/5\", os.O_RDONLY | os.O_TRUNC)\nexcept OSError: print(\"kept\")'"
        );
        let run = bench.shell_line(&line);
        assert_eq!(run.stdout, "kept\n", "{backend}: {}", run.stderr);
        assert_eq!(bench.read("kept"), "whole\n", "{backend}");
    }
}

#[test]
fn a_pipe_with_a_name_is_not_handed_in() {
    for (backend, accepted) in BACKENDS {
        let bench = Bench::new("fifo");
        bench.open_record("");
        bench.shell_line("mkfifo -m 640 named");
        let accepted = if accepted.is_empty() { "--allow-degraded=fs-glob" } else { accepted };
        let line = format!(
            "(sleep 0.2; echo through > named) & exec SBX exec --agent agent.yml --backend {backend} {accepted} -- \
             python3 -c 'import os, sys\ntry: os.fchmod(0, 0o777)\nexcept OSError: pass\nprint(sys.stdin.readline().strip())' < named"
        );
        let run = bench.shell_line(&line);
        assert_eq!(run.stdout, "through\n", "{backend}: {}", run.stderr);
        assert_eq!(bench.shell_line("stat -c %a named").stdout, "640\n", "{backend}");
    }
}

#[test]
fn directories_of_a_group_can_be_copied() {
    for backend in BACKENDS {
        let bench = Bench::new("group");
        bench.open_record("");
        bench.shell_line("chmod g+s . && mkdir -p from/below && echo a > from/below/f");
        let run = attack(&bench, backend, "cp -r from to && cat to/below/f");
        assert_eq!(run.stdout, "a\n", "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn times_stay_by_whatever_way_a_directory_is_named() {
    for backend in &BACKENDS[..2] {
        let bench = Bench::new("dots");
        bench.subdir("sub/deep");
        bench.subdir("keep");
        bench.record(
            "capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT}\n  - fs.write: {in: ROOT, paths: [sub]}\n  \
             - fs.delete: {in: ROOT}\n",
        );
        let script = "import os\n\
             os.mkdir('sub/in'); os.symlink('../keep', 'sub/l')\n\
             for name in ('.', '..', 'sub/..', 'sub/../', 'sub/deep/../..', 'sub/.', 'sub/deep/..', 'sub/in/'):\n\
             \x20 try: os.utime(name, (1, 1)); print('aged', name)\n\
             \x20 except OSError: pass\n\
             for name in ('sub/l/', 'sub/l/.', '/proc/self/cwd/', 'keep/', 'sub/in/'):\n\
             \x20 try: os.utime(name, (1, 1), follow_symlinks=False); print('alone', name)\n\
             \x20 except OSError: pass\n";
        bench.write("try.py", script);
        let run = attack(&bench, *backend, "python3 try.py");
        let aged = "aged sub/.\naged sub/deep/..\naged sub/in/\nalone sub/in/\n";
        assert_eq!(run.stdout, aged, "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn what_is_moved_to_a_directory_by_its_dots_is_moved_into_it() {
    for backend in BACKENDS {
        let bench = Bench::new("into");
        bench.shell_line("mkdir -p e/in; touch e/f e/g e/in/h");
        bench.open_record("");
        let run =
            attack(&bench, backend, "mv e/f . && cd e/in && mv h .. && cd ../.. && rmdir .; mv . e; false");
        assert!(bench.exists("f") && bench.exists("e/h"), "{backend:?}: {}", run.stderr);
        assert!(!run.stderr.contains("may not"), "{backend:?}: {}", run.stderr);
    }
}

#[test]
fn directories_keep_a_group_and_no_file_takes_one_on() {
    for backend in BACKENDS {
        let bench = Bench::new("group");
        bench.open_record("");
        let run = attack(
            &bench,
            backend,
            "mkdir d && chmod 2775 d && cp -a d e && git init -q --shared=group r && echo x > r/f && git -C r add f && echo fine; \
             echo x > f; chmod 2755 f; chmod g+s f; chmod 4755 d; chmod 6755 f; stat -c '%a %n' d e f",
        );
        assert_eq!(run.stdout, "fine\n2775 d\n2775 e\n644 f\n", "{backend:?}: {}", run.stderr);
    }
}
