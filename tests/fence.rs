//! The fence as a user meets it: `sbx exec`, `eval` and `shell` through the real binary.

#[path = "fence/attacks.rs"]
mod attacks;
#[path = "fence/bench.rs"]
mod bench;
#[path = "fence/closed.rs"]
mod closed;
#[path = "fence/faults.rs"]
mod faults;
#[path = "fence/handed.rs"]
mod handed;
#[path = "fence/ladder.rs"]
mod ladder;
#[path = "fence/led.rs"]
mod led;
#[path = "fence/letters.rs"]
mod letters;
#[path = "fence/limits.rs"]
mod limits;
#[path = "fence/mounted.rs"]
mod mounted;
#[path = "fence/own.rs"]
mod own;
#[path = "fence/private.rs"]
mod private;
#[path = "fence/relayed.rs"]
mod relayed;
#[path = "fence/signals.rs"]
mod signals;
#[path = "fence/suggested.rs"]
mod suggested;
#[path = "fence/terminal.rs"]
mod terminal;
#[path = "fence/together.rs"]
mod together;
#[path = "fence/told.rs"]
mod told;

use bench::Bench;

#[test]
fn the_commands_own_status_comes_back() {
    let bench = Bench::new("status");
    bench.open_record("");
    assert_eq!(bench.sh("exit 0").status, 0);
    assert_eq!(bench.sh("exit 37").status, 37);
    assert_eq!(bench.sh("kill -TERM $$").status, 128 + 15);
}

#[test]
fn what_is_denied_ends_with_126_and_says_why() {
    let bench = Bench::new("denied");
    bench.record("capabilities:\n  - proc.exec: {in: ROOT, cmds: [cat]}\n");
    let run = bench.exec(&["sh", "-c", "id"]);
    assert_eq!(run.status, 126);
    assert!(run.stderr.contains("scope_violation") && run.stderr.contains("agent.yml:2"), "{}", run.stderr);
    assert!(run.stderr.contains("smallest grant: sbx agents grant agent 'proc.exec{in="), "{}", run.stderr);
}

#[test]
fn a_program_that_does_not_exist_ends_with_127_and_bad_options_with_125() {
    let bench = Bench::new("missing");
    bench.open_record("");
    assert_eq!(bench.exec(&["no-such-program"]).status, 127);
    let run = bench.run(&["exec", "--nonsense"], "");
    assert_eq!(run.status, 125, "{}", run.stderr);
    let run = bench.run(&["exec", "--agent", "agent.yml", "--allow-degraded", "nonsense", "--", "true"], "");
    assert_eq!(run.status, 125);
    assert!(run.stderr.contains("there is no guarantee `nonsense`"), "{}", run.stderr);
}

#[test]
fn a_script_that_names_no_interpreter_ends_with_126_and_says_so() {
    let bench = Bench::new("nameless");
    bench.open_record("");
    bench.write("script", "echo ran\n");
    bench.shell_line("chmod +x script");
    let run = bench.exec(&["./script"]);
    assert_eq!((run.status, run.stdout.as_str()), (126, ""), "{}", run.stderr);
    assert!(run.stderr.contains("nor a script") && run.stderr.contains("#!/bin/sh"), "{}", run.stderr);
}

#[test]
fn a_time_limit_ends_everything_with_124() {
    let bench = Bench::new("wall");
    bench.open_record("limits: {wall: 500ms}\n");
    let marker = bench.marker();
    let run = bench.sh(&format!("(setsid sleep {marker} &) ; sleep {marker}"));
    assert_eq!(run.status, 124, "{}", run.stderr);
    assert!(run.stderr.contains("the wall limit was reached"), "{}", run.stderr);
    bench.assert_gone(&marker);
}

#[test]
fn daemons_end_with_the_command() {
    let bench = Bench::new("daemon");
    bench.open_record("");
    let marker = bench.marker();
    assert_eq!(bench.sh(&format!("(setsid sleep {marker} >/dev/null 2>&1 &); true")).status, 0);
    bench.assert_gone(&marker);
}

#[test]
fn killing_sbx_at_any_moment_leaves_nothing() {
    let bench = Bench::new("killed");
    bench.open_record("limits: {wall: 1m, cpu: 30s, pids: 200, files: 200}\n");
    let marker = bench.marker();
    let mounts = || std::fs::read_to_string("/proc/self/mounts").expect("a list of mounts");
    let before = mounts();
    // Run by root and by a user, these are five hundred.
    let rounds: u64 = std::env::var("SBX_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(250);
    let mut groups = Vec::new();
    for _ in 0..rounds {
        let mut child = bench.spawn(&format!("(setsid sleep {marker} &); sleep {marker}"));
        let moment = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos());
        std::thread::sleep(std::time::Duration::from_micros(u64::from(moment / 7 % 23_000)));
        child.kill().expect("sbx can be killed");
        child.wait().expect("sbx ends");
        groups.push(format!("/sbx-{}", child.id()));
    }
    bench.assert_gone(&marker);
    assert_eq!(bench.files(), ["agent.yml"]);
    // Only mounts of these launches would name this directory.
    let here = |mounts: String| mounts.lines().filter(|line| line.contains("sbx-fence-killed")).count();
    assert_eq!(here(mounts()), here(before));
    let left = || {
        let found =
            bench.shell_line("find /sys/fs/cgroup -maxdepth 6 -type d -name 'sbx-*' 2>/dev/null").stdout;
        found.lines().filter(|line| groups.iter().any(|group| line.ends_with(group))).count()
    };
    let begun = std::time::Instant::now();
    while left() > 0 && begun.elapsed() < std::time::Duration::from_secs(5) {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(left(), 0, "control groups are left");
}

#[test]
fn the_environment_is_rebuilt() {
    let bench = Bench::new("env");
    bench.open_record("env: [GRANTED]\n");
    let run = bench.sh("env | cut -d= -f1 | sort | tr '\\n' ' '");
    assert_eq!(run.stdout, "GRANTED HOME LANG PATH PWD TERM TMPDIR ", "{}", run.stderr);
    let run = bench.sh("cat /proc/1/environ /proc/self/environ | tr '\\0' '\\n'");
    assert!(!run.stdout.contains("SECRET"), "{}", run.stdout);
}

#[test]
fn only_three_descriptors_are_handed_in_and_none_is_a_host_file() {
    let bench = Bench::new("fds");
    bench.open_record("");
    bench.write("input", "hello\n");
    let run = bench.shell_line("exec 9<input; SBX exec --agent agent.yml -- sh -c 'ls /proc/self/fd; readlink /proc/self/fd/0' < input > out; cat out");
    assert!(run.stdout.starts_with("0\n1\n2\n3\n"), "{} {}", run.stdout, run.stderr);
    assert!(run.stdout.contains("pipe:") || run.stdout.contains("socket:"), "{}", run.stdout);
    let run = bench.shell_line("exec 9<input; SBX exec --agent agent.yml --pass-fd 9 -- sh -c 'cat <&9'");
    assert_eq!(run.stdout, "hello\n", "{}", run.stderr);
}

#[test]
fn standard_streams_are_relayed() {
    let bench = Bench::new("relay");
    bench.open_record("");
    let run =
        bench.run(&["exec", "--agent", "agent.yml", "--", "sh", "-c", "cat; echo to-err >&2"], "from-in\n");
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("from-in\n", "to-err\n"));
}

#[test]
fn the_exact_outcome_is_on_the_status_descriptor_and_in_json() {
    let bench = Bench::new("outcome");
    bench.open_record("");
    let run =
        bench.shell_line("SBX exec --agent agent.yml --status-fd 3 -- sh -c 'exit 126' 3>status; cat status");
    let outcome: serde_json::Value = serde_json::from_str(&run.stdout).expect("a line of JSON");
    assert_eq!((outcome["exit"].as_i64(), outcome["setup"].is_null()), (Some(126), true));
    assert!(outcome["guarantees"].as_array().is_some_and(|held| held.iter().any(|name| name == "fs-delete")));
    let run =
        bench.run(&["--json", "exec", "--agent", "agent.yml", "--", "sh", "-c", "echo out; exit 3"], "");
    let outcome: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!((run.status, outcome["stdout"].as_str()), (3, Some("out\n")));
}

#[test]
fn output_is_bounded() {
    let bench = Bench::new("output");
    bench.open_record("limits: {output: 100k}\n");
    let run = bench.sh("yes");
    assert!(run.stderr.contains("the output limit was reached"), "{}", run.stderr);
    assert!(run.stdout.len() <= 200_000, "{}", run.stdout.len());
}

#[test]
fn writing_is_not_deleting() {
    let bench = Bench::new("delete");
    bench.record(
        "capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT}\n  - fs.write: {in: ROOT}\n",
    );
    bench.write("kept", "x");
    let run = bench.sh("echo y > new; rm -f kept; mv kept moved; mv new kept; ls");
    assert_eq!(run.stdout, "agent.yml\nkept\nnew\n", "{}", run.stderr);
    assert_eq!(bench.read("kept"), "x");
}

#[test]
fn only_listed_programs_run_for_all_descendants() {
    let bench = Bench::new("listed");
    bench.record("capabilities:\n  - fs.read: {in: ROOT}\n  - fs.write: {in: ROOT}\n  - proc.exec: {in: ROOT, cmds: [find, cat]}\n");
    bench.write("payload", "#!/bin/sh\necho ESCAPED\n");
    bench.shell_line("chmod +x payload");
    assert_eq!(bench.exec(&["cat", "payload"]).status, 0);
    for argv in [
        &["find", ".", "-maxdepth", "0", "-exec", "/bin/sh", "-c", "echo ESCAPED", ";"][..],
        &["find", ".", "-maxdepth", "0", "-exec", "./payload", ";"],
        &[
            "find",
            ".",
            "-maxdepth",
            "0",
            "-exec",
            "/lib64/ld-linux-x86-64.so.2",
            "/bin/sh",
            "-c",
            "echo ESCAPED",
            ";",
        ],
        &["find", ".", "-maxdepth", "0", "-exec", "/usr/bin/env", "echo", "ESCAPED", ";"],
    ] {
        let run = bench.exec(argv);
        assert!(!run.stdout.contains("ESCAPED"), "{argv:?}: {}", run.stdout);
    }
}

#[test]
fn git_works_and_its_hooks_and_settings_stay() {
    let bench = Bench::new("git");
    bench.shell_line("git init -q . && git config user.name a && git config user.email a@b && echo x > f");
    bench.open_record("");
    let run = bench.sh("git add f && git commit -qm m && git checkout -qb side && git worktree add -q tree && git log --oneline | wc -l");
    assert_eq!(run.stdout.trim(), "1", "{}", run.stderr);
    let config = bench.read(".git/config");
    let run = bench.sh(
        "echo '#!/bin/sh' > .git/hooks/pre-commit; git config core.fsmonitor ./x; echo x >> .git/config; \
         mv .git .git2; ln -s /tmp .git/hooks2/../hooks/x; touch .envrc; mkdir .vscode; ls -A .git/hooks | grep -vc sample",
    );
    assert_eq!(run.stdout.trim(), "0", "{}", run.stderr);
    assert_eq!(bench.read(".git/config"), config);
    assert!(!bench.exists(".envrc") && !bench.exists(".vscode") && bench.exists(".git"));
}

#[test]
fn a_repository_made_inside_holds_nothing_that_git_would_run() {
    let bench = Bench::new("init");
    bench.open_record("");
    let run = bench.sh(
        "git init -q . && git config user.name me && git init -q sub && git clone -q sub copy; echo fine",
    );
    assert_eq!(run.stdout.trim(), "fine", "{}", run.stderr);
    bench.sh(
        "for d in . sub copy; do (cd $d; git config core.fsmonitor ./x; printf '[core]\\nhooksPath=x\\n' > .git/config; \
         printf '#!/bin/sh\\n' > .git/hooks/pre-commit; touch .git/config.worktree .git/commondir); done; \
         mkdir prepared; printf '[core]\\nfsmonitor=x\\n' > prepared/config; mkdir other; mv prepared other/.git; \
         ln -s ../prepared other/.git; mkdir third; mv prepared/config third/.git/config",
    );
    for repository in [".", "sub", "copy", "other", "third"] {
        let config = format!("{repository}/.git/config");
        let text = if bench.exists(&config) { bench.read(&config) } else { String::new() };
        assert!(!text.contains("fsmonitor") && !text.contains("hooksPath"), "{config}: {text}");
        assert!(!bench.exists(&format!("{repository}/.git/hooks/pre-commit")), "{repository}");
        assert!(!bench.exists(&format!("{repository}/.git/config.worktree")), "{repository}");
    }
}

#[test]
fn a_worktree_is_fine_and_a_file_that_leads_git_astray_is_told() {
    let bench = Bench::new("astray");
    bench.shell_line("git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m m");
    bench.open_record("");
    let run = bench.sh("git worktree add -q tree && cat tree/.git");
    assert!(run.status == 0 && !run.stderr.contains("sbx:"), "{}", run.stderr);
    let run = bench.sh("mkdir lib prepared; echo 'gitdir: ../prepared' > lib/.git");
    assert!(
        run.stderr.contains("lib/.git leads git to settings of the command's own making"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_repository_that_stands_is_not_changed_by_moving_it_about() {
    let bench = Bench::new("moving");
    bench.shell_line("git init -q pkg; git init -q ex");
    bench.open_record("");
    let before = bench.read("pkg/.git/config");
    bench.sh("mkdir own; mv pkg own/pkg; echo evil >> own/pkg/.git/config; mv own/pkg pkg; \
         mkdir o; mv -T ex o; echo evil >> o/.git/config; echo evil > o/.git/hooks/pre-commit; \
         mkdir .sbx new; mkdir -p new/.sbx/agents; echo x > new/.sbx/agents/e.md");
    for repository in ["pkg", "own/pkg", "ex", "o"] {
        let config = format!("{repository}/.git/config");
        if bench.exists(&config) {
            assert_eq!(bench.read(&config), before, "{repository}");
            assert!(!bench.exists(&format!("{repository}/.git/hooks/pre-commit")));
        }
    }
    assert!(!bench.exists("new/.sbx") && !bench.exists(".sbx"));
}

#[test]
fn permissions_of_protected_files_stay_at_any_depth() {
    let bench = Bench::new("modes");
    bench.shell_line(
        "git init -q . && git init -q deep/er && for r in . deep/er; do echo x > $r/.git/hooks/pre-push; \
                      chmod 755 $r/.git/hooks/pre-push; done; echo y > plain",
    );
    bench.open_record("");
    let run = bench.sh(
        "for r in . deep/er; do chmod 644 $r/.git/hooks/pre-push; chmod 700 $r/.git/hooks; \
         python3 -c 'import os,sys; os.fchmod(os.open(sys.argv[1],0),0o600)' $r/.git/hooks/pre-push; done; \
         chmod 600 plain && python3 -c 'import os; os.fchmod(os.open(\"plain\",0),0o640)' && stat -c %a plain; \
         git init -q new && cd new && git config core.filemode",
    );
    assert_eq!(run.stdout, "640\ntrue\n", "{}", run.stderr);
    for repository in [".", "deep/er"] {
        let modes =
            bench.shell_line(&format!("stat -c %a {repository}/.git/hooks {repository}/.git/hooks/pre-push"));
        assert_eq!(modes.stdout, "755\n755\n", "{repository}: {}", run.stderr);
    }
}

#[test]
fn what_killed_launches_left_without_namespaces_is_swept() {
    let bench = Bench::new("sweep");
    bench.open_record("accept_degraded: [fs-hidden, fs-metadata, loopback, terminals, pid-hidden, private-tmp, exec-only, pids-limit, teardown-killed]\n");
    let runtime = bench.subdir("runtime");
    let launch = format!("XDG_RUNTIME_DIR={runtime} SBX exec --backend landlock --agent agent.yml --");
    bench.shell_line(&format!("{launch} sleep 5 & sleep 0.5; ls {runtime} > before; kill -9 $!"));
    assert!(bench.read("before").contains("sbx-scratch-"), "{}", bench.read("before"));
    let run = bench.shell_line(&format!("{launch} true; ls {runtime}"));
    assert_eq!(run.stdout, "", "{}", run.stderr);
    let run = bench.shell_line(&format!("{launch} sh -c 'sleep 1; ls -d $TMPDIR' & {launch} true; wait"));
    assert!(run.stdout.contains("sbx-scratch-"), "a live one was swept: {}", run.stderr);
}

#[test]
fn a_full_disk_is_the_commands_own_trouble() {
    let bench = Bench::new("full");
    bench.open_record("");
    let run = bench.sh("dd if=/dev/zero of=$TMPDIR/fill bs=1M 2>&1 | grep -c 'No space'; echo alive");
    assert_eq!(run.stdout, "1\nalive\n", "{}", run.stderr);
}

#[test]
fn a_launch_that_can_have_no_process_says_so_and_runs_nothing() {
    let bench = Bench::new("nproc");
    bench.open_record("");
    // A user who may have no more processes: root is not held by that limit, so a user of its own is one.
    let line = "prlimit --nproc=1 SBX exec --agent agent.yml -- echo ran";
    let root = bench.shell_line("id -u").stdout.trim() == "0";
    let run = if root {
        bench.shell_line(&format!("chmod -R a+rwX .. && setpriv --reuid=64999 --clear-groups sh -c '{line}'"))
    } else {
        bench.shell_line(line)
    };
    assert!(run.stdout.is_empty() && run.stderr.contains("error:"), "{} {}", run.stdout, run.stderr);
}

#[test]
fn processes_beyond_the_limit_fail_and_leave_the_launch_alive() {
    let bench = Bench::new("pids");
    bench.open_record("limits: {pids: 20}\n");
    bench.write(
        "crowd.py",
        "import subprocess\nmade = 0\n\
         for i in range(60):\n    try:\n        subprocess.Popen(['sleep', '2.4321'])\n        made += 1\n    \
         except OSError:\n        pass\nprint('alive', 5 < made < 20)\n",
    );
    let run = bench.exec(&["python3", "crowd.py"]);
    assert_eq!(run.stdout, "alive True\n", "{}", run.stderr);
    let left = bench.shell_line("sleep 0.3; pgrep -f 'sleep 2.4321$' | wc -l");
    assert_eq!(left.stdout.trim(), "0", "processes were left behind");
}

#[test]
fn a_command_that_has_run_is_never_run_again_by_another_backend() {
    let bench = Bench::new("again");
    bench.open_record("");
    let script = "echo run >> ran; python3 -c 'import ctypes,struct; \
                  ctypes.CDLL(None).syscall(302,1,7,struct.pack(\"QQ\",0,0),None)'; echo x > y; sleep 0.2";
    let run = bench.run(
        &["exec", "--agent", "agent.yml", "--allow-degraded", "teardown-killed", "--", "sh", "-c", script],
        "",
    );
    assert_eq!(bench.read("ran"), "run\n", "{}", run.stderr);
}

#[test]
fn a_directory_is_not_handed_in_as_a_descriptor() {
    let bench = Bench::new("dirfd");
    bench.open_record("");
    let run = bench.shell_line("SBX exec --agent agent.yml --pass-fd 7 -- true 7< .");
    assert_eq!(run.status, 125);
    assert!(run.stderr.contains("descriptor 7 is a directory"), "{}", run.stderr);
}

#[test]
fn odd_names_of_roots_work() {
    for name in ["with space", "ünïcödé", "quote'\"", "-dash", "new\u{a0}line"] {
        let bench = Bench::new("odd");
        let root = bench.subdir(name);
        let quoted = serde_json::Value::from(root.as_str());
        bench.record_at(&format!(
            "capabilities:\n  - proc.exec: {{in: {quoted}}}\n  - fs.write: {{in: {quoted}}}\n"
        ));
        let run = bench.run(
            &["exec", "--agent", "agent.yml", "--in", &root, "--", "sh", "-c", "pwd; echo x > f; cat f"],
            "",
        );
        assert_eq!(run.stdout, format!("{root}\nx\n"), "{}", run.stderr);
    }
}

#[test]
fn a_linked_root_leads_to_the_real_one() {
    let bench = Bench::new("linked");
    let real = bench.subdir("real");
    bench.shell_line("ln -s $PWD/real $HOME/link");
    let link = real.replace("/work/real", "/home/link");
    bench.record_at(&format!("capabilities:\n  - proc.exec: {{in: {link}}}\n  - fs.write: {{in: {link}}}\n"));
    let run =
        bench.run(&["exec", "--agent", "agent.yml", "--in", &link, "--", "sh", "-c", "pwd; echo x > f"], "");
    assert_eq!(run.stdout, format!("{real}\n"), "{}", run.stderr);
    assert_eq!(bench.read("real/f"), "x\n");
}

#[test]
fn a_missing_root_or_directory_is_said_so() {
    let bench = Bench::new("gone");
    bench.record_at("capabilities:\n  - proc.exec: {in: /var/tmp/no-such-root}\n");
    let run = bench.run(&["exec", "--agent", "agent.yml", "--in", "/var/tmp/no-such-root", "--", "true"], "");
    assert_eq!(run.status, 125);
    assert!(run.stderr.contains("/var/tmp/no-such-root does not exist"), "{}", run.stderr);
}

#[test]
fn a_backend_that_lacks_something_is_refused_by_name() {
    let bench = Bench::new("ladder");
    bench.open_record("");
    let run = bench.run(&["exec", "--agent", "agent.yml", "--backend", "landlock", "--", "true"], "");
    assert_eq!(run.status, 125);
    assert!(run.stderr.contains("backend landlock does not give fs-hidden"), "{}", run.stderr);
    assert!(run.stderr.contains("--allow-degraded=fs-hidden"), "{}", run.stderr);
}

#[test]
fn inside_itself_sbx_says_what_is_missing() {
    let bench = Bench::new("nested");
    bench.open_record("");
    bench.shell_line("cp SBX inner");
    let run = bench.sh("HOME=$PWD ./inner exec --agent agent.yml -- echo ESCAPED");
    assert_eq!((run.status, run.stdout.contains("ESCAPED")), (125, false), "{}", run.stderr);
    assert!(run.stderr.contains("does not give") || run.stderr.contains("no backend"), "{}", run.stderr);
}

#[test]
fn too_few_descriptors_are_a_clear_error() {
    let bench = Bench::new("emfile");
    bench.open_record("");
    let run = bench.shell_line("ulimit -n 6; SBX exec --agent agent.yml -- echo ran");
    assert!(run.stdout.is_empty() && run.stderr.contains("error:"), "{} {}", run.stdout, run.stderr);
}

#[test]
fn a_root_removed_while_running_harms_nobody() {
    let bench = Bench::new("removed");
    let root = bench.subdir("root");
    bench.record_at(&format!("capabilities:\n  - proc.exec: {{in: {root}}}\n"));
    let run = bench.shell_line(&format!(
        "(sleep 0.3; rmdir {root}) & SBX exec --agent agent.yml --in {root} -- sh -c 'sleep 0.6; ls; echo done'"
    ));
    assert!(run.stdout.contains("done"), "{} {}", run.stdout, run.stderr);
}

#[test]
fn what_the_fence_refused_is_explained() {
    let bench = Bench::new("explain");
    bench.record("capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.write: {in: ROOT, paths: [src]}\n");
    bench.subdir("src");
    let script = "cat /etc/sudoers.d/x /etc/shadow; echo x > src/a; echo y > top; rm -f src/a; cat agent.yml >/dev/null";
    let run = bench.run(&["exec", "--agent", "agent.yml", "--explain", "--", "sh", "-c", script], "");
    for line in [
        "may not fs.read /etc/shadow",
        "work/top\n  nearest grant: fs.write{",
        "fs.delete{in=",
        "agent.yml:3",
    ] {
        assert!(run.stderr.contains(line), "{line}: {}", run.stderr);
    }
    assert!(
        !run.stderr.contains("may not fs.read /var") && !run.stderr.contains("fs.read /usr"),
        "{}",
        run.stderr
    );
    let script = "python3 -c 'import socket; socket.getaddrinfo(\"api.example.org\", 443)'; find . -maxdepth 0 -exec /usr/bin/env true \\;";
    bench.record("capabilities:\n  - proc.exec: {in: ROOT, cmds: [sh, python3, find]}\n");
    let run = bench.run(&["exec", "--agent", "agent.yml", "--explain", "--", "sh", "-c", script], "");
    for line in [
        "may not net.get api.example.org",
        "smallest grant: sbx agents grant",
        "hosts=[api.example.org]",
        "may not proc.exec /usr/bin/env true",
        "cmds=[/usr/bin/env]",
        "system call: execve: Permission denied",
    ] {
        assert!(run.stderr.contains(line), "{line}: {}", run.stderr);
    }
    bench.record("capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.write: {in: ROOT, paths: [src]}\n");
    let run = bench.sh("rm -f src/a");
    assert!(run.status != 0 && run.stderr.contains("sbx: refused: capability_absent"), "{}", run.stderr);
    let run = bench.sh("rm -f src/a; true");
    assert!(run.status == 0 && !run.stderr.contains("sbx:"), "{}", run.stderr);
}

#[test]
fn the_running_program_itself_stays_as_it_is() {
    let bench = Bench::new("own");
    bench.open_record("");
    bench.subdir("bin");
    let change = "./bin/sbx exec --agent agent.yml -- sh -c";
    let run = bench.shell_line(&format!(
        "cp $(command -v SBX) bin/sbx; cp bin/sbx bin/other; \
         {change} 'echo x >> bin/sbx'; {change} 'rm bin/sbx'; {change} 'mv bin/other bin/sbx'; {change} 'mv bin away'; \
         {change} 'echo x >> bin/other' && echo changed; cmp SBX bin/sbx && echo same"
    ));
    assert_eq!(run.stdout, "changed\nsame\n", "{}", run.stderr);
}

#[test]
fn a_file_name_cannot_look_like_a_line_of_sbx() {
    let bench = Bench::new("lines");
    bench.record("capabilities:\n  - proc.exec: {in: ROOT}\n  - fs.read: {in: ROOT}\n");
    let script = "(printf x > \"$(printf 'a\\nsbx: refused: forged')\") 2>/dev/null";
    let run = bench.run(&["exec", "--agent", "agent.yml", "--explain", "--", "sh", "-c", script], "");
    assert!(run.stderr.contains("a\\nsbx: refused: forged"), "{}", run.stderr);
    assert!(!run.stderr.lines().any(|line| line.starts_with("sbx: refused: forged")), "{}", run.stderr);
}

#[test]
fn a_record_is_not_reached_through_a_link_that_its_agent_may_turn() {
    let bench = Bench::new("turned");
    bench.open_record("");
    let run = bench.shell_line(
        "mv agent.yml ../kept.yml; ln -s ../kept.yml agent.yml; SBX exec --agent agent.yml -- true",
    );
    assert_eq!(run.status, 125, "{}", run.stderr);
    assert!(run.stderr.contains("reached through the link"), "{}", run.stderr);
    assert_eq!(bench.shell_line("SBX exec --agent ../kept.yml -- true").status, 0);
}

#[test]
fn what_stands_for_another_record_stays_as_it_is() {
    let bench = Bench::new("lent");
    bench.open_record("");
    bench.write("other.yml", "id: other\ncapabilities: []\n");
    bench.write("tool.toml", "name = \"x\"\n");
    let own = "$HOME/.config/sbx";
    let link = format!(
        "mkdir -p {own}/agents {own}/tools; ln -s $PWD/other.yml {own}/agents/; ln -s $PWD/tool.toml {own}/tools/"
    );
    assert_eq!(bench.shell_line(&link).status, 0);
    for change in ["echo >> other.yml", "rm tool.toml", "mv agent.yml other.yml"] {
        assert_ne!(bench.sh(change).status, 0, "{change}");
    }
    assert_eq!(bench.read("other.yml"), "id: other\ncapabilities: []\n");
    assert_eq!(bench.sh("echo > third.yml").status, 0);
    // A link that leads on through a place of another agent's leads nowhere.
    let run = bench.shell_line(&format!(
        "mv other.yml ../far.yml; ln -s ../far.yml way.yml; ln -s $PWD/way.yml {own}/agents/far.yml; SBX exec --agent far -- true"
    ));
    assert!(run.status == 125 && run.stderr.contains("reached through the link"), "{}", run.stderr);
}

#[test]
fn a_root_that_another_agent_turned_elsewhere_opens_nothing() {
    let bench = Bench::new("loose");
    let docs = bench.subdir("docs");
    let grants = ["proc.exec", "fs.read", "fs.write"].map(|verb| format!("  - {verb}: {{in: {docs}}}\n"));
    bench.record_at(&format!("capabilities:\n{}", grants.concat()));
    assert_eq!(bench.shell_line("SBX exec --agent agent.yml --in docs -- sh -c 'echo x > f'").status, 0);
    // What an agent with a grant for the directory above could do.
    bench.shell_line("mkdir ../outside; rm -r docs; ln -s ../outside docs");
    let run = bench.shell_line(
        "SBX exec --agent agent.yml --in docs -- sh -c 'echo x > f'; SBX exec --agent agent.yml -- sh -c 'echo x > f'; ls ../outside",
    );
    assert_eq!(run.stdout, "", "{}", run.stderr);
    let lint = bench.shell_line("SBX agents lint agent.yml");
    assert!(format!("{}{}", lint.stdout, lint.stderr).contains("lies behind a link"), "{}", lint.stderr);
}
