//! What a record asks for that is no grant: each item, and whether having it means more authority or less.
//!
//! Answers for every section that sbx owns. It leaves which of two versions has what to [`super::diff`].
//! Invariant: two records that differ in a section of sbx differ in what is told here.

use crate::capability::{NameCase, Spec};
use crate::manifest::{EnvRule, Limits, Mcp, Node, NodeKind, RiskSettings, SecretSource, Severity};
use crate::policy::Policy;

/// What having an item means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sense {
    /// More authority.
    Widens,
    /// Less.
    Narrows,
    /// More, the larger it is; and less than where it is absent.
    Measures(u128),
}

/// One item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Aside {
    /// What it is one of.
    pub(super) what: &'static str,
    /// What it is called, for trees.
    pub(super) name: String,
    /// All that it says, for comparing.
    pub(super) whole: String,
    pub(super) sense: Sense,
    /// Whether it is so without being written.
    pub(super) unsaid: bool,
    /// Whether it is one of a list without which everything is meant.
    pub(super) listed: bool,
}

impl Aside {
    fn new(what: &'static str, name: impl Into<String>, sense: Sense) -> Self {
        let name = name.into();
        Self { what, whole: name.clone(), name, sense, unsaid: false, listed: false }
    }

    fn saying(self, whole: String) -> Self {
        Self { whole, ..self }
    }

    fn listed(self) -> Self {
        Self { listed: true, ..self }
    }

    fn unsaid_if(self, unsaid: bool) -> Self {
        Self { unsaid, ..self }
    }

    /// One line of it.
    pub(super) fn line(&self) -> String {
        format!("{}: {}", self.what, self.whole)
    }
}

/// What a record asks for that is no grant: limits, variables, ports and the like, each with its items.
#[must_use]
pub fn besides(policy: &Policy) -> Vec<(&'static str, Vec<String>)> {
    let mut lines: Vec<(&'static str, Vec<String>)> = Vec::new();
    for aside in asides(policy).into_iter().filter(|aside| !aside.unsaid) {
        match lines.last_mut().filter(|(what, _)| *what == aside.what) {
            Some((_, items)) => items.push(aside.name),
            None => lines.push((aside.what, vec![aside.name])),
        }
    }
    lines
}

/// The same item by item, with what is so because nothing was written.
pub(super) fn asides(policy: &Policy) -> Vec<Aside> {
    let sections = policy.sections();
    let widens = |what: &'static str, items: &[String]| -> Vec<Aside> {
        items.iter().map(|item| Aside::new(what, item, Sense::Widens)).collect()
    };
    let ports: Vec<String> = sections.listen.iter().map(u16::to_string).collect();
    [
        limits(policy.limits()),
        sections.env.iter().map(variable).collect(),
        widens("listens on port", &ports),
        widens("does without", policy.accept_degraded()),
        widens("on the provider's side", &sections.provider_tools),
        sections.tools.iter().flat_map(tools).collect(),
        sections.mcp.iter().flat_map(mcp).collect(),
        risk(&sections.risk.clone().unwrap_or_default()),
    ]
    .concat()
}

fn limits(limits: &Limits) -> Vec<Aside> {
    let entries = limits.entries().into_iter().zip(limits.amounts());
    let limit = |((key, value), amount): ((&str, String), u128)| {
        Aside::new("limits", format!("{key} {value}"), Sense::Measures(amount))
    };
    entries.map(limit).collect()
}

fn variable(rule: &EnvRule) -> Aside {
    let Some(inject) = &rule.inject else { return Aside::new("environment", &rule.name, Sense::Widens) };
    let from = match &inject.from {
        SecretSource::Environment(name) => format!("the variable {}", name.as_ref().unwrap_or(&rule.name)),
        SecretSource::File(path) => path.clone(),
        SecretSource::Command(argv) => format!("`{}`", argv.join(" ")),
    };
    let name = format!("{} (only for {})", rule.name, inject.host);
    let format = inject.format.as_deref().map_or_else(String::new, |format| format!(" as `{format}`"));
    let whole = format!("{name} in {}{format}, from {from}", inject.header);
    Aside::new("environment", name, Sense::Widens).saying(whole)
}

fn tools(section: &Node) -> Vec<Aside> {
    let tool = |(name, definition): &(Node, Node)| {
        let name = name.scalar().unwrap_or_default();
        Aside::new("tools", name, Sense::Widens).saying(format!("{name} {}", flat(definition)))
    };
    section.map().unwrap_or_default().iter().map(tool).collect()
}

/// A part of a record in one line.
fn flat(node: &Node) -> String {
    match &node.kind {
        NodeKind::Null => "~".to_owned(),
        NodeKind::Bool(value) => value.to_string(),
        NodeKind::Number(text) | NodeKind::Text(text) => text.clone(),
        NodeKind::List(items) => format!("[{}]", items.iter().map(flat).collect::<Vec<_>>().join(", ")),
        NodeKind::Map(pairs) => {
            let pair = |(key, value): &(Node, Node)| format!("{}: {}", flat(key), flat(value));
            format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The calls that are let through where not all are.
const CALLS: &str = "MCP calls";

fn mcp(section: &Mcp) -> Vec<Aside> {
    let one = |name: String, sense| Aside::new("MCP", name, sense);
    let mut asides = Vec::new();
    if let Some(allowed) = &section.allowed_tools {
        asides.push(Aside::new(CALLS, "only those listed", Sense::Narrows));
        let call = |pattern: &_| Aside::new(CALLS, format!("{pattern}"), Sense::Widens).listed();
        asides.extend(allowed.iter().map(|pattern: &crate::capability::ToolPattern| call(pattern)));
    }
    if section.case == NameCase::Exact {
        asides.push(one("names in exactly these letters".to_owned(), Sense::Narrows));
    }
    let action = |(tool, argument): &(String, String)| format!("{tool} by its {argument}");
    asides.extend(section.actions.iter().map(|rule| one(action(rule), Sense::Narrows)));
    for rule in &section.arguments {
        let needs: Vec<&str> = rule.capabilities.iter().map(|capability| capability.name()).collect();
        let text = format!("{} of {} needs {}", rule.argument, rule.tool, needs.join(" and "));
        asides.push(one(text, Sense::Narrows));
    }
    asides
        .extend(section.pins.iter().map(|file| one(format!("definitions pinned in {file}"), Sense::Narrows)));
    asides.extend(section.preset.iter().map(|name| one(format!("arguments as in {name}"), Sense::Narrows)));
    let needed = |spec: &Spec| one(format!("servers need {spec}"), Sense::Narrows);
    asides.extend(section.requires.iter().map(needed));
    asides
}

/// The groups that count where not all do.
const GROUPS: &str = "risk groups";

fn risk(settings: &RiskSettings) -> Vec<Aside> {
    let usual = RiskSettings::default();
    let level = |name: &str, severity: Severity, usual: Severity| {
        let rank = Severity::ALL.iter().position(|one| *one == severity).unwrap_or_default();
        let text = format!("{name} {}", severity.name());
        Aside::new("risk", text, Sense::Measures(rank as u128)).unsaid_if(severity == usual)
    };
    let mut asides = vec![
        level("denied from", settings.deny_at, usual.deny_at),
        level("counted from", settings.min_severity, usual.min_severity),
    ];
    let all = |word: &str, items: &[String], sense| -> Vec<Aside> {
        items.iter().map(|item| Aside::new("risk", format!("{word} {item}"), sense)).collect()
    };
    asides.extend(all("denies", &settings.deny, Sense::Narrows));
    asides.extend(all("ignores", &settings.ignore, Sense::Widens));
    asides.extend(all("does not count", &settings.disabled_groups, Sense::Widens));
    for (is_set, text) in [
        (settings.context_raises, "stricter in a dangerous place"),
        (settings.apply_to_exec, "commands too"),
        (settings.require_human_approval, "a human is asked"),
    ] {
        asides.extend(is_set.then(|| Aside::new("risk", text, Sense::Narrows)));
    }
    if let Some(groups) = &settings.enabled_groups {
        asides.push(Aside::new(GROUPS, "only those listed", Sense::Widens));
        asides.extend(groups.iter().map(|group| Aside::new(GROUPS, group, Sense::Narrows).listed()));
    }
    asides
}
