//! Tools that look at shell text and say what sbx thinks of it: nothing is run, nothing is changed.
//!
//! Answers for `check_command`, `suggest_alternative`, `get_policy` and `explain_risk`, which agents know from other
//! guards: every field that is known there is here, and more. It leaves finding danger to [`risk`](crate::risk).

use super::arguments::Arguments;
use super::offer::{Offer, Reply};
use super::scene::Scene;
use super::sets::Call;
use crate::capability::{Capability, Family};
use crate::decide::{Decision, Denial, Request, decide};
use crate::policy::{fingerprint, receipt_lines};
use crate::risk::Assessment;
use crate::run::{RiskLayer, SettingError};
use crate::tool::GET_POLICY;
use sbx_platform::path::within;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Their names.
pub(super) const NAMES: &[&str] = &[CHECK, SUGGEST, GET_POLICY, EXPLAIN];
const CHECK: &str = "check_command";
const SUGGEST: &str = "suggest_alternative";
const EXPLAIN: &str = "explain_risk";

pub(super) fn offers(_scene: &Scene) -> Vec<Offer> {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let input = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    let command = || text("The shell text.");
    let cwd = || text("Where it would run; where the server works when left out.");
    let asked = || input(json!({ "command": command(), "cwd": cwd() }), &["command"]);
    let answer = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required });
    vec![
        Offer::looking(
            CHECK,
            "Check a command",
            "Says whether a shell command may run: what looks destructive in it, which grant is behind every part of it or \
             is missing, and what to do instead. Runs nothing. The same is asked again whenever something is run.",
            asked(),
        )
        .answering(answer(
            json!({
                "schema_version": { "const": 2 }, "decision": { "enum": ["allow", "ask", "deny"] },
                "allowed": { "type": "boolean" }, "severity": { "type": ["string", "null"] },
                "risk_level": { "type": "string" }, "denial_reason": { "type": ["string", "null"] },
                "matched_rules": { "type": "array" }, "alternatives": { "type": "array" },
                "requires_human_approval": { "type": "boolean" },
            }),
            &["schema_version", "decision", "allowed"],
        )),
        Offer::looking(
            SUGGEST,
            "Suggest a safer command",
            "Says which commands do the same with less danger.",
            input(
                json!({ "command": command(), "goal": text("What it is for; alternatives that speak of it come first."), "cwd": cwd() }),
                &["command"],
            ),
        )
        .answering(answer(
            json!({ "command": { "type": "string" }, "alternatives": { "type": "array" }, "message": { "type": "string" } }),
            &["command", "alternatives"],
        )),
        Offer::looking(
            GET_POLICY,
            "Show the policy",
            "Shows what this agent may do, which tools may be called and from which danger on a command is denied. \
             Nothing can be changed through it.",
            input(json!({ "cwd": cwd() }), &[]),
        )
        .answering(answer(
            json!({ "agent": { "type": "string" }, "grants": { "type": "array" }, "active_groups": { "type": "array" } }),
            &["agent", "grants", "active_groups", "active_checks_count", "min_severity", "agent_config"],
        )),
        Offer::looking(
            EXPLAIN,
            "Explain a risk",
            "Explains what is dangerous about a shell command, rule by rule.",
            asked(),
        )
        .answering(answer(
            json!({ "command": { "type": "string" }, "risky": { "type": "boolean" }, "explanation": { "type": "string" } }),
            &["command", "risky", "explanation"],
        )),
    ]
}

pub(super) fn call(call: &Call<'_>) -> Reply {
    match answered(call) {
        Ok(Ok(value)) => Reply::value(value),
        Ok(Err(error)) => Reply::failed(error.to_string()),
        Err(denial) => Reply::Denied(denial),
    }
}

fn answered(call: &Call<'_>) -> Result<Result<Value, SettingError>, Box<Denial>> {
    let scene = call.scene;
    let known: &[&str] = match call.name {
        GET_POLICY => &["cwd"],
        SUGGEST => &["command", "goal", "cwd"],
        _ => &["command", "cwd"],
    };
    let arguments = Arguments::read(scene.agent(), call.name, call.arguments, known)?;
    let command = if call.name == GET_POLICY { "" } else { arguments.needed("command")? };
    let goal = arguments.text("goal")?;
    let dir = place(scene, &arguments.directory("cwd", &scene.cwd)?)?;
    let settings = scene.policy().sections().risk.clone().unwrap_or_default();
    let layer = match RiskLayer::with_settings(scene.policy().facts(), settings, &dir) {
        Ok(layer) => layer,
        Err(error) => return Ok(Err(error)),
    };
    if call.name == GET_POLICY {
        return Ok(Ok(policy(scene, &layer, call.means.session_id())));
    }
    let assessment = layer.assess_for(scene.policy(), command);
    Ok(Ok(match call.name {
        SUGGEST => suggestions(&assessment, goal.unwrap_or_default()),
        EXPLAIN => explanation(&assessment),
        _ => assessment.to_json(),
    }))
}

/// A directory an agent may ask about: what is read there must not tell of places that are not its own.
fn place(scene: &Scene, (asked, dir): &(PathBuf, PathBuf)) -> Result<PathBuf, Box<Denial>> {
    let own = |root: &Path| within(dir, root);
    let held = scene.policy().grants().iter().filter(|grant| {
        matches!(grant.capability().family(), Family::Proc) || grant.capability() == Capability::FsRead
    });
    if *dir == scene.cwd || held.filter_map(|grant| grant.root.as_deref()).any(own) {
        return Ok(dir.clone());
    }
    // Where a link leads that the agent may not see is not told.
    for path in [asked, dir] {
        if let Decision::Deny(denial) = decide(scene.policy(), &Request::path(Capability::FsRead, path)) {
            return Err(denial);
        }
    }
    Ok(dir.clone())
}

/// What could be done instead; what speaks of the goal in its own words stands first.
fn suggestions(assessment: &Assessment<'_>, goal: &str) -> Value {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2);
        words.map(str::to_lowercase).collect()
    };
    let wanted = words(goal);
    let mut alternatives = assessment.to_json()["alternatives"].as_array().cloned().unwrap_or_default();
    alternatives.sort_by_key(|one| {
        let said = words(&one.to_string());
        std::cmp::Reverse(wanted.iter().filter(|word| said.contains(word)).count())
    });
    let mut answer = json!({ "command": assessment.text(), "alternatives": alternatives });
    if assessment.alternatives().is_empty() {
        answer["message"] = json!("no safer command is known");
    }
    answer
}

fn explanation(assessment: &Assessment<'_>) -> Value {
    let mut lines: Vec<String> = assessment
        .matched()
        .iter()
        .map(|matched| {
            let severity = matched.rule.severity.name().to_uppercase();
            format!("- [{severity}] {}: {}", matched.rule.id, matched.rule.description)
        })
        .collect();
    lines.extend(assessment.error().map(|error| format!("- it cannot be read as shell: {error}")));
    let mut body = assessment.to_json();
    let allowed = body["allowed"].clone();
    if lines.is_empty() {
        let explanation = "nothing in it is known to be dangerous";
        return json!({
            "command": assessment.text(), "risky": false, "explanation": explanation, "allowed": allowed,
            "code": body["code"], "denial_reason": body["denial_reason"], "capability": body["capability"],
            "opaque": body["opaque"], "opaque_parts": body["opaque_parts"],
        });
    }
    body["risky"] = json!(true);
    body["explanation"] = json!(lines.join("\n"));
    body
}

fn policy(scene: &Scene, layer: &RiskLayer, session: &str) -> Value {
    let settings = &layer.settings;
    let counts = |group: &str| {
        settings.enabled_groups.as_ref().is_none_or(|enabled| enabled.iter().any(|name| name == group))
            && !settings.disabled_groups.iter().any(|name| name == group)
    };
    let active: Vec<_> = layer.rules.rules().filter(|rule| counts(&rule.group)).collect();
    let groups: BTreeSet<&str> = active.iter().map(|rule| rule.group.as_str()).collect();
    let mut body = scene.rules.to_json();
    body["grants"] = json!(receipt_lines(scene.policy()));
    body["authority"] = json!(fingerprint(scene.policy()));
    body["challenge"] = json!("Deny");
    body["active_groups"] = json!(groups);
    body["active_checks_count"] = json!(active.len());
    body["min_severity"] = json!(settings.min_severity.name());
    body["audit_enabled"] = json!(true);
    body["agent_config"] = json!({
        "auto_deny_severity": settings.deny_at.name(), "require_human_approval": settings.require_human_approval,
        "deny": settings.deny, "ignore": settings.ignore, "context_raises": settings.context_raises,
        "apply_to_exec": settings.apply_to_exec,
    });
    body["session_id"] = json!(session);
    body
}
