//! Vectors of the protocol: lines go through the server that `sbx mcp serve` is, and the last answer is taken apart.

use sbx::mcp::Teller;
use sbx::mcp::serve::{Handled, Means, Scene, Server};
use sbx::run::Setting;
use sbx::tool::Toolbox;
use sbx::{Config, Facts, Manifest, Policy, Source};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::sync::Arc;

/// An agent that may run anything in its home, so that what a vector says of danger is all that counts.
const RECORD: &str = "id: tester\ncapabilities:\n  - proc.exec: {in: \"~\"}\n  - proc.eval: {in: \"~\"}\n  - fs.read: {in: \"~\"}\n  - fs.write: {in: \"~\"}\n";
/// The keys of an allowlist, as a vector gives them.
const ALLOWLIST: [&str; 3] = ["allowed_tools", "case", "actions"];

#[derive(Debug)]
struct Silent;

impl Teller for Silent {
    fn tell(&self, _line: &str) {}
}

/// The record of a vector: its own or the usual one, with the sections it names.
fn record(input: &Value) -> String {
    let given = ["manifest", "record"].iter().find_map(|key| input[*key].as_str());
    let mut text = given.unwrap_or(RECORD).to_owned();
    let list: Map<String, Value> =
        ALLOWLIST.iter().filter_map(|key| Some(((*key).to_owned(), input.get(*key)?.clone()))).collect();
    let list = Some(Value::Object(list)).filter(|list| *list != json!({}));
    for (section, value) in
        [("risk", input.get("risk").cloned()), ("mcp", input.get("mcp").cloned().or(list))]
    {
        if let Some(value) = value {
            text.push_str(&format!("{section}: {value}\n"));
        }
    }
    text
}

fn server(input: &Value) -> Result<Arc<Server>, Value> {
    let facts = Facts::new("/home/u").at("/home/u");
    let (manifest, problems) = Manifest::parse(Source::new("tester.yml", record(input)), &facts);
    let fail = || json!({ "startup": "fail", "error": problems.first().map(|problem| problem.code.name()) });
    let manifest = manifest.ok_or_else(fail)?;
    let (policy, _) = Policy::resolve(&manifest, &Config::default(), &facts);
    let setting = Setting::with_facts(facts).expect("there is no configuration that could be wrong");
    let means = Means::new("vectors", None, Vec::new(), Arc::new(sbx::audit::Nowhere));
    let scene = Scene::new(setting, policy, Toolbox::default(), "/home/u");
    Ok(Server::new(scene, means, Arc::new(Silent)))
}

/// The answer to a line, or to the last of several: the message, the tools it lists, its text and what that says.
pub(crate) fn answered(input: &Value, request: &Value) -> Value {
    let server = match server(input) {
        Ok(server) => server,
        Err(failed) => return failed,
    };
    let one = std::slice::from_ref(&request["line"]);
    let lines = request["lines"].as_array().map_or(one, Vec::as_slice);
    let mut response = Value::Null;
    for line in lines.iter().filter_map(Value::as_str) {
        response = response_to(&server, line);
    }
    let mut got = response.as_object().cloned().unwrap_or_default();
    let result = &response["result"];
    if let Some(tools) = result["tools"].as_array() {
        got.insert("tools".to_owned(), tools.iter().map(|tool| tool["name"].clone()).collect());
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    got.insert("json".to_owned(), serde_json::from_str(text).unwrap_or_default());
    got.insert("text".to_owned(), json!(text));
    got.insert("startup".to_owned(), json!("ok"));
    got.insert("response".to_owned(), response);
    Value::Object(got)
}

fn response_to(server: &Arc<Server>, line: &str) -> Value {
    let lines = RefCell::new(Vec::new());
    match server.handle(line.as_bytes()) {
        Handled::Nothing => {}
        Handled::Answer(line) => lines.borrow_mut().push(line),
        Handled::Call(job) => job.run(&|line| lines.borrow_mut().push(line.to_owned())),
    }
    let lines = lines.into_inner();
    let mut messages = lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    messages.find(|message| message.get("method").is_none()).unwrap_or_default()
}
