//! `sbx agents list`, `show`, `capabilities`, `lint`.

use crate::support::TestEnv;
use expect_test::expect;

const DEPLOYER: &str = "\
---
id: agents/deployer
description: ships the site
sandbox: {root: ~/site}
capabilities:
  - net.post: {hosts: [api.example.com]}
  - fs.read
  - fs.write: {in: ~/elsewhere}
  - records.read
---
# Deployer
Ships.
";

#[test]
fn built_in_agents_are_listed_with_their_highest_risk() {
    let env = TestEnv::new();
    expect![[r#"
        builder  built-in  high    edits, builds and tests the current project, without network
        fetcher  built-in  medium  fetches from the public internet, and nothing else
        scout    built-in  high    reads the current project and runs read-only tools in it
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "list"]));
}

#[test]
fn a_users_agent_is_listed_before_the_built_in_ones_and_hides_one_of_the_same_name() {
    let env = TestEnv::new();
    env.write_record("scout.md", "---\ndescription: my own scout\ncapabilities: []\n---\n");
    expect![[r#"
        scout    user      none    my own scout
        builder  built-in  high    edits, builds and tests the current project, without network
        fetcher  built-in  medium  fetches from the public internet, and nothing else
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "list"]));
}

#[test]
fn a_list_for_machines_says_where_each_agent_is_from() {
    let env = TestEnv::new();
    env.write_record("broken.md", "---\ncapabilities: [\n---\n");
    let rows = env.json(&["--json", "agents", "list"]);
    let row = &rows[0];
    assert_eq!(row["name"], "broken");
    assert_eq!(row["from"], "user");
    assert_eq!(row["highest_risk"], serde_json::Value::Null);
    assert_eq!(rows.as_array().map(Vec::len), Some(4));
}

#[test]
fn a_record_is_shown_with_what_becomes_of_it() {
    let env = TestEnv::new();
    env.write_record("deployer.md", DEPLOYER);
    expect![[r#"
        deployer  (user, [HOME]/.config/sbx/agents/deployer.md)
        ships the site

        high    fs.write{in=~/elsewhere}  in [HOME]/site  (clamped)  [HOME]/.config/sbx/agents/deployer.md:8
        high    net.post{hosts=[api.example.com]}  [HOME]/.config/sbx/agents/deployer.md:6
        medium  fs.read  in [HOME]/site  [HOME]/.config/sbx/agents/deployer.md:7
        low     records.read  [HOME]/.config/sbx/agents/deployer.md:9

        # Deployer
        Ships.
        [stderr]
        warning[root_clamped]: the grant `in` ~/elsewhere lies outside [HOME]/site of the agent `sandbox` ([HOME]/.config/sbx/agents/deployer.md:4) and was narrowed to that
         --> [HOME]/.config/sbx/agents/deployer.md:8:5
          |
        8 |   - fs.write: {in: ~/elsewhere}
          |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^
          = help: a deeper root can only narrow; widen the outer one first
        [exit 0]
    "#]].assert_eq(&env.sbx(&["agents", "show", "deployer"]));
}

#[test]
fn a_record_is_shown_for_machines() {
    let env = TestEnv::new();
    env.write_record("deployer.md", "---\ncapabilities: [fs.read]\nlimits: {wall: 2m}\n---\nBody\n");
    expect![[r#"
        {
          "id": "deployer",
          "description": null,
          "from": "user",
          "file": "[HOME]/.config/sbx/agents/deployer.md",
          "root": null,
          "grants": [
            {
              "capability": "fs.read",
              "grant": "fs.read",
              "risk": "medium",
              "root": null,
              "inert": true,
              "clamped": false,
              "origin": "capabilities",
              "place": {
                "file": "[HOME]/.config/sbx/agents/deployer.md",
                "line": 2,
                "column": 16
              }
            }
          ],
          "limits": {
            "wall": "120s"
          },
          "env": [],
          "listen": [],
          "accept_degraded": [],
          "provider_tools": [],
          "problems": [
            {
              "code": "inert",
              "severity": "warning",
              "message": "fs.read allows nothing: no level names a root",
              "place": {
                "file": "[HOME]/.config/sbx/agents/deployer.md",
                "line": 2,
                "column": 16
              },
              "help": "add `in: PATH` to the grant, or `sandbox: {root: PATH}` to the record",
              "suggest": null,
              "key": null,
              "capabilities": [
                "fs.read"
              ]
            }
          ],
          "body": "Body\n"
        }
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "show", "deployer", "--json"]));
}

#[test]
fn capabilities_come_highest_risk_first_with_root_and_place_and_inert_ones_marked() {
    let env = TestEnv::new();
    env.write_record("deployer.md", DEPLOYER.replace("sandbox: {root: ~/site}\n", ""));
    expect![[r#"
        high    fs.write{in=~/elsewhere}  in [HOME]/elsewhere  [HOME]/.config/sbx/agents/deployer.md:7
        high    net.post{hosts=[api.example.com]}  [HOME]/.config/sbx/agents/deployer.md:5
        medium  fs.read  (inert: no root)  [HOME]/.config/sbx/agents/deployer.md:6
        low     records.read  [HOME]/.config/sbx/agents/deployer.md:8
        [stderr]
        warning[inert]: fs.read allows nothing: no level names a root
         --> [HOME]/.config/sbx/agents/deployer.md:6:5
          |
        6 |   - fs.read
          |     ^^^^^^^
          = help: add `in: PATH` to the grant, or `sandbox: {root: PATH}` to the record
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "capabilities", "deployer"]));
}

#[test]
fn risks_are_coloured_when_asked_for() {
    let env = TestEnv::new();
    env.write_record("a.md", "---\ncapabilities: [records.read, records.delete]\n---\n");
    expect![[r#"
        ESC[31mhigh  ESC[0m  records.delete  ESC[2m[HOME]/.config/sbx/agents/a.md:2ESC[0m
        ESC[32mlow   ESC[0m  records.read  ESC[2m[HOME]/.config/sbx/agents/a.md:2ESC[0m
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "capabilities", "a", "--color", "always"]).replace('\u{1b}', "ESC"));
}

#[test]
fn an_agent_without_grants_has_no_authority() {
    let env = TestEnv::new();
    env.write_record("none.md", "---\ncapabilities: []\n---\n");
    expect![[r#"
        no authority
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "capabilities", "none"]));
}

#[test]
fn an_unknown_agent_is_answered_with_the_nearest_name() {
    let env = TestEnv::new();
    expect![[r#"
        [stderr]
        error: there is no agent `scot`; did you mean `scout`?
          hint: `sbx agents list` shows every agent
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "show", "scot"]));
}

#[test]
fn lint_prints_problems_like_a_compiler_and_exits_1_on_warnings() {
    let env = TestEnv::new();
    env.write_record(
        "a.md",
        "---\ncapabilities:\n  - fs.reed: {in: ~/x}\n  - net.get: {hosts: [\"*\"]}\n  - fs.read\n---\n",
    );
    expect![[r#"
        warning[unknown_capability]: there is no capability `fs.reed`
         --> [HOME]/.config/sbx/agents/a.md:3:5
          |
        3 |   - fs.reed: {in: ~/x}
          |     ^^^^^^^
          = did you mean `fs.read`?
          = help: `sbx schema capabilities` lists all seventeen

        warning[escalation]: net.get reaches every public host
         --> [HOME]/.config/sbx/agents/a.md:4:5
          |
        4 |   - net.get: {hosts: ["*"]}
          |     ^^^^^^^^^^^^^^^^^^^^^^^
          = help: name the hosts; whatever the agent reads can be sent to any of them

        warning[inert]: fs.read allows nothing: no level names a root
         --> [HOME]/.config/sbx/agents/a.md:5:5
          |
        5 |   - fs.read
          |     ^^^^^^^
          = help: add `in: PATH` to the grant, or `sandbox: {root: PATH}` to the record

        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["agents", "lint", "a"]));
}

#[test]
fn lint_exits_2_on_a_broken_record_and_0_on_a_good_one() {
    let env = TestEnv::new();
    env.write_record("good.md", "---\ncapabilities: [records.read]\n---\n");
    env.write_record("broken.md", "---\nlimits: {wal: 3s}\ncapabilities: []\n---\n");
    expect![[r#"
        [HOME]/.config/sbx/agents/good.md: fine
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "lint", "good"]));
    expect![[r#"
        error[unknown_key]: `limits` has no key `wal`
         --> [HOME]/.config/sbx/agents/broken.md:2:10
          |
        2 | limits: {wal: 3s}
          |          ^^^
          = did you mean `wall`?
          = help: `limits` takes wall, cpu, memory, pids, files, file_size, tmp, output

        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "lint", "broken"]));
}

#[test]
fn lint_of_everything_names_every_file() {
    let env = TestEnv::new();
    env.write_record("good.md", "---\ncapabilities: [records.read]\n---\n");
    expect![[r#"
        [HOME]/.config/sbx/agents/good.md: fine
        built-in:agents/builder.md: fine
        warning[escalation]: net.get reaches every public host
         --> built-in:agents/fetcher.md:8:5
          |
        8 |   - net.get: {hosts: ["*"]}
          |     ^^^^^^^^^^^^^^^^^^^^^^^
          = help: name the hosts; whatever the agent reads can be sent to any of them

        built-in:agents/scout.md: fine
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["agents", "lint"]));
}

#[test]
fn lint_for_machines_gives_code_place_and_suggestion() {
    let env = TestEnv::new();
    env.write_record("a.md", "---\ncapabilities:\n  - fs.reed: {in: ~/x}\n---\n");
    expect![[r#"
        [
          {
            "file": "[HOME]/.config/sbx/agents/a.md",
            "problems": [
              {
                "code": "unknown_capability",
                "severity": "warning",
                "message": "there is no capability `fs.reed`",
                "place": {
                  "file": "[HOME]/.config/sbx/agents/a.md",
                  "line": 3,
                  "column": 5
                },
                "help": "`sbx schema capabilities` lists all seventeen",
                "suggest": "fs.read",
                "key": null,
                "capabilities": []
              }
            ]
          }
        ]
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["agents", "lint", "a", "--json"]));
}

#[test]
fn a_broken_record_is_refused_with_the_place() {
    let env = TestEnv::new();
    env.write_record("broken.md", "---\nid: broken\nlimits: {wal: 3s}\ncapabilities: []\n---\n");
    expect![[r#"
        [stderr]
        error: the record has errors
        error[unknown_key]: `limits` has no key `wal`
         --> [HOME]/.config/sbx/agents/broken.md:3:10
          |
        3 | limits: {wal: 3s}
          |          ^^^
          = did you mean `wall`?
          = help: `limits` takes wall, cpu, memory, pids, files, file_size, tmp, output
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "show", "broken"]));
    expect![[r#"
        [stderr]
        error: the record has errors
        error[unknown_key]: `limits` has no key `wal`
         --> [HOME]/.config/sbx/agents/broken.md:3:10
          |
        3 | limits: {wal: 3s}
          |          ^^^
          = did you mean `wall`?
          = help: `limits` takes wall, cpu, memory, pids, files, file_size, tmp, output
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["check", "--agent", "broken", "fs.read", "x"]));
}

#[test]
fn a_broken_configuration_is_refused_with_the_place() {
    let env = TestEnv::new();
    env.write("home/.config/sbx/config.yml", "sandbx: ~/work\n");
    expect![[r#"
        [stderr]
        error: the configuration has errors
        error[unknown_key]: `config` has no key `sandbx`
         --> [HOME]/.config/sbx/config.yml:1:1
          |
        1 | sandbx: ~/work
          | ^^^^^^
          = did you mean `sandbox`?
          = help: `config` takes sandbox, records, backend, accept_degraded, limits, audit, proxy, builtin_tools
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["agents", "show", "scout"]));
}
