//! Errors as users see them: what failed, why, and what to do.

use crate::manifest::FindError;
use crate::run::SettingError;
use std::error::Error;
use std::fmt;

/// A command that could not be carried out.
#[derive(Debug)]
pub struct CliError {
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
}

impl CliError {
    /// An error with its message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new(), hints: Vec::new() }
    }

    /// The same error with something to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The same error with what is behind it.
    #[must_use]
    pub fn because(mut self, cause: &(dyn Error + 'static)) -> Self {
        let cause = Self::from_error(cause);
        self.causes.push(cause.message);
        self.causes.extend(cause.causes);
        self
    }

    /// Takes an error over with its causes.
    pub fn from_error(error: &(dyn Error + 'static)) -> Self {
        let mut causes = Vec::new();
        let mut next = error.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        Self { message: error.to_string(), causes, hints: Vec::new() }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rendered problems bring their own headline.
        let lead = if self.message.starts_with("error[") { "" } else { "error: " };
        write!(f, "{lead}{}", self.message.trim_end())?;
        // Some say their cause themselves.
        let said = |cause: &&String| self.message.ends_with(cause.as_str());
        for cause in self.causes.iter().filter(|cause| !said(cause)) {
            write!(f, "\n  caused by: {cause}")?;
        }
        for hint in &self.hints {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl From<SettingError> for CliError {
    fn from(error: SettingError) -> Self {
        let hint = match &error {
            SettingError::Find(FindError::Unknown { .. }) => {
                Some("`sbx agents list` shows every agent".to_owned())
            }
            SettingError::Find(FindError::Untrusted { path }) => {
                Some(format!("look at what it grants, then: sbx agents trust {}", path.display()))
            }
            SettingError::Home => Some("set HOME".to_owned()),
            _ => None,
        };
        let error = Self::from_error(&error);
        hint.into_iter().fold(error, Self::hint)
    }
}

impl From<FindError> for CliError {
    fn from(error: FindError) -> Self {
        SettingError::from(error).into()
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::from_error(&error)
    }
}
