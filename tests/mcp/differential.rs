//! Whatever any reader takes for a denied call never gets through the gate.
//!
//! Lines are made from calls by tricks, one upon another. What the gate lets through is read by serde_json, by
//! readers that take the first or the last of equal keys with or without case, and by Python and Node where they
//! are installed, each with every idea of where a line ends.

use crate::gate::gate;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use sbx::mcp::Passage;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

const RULES: &str = "  allowed_tools: [good]\n";

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

/// What a line is to readers with other ideas of where lines end.
fn pieces(passed: &str) -> Vec<String> {
    let ends: [&[char]; 4] = [
        &['\n'],
        &['\n', '\r'],
        &['\n', '\r', '\u{2028}', '\u{2029}'],
        &['\n', '\r', '\u{85}', '\u{b}', '\u{c}', '\u{2028}', '\u{2029}'],
    ];
    let split = |ends: &[char]| passed.split(ends).map(str::to_owned).collect::<Vec<_>>();
    let mut all: Vec<String> = ends.iter().flat_map(|ends| split(ends)).collect();
    all.extend(all.clone().iter().map(|piece| piece.trim_start_matches('\u{feff}').to_owned()));
    all
}

/// A careless reader: takes the first or the last of equal keys, with or without case, stops keys at NUL.
#[derive(Clone, Copy, Debug)]
struct Reader {
    last: bool,
    folds: bool,
}

/// Keeps every member of every map, in order.
#[derive(Debug)]
enum All {
    Map(Vec<(String, All)>),
    List(Vec<All>),
    Text(String),
    Other,
}

impl<'de> serde::Deserialize<'de> for All {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = All;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("anything")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<All, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(All::Map(members))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<All, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(All::List(items))
            }
            fn visit_str<E>(self, text: &str) -> Result<All, E> {
                Ok(All::Text(text.to_owned()))
            }
            fn visit_bool<E>(self, _: bool) -> Result<All, E> {
                Ok(All::Other)
            }
            fn visit_i64<E>(self, _: i64) -> Result<All, E> {
                Ok(All::Other)
            }
            fn visit_u64<E>(self, _: u64) -> Result<All, E> {
                Ok(All::Other)
            }
            fn visit_f64<E>(self, _: f64) -> Result<All, E> {
                Ok(All::Other)
            }
            fn visit_unit<E>(self) -> Result<All, E> {
                Ok(All::Other)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Reader {
    fn get<'v>(self, value: &'v All, wanted: &str) -> Option<&'v All> {
        let All::Map(members) = value else { return None };
        let fits = |(key, _): &&(String, All)| {
            let key = key.split('\0').next().unwrap_or_default();
            if self.folds { key.replace('\u{17f}', "s").eq_ignore_ascii_case(wanted) } else { key == wanted }
        };
        let mut found = members.iter().filter(fits);
        if self.last { found.next_back() } else { found.next() }.map(|(_, value)| value)
    }

    fn runs_evil(self, value: &All) -> bool {
        let text = |value: Option<&All>| match value {
            Some(All::Text(text)) => text.split('\0').next().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        match value {
            // A reader of the years in which batches were legal.
            All::List(items) => items.iter().any(|item| self.runs_evil(item)),
            All::Map(_) => {
                let params = self.get(value, "params");
                text(self.get(value, "method")) == "tools/call"
                    && text(params.and_then(|params| self.get(params, "name"))) == "evil"
            }
            All::Text(_) | All::Other => false,
        }
    }
}

/// A reader in another language: gets a text as a JSON string, answers `evil` or `fine`.
struct Foreign(Child, BufReader<std::process::ChildStdout>);

const PYTHON: &str = r#"
import json, sys
def evil(v):
    if isinstance(v, list): return any(evil(x) for x in v)
    p = v.get("params") if isinstance(v, dict) else None
    return isinstance(p, dict) and v.get("method") == "tools/call" and p.get("name") == "evil"
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
const evil = (v) => Array.isArray(v) ? v.some(evil) : !!v && typeof v === "object" && v.method === "tools/call" && !!v.params && v.params.name === "evil";
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const text = JSON.parse(line); let bad = false;
  for (const piece of [text, ...text.split(/\r?\n|\r(?!\n)|\u2028|\u2029/)])
    for (const p of [piece, piece.replace(/^\ufeff/, "")]) { try { bad = bad || evil(JSON.parse(p)); } catch {} }
  console.log(bad ? "evil" : "fine");
});
"#;

impl Foreign {
    fn start(program: &str, args: &[&str]) -> Option<Self> {
        let child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.ok()?;
        let out = BufReader::new(child.stdout.take()?);
        Some(Self(child, out))
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

fn runs_evil_here(text: &str) -> bool {
    let readers = [(false, false), (false, true), (true, false), (true, true)];
    pieces(text).iter().any(|piece| {
        let by_value = serde_json::from_str::<Value>(piece)
            .is_ok_and(|value| value["method"] == "tools/call" && value["params"]["name"] == "evil");
        let all = serde_json::from_str::<All>(piece);
        by_value
            || all.is_ok_and(|all| {
                readers.iter().any(|(last, folds)| Reader { last: *last, folds: *folds }.runs_evil(&all))
            })
    })
}

#[test]
fn the_readers_would_notice() {
    let evil = [
        r#"{"method":"tools/call","params":{"name":"evil"}}"#,
        r#"{"method":"ping","method":"tools/call","params":{"name":"evil"}}"#,
        r#"{"METHOD":"tools/call","params":{"name":"evil"}}"#,
        r#"[{"method":"tools/call","params":{"name":"evil"}}]"#,
        "{\"x\":\"\u{2028}{\"method\":\"tools/call\",\"params\":{\"name\":\"evil\"}}\u{2028}\"}",
    ];
    for text in evil {
        assert!(runs_evil_here(text), "{text}");
    }
    assert!(!runs_evil_here(r#"{"method":"tools/call","params":{"name":"good"}}"#));
}

#[test]
fn no_reader_takes_what_passes_for_a_denied_call() {
    let mut foreign: Vec<Foreign> =
        [Foreign::start("python3", &["-c", PYTHON]), Foreign::start("node", &["-e", NODE])]
            .into_iter()
            .flatten()
            .collect();
    if foreign.len() < 2 {
        let _ = writeln!(std::io::stderr(), "only {} of Python and Node are here to read", foreign.len());
    }
    for reader in &mut foreign {
        assert!(reader.runs_evil(r#"{"method":"ping","method":"tools/call","params":{"name":"evil"}}"#));
    }
    let (mut through, mut stopped) = (0, 0);
    let mut runner =
        TestRunner::new(Config { cases: 20_000, failure_persistence: None, ..Config::default() });
    let result = runner.run(&lines(), |line| {
        // The closure must be callable again; what it counts is only looked at afterwards.
        let Some(text) = passed(&line) else { return Ok(()) };
        prop_assert!(!runs_evil_here(&text), "{line:?} passes as {text:?}");
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
