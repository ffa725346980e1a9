//! Bad arguments of every kind: a message, exit 2, nothing on stdout, nothing written.

use crate::support::TestEnv;
use expect_test::expect;

#[test]
fn every_bad_command_line_exits_2_with_a_message_and_writes_nothing() {
    let env = TestEnv::new();
    let long = "x".repeat(100_000);
    let lines: &[&[&str]] = &[
        &[],
        &["frob"],
        &["--frob"],
        &[""],
        &["agents"],
        &["agents", "frob"],
        &["agents", "list", "extra"],
        &["agents", "show"],
        &["agents", "show", ""],
        &["agents", "show", "a", "b"],
        &["agents", "show", "no\nbody"],
        &["agents", "show", &long],
        &["agents", "show", "../../etc/passwd"],
        &["agents", "show", "/"],
        &["agents", "show", "/dev/null"],
        &["agents", "show", "~nobody/x.md"],
        &["agents", "capabilities"],
        &["agents", "new"],
        &["agents", "new", "x", "--grant"],
        &["agents", "new", "x", "--grant", &long],
        &["agents", "new", &long, "--yes"],
        &["agents", "lint", "nobody"],
        &["agents", "grant"],
        &["agents", "grant", "nobody", "records.read", "--yes"],
        &["agents", "grant", "scout", "records.read", "--as", "nobody", "--yes"],
        &["agents", "revoke", "scout"],
        &["agents", "trust"],
        &["agents", "trust", ""],
        &["agents", "trust", "/nowhere/x.md"],
        &["check"],
        &["check", "--agent"],
        &["check", "--agent", "scout"],
        &["check", "--agent", "scout", "fs"],
        &["check", "--agent", "scout", "fs.read"],
        &["check", "--agent", "scout", "net.get"],
        &["check", "--agent", "scout", "--batch", "fs.read"],
        &["check", "--agent", "scout", "--frob", "fs.read", "x"],
        &["explain"],
        &["explain", "scout"],
        &["skills"],
        &["skills", "check", "--agent", "scout"],
        &["skills", "list"],
        &["provider-tools"],
        &["schema"],
        &["schema", "frob"],
        &["completions"],
        &["completions", "frob"],
        &["man", "frob"],
        &["--color", "sometimes", "agents", "list"],
        &["--json=maybe", "agents", "list"],
    ];
    for line in lines {
        let shown = env.sbx(line);
        let short: String = shown.chars().take(400).collect();
        assert!(shown.starts_with("[stderr]\n"), "sbx {line:.40?}: {short}");
        assert!(shown.ends_with("[exit 2]\n"), "sbx {line:.40?}: {short}");
        assert!(!shown.contains("panicked"), "sbx {line:.40?}: {short}");
    }
    assert_eq!(env.files(), Vec::<String>::new());
}

#[test]
fn a_mistyped_command_is_answered_with_the_right_one() {
    let env = TestEnv::new();
    expect![[r#"
        [stderr]
        error: unrecognized subcommand 'agent'

          tip: a similar subcommand exists: 'agents'

        Usage: sbx [OPTIONS] <COMMAND>

        For more information, try '--help'.
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agent", "list"]));
    expect![[r#"
        [stderr]
        error: unrecognized subcommand 'lst'

          tip: some similar subcommands exist: 'lint', 'list'

        Usage: sbx agents [OPTIONS] <COMMAND>

        For more information, try '--help'.
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "lst"]));
    expect![[r#"
        [stderr]
        error: unexpected argument '--agnt' found

          tip: a similar argument exists: '--agent'

        Usage: sbx check --agent <AGENT> [CAPABILITY] [OBJECT]...

        For more information, try '--help'.
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["check", "--agnt", "scout"]));
    expect![[r#"
        [stderr]
        error: invalid value 'recrd' for '<WHAT>'
          [possible values: capabilities, record, config, denial, check-request, check-response, outcome, agents, agent, grants, problems, explanation, risk-assessment, risk-suggestions, risk-rules, why, doctor, audit-events, audit-stats, audit-verdict, learn, report, skills, skill-check, provider-tools, mcp-pins, mcp-install, hook-install, tools, tool-problems, tool-run, tool-status, tool-session, operation]

          tip: a similar value exists: 'record'

        For more information, try '--help'.
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["schema", "recrd"]));
}

#[test]
fn arguments_that_are_no_text_are_refused_or_taken_as_bytes() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let env = TestEnv::new();
    let odd = OsStr::from_bytes(b"caf\xe9");
    let words = |words: &'static str| words.split(' ').map(OsStr::new).chain([odd]).collect::<Vec<_>>();
    expect![[r#"
        allowed: fs.read [PROJECT]/caf�
          by medium  fs.read{in=$PROJECT}  in [PROJECT]  built-in:agents/scout.md:7
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&words("check --agent scout fs.read")));
    expect![[r#"
        [stderr]
        error: net.get is asked about one object
          hint: sbx check --agent A fs.read PATH | net.get URL | proc.exec -- COMMAND | proc.eval 'TEXT'
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&words("check --agent scout net.get")));
    expect![[r#"
        [stderr]
        error: invalid UTF-8 was detected in one or more arguments

        Usage: sbx agents new [OPTIONS] <NAME>

        For more information, try '--help'.
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&words("agents new --yes")));
}

#[test]
fn json_errors_stay_on_stderr() {
    let env = TestEnv::new();
    expect![[r#"
        [stderr]
        error: there is no agent `nobody`
          hint: `sbx agents list` shows every agent
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["--json", "agents", "show", "nobody"]));
}
