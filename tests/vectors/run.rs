//! Runs one vector through the library and compares what comes out with what is expected.

use crate::compare::{Outcome, compare};
use sbx::capability::{Scope, ScopeValue, Spec};
use sbx::decide::AskError;
use sbx::manifest::{expand, grant, revoke, spec_from_json};
use sbx::tool::{allowed_tools, offers, unmet};
use sbx::{Config, Decision, Denial, DenialCode, Facts, Manifest, Policy, Problem, Request, Source, decide};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Runs a vector; none when its group is not built yet.
pub(crate) fn run(group: &str, vector: &Value) -> Option<Outcome> {
    let got = match group {
        "language" | "decide" | "attenuation" | "doctor" | "net" | "risk" | "mcp" => observe(vector),
        "tools" => crate::tools::observe(vector),
        _ => return None,
    };
    Some(compare(&vector["expect"], &got))
}

fn facts(vector: &Value) -> Facts {
    let records = vector.pointer("/input/context/records_dir").and_then(Value::as_str).map(PathBuf::from);
    Facts::new("/home/u").records_dir(records)
}

/// What sbx says about a vector, as an object with every field an expectation could name.
fn observe(vector: &Value) -> Value {
    let (area, input, request) =
        (vector["area"].as_str().unwrap_or_default(), &vector["input"], &vector["request"]);
    match area {
        "risk" | "risk_context" | "risk_policy" => crate::risk::risk(input, request),
        "clamp" if input.get("manifest").is_none() => effective_root(vector),
        "compact_spec" => compact(input),
        "dissolve" => dissolve(vector),
        "doctor" => doctor(vector),
        "net_guard" => net_guard(input, request),
        "provider_tool" => provider(input, request),
        "skills" => skill(input, request),
        "mcp_protocol" => crate::mcp::answered(input, request),
        "tool_pattern" => crate::pattern::judged(input, request),
        "mcp_requires" => requires(input, request),
        _ if input.get("tool").is_some() => tool(input, request),
        _ if request.is_null() => parsed(vector),
        _ => decided(vector),
    }
}

fn manifest_text(input: &Value) -> String {
    let context = &input["context"];
    let id = context["agent_id"].as_str().or(input["agent_id"].as_str());
    let mut text = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    if let Some(root) = context["sandbox"].as_str() {
        text.push_str(&format!("sandbox: {{root: {root:?}}}\n"));
    }
    text + input["manifest"].as_str().unwrap_or_default()
}

fn config(root: &Value, facts: &Facts) -> Config {
    match root.as_str() {
        Some(root) => {
            let (config, problems) =
                Config::parse(Source::new("config.yml", format!("sandbox: {root:?}\n")), facts);
            config.unwrap_or_else(|| panic!("config: {problems:?}"))
        }
        None => Config::default(),
    }
}

fn policy(input: &Value, facts: &Facts) -> (Policy, Vec<Problem>) {
    let (manifest, problems) = Manifest::parse(Source::new("agent", manifest_text(input)), facts);
    let manifest = manifest.unwrap_or_else(|| panic!("unreadable: {problems:?}"));
    Policy::resolve(&manifest, &config(&input["context"]["config_sandbox"], facts), facts)
}

fn effective_root(vector: &Value) -> Value {
    let facts = facts(vector);
    let input = &vector["input"];
    let sandbox = input["agent_sandbox"]
        .as_str()
        .map_or_else(String::new, |root| format!("sandbox: {{root: {root:?}}}\n"));
    let (manifest, _) = Manifest::parse(Source::new("agent", sandbox), &facts);
    let config = config(&input["config_sandbox"], &facts);
    let (policy, problems) = Policy::resolve(&manifest.expect("a record"), &config, &facts);
    let clamped = problems.iter().any(|problem| problem.code.name() == "root_clamped");
    json!({ "effective_root": policy.chain().root(), "warning": clamped })
}

fn compact(input: &Value) -> Value {
    match Spec::parse(input["spec"].as_str().unwrap_or_default()) {
        Ok(spec) => {
            let again = Spec::parse(&spec.to_string()).expect("what is printed can be read");
            assert_eq!(again, spec);
            json!({ "cap": spec.capability.name(), "scope": scope(&spec.scope) })
        }
        Err(error) => json!({ "error": error.problems()[0].code.name() }),
    }
}

fn scope(scope: &Scope) -> Value {
    let entry = |(key, value): (sbx::capability::ScopeKey, &ScopeValue)| {
        let value = match value {
            ScopeValue::Text(text) => json!(text),
            ScopeValue::List(items) => json!(items),
        };
        (key.name().to_owned(), value)
    };
    Value::Object(scope.iter().map(entry).collect::<Map<_, _>>())
}

fn parsed(vector: &Value) -> Value {
    let facts = facts(vector);
    let (manifest, problems) = Manifest::parse(Source::new("agent", manifest_text(&vector["input"])), &facts);
    let grants: Vec<Value> = manifest
        .as_ref()
        .map(expand)
        .unwrap_or_default()
        .iter()
        .map(|grant| json!({ "cap": grant.spec.capability.name(), "scope": scope(&grant.spec.scope) }))
        .collect();
    let startup = if manifest.is_some() { "ok" } else { "fail" };
    json!({ "grants": grants, "warnings": codes(&problems), "startup": startup, "error": problems.first().map(|p| p.code.name()) })
}

/// Codes of what was lost; notes cost nothing and are not counted.
fn codes(problems: &[Problem]) -> Vec<&'static str> {
    let lost = problems.iter().filter(|problem| problem.severity > sbx::text::Severity::Note);
    lost.map(|problem| problem.code.name()).collect()
}

fn dissolve(vector: &Value) -> Value {
    let facts = facts(vector);
    let source = Source::new("agent", manifest_text(&vector["input"]));
    let (op, spec) =
        vector["request"]["op"].as_str().and_then(|op| op.split_once(' ')).expect("an operation");
    let spec = Spec::parse(spec).expect("a spec");
    let change = match op {
        "grant" => grant(&source, &spec, &facts),
        "revoke" => revoke(&source, &spec, &facts),
        other => panic!("unknown operation {other}"),
    };
    match change {
        Ok(change) => {
            json!({ "manifest_after": front_matter(change.text.as_deref().unwrap_or(source.text())) })
        }
        Err(error) => json!({ "error": error.to_string() }),
    }
}

/// The front matter as JSON, with grants in their long form.
fn front_matter(text: &str) -> Value {
    let (manifest, problems) = Manifest::parse(Source::new("agent", text), &Facts::new("/home/u"));
    let manifest = manifest.unwrap_or_else(|| panic!("{problems:?} in {text}"));
    let mut map = Map::new();
    for line in text.lines().filter(|line| !line.starts_with([' ', '-'])) {
        if let Some((key, value)) = line.split_once(':').filter(|(key, _)| *key != "capabilities") {
            map.insert(key.to_owned(), json!(value.trim()));
        }
    }
    let entry = |spec: &Spec| match spec.scope.is_bare() {
        true => json!(spec.capability.name()),
        false => json!({ spec.capability.name(): scope(&spec.scope) }),
    };
    if let Some(grants) = manifest.capabilities() {
        map.insert("capabilities".into(), grants.iter().map(|grant| entry(&grant.spec)).collect());
    }
    Value::Object(map)
}

fn doctor(vector: &Value) -> Value {
    let facts = facts(vector);
    let input = &vector["input"];
    let source = Source::new("agent", manifest_text(input));
    let config = config(&input["context"]["config_sandbox"], &facts);
    let findings: Vec<Value> = sbx::doctor::examine(source, &config, &facts)
        .iter()
        .filter(|problem| problem.severity > sbx::text::Severity::Note)
        .map(|problem| {
            json!({
                "kind": problem.code.name(),
                "suggest": problem.suggest,
                "key": problem.key,
                "cap": problem.capabilities.first(),
                "caps": problem.capabilities,
            })
        })
        .collect();
    json!({ "findings": findings, "blocks": false })
}

fn answer(decision: &Decision<'_>) -> Value {
    match decision {
        Decision::Allow(_) => json!({ "decision": "allow" }),
        Decision::Deny(denial) => denied(denial),
    }
}

fn denied(denial: &Denial) -> Value {
    let mut body = denial.to_json();
    body["decision"] = json!("deny");
    body
}

fn decided(vector: &Value) -> Value {
    let facts = facts(vector);
    let source = Source::new("agent", manifest_text(&vector["input"]));
    if let (None, problems) = Manifest::parse(source, &facts) {
        return json!({ "startup": "fail", "error": problems.first().map(|problem| problem.code.name()) });
    }
    let (policy, _) = policy(&vector["input"], &facts);
    let mut request = vector["request"].clone();
    if request.get("redirect_to").is_some() {
        request.as_object_mut().expect("an object").remove("redirect_to");
    }
    match Request::from_json(&request, &facts, sbx_platform::path::normalize) {
        Ok(request) => answer(&decide(&policy, &request)),
        Err(error) => json!({ "error": error.code(), "message": error.to_string() }),
    }
}

fn net_guard(input: &Value, request: &Value) -> Value {
    let facts = Facts::new("/home/u");
    let verbs = ["net.get", "net.post", "net.put", "net.delete"];
    let specs: Vec<Spec> = verbs
        .iter()
        .map(|verb| spec_from_json(&json!({ *verb: { "hosts": input["hosts"] } }), &facts).expect("hosts"))
        .collect();
    let policy = Policy::from_specs("agent", &specs, &facts).expect("a policy");
    let method = request["method"].as_str().unwrap_or("GET");
    let mut last = json!({ "decision": "allow" });
    for key in ["url", "redirect_to"] {
        let Some(url) = request[key].as_str() else { continue };
        let hop = Request::url(method, url);
        last = answer(&decide(&policy, &hop));
        if let sbx::decide::Subject::Host { target: Ok(target), .. } = hop.subject() {
            last["host"] = json!(target.host.to_string());
        }
        if last["decision"] == "deny" {
            break;
        }
    }
    last
}

fn held(value: &Value) -> Policy {
    let facts = Facts::new("/home/u");
    let specs: Vec<Spec> = match value {
        Value::Null => Vec::new(),
        Value::Array(items) => {
            items.iter().map(|item| spec_from_json(item, &facts).expect("a grant")).collect()
        }
        single => vec![spec_from_json(single, &facts).expect("a grant")],
    };
    Policy::from_specs("agent", &specs, &facts).expect("a policy")
}

fn specs(value: &Value) -> Vec<Spec> {
    let one = |item: &Value| Spec::parse(item.as_str().expect("a spec")).expect("a spec");
    match value {
        Value::Array(items) => items.iter().map(one).collect(),
        Value::Null => Vec::new(),
        single => vec![one(single)],
    }
}

fn provider(input: &Value, request: &Value) -> Value {
    let policy = held(&input["agent_holds"]);
    let tool = request["tool"].as_str().unwrap_or_default();
    let offer = offers(&policy).into_iter().find(|offer| offer.tool == tool);
    let offered = offer.as_ref().is_some_and(|offer| offer.offered);
    json!({ "offered": offered, "allowed_domains": offer.and_then(|offer| offer.allowed_domains) })
}

fn skill(input: &Value, request: &Value) -> Value {
    if let Some(tools) = input["allowed-tools"].as_str() {
        let (requires, unknown) = allowed_tools(tools);
        let requires: Vec<String> = requires.iter().map(Spec::to_string).collect();
        return json!({ "requires": requires, "warnings": unknown, "unknown": unknown });
    }
    let policy = held(&request["agent_holds"]);
    let grants: Vec<String> = policy.grants().iter().map(|grant| grant.spec.to_string()).collect();
    json!({ "visible": unmet(&policy, &specs(&input["requires"])).is_empty(), "grants_after": grants })
}

fn requires(input: &Value, request: &Value) -> Value {
    let policy = held(&request["agent_holds"]);
    let offered = unmet(&policy, &specs(&input["requires"])).is_empty();
    match offered {
        true => json!({ "offered": true, "decision": "allow" }),
        false => json!({ "offered": false, "decision": "deny", "code": DenialCode::CapabilityAbsent.name() }),
    }
}

fn tool(input: &Value, request: &Value) -> Value {
    match input["tool"].as_str() {
        Some("proc_eval") => match Request::eval(request["cmd"].as_str().unwrap_or_default()) {
            Ok(_) => json!({}),
            Err(error @ AskError::EmptyCommand) => json!({ "error": error.code() }),
            Err(error) => json!({ "error": error.to_string() }),
        },
        _ => {
            let tool = request["tool_call"].as_str().unwrap_or_default();
            denied(&Denial::of_tool(DenialCode::UnknownTool, "agent", tool, "there is no such tool"))
        }
    }
}
