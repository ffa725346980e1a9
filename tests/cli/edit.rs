//! `sbx agents grant` and `revoke`.

use crate::support::TestEnv;
use expect_test::expect;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;

const COMMENTED: &str = "\
# before
id: agents/a   # who
capabilities:   # what
  # the first
  - records.read   # low
  # the second
  - net.get: {hosts: [a.example, b.example]}  # two hosts
  # the end
limits: {wall: 5m}  # after
";

fn with_record(text: &str) -> TestEnv {
    let env = TestEnv::new();
    env.write_record("a.md", text);
    env
}

fn text_of(env: &TestEnv) -> String {
    std::fs::read_to_string(env.record("a.md")).expect("the record")
}

#[test]
fn a_grant_is_shown_before_it_is_written() {
    let env = with_record("---\ncapabilities: [records.read]\n---\n");
    expect![[r#"
        granted net.get{hosts=[api.example.com]} in [HOME]/.config/sbx/agents/a.md
        [stderr]
        agent:  a
        grant:  net.get{hosts=[api.example.com]}
        risk:   medium
        effect: a will be able to fetch over the network (GET, HEAD, OPTIONS)
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "net.get{hosts=[api.example.com]}", "--yes"]));
    expect![[r#"
        ---
        capabilities: [records.read, {net.get: {hosts: [api.example.com]}}]
        ---
    "#]]
    .assert_eq(&text_of(&env));
}

#[test]
fn without_a_terminal_and_without_yes_nothing_is_granted() {
    let env = with_record("---\ncapabilities: [records.read]\n---\n");
    let before = text_of(&env);
    expect![[r#"
        [stderr]
        agent:  a
        grant:  records.create
        risk:   low
        effect: a will be able to create records
        error: this needs a yes, and there is no terminal to ask on
          hint: add --yes
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "records.create"]));
    assert_eq!(text_of(&env), before);
}

#[test]
fn without_a_terminal_there_is_no_picker() {
    let env = with_record("---\ncapabilities: [records.read]\n---\n");
    expect![[r#"
        [stderr]
        error: there is no terminal to pick a grant on
          hint: give the grant in compact form
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "--yes"]));
}

#[test]
fn a_grant_that_is_there_already_changes_nothing() {
    let env = with_record("---\ncapabilities: [records.read]\n---\n");
    expect![[r#"
        records.read is already there; nothing was changed
        [stderr]
        agent:  a
        grant:  records.read
        risk:   low
        effect: none: it is already covered
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "records.read", "--yes"]));
}

#[test]
fn a_grant_without_a_scope_is_said_to_allow_nothing() {
    let env = with_record("---\ncapabilities: []\n---\n");
    expect![[r#"
        granted net.get in [HOME]/.config/sbx/agents/a.md
        [stderr]
        agent:  a
        grant:  net.get
        risk:   medium
        effect: none: without `hosts` it allows nothing
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "net.get", "--yes"]));
    expect![[r#"
        granted fs.write in [HOME]/.config/sbx/agents/a.md
        [stderr]
        agent:  a
        grant:  fs.write
        risk:   high
        effect: none: without `in`, or a root of the agent's own, it allows nothing
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "fs.write", "--yes"]));
}

#[test]
fn a_grant_answers_machines() {
    let env = with_record("---\nsandbox: ~/x\n---\n");
    expect![[r#"
        {
          "changed": true,
          "grant": "records.create",
          "file": "[HOME]/.config/sbx/agents/a.md",
          "dissolved": true
        }
        [stderr]
        agent:  a
        grant:  records.create
        risk:   low
        effect: a will be able to create records
        shorthands of the record were spelled out
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "records.create", "--yes", "--json"]));
    expect![[r#"
        ---
        capabilities:
          - fs.read: {in: ~/x}
          - fs.write: {in: ~/x}
          - proc.exec: {in: ~/x}
          - records.read
          - records.create
        ---
    "#]]
    .assert_eq(&text_of(&env));
}

#[test]
fn a_wrong_grant_is_refused_with_the_reason() {
    let env = with_record("---\ncapabilities: [records.read]\n---\n");
    let before = text_of(&env);
    for spec in [
        "fs.reed",
        "fs.read{on=[x]}",
        "fs.read{in=relative}",
        "net.get{hosts=[a.*.b]}",
        "net.get{hosts=[x]",
        "fs.read{in=~/x,paths=[../y]}",
        "",
    ] {
        let shown = env.sbx(&["agents", "grant", "a", spec, "--yes"]);
        assert!(shown.starts_with("[stderr]\nerror") && shown.ends_with("[exit 2]\n"), "{spec}: {shown}");
    }
    expect![[r#"
        [stderr]
        error[unknown_scope_key]: fs.read has no scope key `on`
         --> spec:1:9
          |
        1 | fs.read{on=[x]}
          |         ^^
          = help: fs.read takes in, paths
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "fs.read{on=[x]}", "--yes"]));
    assert_eq!(text_of(&env), before);
}

#[test]
fn comments_order_and_everything_else_stay_byte_for_byte() {
    let env = with_record(&format!("---\n{COMMENTED}---\n# Body\n\n---\ncapabilities: [not, me]\n"));
    env.sbx(&["agents", "grant", "a", "fs.read{in=/srv/x}", "--yes"]);
    expect![[r#"
        ---
        # before
        id: agents/a   # who
        capabilities:   # what
          # the first
          - records.read   # low
          # the second
          - net.get: {hosts: [a.example, b.example]}  # two hosts
          - fs.read: {in: /srv/x}
          # the end
        limits: {wall: 5m}  # after
        ---
        # Body

        ---
        capabilities: [not, me]
    "#]]
    .assert_eq(&text_of(&env));
    env.sbx(&["agents", "revoke", "a", "net.get{hosts=[a.example]}", "--yes"]);
    expect![[r#"
        ---
        # before
        id: agents/a   # who
        capabilities:   # what
          # the first
          - records.read   # low
          # the second
          - net.get: {hosts: [b.example]}  # two hosts
          - fs.read: {in: /srv/x}
          # the end
        limits: {wall: 5m}  # after
        ---
        # Body

        ---
        capabilities: [not, me]
    "#]]
    .assert_eq(&text_of(&env));
    env.sbx(&["agents", "revoke", "a", "fs.read", "--yes"]);
    env.sbx(&["agents", "grant", "a", "net.get{hosts=[a.example]}", "--yes"]);
    expect![[r#"
        ---
        # before
        id: agents/a   # who
        capabilities:   # what
          # the first
          - records.read   # low
          # the second
          - net.get: {hosts: [b.example]}  # two hosts
          - net.get: {hosts: [a.example]}
          # the end
        limits: {wall: 5m}  # after
        ---
        # Body

        ---
        capabilities: [not, me]
    "#]]
    .assert_eq(&text_of(&env));
}

#[test]
fn grant_then_revoke_gives_the_same_bytes_back() {
    let before = format!("---\n{COMMENTED}---\n# Body\n");
    let env = with_record(&before);
    env.sbx(&["agents", "grant", "a", "fs.read{in=/srv/x}", "--yes"]);
    assert_ne!(text_of(&env), before);
    env.sbx(&["agents", "revoke", "a", "fs.read{in=/srv/x}", "--yes"]);
    assert_eq!(text_of(&env), before);
}

#[test]
fn carriage_returns_and_a_byte_order_mark_stay() {
    let text = "\u{feff}---\r\ncapabilities:\r\n  - records.read\r\n---\r\nBody\r\n";
    let env = with_record(text);
    env.sbx(&["agents", "grant", "a", "records.create", "--yes"]);
    let after = text_of(&env);
    assert_eq!(after, text.replace("records.read\r\n", "records.read\r\n  - records.create\r\n"));
}

#[test]
fn plain_yaml_is_edited_too() {
    let env = TestEnv::new();
    let file = env.write_record("plain.yml", COMMENTED);
    env.sbx(&["agents", "grant", "plain", "records.create", "--yes"]);
    let after = std::fs::read_to_string(file).expect("the record");
    assert_eq!(after, COMMENTED.replace("  # the end\n", "  - records.create\n  # the end\n"), "{after}");
}

#[test]
fn the_mode_is_kept() {
    let env = with_record("---\ncapabilities: [records.read]\n---\n");
    for mode in [0o640, 0o444, 0o600] {
        std::fs::set_permissions(env.record("a.md"), std::fs::Permissions::from_mode(mode)).expect("chmod");
        let spec = format!("fs.read{{in=/srv/{mode}}}");
        let shown = env.sbx(&["agents", "grant", "a", &spec, "--yes"]);
        assert!(shown.contains("[exit 0]"), "{shown}");
        let after = std::fs::metadata(env.record("a.md")).expect("the record").mode();
        assert_eq!(after & 0o7777, mode);
    }
}

#[test]
fn the_owner_is_kept_when_root_edits() {
    let env = with_record("---\ncapabilities: [records.read]\n---\n");
    let own = std::fs::metadata(env.record("a.md")).expect("the record").uid();
    // Only root can give a file away; for others the owner is themselves.
    let owner = if own == 0 { 12345 } else { own };
    std::os::unix::fs::chown(env.record("a.md"), Some(owner), None).expect("chown");
    env.sbx(&["agents", "grant", "a", "records.create", "--yes"]);
    assert_eq!(std::fs::metadata(env.record("a.md")).expect("the record").uid(), owner);
}

#[test]
fn a_linked_record_is_rewritten_where_it_lies() {
    let env = TestEnv::new();
    let real = env.write("home/dotfiles/a.md", "---\ncapabilities: [records.read]\n---\n");
    std::fs::create_dir_all(env.record("a.md").parent().expect("a parent")).expect("directories");
    std::os::unix::fs::symlink(&real, env.record("a.md")).expect("a link");
    expect![[r#"
        granted records.create in [HOME]/dotfiles/a.md
        [stderr]
        agent:  a
        grant:  records.create
        risk:   low
        effect: a will be able to create records
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "records.create", "--yes"]));
    assert!(env.record("a.md").is_symlink());
    assert!(std::fs::read_to_string(real).expect("the record").contains("records.create"));
}

#[test]
fn of_many_grants_at_once_none_is_lost() {
    let env = with_record("---\ncapabilities: []\n---\n");
    let specs: Vec<String> = (0..24).map(|number| format!("net.get{{hosts=[h{number}.example]}}")).collect();
    let children: Vec<_> =
        specs.iter().map(|spec| env.spawn(&["agents", "grant", "a", spec, "--yes"], Stdio::null())).collect();
    for child in children {
        let output = child.wait_with_output().expect("sbx ends");
        assert!(output.status.success(), "{}", env.shown(&output));
    }
    let held = env.json(&["--json", "agents", "capabilities", "a"]).to_string();
    for spec in specs {
        assert!(held.contains(&spec), "{spec} was lost: {held}");
    }
    let files: Vec<String> = env.files();
    assert_eq!(files, ["[HOME]/.config/sbx/agents/a.md"], "nothing is left beside the record");
}

#[test]
fn revoke_with_a_scope_takes_those_items_and_bare_takes_the_verb() {
    let env = with_record(
        "---\ncapabilities:\n  - net.get: {hosts: [a.example, b.example]}\n  - records.read\n---\n",
    );
    expect![[r#"
        revoked net.get{hosts=[a.example]} in [HOME]/.config/sbx/agents/a.md
        [stderr]
        take net.get{hosts=[a.example]} away from [HOME]/.config/sbx/agents/a.md
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "revoke", "a", "net.get{hosts=[a.example]}", "--yes"]));
    expect![[r#"
        ---
        capabilities:
          - net.get: {hosts: [b.example]}
          - records.read
        ---
    "#]]
    .assert_eq(&text_of(&env));
    expect![[r#"
        {
          "changed": true,
          "grant": "net.get",
          "file": "[HOME]/.config/sbx/agents/a.md",
          "dissolved": false
        }
        [stderr]
        take net.get away from [HOME]/.config/sbx/agents/a.md
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "revoke", "a", "net.get", "--yes", "--json"]));
    expect![[r#"
        ---
        capabilities:
          - records.read
        ---
    "#]]
    .assert_eq(&text_of(&env));
}

#[test]
fn what_is_not_held_cannot_be_revoked() {
    let env = with_record("---\ncapabilities:\n  - fs.read: {in: /srv}\n---\n");
    expect![[r#"
        [stderr]
        error: net.get is not granted in these words, so it cannot be revoked
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "revoke", "a", "net.get", "--yes"]));
    expect![[r#"
        [stderr]
        error: fs.read{in=/srv/x} is not granted in these words, so it cannot be revoked
          hint: it is part of fs.read{in=/srv}: revoke that, and grant what is to stay
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "revoke", "a", "fs.read{in=/srv/x}", "--yes"]));
}

#[test]
fn revoking_the_last_grant_leaves_no_authority_rather_than_the_default() {
    let env = with_record("---\ncapabilities:\n  - net.get: {hosts: [a.example]}\n---\n");
    env.sbx(&["agents", "revoke", "a", "net.get", "--yes"]);
    expect![[r#"
        ---
        capabilities: []
        ---
    "#]]
    .assert_eq(&text_of(&env));
    expect![[r#"
        no authority
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "capabilities", "a"]));
}

#[test]
fn a_revoke_dissolves_shorthands() {
    let env = with_record("---\nsandbox: ~/site  # the site\naccess: rw\n---\nBody\n");
    expect![[r#"
        revoked fs.write in [HOME]/.config/sbx/agents/a.md
        [stderr]
        take fs.write away from [HOME]/.config/sbx/agents/a.md
        shorthands of the record were spelled out
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "revoke", "a", "fs.write", "--yes"]));
    expect![[r#"
        ---
        capabilities:
          - records.read
          - records.create
          - records.update
          - fs.read: {in: ~/site}
          - proc.exec: {in: ~/site}
        ---
        Body
    "#]]
    .assert_eq(&text_of(&env));
    expect![[r#"
        high    proc.exec{in=~/site}  in [HOME]/site  [HOME]/.config/sbx/agents/a.md:7
        medium  fs.read{in=~/site}  in [HOME]/site  [HOME]/.config/sbx/agents/a.md:6
        medium  records.update  [HOME]/.config/sbx/agents/a.md:5
        low     records.create  [HOME]/.config/sbx/agents/a.md:4
        low     records.read  [HOME]/.config/sbx/agents/a.md:3
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "capabilities", "a"]));
}

#[test]
fn a_built_in_agent_cannot_be_changed() {
    let env = TestEnv::new();
    expect![[r#"
        [stderr]
        error: scout is built in and cannot be changed
          hint: make your own of it: sbx agents new scout --from scout
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "scout", "net.get{hosts=[x.dev]}", "--yes"]));
    expect![[r#"
        [stderr]
        error: scout is built in and cannot be changed
          hint: make your own of it: sbx agents new scout --from scout
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "revoke", "scout", "fs.read", "--yes"]));
    assert_eq!(env.files(), Vec::<String>::new());
}

#[test]
fn a_copy_of_a_built_in_agent_can_be_changed() {
    let env = TestEnv::new();
    expect![[r#"
        wrote [HOME]/.config/sbx/agents/fetcher.md
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "new", "fetcher", "--from", "fetcher"]));
    expect![[r#"
        revoked net.get in [HOME]/.config/sbx/agents/fetcher.md
        [stderr]
        take net.get away from [HOME]/.config/sbx/agents/fetcher.md
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "revoke", "fetcher", "net.get", "--yes"]));
}

#[test]
fn what_is_revoked_is_gone_wherever_it_stands() {
    let env = TestEnv::new();
    let allowed =
        |verb: &str, object: &str| env.sbx(&["check", "--agent", "a", verb, object]).ends_with("[exit 0]\n");
    env.write_record(
        "a.md",
        "---\ncapabilities:\n  - net.get: {hosts: [a.com]}\n  - net.get: {hosts: [a.com, b.com]}\n---\n",
    );
    env.sbx(&["agents", "revoke", "a", "net.get{hosts=[a.com]}", "--yes"]);
    assert!(!allowed("net.get", "https://a.com") && allowed("net.get", "https://b.com"));
    env.write_record("a.md", "---\ncapabilities:\n  - records.update\n  - records.update: {classes: [inbox]}\n  - records.read\n---\n");
    env.sbx(&["agents", "revoke", "a", "records.update", "--yes"]);
    assert!(!allowed("records.update", "x") && allowed("records.read", "x"));
    assert!(!std::fs::read_to_string(env.record("a.md")).unwrap().contains("inbox"));
}

#[test]
fn a_grant_without_a_root_takes_the_one_that_the_record_is_about_to_lose() {
    let env = TestEnv::new();
    env.write_record("a.md", "---\nsandbox: /srv\n---\n");
    env.sbx(&["agents", "grant", "a", "fs.delete", "--yes"]);
    let shown = env.sbx(&["check", "--agent", "a", "fs.delete", "/srv/x"]);
    assert!(shown.ends_with("[exit 0]\n"), "{shown}");
}
