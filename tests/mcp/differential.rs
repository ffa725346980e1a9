//! Whatever any reader takes for a denied call never gets through the gate.
//!
//! Lines are made from calls by tricks, one upon another. What the gate lets through is read by serde_json, by
//! readers that take the first or the last of equal keys with or without case, and by Python and Node,
//! each with every idea of where a line ends.

use crate::gate::gate;
use crate::readers::{RULES, runs_denied};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use sbx::mcp::Passage;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// Parts that lines are made of; joined without regard for sense.
const PARTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    " ",
    "\t",
    "\r",
    "\u{feff}",
    "\u{2028}",
    "\u{85}",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "\"jsonrpc\":\"2.0\"",
    "\"id\":1",
    "\"id\":\"1\"",
    "\"method\":\"tools/call\"",
    "\"method\":\"ping\"",
    "\"Method\":\"tools/call\"",
    "\"\\u006dethod\":\"tools/call\"",
    "\"method\\u0000\":\"tools/call\"",
    "\"params\":{\"name\":\"evil\"}",
    "\"params\":{\"name\":\"good\"}",
    "\"Params\":{\"name\":\"evil\"}",
    "\"params\":{\"name\":\"good\",\"name\":\"evil\"}",
    "\"params\":{\"name\":\"good\",\"NAME\":\"evil\"}",
    "\"param\u{17f}\":{\"name\":\"evil\"}",
    "\"__proto__\":{\"name\":\"evil\"}",
    "\"__pr\\u006fto__\":{\"method\":\"tools/call\",\"params\":{\"name\":\"evil\"}}",
    "\"arguments\":{\"do\":\"evil\"}",
    "\"arguments\":{\"path\":\"/etc/evil\"}",
    "\"do\":\"evil\"",
    "\"DO\":\"evil\"",
    "\"do\\u0000\":\"evil\"",
    "\"path\":\"/etc/evil\"",
    "\"Path\":\"/etc/evil\"",
    "\"__proto__\":{\"path\":\"/etc/evil\",\"do\":\"evil\"}",
    "\"name\":\"act\"",
    "\"name\":\"Good \"",
    "\"name\":\"act\\u0000\"",
    "\"x\":1",
    "/*",
    "*/",
    "//",
    "null",
    "true",
    "1e400",
    "-0",
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"evil\"}}",
];

/// A proper message, then a few changes to it.
fn lines() -> impl Strategy<Value = String> {
    let starts = prop::sample::select(vec![
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"good","arguments":{"a":"b"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"act","arguments":{"a":"b","do":"good"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"a":"b","path":"/w/a"},"name":"good"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"text":"x"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"text":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"text":"x"}}"#,
    ]);
    let change = (any::<prop::sample::Index>(), prop::sample::select(PARTS.to_vec()), 0..3_usize);
    (starts, prop::collection::vec(change, 0..5)).prop_map(|(start, changes)| {
        let mut line: Vec<char> = start.chars().collect();
        for (at, part, how) in changes {
            let at = at.index(line.len().max(1)).min(line.len());
            // Most changes are made where a member could stand.
            let at = if how > 0 {
                line[at..].iter().position(|c| *c == ',').map_or(at, |n| at + n + 1)
            } else {
                at
            };
            let part = if how == 2 { format!("{part},") } else { part.to_owned() };
            line.splice(at..at, part.chars());
        }
        line.into_iter().filter(|c| *c != '\n').collect()
    })
}

/// A reader in another language: gets a text as a JSON string, answers `evil` or `fine`.
struct Foreign(Child, BufReader<std::process::ChildStdout>);

const PYTHON: &str = r#"
import json, sys
def evil(v):
    if isinstance(v, list): return any(evil(x) for x in v)
    p = v.get("params") if isinstance(v, dict) else None
    if not isinstance(p, dict) or v.get("method") != "tools/call": return False
    a = p.get("arguments"); a = a if isinstance(a, dict) else {}; n = p.get("name"); n = n.strip().lower() if isinstance(n, str) else n
    return n == "evil" or (n == "act" and a.get("do") == "evil") or (n == "good" and a.get("path") == "/etc/evil")
for line in sys.stdin:
    text = json.loads(line); bad = False
    for piece in [text] + text.splitlines() + text.split("\r"):
        for piece in (piece, piece.lstrip("\ufeff")):
            for strict in (True, False):
                try: bad = bad or evil(json.loads(piece, strict=strict))
                except Exception: pass
    print("evil" if bad else "fine", flush=True)
"#;
const NODE: &str = r#"
const name = (n) => typeof n === "string" ? n.trim().toLowerCase() : n;
const denied = (v) => v.method === "tools/call" && !!v.params && (name(v.params.name) === "evil"
  || (name(v.params.name) === "act" && !!v.params.arguments && v.params.arguments.do === "evil")
  || (name(v.params.name) === "good" && !!v.params.arguments && v.params.arguments.path === "/etc/evil"));
// As servers do that copy what they were sent: what is assigned to __proto__ is a prototype then.
const copied = (v) => !v || typeof v !== "object" || Array.isArray(v) ? v
  : Object.keys(v).reduce((copy, key) => { copy[key] = copied(v[key]); return copy; }, {});
const evil = (v) => Array.isArray(v) ? v.some(evil) : !!v && typeof v === "object" && (denied(v) || denied(copied(v)));
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const text = JSON.parse(line); let bad = false;
  for (const piece of [text, ...text.split(/\r?\n|\r(?!\n)|\u2028|\u2029/)])
    for (const p of [piece, piece.replace(/^\ufeff/, "")]) { try { bad = bad || evil(JSON.parse(p)); } catch {} }
  console.log(bad ? "evil" : "fine");
});
"#;

impl Foreign {
    fn start(program: &str, args: &[&str]) -> Self {
        let child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child =
            child.unwrap_or_else(|error| unreachable!("{program} is needed for this test: {error}"));
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Self(child, out)
    }

    fn runs_evil(&mut self, text: &str) -> bool {
        let line = format!("{}\n", ascii(text));
        self.0.stdin.as_mut().expect("a pipe").write_all(line.as_bytes()).expect("the reader reads");
        let mut answer = String::new();
        self.1.read_line(&mut answer).expect("the reader answers");
        match answer.trim() {
            "evil" => true,
            "fine" => false,
            other => unreachable!("the reader said {other:?}"),
        }
    }
}

/// A JSON string in which nothing ends a line.
fn ascii(text: &str) -> String {
    let mut out = String::from("\"");
    for unit in text.encode_utf16() {
        out.push_str(&format!("\\u{unit:04x}"));
    }
    out + "\""
}

impl Drop for Foreign {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What the server would get.
fn passed(line: &str) -> Option<String> {
    let (gate, _) = gate(RULES);
    match gate.from_client(line.as_bytes()) {
        Passage::AsIs => Some(format!("{line}\n")),
        Passage::Instead(line) => Some(line),
        Passage::Back(_) | Passage::Dropped => None,
    }
}

#[test]
fn the_readers_would_notice() {
    let evil = [
        r#"{"method":"tools/call","params":{"name":"evil"}}"#,
        r#"{"method":"ping","method":"tools/call","params":{"name":"evil"}}"#,
        r#"{"METHOD":"tools/call","params":{"name":"evil"}}"#,
        r#"[{"method":"tools/call","params":{"name":"evil"}}]"#,
        r#"{"method":"tools/call","params":{"__proto__":{"name":"evil"}}}"#,
        r#"{"method":"tools/call","params":{"name":"act","arguments":{"do":"good","DO":"evil"}}}"#,
        r#"{"method":"tools/call","params":{"name":"Good ","arguments":{"path":"/etc/evil"}}}"#,
        "{\"x\":\"\u{2028}{\"method\":\"tools/call\",\"params\":{\"name\":\"evil\"}}\u{2028}\"}",
    ];
    for text in evil {
        assert!(runs_denied(text), "{text}");
    }
    assert!(!runs_denied(r#"{"method":"tools/call","params":{"name":"good"}}"#));
}

#[test]
fn no_reader_takes_what_passes_for_a_denied_call() {
    let mut foreign = [Foreign::start("python3", &["-c", PYTHON]), Foreign::start("node", &["-e", NODE])];
    for reader in &mut foreign {
        for text in [
            r#"{"method":"ping","method":"tools/call","params":{"name":"evil"}}"#,
            r#"{"method":"tools/call","params":{"name":" ACT","arguments":{"do":"evil"}}}"#,
            r#"{"method":"tools/call","params":{"name":"good","arguments":{"path":"/etc/evil"}}}"#,
        ] {
            assert!(reader.runs_evil(text), "{text}");
        }
        assert!(
            !reader.runs_evil(r#"{"method":"tools/call","params":{"name":"act","arguments":{"do":"good"}}}"#)
        );
    }
    let node = &mut foreign[1];
    assert!(node.runs_evil(r#"{"method":"tools/call","params":{"__proto__":{"name":"evil"}}}"#));
    let (mut through, mut stopped) = (0, 0);
    let mut runner =
        TestRunner::new(Config { cases: 20_000, failure_persistence: None, ..Config::default() });
    let result = runner.run(&lines(), |line| {
        // The closure must be callable again; what it counts is only looked at afterwards.
        let Some(text) = passed(&line) else { return Ok(()) };
        prop_assert!(!runs_denied(&text), "{line:?} passes as {text:?}");
        Ok(())
    });
    assert!(result.is_ok(), "{result:?}");
    let mut runner = TestRunner::deterministic();
    for _ in 0..3000 {
        let line = lines().new_tree(&mut runner).expect("a line").current();
        let Some(text) = passed(&line) else {
            stopped += 1;
            continue;
        };
        through += 1;
        for reader in &mut foreign {
            assert!(!reader.runs_evil(&text), "{line:?} passes as {text:?}");
        }
    }
    assert!(
        through > 100 && stopped > 100,
        "{through} lines passed and {stopped} did not: nothing was tried"
    );
}
