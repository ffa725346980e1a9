//! What earlier commands left in files: things that were fetched, and copies of keys.
//!
//! Answers for which file came from where. It leaves what that means to the rules.
//! Invariant: only names in the text count; no file is looked at.

use super::command::{Arg, Channel, Command, base_name};
use super::flatten::Walk;
use super::options::option_values;
use super::place;
use super::script::fetched;
use std::collections::{HashMap, HashSet};

/// The most files of either kind that are kept in mind.
const MAX_FILES: usize = 1000;
/// The most words of a command that are compared with them.
const MAX_WORDS: usize = 256;

/// Files by how they came about.
#[derive(Debug, Default)]
pub(super) struct Trail {
    fetched: HashSet<String>,
    /// Copies of secrets, with the number of the command that made them.
    copies: HashMap<String, usize>,
}

impl Walk<'_> {
    /// The commands that made the copies of secrets which a command reads or names.
    pub(super) fn fed(&self, command: &Command) -> Vec<usize> {
        if self.trail.copies.is_empty() {
            return Vec::new();
        }
        let files = command.files.iter().filter(|(channel, _)| *channel == Channel::Read).map(|(_, arg)| arg);
        let named = |arg: &Arg| {
            let text = arg.text.as_str();
            let parts = [
                Some(text),
                text.rsplit_once('@').map(|part| part.1),
                text.split_once('=').map(|part| part.1),
            ];
            parts.into_iter().flatten().find_map(|name| {
                self.trail.copies.get(&place::joined(command.cwd.as_deref(), name)?).copied()
            })
        };
        command.argv.iter().skip(1).take(MAX_WORDS).chain(files).filter_map(named).take(8).collect()
    }

    /// Keeps in mind what a command, noted under a number, leaves behind.
    pub(super) fn leaves(&mut self, command: &Command, at: usize) {
        if self.trail.fetched.len() < MAX_FILES {
            for name in fetched(command).take(MAX_WORDS).collect::<Vec<_>>() {
                self.trail.fetched.extend(place::joined(command.cwd.as_deref(), &name));
            }
        }
        let targets = targets(command);
        if targets.is_empty() {
            return;
        }
        let cwd = command.cwd.as_deref();
        let moves = matches!(command.program(), "cp" | "mv" | "install" | "ln");
        let comes_fetched =
            moves && command.argv.iter().skip(1).take(MAX_WORDS).any(|arg| self.was_fetched(cwd, arg));
        let secret = |arg: &Arg| place::is("secret", arg, cwd, self.scene);
        let files = command.files.iter().filter(|(channel, _)| *channel == Channel::Read).map(|(_, arg)| arg);
        let comes_secret = !command.fed.is_empty()
            || (!matches!(command.program(), "echo" | "printf" | "ls" | "stat" | "chmod" | "test")
                && command.argv.iter().skip(1).take(MAX_WORDS).chain(files).any(secret));
        for path in targets.iter().filter_map(|name| place::joined(cwd, name)) {
            if comes_fetched && self.trail.fetched.len() < MAX_FILES {
                self.trail.fetched.insert(path.clone());
            }
            if comes_secret && self.trail.copies.len() < MAX_FILES {
                self.trail.copies.insert(path, at);
            }
        }
    }

    /// Whether a word names a file that an earlier command fetched.
    pub(super) fn was_fetched(&self, cwd: Option<&str>, arg: &Arg) -> bool {
        !self.trail.fetched.is_empty()
            && !arg.text.is_empty()
            && place::joined(cwd, &arg.text).is_some_and(|path| self.trail.fetched.contains(&path))
    }
}

/// The files a command writes what it reads to, by the words that name them.
fn targets(command: &Command) -> Vec<String> {
    let words = command.argv.get(1..).unwrap_or_default();
    let words = words.get(..MAX_WORDS).unwrap_or(words);
    let mut operands = words.iter().map(|arg| arg.text.as_str()).filter(|text| !text.starts_with('-'));
    let written = command.files.iter().filter(|(channel, _)| *channel != Channel::Read);
    let mut targets: Vec<String> = written.map(|(_, arg)| arg.text.clone()).collect();
    match command.program() {
        "cp" | "mv" | "install" | "ln" => {
            let from: Vec<&str> = operands.collect();
            if let Some((last, sources)) = from.split_last() {
                targets.push((*last).to_owned());
                targets.extend(
                    sources.iter().map(|name| format!("{}/{}", last.trim_end_matches('/'), base_name(name))),
                );
            }
        }
        "tar" | "bsdtar" | "gtar" => {
            targets.extend(option_values(words, &["-f", "--file"]).into_iter().map(|(name, _)| name));
            if operands.next().is_some_and(|letters| letters.ends_with('f')) {
                targets.extend(operands.next().map(str::to_owned));
            }
        }
        "zip" | "7z" => targets.extend(operands.find(|text| *text != "a").map(str::to_owned)),
        "gpg" | "base64" | "openssl" | "xz" | "gzip" => {
            let given = option_values(words, &["-o", "--output", "-out"]);
            targets.extend(given.into_iter().map(|(name, _)| name));
        }
        "dd" => targets.extend(operands.filter_map(|text| text.strip_prefix("of=")).map(str::to_owned)),
        "tee" => targets.extend(operands.map(str::to_owned)),
        _ => {}
    }
    targets
}
