//! Grants as written: every form of `capabilities`, checked as far as a text can be.

use super::paths::{PathEntry, expand_root};
use super::record::normalize_id;
use super::yaml::{Node, NodeKind};
use super::{Facts, Manifest};
use crate::capability::{
    Capability, CommandPattern, Family, HostPattern, RawScope, RawValue, Scope, ScopeKey, Spec, SpecError,
    check_command, split_list,
};
use crate::text::{Code, Problem, Source, Span};
use std::path::Path;

/// A grant with the place it was written at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenGrant {
    /// What is granted.
    pub spec: Spec,
    /// Where it is written; for a shorthand, where that is.
    pub span: Span,
    /// Which part of the record it comes from.
    pub origin: WrittenIn,
}

/// Which part of a record a grant comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WrittenIn {
    /// An entry of `capabilities`.
    Capabilities,
    /// The `access` shorthand.
    Access,
    /// The `sandbox` shorthand.
    Sandbox,
    /// Nothing was written, so `records.read` is held.
    Default,
}

impl WrittenIn {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Capabilities => "capabilities",
            Self::Access => "access",
            Self::Sandbox => "sandbox",
            Self::Default => "default",
        }
    }
}

/// Reads the value of `capabilities`; a bad entry costs that entry only.
pub(super) fn parse(
    node: &Node,
    source: &Source,
    facts: &Facts,
    problems: &mut Vec<Problem>,
) -> Vec<WrittenGrant> {
    let mut grants = Vec::new();
    let mut keep = |result: Result<Spec, Vec<Problem>>, span: Span| match result {
        Ok(spec) => grants.push(WrittenGrant { spec, span, origin: WrittenIn::Capabilities }),
        Err(found) => problems.extend(found),
    };
    match &node.kind {
        NodeKind::Null => {}
        NodeKind::Text(text) => {
            let base = inner_base(source, node.span, text);
            for (token, span) in split_list(text) {
                let span = inner_span(base, node.span, span);
                keep(read_spec(token, span, facts), span);
            }
        }
        NodeKind::List(items) => {
            for item in items {
                keep(entry(item, source, facts), item.span);
            }
        }
        NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Map(_) => problems.push(
            Problem::warning(Code::NotAList, format!("`capabilities` is {}, not a list", node.describe()))
                .at(node.span)
                .help("write one `- resource.verb` a line"),
        ),
    }
    grants
}

/// One entry of the list: a name, a compact spec, or a map with one key.
fn entry(item: &Node, source: &Source, facts: &Facts) -> Result<Spec, Vec<Problem>> {
    match &item.kind {
        NodeKind::Text(text) => {
            let base = inner_base(source, item.span, text);
            let span = inner_span(base, item.span, Span::new(0, text.len()));
            read_spec(text, span, facts)
        }
        NodeKind::Map(pairs) => match pairs.as_slice() {
            [(name, scope)] => mapped(name, scope, facts),
            _ => Err(vec![bad_entry(item, "an entry is a map with exactly one capability")]),
        },
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::List(_) => {
            Err(vec![bad_entry(item, &format!("an entry is a capability, not {}", item.describe()))])
        }
    }
}

fn bad_entry(item: &Node, message: &str) -> Problem {
    Problem::warning(Code::BadEntry, message)
        .at(item.span)
        .help("write `- fs.read`, `- fs.read{in=~/work}` or `- fs.read: {in: ~/work}`")
}

fn read_spec(text: &str, span: Span, facts: &Facts) -> Result<Spec, Vec<Problem>> {
    let shift = |mut problem: Problem| {
        // A spec whose text stands in the file as it is can be pointed into; others only as a whole.
        let exact = span.end - span.start == text.len();
        problem.span = problem
            .span
            .filter(|_| exact)
            .map_or(Some(span), |inner| Some(Span::new(span.start + inner.start, span.start + inner.end)));
        problem
    };
    let spec = Spec::read(text).map_err(|found| found.into_iter().map(shift).collect::<Vec<_>>())?;
    accept(spec, span, facts)
}

fn mapped(name: &Node, scope: &Node, facts: &Facts) -> Result<Spec, Vec<Problem>> {
    let capability = Spec::capability(name.text().unwrap_or_default(), name.span)?;
    let raw = match &scope.kind {
        NodeKind::Null => RawScope::new(),
        NodeKind::Map(pairs) => pairs.iter().map(raw_pair).collect(),
        NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) | NodeKind::List(_) => {
            let message = format!("the scope of {capability} is {}, not a map", scope.describe());
            return Err(vec![
                Problem::warning(Code::ScopeNotMap, message).at(scope.span).capability(capability.name()),
            ]);
        }
    };
    let spec = Spec { capability, scope: Scope::check(capability, raw)? };
    accept(spec, name.span.to(scope.span), facts)
}

fn raw_pair((key, value): &(Node, Node)) -> (String, Span, RawValue, Span) {
    // A lone `~` is nothing to YAML, and the home to whoever writes it as a root; nothing has no letters, or four.
    let home = value.span.end - value.span.start == 1 && key.text() == Some(ScopeKey::In.name());
    let raw = match &value.kind {
        NodeKind::Null if home => RawValue::Text(String::from("~")),
        NodeKind::Text(text) => RawValue::Text(text.clone()),
        NodeKind::List(items) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| item.text().map(str::to_owned)).collect();
            texts.map_or(
                RawValue::Other("a list with items that are not strings (quote them)"),
                RawValue::List,
            )
        }
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Map(_) => {
            RawValue::Other(value.describe())
        }
    };
    (key.text().unwrap_or_default().to_owned(), key.span, raw, value.span)
}

fn accept(spec: Spec, span: Span, facts: &Facts) -> Result<Spec, Vec<Problem>> {
    let found: Vec<Problem> = check_spec(&spec, facts).into_iter().map(|problem| problem.at(span)).collect();
    if found.is_empty() { Ok(spec) } else { Err(found) }
}

/// Where a scalar's value stands; none when its text was rewritten by YAML.
fn inner_base(source: &Source, span: Span, value: &str) -> Option<usize> {
    source.slice(span).find(value).map(|at| span.start + at)
}

/// Where a part of a scalar's value stands; the whole scalar when that cannot be said.
fn inner_span(base: Option<usize>, span: Span, inner: Span) -> Span {
    base.map_or(span, |base| Span::new(base + inner.start, base + inner.end))
}

/// Everything wrong with the values of a spec whose keys and kinds are right.
#[must_use]
pub fn check_spec(spec: &Spec, facts: &Facts) -> Vec<Problem> {
    let mut problems = Vec::new();
    let scope_type = |key: ScopeKey, message: String| {
        Problem::warning(Code::ScopeType, message).key(key.name()).capability(spec.capability.name())
    };
    let root = match spec.scope.text(ScopeKey::In).map(|root| expand_root(root, facts)).transpose() {
        Ok(root) => root.and_then(|root| root.path),
        Err(problem) => {
            problems.push(problem.capability(spec.capability.name()));
            None
        }
    };
    for entry in spec.scope.list(ScopeKey::Paths).unwrap_or_default() {
        if let Err(problem) = check_path(spec.capability, entry, root.as_deref(), facts) {
            problems.push(problem.capability(spec.capability.name()));
        }
    }
    for entry in spec.scope.list(ScopeKey::Hosts).unwrap_or_default() {
        if let Err(error) = HostPattern::parse(entry) {
            let problem = scope_type(ScopeKey::Hosts, format!("`{entry}` is no host pattern: {error}"));
            problems.push(
                problem.help("write `example.com`, `*.example.com` or `*`, each with an optional `:port`"),
            );
        }
    }
    for entry in spec.scope.list(ScopeKey::Cmds).unwrap_or_default() {
        if let Err(error) = check_command(entry) {
            let problem = scope_type(ScopeKey::Cmds, format!("`{entry}` is no command: {error}"));
            problems.push(problem.help("put command lines under `patterns`, for example `npm test *`"));
        }
    }
    for entry in spec.scope.list(ScopeKey::Patterns).unwrap_or_default() {
        if let Err(error) = CommandPattern::parse(entry) {
            problems
                .push(scope_type(ScopeKey::Patterns, format!("`{entry}` is no command pattern: {error}")));
        }
    }
    let ids = spec.scope.list(ScopeKey::Ids).unwrap_or_default().iter().map(String::as_str);
    for id in ids.chain(spec.scope.text(ScopeKey::Id)) {
        if normalize_id(id).is_empty() {
            problems.push(scope_type(ScopeKey::Id, "an agent id is empty".to_owned()));
        }
    }
    problems
}

/// A path entry is checked against its root; under a root yet unknown, only for climbing.
fn check_path(
    capability: Capability,
    entry: &str,
    root: Option<&Path>,
    facts: &Facts,
) -> Result<(), Problem> {
    if capability.family() != Family::Fs {
        return PathEntry::relative(entry).map(drop);
    }
    match root {
        Some(root) => PathEntry::parse(entry, root, facts).map(drop),
        None if entry.starts_with(['/', '~', '$']) => Ok(()),
        None => PathEntry::parse(entry, Path::new("/its/root"), facts).map(drop),
    }
}

/// Reads and checks one compact spec given on its own, as on a command line.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_spec(text: &str, facts: &Facts) -> Result<Spec, SpecError> {
    let spec = Spec::parse(text)?;
    let problems = check_spec(&spec, facts);
    if problems.is_empty() { Ok(spec) } else { Err(SpecError::new(text, problems)) }
}

/// Reads one grant from JSON: a compact spec, or an object with one key.
///
/// # Errors
/// Everything that is wrong with it.
pub fn spec_from_json(value: &serde_json::Value, facts: &Facts) -> Result<Spec, SpecError> {
    if let Some(text) = value.as_str() {
        return parse_spec(text, facts);
    }
    // JSON is YAML: one reader serves both.
    let text = format!("capabilities: [{value}]\n");
    let (manifest, problems) = Manifest::parse(Source::new("grant", &text), facts);
    let spec = manifest.and_then(|manifest| manifest.capabilities()?.first().map(|grant| grant.spec.clone()));
    spec.ok_or_else(|| SpecError::new(&text, problems))
}
