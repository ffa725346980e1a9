//! An agent, its project and a client that talks to its server.

use crate::server::Talk;
use crate::support::TestEnv;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a test waits for something that should be there soon.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A world in which the agent `tester` holds these grants in the project; further lines of its record after them.
pub(crate) fn world(grants: &[&str], rest: &str) -> TestEnv {
    let env = TestEnv::new();
    record(&env, grants, rest);
    env
}

/// Writes the record of `tester` in one step, as editors do.
pub(crate) fn record(env: &TestEnv, grants: &[&str], rest: &str) {
    let root = env.project().display().to_string();
    let lines: String =
        grants.iter().map(|grant| format!("  - {}\n", grant.replace("ROOT", &root))).collect();
    let staged = env.write("staged", format!("id: tester\ncapabilities:\n{lines}{rest}"));
    std::fs::create_dir_all(env.record("")).unwrap();
    std::fs::rename(staged, env.record("tester.yml")).unwrap();
}

/// Everything below the project.
pub(crate) const ALL: &[&str] = &[
    "fs.read: {in: ROOT}",
    "fs.write: {in: ROOT}",
    "fs.delete: {in: ROOT}",
    "proc.exec: {in: ROOT}",
    "proc.eval: {in: ROOT}",
];

/// What each tool says it answers, by name.
pub(crate) fn schemas(talk: &mut Talk) -> BTreeMap<String, Value> {
    let (mut found, mut params) = (BTreeMap::new(), json!({}));
    loop {
        let page = talk.ask("tools/list", params);
        for tool in page["result"]["tools"].as_array().unwrap() {
            jsonschema::validator_for(&tool["inputSchema"]).unwrap();
            found.insert(tool["name"].as_str().unwrap().to_owned(), tool["outputSchema"].clone());
        }
        match page["result"]["nextCursor"].as_str() {
            Some(next) => params = json!({ "cursor": next }),
            None => return found,
        }
    }
}

/// A client of the old era, introduced.
pub(crate) fn serve(env: &TestEnv) -> Talk {
    let mut talk = Talk::start(env, &["mcp", "serve", "--agent", "tester"]);
    talk.hello();
    talk
}

/// The text of an answer.
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| unreachable!("{answer}"))
}

/// The structured part of an answer that is no error.
pub(crate) fn done(answer: &Value) -> &Value {
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    &answer["result"]["structuredContent"]
}

/// The code of a denial or a failure, after looking at all the places where it is told.
pub(crate) fn refused(answer: &Value) -> String {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let body = &answer["result"]["structuredContent"];
    assert_eq!(body["is_error"], true, "{answer}");
    body["code"].as_str().unwrap_or_else(|| unreachable!("{answer}")).to_owned()
}

/// The events of the log that fit.
pub(crate) fn events(env: &TestEnv, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
    let text = std::fs::read_to_string(env.home().join(".local/state/sbx/audit.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|event| fits(event)).collect()
}

/// Whether the log has the denial of a call of this tool.
pub(crate) fn recorded(env: &TestEnv, tool: &str, code: &str) -> bool {
    let found = events(env, |event| event.to_string().contains(code) && event.to_string().contains(tool));
    found.iter().any(|event| {
        let body = event.get("body").unwrap_or(event);
        body["decision"] == "deny" && body["denial"]["code"] == code && body["tool"] == tool
    })
}

/// A request of the new era.
pub(crate) fn modern(talk: &mut Talk, method: &str, mut params: Value) -> Value {
    let meta = params.get("_meta").cloned().unwrap_or_else(|| json!({}));
    params["_meta"] = meta;
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    talk.ask(method, params)
}

/// Waits until something holds.
pub(crate) fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How many processes there are whose command line holds this word.
pub(crate) fn alive(word: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

/// A number that no other command line holds: a time to sleep, in seconds.
pub(crate) fn marker(env: &TestEnv) -> String {
    let name = env.project();
    let number = name.parent().and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    format!("9{digits}")
}
