//! `risk:` of a record, and the project's policy: when a text counts as too dangerous to run.
//!
//! Invariant: a project's policy only ever makes it stricter; what would weaken is a problem, not a setting.

use super::sections::check_keys;
use super::yaml::{self, Node, NodeKind};
use crate::text::{Code, Problem, Source, Span};

/// How bad a rule's finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Can be taken back.
    Low,
    /// Can be lost with some trouble.
    Medium,
    /// Cannot be taken back.
    High,
    /// Takes everything with it.
    Critical,
}

impl Severity {
    /// From the least to the worst.
    pub const ALL: [Self; 5] = [Self::Info, Self::Low, Self::Medium, Self::High, Self::Critical];

    /// The name used in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "Info",
            Self::Low => "Low",
            Self::Medium => "Medium",
            Self::High => "High",
            Self::Critical => "Critical",
        }
    }

    /// Reads a name in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.name().eq_ignore_ascii_case(name))
    }

    /// The next one down.
    #[must_use]
    pub const fn lower(self) -> Self {
        match self {
            Self::Info | Self::Low => Self::Info,
            Self::Medium => Self::Low,
            Self::High => Self::Medium,
            Self::Critical => Self::High,
        }
    }
}

/// What a record decides about risk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RiskSettings {
    /// From this severity on a text is denied.
    pub deny_at: Severity,
    /// Rules that deny whatever their severity.
    pub deny: Vec<String>,
    /// Rules that do not count.
    pub ignore: Vec<String>,
    /// Findings below this do not count.
    pub min_severity: Severity,
    /// The only groups that count; none for all.
    pub enabled_groups: Option<Vec<String>>,
    /// Groups that do not count.
    pub disabled_groups: Vec<String>,
    /// Whether a dangerous context makes it stricter by one severity.
    pub context_raises: bool,
    /// Whether commands that are no shell text are looked at too.
    pub apply_to_exec: bool,
    /// Whether answers say that a human should be asked about what is denied.
    pub require_human_approval: bool,
}

impl Default for RiskSettings {
    fn default() -> Self {
        Self {
            deny_at: Severity::High,
            deny: Vec::new(),
            ignore: Vec::new(),
            min_severity: Severity::Info,
            enabled_groups: None,
            disabled_groups: Vec::new(),
            context_raises: false,
            apply_to_exec: false,
            require_human_approval: false,
        }
    }
}

/// The keys of `risk`.
pub(crate) const RISK_KEYS: &[&str] = &[
    "deny_at",
    "deny",
    "ignore",
    "min_severity",
    "groups",
    "context_raises",
    "apply_to_exec",
    "require_human_approval",
];
const GROUP_KEYS: &[&str] = &["enable", "disable"];
/// The keys of a project's policy: those that can only make it stricter.
const POLICY_KEYS: &[&str] =
    &["version", "deny", "deny_at", "context_raises", "require_human_approval", "rules", "group"];

impl RiskSettings {
    /// Reads the section of a record.
    pub(crate) fn read(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let mut settings = Self::default();
        if let Some(severity) = severity(node, "deny_at", problems) {
            settings.deny_at = severity;
        }
        if let Some(severity) = severity(node, "min_severity", problems) {
            settings.min_severity = severity;
        }
        settings.deny = ids(node, "deny", problems);
        settings.ignore = ids(node, "ignore", problems);
        settings.context_raises = flag(node, "context_raises", problems);
        settings.apply_to_exec = flag(node, "apply_to_exec", problems);
        settings.require_human_approval = flag(node, "require_human_approval", problems);
        if let Some(groups) = node.get("groups").filter(|groups| groups.kind != NodeKind::Null) {
            check_keys("risk.groups", GROUP_KEYS, groups, problems);
            settings.enabled_groups = groups.get("enable").map(|_| ids(groups, "enable", problems));
            settings.disabled_groups = ids(groups, "disable", problems);
            if settings.enabled_groups.as_ref().is_some_and(Vec::is_empty) {
                problems.push(
                    bad("`enable` names no group, so that nothing would count", groups.span)
                        .help("leave it out for all groups, or name those that count"),
                );
            }
        }
        settings
    }
}

/// A project's `.sbx/risk.yml`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RiskPolicy {
    /// Rules that deny.
    pub deny: Vec<String>,
    /// From this severity on, if that is stricter.
    pub deny_at: Option<Severity>,
    /// Whether a dangerous context makes it stricter.
    pub context_raises: bool,
    /// Whether a human should be asked.
    pub require_human_approval: bool,
    /// Rules of its own, unread.
    pub rules: Option<Node>,
}

impl RiskPolicy {
    /// Reads a policy; there is none when anything in it is wrong, because it only narrows.
    ///
    /// # Errors
    /// All that is wrong, with places.
    pub fn parse(source: &Source) -> Result<Self, Vec<Problem>> {
        let root = yaml::parse(source.text(), 0).map_err(|problem| vec![*problem])?;
        let mut problems = Vec::new();
        for (key, _) in root.map().unwrap_or_default() {
            let name = key.text().unwrap_or_default();
            if matches!(name, "ignore" | "min_severity" | "groups" | "apply_to_exec") {
                problems.push(
                    bad(
                        format!("a project cannot set `{name}`, which would weaken what the user decided"),
                        key.span,
                    )
                    .help("put it into the agent's record"),
                );
            }
        }
        if problems.is_empty() {
            check_keys("risk.yml", POLICY_KEYS, &root, &mut problems);
        }
        let version = root.get("version").map(|node| &node.kind);
        if version.is_some() && version != Some(&NodeKind::Number("1".to_owned())) {
            problems.push(bad("`version` is 1", root.span));
        }
        let policy = Self {
            deny: ids(&root, "deny", &mut problems),
            deny_at: severity(&root, "deny_at", &mut problems),
            context_raises: flag(&root, "context_raises", &mut problems),
            require_human_approval: flag(&root, "require_human_approval", &mut problems),
            rules: root.get("rules").map(|_| root.clone()),
        };
        if problems.is_empty() { Ok(policy) } else { Err(problems) }
    }

    /// Makes settings stricter, never weaker.
    pub fn tighten(&self, settings: &mut RiskSettings) {
        settings.deny.extend(self.deny.iter().cloned());
        settings.deny_at = self.deny_at.map_or(settings.deny_at, |severity| severity.min(settings.deny_at));
        settings.context_raises |= self.context_raises;
        settings.require_human_approval |= self.require_human_approval;
    }
}

fn bad(message: impl Into<String>, span: Span) -> Problem {
    Problem::error(Code::BadSection, message).at(span).key("risk")
}

fn severity(node: &Node, key: &str, problems: &mut Vec<Problem>) -> Option<Severity> {
    let value = node.get(key)?;
    let read = value.text().and_then(Severity::from_name);
    if read.is_none() {
        problems.push(bad(format!("`{key}` is info, low, medium, high or critical"), value.span));
    }
    read
}

fn ids(node: &Node, key: &str, problems: &mut Vec<Problem>) -> Vec<String> {
    let Some(value) = node.get(key) else { return Vec::new() };
    let texts: Option<Vec<String>> =
        value.list().and_then(|items| items.iter().map(|item| item.text().map(str::to_owned)).collect());
    texts.unwrap_or_else(|| {
        problems.push(bad(format!("`{key}` is a list of names"), value.span));
        Vec::new()
    })
}

fn flag(node: &Node, key: &str, problems: &mut Vec<Problem>) -> bool {
    match node.get(key).map(|value| (&value.kind, value.span)) {
        None => false,
        Some((NodeKind::Bool(value), _)) => *value,
        Some((_, span)) => {
            problems.push(bad(format!("`{key}` is true or false"), span));
            false
        }
    }
}
