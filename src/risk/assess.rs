//! The answer: what was found, how bad it is, whether it is allowed, and what to do instead.

use super::command::{Arg, COMPUTED, Command, UNSET};
use super::flatten::{Flat, flatten, flatten_argv};
use super::matching::{Subject, statements};
use super::rule::{Alternative, Rule, Scope};
use super::{Context, Level, Opaque, Proof, RuleSet, Scene, SyntaxError, place};
use crate::decide::DenialCode;
use crate::manifest::{RiskSettings, Severity};
use crate::profile::{READERS, WRAPPERS};
use crate::text::Span;
use serde_json::{Value, json};

/// The form of the answer.
const SCHEMA_VERSION: u32 = 2;
/// Programs that are tried for one that only shows when it runs.
const WORST: &[&str] = &["rm", "chmod", "chown", "dd"];
/// How many words of an unknown program are looked at for a command it could start.
const MAX_TRIED: usize = 64;

/// A rule that was found, and where.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Matched<'r> {
    /// The rule.
    pub rule: &'r Rule,
    /// The command.
    pub span: Span,
}

/// What there is to say about a text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Assessment<'r> {
    text: String,
    matched: Vec<Matched<'r>>,
    flat: Flat,
    error: Option<SyntaxError>,
    level: Level,
    labels: Vec<String>,
    denial: Option<(DenialCode, String)>,
    human: bool,
    proof: Option<Proof>,
}

/// Looks for danger in a shell text.
///
/// No finding means that nothing was found, not that the text is safe.
#[must_use]
pub fn assess<'r>(
    text: &str,
    scene: &Scene,
    rules: &'r RuleSet,
    settings: &RiskSettings,
    context: &Context,
) -> Assessment<'r> {
    let (flat, error) = match flatten(text, scene) {
        Ok(flat) => (flat, None),
        // Not shell; still, what can be recognised is told.
        Err(error) => (as_words(text), Some(error)),
    };
    conclude(text, flat, error, scene, rules, settings, context)
}

/// Looks for danger in a command that is no shell text.
#[must_use]
pub fn assess_argv<'r>(
    argv: &[String],
    scene: &Scene,
    rules: &'r RuleSet,
    settings: &RiskSettings,
    context: &Context,
) -> Assessment<'r> {
    let flat = flatten_argv(argv, scene);
    conclude(&argv.join(" "), flat, None, scene, rules, settings, context)
}

/// A text that cannot be read, as one command of the words in it.
fn as_words(text: &str) -> Flat {
    let words = text.split_whitespace().take(MAX_TRIED);
    let argv: Vec<Arg> = words.map(|word| Arg::unsure(word.replace('\0', ""), Span::default())).collect();
    let span = Span::new(0, text.len());
    let commands =
        if argv.is_empty() { Vec::new() } else { vec![Command { argv, span, ..Command::default() }] };
    let mut flat = Flat { commands, ..Flat::default() };
    flat.opaque.push(Opaque { span, why: "it is not shell that can be read" });
    flat
}

fn conclude<'r>(
    text: &str,
    flat: Flat,
    error: Option<SyntaxError>,
    scene: &Scene,
    rules: &'r RuleSet,
    settings: &RiskSettings,
    context: &Context,
) -> Assessment<'r> {
    let mut found = Finder { rules, scene, text, all: &flat.commands, matched: Vec::new() };
    flat.commands.iter().for_each(|command| found.look_at(command));
    let mut matched = found.matched;
    matched.retain(|matched| counts(matched.rule, settings));
    matched.sort_by_key(|matched| std::cmp::Reverse(matched.rule.severity));
    let (level, labels) = context.judge(&matched);
    let missing = rules.fault().map(|fault| {
        (DenialCode::CommandNotUnderstood, format!("The rules that ship with sbx are not whole: {fault}"))
    });
    let denial = denial(&matched, &flat, error.as_ref(), level, settings).or(missing);
    let human = settings.require_human_approval && denial.is_some();
    Assessment { text: text.to_owned(), matched, flat, error, level, labels, denial, human, proof: None }
}

/// Whether a rule counts. What is denied by name always does.
fn counts(rule: &Rule, settings: &RiskSettings) -> bool {
    let named = |ids: &[String]| ids.contains(&rule.id);
    let enabled = settings.enabled_groups.as_ref().is_none_or(|groups| groups.contains(&rule.group));
    named(&settings.deny)
        || (enabled
            && !settings.disabled_groups.contains(&rule.group)
            && !named(&settings.ignore)
            && rule.severity >= settings.min_severity)
}

fn denial(
    matched: &[Matched<'_>],
    flat: &Flat,
    error: Option<&SyntaxError>,
    level: Level,
    settings: &RiskSettings,
) -> Option<(DenialCode, String)> {
    if matched.iter().any(|matched| settings.deny.contains(&matched.rule.id)) {
        return Some((DenialCode::RiskDenied, "Command matches a deny-listed pattern".to_owned()));
    }
    let raised = settings.context_raises && level == Level::Critical;
    let threshold = if raised { settings.deny_at.lower() } else { settings.deny_at };
    let worst = matched.iter().map(|matched| matched.rule.severity).max();
    if let Some(worst) = worst.filter(|worst| *worst >= threshold) {
        let upper = |severity: Severity| severity.name().to_uppercase();
        let reason = format!(
            "Severity {} meets or exceeds agent auto-deny threshold {}",
            upper(worst),
            upper(threshold)
        );
        return Some((DenialCode::RiskDenied, reason));
    }
    if let Some(error) = error {
        return Some((
            DenialCode::CommandNotUnderstood,
            format!("The text cannot be read as shell: {error}"),
        ));
    }
    if let Some(error) = &flat.unread {
        return Some((
            DenialCode::CommandNotUnderstood,
            format!("A text that it would run cannot be read as shell: {error}"),
        ));
    }
    flat.truncated.then(|| {
        (DenialCode::CommandNotUnderstood, "The text is too tangled to be followed to its end".to_owned())
    })
}

struct Finder<'a, 'r> {
    rules: &'r RuleSet,
    scene: &'a Scene,
    text: &'a str,
    all: &'a [Command],
    matched: Vec<Matched<'r>>,
}

impl Finder<'_, '_> {
    fn look_at(&mut self, command: &Command) {
        let statements = statements(command);
        let name = command.program();
        self.try_as(command, name, &statements, Severity::Info);
        let Some(first) = command.argv.first() else { return };
        if name.contains([UNSET, COMPUTED]) {
            for name in WORST {
                self.try_as(command, name, &statements, Severity::Critical);
            }
        } else if first.glob {
            let fits: Vec<String> = self
                .rules
                .programs()
                .filter(|program| place::glob_fits(name, program))
                .take(MAX_TRIED)
                .map(str::to_owned)
                .collect();
            for name in fits {
                self.try_as(command, &name, &statements, Severity::Info);
            }
        } else if !self.rules.knows(name) && !WRAPPERS.contains_key(name) && !READERS.contains(&name) {
            self.try_arguments(command);
        }
    }

    /// A program nobody knows may start what it is given.
    fn try_arguments(&mut self, command: &Command) {
        for at in 1..command.argv.len().min(MAX_TRIED) {
            let rest = command.argv.get(at..).unwrap_or_default();
            let name = rest.first().map_or("", |arg| super::command::base_name(&arg.text));
            if rest.len() > 1 && (WORST.contains(&name) || name.starts_with("mkfs")) {
                let inner = Command { argv: rest.to_vec(), ..command.clone() };
                self.try_as(&inner, name, &[], Severity::Critical);
            } else if rest.len() > 2 && self.rules.knows(name) {
                // `retry git push -f`; a single word, as in `app reboot`, may mean anything.
                let inner = Command { argv: rest.to_vec(), ..command.clone() };
                self.try_as(&inner, name, &[], Severity::High);
            }
        }
    }

    fn try_as(&mut self, command: &Command, name: &str, statements: &[Vec<String>], least: Severity) {
        let subject =
            Subject { command, program: name, all: self.all, scene: self.scene, line: self.text, statements };
        for rule in self.rules.concerning(name).filter(|rule| rule.severity >= least) {
            let known = self.matched.iter().any(|matched| std::ptr::eq(matched.rule, rule));
            if !known && rule.conditions.iter().any(|condition| subject.fits(condition)) {
                self.matched.push(Matched { rule, span: command.span });
            }
        }
    }
}

impl<'r> Assessment<'r> {
    /// The same assessment with what could be proved of it.
    #[must_use]
    pub fn with_proof(mut self, proof: Proof) -> Self {
        if self.denial.is_none()
            && let Some(denial) = proof.denial()
        {
            self.denial = Some((denial.code, denial.message.clone()));
        }
        self.proof = Some(proof);
        self
    }

    /// Whether the text may run.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.denial.is_none()
    }

    /// `allow`, `ask` when something below the threshold was found, or `deny`.
    #[must_use]
    pub fn decision(&self) -> &'static str {
        match (self.allowed(), self.matched.is_empty()) {
            (false, _) => "deny",
            (true, false) => "ask",
            (true, true) => "allow",
        }
    }

    /// Why not, when it may not: code and sentence.
    #[must_use]
    pub fn denial(&self) -> Option<(DenialCode, &str)> {
        self.denial.as_ref().map(|(code, reason)| (*code, reason.as_str()))
    }

    /// The worst that was found.
    #[must_use]
    pub fn severity(&self) -> Option<Severity> {
        self.matched.iter().map(|matched| matched.rule.severity).max()
    }

    /// The rules that were found, the worst first.
    #[must_use]
    pub fn matched(&self) -> &[Matched<'r>] {
        &self.matched
    }

    /// What to do instead of the worst that was found, with the rule that says so.
    #[must_use]
    pub fn alternatives(&self) -> Vec<(&'r Alternative, &'r Rule)> {
        let mut alternatives: Vec<(&Alternative, &Rule)> = Vec::new();
        let mut worst = None;
        for matched in self.matched.iter().filter(|matched| !matched.rule.alternatives.is_empty()) {
            if *worst.get_or_insert(matched.rule.severity) > matched.rule.severity {
                break;
            }
            for alternative in &matched.rule.alternatives {
                if !alternatives.iter().any(|(known, _)| known.command == alternative.command) {
                    alternatives.push((alternative, matched.rule));
                }
            }
        }
        alternatives
    }

    /// What shows only when it runs.
    #[must_use]
    pub fn opaque(&self) -> &[Opaque] {
        &self.flat.opaque
    }

    /// Why the text cannot be read.
    #[must_use]
    pub fn error(&self) -> Option<&SyntaxError> {
        self.error.as_ref()
    }

    /// How dangerous the place is.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// What was said about the place.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The widest harm of what was found.
    #[must_use]
    pub fn blast(&self) -> Option<&'r (Scope, String)> {
        self.matched.iter().filter_map(|matched| matched.rule.blast.as_ref()).max_by_key(|(scope, _)| *scope)
    }

    /// The text that was asked about.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The assessment for machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rule = |matched: &Matched<'_>| {
            json!({
                "id": matched.rule.id, "description": matched.rule.description, "severity": matched.rule.severity.name(),
                "group": matched.rule.group, "origin": matched.rule.origin.name(),
                "blast_radius_scope": matched.rule.blast.as_ref().map(|(scope, _)| scope.name()),
                "blast_radius_detail": matched.rule.blast.as_ref().map(|(_, detail)| detail),
                "start": matched.span.start, "end": matched.span.end,
            })
        };
        let alternative = |(alternative, rule): &(&Alternative, &Rule)| json!({ "command": alternative.command, "explanation": alternative.explanation, "source": "rule", "rule_id": rule.id });
        let reason = self.denial.as_ref().map(|(_, reason)| reason);
        let severity = self.severity().map(Severity::name);
        let blast = self.blast();
        let context = json!({ "risk_level": self.level.name(), "labels": self.labels });
        let argv: Vec<Vec<String>> = self
            .flat
            .commands
            .iter()
            .take(200)
            .map(|command| command.argv.iter().map(Arg::shown).collect())
            .collect();
        json!({
            "schema_version": SCHEMA_VERSION,
            "command": self.text,
            "decision": self.decision(),
            "allowed": self.allowed(),
            "severity": severity,
            "effective_severity": severity,
            "risk_level": self.level.name(),
            "matched_rules": self.matched.iter().map(rule).collect::<Vec<_>>(),
            "alternatives": self.alternatives().iter().map(alternative).collect::<Vec<_>>(),
            "context": context,
            "requires_human_approval": self.human,
            "code": self.denial.as_ref().map(|(code, _)| code.name()),
            "decision_reason": reason,
            "denial_reason": reason,
            "deny_reason": reason,
            "blast_radius_scope": blast.map(|(scope, _)| scope.name()),
            "blast_radius_detail": blast.map(|(_, detail)| detail),
            "opaque": !self.flat.opaque.is_empty() || self.flat.truncated,
            "opaque_parts": self.flat.opaque.iter().map(|part| json!({ "start": part.span.start, "end": part.span.end, "why": part.why })).collect::<Vec<_>>(),
            "argv": argv,
            "capability": self.proof.as_ref().map(Proof::to_json),
            "version": env!("CARGO_PKG_VERSION"),
        })
    }
}
