//! The gate by itself: what passes in either direction.

use sbx::audit::{Event, Sink};
use sbx::capability::Spec;
use sbx::manifest::Mcp;
use sbx::mcp::{Gate, LockFile, Origin, Passage, Pinned, Pins, Rules, Teller, Watch};
use sbx::run::Setting;
use sbx::{Facts, Manifest, Policy, Source};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Rules for an agent that may read below `/w`.
fn rules(section_text: &str) -> Rules {
    let specs = [Spec::parse("fs.read{in=/w}").unwrap()];
    let policy = Policy::from_specs("me", &specs, &Facts::new("/home/u")).unwrap();
    Rules::of(policy, &section(section_text), "/w")
}

/// A gate with such rules.
pub(crate) fn gate(section_text: &str) -> (Gate, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    (Gate::new(rules(section_text), "server", kept.clone(), kept.clone()), kept)
}

/// The same with pins, of these tools or of none yet.
fn pinned(section_text: &str, file: &Path, tools: Option<&[&str]>) -> Rules {
    let pins = tools.map(|tools| Pins {
        tools: tools.iter().map(|name| ((*name).to_owned(), tool(name))).collect(),
        ..Pins::default()
    });
    let mut rules = rules(section_text);
    rules.pins = Some(Pinned { file: file.to_owned(), pins, remark: None });
    rules
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": {} })
}

/// Lets a page of tools go through the gate.
fn list(gate: &Gate, id: u32, cursor: Option<&str>, tools: &[&str], next: Option<&str>) {
    let ask = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": { "cursor": cursor } });
    assert_eq!(gate.from_client(ask.to_string().as_bytes()), Passage::AsIs);
    let tools: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": tools, "nextCursor": next } });
    assert!(matches!(gate.from_server(answer.to_string().as_bytes()), Passage::Instead(_)));
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
fn asking_for_the_policy_is_recorded_like_every_call() {
    let (gate, kept) = gate(LIST);
    assert!(matches!(gate.from_client(call(1, "get_policy", &json!({})).as_bytes()), Passage::Back(_)));
    let events = kept.events.lock().unwrap();
    let told = events.iter().map(|event| (&event.body["decision"], &event.body["tool"]));
    assert_eq!(told.collect::<Vec<_>>(), [(&json!("allow"), &json!("get_policy"))]);
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
    let calls = gate.note_refusal(&json!({ "host": "b.example" }), false);
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

#[test]
fn a_call_that_cannot_be_recorded_does_not_reach_the_server() {
    /// A log on a full disk.
    #[derive(Debug)]
    struct Full;
    impl Sink for Full {
        fn record(&self, _event: Event) -> std::io::Result<()> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
    }
    let gate = Gate::new(rules(LIST), "server", Arc::new(Full), Arc::new(Kept::default()));
    // The same identifier each time: what was turned back is not under way.
    for _ in 0..2 {
        let passage = gate.from_client(call(4, "read", &json!({ "path": "/w/a" })).as_bytes());
        assert!(
            matches!(&passage, Passage::Back(line) if line.contains("cannot be recorded")),
            "{passage:?}"
        );
    }
}

#[test]
fn no_call_is_judged_by_half_of_two_rules() {
    // Each of the two denies the call: one does not list the tool, the other has not pinned it.
    let file = std::env::temp_dir().join("sbx-never-written.json");
    let unlisted = || pinned("  allowed_tools: [other]\n", &file, Some(&["read", "other"]));
    let unpinned = || pinned("  allowed_tools: [read]\n", &file, Some(&["other"]));
    let kept = Arc::new(Kept::default());
    let gate = Gate::new(unlisted(), "server", kept.clone(), kept);
    list(&gate, 1, None, &["read", "other"], None);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                gate.swap(unpinned());
                gate.swap(unlisted());
            }
        });
        let line = call(2, "read", &json!({}));
        let through = (0..20_000).find(|_| !matches!(gate.from_client(line.as_bytes()), Passage::Back(_)));
        done.store(true, Ordering::Relaxed);
        assert_eq!(through, None);
    });
}

#[test]
fn what_is_seen_first_is_pinned_whole_and_with_its_version() {
    let dir = std::env::temp_dir().join(format!("sbx-first-sight-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("pins.json");
    let kept = Arc::new(Kept::default());
    let package = ("@t/tiny".to_owned(), "1.2.3".to_owned());
    let gate = Gate::new(pinned("  allowed_tools: ['*']\n", &file, None), "server", kept.clone(), kept)
        .running(Some(package.clone()));
    list(&gate, 1, None, &["read"], Some("2"));
    // Rules that change between two pages do not make the first page forgotten.
    gate.swap(pinned("  allowed_tools: ['*']\n  case: exact\n", &file, None));
    list(&gate, 2, Some("2"), &["other"], None);
    let lock = LockFile::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let pins = lock.server("server").unwrap();
    assert_eq!(pins.package, Some(package));
    assert_eq!(pins.tools.keys().collect::<Vec<_>>(), ["other", "read"]);
    for (id, name) in [(3, "read"), (4, "other")] {
        assert!(
            matches!(gate.from_client(call(id, name, &json!({})).as_bytes()), Passage::Instead(_)),
            "{name}"
        );
    }
    // A lock file that says nothing of the server any more is no way to have other tools taken.
    gate.swap(pinned("  allowed_tools: ['*']\n", &file, None));
    list(&gate, 5, None, &["read", "new"], None);
    assert_eq!(code(&gate.from_client(call(6, "new", &json!({})).as_bytes())), "tool_not_allowed");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn only_a_list_that_was_read_from_its_beginning_is_pinned_at_its_end() {
    let dir = std::env::temp_dir().join(format!("sbx-middle-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("pins.json");
    let kept = Arc::new(Kept::default());
    let gate =
        Gate::new(pinned("  allowed_tools: ['*']\n", &file, None), "server", kept.clone(), kept.clone());
    let may =
        |id, name| matches!(gate.from_client(call(id, name, &json!({})).as_bytes()), Passage::Instead(_));
    list(&gate, 1, Some("2"), &["other"], None);
    assert!(!file.exists(), "the end of a list is not all of it");
    list(&gate, 2, None, &["read"], Some("2"));
    list(&gate, 3, Some("x"), &["odd"], None);
    assert!(!file.exists() && may(4, "read") && may(5, "other"));
    let warnings =
        || kept.lines.lock().unwrap().iter().filter(|line| line.contains("not read to its end")).count();
    assert_eq!(warnings(), 1, "and that is said once");
    list(&gate, 6, Some("2"), &["other"], None);
    let lock = LockFile::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(lock.server("server").unwrap().tools.keys().collect::<Vec<_>>(), ["odd", "other", "read"]);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn instructions_in_another_shape_are_not_the_pinned_ones() {
    let file = std::env::temp_dir().join("sbx-never-written.json");
    for pins in [None, Some(&["read"][..])] {
        let kept = Arc::new(Kept::default());
        let gate = Gate::new(pinned("  allowed_tools: ['*']\n", &file, pins), "server", kept.clone(), kept);
        for odd in [
            r#""instructions":["do evil"]"#,
            r#""Instructions":"do evil""#,
            r#""in\u017ftructions":"do evil""#,
        ] {
            assert_eq!(
                gate.from_client(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#),
                Passage::AsIs
            );
            let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":1,{odd}}}}}"#);
            let wanted = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":1}}\n".to_owned();
            assert_eq!(gate.from_server(answer.as_bytes()), Passage::Instead(wanted), "{odd}");
        }
    }
}

#[test]
fn only_who_asked_hears_that_the_list_changed() {
    let (gate, _) = gate(LIST);
    let listen = |id: &str, wanted: &Value| {
        let ask = json!({ "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": { "notifications": wanted } });
        assert_eq!(gate.from_client(ask.to_string().as_bytes()), Passage::AsIs);
        let agreed =
            json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": id }, "notifications": wanted });
        let method = "notifications/subscriptions/acknowledged";
        let agreed = json!({ "jsonrpc": "2.0", "method": method, "params": agreed });
        assert_eq!(gate.from_server(agreed.to_string().as_bytes()), Passage::AsIs);
    };
    listen("tools", &json!({ "toolsListChanged": true }));
    listen("prompts", &json!({ "promptsListChanged": true, "toolsListChanged": false }));
    listen("gone", &json!({ "toolsListChanged": true }));
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "gone" } });
    gate.from_client(cancel.to_string().as_bytes());
    let told = gate.list_changed();
    assert!(told.len() == 1 && told[0].contains("\"tools\""), "{told:?}");
}

#[test]
fn methods_and_tools_are_not_disguised() {
    let (gate, _) = gate(
        "  allowed_tools: ['*']\n  case: exact\n  actions: {act: do}\n  arguments: {seek: {path: fs.read}}\n",
    );
    for method in
        ["Tools/List", " tools/list", "tools/list\u{0}x", "tools/li\u{17f}t", "tools/call\t", "Initialize"]
    {
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": method }).to_string();
        assert_eq!(code(&gate.from_client(line.as_bytes())), "-32600", "{method:?}");
    }
    let line = json!({ "jsonrpc": "2.0", "method": "Notifications/Cancelled" }).to_string();
    assert_eq!(code(&gate.from_client(line.as_bytes())), "-32600");
    for name in ["seek\u{0}", " seek", "seek\n", "\u{feff}seek", "read\u{0}seek"] {
        let line = call(1, name, &json!({ "path": "/w/a" }));
        assert_eq!(code(&gate.from_client(line.as_bytes())), "invalid_params", "{name:?}");
    }
    // Rules speak of whatever some server could take for their tool.
    for name in ["SEEK", "see\u{212a}", "\u{17f}eek"] {
        let line = call(1, name, &json!({ "path": "/etc/passwd" }));
        assert_eq!(code(&gate.from_client(line.as_bytes())), "scope_violation", "{name:?}");
    }
    assert_eq!(code(&gate.from_client(call(1, "ACT", &json!({ "do": 7 })).as_bytes())), "invalid_params");
    let proto = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"seek","arguments":{"__proto__":{"path":"/etc"}}}}"#;
    assert_eq!(code(&gate.from_client(proto.as_bytes())), "-32600");
}

#[test]
fn nothing_long_is_remembered_for_requests_that_are_never_answered() {
    let (gate, _) = gate("  allowed_tools: ['*']\n");
    let ask = |id: &str, name: &str| {
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name } });
        code(&gate.from_client(line.to_string().as_bytes()))
    };
    assert_eq!(ask(&"x".repeat(1100), "a"), "-32600");
    assert_eq!(ask("y", &"x".repeat(5000)), "-32602");
    assert!(ask(&"x".repeat(1000), &"x".repeat(4000)).contains("Instead"));
    let line = json!({ "jsonrpc": "2.0", "id": "x".repeat(1100), "method": "tools/list" }).to_string();
    assert_eq!(code(&gate.from_client(line.as_bytes())), "-32600");
}

#[test]
fn nothing_is_said_where_nothing_is_meant() {
    let (gate, _) = gate(LIST);
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":null}"#,
    ] {
        assert_eq!(gate.from_client(line.as_bytes()), Passage::AsIs);
    }
    let line = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":null}"#;
    assert_eq!(gate.from_server(line.as_bytes()), Passage::AsIs);
    let ask = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":null}}"#;
    assert_eq!(gate.from_client(ask.as_bytes()), Passage::AsIs);
    let answer = r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#;
    let Passage::Instead(page) = gate.from_server(answer.as_bytes()) else { unreachable!() };
    assert!(page.contains("get_policy"), "no cursor is the first page: {page}");
}

#[test]
fn every_refusal_is_recorded_and_nothing_is_allowed_that_is_refused() {
    let (gate, kept) = gate(LIST);
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["read"]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":[]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}"#,
    ] {
        assert_eq!(code(&gate.from_client(line.as_bytes())), "-32602", "{line}");
        let events = std::mem::take(&mut *kept.events.lock().unwrap());
        assert_eq!(events.len(), 1, "{line}");
        assert_eq!((&events[0].body["decision"], &events[0].body["call"]), (&json!("deny"), &json!("1")));
    }
    let line = call(5, "read", &json!({ "path": "/w/a" }));
    assert!(matches!(gate.from_client(line.as_bytes()), Passage::Instead(_)));
    assert_eq!(code(&gate.from_client(line.as_bytes())), "-32600", "the same identifier again");
    let events = kept.events.lock().unwrap();
    let decisions: Vec<&Value> = events.iter().map(|event| &event.body["decision"]).collect();
    assert_eq!(decisions, [&json!("allow"), &json!("deny")]);
}

#[test]
fn a_flood_of_garbage_is_counted_and_not_told_line_by_line() {
    let (gate, kept) = gate(LIST);
    for _ in 0..5_000 {
        assert!(matches!(gate.from_client(b"not json"), Passage::Back(_)));
        assert_eq!(gate.from_server(b"a banner"), Passage::Dropped);
    }
    let (events, lines) = (kept.events.lock().unwrap().len(), kept.lines.lock().unwrap().len());
    assert!((100..2_000).contains(&events) && lines < 2_000, "{events} events and {lines} lines");
    std::thread::sleep(std::time::Duration::from_millis(100));
    gate.from_client(b"not json");
    let events = kept.events.lock().unwrap();
    let left_out = |event: &Event| event.body.get("left_out_before").and_then(Value::as_u64).unwrap_or(0);
    let counted: u64 = events.iter().map(|event| 1 + left_out(event)).sum();
    assert_eq!(counted, 10_001, "what is not told is counted");
}

#[test]
fn what_is_heard_late_belongs_to_the_call_that_just_ended() {
    let (gate, kept) = gate(LIST);
    gate.from_client(call(4, "read", &json!({ "path": "/w/a" })).as_bytes());
    gate.from_server(br#"{"jsonrpc":"2.0","id":4,"result":{"content":[]}}"#);
    assert_eq!(gate.note_refusal(&json!({ "host": "b.example" }), false), [json!(null); 0]);
    assert_eq!(gate.note_refusal(&json!({ "path": "/etc" }), true), [json!({ "id": "4", "tool": "read" })]);
    gate.settle();
    assert_eq!(kept.events.lock().unwrap().last().unwrap().body["refused"], json!([{ "path": "/etc" }]));
}

#[test]
fn a_change_during_the_start_is_not_missed() {
    let dir = std::env::temp_dir().join(format!("sbx-start-{}", std::process::id()));
    let file = dir.join("agents/tester.yml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "id: tester\nmcp: {allowed_tools: ['*']}\n").unwrap();
    let origin = Origin {
        setting: Setting::with_facts(Facts::new("/home/u").config_dir(&dir)).unwrap(),
        agent: "tester".to_owned(),
        allowlist: None,
        pins: None,
        preset: None,
        server: "server".to_owned(),
        usual: String::new(),
        package: None,
        known_as: Vec::new(),
        cwd: "/w".into(),
    };
    let (rules, mut watch) = Watch::load(origin).unwrap();
    // The server is being started meanwhile.
    std::fs::write(&file, "id: tester\nmcp: {allowed_tools: []}\n").unwrap();
    let kept = Arc::new(Kept::default());
    let gate = Gate::new(rules, "server", kept.clone(), kept.clone());
    assert!(!watch.look(&gate, kept.as_ref()), "it must stand still first");
    assert!(watch.look(&gate, kept.as_ref()));
    assert_eq!(code(&gate.from_client(call(1, "read", &json!({})).as_bytes())), "tool_not_allowed");
    std::fs::remove_dir_all(dir).unwrap();
}
