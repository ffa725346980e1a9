//! The Rust client of the protocol's own people, direct and wrapped, with an allowlist.

use crate::rust::seen;
use crate::server::world;
use crate::support::program;
use rmcp::ClientLifecycleMode;
use serde_json::{Value, json};

fn wrapped(command: &[String]) -> Vec<String> {
    let lead = ["mcp", "wrap", "--agent", "tester", "--"].map(str::to_owned);
    std::iter::once(program().display().to_string()).chain(lead).chain(command.iter().cloned()).collect()
}

fn names(seen: &Value) -> Vec<&str> {
    seen["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn the_rust_client_of_the_old_era_sees_the_same() {
    let env = world("mcp: {allowed_tools: [echo, look]}\n");
    let command = ["python3", "server.py"].map(str::to_owned);
    let calls = [("look", json!({ "path": "/nowhere" })), ("evil", json!({}))];
    let direct = seen(&env, &command, ClientLifecycleMode::Initialize, &calls);
    let through = seen(&env, &wrapped(&command), ClientLifecycleMode::Initialize, &calls);
    assert!(names(&direct).contains(&"evil"));
    assert_eq!(names(&through), ["echo", "get_policy", "look"]);
    let tool = |seen: &Value, name: &str| {
        let tools = seen["tools"].as_array().unwrap().clone();
        tools.into_iter().find(|tool| tool["name"] == name).unwrap()
    };
    assert_eq!(tool(&through, "echo"), tool(&direct, "echo"));
    assert_eq!(direct["results"][0]["isError"], through["results"][0]["isError"]);
    assert_ne!(direct["results"][1]["isError"], true, "{direct}");
    let denied = &through["results"][1];
    assert_eq!(
        (&denied["isError"], &denied["_meta"]["sbx/denial"]["code"]),
        (&json!(true), &json!("tool_not_allowed"))
    );
}
