//! `sbx exec`, `eval` and `shell` as commands: statuses, messages, channels. What the fence holds is
//! tested where the fence is.

use crate::support::TestEnv;
use expect_test::expect;

fn with_project() -> TestEnv {
    let env = TestEnv::new();
    env.write("project/notes.txt", "one\ntwo\n");
    env
}

#[test]
fn a_command_runs_with_its_own_output_and_status() {
    let env = with_project();
    expect![[r#"
        one
        two
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["exec", "--agent", "scout", "--", "cat", "notes.txt"]));
    expect![[r#"
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["exec", "--agent", "scout", "--", "grep", "three", "notes.txt"]));
    expect![[r#"
        out
        [stderr]
        err
        [exit 7]
    "#]]
    .assert_eq(&env.sbx(&["eval", "--agent", "builder", "echo out; echo err >&2; exit 7"]));
    expect![[r#"
        [exit 137]
    "#]]
    .assert_eq(&env.sbx(&["eval", "--agent", "builder", "kill -KILL $$"]));
}

#[test]
fn stdin_reaches_the_command() {
    let env = with_project();
    expect![[r#"
        3
        [exit 0]
    "#]]
    .assert_eq(&env.sbx_with_input(&["exec", "--agent", "scout", "--", "wc", "-l"], b"a\nb\nc\n"));
    expect![[r#"
        hello
        [exit 5]
    "#]]
    .assert_eq(&env.sbx_with_input(&["shell", "--agent", "builder"], b"echo hello\nexit 5\n"));
}

#[test]
fn a_denied_command_is_not_run_and_exits_126() {
    let env = with_project();
    env.write_record("r.md", "---\ncapabilities:\n  - proc.exec: {in: $PROJECT, cmds: [ls]}\n---\n");
    expect![[r#"
        [stderr]
        scope_violation: r may not proc.exec rm notes.txt
          nearest grant: proc.exec{in=$PROJECT,cmds=[ls]} at [HOME]/.config/sbx/agents/r.md:3
          why not: it allows ls
          smallest grant: sbx agents grant r 'proc.exec{in=[PROJECT],cmds=[rm]}'
        [exit 126]
    "#]]
    .assert_eq(&env.sbx(&["exec", "--agent", "r", "--", "rm", "notes.txt"]));
    expect![[r#"
        {
          "is_error": true,
          "code": "scope_violation",
          "agent": "r",
          "tool": null,
          "request": {
            "capability": "proc.exec",
            "argv": [
              "rm",
              "notes.txt"
            ],
            "cwd": "[PROJECT]"
          },
          "message": "r may not proc.exec rm notes.txt",
          "nearest_grant": {
            "grant": "proc.exec{in=$PROJECT,cmds=[ls]}",
            "place": {
              "file": "[HOME]/.config/sbx/agents/r.md",
              "line": 3,
              "column": 5
            },
            "reason": "it allows ls"
          },
          "suggested_grant": "proc.exec{in=[PROJECT],cmds=[rm]}",
          "hint": null
        }
        [exit 126]
    "#]]
    .assert_eq(&env.sbx(&["exec", "--agent", "r", "--json", "--", "rm", "notes.txt"]));
    expect![[r#"
        [stderr]
        capability_absent: r may not proc.eval `ls`: it does not hold proc.eval
          smallest grant: sbx agents grant r 'proc.eval{in=[PROJECT]}'
        [exit 126]
    "#]]
    .assert_eq(&env.sbx(&["eval", "--agent", "r", "ls"]));
    expect![[r#"
        [stderr]
        capability_absent: fetcher may not proc.eval `exec /bin/sh`: it does not hold proc.eval
          smallest grant: sbx agents grant fetcher 'proc.eval{in=[PROJECT]}'
        [exit 126]
    "#]]
    .assert_eq(&env.sbx(&["shell", "--agent", "fetcher"]));
    assert!(env.project().join("notes.txt").exists());
}

#[test]
fn what_is_granted_but_not_there_exits_127() {
    let env = with_project();
    expect![[r#"
        [stderr]
        error: no-such-program is not found on /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
        [exit 127]
    "#]]
    .assert_eq(&env.sbx(&["exec", "--agent", "builder", "--", "no-such-program"]));
}

#[test]
fn what_sbx_cannot_do_exits_125() {
    let env = with_project();
    for line in ["--json exec --agent scout", "--color never eval", "--color=never --json shell --frob x"] {
        let shown = env.sbx(&line.split(' ').collect::<Vec<_>>());
        assert!(shown.ends_with("[exit 125]\n"), "{line}: {shown}");
    }
    expect![[r#"
        [stderr]
        error: there is no agent `nobody`
          hint: `sbx agents list` shows every agent
        [exit 125]
    "#]]
    .assert_eq(&env.sbx(&["exec", "--agent", "nobody", "--", "ls"]));
    expect![[r#"
        [stderr]
        error: the following required arguments were not provided:
          <COMMAND>...

        Usage: sbx exec --agent <AGENT> <COMMAND>...

        For more information, try '--help'.
        [exit 125]
    "#]]
    .assert_eq(&env.sbx(&["exec", "--agent", "scout"]));
    expect![[r#"
        [stderr]
        error: there is no backend `magic` on this system
          hint: auto, native, bwrap or landlock; `auto` takes the strongest that works
        [exit 125]
    "#]]
    .assert_eq(&env.sbx(&["exec", "--agent", "scout", "--backend", "magic", "--", "ls"]));
    expect![[r#"
        [stderr]
        error: there is no guarantee `nope`
          hint: they are fs-hidden, fs-read, fs-write, fs-delete, fs-metadata, fs-truncate, fs-glob, exec-only, net-none, net-hosts, net-ports, net-names, net-listen, loopback, terminals, pid-hidden, signals, protected-paths, ipc-hidden, sockets-hidden, private-tmp, syscall-filter, memory-limit, pids-limit, teardown, teardown-killed
        [exit 125]
    "#]].assert_eq(&env.sbx(&["exec", "--agent", "scout", "--allow-degraded", "nope", "--", "ls"]));
}

#[test]
fn a_guarantee_that_a_backend_lacks_refuses_until_it_is_accepted_by_name() {
    let env = with_project();
    let line = ["exec", "--agent", "scout", "--backend", "landlock", "--", "cat", "notes.txt"];
    expect![[r#"
        [stderr]
        error: backend landlock does not give fs-hidden, fs-metadata, exec-only, loopback, terminals, pid-hidden, private-tmp, teardown-killed
          hint: fs-hidden: Files outside the view do not exist: no content, no names, no metadata.
          hint: fs-metadata: Permissions, owners, times and attributes change only below places that are writable.
          hint: exec-only: Only listed files are executed, for all descendants.
          hint: loopback: Processes of one launch can talk to each other over a loopback device of their own.
          hint: terminals: Programs can make terminals for their own children.
          hint: pid-hidden: Processes outside are neither visible nor reachable.
          hint: private-tmp: Temporary files and the home directory are private, sized and gone at the end.
          hint: teardown-killed: Everything ends even when the launcher is killed without warning.
          hint: to do without: --allow-degraded=fs-hidden,fs-metadata,exec-only,loopback,terminals,pid-hidden,private-tmp,teardown-killed, or `accept_degraded: [fs-hidden, fs-metadata, exec-only, loopback, terminals, pid-hidden, private-tmp, teardown-killed]` in the record
        [exit 125]
    "#]]
    .assert_eq(&env.sbx(&line));
    let lacking = "fs-hidden,fs-metadata,exec-only,loopback,terminals,pid-hidden,private-tmp,teardown-killed";
    let line = [
        "exec",
        "-a",
        "scout",
        "--backend",
        "landlock",
        "--allow-degraded",
        lacking,
        "--",
        "cat",
        "notes.txt",
    ];
    assert_eq!(env.sbx(&line), "one\ntwo\n[exit 0]\n");
}

#[test]
fn a_time_limit_exits_124_and_says_which() {
    let env = with_project();
    env.write_record(
        "brief.md",
        "---\ncapabilities:\n  - proc.exec: {in: $PROJECT}\nlimits: {wall: 300ms}\n---\n",
    );
    expect![[r#"
        [stderr]
        sbx: the wall limit was reached; everything was ended
        [exit 124]
    "#]]
    .assert_eq(&env.sbx(&["exec", "--agent", "brief", "--", "sleep", "20"]));
}

#[test]
fn the_working_directory_is_chosen_within_the_root() {
    let env = with_project();
    env.write("project/sub/file", "");
    expect![[r#"
        file
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["exec", "--agent", "scout", "--in", "sub", "--", "ls"]));
    let shown = env.sbx(&["exec", "--agent", "scout", "--in", "/", "--", "ls"]);
    assert!(
        shown.contains("the working directory / lies outside") && shown.ends_with("[exit 126]\n"),
        "{shown}"
    );
}

#[test]
fn the_outcome_for_machines_holds_the_output_and_what_was_guaranteed() {
    let env = with_project();
    let outcome = env.json(&["exec", "--agent", "scout", "--json", "--", "cat", "notes.txt"]);
    assert_eq!(outcome["exit"], 0);
    assert_eq!(outcome["stdout"], "one\ntwo\n");
    let given = outcome["guarantees"].as_array().expect("a list");
    for name in ["fs-hidden", "fs-write", "exec-only", "net-none", "protected-paths", "teardown"] {
        assert!(given.iter().any(|guarantee| guarantee == name), "{name} in {outcome:#}");
    }
}

#[test]
fn the_status_descriptor_tells_exactly_what_happened() {
    let env = with_project();
    let shown = env.sh("{ sbx exec --agent scout --status-fd 3 -- grep three notes.txt; } 3>&1");
    let status: serde_json::Value =
        serde_json::from_str(shown.lines().next().expect("a line")).expect("JSON");
    assert_eq!(status["exit"], 1, "{shown}");
    let shown = env.sh("{ sbx exec --agent scout --status-fd 3 -- rm notes.txt 2> /dev/null; } 3>&1");
    let status: serde_json::Value =
        serde_json::from_str(shown.lines().next().expect("a line")).expect("JSON");
    assert_eq!(status["status"], 126, "{shown}");
}

#[test]
fn scout_writes_nothing_and_builder_does() {
    let env = with_project();
    let shown = env.sbx(&["eval", "--agent", "builder", "echo three >> notes.txt && tail -1 notes.txt"]);
    assert_eq!(shown, "three\n[exit 0]\n");
    env.write_record("reader.md", "---\ncapabilities:\n  - proc.eval: {in: $PROJECT}\n---\n");
    let shown = env.sbx(&["eval", "--agent", "reader", "echo four >> notes.txt"]);
    assert!(!shown.ends_with("[exit 0]\n"), "{shown}");
    assert_eq!(std::fs::read_to_string(env.project().join("notes.txt")).expect("notes"), "one\ntwo\nthree\n");
}

#[test]
fn a_mistyped_option_is_not_taken_for_a_command() {
    let env = with_project();
    for line in
        ["exec --agent scout --explian -- ls", "learn --josn -- ls", "mcp wrap --agent scout --alowlist x"]
    {
        let shown = env.sbx(&line.split(' ').collect::<Vec<_>>());
        assert!(
            shown.contains("unexpected argument") && shown.contains("similar argument"),
            "{line}: {shown}"
        );
    }
    // After the divider, and after the program, it is the command's own.
    let own = env.sbx(&["exec", "--agent", "scout", "ls", "--", "notes.txt"]);
    assert_eq!(own, "notes.txt\n[exit 0]\n");
    let named = env.sbx(&["exec", "--agent", "builder", "--", "--no-such-program"]);
    assert!(named.contains("--no-such-program is not found on"), "{named}");
}

#[test]
fn machines_are_told_why_nothing_was_run() {
    let env = with_project();
    for (line, status) in [
        ("exec --json --agent nobody -- ls", 125),
        ("exec --json --agent builder -- no-such-program", 127),
        ("exec --json --agent scout --backend landlock -- ls", 125),
    ] {
        let output = env.sbx_command(&line.split(' ').collect::<Vec<_>>()).output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["status"], status, "{line}: {told}");
        assert!(told["error"].as_str().is_some_and(|error| !error.is_empty()), "{line}: {told}");
        assert_eq!(output.status.code(), Some(status), "{line}");
    }
}

#[test]
fn a_name_that_is_granted_alone_and_is_not_there_is_told_of() {
    let env = with_project();
    env.write_record("r.md", "---\ncapabilities:\n  - proc.exec: {in: $PROJECT}\n  - fs.write: {in: $PROJECT, paths: [new.txt]}\n---\n");
    let script = "echo hi > new.txt";
    let shown = env.sbx(&["exec", "--agent", "r", "--", "sh", "-c", script]);
    let told = "new.txt is not there yet and cannot be made alone; grant the directory it is in (fs-glob)\n  \
                sbx agents grant r 'fs.write{in=[PROJECT]}'\n";
    assert!(shown.contains(told), "{shown}");
    env.write("project/new.txt", "");
    let shown = env.sbx(&["exec", "--agent", "r", "--", "sh", "-c", script]);
    assert_eq!(shown, "[exit 0]\n");
    env.write_record("r.md", "---\ncapabilities:\n  - proc.exec: {in: $PROJECT}\n---\n");
    let shown = env.sbx(&["exec", "--explain", "--agent", "r", "--", "sh", "-c", "echo hi > other.txt"]);
    assert!(shown.contains("smallest grant: sbx agents grant r 'fs.write{in=[PROJECT]}'\n"), "{shown}");
    assert!(
        shown.contains("once it is there, 'fs.write{in=[PROJECT],paths=[other.txt]}' is enough"),
        "{shown}"
    );
}

#[test]
fn where_there_is_no_project_nobody_is_advised_to_open_the_home() {
    let env = with_project();
    let mut command = env.sbx_command(&["exec", "--agent", "builder", "--", "true"]);
    let shown = env.shown(&command.current_dir(env.home()).output().unwrap());
    assert!(shown.contains("why not: there is no project here"), "{shown}");
    assert!(!shown.contains("smallest grant"), "{shown}");
}

#[test]
fn what_may_narrow_and_cannot_be_looked_at_refuses() {
    let env = with_project();
    let config = env.write("home/.config/sbx/config.yml", "");
    std::fs::remove_file(&config).unwrap();
    std::os::unix::fs::symlink("config.yml", &config).unwrap();
    let shown = env.sbx(&["exec", "--agent", "scout", "--", "ls"]);
    assert!(shown.contains("cannot read") && shown.ends_with("[exit 125]\n"), "{shown}");
    std::fs::remove_file(&config).unwrap();
    let record = env.write_record("scout.md", "");
    std::fs::remove_file(&record).unwrap();
    std::os::unix::fs::symlink("scout.md", &record).unwrap();
    let shown = env.sbx(&["exec", "--agent", "scout", "--", "ls"]);
    assert!(shown.contains("cannot read") && shown.ends_with("[exit 125]\n"), "{shown}");
    let shown = env.sbx(&["agents", "lint"]);
    assert!(shown.contains("scout.md") && shown.contains("cannot read"), "{shown}");
    assert!(shown.ends_with("[exit 2]\n"), "{shown}");
}
