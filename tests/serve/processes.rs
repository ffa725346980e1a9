//! Tools that are left running in the server's own session.

use crate::world::{ALL, alive, done, marker, recorded, refused, serve, soon, text, world};
use serde_json::json;

fn tools(marker: &str) -> String {
    let many: String =
        (0..20).map(|n| format!("  p{n}: {{run: [sleep, '{marker}'], persistent: true}}\n")).collect();
    format!(
        "tools:\n  clock: {{run: 'while :; do echo tick; sleep 0.05; done', persistent: true}}\n  once: {{run: [echo, one]}}\n{many}"
    )
}

#[test]
fn a_process_is_started_asked_about_and_stopped() {
    let env = world(ALL, &tools("60"));
    let mut talk = serve(&env);
    let answer = talk.call("process_start", json!({ "tool": "clock" }));
    assert_eq!(done(&answer)["running"], true);
    let again = talk.call("process_start", json!({ "tool": "clock" }));
    assert_eq!(done(&answer)["pid"], done(&again)["pid"], "it runs already");
    soon("it prints", || {
        done(&talk.call("process_status", json!({ "tool": "clock" })))["stdout"]
            .as_str()
            .unwrap()
            .contains("tick")
    });
    let answer = talk.call("process_status", json!({}));
    assert_eq!(done(&answer)["processes"].as_array().unwrap().len(), 1);
    let answer = talk.call("process_stop", json!({ "tool": "clock" }));
    assert_eq!(done(&answer)["running"], false, "{answer}");
    assert_eq!(refused(&talk.call("process_status", json!({ "tool": "clock" }))), "no_such_process");
    assert_eq!(refused(&talk.call("process_stop", json!({ "tool": "clock" }))), "no_such_process");
    assert_eq!(refused(&talk.call("process_start", json!({ "tool": "once" }))), "wrong_kind");
    assert_eq!(refused(&talk.call("clock", json!({}))), "wrong_kind");
    assert_eq!(refused(&talk.call("process_start", json!({ "tool": "nope" }))), "unknown_tool");
    assert_eq!(
        refused(&talk.call("process_start", json!({ "tool": "clock", "values": { "x": 1 } }))),
        "invalid_params"
    );
    assert!(recorded(&env, "process_start", "unknown_tool"));
}

#[test]
fn no_more_than_sixteen_run_and_all_end_with_the_server() {
    let env = world(ALL, "");
    let mark = marker(&env);
    crate::world::record(&env, ALL, &tools(&mark));
    let mut talk = serve(&env);
    for n in 0..16 {
        assert_eq!(done(&talk.call("process_start", json!({ "tool": format!("p{n}") })))["running"], true);
    }
    let answer = talk.call("process_start", json!({ "tool": "p16" }));
    assert_eq!(refused(&answer), "limit_exceeded");
    assert!(text(&answer).contains("stop one first"));
    assert!(alive(&mark) >= 16);
    talk.close();
    assert_eq!(talk.ended().0.code(), Some(0));
    soon("everything ends with the server", || alive(&mark) == 0);
}

#[test]
fn what_an_agent_may_not_run_is_not_started() {
    let env = world(
        &["proc.exec: {in: ROOT, cmds: [echo]}"],
        "tools:\n  nap: {run: [sleep, '5'], persistent: true}\n",
    );
    let mut talk = serve(&env);
    assert!(!talk.tools().iter().any(|name| name.starts_with("process_")));
    assert_eq!(refused(&talk.call("process_start", json!({ "tool": "nap" }))), "capability_absent");
}
