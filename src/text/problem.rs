//! What can be wrong in a text.
//!
//! The table of codes below is the only one; codes are stable, messages are free.

use super::codes::codes;
use super::{Place, Source, Span};
use serde_json::{Value, json};

/// How much a problem costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something worth knowing; nothing was lost.
    Note,
    /// The faulty part is not held; the rest stands.
    Warning,
    /// The record cannot be used.
    Error,
}

impl Severity {
    /// The word printed before a message.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

codes! {
    /// What kind of problem it is.
    Code {
        UnknownCapability "unknown_capability" "the catalogue has no such capability",
        MalformedCapability "malformed_capability" "a capability is written `resource.verb`",
        BadEntry "bad_entry" "an entry of `capabilities` is neither a name, a compact spec nor a one-key map",
        ScopeNotMap "scope_not_map" "a scope is a map of scope keys",
        NotAList "not_a_list" "`capabilities` is a list or a string",
        UnknownScopeKey "unknown_scope_key" "the capability does not take this scope key",
        ScopeType "scope_type" "the value is not of the kind its scope key takes",
        PathEscapesIn "path_escapes_in" "a path leaves the root it is relative to",
        UnknownAccessMode "unknown_access_mode" "`access` is r, w or rw",
        Escalation "escalation" "the grant can be used to gain more than it says",
        Inert "inert" "a grant allows nothing here: an fs or proc grant without a root at any level, a host that nothing leads to",
        BackendMissing "backend_missing" "no backend on this machine can hold the record",
        Yaml "yaml" "the text is not the YAML that records are written in",
        SpecEmpty "spec_empty" "a compact spec is empty",
        SpecUnclosed "spec_unclosed" "a brace, bracket or quote is not closed",
        SpecPair "spec_pair" "a scope is written as key=value pairs",
        BadSection "bad_section" "a section of the record is not of its form",
        UnknownKey "unknown_key" "a key in a section that sbx owns is not known",
        IgnoredKey "ignored_key" "a top-level key is not one that sbx reads",
        RootClamped "root_clamped" "a root lies outside the level above it and was narrowed to that",
        ProtectedPath "protected_path" "a grant names a protected path",
        BadTool "bad_tool" "a tool's definition is not of its form",
        NotAgent "not_agent" "the record is not of class agent",
    }
}

/// One thing that is wrong, with the place, the reason and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Which kind.
    pub code: Code,
    /// What it costs.
    pub severity: Severity,
    /// What is wrong, naming the object.
    pub message: String,
    /// Where, in the source that was parsed.
    pub span: Option<Span>,
    /// How to put it right.
    pub help: Option<String>,
    /// The word that was probably meant.
    pub suggest: Option<String>,
    /// The scope key or section key concerned.
    pub key: Option<String>,
    /// The capabilities concerned, by name.
    pub capabilities: Vec<String>,
}

impl Problem {
    /// A problem that costs the faulty part only.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Warning,
            message: message.into(),
            span: None,
            help: None,
            suggest: None,
            key: None,
            capabilities: Vec::new(),
        }
    }

    /// A problem that makes the record unusable.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, ..Self::warning(code, message) }
    }

    /// Something worth knowing.
    pub fn note(code: Code, message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::warning(code, message) }
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Sets the fix.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the word that was probably meant, if one is near.
    #[must_use]
    pub fn suggest(mut self, word: Option<impl Into<String>>) -> Self {
        self.suggest = word.map(Into::into);
        self
    }

    /// Sets the key concerned.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a capability concerned.
    #[must_use]
    pub fn capability(mut self, name: impl Into<String>) -> Self {
        self.capabilities.push(name.into());
        self
    }

    /// Where it lies in its source.
    #[must_use]
    pub fn place(&self, source: &Source) -> Option<Place> {
        self.span.map(|span| source.place(span.start))
    }

    /// The problem for machines.
    #[must_use]
    pub fn to_json(&self, source: &Source) -> Value {
        json!({
            "code": self.code.name(),
            "severity": self.severity.name(),
            "message": self.message,
            "place": self.place(source),
            "help": self.help,
            "suggest": self.suggest,
            "key": self.key,
            "capabilities": self.capabilities,
        })
    }
}
