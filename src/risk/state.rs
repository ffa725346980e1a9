//! What the shell itself keeps between commands: variables, arguments, directory, aliases, written files.

use super::command::{Arg, COMPUTED, Channel, Command};
use super::expand::Value;
use super::flatten::{MAX_ARGUMENTS, Walk};
use super::output;
use super::syntax::Assignment;
use crate::text::Span;

/// The most variables that are kept in mind.
const MAX_VARIABLES: usize = 500;
/// The most places of a list that are set one by one.
const MAX_ITEMS: usize = 256;

impl Walk<'_> {
    /// Notes that a variable is used, for where its value comes from.
    pub(super) fn uses(&mut self, name: &str) {
        if let Some(origin) = self.origins.get(name).filter(|_| self.used.len() < 64) {
            self.used.push(origin.clone());
        }
    }

    /// Keeps what is written to files, in case one is run later.
    pub(super) fn remember(&mut self, command: &Command, output: Option<&str>) {
        if self.written.len() >= 64 {
            return;
        }
        let Some(text) = output else { return };
        let redirected = command.files.iter().filter(|(channel, _)| *channel != Channel::Read);
        let redirected = redirected.map(|(channel, arg)| (*channel == Channel::Append, arg));
        let words = command.argv.get(1..).unwrap_or_default();
        let added = words.iter().any(|arg| matches!(arg.text.as_str(), "-a" | "--append"));
        let named = words.iter().filter(|arg| command.program() == "tee" && !arg.text.starts_with('-'));
        let paths: Vec<(bool, String)> = redirected
            .chain(named.map(|arg| (added, arg)))
            .filter_map(|(added, arg)| {
                Some((added, super::place::joined(command.cwd.as_deref(), &arg.text)?))
            })
            .collect();
        for (added, path) in paths {
            // Where the first part may not have been written, what is added still is.
            let content = self.written.entry(path).or_default();
            if !added && self.unsure == 0 {
                content.clear();
            }
            if content.len() + text.len() < 1 << 16 {
                content.push_str(text);
            } else {
                self.flat.truncated = true;
            }
        }
    }

    /// Sets variables; those before a command are set for it alone.
    pub(super) fn assign(&mut self, assignments: &[Assignment], lasting: bool) -> Vec<(String, Arg)> {
        let mut own = Vec::new();
        for assignment in assignments {
            let start = self.flat.commands.len();
            let list = assignment.list;
            let args: Vec<Arg> = if list {
                assignment.values.iter().flat_map(|word| self.expand(word)).collect()
            } else {
                assignment.values.iter().map(|word| self.expand_whole(word)).collect()
            };
            if let (false, Some(arg)) = (list, args.first()) {
                own.push((assignment.name.clone(), arg.clone()));
            }
            if lasting || list {
                let end = self.flat.commands.len();
                let earlier = self.used.last().cloned();
                if let Some(origin) = (end > start).then_some(start..end).or(earlier) {
                    self.origins.insert(assignment.name.clone(), origin);
                }
                if let Some(index) = &assignment.index {
                    let span = args.first().map_or_else(Default::default, |arg| arg.span);
                    self.evaluated(index, span);
                    self.set_at(&assignment.name, index, args);
                } else {
                    self.set(&assignment.name, args, assignment.append);
                }
            }
        }
        if lasting {
            own.retain(|(name, _)| super::unwrap::runs_text(name) || name == "PATH")
        }
        own
    }

    /// The variable that a name stands for.
    pub(super) fn referred<'n>(&'n self, name: &'n str) -> &'n str {
        let mut name = name;
        for _ in 0..8 {
            match self.references.get(name) {
                Some(other) => name = other,
                None => break,
            }
        }
        name
    }

    pub(super) fn set(&mut self, name: &str, args: Vec<Arg>, append: bool) {
        let name = &self.referred(name).to_owned();
        let known = args.iter().all(|arg| arg.known);
        let gap = args.iter().any(Arg::has_gap);
        let mut texts: Vec<String> = args.into_iter().map(|arg| arg.text).collect();
        if append && let Some(Value::Known(before)) = self.variables.get(name) {
            texts = match (before.as_slice(), texts.as_slice()) {
                ([one], [more]) => vec![format!("{one}{more}")],
                (before, more) => [before, more].concat(),
            };
        }
        let length: usize = texts.iter().map(String::len).sum();
        let value = match texts.as_slice() {
            _ if length > 1 << 15 => Value::Computed,
            [one] if gap && one.chars().all(|c| c == COMPUTED) => Value::Computed,
            [one] if !known => Value::Guess(one.clone()),
            _ if gap => Value::Computed,
            _ => Value::Known(texts),
        };
        if matches!(name.as_str(), "PS0" | "PS1" | "PS2" | "PS4")
            && let Value::Known(texts) = &value
        {
            // A prompt is expanded when it is shown, with `set -x` before every command.
            let prompt = texts.concat();
            self.expand_again(&prompt, Span::default());
        }
        if self.variables.len() < MAX_VARIABLES || self.variables.contains_key(name) {
            self.put(name, value);
        } else {
            self.flat.truncated = true;
        }
    }

    /// Sets one place of a list; a place that is not a number adds to it.
    fn set_at(&mut self, name: &str, index: &str, args: Vec<Arg>) {
        let name = &self.referred(name).to_owned();
        let (Some(arg), true) = (args.first(), args.iter().all(|arg| !arg.has_gap())) else {
            return self.put(name, Value::Computed);
        };
        let mut texts = match self.variables.get(name) {
            Some(Value::Known(texts)) => texts.clone(),
            Some(Value::Guess(text)) => vec![text.clone()],
            Some(Value::Computed) => return self.put(name, Value::Computed),
            Some(Value::Unset) | None => Vec::new(),
        };
        let at = index.trim().parse::<usize>().unwrap_or(texts.len());
        if let Some(text) = texts.get_mut(at) {
            *text = arg.text.clone();
        } else if texts.len() < MAX_ITEMS {
            texts.push(arg.text.clone());
        } else {
            return self.put(name, Value::Computed);
        }
        self.put(name, Value::Known(texts));
    }

    /// What a builtin changes for the commands after it.
    pub(super) fn builtin(&mut self, name: &str, command: &Command) {
        let arguments = command.argv.get(1..).unwrap_or_default();
        match name {
            "cd" | "pushd" => self
                .change_directory(arguments.iter().find(|arg| !arg.text.starts_with('-') || arg.text == "-")),
            "export" | "declare" | "typeset" | "local" | "readonly" | "let" => {
                let refers = matches!(name, "declare" | "typeset" | "local")
                    && arguments.iter().any(|arg| arg.text.starts_with('-') && arg.text.contains('n'));
                for arg in arguments {
                    if let Some((name, value)) = arg.text.split_once('=') {
                        if refers && self.references.len() < 100 {
                            self.references.insert(name.to_owned(), value.to_owned());
                            continue;
                        }
                        let value = arg.with_text(value);
                        self.set(name, vec![value], false);
                    }
                }
            }
            "set"
                if arguments
                    .first()
                    .is_some_and(|arg| !arg.text.starts_with(['-', '+']) || arg.text == "--") =>
            {
                let texts =
                    arguments.iter().skip_while(|arg| arg.text == "--").map(|arg| arg.text.clone()).collect();
                self.arguments(texts);
            }
            "hash" => {
                if let [option, path, name] = arguments
                    && option.text == "-p"
                {
                    self.aliases.insert(name.text.clone(), path.text.clone());
                }
            }
            "read" => self.read(command, arguments),
            "mapfile" | "readarray" => {
                if let (Some(text), Some(name)) = (&command.stdin, arguments.last()) {
                    let lines = text.lines().map(str::to_owned).collect();
                    self.put(&name.text, Value::Known(lines));
                }
            }
            "printf" if arguments.first().is_some_and(|arg| arg.text == "-v") => {
                if let (Some(name), Some(text)) =
                    (arguments.get(1), output::printf(arguments.get(2..).unwrap_or_default()))
                {
                    self.put(&name.text, Value::Guess(text));
                }
            }
            "shift" => self.shift(arguments.first()),
            "unset" if self.unsure > 0 => {}
            "unset" => arguments.iter().for_each(|arg| drop(self.variables.remove(&arg.text))),
            "alias" => {
                for arg in arguments {
                    if let Some((name, text)) = arg.text.split_once('=') {
                        self.aliases.insert(name.to_owned(), text.to_owned());
                        self.text_within(text, arg.known, command, "alias");
                    }
                }
            }
            "unalias" => arguments.iter().for_each(|arg| drop(self.aliases.remove(&arg.text))),
            _ => {}
        }
    }

    /// Sets `$1`, `$2` and so on.
    pub(super) fn arguments(&mut self, texts: Vec<String>) {
        if texts.len() > MAX_ARGUMENTS {
            self.opaque(Span::default(), "there are too many arguments to keep each");
        }
        self.forget_arguments();
        for (at, text) in texts.iter().take(MAX_ARGUMENTS).enumerate() {
            self.variables.insert((at + 1).to_string(), Value::Guess(text.clone()));
        }
        for all in ["@", "*"] {
            self.variables.insert(all.to_owned(), Value::Known(texts.clone()));
        }
    }

    fn forget_arguments(&mut self) {
        self.variables.retain(|name, _| !is_argument(name));
    }

    /// `$1`, `$2` and so on, to be given back after a call.
    pub(super) fn own_arguments(&self) -> Vec<(String, Value)> {
        let own = self.variables.iter().filter(|(name, _)| is_argument(name));
        own.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    pub(super) fn give_back(&mut self, arguments: Vec<(String, Value)>) {
        self.forget_arguments();
        self.variables.extend(arguments);
    }

    /// `shift`: the first arguments are gone. Where that may not happen, nobody knows which are which.
    fn shift(&mut self, by: Option<&Arg>) {
        let by = by.map_or(Some(1), |arg| arg.text.parse::<usize>().ok());
        match (self.variables.get("@").cloned(), by) {
            (Some(Value::Known(texts)), Some(by)) => {
                let left = texts.get(by..).map(<[String]>::to_vec).unwrap_or_default();
                if self.unsure > 0 {
                    // In a loop each of them may be the first.
                    for text in left.iter().take(8) {
                        self.beside("1", Value::Guess(text.clone()));
                    }
                }
                self.arguments(left);
            }
            _ => self.forget_arguments(),
        }
    }

    /// `read`: the words of a line, the last name taking the rest.
    pub(super) fn read(&mut self, command: &Command, arguments: &[Arg]) {
        let names = read_names(arguments);
        let own =
            command.variables.iter().find(|(name, _)| name == "IFS").map(|(_, value)| value.text.clone());
        let separators = own.filter(|text| !text.is_empty()).unwrap_or_else(|| " \t".to_owned());
        let text = command.stdin.as_deref();
        let line = text.map(|text| text.lines().next().unwrap_or_default().to_owned());
        // In a loop every line comes in turn.
        if let (Some(text), Some(name)) = (text, names.first()) {
            for line in text.lines().skip(1).take(8) {
                let first = line.split(|c| separators.contains(c)).next().unwrap_or_default();
                let value = if names.len() == 1 { line } else { first };
                self.beside(&name.text, Value::Guess(value.to_owned()));
            }
            if text.lines().nth(9).is_some() {
                self.opaque(command.span, "it reads too many lines to try each");
            }
        }
        let mut rest = line.as_deref();
        for (at, name) in names.iter().enumerate() {
            let last = at + 1 == names.len();
            let value = match rest {
                None => Value::Computed,
                Some(text) if last => Value::Guess(text.to_owned()),
                Some(text) => {
                    let (word, after) = text.split_once(|c| separators.contains(c)).unwrap_or((text, ""));
                    rest = Some(after);
                    Value::Guess(word.to_owned())
                }
            };
            let others = self.others.remove(&name.text).unwrap_or_default();
            self.put(&name.text, value);
            others.into_iter().for_each(|other| self.beside(&name.text, other));
            self.origins.insert(name.text.clone(), command.upstream.clone());
        }
    }

    pub(super) fn change_directory(&mut self, to: Option<&Arg>) {
        self.cwd = match to {
            None => Some(self.scene.home.clone()),
            Some(arg) if arg.has_gap() || arg.text == "-" || arg.glob => None,
            Some(arg) => super::place::joined(self.cwd.as_deref(), &arg.text),
        };
    }
}

/// `1`, `2` and so on, and all of them.
fn is_argument(name: &str) -> bool {
    matches!(name, "@" | "*") || (name != "0" && name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The names that `read` is given, without its options and their values.
fn read_names(arguments: &[Arg]) -> Vec<&Arg> {
    let mut names = Vec::new();
    let mut rest = arguments.iter();
    while let Some(arg) = rest.next() {
        match arg.text.strip_prefix('-') {
            Some(letters) => {
                if letters.ends_with(['p', 'd', 't', 'n', 'N', 'u', 'i']) {
                    rest.next();
                }
            }
            None => names.push(arg),
        }
    }
    names
}
