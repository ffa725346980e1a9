//! Drives the fuzz targets' bodies for a bounded number of inputs, without a fuzzer.
//!
//! Inputs are seeds (shipped records, the conformance vectors, a few nasty ones) bent by a small
//! generator that always takes the same course. `SBX_FUZZ_ITERATIONS` sets how many per target.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on should say so and stop")]

#[path = "../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "it is a library of its own as well")]
mod bodies;

use sbx::profile::{BUILTIN_AGENTS, BUILTIN_TOOLS, FILES};
use serde_json::Value;
use std::panic::catch_unwind;

/// A generator of numbers that needs no crate and always starts the same.
struct Course(u64);

impl Course {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below.max(1) as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.next(items.len())]
    }
}

/// Pieces that have a meaning somewhere in the language.
const PIECES: &[&str] = &[
    "---\n",
    "\r\n",
    "\n",
    "\r",
    "\t",
    "  - ",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "=",
    "\"",
    "'",
    "\\",
    "#",
    "|",
    ">",
    "&a",
    "*a",
    "!t",
    "<<: ",
    "? ",
    "~",
    "$PROJECT",
    "..",
    "/",
    "**",
    "*",
    "?",
    "*.",
    ":443",
    ":0",
    "@",
    "[::1]",
    "0x7f",
    "127.0.0.1",
    "xn--",
    ".",
    "capabilities: ",
    "sandbox: /w\n",
    "access: rw\n",
    "id: a\n",
    "limits: {}\n",
    "fs.read",
    "fs.write{in=/w,paths=[.git/hooks]}",
    "proc.exec{in=/w,cmds=[./t]}",
    "net.get{hosts=[*.x.com:80]}",
    "\u{feff}",
    "\u{0}",
    "\u{85}",
    "\u{2028}",
    "é",
    "€",
    "\u{1b}[31m",
    "null",
    "true",
    "1e9",
    "$(",
    ")",
    "((",
    "))",
    "`",
    "${x:-",
    "$'",
    "<<E\n",
    "E\n",
    " | ",
    " && ",
    "; ",
    "if ",
    "case x in a) ",
    "x() { ",
    "{a,b}",
    "rm -rf ",
    "sh -c '",
    "eval ",
    "<(",
    "%2e",
    "...\n",
];

/// Pieces that have a meaning in definitions of tools.
const TOOL_PIECES: &[&str] = &[
    "${x}",
    "{{x}}",
    "echo ${x}",
    "$(",
    "`",
    "sh -c ",
    "\nrun: ",
    "params: {x: text}\n",
    "[params.x]\ntype = \"text\"\n",
    "kind = \"command\"\n",
    "\n../a\n",
];

/// Lines for a server of the Model Context Protocol.
const LINES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":"after:exec"}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"check_command","arguments":{"command":"rm -rf \u2028/"}}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"exec","arguments":{"argv":["id"],"cwd":"/w","timeout_seconds":1}}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/etc/passwd"},"_meta":{"progressToken":"t"}}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}"#,
];

/// Tasks for the helper, and pieces of them.
const TASKS: &[&str] = &[
    r#"{"op":"read","path":"L3c=","seen":{"there":[1,2],"within":null},"part":{"lines":[1,2]}}"#,
    r#"{"op":"write","path":"L3cv/w==","seen":{"there":null,"within":[1,2]},"existing":"new","parents":true,"replace":false}"#,
    r#"{"op":"edit","path":"L3c=","seen":{"there":null,"within":null},"edits":[{"old":"a","new":"b","all":true}],"replace":true}"#,
    r#"{"op":"search","path":"L3c=","seen":{"there":null,"within":null},"query":{"glob":"**","pattern":"(","ignore_case":true,"most":1,"millis":1}}"#,
    "\"op\":\"delete\",",
    "\"directory\":1e99,",
    "18446744073709551616",
    "\"path\":\"!\",",
];

/// Pieces that have a meaning in messages of the Model Context Protocol.
const MESSAGE_PIECES: &[&str] = &[
    "\"method\":\"tools/call\",",
    "\"Method\":\"tools/call\",",
    "\"name\":\"evil\",",
    "\"NAME\":\"evil\",",
    "\"params\":{\"name\":\"evil\"},",
    "\"id\":1,",
    "\\u006d",
    "\\u0000",
    "\\ud800",
    "\u{17f}",
    "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"evil\"}}",
];

/// What programs say to the gateway: requests, chunked bodies, questions for names, SOCKS, a greeting of TLS.
const SAID: &[&[u8]] = &[
    b"GET /a?b HTTP/1.1\r\nHost: x.example:80\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"POST http://x.example/ HTTP/1.0\r\nContent-Length: 5\r\nX: y\r\n\r\nhello",
    b"PUT / HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"CONNECT x.example:443 HTTP/1.1\r\nHost: x.example\r\n\r\n",
    b"5\r\nhello\r\n0\r\nTrailer: x\r\n\r\nGET",
    b"a;x=\"y\"\r\n0123456789\r\n00\r\n\r\n",
    b"\0\x07\x01\0\0\x01\0\0\0\0\0\x01\x03api\x04test\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0",
    b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x011\x010\x010\x03127\x07in-addr\x04arpa\0\0\x0c\0\x01",
    b"\x05\x01\0\x05\x01\0\x03\x09x.example\x01\xbb",
    b"\x05\x02\0\x02\x05\x01\0\x01\x7f\0\0\x01\0\x50",
    b"\x05\x01\0\x05\x01\0\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x01\x02\x03\x04\0\x50",
    HELLO,
];

/// A greeting for `x.example` that offers HTTP/2.
const HELLO: &[u8] = b"\x16\x03\x01\0\x67\x01\0\0\x63\x03\x03\
0123456789abcdef0123456789abcdef\0\0\x02\x13\x01\x01\0\0\x38\
\0\0\0\x0e\0\x0c\0\0\x09x.example\0\x10\0\x05\0\x03\x02h2\0\x0a\0\x04\0\x02\0\x1d\
\0\x0d\0\x04\0\x02\x04\x03\0\x2b\0\x03\x02\x03\x04\0\x33\0\x02\0\0";

fn bent(seed: &[u8], seeds: &[Vec<u8>], pieces: &[&str], course: &mut Course) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..=course.next(6) {
        let at = course.next(data.len() + 1);
        let end = (at + course.next(12)).min(data.len());
        match course.next(7) {
            0 => drop(data.splice(at..at, course.pick(pieces).bytes())),
            1 => drop(data.splice(at..end, course.pick(pieces).bytes())),
            2 => drop(data.drain(at..end)),
            3 => {
                let piece = data[at..end].to_vec();
                drop(data.splice(at..at, piece));
            }
            4 => {
                let other = course.pick(seeds).clone();
                let from = course.next(other.len() + 1);
                data.truncate(at);
                data.extend(&other[from..]);
            }
            5 if at < data.len() => data[at] ^= 1 << course.next(8),
            _ => data.truncate(at.max(1)),
        }
    }
    data.truncate(4096);
    data
}

/// Every text in the vectors that a target could be given.
fn vector_texts() -> Vec<String> {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            Value::Object(map) => map.values().for_each(|item| walk(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = Vec::new();
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "json") {
            walk(&serde_json::from_str(&std::fs::read_to_string(entry.path()).unwrap()).unwrap(), &mut found);
        }
    }
    found.sort();
    found.dedup();
    found
}

fn seeds() -> Vec<Vec<u8>> {
    let shipped = BUILTIN_AGENTS.iter().chain(BUILTIN_TOOLS).chain(FILES).map(|(_, text)| (*text).to_owned());
    let shell = [include_str!("risk/dangerous.txt"), include_str!("risk/harmless.txt")];
    let lines = shell.iter().flat_map(|text| text.lines()).step_by(9).map(|line| line.replace("\\n", "\n"));
    let calls = [
        r#"{"hook_event_name":"PreToolUse","cwd":"/w","tool_name":"Bash","tool_input":{"command":"ls 'a b'"}}"#,
        r#"{"hook_event_name":"preToolUse","workspace_roots":["/w"],"tool_name":"Shell","tool_input":"{\"command\":\"ls\"}"}"#,
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch\n",
        "rg -n \"a b\" --x=y 'c'",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"good","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"ping","method":"tools/call","params":{"name":"good","Name":"evil"}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[{\"name\":\"evil\"}]}}",
    ];
    let nasty = ["[".repeat(3000), "{a: ".repeat(700), "- ".repeat(2000), "a: &x [*x]\n".to_owned()];
    let nasty = nasty.into_iter().chain(TASKS.iter().chain(LINES).map(ToString::to_string));
    let mut texts: Vec<String> =
        shipped.chain(nasty).chain(calls.map(str::to_owned)).chain(lines).chain(vector_texts()).collect();
    let records: Vec<String> =
        texts.iter().filter(|text| text.contains("capabilities:")).map(|text| in_front(text)).collect();
    texts.extend(records);
    texts.into_iter().map(String::into_bytes).chain(SAID.iter().map(|said| said.to_vec())).collect()
}

/// The shape of what a target reads, so that seeds of that shape are chosen more often.
fn seeds_for(name: &str) -> Vec<Vec<u8>> {
    match name {
        "http_head" | "http_chunks" | "dns_question" | "socks" | "tls_hello" => {
            SAID.iter().map(|said| said.to_vec()).collect()
        }
        _ => seeds(),
    }
}

/// A record as an edit's input: a spec on the first line, then the record with front matter.
fn in_front(text: &str) -> String {
    let record = if text.starts_with("---") { text.to_owned() } else { format!("---\n{text}---\nbody\n") };
    format!("net.get{{hosts=[new.example]}}\n{record}")
}

fn drive(name: &str, body: fn(&[u8])) {
    let pieces: Vec<&str> = match name {
        "helper_task" => PIECES.iter().chain(TASKS).copied().collect(),
        "serve" => PIECES.iter().chain(LINES).copied().collect(),
        "mcp_gate" => PIECES.iter().chain(MESSAGE_PIECES).copied().collect(),
        name if name.starts_with("tool") => PIECES.iter().chain(TOOL_PIECES).copied().collect(),
        _ => PIECES.to_vec(),
    };
    let asked = std::env::var("SBX_FUZZ_ITERATIONS").ok().and_then(|text| text.parse().ok());
    let seeds = seeds_for(name);
    let mut course = Course(0x5eed);
    let bent = |_| {
        let seed = course.pick(&seeds).clone();
        bent(&seed, &seeds, &pieces, &mut course)
    };
    let inputs = seeds.clone().into_iter().chain((0..asked.unwrap_or(4000)).map(bent));
    for data in inputs {
        if catch_unwind(|| body(&data)).is_err() {
            panic!("{name} fails on b\"{}\"", data.escape_ascii());
        }
    }
}

macro_rules! smoke {
    ($($test:ident $body:ident)*) => {
        $(#[test]
        fn $test() {
            drive(stringify!($body), bodies::$body);
        })*
    };
}

/// Seeds that no reader takes would try nothing.
#[test]
fn what_is_said_to_the_gateway_is_read() {
    use sbx::net::tried::{chunked, question, request_head, socks_target, tls_greeting};
    let count = |reads: &dyn Fn(&[u8]) -> bool| SAID.iter().filter(|said| reads(said)).count();
    assert_eq!(count(&|said| matches!(request_head(said), Ok(Some(_)))), 4);
    assert_eq!(count(&|said| chunked(said, 1, false).is_some_and(|(_, ended)| ended)), 2);
    assert_eq!(count(&|said| question(said).is_some()), 2);
    assert_eq!(count(&|said| socks_target(said).is_some()), 3);
    assert_eq!(count(&|said| tls_greeting(said).is_some()), 1);
}

smoke! {
    front_matter_splits_any_text front_matter
    records_are_read_or_refused record
    specs_print_back compact_spec
    hosts_have_one_spelling host
    patterns_agree_with_a_slow_matcher pattern
    edits_mean_what_they_say edit
    tools_are_read_or_refused tool_definition
    values_stay_whole tool_value
    shell_text_is_read_or_refused risk
    hooks_read_calls_and_quote_commands hook
    tasks_are_read_or_refused helper_task
    lines_are_answered_once serve
    no_denied_call_gets_through mcp_gate
    heads_have_one_reading http_head
    chunks_are_the_same_however_they_come http_chunks
    questions_are_answered_within_bounds dns_question
    targets_of_socks_have_one_spelling socks
    greetings_of_tls_are_read_or_refused tls_hello
}
