//! Why an operation that is allowed could not be done.

use crate::text::codes;
use serde_json::{Value, json};
use std::fmt;

codes! {
    /// What kind of failure.
    FaultCode {
        InvalidArguments "invalid_arguments" "an argument is missing, unknown or of the wrong kind",
        NotFound "not_found" "there is nothing at that path, or no such record or agent",
        Exists "exists" "there is something already",
        WrongKind "wrong_kind" "not a regular file, not a directory, or a directory that is not empty",
        TooLarge "too_large" "more than one answer or one request may hold",
        NotText "not_text" "the content is not UTF-8 text",
        NoMatch "no_match" "the text to replace does not occur",
        NotUnique "not_unique" "the text to replace occurs more than once",
        Changed "changed" "it became something else while the operation ran",
        Refused "refused" "the kernel refused what the record allows, or the file's permissions do",
        Unreachable "unreachable" "the host could not be reached, or its answer not be read",
        TimedOut "timed_out" "it took longer than it may",
        Cancelled "cancelled" "it was called off",
        NotConfigured "not_configured" "the machine's configuration does not provide for it",
        Failed "failed" "anything else",
    }
}

/// A failure of an operation, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// What kind.
    pub code: FaultCode,
    /// What failed, on what, and why.
    pub message: String,
    /// What would help.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault.
    #[must_use]
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// The same with something to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// For machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "is_error": true, "code": self.code.name(), "message": self.message, "hint": self.hint })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}
