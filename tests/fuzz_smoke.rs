//! Drives the fuzz targets' bodies for a bounded number of inputs, without a fuzzer.
//!
//! Inputs are seeds (shipped records, the conformance vectors, a few nasty ones) bent by a small
//! generator that always takes the same course. `SBX_FUZZ_ITERATIONS` sets how many per target.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on should say so and stop")]

#[path = "../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "it is a library of its own as well")]
mod bodies;

use sbx::profile::{BUILTIN_AGENTS, FILES};
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
    let shipped = BUILTIN_AGENTS.iter().chain(FILES).map(|(_, text)| (*text).to_owned());
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
    texts.into_iter().map(String::into_bytes).collect()
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
    let seeds = seeds();
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
}
