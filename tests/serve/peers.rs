//! Real clients drive the server, in both eras.

use crate::rust::the_new_era;
use crate::server::peers;
use crate::support::{TestEnv, program, source_dir};
use crate::world::{ALL, world};
use rmcp::ClientLifecycleMode;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What a client saw: the tools of every page, and what each call came to.
fn seen(env: &TestEnv, peers: &Path, client: &str, calls: &Value) -> Value {
    let source = source_dir().join("tests/mcp");
    let (runs, script) = match client {
        "python" => (peers.join("py/bin/python"), source.join("client.py")),
        _ => (PathBuf::from("node"), source.join("client.mjs")),
    };
    let output = env
        .command(runs)
        .env("SBX_TEST_MCP", peers)
        .arg(script)
        .arg(calls.to_string())
        .arg(program())
        .args(["mcp", "serve", "--agent", "tester"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        unreachable!("{client}: {error}\n{text}{}", String::from_utf8_lossy(&output.stderr))
    })
}

fn structured(result: &Value) -> &Value {
    &result["structuredContent"]
}

#[test]
fn real_clients_call_every_kind_of_tool_in_both_eras() {
    let Some(peers) = peers() else { return };
    let tools: String = (0..60).map(|n| format!("  many{n}: {{run: [echo, '{n}']}}\n")).collect();
    let rest = format!(
        "tools:\n  greet: {{run: [echo, hello, '${{who}}'], params: {{who: identifier}}}}\n  nap: {{run: [sleep, '60'], persistent: true}}\n{tools}"
    );
    for client in ["python", "typescript"] {
        let env = world(ALL, &rest);
        let calls = json!([
            ["exec", { "argv": ["echo", "grüße\u{2028}"] }],
            ["eval", { "command": "echo err >&2; exit 3" }],
            ["greet", { "who": "you" }],
            ["greet", { "who": "a b" }],
            ["check_command", { "command": "git push --force" }],
            ["explain_risk", { "command": "ls" }],
            ["suggest_alternative", { "command": "git push -f" }],
            ["get_policy", {}],
            ["list_capabilities", {}],
            ["process_start", { "tool": "nap" }],
            ["process_status", {}],
            ["process_stop", { "tool": "nap" }],
            ["nope", {}],
            ["exec", { "argv": ["cat", "/etc/shadow"] }],
        ]);
        let seen = seen(&env, &peers, client, &calls);
        assert!(seen["tools"].as_array().unwrap().len() > 70, "{client}: every page");
        let result = |at: usize| &seen["results"][at];
        for at in 0..14 {
            assert!(result(at).get("exception").is_none(), "{client} {at}: {}", result(at));
        }
        assert_eq!(structured(result(0))["stdout"], "grüße\u{2028}\n", "{client}");
        assert_eq!(
            (&result(1)["isError"], &structured(result(1))["exit"]),
            (&json!(true), &json!(3)),
            "{client}"
        );
        assert_eq!(structured(result(2))["value"], "hello you", "{client}");
        assert_eq!(structured(result(3))["code"], "invalid_params", "{client}");
        assert_eq!(structured(result(4))["allowed"], false, "{client}");
        assert_eq!(structured(result(5))["risky"], false, "{client}");
        assert!(structured(result(6))["alternatives"].is_array(), "{client}");
        assert_eq!(structured(result(7))["agent"], "tester", "{client}");
        assert!(structured(result(8))["tools"].is_array(), "{client}");
        assert_eq!(structured(result(9))["running"], true, "{client}");
        assert_eq!(structured(result(11))["running"], false, "{client}");
        assert_eq!(structured(result(12))["code"], "unknown_tool", "{client}");
        assert_eq!(result(13)["isError"], true, "{client}: the fence shows no such file");
    }
}

#[test]
fn real_clients_see_denials() {
    let Some(peers) = peers() else { return };
    for client in ["python", "typescript"] {
        let env = world(&["proc.exec: {in: ROOT, cmds: [echo]}"], "mcp: {allowed_tools: [exec, eval]}\n");
        let calls = json!([
            ["exec", { "argv": ["id"] }],
            ["eval", { "command": "id" }],
            ["check_command", { "command": "ls" }],
        ]);
        let seen = seen(&env, &peers, client, &calls);
        let codes: Vec<&Value> =
            seen["results"].as_array().unwrap().iter().map(|result| &structured(result)["code"]).collect();
        assert_eq!(codes, ["scope_violation", "capability_absent", "tool_not_allowed"], "{client}: {seen}");
    }
}

#[test]
fn the_inspector_lists_and_calls_in_both_eras() {
    let Some(peers) = peers() else { return };
    let env = world(ALL, "");
    for era in ["legacy", "modern"] {
        let inspect = |words: &[&str]| -> Value {
            let output = env
                .command("node")
                .arg(peers.join("npm/node_modules/.bin/mcp-inspector"))
                .args(["--cli", "--protocol-era", era])
                .args(words)
                .arg(program())
                // The inspector takes options for its own up to the first word that is none.
                .args(["--color=never", "mcp", "serve", "--agent", "tester"])
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            serde_json::from_str(&text).unwrap_or_else(|error| {
                unreachable!("{era}: {error}: {text}{}", String::from_utf8_lossy(&output.stderr))
            })
        };
        let listed = inspect(&["--method", "tools/list"]);
        assert!(listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "exec"), "{listed}");
        let words = ["--tool-arg", "command=echo seen", "--method", "tools/call", "--tool-name", "eval"];
        let called = inspect(&words);
        assert_eq!(called["structuredContent"]["stdout"], "seen\n", "{era}: {called}");
    }
}

#[test]
fn the_rust_client_reads_writes_and_is_denied_in_both_eras() {
    let command =
        [program().display().to_string(), "mcp".into(), "serve".into(), "--agent".into(), "tester".into()];
    for mode in [ClientLifecycleMode::Initialize, the_new_era()] {
        let env = world(ALL, "");
        let calls = [
            ("exec", json!({ "argv": ["echo", "hi"] })),
            ("write_file", json!({ "path": "new.txt", "content": "text" })),
            ("read_file", json!({ "path": "new.txt" })),
            ("read_file", json!({ "path": "/etc/shadow" })),
            ("check_command", json!({ "command": "rm -rf /" })),
        ];
        let seen = crate::rust::seen(&env, &command, mode, &calls);
        let result = |at: usize| &seen["results"][at];
        assert_eq!(structured(result(0))["stdout"], "hi\n", "{seen}");
        assert_ne!(result(1)["isError"], true, "{}", result(1));
        assert!(result(2).to_string().contains("text"), "{}", result(2));
        assert_eq!(
            (&result(3)["isError"], &structured(result(3))["code"]),
            (&json!(true), &json!("scope_violation"))
        );
        assert_eq!(structured(result(4))["allowed"], false, "{}", result(4));
    }
}
