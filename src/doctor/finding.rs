//! One thing the doctor says: how bad, what, and what to do about it.

use crate::text::{Place, Severity};
use serde_json::{Value, json};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Fine,
    /// Worth knowing.
    Note,
    /// Weaker, or riskier, than it could be.
    Warning,
    /// Broken.
    Error,
}

impl Level {
    /// The word printed before a finding.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl From<Severity> for Level {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Note => Self::Note,
            Severity::Warning => Self::Warning,
            Severity::Error => Self::Error,
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Which part of the examination: `host`, `backends`, `records`, `files`, `clients`.
    pub area: &'static str,
    /// A stable name.
    pub code: &'static str,
    /// How much it matters.
    pub level: Level,
    /// What was found.
    pub message: String,
    /// What to do, a line each; commands stand alone on their line.
    pub fix: Vec<String>,
    /// Where, when it is in a file.
    pub place: Option<Place>,
}

impl Finding {
    /// A finding without a fix.
    pub fn new(area: &'static str, code: &'static str, level: Level, message: impl Into<String>) -> Self {
        Self { area, code, level, message: message.into(), fix: Vec::new(), place: None }
    }

    /// The same with something to do.
    #[must_use]
    pub fn fix(mut self, line: impl Into<String>) -> Self {
        self.fix.push(line.into());
        self
    }

    /// For machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "area": self.area, "code": self.code, "level": self.level.name(), "message": self.message,
            "fix": self.fix, "place": self.place,
        })
    }
}
