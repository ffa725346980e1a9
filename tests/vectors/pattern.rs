//! Vectors of allowlists: files are loaded, watched and taken up anew by the code of `sbx mcp wrap`, and calls go
//! through its gate.

use crate::tools::Scratch;
use sbx::audit::Nowhere;
use sbx::manifest::Mcp;
use sbx::mcp::{Gate, Origin, Passage, Teller, Watch};
use sbx::run::Setting;
use sbx::{Facts, Manifest, Source};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The argument that names the action where a vector does not say which.
const ACTION: &str = "action";

/// Keeps what is told.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl Teller for Told {
    fn tell(&self, line: &str) {
        self.0.lock().expect("nobody panics with it").push(line.to_owned());
    }
}

/// What becomes of a vector's calls under its allowlist, and what the log says.
pub(crate) fn judged(input: &Value, request: &Value) -> Value {
    let scratch = Scratch::new();
    let record = record(input);
    write(&scratch.path().join("agents/tester.yml"), &record);
    let list = scratch.path().join("allowlist.yml");
    let first =
        ["allowed_tools", "file", "allowlist", "reload_from"].iter().find(|key| input.get(*key).is_some());
    let text = first.map(|key| allowlist(key, &input[*key], input, request));
    if let Some(text) = &text {
        write(&list, text);
    }
    let setting = Setting::with_facts(Facts::new("/home/u").config_dir(scratch.path())).expect("a setting");
    let origin = Origin {
        setting,
        agent: "tester".to_owned(),
        allowlist: text.as_ref().map(|_| list.clone()),
        pins: None,
        preset: None,
        server: "server".to_owned(),
        usual: String::new(),
        package: None,
        known_as: Vec::new(),
        cwd: "/home/u".into(),
    };
    let (rules, mut watch) = match Watch::load(origin) {
        Ok(loaded) => loaded,
        Err(error) => {
            let code = problem(text.as_deref(), &record);
            return json!({ "startup": "fail", "error": code, "log": [format!("error: {error}")] });
        }
    };
    let told = Arc::new(Told::default());
    told.tell(&rules.allowlist.summary());
    let gate = Gate::new(rules, "server", Arc::new(Nowhere), told.clone());
    let before = gate.rules();
    if let Some(next) = input.get("reload_to") {
        write(&list, &allowlist("reload_to", next, input, request));
        // Once to see that it changed, once more to see that it stands still.
        watch.look(&gate, told.as_ref());
        watch.look(&gate, told.as_ref());
    }
    let mut got = if request.is_object() { calls(&gate, input, request) } else { json!({}) };
    got["startup"] = json!("ok");
    got["kept_old"] = json!(Arc::ptr_eq(&before, &gate.rules()));
    got["log"] = json!(*told.0.lock().expect("nobody panics with it"));
    got
}

/// Put in place whole, as editors do.
fn write(file: &Path, text: &str) {
    let staged = file.with_extension("staged");
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
    std::fs::write(&staged, text).and_then(|()| std::fs::rename(&staged, file)).expect("a file");
}

fn record(input: &Value) -> String {
    let given = ["manifest", "record"].iter().find_map(|key| input[*key].as_str());
    let section = input.get("mcp").map_or_else(String::new, |section| format!("mcp: {section}\n"));
    given.unwrap_or("id: tester\n").to_owned() + &section
}

/// The text of an allowlist: as it stands, or made of its parts.
fn allowlist(key: &str, value: &Value, input: &Value, request: &Value) -> String {
    let mut text = match value {
        Value::String(text) if key != "allowed_tools" => text.clone(),
        Value::Object(parts) if key != "allowed_tools" => {
            parts.iter().map(|(key, value)| format!("{key}: {value}\n")).collect()
        }
        list => {
            let case = input.get("case").map_or_else(String::new, |case| format!("case: {case}\n"));
            format!("allowed_tools: {list}\n{case}")
        }
    };
    // Where the action is, if the list does not say so itself; a list that is wrong stays as it is.
    let actions = Value::Object(actions(input, request));
    let whole = Mcp::parse_allowlist(&Source::new("allowlist.yml", text.clone())).0;
    if whole.is_some_and(|list| list.actions.is_empty()) && actions != json!({}) {
        text.push_str(&format!("\nactions: {actions}\n"));
    }
    text
}

/// By tool, the argument that names the action.
fn actions(input: &Value, request: &Value) -> Map<String, Value> {
    match (input["actions"].as_object(), request["tool"].as_str()) {
        (Some(actions), _) => actions.clone(),
        (None, Some(tool)) if !request["action"].is_null() && !tool.is_empty() => {
            Map::from_iter([(tool.to_owned(), json!(ACTION))])
        }
        _ => Map::new(),
    }
}

/// The code of what is wrong.
fn problem(text: Option<&str>, record: &str) -> Value {
    let list = text.map(|text| Mcp::parse_allowlist(&Source::new("allowlist.yml", text)).1);
    let record = Manifest::parse(Source::new("tester.yml", record), &Facts::new("/home/u")).1;
    let first =
        list.iter().flatten().chain(&record).find(|problem| problem.severity == sbx::text::Severity::Error);
    json!(first.map(|problem| problem.code.name()))
}

/// Makes the calls, and says what became of the first and whether the others fared the same.
fn calls(gate: &Gate, input: &Value, request: &Value) -> Value {
    let tool = &request["tool"];
    let mut arguments = request["arguments"].as_object().cloned().unwrap_or_default();
    if let (Some(name), Some(action)) =
        (tool.as_str(), request.get("action").filter(|action| !action.is_null()))
    {
        let actions = input["actions"].as_object();
        let said = actions.and_then(|actions| actions.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)));
        let argument = said.and_then(|(_, argument)| argument.as_str());
        arguments.entry(argument.unwrap_or(ACTION)).or_insert_with(|| action.clone());
    }
    let one = |id: u64| {
        let params = json!({ "name": tool, "arguments": arguments });
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        fate(&gate.from_client(line.to_string().as_bytes()))
    };
    let all: Vec<Value> = (0..request["calls"].as_u64().unwrap_or(1)).map(one).collect();
    let mut got = all.first().cloned().unwrap_or_default();
    got["same_error_each_time"] = json!(all.iter().all(|one| *one == all[0] && one["decision"] == "deny"));
    got
}

/// What became of a call: it is on its way to the server, or answered by the gate.
fn fate(passage: &Passage) -> Value {
    let answer = match passage {
        Passage::AsIs | Passage::Instead(_) => return json!({ "decision": "allow" }),
        Passage::Dropped => return json!({ "decision": "deny" }),
        Passage::Back(line) => serde_json::from_str::<Value>(line).expect("JSON"),
    };
    let result = &answer["result"];
    if result["isError"] == false {
        return json!({ "decision": "allow", "result": result });
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let mut got = result["_meta"]["sbx/denial"].as_object().cloned().unwrap_or_default();
    got.insert("decision".to_owned(), json!("deny"));
    got.insert("body".to_owned(), serde_json::from_str(text).unwrap_or_default());
    for (key, value) in
        [("text", json!(text)), ("result", result.clone()), ("error", answer["error"].clone())]
    {
        got.insert(key.to_owned(), value);
    }
    Value::Object(got)
}
