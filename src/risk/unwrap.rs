//! What a command would start itself: `sudo x`, `sh -c 'x'`, `find -exec x`, `python -c '…'`.
//!
//! Which programs do, and how, is data (`profiles/risk/wrappers.txt`); here is what each way means.

use super::command::{Arg, COMPUTED, Command, Mark};
use super::flatten::{Flow, MAX_CALLS, Walk};
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

/// Settings of git whose value a shell runs.
fn runs_setting(key: &str, value: &str) -> bool {
    let key = key.to_ascii_lowercase();
    value.starts_with('!')
        || matches!(
            key.as_str(),
            "core.sshcommand"
                | "core.pager"
                | "core.editor"
                | "core.fsmonitor"
                | "core.askpass"
                | "core.gitproxy"
                | "diff.external"
                | "sequence.editor"
                | "credential.helper"
                | "gpg.program"
                | "uploadpack.packobjectshook"
        )
        || (key.starts_with("pager.")
            || key.ends_with(".textconv")
            || key.ends_with(".cmd")
            || key.ends_with(".clean")
            || key.ends_with(".smudge"))
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

    /// `git -c key=value` with a value that a shell runs.
    fn git_settings(&mut self, command: &Command) {
        let mut values = option_values(command.argv.get(1..).unwrap_or_default(), &["-c", "--config"]);
        values.extend(self.git_variables(command));
        let words: Vec<&str> = command.argv.iter().map(|arg| arg.text.as_str()).collect();
        if let Some(at) = words.iter().position(|word| *word == "config")
            && let Some([key, value]) = words.get(words.len().saturating_sub(2).max(at + 1)..)
        {
            values.push((format!("{key}={value}"), true));
        }
        let transports = command
            .argv
            .iter()
            .filter_map(|arg| Some((arg.text.strip_prefix("ext::")?.replace("% ", " "), arg.known)));
        for (text, known) in transports.collect::<Vec<_>>() {
            self.text_within(&text, known, command, "git ext");
        }
        for (setting, known) in values {
            if let Some((key, value)) =
                setting.split_once('=').filter(|(key, value)| runs_setting(key, value))
            {
                let by = format!("git {key}");
                self.text_within(value.trim_start_matches('!'), known, command, &by);
            }
        }
    }

    /// Settings that are handed over in variables: `GIT_CONFIG_KEY_0` with `GIT_CONFIG_VALUE_0`.
    fn git_variables(&self, command: &Command) -> Vec<(String, bool)> {
        let own = command.variables.iter().map(|(name, arg)| (name.as_str(), arg.text.clone()));
        let shell = self.variables.iter().filter_map(|(name, value)| match value {
            super::expand::Value::Known(texts) => Some((name.as_str(), texts.concat())),
            super::expand::Value::Guess(text) => Some((name.as_str(), text.clone())),
            super::expand::Value::Computed | super::expand::Value::Unset => None,
        });
        let all: Vec<(&str, String)> =
            own.chain(shell).filter(|(name, _)| name.starts_with("GIT_CONFIG_")).take(64).collect();
        let mut settings = Vec::new();
        for (name, key) in &all {
            if let Some(number) = name.strip_prefix("GIT_CONFIG_KEY_") {
                let wanted = format!("GIT_CONFIG_VALUE_{number}");
                let value = all.iter().find(|(name, _)| *name == wanted);
                settings.extend(value.map(|(_, value)| (format!("{key}={value}"), true)));
            }
            if *name == "GIT_CONFIG_PARAMETERS" {
                settings.extend(key.split('\'').map(|part| (part.to_owned(), true)));
            }
        }
        settings
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

/// The words of a command that xargs starts, with what it reads where `-I` says.
fn replaced(words: &[Arg], inner: &[Arg], stdin: Option<&str>) -> Vec<Arg> {
    let own = words.get(..words.len() - inner.len()).unwrap_or_default();
    let bare = own.iter().any(|arg| matches!(arg.text.as_str(), "-i" | "--replace"));
    let attached = option_values(own, &["-I", "--replace"]).into_iter().next().map(|(mark, _)| mark);
    let attached = attached.or_else(|| {
        own.iter()
            .find_map(|arg| arg.text.strip_prefix("-i").filter(|mark| !mark.is_empty()).map(str::to_owned))
    });
    let Some(mark) = (if bare { Some("{}".to_owned()) } else { attached }) else {
        return inner.to_vec();
    };
    let value =
        stdin.map_or_else(|| COMPUTED.to_string(), |text| text.lines().next().unwrap_or_default().to_owned());
    let fill = |arg: &Arg| match arg.text.contains(&mark) {
        true => Arg::unsure(arg.text.replace(&mark, &value), arg.span),
        false => arg.clone(),
    };
    inner.iter().map(fill).collect()
}

/// Where the words after the subcommands start; none when other subcommands stand there.
fn after_subcommands(command: &Command, wrapper: &Wrapper) -> Option<usize> {
    let mut wanted = wrapper.subcommands.iter();
    let mut next = wanted.next();
    let mut at = 1;
    let mut may_be_value = false;
    while let Some(name) = next {
        let word = command.argv.get(at)?.text.as_str();
        if word == *name {
            next = wanted.next();
            may_be_value = false;
        } else if word.starts_with('-') {
            may_be_value = !word.contains('=');
        } else if may_be_value {
            may_be_value = false;
        } else {
            return None;
        }
        at += 1;
    }
    Some(at)
}

/// The command after a wrapper's own options, assignments and operands.
fn operands<'a>(words: &'a [Arg], wrapper: &Wrapper, name: &str) -> &'a [Arg] {
    let assigns = matches!(name, "env" | "genv" | "sudo" | "doas");
    let mut at = 0;
    while let Some(arg) = words.get(at) {
        let text = arg.text.as_str();
        if text == "--" {
            at += 1;
            break;
        }
        if text.starts_with('-') && text.len() > 1
            || text.starts_with('/') && text.len() == 2 && name.starts_with("cmd")
        {
            at += if takes_next(wrapper, text) && !name.starts_with("cmd") { 2 } else { 1 };
        } else if assigns && is_assignment(text) {
            at += 1;
        } else {
            break;
        }
    }
    let mut at = at + wrapper.skip;
    // ssh takes options after the host as well.
    if wrapper.skip > 0 && matches!(name, "ssh" | "autossh" | "slogin") {
        while let Some(arg) = words.get(at).filter(|arg| arg.text.starts_with('-')) {
            at += if takes_next(wrapper, &arg.text) { 2 } else { 1 };
        }
    }
    words.get(at..).unwrap_or_default()
}

/// Whether an option takes the next word: by itself, or as the last letter of a cluster. The first letter of a
/// cluster that takes a value has the rest of it for one.
fn takes_next(wrapper: &Wrapper, text: &str) -> bool {
    if wrapper.options.contains(&text) {
        return true;
    }
    let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.starts_with('-')) else {
        return false;
    };
    let takes = |letter: char| {
        wrapper
            .options
            .iter()
            .any(|option| option.strip_prefix('-').is_some_and(|own| own.chars().eq([letter])))
    };
    letters
        .char_indices()
        .find(|(_, letter)| takes(*letter))
        .is_some_and(|(at, letter)| at + letter.len_utf8() == letters.len())
}

/// Where a wrapper's own option says that the command runs.
fn moved(name: &str, words: &[Arg]) -> Option<String> {
    let options: &[&str] = match name {
        "env" | "genv" => &["-C", "--chdir"],
        "sudo" => &["-D", "--chdir"],
        "systemd-run" => &["--working-directory"],
        "uv" => &["--directory"],
        _ => return None,
    };
    option_values(words, options).into_iter().next().map(|(to, _)| to)
}

/// Shells whose language is another one.
pub(super) fn other_grammar(name: &str) -> bool {
    matches!(
        name,
        "pwsh" | "powershell" | "cmd" | "cmd.exe" | "fish" | "csh" | "tcsh" | "elvish" | "nu" | "xonsh"
    )
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// The values of options: `-c text`, `-ctext`, `--eval=text`, and for prefixes `--checkpoint-action=exec=text`.
pub(super) fn option_values(words: &[Arg], options: &[&str]) -> Vec<(String, bool)> {
    let mut values = Vec::new();
    let mut at = 0;
    while let Some(arg) = words.get(at) {
        at += 1;
        let text = arg.text.as_str();
        if text == "--" {
            break;
        }
        let attached = options.iter().find_map(|option| {
            let rest = text.strip_prefix(option)?;
            match (rest, option.ends_with('=') || *option == "+") {
                ("", true) => None,
                (rest, true) => Some(rest),
                (rest, false) if option.starts_with("--") => rest.strip_prefix('='),
                (rest, false) if option.len() == 2 && !rest.is_empty() && !text.starts_with("--") => {
                    Some(rest.trim_start_matches('='))
                }
                _ => None,
            }
        });
        // A cluster such as `-Bc` ends in an option that takes the next word.
        let clustered = options.iter().any(|option| {
            option.len() == 2
                && text.len() > 2
                && text.starts_with('-')
                && !text.starts_with("--")
                && text.ends_with(&option[1..])
                && text[1..].bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        if (options.contains(&text) && !text.ends_with('=') && text != "+") || clustered {
            if let Some(value) = words.get(at) {
                values.push((value.text.clone(), value.known));
                at += 1;
            }
        } else if let Some(value) = attached {
            values.push((value.to_owned(), arg.known));
        }
    }
    values
}
