//! `exec` and `eval`: decided, fenced, bounded and recorded as on the command line.

use crate::world::{ALL, done, events, recorded, refused, serve, text, world};
use serde_json::json;

#[test]
fn a_command_runs_behind_the_fence_and_is_recorded() {
    let env = world(ALL, "");
    env.write("project/a.txt", "one\n");
    env.write("home/secret", "secret\n");
    let mut talk = serve(&env);
    let answer = talk.call("exec", json!({ "argv": ["cat", "a.txt"] }));
    assert_eq!((text(&answer), &done(&answer)["exit"]), ("one\n", &json!(0)));
    let secret = env.home().join("secret").display().to_string();
    let answer =
        talk.call("eval", json!({ "command": format!("cat {secret}; echo $?; echo x > made; pwd") }));
    let printed = done(&answer)["stdout"].as_str().unwrap();
    assert_eq!(printed, format!("1\n{}\n", env.project().display()), "{answer}");
    assert_eq!(std::fs::read_to_string(env.project().join("made")).unwrap(), "x\n");
    let launches = events(&env, |event| event["kind"] == "launch");
    assert_eq!(launches.len(), 2, "{launches:?}");
    let calls =
        events(&env, |event| event["kind"] == "mcp" && event.to_string().contains("\"tool\":\"exec\""));
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(env.sbx(&["audit", "verify"]).contains("[exit 0]"));
}

#[test]
fn what_is_not_granted_is_denied_and_recorded() {
    let env = world(&["proc.exec: {in: ROOT, cmds: [echo]}", "proc.eval: {in: ROOT}"], "");
    let mut talk = serve(&env);
    let answer = talk.call("exec", json!({ "argv": ["id"] }));
    assert_eq!(refused(&answer), "scope_violation");
    assert!(answer["result"]["structuredContent"]["suggested_grant"].as_str().unwrap().contains("cmds=[id]"));
    assert!(text(&answer).contains("smallest grant: sbx agents grant tester"));
    assert!(recorded(&env, "exec", "scope_violation"));
    let answer = talk.call("exec", json!({ "argv": ["echo"], "cwd": "/tmp" }));
    assert_eq!(refused(&answer), "scope_violation");
    let answer = talk.call("eval", json!({ "command": "rm -rf / --no-preserve-root" }));
    assert_eq!(refused(&answer), "risk_denied");
    assert!(answer["result"]["structuredContent"]["assessment"]["matched_rules"].is_array());
    assert!(recorded(&env, "eval", "risk_denied"));
    let answer = talk.call("eval", json!({ "command": "echo 'open" }));
    assert_eq!(refused(&answer), "command_not_understood");
    let env = world(&["fs.read: {in: ROOT}"], "");
    let mut talk = serve(&env);
    assert!(!talk.tools().iter().any(|name| name == "exec" || name == "eval"));
    assert_eq!(refused(&talk.call("exec", json!({ "argv": ["id"] }))), "capability_absent");
    assert_eq!(refused(&talk.call("eval", json!({ "command": "id" }))), "capability_absent");
    assert!(recorded(&env, "exec", "capability_absent") && recorded(&env, "eval", "capability_absent"));
}

#[test]
fn the_records_allowlist_stands_before_everything() {
    let env = world(ALL, "mcp: {allowed_tools: [eval], case: exact}\n");
    let mut talk = serve(&env);
    assert_eq!(talk.tools(), ["eval", "get_policy"]);
    let answer = talk.call("exec", json!({ "argv": ["id"] }));
    assert_eq!(refused(&answer), "tool_not_allowed");
    let body: serde_json::Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(body["error"], "tool_not_allowed");
    assert_eq!(body["allowed_tools"], json!(["eval"]));
    assert!(recorded(&env, "exec", "tool_not_allowed"));
    assert_eq!(done(&talk.call("eval", json!({ "command": "echo hi" })))["stdout"], "hi\n");
}

#[test]
fn failures_carry_what_was_printed() {
    let env = world(ALL, "");
    let mut talk = serve(&env);
    let answer = talk.call("eval", json!({ "command": "echo out; echo err >&2; exit 3" }));
    assert_eq!(answer["result"]["isError"], true);
    let body = &answer["result"]["structuredContent"];
    assert_eq!((&body["exit"], &body["status"]), (&json!(3), &json!(3)), "{body}");
    assert_eq!((&body["stdout"], &body["stderr"]), (&json!("out\n"), &json!("err\n")));
    assert!(
        text(&answer).contains("status 3")
            && text(&answer).contains("out\n")
            && text(&answer).contains("err\n")
    );
    let answer = talk.call("exec", json!({ "argv": ["no-such-program"] }));
    assert_eq!(refused(&answer), "not_started");
    assert_eq!(answer["result"]["structuredContent"]["status"], 127);
    let answer = talk.call("eval", json!({ "command": "echo begun; sleep 60", "timeout_seconds": 0.5 }));
    let body = &answer["result"]["structuredContent"];
    assert_eq!((&body["limit"], &body["stdout"]), (&json!("wall"), &json!("begun\n")), "{answer}");
}

#[test]
fn a_flood_of_output_is_bounded() {
    let env = world(ALL, "");
    let mut talk = serve(&env);
    let answer = talk.call("eval", json!({ "command": "yes" }));
    let body = &answer["result"]["structuredContent"];
    assert_eq!(body["limit"], "output", "{}", body["message"]);
    assert_eq!(body["stdout_truncated"], true);
    assert!(answer.to_string().len() < 9 << 20, "clients take no longer lines");
    let answer = talk.call("eval", json!({ "command": "head -c 4000000 /dev/zero | tr '\\0' '\\1'" }));
    assert!(answer.to_string().len() < 9 << 20);
    assert_eq!(done(&answer)["stdout_truncated"], true);
    assert!(text(&answer).len() < 100_000, "a model is not given more than it can read");
}

#[test]
fn what_the_fence_refuses_is_told() {
    let env = world(&["fs.read: {in: ROOT}", "proc.exec: {in: ROOT}"], "");
    env.write("project/keep", "");
    let mut talk = serve(&env);
    let answer = talk.call("exec", json!({ "argv": ["rm", "keep"] }));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(env.project().join("keep").exists());
    // Where changes are watched, the one that was refused is named.
    let env = world(&["fs.read: {in: ROOT}", "fs.write: {in: ROOT}", "proc.exec: {in: ROOT}"], "");
    env.write("project/.git/hooks/there", "");
    let mut talk = serve(&env);
    let answer = talk.call("exec", json!({ "argv": ["touch", ".git/hooks/post-merge"] }));
    let refused = &answer["result"]["structuredContent"]["refused"];
    assert!(refused.to_string().contains("post-merge"), "{answer}");
    assert!(!env.project().join(".git/hooks/post-merge").exists());
}
