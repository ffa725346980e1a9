//! What a command would start itself: `sudo x`, `sh -c 'x'`, `find -exec x`, `python -c '…'`.
//!
//! Which programs do, and how, is data (`profiles/risk/wrappers.txt`); here is what each way means.

use super::command::{Arg, COMPUTED, Command, Mark};
use super::flatten::{Flow, MAX_CALLS, Walk};
use super::options::{after_subcommands, moved, operands, option_values, other_grammar, replaced};
use super::script::is_input;
use crate::profile::{WRAPPERS, Wrapper, Wrapping};

/// Variables whose value some program runs.
pub(super) fn runs_text(name: &str) -> bool {
    matches!(
        name,
        "GIT_SSH_COMMAND"
            | "GIT_SSH"
            | "GIT_PAGER"
            | "GIT_EDITOR"
            | "GIT_SEQUENCE_EDITOR"
            | "GIT_EXTERNAL_DIFF"
            | "GIT_ASKPASS"
            | "PAGER"
            | "MANPAGER"
            | "EDITOR"
            | "VISUAL"
            | "BROWSER"
            | "LESSOPEN"
            | "LESSCLOSE"
            | "PROMPT_COMMAND"
            | "RSYNC_RSH"
            | "SSH_ASKPASS"
            | "SUDO_ASKPASS"
            | "LD_PRELOAD"
            | "LD_LIBRARY_PATH"
            | "LD_AUDIT"
            | "BASH_ENV"
            | "ENV"
            | "PERL5OPT"
            | "PYTHONSTARTUP"
            | "NODE_OPTIONS"
            | "RUBYOPT"
            | "DYLD_INSERT_LIBRARIES"
    )
}

impl Walk<'_> {
    /// Follows what a noted command would start.
    pub(super) fn unwrap(&mut self, command: &Command, flow: &Flow) {
        let at = self.flat.commands.len().saturating_sub(1);
        self.variables_of(command);
        let program = command.program().to_owned();
        if program == "git" {
            self.git_settings(command);
        }
        if matches!(program.as_str(), "source" | ".") {
            self.opaque(command.span, "a file is read as shell text");
            match (command.argv.get(1).is_some_and(|arg| is_input(&arg.text)), &command.stdin) {
                (true, Some(text)) => {
                    let text = text.clone();
                    self.text_within(&text, true, command, &program);
                }
                (true, None) => self.mark(at, Mark::RunsInput),
                (false, _) => self.script(command, 1, at),
            }
        }
        if command.argv.first().is_some_and(|arg| arg.text.contains('/')) {
            self.script(command, 0, at);
        }
        match program.as_str() {
            "env" | "genv" => self.split_string(command),
            "psql" | "mysql" | "mariadb" | "sqlite3" | "sqlite" | "usql" => self.client_escapes(command),
            "ssh" | "scp" | "sftp" => self.ssh_options(command),
            "make" | "gmake" => self.makefile(command),
            _ => {}
        }
        let Some(wrappers) = WRAPPERS.get(program.as_str()) else { return };
        if self.calls.len() >= MAX_CALLS || command.via.len() >= MAX_CALLS {
            self.opaque(command.span, "commands within commands are nested too deeply to follow");
            self.flat.truncated = true;
            return;
        }
        for wrapper in wrappers {
            if let Some(rest) = after_subcommands(command, wrapper) {
                self.follow(command, wrapper, rest, at, flow);
            }
        }
    }

    pub(super) fn mark(&mut self, at: usize, mark: Mark) {
        if let Some(command) = self.flat.commands.get_mut(at) {
            command.mark = Some(mark);
        }
    }

    fn follow(&mut self, command: &Command, wrapper: &Wrapper, rest: usize, at: usize, flow: &Flow) {
        let words = command.argv.get(rest..).unwrap_or_default();
        let name = command.program().to_owned();
        match wrapper.wrapping {
            // `command -v` only asks.
            Wrapping::Prefix
                if name == "command"
                    && words
                        .first()
                        .is_some_and(|arg| arg.text.starts_with(['-']) && arg.text.contains(['v', 'V'])) => {}
            Wrapping::Prefix => {
                let inner = operands(words, wrapper, &name);
                if name.ends_with("xargs") {
                    let inner = replaced(words, inner, command.stdin.as_deref());
                    return self.start(command, &inner, &name, flow);
                }
                match moved(&name, words) {
                    Some(to) => {
                        let cwd = super::place::joined(command.cwd.as_deref(), &to);
                        self.start(&Command { cwd, ..command.clone() }, inner, &name, flow);
                    }
                    None => self.start(command, inner, &name, flow),
                }
            }
            Wrapping::Text => {
                let inner = operands(words, wrapper, &name);
                if name == "eval" && inner.iter().any(|arg| arg.text == COMPUTED.to_string()) {
                    self.mark(at, Mark::RunsInput);
                }
                self.joined(command, inner, &name);
            }
            Wrapping::Option if name == "trap" => {
                if let Some(text) = words.iter().find(|arg| !arg.text.starts_with('-')) {
                    self.text_within(&text.text, text.known, command, "trap");
                }
            }
            Wrapping::Option => {
                for (text, known) in option_values(words, &wrapper.options) {
                    self.option_text(&name, &text, known, command);
                }
            }
            Wrapping::Shell => self.shell(command, words, &wrapper.options, at),
            Wrapping::Code => self.interpreter(command, words, &wrapper.options, at),
            Wrapping::First => {
                let files = option_values(words, &["-f", "--file"]);
                if !files.is_empty() {
                    return self.program_files(command, &files, at);
                }
                let code: Vec<(String, bool)> = match option_values(words, &["-e", "--expression"]) {
                    given if given.is_empty() || !matches!(name.as_str(), "sed" | "gsed") => {
                        operands(words, wrapper, &name)
                            .first()
                            .map(|arg| (arg.text.clone(), arg.known))
                            .into_iter()
                            .collect()
                    }
                    given => given,
                };
                for (text, known) in code {
                    self.code(command, &text, known, at);
                }
            }
            Wrapping::Until => self.until(command, words, &wrapper.options, &name, flow),
            Wrapping::Input => match command.stdin.clone() {
                Some(text) => self.text_within(&text, true, command, &name),
                None => self.opaque(command.span, "what it reads is run later"),
            },
        }
    }

    /// Notes a command that another starts.
    pub(super) fn start(&mut self, command: &Command, argv: &[Arg], by: &str, flow: &Flow) {
        if argv.is_empty() {
            return;
        }
        let mut argv = argv.to_vec();
        // xargs and find hand over names that nobody knows yet.
        if matches!(by, "xargs" | "gxargs" | "entr" | "find" | "gfind" | "fd" | "fdfind") {
            self.opaque(command.span, "it is handed words that show only when it runs");
            match command.stdin.as_deref().filter(|_| by.ends_with("xargs")) {
                Some(text) => {
                    argv.extend(text.split_whitespace().take(64).map(|word| Arg::unsure(word, command.span)))
                }
                None if by.ends_with("xargs") => argv.push(Arg::unsure(COMPUTED, command.span)),
                None => {}
            }
        }
        let mut via = command.via.clone();
        via.push(by.to_owned());
        // Without the outer command's own words, of which there may be many and many inner commands among them.
        let inner = Command {
            argv,
            via,
            stdin: command.stdin.clone(),
            upstream: command.upstream.clone(),
            inner: command.inner.clone(),
            fed: command.fed.clone(),
            cwd: command.cwd.clone(),
            span: command.span,
            direct: command.direct,
            ..Command::default()
        };
        self.calls.push(by.to_owned());
        self.note(inner, flow);
        self.calls.pop();
    }

    fn joined(&mut self, command: &Command, words: &[Arg], by: &str) {
        let reads = matches!(by, "parallel" | "rush");
        if words.is_empty() {
            let at = self.flat.commands.len().saturating_sub(1);
            if by == "ssh" || reads {
                self.input(command, at, by);
            }
            return;
        }
        let mut texts: Vec<&str> = words.iter().map(|arg| arg.text.as_str()).collect();
        let mut known = words.iter().all(|arg| arg.known);
        if reads {
            // What it reads, or what follows `:::`, is put at the end or where the braces are.
            known = false;
            let unknown = COMPUTED.to_string();
            let given = command.stdin.clone().filter(|_| !texts.iter().any(|text| text.starts_with(":::")));
            let text = texts.join(" ");
            match given {
                Some(given) => {
                    for line in given.lines().take(16) {
                        let whole = if text.contains("{}") {
                            text.replace("{}", line)
                        } else {
                            format!("{text} {line}")
                        };
                        self.text_within(&whole, known, command, by);
                    }
                    return;
                }
                None => texts.push(&unknown),
            }
            return self.text_within(&texts.join(" "), known, command, by);
        }
        if other_grammar(by) {
            return self.text_guessed(&texts.join(" "), command, by);
        }
        self.text_within(&texts.join(" "), known, command, by);
    }

    /// Programs in files: those that were written here are looked at.
    fn program_files(&mut self, command: &Command, files: &[(String, bool)], at: usize) {
        for (file, _) in files {
            let path = super::place::joined(command.cwd.as_deref(), file);
            let text = match path.and_then(|path| self.written.get(&path).cloned()) {
                None if is_input(file) => command.stdin.clone(),
                written => written,
            };
            match text {
                Some(text) => self.code(command, &text, true, at),
                None => self.opaque(command.span, "it runs a program that is not part of the text"),
            }
        }
    }

    /// Clients of databases that hand a line to the shell: `\\!`, `.shell`, `system`.
    fn client_escapes(&mut self, command: &Command) {
        let given = command.argv.iter().skip(1).map(|arg| arg.text.clone()).chain(command.stdin.clone());
        let lines: Vec<String> =
            given.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        for line in lines.iter().take(200) {
            let escaped = line.split_once("\\!").map(|(_, text)| text);
            let start = line.trim_start().trim_start_matches("-cmd=");
            let named = [".shell ", ".system ", "system "].iter().find_map(|word| start.strip_prefix(word));
            let piped = line
                .split_once("PROGRAM '")
                .and_then(|(_, text)| text.split_once('\''))
                .map(|(text, _)| text);
            for text in [escaped, named, piped].into_iter().flatten() {
                self.text_within(text, true, command, command.program());
            }
        }
    }

    fn option_text(&mut self, name: &str, text: &str, known: bool, command: &Command) {
        let text = match name {
            // Editors and debuggers run what follows a mark.
            "vi" | "vim" | "nvim" | "view" | "ex" | "gvim" => {
                match text.trim_start_matches([':', ' ', '+']).strip_prefix('!') {
                    Some(text) => text,
                    None => match text.split_once("system(") {
                        Some((_, call)) => {
                            call.trim_start_matches(['\'', '"']).trim_end_matches([')', '\'', '"'])
                        }
                        None => return,
                    },
                }
            }
            "gdb" | "lldb" => {
                match text.trim_start_matches('!').strip_prefix("shell ").or(text.strip_prefix('!')) {
                    Some(text) => text,
                    None => return,
                }
            }
            "tar" | "bsdtar" | "gtar" => text.strip_prefix("exec=").unwrap_or(text),
            name if other_grammar(name) => return self.text_guessed(text, command, name),
            "emacs" => return self.code(command, text, known, self.flat.commands.len().saturating_sub(1)),
            _ => text,
        };
        self.text_within(text, known, command, name);
    }

    /// Commands after each of the words that introduce one.
    fn until(&mut self, command: &Command, words: &[Arg], marks: &[&str], by: &str, flow: &Flow) {
        let mut rest = words;
        while let Some(at) = rest.iter().position(|arg| marks.contains(&arg.text.as_str())) {
            let after = rest.get(at + 1..).unwrap_or_default();
            let ends = |arg: &Arg| matches!(arg.text.as_str(), ";" | "+") && marks.contains(&"-exec");
            let length = after.iter().position(ends).unwrap_or(after.len());
            let (inner, next) = after.split_at(length);
            let mut inner = inner.to_vec();
            // `{}` is what was found: where the search starts, for all that is known.
            let found = words.first().filter(|arg| by.contains("find") && !arg.text.starts_with('-'));
            if let Some(found) = found {
                for arg in inner.iter_mut().filter(|arg| arg.text == "{}") {
                    *arg = Arg::unsure(format!("{}/{COMPUTED}", found.text.trim_end_matches('/')), arg.span);
                }
            }
            self.start(command, &inner, by, flow);
            rest = next;
        }
    }

    fn variables_of(&mut self, command: &Command) {
        for (name, value) in &command.variables {
            if runs_text(name)
                && !matches!(
                    name.as_str(),
                    "LD_PRELOAD"
                        | "LD_LIBRARY_PATH"
                        | "LD_AUDIT"
                        | "NODE_OPTIONS"
                        | "PERL5OPT"
                        | "RUBYOPT"
                        | "DYLD_INSERT_LIBRARIES"
                )
            {
                self.text_within(&value.text, value.known, command, name);
            }
        }
    }

    /// `env -S`, also at the end of a cluster.
    fn split_string(&mut self, command: &Command) {
        let clustered = |arg: &&Arg| {
            arg.text.starts_with('-')
                && !arg.text.starts_with("--")
                && arg.text.len() > 2
                && arg.text[1..].contains('S')
                && !arg.text.starts_with("-S")
        };
        if let Some(arg) = command.argv.iter().skip(1).find(clustered).cloned()
            && let Some((_, text)) = arg.text.split_once('S')
        {
            self.text_within(text, arg.known, command, "env");
        }
    }

    /// `-o ProxyCommand=…` and its like.
    fn ssh_options(&mut self, command: &Command) {
        for (option, known) in option_values(command.argv.get(1..).unwrap_or_default(), &["-o"]) {
            let (name, text) = option.split_once(['=', ' ']).unwrap_or((&option, ""));
            if matches!(
                name.to_ascii_lowercase().as_str(),
                "proxycommand" | "localcommand" | "knownhostscommand" | "remotecommand"
            ) {
                self.text_within(text, known, command, name);
            }
        }
    }
}
