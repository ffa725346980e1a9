//! `sbx risk`: what could go wrong with a shell text, and what to do instead.

use super::{CliError, Exit, Ui};
use crate::manifest::Severity;
use crate::risk::{Assessment, Rule};
use crate::run::{RiskLayer, Setting};
use crate::text::{Source, Span};
use clap::{Args, Subcommand};
use sbx_platform::path::resolve;
use serde_json::{Value, json};
use std::io::Read;
use std::path::PathBuf;

/// What to ask about a text.
#[derive(Debug, Subcommand)]
pub(super) enum Risk {
    /// Say whether a shell text may run. Ends with 0 when it may, 1 when not.
    Check(Ask),
    /// Say what each part of a text would do and why that is dangerous.
    Explain(Ask),
    /// Say what to run instead.
    Suggest(Ask),
    /// List the rules.
    Rules(Rules),
}

/// A shell text and who would run it.
#[derive(Debug, Args)]
pub(super) struct Ask {
    /// An agent's name, or the path of a record: its settings count, and its grants are asked too.
    #[arg(long, short)]
    agent: Option<String>,
    /// Where it would run.
    #[arg(long = "in", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The shell text; `-` reads it from stdin.
    #[arg(allow_hyphen_values = true)]
    text: String,
}

/// Which rules.
#[derive(Debug, Args)]
pub(super) struct Rules {
    /// Only this group.
    #[arg(long)]
    group: Option<String>,
    /// Only this rule, with its examples.
    id: Option<String>,
}

/// How an answer is to be shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    Check,
    Explain,
    Suggest,
}

impl Risk {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        match self {
            Self::Check(ask) => ask.run(ui, View::Check),
            Self::Explain(ask) => ask.run(ui, View::Explain),
            Self::Suggest(ask) => ask.run(ui, View::Suggest),
            Self::Rules(rules) => rules.run(ui),
        }
    }
}

impl Ask {
    fn run(self, ui: &Ui, view: View) -> Result<Exit, CliError> {
        let text = self.text()?;
        if text.trim().is_empty() {
            return Err(CliError::new("there is no text to look at"));
        }
        let setting = Setting::from_env()?;
        let agent = self.agent.as_deref().map(|name| setting.agent(name)).transpose()?;
        let dir =
            self.dir.as_ref().map_or_else(|| setting.facts.cwd.clone(), |dir| setting.facts.cwd.join(dir));
        let dir = resolve(&dir).unwrap_or(dir);
        let layer = RiskLayer::load(&setting, agent.as_ref(), &dir)?;
        let assessment = match &agent {
            Some(agent) => layer.assess_for(&agent.policy, &text),
            None => layer.assess(&text),
        };
        match (ui.json, view) {
            (true, View::Suggest) => ui.answer_json(&suggestions(&assessment))?,
            (true, View::Check | View::Explain) => ui.answer_json(&assessment.to_json())?,
            (false, View::Suggest) => suggest(ui, &assessment)?,
            (false, View::Check) => ui.answer(shown(ui, &assessment, false))?,
            (false, View::Explain) => ui.answer(shown(ui, &assessment, true))?,
        }
        Ok(if view == View::Suggest || assessment.allowed() { Exit::Fine } else { Exit::Denied })
    }

    fn text(&self) -> Result<String, CliError> {
        if self.text != "-" {
            return Ok(self.text.clone());
        }
        let mut text = String::new();
        // A little more than is looked at, so that too long a text is seen to be too long.
        let most = u64::try_from(crate::risk::MAX_BYTES).unwrap_or(u64::MAX) + 1;
        std::io::stdin()
            .lock()
            .take(most)
            .read_to_string(&mut text)
            .map_err(|error| CliError::new("cannot read the text from stdin").because(&error))?;
        Ok(text)
    }
}

/// The text with what was found underlined.
fn shown(ui: &Ui, assessment: &Assessment<'_>, whole: bool) -> String {
    let mut out = Vec::new();
    let worst = assessment.severity();
    let verdict = match assessment.decision() {
        "deny" => "denied",
        "ask" => "allowed, with findings",
        _ => "nothing found",
    };
    let level = worst.map_or_else(String::new, |severity| format!(" ({})", severity.name().to_lowercase()));
    out.push(ui.by_severity(worst.filter(|_| !assessment.allowed()), &format!("{verdict}{level}")));
    let source = Source::new("text", assessment.text());
    if let Some(error) = assessment.error() {
        out.push(underlined(ui, &source, error.span, Some(Severity::High)));
        out.push(format!("  cannot be read as shell: {error}"));
    }
    let mut last = None;
    for matched in assessment.matched() {
        if last != Some(matched.span) {
            out.push(underlined(ui, &source, matched.span, Some(matched.rule.severity)));
        }
        last = Some(matched.span);
        let severity =
            ui.by_severity(Some(matched.rule.severity), &matched.rule.severity.name().to_lowercase());
        out.push(format!("  {severity} {}: {}", matched.rule.id, matched.rule.description));
        if let Some((scope, detail)) = matched.rule.blast.as_ref().filter(|_| whole) {
            out.push(ui.dim(&format!("    reaches {}: {detail}", scope.name().to_lowercase())));
        }
    }
    if whole {
        for part in assessment.opaque() {
            out.push(underlined(ui, &source, part.span, None));
            out.push(format!("  not certain: {}", part.why));
        }
        if !assessment.labels().is_empty() {
            out.push(format!(
                "context: {} ({})",
                assessment.labels().join(", "),
                assessment.level().name().to_lowercase()
            ));
        }
    } else if !assessment.opaque().is_empty() && assessment.error().is_none() {
        out.push(ui.dim("  a part of it shows only when it runs: sbx risk explain"));
    }
    out.extend(assessment.denial().map(|(code, reason)| format!("why: {reason} [{code}]")));
    out.extend(assessment.alternatives().iter().map(|(alternative, _)| {
        let why =
            alternative.explanation.as_deref().map(|why| ui.dim(&format!("  # {why}"))).unwrap_or_default();
        format!("instead: {}{why}", ui.bold(&alternative.command))
    }));
    out.join("\n")
}

/// The line of a span with a row of carets.
fn underlined(ui: &Ui, source: &Source, span: Span, severity: Option<Severity>) -> String {
    const MOST: usize = 160;
    let (line, start) = source.line_at(span.start);
    let before = line.get(..span.start.saturating_sub(start).min(line.len())).unwrap_or_default();
    let inside = line.get(before.len()..span.end.saturating_sub(start).min(line.len())).unwrap_or_default();
    let lead = before.chars().count();
    let skip = if lead > MOST / 2 { lead - MOST / 4 } else { 0 };
    let shown: String = line.chars().skip(skip).take(MOST).map(|c| if c == '\t' { ' ' } else { c }).collect();
    let width = inside.chars().count().clamp(1, MOST.saturating_sub(lead - skip).max(1));
    let carets = ui.by_severity(severity, &"^".repeat(width));
    format!("  {shown}\n  {}{carets}", " ".repeat(lead - skip))
}

fn suggestions(assessment: &Assessment<'_>) -> Value {
    let body = assessment.to_json();
    let mut answer = json!({ "command": assessment.text(), "alternatives": body["alternatives"] });
    if assessment.alternatives().is_empty() {
        answer["message"] = json!("no safer command is known");
    }
    answer
}

fn suggest(ui: &Ui, assessment: &Assessment<'_>) -> Result<(), CliError> {
    let alternatives = assessment.alternatives();
    if alternatives.is_empty() {
        ui.remark("no safer command is known");
    }
    for (alternative, rule) in alternatives {
        let why = alternative.explanation.as_deref().unwrap_or(&rule.description);
        ui.answer(format!("{}{}", ui.bold(&alternative.command), ui.dim(&format!("  # {why}"))))?;
    }
    Ok(())
}

impl Rules {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let layer = RiskLayer::load(&setting, None, &setting.facts.cwd)?;
        let wanted = |rule: &&Rule| {
            self.group.as_ref().is_none_or(|group| *group == rule.group)
                && self.id.as_ref().is_none_or(|id| *id == rule.id)
        };
        let rules: Vec<&Rule> = layer.rules.rules().filter(wanted).collect();
        if rules.is_empty() {
            let name = self.id.as_ref().or(self.group.as_ref()).map_or("", String::as_str);
            let known = layer.rules.rules().flat_map(|rule| [rule.id.as_str(), rule.group.as_str()]);
            let error = CliError::new(format!("there is no rule or group `{name}`"));
            return Err(match crate::text::closest(name, known) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("`sbx risk rules` lists all"),
            });
        }
        if ui.json {
            ui.answer_json(&rules.iter().map(|rule| described(rule)).collect())?;
            return Ok(Exit::Fine);
        }
        let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
        for rule in &rules {
            let severity =
                ui.by_severity(Some(rule.severity), &format!("{:<8}", rule.severity.name().to_lowercase()));
            ui.answer(format!("{severity} {:<width$}  {}", rule.id, rule.description))?;
            if self.id.is_some() {
                rule.blast.iter().try_for_each(|(scope, detail)| {
                    ui.answer(format!("  reaches {}: {detail}", scope.name().to_lowercase()))
                })?;
                rule.matches.iter().try_for_each(|line| ui.answer(format!("  found: {line}")))?;
                rule.no_matches.iter().try_for_each(|line| ui.answer(format!("  fine:  {line}")))?;
                rule.alternatives
                    .iter()
                    .try_for_each(|alternative| ui.answer(format!("  instead: {}", alternative.command)))?;
            }
        }
        Ok(Exit::Fine)
    }
}

fn described(rule: &Rule) -> Value {
    json!({
        "id": rule.id, "group": rule.group, "severity": rule.severity.name(), "description": rule.description,
        "origin": rule.origin.name(), "match": rule.matches, "no_match": rule.no_matches,
        "blast_radius_scope": rule.blast.as_ref().map(|(scope, _)| scope.name()),
        "blast_radius_detail": rule.blast.as_ref().map(|(_, detail)| detail),
        "alternatives": rule.alternatives.iter().map(|alternative| &alternative.command).collect::<Vec<_>>(),
    })
}

fn severities(or_none: bool) -> Value {
    let names = Severity::ALL.iter().map(|severity| json!(severity.name()));
    json!({ "enum": names.chain(or_none.then_some(Value::Null)).collect::<Vec<_>>() })
}

/// The schema of an assessment.
pub(super) fn assessment_schema() -> Value {
    let text = || json!({ "type": ["string", "null"] });
    let scope = || json!({ "enum": ["RESOURCE", "PROJECT", "NAMESPACE", "MACHINE", null] });
    let level = || json!({ "enum": ["Normal", "Elevated", "Critical"] });
    let number = || json!({ "type": "integer", "minimum": 0 });
    let list = |items: Value| json!({ "type": "array", "items": items });
    let rule = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" }, "description": { "type": "string" }, "severity": severities(false),
            "group": { "type": "string" }, "origin": { "enum": ["builtin", "user", "project"] },
            "blast_radius_scope": scope(), "blast_radius_detail": text(), "start": number(), "end": number(),
        },
        "required": ["id", "description", "severity", "group", "origin"],
    });
    let alternative = json!({
        "type": "object",
        "properties": {
            "command": { "type": "string" }, "explanation": text(), "source": { "type": "string" }, "rule_id": { "type": "string" },
        },
        "required": ["command", "explanation", "source", "rule_id"],
    });
    let step = json!({
        "type": "object",
        "properties": {
            "what": list(json!({ "type": "string" })), "capability": { "type": "string" },
            "decision": { "enum": ["allow", "deny"] }, "code": text(), "suggested_grant": text(),
        },
        "required": ["what", "capability", "decision"],
    });
    json!({
        "type": "object",
        "properties": {
            "schema_version": { "const": 2 },
            "command": { "type": "string" },
            "decision": { "enum": ["allow", "ask", "deny"] },
            "allowed": { "type": "boolean" },
            "severity": severities(true),
            "effective_severity": severities(true),
            "risk_level": level(),
            "matched_rules": list(rule),
            "alternatives": list(alternative),
            "context": {
                "type": "object",
                "properties": { "risk_level": level(), "labels": list(json!({ "type": "string" })) },
                "required": ["risk_level", "labels"],
            },
            "requires_human_approval": { "type": "boolean" },
            "code": text(),
            "decision_reason": text(),
            "denial_reason": text(),
            "deny_reason": text(),
            "blast_radius_scope": scope(),
            "blast_radius_detail": text(),
            "opaque": { "type": "boolean" },
            "opaque_parts": list(json!({
                "type": "object",
                "properties": { "start": number(), "end": number(), "why": { "type": "string" } },
                "required": ["start", "end", "why"],
            })),
            "argv": list(list(json!({ "type": "string" }))),
            "capability": { "oneOf": [{ "type": "null" }, list(step)] },
            "version": { "type": "string" },
        },
        "required": [
            "schema_version", "decision", "allowed", "severity", "risk_level", "matched_rules", "alternatives", "context",
            "requires_human_approval", "denial_reason", "opaque",
        ],
    })
}

/// The schema of `sbx risk rules`.
pub(super) fn rules_schema() -> Value {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "id": { "type": "string" }, "group": { "type": "string" }, "severity": severities(false),
                "description": { "type": "string" }, "origin": { "enum": ["builtin", "user", "project"] },
                "match": texts, "no_match": texts, "alternatives": texts,
                "blast_radius_scope": { "type": ["string", "null"] }, "blast_radius_detail": { "type": ["string", "null"] },
            },
            "required": ["id", "group", "severity", "description", "origin", "match", "no_match", "alternatives"],
            "additionalProperties": false,
        },
    })
}

/// The schema of `sbx risk suggest`.
pub(super) fn suggestions_schema() -> Value {
    let mut whole = assessment_schema();
    json!({
        "type": "object",
        "properties": {
            "command": { "type": "string" }, "alternatives": whole["properties"]["alternatives"].take(), "message": { "type": "string" },
        },
        "required": ["command", "alternatives"],
        "additionalProperties": false,
    })
}
