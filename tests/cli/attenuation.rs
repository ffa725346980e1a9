//! `sbx agents grant --as`: an agent gives what it holds, and no more.

use crate::support::TestEnv;
use expect_test::expect;

fn with_granter() -> TestEnv {
    let env = TestEnv::new();
    env.write_record("a.md", "---\ncapabilities: []\n---\n");
    let boss = "---\ncapabilities:\n  - agent.grant: {id: a}\n  - fs.read: {in: /srv, paths: [docs]}\n  - net.get: {hosts: [\"*.example.com\"]}\n---\n";
    env.write_record("boss.md", boss);
    env.write_record("other.md", "---\ncapabilities: []\n---\n");
    env
}

#[test]
fn an_agent_grants_what_it_holds() {
    let env = with_granter();
    expect![[r#"
        granted net.get{hosts=[x.example.com]} in [HOME]/.config/sbx/agents/a.md
        [stderr]
        agent:  a
        grant:  net.get{hosts=[x.example.com]}
        risk:   medium
        effect: a will be able to fetch over the network (GET, HEAD, OPTIONS)
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&[
        "agents",
        "grant",
        "a",
        "--as",
        "boss",
        "net.get{hosts=[x.example.com]}",
        "--yes",
    ]));
    expect![[r#"
        granted fs.read{in=/srv/docs/old} in [HOME]/.config/sbx/agents/a.md
        [stderr]
        agent:  a
        grant:  fs.read{in=/srv/docs/old}
        risk:   medium
        effect: a will be able to read files and list directories
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "--as", "boss", "fs.read{in=/srv/docs/old}", "--yes"]));
}

#[test]
fn an_agent_cannot_grant_more_than_it_holds() {
    let env = with_granter();
    let before = std::fs::read_to_string(env.record("a.md")).expect("the record");
    expect![[r#"
        exceeds_grantor_authority: boss does not hold all of fs.read{in=/srv}
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "--as", "boss", "fs.read{in=/srv}", "--yes"]));
    expect![[r#"
        {
          "is_error": true,
          "code": "exceeds_grantor_authority",
          "agent": "boss",
          "tool": null,
          "request": {
            "capability": "agent.grant",
            "id": "a",
            "granted": [
              "fs.write{in=/srv/docs}"
            ]
          },
          "message": "boss does not hold all of fs.write{in=/srv/docs}",
          "nearest_grant": null,
          "suggested_grant": null,
          "hint": null
        }
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&[
        "agents",
        "grant",
        "a",
        "--as",
        "boss",
        "fs.write{in=/srv/docs}",
        "--yes",
        "--json",
    ]));
    assert_eq!(std::fs::read_to_string(env.record("a.md")).expect("the record"), before);
}

#[test]
fn an_agent_cannot_grant_outside_its_grants_scope_or_without_one() {
    let env = with_granter();
    expect![[r#"
        scope_violation: boss may not agent.grant agents/other
          nearest grant: agent.grant{id=a} at [HOME]/.config/sbx/agents/boss.md:3
          why not: it allows a
          smallest grant: sbx agents grant boss 'agent.grant{id=agents/other}'
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&[
        "agents",
        "grant",
        "other",
        "--as",
        "boss",
        "net.get{hosts=[x.example.com]}",
        "--yes",
    ]));
    expect![[r#"
        capability_absent: other may not agent.grant agents/a: it does not hold agent.grant
          smallest grant: sbx agents grant other 'agent.grant{id=agents/a}'
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&["agents", "grant", "a", "--as", "other", "records.read", "--yes"]));
}

#[test]
fn an_agent_cannot_grant_to_itself_whatever_it_holds() {
    let env = with_granter();
    expect![[r#"
        self_modification: boss may not change its own authority
        [exit 1]
    "#]]
    .assert_eq(&env.sbx(&[
        "agents",
        "grant",
        "boss",
        "--as",
        "boss",
        "net.get{hosts=[x.example.com]}",
        "--yes",
    ]));
}
