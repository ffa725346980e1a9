//! The gate by itself: what passes in either direction.

use sbx::audit::{Event, Sink};
use sbx::capability::Spec;
use sbx::manifest::Mcp;
use sbx::mcp::{Gate, Passage, Rules, Teller};
use sbx::{Facts, Manifest, Policy, Source};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Keeps what it is told.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) lines: Mutex<Vec<String>>,
}

impl Sink for Kept {
    fn record(&self, event: Event) -> std::io::Result<()> {
        self.events.lock().unwrap().push(event);
        Ok(())
    }
}

impl Teller for Kept {
    fn tell(&self, line: &str) {
        self.lines.lock().unwrap().push(line.to_owned());
    }
}

fn section(text: &str) -> Mcp {
    let record = format!("id: me\nmcp:\n{text}");
    let (manifest, problems) = Manifest::parse(Source::new("me.yml", record), &Facts::new("/home/u"));
    manifest.unwrap_or_else(|| unreachable!("{problems:?}")).sections().mcp.clone().expect("a section")
}

/// A gate for an agent that may read below `/w`.
pub(crate) fn gate(section_text: &str) -> (Gate, Arc<Kept>) {
    let specs = [Spec::parse("fs.read{in=/w}").unwrap()];
    let policy = Policy::from_specs("me", &specs, &Facts::new("/home/u")).unwrap();
    let kept = Arc::new(Kept::default());
    let rules = Rules::of(policy, &section(section_text), "/w");
    (Gate::new(rules, "server", kept.clone(), kept.clone()), kept)
}

const LIST: &str =
    "  allowed_tools: [read, act.good]\n  actions: {act: do}\n  arguments: {read: {path: fs.read}}\n";

fn call(id: u32, name: &str, arguments: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } })
        .to_string()
}

fn code(passage: &Passage) -> String {
    let Passage::Back(line) = passage else { return format!("{passage:?}") };
    let answer: Value = serde_json::from_str(line).unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or("{}");
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    body["error"].as_str().map_or_else(|| answer["error"]["code"].to_string(), str::to_owned)
}

#[test]
fn allowed_calls_go_on_in_their_one_spelling() {
    let (gate, kept) = gate(LIST);
    let odd = "{ \"id\" : 1.0 ,\"jsonrpc\":\"2.0\", \"method\":\"tools\\/call\",\t\"params\":{\"name\":\"re\\u0061d\",\"arguments\":{\"path\":\"/w/a\",\"n\":1e400}}}";
    assert_eq!(
        gate.from_client(odd.as_bytes()),
        Passage::Instead(
            "{\"id\":1.0,\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"read\",\"arguments\":{\"path\":\"/w/a\",\"n\":1e400}}}\n"
                .to_owned()
        )
    );
    let events = kept.events.lock().unwrap();
    assert_eq!((events.len(), events[0].kind, &events[0].body["decision"]), (1, "mcp", &json!("allow")));
}

#[test]
fn denied_calls_are_answered_here_and_every_time_the_same() {
    let (gate, _) = gate(LIST);
    for (line, expected) in [
        (call(1, "write", &json!({})), "tool_not_allowed"),
        (call(1, "act", &json!({ "do": "evil" })), "tool_not_allowed"),
        (call(1, "act", &json!({})), "tool_not_allowed"),
        (call(1, "act", &json!({ "do": ["good"] })), "invalid_params"),
        (call(1, "act", &json!({ "DO": "good" })), "invalid_params"),
        (call(1, "read", &json!({ "path": "/etc/passwd" })), "scope_violation"),
        (call(1, "read", &json!({ "path": "/w/../etc/passwd" })), "scope_violation"),
        (call(1, "read", &json!({ "Path": "/etc/passwd" })), "invalid_params"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#.to_owned(), "-32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["read"]}"#.to_owned(), "-32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"Tools/Call","params":{"name":"write"}}"#.to_owned(), "-32600"),
        (r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"read"}}"#.to_owned(), "-32600"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","Name":"write"}}"#.to_owned(),
            "-32600",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"a":1,"a":2}}}"#
                .to_owned(),
            "-32600",
        ),
    ] {
        let first = gate.from_client(line.as_bytes());
        assert_eq!(code(&first), expected, "{line}");
        assert_eq!(gate.from_client(line.as_bytes()), first, "{line}");
    }
    assert!(matches!(
        gate.from_client(call(2, "act", &json!({ "do": "good" })).as_bytes()),
        Passage::Instead(_)
    ));
}

#[test]
fn modern_requests_get_modern_answers() {
    let (gate, _) = gate(LIST);
    let line = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {
        "name": "write", "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } } });
    let Passage::Back(answer) = gate.from_client(line.to_string().as_bytes()) else { unreachable!() };
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!("a"), &json!("complete")));
    let Passage::Back(answer) = gate.from_client(call(1, "write", &json!({})).as_bytes()) else {
        unreachable!()
    };
    assert!(!answer.contains("resultType"));
}

#[test]
fn what_is_not_policed_passes_to_the_byte() {
    let (gate, _) = gate(LIST);
    for line in [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"b":1.0,  "a":1e400}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"server/discover","params":{"_meta":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{"roots":[]}}"#,
        r#"{"method":"some/future","jsonrpc":"2.0","id":3,"extra":{"a":1,"a":2},"params":{"text":"\ud800"}}"#,
    ] {
        assert_eq!(gate.from_client(line.as_bytes()), Passage::AsIs, "{line}");
    }
    for line in [
        r#"{"result":{"x": 1.0},"jsonrpc":"2.0","id":0}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"no"}}"#,
    ] {
        assert_eq!(gate.from_server(line.as_bytes()), Passage::AsIs, "{line}");
    }
}

#[test]
fn lines_that_some_readers_would_split_are_closed() {
    let (gate, _) = gate(LIST);
    let line = "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{\"a\":\"\u{2028}{}\u{2029}\u{85}\"}}";
    let Passage::Instead(passed) = gate.from_client(line.as_bytes()) else { unreachable!() };
    assert_eq!(
        passed,
        "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{\"a\":\"\\u2028{}\\u2029\\u0085\"}}\n"
    );
}

#[test]
fn denied_tools_are_on_no_page_and_the_policy_is_shown() {
    let (gate, _) = gate(LIST);
    let page = |id: u32, cursor: Option<&str>, tools: &[&str], next: Option<&str>| {
        let mut ask = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {} });
        if let Some(cursor) = cursor {
            ask["params"]["cursor"] = json!(cursor);
        }
        assert_eq!(gate.from_client(ask.to_string().as_bytes()), Passage::AsIs);
        let tools: Vec<Value> = tools.iter().map(|name| json!({ "name": name, "inputSchema": {} })).collect();
        let mut answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": tools } });
        if let Some(next) = next {
            answer["result"]["nextCursor"] = json!(next);
        }
        let Passage::Instead(line) = gate.from_server(answer.to_string().as_bytes()) else { unreachable!() };
        let answer: Value = serde_json::from_str(&line).unwrap();
        let tools = answer["result"]["tools"].as_array().unwrap();
        let names: Vec<String> = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(answer["result"]["_meta"]["sbx/policy"]["allowed_tools"], json!(["read", "act.good"]));
        (names, answer["result"]["nextCursor"].clone())
    };
    assert_eq!(page(1, None, &["read", "write", "get_policy"], Some("")).0, ["read", "get_policy"]);
    assert_eq!(page(2, Some(""), &["evil"], Some("c")), (Vec::new(), json!("c")));
    assert_eq!(page(3, Some("c"), &["act", "READ", "actor"], None).0, ["act", "READ"]);
}

#[test]
fn answers_that_could_hide_tools_are_refused() {
    let (gate, _) = gate(LIST);
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for answer in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"tools":[{"name":"evil"}]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"Tools":[{"name":"evil"}]}}"#,
        r#"{"jsonrpc":"2.0","id":1.0,"result":{"tools":{"name":"evil"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{"tools":[{"name":"evil"}]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"Result":{"tools":[{"name":"evil"}]}}"#,
    ] {
        assert_eq!(gate.from_client(ask.as_bytes()), Passage::AsIs);
        let Passage::Instead(line) = gate.from_server(answer.as_bytes()) else { unreachable!("{answer}") };
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&line["id"], &line["error"]["code"]), (&json!(1), &json!(-32603)), "{answer}");
    }
    for unasked in [
        r#"{"jsonrpc":"2.0","id":"1","result":{"tools":[{"name":"evil"}]}}"#,
        r#"{"jsonrpc":"2.0","id":77,"result":{}}"#,
    ] {
        assert_eq!(gate.from_client(ask.as_bytes()), Passage::AsIs);
        assert_eq!(gate.from_server(unasked.as_bytes()), Passage::Dropped, "{unasked}");
        gate.from_server(br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#);
    }
}

#[test]
fn an_identifier_is_under_way_once() {
    let (gate, _) = gate(LIST);
    assert_eq!(gate.from_client(br#"{"jsonrpc":"2.0","id":1,"method":"a"}"#), Passage::AsIs);
    assert_eq!(code(&gate.from_client(br#"{"jsonrpc":"2.0","id":1.0,"method":"tools/list"}"#)), "-32600");
    let cancel = |id: u32| {
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
            .to_string()
    };
    assert_eq!(gate.from_client(cancel(1).as_bytes()), Passage::AsIs);
    assert_eq!(gate.from_client(cancel(2).as_bytes()), Passage::Dropped);
}

#[test]
fn an_empty_section_denies_all_but_the_policy() {
    let (gate, _) = gate("  {}\n");
    assert_eq!(code(&gate.from_client(call(1, "read", &json!({})).as_bytes())), "tool_not_allowed");
    let Passage::Back(line) = gate.from_client(call(1, "get_policy", &json!({})).as_bytes()) else {
        unreachable!()
    };
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["result"]["structuredContent"]["allowed_tools"], json!([]));
}

#[test]
fn refused_lines_are_recorded() {
    let (gate, kept) = gate(LIST);
    for line in [
        &b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}]"[..],
        b"\xff",
        b"{\"a\":\r1}",
        b"not json",
    ] {
        assert!(matches!(gate.from_client(line), Passage::Back(_)));
    }
    let events = kept.events.lock().unwrap();
    let faults: Vec<&str> = events.iter().map(|event| event.body["fault"].as_str().unwrap()).collect();
    assert_eq!(faults, ["batch", "encoding", "control_character", "syntax"]);
}

#[test]
fn what_was_refused_meanwhile_is_on_the_result() {
    let (gate, kept) = gate(LIST);
    assert!(matches!(
        gate.from_client(call(4, "read", &json!({ "path": "/w/a" })).as_bytes()),
        Passage::Instead(_)
    ));
    let calls = gate.note_refusal(&json!({ "host": "b.example" }));
    assert_eq!(calls, [json!({ "id": "4", "tool": "read" })]);
    let answer = br#"{"result":{"content":[],"_meta":{"a":1.0}},"jsonrpc":"2.0","id":4}"#;
    let wanted = r#"{"jsonrpc":"2.0","id":4,"result":{"content":[],"_meta":{"a":1.0,"sbx/refused":[{"host":"b.example"}]}}}"#;
    assert_eq!(gate.from_server(answer), Passage::Instead(format!("{wanted}\n")));
    // The call was recorded before it was made; its end goes to the log with the next event, or soon.
    assert_eq!(kept.events.lock().unwrap().len(), 1);
    gate.settle();
    let events = kept.events.lock().unwrap();
    assert_eq!(events.last().unwrap().body["refused"], json!([{ "host": "b.example" }]));
}
