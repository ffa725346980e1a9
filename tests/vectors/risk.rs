//! Vectors of the group `risk`: settings, project policies and context from the vector, one text assessed.

use sbx::manifest::RiskPolicy;
use sbx::risk::{Context as RiskContext, Origin, RuleSet, Scene, assess};
use sbx::{Facts, Manifest, Source};
use serde_json::{Value, json};

/// What sbx says about a text, with the lists a vector compares drawn out.
pub(crate) fn risk(input: &Value, request: &Value) -> Value {
    let facts = Facts::new("/home/u");
    let section = input.get("risk").map_or_else(String::new, |risk| format!("risk: {risk}\n"));
    let (manifest, problems) = Manifest::parse(Source::new("agent", section), &facts);
    let Some(manifest) = manifest else {
        return json!({ "startup": "fail", "error": problems.first().map(|problem| problem.code.name()) });
    };
    let mut settings = manifest.sections().risk.clone().unwrap_or_default();
    let mut rules = RuleSet::builtin();
    for key in ["parent_risk_yml", "project_risk_yml"] {
        let Some(text) = input[key].as_str() else { continue };
        match RiskPolicy::parse(&Source::new(key, text)) {
            Ok(policy) => {
                policy.tighten(&mut settings);
                if let Some(node) = &policy.rules {
                    rules.add_node(node, Origin::Project).unwrap_or_else(|problems| panic!("{problems:?}"));
                }
            }
            // A policy that cannot be read refuses: nothing runs under half a policy.
            Err(problems) => {
                return json!({ "startup": "fail", "allowed": false, "error": problems[0].code.name() });
            }
        }
    }
    let context = &input["context"];
    // Variables stand beside the other facts, or in a map of their own.
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let text = |name: &str| scalar(&context[name]).or_else(|| scalar(&context["env"][name]));
    let holds = |names: &[&str]| {
        names
            .iter()
            .any(|name| context[*name] == true || context[*name].as_str().is_some_and(|text| text == "true"))
    };
    let kube =
        ["k8s_context", "kube_context", "kubernetes_context", "k8s"].iter().find_map(|name| text(name));
    let mut facts = RiskContext::from_variables(text)
        .branch(text("git_branch").or(text("branch")))
        .kube(kube)
        .root(holds(&["root", "is_root"]));
    facts.ssh |= holds(&["ssh", "is_ssh"]);
    let scene = Scene::new("/home/u").at("/home/u/app");
    let command = request["command"].as_str().unwrap_or_default();
    let assessment = assess(command, &scene, &rules, &settings, &facts);
    let mut got = assessment.to_json();
    got["labels"] = got["context"]["labels"].clone();
    let ids: Vec<&str> = assessment.matched().iter().map(|matched| matched.rule.id.as_str()).collect();
    got["matched_ids"] = json!(ids);
    let commands: Vec<&str> =
        assessment.alternatives().iter().map(|(alternative, _)| alternative.command.as_str()).collect();
    got["alternatives"] = json!(commands);
    got
}
