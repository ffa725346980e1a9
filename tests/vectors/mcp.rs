//! Vectors of the protocol: a line goes through the server that `sbx mcp serve` is, and its answer is taken apart.

use sbx::mcp::Teller;
use sbx::mcp::serve::{Handled, Means, Scene, Server};
use sbx::run::Setting;
use sbx::tool::Toolbox;
use sbx::{Config, Facts, Manifest, Policy, Source};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::sync::Arc;

/// An agent that may run anything in its home, so that what a vector says of danger is all that counts.
const RECORD: &str = "id: tester\ncapabilities:\n  - proc.exec: {in: ~}\n  - proc.eval: {in: ~}\n  - fs.read: {in: ~}\n  - fs.write: {in: ~}\n";

#[derive(Debug)]
struct Silent;

impl Teller for Silent {
    fn tell(&self, _line: &str) {}
}

fn server() -> Arc<Server> {
    let facts = Facts::new("/home/u").at("/home/u");
    let (manifest, problems) = Manifest::parse(Source::new("tester.yml", RECORD), &facts);
    let manifest = manifest.unwrap_or_else(|| panic!("{problems:?}"));
    let (policy, _) = Policy::resolve(&manifest, &Config::default(), &facts);
    let setting = Setting::with_facts(facts).expect("there is no configuration that could be wrong");
    let means = Means::new("vectors", None, Vec::new(), Arc::new(sbx::audit::Nowhere));
    Server::new(Scene::new(setting, policy, Toolbox::default(), "/home/u"), means, Arc::new(Silent))
}

/// The answer to a line: the message with its fields by path, the tools it lists, its text and what that says.
pub(crate) fn answered(request: &Value) -> Value {
    let lines = RefCell::new(Vec::new());
    match server().handle(request["line"].as_str().unwrap_or_default().as_bytes()) {
        Handled::Nothing => {}
        Handled::Answer(line) => lines.borrow_mut().push(line),
        Handled::Call(job) => job.run(&|line| lines.borrow_mut().push(line.to_owned())),
    }
    let parsed =
        lines.borrow().iter().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>();
    let Some(response) = parsed.into_iter().find(|message| message.get("method").is_none()) else {
        return json!({ "response": null });
    };
    let mut got = Map::new();
    flatten("", &response, &mut got);
    let names = response["result"]["tools"].as_array().into_iter().flatten().map(|tool| tool["name"].clone());
    got.insert("tools".to_owned(), names.collect());
    let text = response["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    if let Ok(body) = serde_json::from_str::<Value>(&text) {
        flatten("json", &body, &mut got);
    }
    got.insert("text".to_owned(), json!(text));
    got.insert("response".to_owned(), response);
    Value::Object(got)
}

/// Every field by its path, as `result.isError`.
fn flatten(path: &str, value: &Value, out: &mut Map<String, Value>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        flatten(&path, value, out);
        out.insert(path, value.clone());
    }
}
