//! The protocol by itself: handshakes, eras, pages, levels, and lines that are none.

use crate::server::Talk;
use crate::world::{ALL, done, modern, record, refused, schemas, serve, text, world};
use serde_json::{Value, json};

#[test]
fn every_version_of_the_old_era_is_spoken() {
    let env = world(ALL, "");
    for (asked, told) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let mut talk = Talk::start(&env, &["mcp", "serve", "--agent", "tester"]);
        let answer = talk.ask("initialize", json!({ "protocolVersion": asked, "capabilities": {} }));
        assert_eq!(answer["result"]["protocolVersion"], told);
        assert_eq!(
            answer["result"]["capabilities"],
            json!({ "tools": { "listChanged": true }, "logging": {} })
        );
        assert!(answer["result"]["instructions"].as_str().unwrap().contains("tester"));
        assert_eq!(talk.ask("ping", json!({}))["result"], json!({}), "no resultType in the old era");
    }
}

#[test]
fn the_new_era_needs_no_handshake() {
    let env = world(ALL, "");
    let mut talk = Talk::start(&env, &["mcp", "serve", "--agent", "tester"]);
    let answer = modern(&mut talk, "server/discover", json!({}));
    assert_eq!(answer["result"]["supportedVersions"][0], "2026-07-28");
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "sbx");
    let answer = modern(&mut talk, "tools/list", json!({}));
    assert_eq!((&answer["result"]["ttlMs"], &answer["result"]["cacheScope"]), (&json!(0), &json!("private")));
    let call = json!({ "name": "exec", "arguments": { "argv": ["echo", "hello"] } });
    let answer = modern(&mut talk, "tools/call", call);
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(done(&answer)["stdout"], "hello\n");
    for method in ["ping", "initialize", "logging/setLevel", "resources/list", "tasks/list"] {
        assert_eq!(modern(&mut talk, method, json!({}))["error"]["code"], -32601, "{method}");
    }
    // Both eras at once, each request by how it opens.
    assert_eq!(talk.ask("ping", json!({}))["result"], json!({}));
    let version = "io.modelcontextprotocol/protocolVersion";
    let answer = talk.ask("tools/list", json!({ "_meta": { version: "2030-01-01" } }));
    assert_eq!(answer["error"]["code"], -32022);
    assert_eq!(answer["error"]["data"]["requested"], "2030-01-01");
    let answer = talk.ask("tools/list", json!({ "_meta": { version: "2026-07-28" } }));
    assert_eq!(answer["error"]["code"], -32602, "the client's capabilities are missing");
    assert_eq!(talk.ask("server/discover", json!({}))["error"]["code"], -32602);
}

#[test]
fn lines_that_are_no_messages_are_answered_and_do_no_harm() {
    let env = world(ALL, "");
    let mut talk = serve(&env);
    for (line, code) in [
        ("not json", -32700),
        ("[]", -32600),
        ("7", -32600),
        (r#"{"id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\r\"method\":\"ping\"}", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":[]}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"exec"}}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":7}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}"#, -32602),
    ] {
        talk.send(line);
        assert_eq!(talk.line()["error"]["code"], code, "{line}");
    }
    talk.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n");
    assert_eq!(talk.line()["error"]["code"], -32700);
    for silent in [
        r#"{"jsonrpc":"2.0","method":"unknown/notification"}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"exec","arguments":{"argv":["touch","ran"]}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        "",
        "  ",
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":999}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
    ] {
        talk.send(silent);
    }
    assert_eq!(talk.ask("ping", json!({}))["result"], json!({}), "nothing else was said");
    assert!(!env.project().join("ran").exists(), "a call without an identifier is not carried out");
}

#[test]
fn a_line_that_is_too_long_costs_only_itself() {
    let env = world(ALL, "");
    let mut talk = Talk::start(&env, &["mcp", "serve", "--agent", "tester", "--max-message", "5000"]);
    let long = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": { "name": "eval", "arguments": { "command": "x".repeat(200_000) } } });
    // The identifier stands in the beginning that is kept.
    let line = format!("{{\"id\":5,{}", &long.to_string()[1..].replacen("\"id\":5,", "", 1));
    talk.send(&line);
    let answer = talk.line();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32600)), "{answer}");
    assert_eq!(talk.ask("ping", json!({}))["result"], json!({}));
}

#[test]
fn tools_come_in_pages_in_a_stable_order() {
    let tools: String =
        (0..120).map(|number| format!("  t{number:03}: {{run: [echo, '{number}']}}\n")).collect();
    let env = world(ALL, &format!("tools:\n{tools}"));
    let mut talk = serve(&env);
    let page = talk.ask("tools/list", json!({}));
    assert_eq!(page["result"]["tools"].as_array().unwrap().len(), 50);
    assert!(page["result"]["nextCursor"].is_string());
    let names = talk.tools();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with('t')).count(), 120);
    assert_eq!(names, talk.tools());
}

#[test]
fn every_answer_is_what_its_tool_says_it_answers() {
    let rest = "tools:\n  say: {run: [echo, '${word}'], params: {word: identifier}}\n  nap: {run: [sleep, '60'], persistent: true}\n";
    let env = world(ALL, rest);
    env.write("project/a.txt", "one\n");
    let mut talk = serve(&env);
    let schemas = schemas(&mut talk);
    for (name, arguments, works) in [
        ("check_command", json!({ "command": "rm -rf /" }), Some(true)),
        ("suggest_alternative", json!({ "command": "git push -f" }), Some(true)),
        ("get_policy", json!({}), Some(true)),
        ("explain_risk", json!({ "command": "rm -rf /" }), Some(true)),
        ("explain_risk", json!({ "command": "ls" }), Some(true)),
        ("list_capabilities", json!({}), Some(true)),
        ("exec", json!({ "argv": ["echo", "x"] }), Some(true)),
        ("exec", json!({ "argv": ["false"] }), None),
        ("exec", json!({ "argv": ["no-such-program"] }), Some(false)),
        ("exec", json!({ "argv": [] }), Some(false)),
        ("eval", json!({ "command": "kill -9 $$" }), None),
        ("eval", json!({ "command": "rm -rf /" }), Some(false)),
        ("say", json!({ "word": "x" }), Some(true)),
        ("say", json!({}), Some(false)),
        ("process_start", json!({ "tool": "nap" }), Some(true)),
        ("process_start", json!({ "tool": "say" }), Some(false)),
        ("process_stop", json!({ "tool": "nap" }), Some(true)),
        ("process_stop", json!({ "tool": "nap" }), Some(false)),
        ("read_file", json!({ "path": "a.txt" }), Some(true)),
        ("read_file", json!({ "path": "b.txt" }), Some(false)),
        ("read_file", json!({ "path": "/etc/passwd" }), Some(false)),
        ("list_dir", json!({ "path": "." }), Some(true)),
        ("search", json!({ "glob": "*" }), Some(true)),
    ] {
        let answer = talk.call(name, arguments.clone());
        let validator = jsonschema::validator_for(&schemas[name]).unwrap();
        let body = &answer["result"]["structuredContent"];
        let errors: Vec<String> = validator.iter_errors(body).map(|error| error.to_string()).collect();
        assert!(body.is_object() && errors.is_empty(), "{name} {arguments}: {errors:?} {answer}");
        if let Some(works) = works {
            assert_eq!(answer["result"]["isError"] != true, works, "{name} {arguments}: {answer}");
        }
    }
}

#[test]
fn denials_are_also_told_as_events_to_those_who_want_to_hear() {
    let env = world(&["fs.read: {in: ROOT}"], "");
    let mut talk = serve(&env);
    let call = |id: u64| {
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "exec", "arguments": { "argv": ["id"] } } })
            .to_string()
    };
    talk.send(&call(1));
    let event = talk.line();
    assert_eq!(event["method"], "notifications/message");
    assert_eq!(
        (&event["params"]["level"], &event["params"]["logger"]),
        (&json!("warning"), &json!("sbx/guardrail"))
    );
    let answer = talk.line();
    assert_eq!(event["params"]["data"]["denial"], answer["result"]["structuredContent"]);
    assert_eq!(event["params"]["data"]["call"], 1);
    talk.ask("logging/setLevel", json!({ "level": "error" }));
    talk.send(&call(2));
    assert_eq!(talk.line()["id"], 2, "only the answer");
    talk.ask("logging/setLevel", json!({ "level": "debug" }));
    talk.send(&call(3));
    assert_eq!(talk.line()["method"], "notifications/message");
    talk.line();
    // In the new era every request says what its client wants to hear.
    let mut talk = Talk::start(&env, &["mcp", "serve", "--agent", "tester"]);
    let meta = |level: Value| {
        json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": { "name": "exec", "arguments": { "argv": ["id"] }, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/logLevel": level } } }).to_string()
    };
    talk.send(&meta(Value::Null));
    assert_eq!(talk.line()["id"], 9);
    talk.send(&meta(json!("info")));
    assert_eq!(talk.line()["method"], "notifications/message");
    assert_eq!(talk.line()["id"], 9);
}

#[test]
fn changes_are_told_to_those_who_listen() {
    let env = world(&["proc.exec: {in: ROOT, cmds: [echo]}"], "");
    let mut old = serve(&env);
    let mut new = Talk::start(&env, &["mcp", "serve", "--agent", "tester"]);
    let listen = json!({ "jsonrpc": "2.0", "id": "sub", "method": "subscriptions/listen", "params": {
        "notifications": { "toolsListChanged": true, "promptsListChanged": true },
        "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} } } });
    new.send(&listen.to_string());
    let agreed = new.line();
    assert_eq!(agreed["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(agreed["params"]["notifications"], json!({ "toolsListChanged": true }));
    let key = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(agreed["params"]["_meta"][key], "sub");
    record(&env, &["proc.exec: {in: ROOT, cmds: [echo]}"], "tools:\n  hello: {run: [echo, hello]}\n");
    assert_eq!(old.line()["method"], "notifications/tools/list_changed");
    let told = new.line();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"][key], "sub");
    assert!(old.tools().contains(&"hello".to_owned()));
    assert_eq!(text(&old.call("hello", json!({}))), "hello");
    // Whoever has heard enough says so.
    new.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"sub"}}"#);
    assert_eq!(new.ask("ping", json!({}))["result"], json!({}));
    record(&env, &["fs.read: {in: ROOT}"], "");
    assert_eq!(old.line()["method"], "notifications/tools/list_changed");
    assert_eq!(refused(&old.call("hello", json!({}))), "unknown_tool");
    new.hears("reloaded");
    assert_eq!(new.ask("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_record_that_breaks_leaves_the_agent_as_it_was() {
    let env = world(&["proc.exec: {in: ROOT, cmds: [echo]}"], "");
    let mut talk = serve(&env);
    record(&env, &["proc.exec: {in: ROOT}"], "mcp: {nonsense: 1}\n");
    talk.hears("error: not reloaded, the agent stays as it was");
    assert_eq!(text(&talk.call("exec", json!({ "argv": ["echo", "still"] }))), "still\n");
    assert_eq!(refused(&talk.call("exec", json!({ "argv": ["id"] }))), "scope_violation");
}

#[test]
fn a_server_that_cannot_be_says_why_to_both_sides() {
    let env = world(ALL, "mcp: {nonsense: 1}\n");
    let mut talk = Talk::start(&env, &["mcp", "serve", "--agent", "tester"]);
    let answer = talk.ask("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    assert!(answer["error"]["message"].as_str().unwrap().contains("nonsense"), "{answer}");
    assert_eq!(talk.ended().0.code(), Some(125));
    let mut talk = Talk::start(&env, &["mcp", "serve", "--agent", "nobody"]);
    talk.hears("there is no agent `nobody`");
    assert_eq!(talk.ended().0.code(), Some(125));
}

#[test]
fn what_is_told_back_is_bounded() {
    let env = world(ALL, "tools:\n  say: {run: [echo, '${word}'], params: {word: text}}\n");
    let mut talk = serve(&env);
    let long = "x".repeat(3 << 20);
    for (name, arguments) in [
        ("exec", json!({ "argv": ["echo", long] })),
        ("eval", json!({ "command": long })),
        ("check_command", json!({ "command": long })),
        ("say", json!({ "word": long })),
        ("say", json!({ long.as_str(): 1 })),
        ("read_file", json!({ "path": long })),
        ("nope", json!({ "x": long })),
    ] {
        let answer = talk.call(name, arguments);
        assert_eq!(refused(&answer), "invalid_params", "{name}");
        assert!(answer.to_string().len() < 10_000, "{name}");
    }
    assert_eq!(talk.ask("tools/call", json!({ "name": long }))["error"]["code"], -32602);
    talk.send(&json!({ "jsonrpc": "2.0", "id": long, "method": "ping" }).to_string());
    let answer = talk.line();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
    let log = env.home().join(".local/state/sbx/audit.jsonl");
    assert!(std::fs::metadata(log).unwrap().len() < 100_000, "nor is the log flooded");
    done(&talk.call("write_file", json!({ "path": "long", "content": long })));
    assert_eq!(std::fs::metadata(env.project().join("long")).unwrap().len(), 3 << 20, "content may be long");
}

#[test]
fn where_a_link_leads_that_the_agent_may_not_see_is_not_told() {
    let env = world(ALL, "");
    std::os::unix::fs::symlink("/nowhere/hidden-target", env.home().join("link")).unwrap();
    let mut talk = serve(&env);
    let link = env.home().join("link").display().to_string();
    for (name, arguments) in [
        ("exec", json!({ "argv": ["ls"], "cwd": link })),
        ("eval", json!({ "command": "ls", "cwd": link })),
        ("check_command", json!({ "command": "ls", "cwd": link })),
    ] {
        let answer = talk.call(name, arguments);
        assert_eq!(refused(&answer), "scope_violation", "{name}");
        assert!(!answer.to_string().contains("hidden-target"), "{name}: {answer}");
    }
}
