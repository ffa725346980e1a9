//! The tools that only look: every field that other guards have, and the policy as it stands.

use crate::world::{ALL, done, recorded, refused, serve, text, world};
use serde_json::{Value, json};

#[test]
fn a_dangerous_command_is_denied_with_everything_there_is_to_know() {
    let env = world(ALL, "");
    let mut talk = serve(&env);
    let answer = talk.call("check_command", json!({ "command": "git push --force origin main" }));
    let body = done(&answer);
    assert_eq!(serde_json::from_str::<Value>(text(&answer)).unwrap(), *body, "text and object say the same");
    for key in [
        "schema_version",
        "decision",
        "allowed",
        "risk_level",
        "severity",
        "effective_severity",
        "matched_rules",
        "alternatives",
        "context",
        "requires_human_approval",
        "decision_reason",
        "denial_reason",
        "deny_reason",
        "blast_radius_scope",
        "blast_radius_detail",
        "version",
        "opaque",
        "argv",
        "capability",
    ] {
        assert!(body.get(key).is_some(), "{key} is missing in {body}");
    }
    assert_eq!((&body["allowed"], &body["decision"]), (&json!(false), &json!("deny")));
    let rule = &body["matched_rules"][0];
    for key in ["id", "description", "severity", "group", "origin"] {
        assert!(rule[key].is_string(), "{key} is missing in {rule}");
    }
    let first = &body["alternatives"][0];
    for key in ["command", "explanation", "source", "rule_id"] {
        assert!(first.get(key).is_some(), "{key} is missing in {first}");
    }
    let body = talk.call("check_command", json!({ "command": "ls -la" }));
    assert_eq!(done(&body)["allowed"], true);
}

#[test]
fn a_command_without_a_grant_behind_it_is_denied_too() {
    let env = world(&["proc.exec: {in: ROOT, cmds: [git]}"], "");
    let mut talk = serve(&env);
    let answer = talk.call("check_command", json!({ "command": "git log && curl https://x.example" }));
    let body = done(&answer);
    assert_eq!((&body["allowed"], &body["code"]), (&json!(false), &json!("scope_violation")), "{body}");
    assert!(body["capability"].to_string().contains("curl"), "{body}");
}

#[test]
fn risks_are_explained_and_alternatives_named() {
    let env = world(ALL, "");
    let mut talk = serve(&env);
    let answer = talk.call("explain_risk", json!({ "command": "ls" }));
    assert_eq!(done(&answer)["risky"], false);
    assert!(done(&answer)["explanation"].is_string());
    let answer = talk.call("explain_risk", json!({ "command": "git reset --hard" }));
    let body = done(&answer);
    for key in [
        "command",
        "risky",
        "allowed",
        "severity",
        "risk_level",
        "context",
        "matched_rules",
        "alternatives",
        "explanation",
        "denial_reason",
        "blast_radius_scope",
        "blast_radius_detail",
    ] {
        assert!(body.get(key).is_some(), "{key} is missing in {body}");
    }
    assert_eq!(body["risky"], true);
    assert!(body["explanation"].as_str().unwrap().starts_with("- ["), "{body}");
    let answer =
        talk.call("suggest_alternative", json!({ "command": "git push -f", "goal": "share my work" }));
    assert_eq!(done(&answer)["alternatives"][0]["command"], "git push --force-with-lease");
    let answer = talk.call("suggest_alternative", json!({ "command": "ls" }));
    assert_eq!(done(&answer)["message"], "no safer command is known");
}

#[test]
fn the_policy_is_shown_whole() {
    let env = world(ALL, "mcp: {allowed_tools: [exec, check_command]}\nrisk: {deny_at: Critical}\n");
    let mut talk = serve(&env);
    let answer = talk.call("get_policy", json!({}));
    let body = done(&answer);
    for key in [
        "challenge",
        "active_groups",
        "active_checks_count",
        "min_severity",
        "audit_enabled",
        "agent_config",
        "session_id",
        "agent",
        "grants",
        "authority",
        "allowlist_enabled",
        "allowed_tools",
        "read_only",
    ] {
        assert!(body.get(key).is_some(), "{key} is missing in {body}");
    }
    assert_eq!(body["agent_config"]["auto_deny_severity"], "Critical");
    assert_eq!(body["allowed_tools"], json!(["exec", "check_command"]));
    assert!(body["active_checks_count"].as_u64().unwrap() > 100);
    assert_eq!(talk.tools(), ["check_command", "exec", "get_policy"]);
}

#[test]
fn arguments_are_taken_strictly() {
    let env = world(ALL, "");
    let mut talk = serve(&env);
    for (name, arguments) in [
        ("check_command", json!({})),
        ("check_command", json!({ "command": 7 })),
        ("check_command", json!({ "command": "  " })),
        ("check_command", json!({ "command": "ls", "comand": "rm" })),
        ("check_command", json!({ "command": "ls\u{0}" })),
        ("explain_risk", json!({ "command": null })),
        ("get_policy", json!({ "command": "ls" })),
        ("list_capabilities", json!({ "x": 1 })),
        ("exec", json!({})),
        ("exec", json!({ "argv": [] })),
        ("exec", json!({ "argv": "ls -la" })),
        ("exec", json!({ "argv": ["ls", 7] })),
        ("exec", json!({ "argv": ["ls"], "timeout_seconds": 0 })),
        ("exec", json!({ "argv": ["ls"], "timeout_seconds": "5" })),
        ("exec", json!({ "argv": ["ls"], "timeout_seconds": 1e9 })),
        ("eval", json!({ "command": "" })),
        ("process_status", json!({ "name": "x" })),
    ] {
        let answer = talk.call(name, arguments.clone());
        assert_eq!(refused(&answer), "invalid_params", "{name} {arguments}: {answer}");
        assert!(text(&answer).starts_with("Error: "), "{answer}");
    }
    let answer = talk.call("nope", json!({}));
    assert_eq!(refused(&answer), "unknown_tool");
    assert!(text(&answer).starts_with("Error: "));
    let answer = talk.call("chek_command", json!({}));
    assert!(text(&answer).contains("did you mean `check_command`?"), "{answer}");
    assert!(recorded(&env, "nope", "unknown_tool"));
    // Places that are not the agent's are not looked at.
    let answer = talk.call("check_command", json!({ "command": "ls", "cwd": "/root" }));
    assert_eq!(refused(&answer), "scope_violation");
}

#[test]
fn every_tool_is_listed_with_what_it_declares() {
    let tools = "tools:\n  fetch: {run: [curl, 'https://a.example'], net: [a.example], timeout_seconds: 7}\n  hello: {run: [echo, hello]}\n  exec: {run: [echo, mine]}\n";
    let env = world(&["proc.exec: {in: ROOT, cmds: [echo]}"], tools);
    let mut talk = serve(&env);
    let answer = talk.call("list_capabilities", json!({}));
    let all = done(&answer)["tools"].as_array().unwrap();
    let row = |name: &str| all.iter().filter(|row| row["name"] == name).collect::<Vec<_>>();
    let fetch = row("fetch")[0];
    assert_eq!(fetch["timeout_seconds"], 7.0, "{fetch}");
    assert_eq!(fetch["exposure"]["hosts"], json!(["a.example"]));
    assert_eq!((&fetch["offered"], &fetch["reason"]["code"]), (&json!(false), &json!("capability_absent")));
    assert!(
        fetch["reason"]["suggested_grant"].is_string()
            && fetch["source"].as_str().unwrap().contains("tester.yml:")
    );
    assert_eq!(row("hello")[0]["offered"], true);
    assert!(row("hello")[0]["requires"].to_string().contains("proc.exec{patterns=[echo hello]}"));
    let eval = row("eval")[0];
    assert_eq!((&eval["offered"], &eval["risk"]), (&json!(false), &json!("high")), "{eval}");
    assert_eq!(row("exec").len(), 2, "one of sbx's own, and one whose name is taken");
    let names = talk.tools();
    assert!(!names.contains(&"eval".to_owned()) && !names.contains(&"fetch".to_owned()), "{names:?}");
    assert_eq!(names.iter().filter(|name| *name == "exec").count(), 1);
}
