//! The language of Seatbelt profiles, as far as we write it.
//!
//! Answers for text that means what the values say: no path is ever part of the program, each is handed over as
//! a parameter, and what could not be written safely is refused. It leaves which rules there are to
//! [`super::seatbelt`].
//! Invariant: the only denial is the first line, so that the order of rules does not matter.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::error::PlatformError;

/// The longest string: the reader of profiles gives up somewhat above a thousand bytes.
pub(super) const LONGEST: usize = 900;

/// A rule of a profile; it always allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Why it is there.
    pub(super) why: String,
    /// What it is about.
    pub(super) operations: Vec<&'static str>,
    /// To what it applies: any of these, or everything if there are none.
    pub(super) filters: Vec<Filter>,
}

/// What a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// This very path.
    Literal(PathBuf),
    /// This path and all below it.
    Subpath(PathBuf),
    /// Paths that match.
    Regex(String),
    /// A filter with one quoted value.
    Quoted(&'static str, String),
    /// A filter with one raw expression.
    Matching(&'static str, String),
    /// A filter with one bare word.
    Bare(&'static str, &'static str),
    /// A socket in the file system, its near or far end, at this path or below it.
    Socket(&'static str, PathBuf),
    /// What all of these apply to.
    All(Vec<Self>),
    /// What any of these applies to.
    Any(Vec<Self>),
    /// What this does not apply to.
    Not(Box<Self>),
}

impl Filter {
    /// What this applies to and none of the others.
    pub(super) fn without(self, others: impl IntoIterator<Item = Self>) -> Self {
        let mut parts = vec![self];
        parts.extend(others.into_iter().map(|other| Self::Not(Box::new(other))));
        if parts.len() == 1 { parts.swap_remove(0) } else { Self::All(parts) }
    }
}

/// A profile: its text, and the values of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The program.
    pub text: String,
    /// Names and values, to be handed over as `-D NAME=VALUE`.
    pub parameters: Vec<(String, String)>,
}

/// Writes a profile whose denials bear `tag`.
pub(super) fn write(rules: &[Rule], tag: &str) -> Result<Profile, PlatformError> {
    let mut out = Profile { text: String::from("(version 1)\n"), parameters: Vec::new() };
    let _ = writeln!(out.text, "(deny default (with message {}))", quoted(tag)?);
    for rule in rules {
        let _ = write!(out.text, "\n; {}\n(allow {}", rule.why, rule.operations.join(" "));
        for filter in &rule.filters {
            out.filter(filter, 1)?;
        }
        out.text.push_str(")\n");
    }
    Ok(out)
}

impl Profile {
    fn filter(&mut self, filter: &Filter, depth: usize) -> Result<(), PlatformError> {
        let _ = write!(self.text, "\n{:width$}", "", width = depth * 2);
        match filter {
            Filter::Literal(path) => self.path("literal", path)?,
            Filter::Subpath(path) => self.path("subpath", path)?,
            Filter::Regex(regex) => self.text.push_str(&format!("(regex {})", raw(regex)?)),
            Filter::Quoted(word, value) => self.text.push_str(&format!("({word} {})", quoted(value)?)),
            Filter::Matching(word, value) => self.text.push_str(&format!("({word} {})", raw(value)?)),
            Filter::Bare(word, value) => self.text.push_str(&format!("({word} {value})")),
            Filter::Socket(end, path) => {
                let name = self.parameter(path)?;
                let _ = write!(self.text, "({end} unix-socket (subpath (param \"{name}\")))");
            }
            Filter::All(parts) => self.group("require-all", parts, depth)?,
            Filter::Any(parts) => self.group("require-any", parts, depth)?,
            Filter::Not(part) => self.group("require-not", std::slice::from_ref(part), depth)?,
        }
        Ok(())
    }

    fn group(&mut self, word: &str, parts: &[Filter], depth: usize) -> Result<(), PlatformError> {
        self.text.push('(');
        self.text.push_str(word);
        for part in parts {
            self.filter(part, depth + 1)?;
        }
        self.text.push(')');
        Ok(())
    }

    fn path(&mut self, word: &str, path: &Path) -> Result<(), PlatformError> {
        let name = self.parameter(path)?;
        let _ = write!(self.text, "({word} (param \"{name}\"))");
        Ok(())
    }

    /// The name of the parameter that holds a path.
    fn parameter(&mut self, path: &Path) -> Result<String, PlatformError> {
        let value = checked(path)?;
        if let Some((name, _)) = self.parameters.iter().find(|(_, known)| known == value) {
            return Ok(name.clone());
        }
        let name = format!("P{}", self.parameters.len());
        self.parameters.push((name.clone(), value.to_owned()));
        Ok(name)
    }
}

/// A path that can be handed over: text, absolute, without control characters, and not too long.
fn checked(path: &Path) -> Result<&str, PlatformError> {
    let refuse = |why: &str| bad(format!("{} {why}", path.display()));
    let text = path.to_str().ok_or_else(|| refuse("is not UTF-8, which Seatbelt cannot match"))?;
    if !path.is_absolute() {
        return Err(refuse("is not absolute"));
    }
    if text.chars().any(char::is_control) {
        return Err(refuse("has a control character, which no profile may hold"));
    }
    if text.len() > LONGEST {
        return Err(refuse("is too long for a profile"));
    }
    Ok(text)
}

/// A string of the language.
fn quoted(text: &str) -> Result<String, PlatformError> {
    if text.len() > LONGEST || text.chars().any(char::is_control) {
        return Err(bad(format!("{} cannot be written into a profile", text.escape_debug())));
    }
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// A raw expression of the language, in which only the quote has no other spelling.
fn raw(regex: &str) -> Result<String, PlatformError> {
    if regex.len() > LONGEST || regex.chars().any(|c| c.is_control() || c == '"') {
        return Err(bad(format!("{} cannot be written into a profile", regex.escape_debug())));
    }
    Ok(format!("#\"{regex}\""))
}

pub(super) fn bad(reason: String) -> PlatformError {
    PlatformError::BadPlan { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(filter: Filter) -> Result<Profile, PlatformError> {
        write(&[Rule { why: "test".into(), operations: vec!["file-read-data"], filters: vec![filter] }], "t")
    }

    #[test]
    fn paths_are_parameters_whatever_they_hold() {
        let profile = one(Filter::Subpath("/w/a\" (allow default) \\".into())).unwrap();
        assert!(!profile.text.contains("/w"));
        assert_eq!(profile.parameters, [("P0".to_owned(), "/w/a\" (allow default) \\".to_owned())]);
    }

    #[test]
    fn what_could_steer_the_reader_is_refused() {
        use std::os::unix::ffi::OsStrExt as _;
        let long = format!("/{}", "x".repeat(LONGEST));
        for path in ["/w/a\nb", "/w/\u{7f}", "relative", &long] {
            assert!(one(Filter::Literal(path.into())).is_err(), "{path:?}");
        }
        let bytes = Path::new(std::ffi::OsStr::from_bytes(b"/w/\xff"));
        assert!(one(Filter::Literal(bytes.into())).is_err());
        assert!(one(Filter::Regex("a\"b".into())).is_err());
        assert!(write(&[], "a\nb").is_err());
        assert_eq!(quoted("a\"\\").unwrap(), "\"a\\\"\\\\\"");
    }
}
