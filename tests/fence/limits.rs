//! Limits and patterns as a user meets them: what was reached is said, and what is listed is all that runs.

use crate::bench::Bench;

#[test]
fn a_limit_that_was_reached_is_named() {
    let bench = Bench::new("reached");
    bench.open_record("limits: {cpu: 1s}\n");
    let run = bench.sh("for i in 1 2 3; do (while :; do :; done) & done; wait; sleep 9");
    assert_eq!(run.status, 124, "{}", run.stderr);
    assert!(run.stderr.contains("the cpu limit was reached"), "{}", run.stderr);
    bench.open_record("limits: {files: 16}\n");
    let run = bench
        .sh("python3 -c 'f=[open(\"/dev/null\") for i in range(40)]' 2>&1 | grep -c 'Too many open files'");
    assert_eq!(run.stdout, "1\n", "{}", run.stderr);
    bench.open_record("limits: {file_size: 1MiB}\n");
    let run = bench.sh("exec dd if=/dev/zero of=big bs=64k count=100 2>/dev/null");
    assert!(run.stderr.contains("the file-size limit was reached"), "{}", run.stderr);
    // These two are counted in a control group, which not everybody is given.
    let root = bench.is_root();
    bench.open_record("limits: {pids: 12}\n");
    let run = bench.sh("(i=0; while [ $i -lt 40 ]; do sleep 1 & i=$((i+1)); done) 2>/dev/null; exit 7");
    assert_eq!(run.status, 7, "{}", run.stderr);
    assert_eq!(run.stderr.contains("the pids limit was reached"), root, "{}", run.stderr);
    let accepted = if root { "" } else { "accept_degraded: [memory-limit]\n" };
    bench.open_record(&format!("limits: {{memory: 96M}}\n{accepted}"));
    let hoard = "head -c 60000000 /dev/zero | tail -c 60000000 | wc -c";
    let run = bench.sh(&format!("({hoard} & {hoard} & {hoard} & wait) >/dev/null 2>&1; exit 7"));
    assert_eq!(run.status, 7, "{}", run.stderr);
    assert_eq!(run.stderr.contains("the memory limit was reached"), root, "{}", run.stderr);
}

#[test]
fn a_pattern_for_programs_runs_those_it_fits_and_no_others() {
    let bench = Bench::new("fitting");
    bench.record("capabilities:\n  - proc.exec: {in: ROOT, patterns: [\"f?nd *\", \"tru* *\"]}\n");
    let find = |rest: &[&str]| bench.exec(&[&["find", ".", "-maxdepth", "0"], rest].concat());
    assert_eq!(find(&[]).stdout, ".\n");
    assert_eq!(find(&["-exec", "/usr/bin/true", ";", "-print"]).stdout, ".\n");
    let run = find(&["-exec", "/bin/sh", "-c", "echo ESCAPED", ";"]);
    assert!(!run.stdout.contains("ESCAPED") && run.stderr.contains("Permission denied"), "{}", run.stderr);
    let run = bench.run(
        &[
            "exec",
            "--agent",
            "agent.yml",
            "--backend",
            "bwrap",
            "--allow-degraded",
            "teardown-killed",
            "--",
            "find",
        ],
        "",
    );
    assert!(run.stderr.contains("does not give exec-only"), "what is listed is asked for: {}", run.stderr);
    bench.record("capabilities:\n  - proc.exec: {in: ROOT, patterns: [\"* --version\"]}\n");
    let run = bench.exec(&["find", "--version"]);
    assert!(run.status == 125 && run.stderr.contains("too many to list one by one"), "{}", run.stderr);
    bench.record("capabilities:\n  - proc.exec: {in: ROOT, patterns: [\"*\"]}\n");
    assert_eq!(bench.sh("echo any").stdout, "any\n");
    let lint = bench.shell_line("SBX agents lint agent.yml");
    assert!(format!("{}{}", lint.stdout, lint.stderr).contains("which is any program"), "{}", lint.stderr);
}

#[test]
fn a_pattern_for_files_is_named_and_refuses_nothing() {
    let bench = Bench::new("pattern");
    bench.record("capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.write: {in: ROOT, paths: [\"*.md\"]}\naccept_degraded: [fs-hiden]\n");
    bench.write("a.md", "x");
    let run = bench.run(
        &["--json", "exec", "--agent", "agent.yml", "--", "sh", "-c", "echo y > a.md; echo z > b.md"],
        "",
    );
    let outcome: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(outcome["missing"], serde_json::json!(["fs-glob"]), "{}", run.stdout);
    assert_eq!((bench.read("a.md").as_str(), bench.exists("b.md")), ("y\n", false));
    let lint = bench.shell_line("SBX agents lint agent.yml");
    let said = format!("{}{}", lint.stdout, lint.stderr);
    assert!(said.contains("no guarantee `fs-hiden`") && said.contains("did you mean `fs-hidden`"), "{said}");
}

#[test]
fn the_status_goes_to_sockets_and_to_the_end_of_a_file() {
    let bench = Bench::new("status");
    bench.open_record("");
    let run = bench
        .shell_line("echo before > log; SBX exec --agent agent.yml --status-fd 3 -- true 3>>log; cat log");
    let mut lines = run.stdout.lines();
    assert_eq!(lines.next(), Some("before"));
    let body: serde_json::Value = serde_json::from_str(lines.next().unwrap_or_default()).expect("JSON");
    assert_eq!((body["exit"].as_i64(), lines.next()), (Some(0), None));
    let script = "import socket, subprocess, sys\n\
                  ours, theirs = socket.socketpair()\n\
                  n = theirs.fileno()\n\
                  subprocess.run(sys.argv[1:2] + ['exec', '--agent', 'agent.yml', '--status-fd', str(n), '--', 'sh', '-c', 'exit 3'], pass_fds=[n])\n\
                  theirs.close()\n\
                  print(ours.makefile().read())\n";
    bench.write("ask.py", script);
    let run = bench.shell_line("python3 ask.py SBX");
    let body: serde_json::Value = serde_json::from_str(run.stdout.trim()).expect("JSON");
    assert_eq!(body["exit"].as_i64(), Some(3), "{}", run.stderr);
    let run = bench.shell_line("SBX exec --agent agent.yml --status-fd 3 -- echo ran 3<log");
    assert!(run.stdout.is_empty() && run.stderr.contains("cannot be written to"), "{}", run.stderr);
}

#[test]
fn what_is_behind_private_scratch_is_explained() {
    let bench = Bench::below("/tmp", "covered");
    let other = Bench::new("covering");
    other.open_record("");
    bench.write("note", "x");
    let note = format!("/tmp/{}/work/note", bench.above());
    let run = other.run(&["exec", "--agent", "agent.yml", "--explain", "--", "cat", &note], "");
    assert!(run.stderr.contains(&format!("may not fs.read {note}")), "{}", run.stderr);
    let own = "echo x > /tmp/own; rm /tmp/own; cat /tmp/own";
    let run = other.run(&["exec", "--agent", "agent.yml", "--explain", "--", "sh", "-c", own], "");
    assert!(!run.stderr.contains("sbx: refused"), "{}", run.stderr);
}

#[test]
fn where_nobody_can_watch_protected_paths_are_refused_or_done_without_by_name() {
    let bench = Bench::new("unwatched");
    bench.shell_line("git init -q .");
    bench.open_record("");
    // Quoted, because the program's own name is put in for those three letters.
    let launch = |rest: &str| {
        bench.shell_line(&format!("env S''BX_TEST_NO_NOTIFY=1 SBX exec --agent agent.yml {rest}"))
    };
    let run = launch("-- echo ran");
    assert_eq!((run.status, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains("does not give protected-paths\n"), "{}", run.stderr);
    for (backend, accepted) in crate::attacks::BACKENDS {
        let accepted = format!("{accepted},protected-paths").replace("--allow-degraded=", "");
        let run = launch(&format!(
            "--backend {backend} --allow-degraded={} --status-fd 3 -- sh -c 'touch plain; echo x >> .git/config; echo ran' 3>status",
            accepted.trim_start_matches(',')
        ));
        assert_eq!(run.stdout, "ran\n", "{backend}: {}", run.stderr);
        let told: serde_json::Value = serde_json::from_str(&bench.read("status")).expect("JSON");
        assert!(
            told["missing"].as_array().is_some_and(|all| all.iter().any(|one| one == "protected-paths")),
            "{told}"
        );
        // What stands is laid over all the same, where there are mounts.
        assert_eq!(bench.read(".git/config").contains('x'), backend == "landlock", "{backend}");
    }
}

#[test]
fn submodules_of_a_new_repository_work() {
    for backend in crate::attacks::BACKENDS {
        let bench = Bench::new("submodules");
        let commit = "git -c user.name=a -c user.email=a@b commit -qm m";
        let made = bench.shell_line(&format!(
            "set -e; git init -q lib; cd lib; echo x > f; git add f; {commit}; cd ..; git init -q top; cd top; \
             git -c protocol.file.allow=always submodule --quiet add ../lib deep/lib; {commit}"
        ));
        assert_eq!(made.status, 0, "{}", made.stderr);
        bench.open_record("");
        let file = "git -c protocol.file.allow=always";
        let run = crate::attacks::attack(
            &bench,
            backend,
            &format!(
                "set -e; {file} clone -q --recurse-submodules top one; cat one/deep/lib/f; git -C one/deep/lib status --short; \
                 {file} clone -q top two; cd two; {file} submodule --quiet update --init; cat deep/lib/f; \
                 git submodule status | wc -l"
            ),
        );
        assert_eq!(run.stdout, "x\nx\n1\n", "{backend:?}: {}", run.stderr);
        assert!(!run.stderr.contains("may run code") && !run.stderr.contains("leads git"), "{}", run.stderr);
        let run = crate::attacks::attack(
            &bench,
            backend,
            "cd two; git config core.worktree /tmp; git config submodule.deep/lib.update '!touch /tmp/x'; cd deep/lib; \
             git config core.worktree ../../../../../..; git config core.fsmonitor ./x; true",
        );
        for config in ["two/.git/config", "two/.git/modules/deep/lib/config"] {
            let text = bench.read(config);
            let odd = ["worktree = /tmp", "../../../../../..\n", "fsmonitor", "!touch"];
            assert!(!odd.iter().any(|odd| text.contains(odd)), "{backend:?} {config}: {text} {}", run.stderr);
        }
        // A repository that was there before keeps its settings; where they say what git would write, it goes on.
        let before =
            bench.shell_line("cat top/.git/config top/.git/modules/deep/lib/config; ls -l top/.git").stdout;
        let update = format!("cd top; {file} submodule --quiet update --init; cat deep/lib/f");
        let run = crate::attacks::attack(&bench, backend, &update);
        assert_eq!(run.stdout, "x\n", "{backend:?}: {}", run.stderr);
        let run =
            crate::attacks::attack(&bench, backend, "cd top; git config submodule.deep/lib.url elsewhere");
        assert_ne!(run.status, 0, "{backend:?}");
        let after =
            bench.shell_line("cat top/.git/config top/.git/modules/deep/lib/config; ls -l top/.git").stdout;
        assert_eq!(before, after, "{backend:?}");
    }
}

#[test]
fn private_directories_hold_together_what_is_granted_them() {
    let bench = Bench::new("together");
    bench.open_record("limits: {tmp: 3M}\n");
    let fill = |place: &str| format!("head -c 1M /dev/zero > {place}/fill && echo {place}");
    let line = ["/tmp", "$HOME", "/dev/shm"].map(fill).join("; ");
    let run =
        bench.sh(&format!("{line}; echo more >> /tmp/fill 2>/dev/null || echo full; id -u > /dev/null"));
    let told: Vec<&str> = run.stdout.lines().collect();
    assert_eq!((told.len(), told[0], told[2], told[3]), (4, "/tmp", "/dev/shm", "full"), "{}", run.stderr);
    let run = bench.sh("df -k /tmp $HOME /dev/shm | awk 'NR > 1 { print $1, $4 }' | sort -u | wc -l; stat -c %a /tmp /dev/shm $HOME; touch /x");
    assert_eq!(run.stdout, "1\n1777\n1777\n700\n", "{}", run.stderr);
    assert!(run.stderr.contains("Read-only"), "{}", run.stderr);
}
