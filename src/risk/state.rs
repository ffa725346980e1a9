//! What the shell itself keeps between commands: variables, arguments, directory, aliases, written files.

use super::command::{Arg, COMPUTED, Channel, Command};
use super::expand::Value;
use super::flatten::Walk;
use super::output;
use super::syntax::Assignment;

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
        let redirected =
            command.files.iter().filter(|(channel, _)| *channel != Channel::Read).map(|(_, arg)| arg);
        let named = command
            .argv
            .iter()
            .skip(1)
            .filter(|arg| command.program() == "tee" && !arg.text.starts_with('-'));
        let paths: Vec<String> = redirected
            .chain(named)
            .filter_map(|arg| super::place::joined(command.cwd.as_deref(), &arg.text))
            .collect();
        for path in paths {
            self.written.insert(path, text.to_owned());
        }
    }

    /// Sets variables; those before a command are set for it alone.
    pub(super) fn assign(&mut self, assignments: &[Assignment], lasting: bool) -> Vec<(String, Arg)> {
        let mut own = Vec::new();
        for assignment in assignments {
            let start = self.flat.commands.len();
            let list = assignment.values.len() != 1;
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
                self.set(&assignment.name, args, assignment.append);
            }
        }
        if lasting {
            own.retain(|(name, _)| super::unwrap::runs_text(name))
        }
        own
    }

    pub(super) fn set(&mut self, name: &str, args: Vec<Arg>, append: bool) {
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
        if self.variables.len() < 500 {
            self.variables.insert(name.to_owned(), value);
        }
    }

    /// What a builtin changes for the commands after it.
    pub(super) fn builtin(&mut self, name: &str, command: &Command) {
        let arguments = command.argv.get(1..).unwrap_or_default();
        match name {
            "cd" | "pushd" => self
                .change_directory(arguments.iter().find(|arg| !arg.text.starts_with('-') || arg.text == "-")),
            "export" | "declare" | "typeset" | "local" | "readonly" | "let" => {
                for arg in arguments {
                    if let Some((name, value)) = arg.text.split_once('=') {
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
                    self.variables.insert(name.text.clone(), Value::Known(lines));
                }
            }
            "printf" if arguments.first().is_some_and(|arg| arg.text == "-v") => {
                if let (Some(name), Some(text)) =
                    (arguments.get(1), output::printf(arguments.get(2..).unwrap_or_default()))
                {
                    self.variables.insert(name.text.clone(), Value::Guess(text));
                }
            }
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
        for (at, text) in texts.iter().take(9).enumerate() {
            self.variables.insert((at + 1).to_string(), Value::Guess(text.clone()));
        }
        for all in ["@", "*"] {
            self.variables.insert(all.to_owned(), Value::Known(texts.clone()));
        }
    }

    /// `read`: the words of a line, the last name taking the rest.
    pub(super) fn read(&mut self, command: &Command, arguments: &[Arg]) {
        let names: Vec<&Arg> = arguments.iter().filter(|arg| !arg.text.starts_with('-')).collect();
        let own =
            command.variables.iter().find(|(name, _)| name == "IFS").map(|(_, value)| value.text.clone());
        let separators = own.filter(|text| !text.is_empty()).unwrap_or_else(|| " \t".to_owned());
        let line = command.stdin.as_deref().map(|text| text.lines().next().unwrap_or_default().to_owned());
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
            self.variables.insert(name.text.clone(), value);
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
