//! `sbx explain`: the narrowing chain as a receipt.

use crate::support::TestEnv;
use expect_test::expect;

#[test]
fn each_level_is_shown_with_what_it_narrowed() {
    let env = TestEnv::new();
    env.write("home/.config/sbx/config.yml", "sandbox: ~/work\n");
    env.write_record("a.md", "---\nsandbox: {root: ~/work/site}\ncapabilities:\n  - fs.read\n  - fs.write: {in: ~/work/site/out}\n  - fs.delete: {in: /tmp/x}\n---\n");
    expect![[r#"
        a  [HOME]/.config/sbx/agents/a.md

        chain
          config `sandbox`   [HOME]/work  [HOME]/.config/sbx/config.yml:1
          project directory  names no root
          agent `sandbox`    [HOME]/work/site  [HOME]/.config/sbx/agents/a.md:2
          root               [HOME]/work/site

        authority
          high    fs.delete{in=/tmp/x}  in [HOME]/work/site  (clamped)  [HOME]/.config/sbx/agents/a.md:6
          high    fs.write{in=~/work/site/out}  in [HOME]/work/site/out  [HOME]/.config/sbx/agents/a.md:5
          medium  fs.read  in [HOME]/work/site  [HOME]/.config/sbx/agents/a.md:4

        hash  sha256:[HASH]
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["explain", "--agent", "a"]));
}

#[test]
fn a_level_outside_the_one_above_is_clamped_and_both_are_named() {
    let env = TestEnv::new();
    env.write("home/.config/sbx/config.yml", "sandbox: ~/work\n");
    env.write_record("a.md", "---\nsandbox: {root: /srv}\ncapabilities: [fs.read]\n---\n");
    expect![[r#"
        a  [HOME]/.config/sbx/agents/a.md

        chain
          config `sandbox`   [HOME]/work  [HOME]/.config/sbx/config.yml:1
          project directory  names no root
          agent `sandbox`    /srv  [HOME]/.config/sbx/agents/a.md:2
                             outside the level above: narrowed to [HOME]/work
          root               [HOME]/work

        authority
          medium  fs.read  in [HOME]/work  [HOME]/.config/sbx/agents/a.md:3

        hash  sha256:[HASH]
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["explain", "--agent", "a"]));
    expect![[r#"
        {
          "agent": "a",
          "file": "[HOME]/.config/sbx/agents/a.md",
          "levels": [
            {
              "level": "config",
              "root": "[HOME]/work",
              "place": {
                "file": "[HOME]/.config/sbx/config.yml",
                "line": 1,
                "column": 10
              },
              "narrowed_to": null
            },
            {
              "level": "agent",
              "root": "/srv",
              "place": {
                "file": "[HOME]/.config/sbx/agents/a.md",
                "line": 2,
                "column": 1
              },
              "narrowed_to": "[HOME]/work"
            }
          ],
          "root": "[HOME]/work",
          "grants": [
            {
              "capability": "fs.read",
              "grant": "fs.read",
              "risk": "medium",
              "root": "[HOME]/work",
              "inert": false,
              "clamped": false,
              "origin": "capabilities",
              "place": {
                "file": "[HOME]/.config/sbx/agents/a.md",
                "line": 3,
                "column": 16
              }
            }
          ],
          "hash": "sha256:[HASH]"
        }
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["explain", "--agent", "a", "--json"]));
}

fn hash(record: &str) -> String {
    let env = TestEnv::new();
    env.write_record("a.md", record);
    env.json(&["--json", "explain", "--agent", "a"])["hash"].as_str().expect("a hash").to_owned()
}

#[test]
fn the_hash_is_of_the_authority_not_of_its_wording() {
    let one =
        hash("---\ncapabilities:\n  - records.read\n  - net.get: {hosts: [a.example, b.example]}\n---\n");
    for same in [
        "---\ncapabilities:\n  - net.get: {hosts: [b.example, a.example]}\n  - records.read\n---\nOther body\n",
        "---\ncapabilities:\n  - records.read   # a comment\n  - 'net.get{hosts=[a.example,b.example]}'\n---\n",
        "---\ndescription: other\ncapabilities: [records.read, records.read, {net.get: {hosts: [B.example., a.example]}}]\n---\n",
    ] {
        assert_eq!(hash(same), one, "{same}");
    }
    let other =
        hash("---\ncapabilities:\n  - records.read\n  - net.get: {hosts: [a.example, c.example]}\n---\n");
    assert_ne!(other, one);
}

#[test]
fn an_unknown_agent_has_no_receipt() {
    let env = TestEnv::new();
    expect![[r#"
        [stderr]
        error: there is no agent `nobody`
          hint: `sbx agents list` shows every agent
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["explain", "--agent", "nobody"]));
    expect![[r#"
        [stderr]
        error: the following required arguments were not provided:
          --agent <AGENT>

        Usage: sbx explain --agent <AGENT> [COMMAND]...

        For more information, try '--help'.
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["explain"]));
}

#[test]
fn authority_is_drawn_as_a_tree() {
    let env = TestEnv::new();
    env.write_record("a.md", "---\nsandbox: {root: ~/work}\ncapabilities:\n  - fs.read: {paths: [docs, '*.md']}\n  - fs.write\n  - proc.exec: {cmds: [git, rg]}\n  - net.get: {hosts: [a.example]}\n---\n");
    expect![[r#"
        a  [HOME]/.config/sbx/agents/a.md

        chain
          config `sandbox`   names no root
          project directory  names no root
          agent `sandbox`    [HOME]/work  [HOME]/.config/sbx/agents/a.md:2
          root               [HOME]/work

        authority
          ├─ read  medium
          │  ├─ [HOME]/work  medium  [HOME]/.config/sbx/agents/a.md:4
          │  │  └─ docs, *.md
          │  └─ [HOME]/work  medium  (only the processes it runs)  [HOME]/.config/sbx/agents/a.md:6
          ├─ write  high
          │  └─ [HOME]/work  and everything below  high  [HOME]/.config/sbx/agents/a.md:5
          ├─ delete  nothing
          ├─ run  high
          │  └─ in [HOME]/work  high  [HOME]/.config/sbx/agents/a.md:6
          │     └─ git, rg
          └─ reach  medium
             └─ a.example  get  medium  [HOME]/.config/sbx/agents/a.md:7

        hash  sha256:[HASH]
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["explain", "--agent", "a", "--tree"]));
    let schema = jsonschema::validator_for(&env.json(&["schema", "explanation"])).expect("a schema");
    let answer = env.json(&["explain", "--agent", "a", "--tree", "--json"]);
    let errors: Vec<String> = schema.iter_errors(&answer).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(answer["tree"][3]["label"], "run");
}

#[test]
fn a_command_is_shown_with_its_plan_and_what_the_backend_is_told() {
    let env = TestEnv::new();
    let shown = env.sbx(&["explain", "--agent", "scout", "--", "ls", "-l"]);
    for line in [
        "plan\n  program /usr/bin/ls\n  arg ls\n  arg -l\n",
        "\n  bind ro nocode [PROJECT] [PROJECT]\n",
        "\n  network none\n  exec listed\n",
        "backend native\n  namespaces user mount pid ipc uts cgroup network\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let shown = env.sbx(&["explain", "--agent", "scout", "--backend", "bwrap", "--", "ls"]);
    assert!(shown.contains("\n    --ro-bind [PROJECT] [PROJECT]\n"), "{shown}");
    assert!(shown.contains("\n    --unshare-net\n"), "{shown}");
    let schema = jsonschema::validator_for(&env.json(&["schema", "explanation"])).expect("a schema");
    let answer = env.json(&["explain", "--json", "--agent", "scout", "--", "ls"]);
    assert!(schema.is_valid(&answer) && answer["backend"] == "native", "{answer}");
    // What would not be run has no plan.
    let shown = env.sbx(&["explain", "--agent", "scout", "--", "rm", "x"]);
    assert!(shown.starts_with("scope_violation") && shown.ends_with("[exit 1]\n"), "{shown}");
}
