//! `sbx agents new` in scripts; the wizard is in `terminal.rs`.

use crate::support::TestEnv;
use expect_test::expect;

fn read(env: &TestEnv, name: &str) -> String {
    std::fs::read_to_string(env.record(name)).expect("the record")
}

#[test]
fn flags_write_a_record_that_lints_clean() {
    let env = TestEnv::new();
    let args = [
        "agents",
        "new",
        "web",
        "--root",
        "~/site",
        "--description",
        "keeps the site: \"all\" of it",
        "--grant",
        "fs.read",
        "--grant",
        "proc.exec{cmds=[make],patterns=[npm test *]}",
        "--grant",
        "net.get{hosts=[\"*.example.com\"]}",
    ];
    expect![[r#"
        wrote [HOME]/.config/sbx/agents/web.md
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&args));
    expect![[r#"
        ---
        id: agents/web
        class: agent
        description: "keeps the site: \"all\" of it"
        sandbox: {root: ~/site}
        capabilities:
          - fs.read
          - proc.exec: {cmds: [make], patterns: ["npm test *"]}
          - net.get: {hosts: ["*.example.com"]}
        ---
        # web
    "#]]
    .assert_eq(&read(&env, "web.md"));
    expect![[r#"
        [HOME]/.config/sbx/agents/web.md: fine
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "lint", "web"]));
    expect![[r#"
        high    proc.exec{cmds=[make],patterns=[npm test *]}  in [HOME]/site  [HOME]/.config/sbx/agents/web.md:8
        medium  fs.read  in [HOME]/site  [HOME]/.config/sbx/agents/web.md:7
        medium  net.get{hosts=[*.example.com]}  [HOME]/.config/sbx/agents/web.md:9
        [exit 0]
    "#]].assert_eq(&env.sbx(&["agents", "capabilities", "web"]));
}

#[test]
fn nothing_given_and_no_terminal_writes_nothing() {
    let env = TestEnv::new();
    expect![[r#"
        [stderr]
        error: there is no terminal to ask on, and nothing was given to write
          hint: give --grant, --root, --description or --from; --yes writes a record without authority
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "new", "web"]));
    assert_eq!(env.files(), Vec::<String>::new());
}

#[test]
fn yes_alone_writes_a_record_without_authority() {
    let env = TestEnv::new();
    expect![[r#"
        {
          "file": "[HOME]/.config/sbx/agents/web.md"
        }
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "new", "web", "--yes", "--json"]));
    expect![[r#"
        no authority
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "capabilities", "web"]));
}

#[test]
fn an_existing_record_is_not_overwritten() {
    let env = TestEnv::new();
    env.write_record("web.md", "mine");
    expect![[r#"
        [stderr]
        error: [HOME]/.config/sbx/agents/web.md exists already
          hint: change it with `sbx agents grant`
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "new", "web", "--yes"]));
    assert_eq!(read(&env, "web.md"), "mine");
}

#[test]
fn a_copy_takes_the_new_name() {
    let env = TestEnv::new();
    env.sbx(&["agents", "new", "looker", "--from", "fetcher"]);
    expect![[r#"
        ---
        id: agents/looker
        class: agent
        description: fetches from the public internet, and nothing else
        capabilities:
          - records.read
          # GET, HEAD and OPTIONS on public hosts. `*` never reaches this machine or its network.
          - net.get: {hosts: ["*"]}
        limits: {wall: 5m}
        ---
        # Fetcher

        Reads the web. It holds no files, runs no programs, and cannot send anything but requests to fetch.
    "#]]
    .assert_eq(&read(&env, "looker.md"));
    let shown = env.json(&["--json", "agents", "show", "looker"]);
    assert_eq!(shown["id"], "looker");
    let quoted = env.write("project/q.md", "---\n'id': \"agents/q\" # who\ncapabilities: []\n---\n");
    env.sbx(&["agents", "new", "r", "--from", &quoted.display().to_string()]);
    assert_eq!(read(&env, "r.md"), "---\n'id': agents/r # who\ncapabilities: []\n---\n");
}

#[test]
fn a_projects_record_still_has_to_be_trusted() {
    let env = TestEnv::new();
    expect![[r#"
        wrote [PROJECT]/.sbx/agents/local.md
        [stderr]
        a project's record is used once trusted: sbx agents trust [PROJECT]/.sbx/agents/local.md
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "new", "local", "--project", "--grant", "fs.read{in=$PROJECT}"]));
    expect![[r#"
        [stderr]
        error: [PROJECT]/.sbx/agents/local.md is a project's record that you have not trusted in its present form
          hint: look at what it grants, then: sbx agents trust [PROJECT]/.sbx/agents/local.md
        [exit 2]
    "#]].assert_eq(&env.sbx(&["agents", "show", "local"]));
}

#[test]
fn wrong_names_and_grants_write_nothing() {
    let env = TestEnv::new();
    for name in ["../up", ".hidden", "a/b", "", "sp ace", "bell\u{7}"] {
        let shown = env.sbx(&["agents", "new", name, "--yes"]);
        assert!(shown.starts_with("[stderr]\nerror: ") && shown.ends_with("[exit 2]\n"), "{name}: {shown}");
    }
    expect![[r#"
        [stderr]
        error: `../up` is not a name for an agent
          hint: letters, digits, `.`, `_` and `-`, not starting with a dot
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "new", "../up", "--yes"]));
    expect![[r#"
        [stderr]
        error[unknown_capability]: there is no capability `fs.raed`
         --> spec:1:1
          |
        1 | fs.raed{in=/x}
          | ^^^^^^^
          = did you mean `fs.read`?
          = help: `sbx schema capabilities` lists all seventeen
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "new", "a", "--grant", "fs.raed{in=/x}"]));
    expect![[r#"
        [stderr]
        error[scope_type]: `*x` is no host pattern: `*` stands alone or as `*.` at the start, not in `*x`
         --> spec
          = help: write `example.com`, `*.example.com` or `*`, each with an optional `:port`
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "new", "a", "--grant", "net.get{hosts=[*x]}"]));
    expect![[r#"
        [stderr]
        error: the record would have errors
        error[bad_section]: the root `relative` is not absolute
         --> [HOME]/.config/sbx/agents/a.md:4:10
          |
        4 | sandbox: {root: relative}
          |          ^^^^^^^^^^^^^^^^
          = help: a root is absolute, or starts with `~` or `$PROJECT`
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "new", "a", "--root", "relative"]));
    expect![[r#"
        [stderr]
        error: there is no agent `nobody`
          hint: `sbx agents list` shows every agent
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "new", "a", "--from", "nobody"]));
    expect![[r#"
        [stderr]
        error: the argument '--from <AGENT>' cannot be used with '--root <DIR>'

        Usage: sbx agents new --from <AGENT> <NAME>

        For more information, try '--help'.
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "new", "a", "--from", "scout", "--root", "/x"]));
    assert_eq!(env.files(), Vec::<String>::new());
}
