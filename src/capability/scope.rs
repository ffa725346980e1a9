//! Scopes as written: which keys, which values, nothing resolved.

use super::{Capability, ScopeKey, ValueKind};
use crate::text::{Code, Problem, Span, closest};
use std::collections::BTreeMap;

/// The value of one scope key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScopeValue {
    /// One string.
    Text(String),
    /// A list of strings.
    List(Vec<String>),
}

/// A scope: keys in their stable order, each with a value of its kind.
///
/// A key that is present and empty allows nothing; a key that is absent does not narrow.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    entries: BTreeMap<ScopeKey, ScopeValue>,
}

impl Scope {
    /// The scope without keys.
    #[must_use]
    pub fn bare() -> Self {
        Self::default()
    }

    /// Whether no key is written.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.entries.is_empty()
    }

    /// The string of a key that takes one.
    #[must_use]
    pub fn text(&self, key: ScopeKey) -> Option<&str> {
        match self.entries.get(&key) {
            Some(ScopeValue::Text(text)) => Some(text),
            Some(ScopeValue::List(_)) | None => None,
        }
    }

    /// The items of a key that takes a list.
    #[must_use]
    pub fn list(&self, key: ScopeKey) -> Option<&[String]> {
        match self.entries.get(&key) {
            Some(ScopeValue::List(items)) => Some(items),
            Some(ScopeValue::Text(_)) | None => None,
        }
    }

    /// Keys and values in printing order.
    pub fn iter(&self) -> impl Iterator<Item = (ScopeKey, &ScopeValue)> {
        self.entries.iter().map(|(key, value)| (*key, value))
    }

    /// The same scope with one key set.
    #[must_use]
    pub fn with(mut self, key: ScopeKey, value: ScopeValue) -> Self {
        self.entries.insert(key, value);
        self
    }

    /// The same scope with one string set.
    #[must_use]
    pub fn with_text(self, key: ScopeKey, text: impl Into<String>) -> Self {
        self.with(key, ScopeValue::Text(text.into()))
    }

    /// The same scope with one list set.
    #[must_use]
    pub fn with_list<T: Into<String>>(self, key: ScopeKey, items: impl IntoIterator<Item = T>) -> Self {
        self.with(key, ScopeValue::List(items.into_iter().map(Into::into).collect()))
    }

    /// The same scope without one key.
    #[must_use]
    pub fn without(mut self, key: ScopeKey) -> Self {
        self.entries.remove(&key);
        self
    }
}

/// A value before its kind is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawValue {
    /// One string.
    Text(String),
    /// A list of strings.
    List(Vec<String>),
    /// Anything else, described.
    Other(&'static str),
}

impl RawValue {
    fn describe(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Other(what) => what,
        }
    }
}

/// Key, value and their places, as read from YAML or a compact spec.
pub type RawScope = Vec<(String, Span, RawValue, Span)>;

impl Scope {
    /// Checks keys and kinds against the catalogue; on any problem there is no scope.
    ///
    /// # Errors
    /// All problems found, each with its place.
    pub fn check(capability: Capability, raw: RawScope) -> Result<Self, Vec<Problem>> {
        let mut scope = Self::bare();
        let mut problems = Vec::new();
        for (name, key_span, value, value_span) in raw {
            let Some(key) = capability.key(&name) else {
                problems.push(unknown_key(capability, &name).at(key_span));
                continue;
            };
            match typed(key, value) {
                Ok(value) => {
                    scope.entries.insert(key, value);
                }
                Err(found) => problems.push(wrong_kind(capability, key, found).at(value_span)),
            }
        }
        if problems.is_empty() { Ok(scope) } else { Err(problems) }
    }
}

fn typed(key: ScopeKey, value: RawValue) -> Result<ScopeValue, &'static str> {
    match (key.kind(), value) {
        (ValueKind::Text, RawValue::Text(text)) => Ok(ScopeValue::Text(text)),
        (ValueKind::List, RawValue::List(items)) => Ok(ScopeValue::List(items)),
        (ValueKind::Text | ValueKind::List, other) => Err(other.describe()),
    }
}

fn unknown_key(capability: Capability, name: &str) -> Problem {
    let keys: Vec<&str> = capability.keys().iter().map(|key| key.name()).collect();
    let help = match keys.as_slice() {
        [] => format!("{capability} takes no scope"),
        keys => format!("{capability} takes {}", keys.join(", ")),
    };
    Problem::warning(Code::UnknownScopeKey, format!("{capability} has no scope key `{name}`"))
        .key(name)
        .suggest(closest(name, keys))
        .capability(capability.name())
        .help(help)
}

fn wrong_kind(capability: Capability, key: ScopeKey, found: &str) -> Problem {
    let name = key.name();
    let (wanted, example) = match key.kind() {
        ValueKind::Text => ("one string", format!("{name}: …")),
        ValueKind::List => ("a list of strings", format!("{name}: [\"…\"]")),
    };
    Problem::warning(Code::ScopeType, format!("`{name}` of {capability} takes {wanted}, not {found}"))
        .key(name)
        .capability(capability.name())
        .help(format!("write `{example}`"))
}
