//! The words of a launcher: options that are understood, and where the server's own words begin.
//!
//! Invariant: an option that could change what is run, and is not understood, refuses the whole.

use super::ResolveError;
use std::ffi::OsString;

/// What a launcher understands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launcher {
    pub(super) name: &'static str,
    /// Options that do not change what is run.
    pub(super) idle: &'static [&'static str],
    /// Options with a value, in the next word or after `=`.
    pub(super) valued: &'static [&'static str],
}

/// A launcher's words, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Options with their values, in order.
    pub(super) options: Vec<(&'static str, String)>,
    /// The first word that is no option.
    pub(super) first: Option<String>,
    /// All that follows it.
    pub(super) args: Vec<OsString>,
}

impl Launcher {
    pub(super) fn read(&self, args: &[OsString]) -> Result<Words, ResolveError> {
        let mut read = Words::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let text = word.to_str().unwrap_or_default();
            let (name, joined) = match text.split_once('=').filter(|_| text.starts_with("--")) {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            if text == "--" || self.idle.contains(&text) {
                continue;
            }
            if let Some(option) = self.valued.iter().find(|option| **option == name) {
                let next = || words.next().and_then(|word| word.to_str());
                let value = joined.or_else(next).ok_or(ResolveError::NoPackage(self.name))?;
                read.options.push((option, value.to_owned()));
            } else if text.starts_with('-') || text.is_empty() {
                let option = word.to_string_lossy().into_owned();
                return Err(ResolveError::Option { launcher: self.name, option });
            } else {
                read.first = Some(text.to_owned());
                read.args = words.cloned().collect();
                break;
            }
        }
        Ok(read)
    }
}
