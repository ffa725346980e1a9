//! However a server ends, nothing of it is left.

use crate::server::Talk;
use crate::world::{ALL, alive, marker, record, serve, soon, world};
use serde_json::json;
use std::process::Command;

fn signal(talk: &Talk, name: &str) {
    let sent = Command::new("kill").args([name, &talk.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn whoever_ends_the_server_ends_everything() {
    for (how, status) in [("close", Some(0)), ("-TERM", Some(143)), ("-INT", Some(130)), ("-KILL", None)] {
        let env = world(ALL, "");
        let mark = marker(&env);
        record(&env, ALL, &format!("tools:\n  nap: {{run: [sleep, '{mark}'], persistent: true}}\n"));
        let mut talk = serve(&env);
        talk.call("process_start", json!({ "tool": "nap" }));
        let stubborn = format!("trap '' TERM INT HUP; (setsid sleep {mark} &); sleep {mark}");
        let call = json!({ "name": "exec", "arguments": { "argv": ["sh", "-c", stubborn] } });
        talk.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call }).to_string());
        soon("it runs", || alive(&mark) >= 4);
        match how {
            "close" => talk.close(),
            name => signal(&talk, name),
        }
        assert_eq!(talk.ended().0.code(), status, "{how}");
        soon(&format!("{how}: nothing is left"), || alive(&mark) == 0);
    }
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let env = world(ALL, "");
    let mut talk = serve(&env);
    for id in 0..5 {
        let call = json!({ "name": "exec", "arguments": { "argv": ["echo", id.to_string()] } });
        talk.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call }).to_string());
    }
    talk.close();
    let mut ids: Vec<u64> = (0..5).map(|_| talk.line()["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3, 4]);
    assert_eq!(talk.ended().0.code(), Some(0));
}

#[test]
fn a_log_that_cannot_be_written_serves_nobody() {
    let env = world(ALL, "");
    env.write("home/.local/state/sbx/audit.jsonl/in-the-way", "");
    let mut talk = Talk::start(&env, &["mcp", "serve", "--agent", "tester"]);
    talk.hears("cannot be recorded");
    assert_eq!(talk.ended().0.code(), Some(125));
}
