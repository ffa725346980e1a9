//! Scripts and programs: shells and interpreters with text, a file or their input to run.

use super::command::{Arg, COMPUTED, Command, Mark};
use super::flatten::{Flow, Walk};
use super::inline;
use super::unwrap::option_values;

impl Walk<'_> {
    /// A shell: text after `-c`, else a script, else its input.
    pub(super) fn shell(&mut self, command: &Command, words: &[Arg], options: &[&str], at: usize) {
        let name = command.program().to_owned();
        let mut operand = None;
        let mut rest = words.iter();
        while let Some(arg) = rest.next() {
            let text = arg.text.as_str();
            let takes_text = options.contains(&text)
                || (text.starts_with('-') && !text.starts_with("--") && text.contains('c'));
            if takes_text {
                // Further options may stand between `-c` and the text.
                let Some(text) = rest.find(|arg| !arg.text.starts_with('-')) else { return };
                let arguments: Vec<Arg> = rest.cloned().collect();
                if text.text.chars().all(|c| c == COMPUTED) && !text.text.is_empty() {
                    self.mark(at, Mark::RunsInput);
                }
                return self.text_with(
                    &text.text,
                    text.known,
                    command,
                    &format!("{name} -c"),
                    Some(&arguments),
                );
            }
            match text {
                "-o" | "-O" | "+o" | "+O" | "--rcfile" | "--init-file" => drop(rest.next()),
                "-s" | "-" => break,
                _ if text.starts_with(['-', '+']) => {}
                _ => {
                    operand = Some(arg);
                    break;
                }
            }
        }
        match operand {
            Some(file) if is_input(&file.text) => self.input(command, at, &name),
            Some(_) => {
                self.opaque(command.span, "a script is run that is not part of the text");
                self.script(command, 1, at);
            }
            None => self.input(command, at, &name),
        }
    }

    /// A program that is read from the input.
    pub(super) fn input(&mut self, command: &Command, at: usize, name: &str) {
        match command.stdin.clone() {
            Some(text) => self.text_within(&text, true, command, name),
            None if !command.upstream.is_empty() || !command.inner.is_empty() => {
                self.mark(at, Mark::RunsInput);
                self.opaque(command.span, "what it is told to run shows only when it runs");
            }
            None => {}
        }
    }

    pub(super) fn interpreter(&mut self, command: &Command, words: &[Arg], options: &[&str], at: usize) {
        let given = option_values(words, options);
        if !given.is_empty() {
            for (text, known) in given {
                if text.chars().all(|c| c == COMPUTED) {
                    self.mark(at, Mark::RunsInput);
                }
                self.code(command, &text, known, at);
            }
            return;
        }
        let operand = words.iter().find(|arg| !arg.text.starts_with('-') || arg.text == "-");
        match (operand, &command.stdin) {
            (Some(file), _) if !is_input(&file.text) => {
                self.opaque(command.span, "a script is run that is not part of the text");
                match self.content(command, 1) {
                    Some(text) => self.code(command, &text, true, at),
                    None => self.script(command, 1, at),
                }
            }
            (_, Some(text)) => {
                let text = text.clone();
                self.code(command, &text, true, at);
            }
            (_, None) if !command.upstream.is_empty() || !command.inner.is_empty() => {
                self.mark(at, Mark::RunsInput);
                self.opaque(command.span, "what it is told to run shows only when it runs");
            }
            _ => {}
        }
    }

    /// A program in another language: what it hands to a shell is followed, the rest is not understood.
    pub(super) fn code(&mut self, command: &Command, text: &str, known: bool, at: usize) {
        let harmless = matches!(command.program(), "sed" | "gsed" | "awk" | "gawk" | "mawk" | "nawk");
        if !harmless || !known {
            self.opaque(command.span, "it runs a program in another language");
        }
        if let Some(noted) = self.flat.commands.get_mut(at) {
            noted.code = Some(text.to_owned());
        }
        for run in inline::runs(command.program(), text) {
            match run {
                inline::Run::Text(text) => self.text_within(&text, false, command, command.program()),
                inline::Run::Argv(words) => {
                    let argv: Vec<Arg> =
                        words.into_iter().map(|word| Arg::unsure(word, command.span)).collect();
                    let by = command.program().to_owned();
                    self.start(command, &argv, &by, &Flow { indirect: true, ..Flow::default() });
                }
            }
        }
    }

    /// What was written earlier to the file that the first operand from a word on names.
    pub(super) fn content(&self, command: &Command, from: usize) -> Option<String> {
        let script = command.argv.iter().skip(from).find(|arg| !arg.text.starts_with('-'))?;
        self.written.get(&super::place::joined(command.cwd.as_deref(), &script.text)?).cloned()
    }

    /// A script: one that was written here is followed, one that was fetched is marked.
    pub(super) fn script(&mut self, command: &Command, from: usize, at: usize) {
        if let Some(text) = self.content(command, from) {
            let by = command.program().to_owned();
            self.text_within(&text, true, command, &by);
        } else if self.downloaded(command, from) {
            self.mark(at, Mark::RunsInput);
        }
    }

    /// A makefile that is read from the input: its recipes are shell text.
    pub(super) fn makefile(&mut self, command: &Command) {
        let given = option_values(command.argv.get(1..).unwrap_or_default(), &["-f", "--file", "--makefile"]);
        if !given.iter().any(|(file, _)| is_input(file)) {
            return;
        }
        for line in command.stdin.clone().unwrap_or_default().lines().take(200) {
            let recipe = line.strip_prefix('\t').or_else(|| line.split_once(';').map(|(_, recipe)| recipe));
            if let Some(recipe) = recipe {
                self.text_within(recipe.trim_start_matches(['@', '-', '+', ' ']), true, command, "make");
            }
        }
    }

    /// Whether a word names a file that an earlier command fetched.
    pub(super) fn downloaded(&self, command: &Command, from: usize) -> bool {
        let file = |arg: &Arg| arg.text.trim_start_matches("./").to_owned();
        let Some(script) = command.argv.iter().skip(from).find(|arg| !arg.text.starts_with('-')).map(file)
        else {
            return false;
        };
        !script.is_empty()
            && self
                .flat
                .commands
                .iter()
                .any(|earlier| fetched(earlier).any(|name| name.trim_start_matches("./") == script))
    }
}

/// The files a download leaves behind.
pub(super) fn fetched(command: &Command) -> impl Iterator<Item = String> + '_ {
    let fetches = matches!(command.program(), "curl" | "wget" | "aria2c" | "http" | "xh" | "fetch");
    let words = command.argv.iter().enumerate();
    let named = words.filter_map(move |(at, arg)| {
        let next = || command.argv.get(at + 1).map(|arg| arg.text.clone());
        match arg.text.as_str() {
            "-o" | "--output" | "--output-document" => next(),
            text if text.starts_with('-')
                && !text.starts_with("--")
                && text.ends_with(['o', 'O'])
                && text.len() > 1 =>
            {
                next().map(|name| if name.contains("://") { file_of(&name) } else { name })
            }
            text if text.contains("://") => Some(file_of(text)),
            text => {
                text.strip_prefix("--output=").or(text.strip_prefix("--output-document=")).map(str::to_owned)
            }
        }
    });
    let written = command.files.iter().map(|(_, arg)| arg.text.clone());
    named.chain(written).filter(move |_| fetches)
}

pub(super) fn file_of(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    super::command::base_name(path).to_owned()
}

/// Whether a file operand is the command's own input, or what a substitution prints.
pub(super) fn is_input(path: &str) -> bool {
    path == "-" || path == "/dev/stdin" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/")
}
