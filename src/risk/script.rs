//! Scripts and programs: shells and interpreters with text, a file or their input to run.

use super::command::{Arg, COMPUTED, Channel, Command, Mark, base_name};
use super::flatten::{Flow, Walk};
use super::inline;
use super::options::{option_values, other_grammar};

impl Walk<'_> {
    /// A shell: text after `-c`, else a script, else its input.
    pub(super) fn shell(&mut self, command: &Command, words: &[Arg], options: &[&str], at: usize) {
        let name = command.program().to_owned();
        let mut operand = None;
        let mut rest = words.iter();
        while let Some(arg) = rest.next() {
            let text = arg.text.as_str();
            if let Some(text) = options.iter().find_map(|option| {
                text.strip_prefix(option).filter(|_| option.starts_with("--"))?.strip_prefix('=')
            }) {
                self.shell_text(command, text, arg.known, &name, &[]);
                continue;
            }
            let takes_text = options.contains(&text)
                || (text.starts_with('-') && !text.starts_with("--") && text.contains('c'));
            if takes_text {
                // Further options may stand between `-c` and the text.
                let Some(text) = rest.find(|arg| !arg.text.starts_with('-')) else { return };
                let arguments: Vec<Arg> = rest.cloned().collect();
                if text.text.chars().all(|c| c == COMPUTED) && !text.text.is_empty() {
                    self.mark(at, Mark::RunsInput);
                }
                return self.shell_text(command, &text.text, text.known, &name, &arguments);
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

    /// What a shell is told to run.
    fn shell_text(&mut self, command: &Command, text: &str, known: bool, name: &str, arguments: &[Arg]) {
        if other_grammar(name) {
            return self.text_guessed(text, command, name);
        }
        self.text_with(text, known, command, &format!("{name} -c"), Some(arguments));
    }

    /// A program that is read from the input.
    pub(super) fn input(&mut self, command: &Command, at: usize, name: &str) {
        let file =
            command.files.iter().rev().find(|(channel, _)| *channel == Channel::Read).map(|(_, arg)| arg);
        if let Some(file) = file.filter(|_| command.stdin.is_none()) {
            self.opaque(command.span, "a script is run that is not part of the text");
            let path = super::place::joined(command.cwd.as_deref(), &file.text);
            if let Some(text) = path.and_then(|path| self.written.get(&path).cloned()) {
                return self.text_within(&text, true, command, name);
            }
            if self.was_fetched(command.cwd.as_deref(), file) {
                self.mark(at, Mark::RunsInput);
            }
            return;
        }
        match command.stdin.clone() {
            Some(text) => {
                if other_grammar(name) {
                    return self.text_guessed(&text, command, name);
                }
                self.text_within(&text, true, command, name);
                // In dash `echo` reads escapes without being told to.
                if text.contains('\\') && !command.upstream.is_empty() {
                    self.text_guessed(&super::output::unescaped(&text), command, name);
                }
            }
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
                inline::Run::Text(text) => self.text_guessed(&text, command, command.program()),
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
            if is_shell_script(&text) {
                self.text_within(&text, true, command, &by);
            } else {
                self.opaque(command.span, "it runs a program in another language");
                self.text_guessed(&text, command, &by);
            }
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
                self.text_guessed(recipe.trim_start_matches(['@', '-', '+', ' ']), command, "make");
            }
        }
    }

    /// Whether a word names a file that an earlier command fetched.
    pub(super) fn downloaded(&self, command: &Command, from: usize) -> bool {
        let script = command.argv.iter().skip(from).find(|arg| !arg.text.starts_with('-'));
        script.is_some_and(|script| self.was_fetched(command.cwd.as_deref(), script))
    }
}

/// The files a download leaves behind.
pub(super) fn fetched(command: &Command) -> impl Iterator<Item = String> + '_ {
    let fetches = matches!(command.program(), "curl" | "wget" | "aria2c" | "http" | "xh" | "fetch");
    let dirs = if fetches {
        option_values(&command.argv, &["-P", "--directory-prefix", "--output-dir", "--dir"])
    } else {
        Vec::new()
    };
    let words = command.argv.iter().enumerate().filter(move |_| fetches);
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
    named.chain(written).filter(move |_| fetches).map(move |name| match dirs.last() {
        Some((dir, _)) if !name.starts_with('/') => format!("{}/{name}", dir.trim_end_matches('/')),
        _ => name,
    })
}

pub(super) fn file_of(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    super::command::base_name(path).to_owned()
}

/// Whether a script says nothing of who runs it, or names a shell.
fn is_shell_script(text: &str) -> bool {
    let Some(line) = text.strip_prefix("#!") else { return true };
    let words =
        line.lines().next().unwrap_or_default().split_whitespace().filter(|word| !word.starts_with('-'));
    words
        .map(base_name)
        .find(|name| *name != "env")
        .is_some_and(|name| name.ends_with("sh") && !other_grammar(name))
}

/// Whether a file operand is the command's own input, or what a substitution prints.
pub(super) fn is_input(path: &str) -> bool {
    path == "-" || path == "/dev/stdin" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/")
}
