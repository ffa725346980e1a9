//! Whether a command is what a rule looks for.
//!
//! Options that make a command dangerous are also found abbreviated and in clusters; options that make it
//! harmless only as they are written. When in doubt, it is found.

use super::command::{Arg, COMPUTED, Channel, Command, Mark, UNSET, base_name};
use super::rule::Condition;
use super::{Scene, inline, output, place, query};
use crate::capability::matches_segment;

/// Everything a rule may ask about one command, with what is costly worked out once.
pub(super) struct Subject<'a> {
    pub(super) command: &'a Command,
    /// The name that is tried; a pattern may stand for several.
    pub(super) program: &'a str,
    /// All commands, for what feeds this one.
    pub(super) all: &'a [Command],
    pub(super) scene: &'a Scene,
    /// The text that was asked about.
    pub(super) line: &'a str,
    pub(super) statements: &'a [Vec<String>],
}

/// Programs that read queries.
const CLIENTS: &[&str] = &[
    "psql",
    "pgcli",
    "mysql",
    "mariadb",
    "mycli",
    "sqlite3",
    "sqlite",
    "litecli",
    "clickhouse-client",
    "clickhouse",
    "cqlsh",
    "sqlcmd",
    "sqlplus",
    "duckdb",
    "cockroach",
    "bq",
    "snowsql",
    "snow",
    "spark-sql",
    "hive",
    "beeline",
    "trino",
    "presto",
    "usql",
    "isql",
    "tsql",
    "db2",
    "vsql",
    "wrangler",
    "turso",
    "pscale",
    "supabase",
    "neonctl",
    "influx",
    "impala-shell",
    "dolt",
    "ysqlsh",
];

/// The statements a command would have a database run.
pub(super) fn statements(command: &Command) -> Vec<Vec<String>> {
    let bare = command.argv.first().is_some_and(|arg| {
        matches!(arg.text.to_ascii_uppercase().as_str(), "DROP" | "TRUNCATE" | "DELETE" | "UPDATE" | "ALTER")
    });
    let words = || command.argv.iter().map(|arg| arg.text.as_str());
    if bare && command.argv.len() > 2 {
        return query::statements(&words().collect::<Vec<_>>().join(" "));
    }
    if !CLIENTS.contains(&command.program()) {
        return Vec::new();
    }
    let mut statements: Vec<Vec<String>> = words()
        .skip(1)
        .map(|word| {
            word.split_once('=').filter(|(name, _)| name.starts_with('-')).map_or(word, |(_, value)| value)
        })
        .map(|word| {
            if word.starts_with('-') {
                word.trim_start_matches('-').get(1..).unwrap_or_default()
            } else {
                word
            }
        })
        .flat_map(query::statements)
        .collect();
    statements.extend(command.stdin.as_deref().map(query::statements).unwrap_or_default());
    statements
}

impl Subject<'_> {
    /// Whether a condition holds.
    pub(super) fn fits(&self, condition: &Condition) -> bool {
        let command = self.command;
        let programs = &condition.program;
        if !programs.is_empty() && !programs.iter().any(|name| matches_segment(name, self.program.as_bytes()))
        {
            return false;
        }
        let rest = if condition.sub.is_empty() {
            command.argv.get(1..).unwrap_or_default()
        } else {
            match condition.sub.iter().find_map(|sub| self.after_sub(sub)) {
                Some(rest) => rest,
                None => return false,
            }
        };
        self.options_fit(condition, rest)
            && self.operands_fit(condition, rest)
            && self.files_fit(condition)
            && self.feeds_fit(condition)
            && self.texts_fit(condition)
    }

    /// The words after subcommands. A word after an option that is not known may be its value.
    fn after_sub(&self, sub: &str) -> Option<&[Arg]> {
        let words = self.command.argv.get(1..).unwrap_or_default();
        let mut wanted = sub.split(' ');
        let mut next = wanted.next()?;
        let mut may_be_value = false;
        for (at, arg) in words.iter().enumerate() {
            let text = arg.text.as_str();
            let fits = next.split('|').any(|name| {
                name == text
                    || (name.contains('*') && matches_segment(name, text.as_bytes()))
                    || (arg.glob && place::glob_fits(text, name))
            });
            if fits && !(may_be_value && takes_value(self.program, words.get(at.wrapping_sub(1)))) {
                match wanted.next() {
                    None => return words.get(at + 1..),
                    Some(name) => next = name,
                }
                may_be_value = false;
            } else if text.starts_with('+') && text.len() > 1 {
                // cargo's toolchains, and the like.
            } else if text.starts_with('-') && text.len() > 1 {
                may_be_value = !text.contains('=') && !text.starts_with("--no-");
            } else if may_be_value {
                may_be_value = false;
            } else {
                return None;
            }
        }
        None
    }

    fn options_fit(&self, condition: &Condition, rest: &[Arg]) -> bool {
        let found = |flags: &String| flags.split('|').any(|flag| has_flag(rest, flag, true));
        (condition.any.is_empty() || condition.any.iter().any(found))
            && condition.all.iter().all(found)
            && !condition.none.iter().any(|flag| has_flag(rest, flag, false))
    }

    fn operands_fit(&self, condition: &Condition, rest: &[Arg]) -> bool {
        let like = |arg: &Arg, patterns: &[String]| patterns.iter().any(|pattern| self.like(arg, pattern));
        let operands = |rest| operands(self.program, rest);
        if condition.bare && operands(rest).next().is_some() {
            return false;
        }
        (condition.arg.is_empty() || operands(rest).any(|arg| like(arg, &condition.arg)))
            && (condition.last.is_empty()
                || operands(rest).last().is_some_and(|arg| like(arg, &condition.last)))
            && (condition.no_arg.is_empty() || !operands(rest).any(|arg| like(arg, &condition.no_arg)))
            && (condition.word.is_empty() || rest.iter().any(|arg| like(arg, &condition.word)))
    }

    fn files_fit(&self, condition: &Condition) -> bool {
        let any = |patterns: &[String], wanted: &[Channel]| {
            patterns.is_empty()
                || self.command.files.iter().any(|(channel, arg)| {
                    wanted.contains(channel) && patterns.iter().any(|pattern| self.like(arg, pattern))
                })
        };
        any(&condition.write, &[Channel::Write])
            && any(&condition.file, &[Channel::Write, Channel::Append])
            && any(&condition.read, &[Channel::Read])
    }

    fn feeds_fit(&self, condition: &Condition) -> bool {
        let command = self.command;
        if condition.fork_bomb && command.mark != Some(Mark::ForkBomb) {
            return false;
        }
        let prints = |range: std::ops::Range<usize>, names: &[String]| self.comes_from(range, names, 3);
        if !condition.after.is_empty() && !prints(command.upstream.clone(), &condition.after) {
            return false;
        }
        if !condition.via.is_empty() && !command.via.iter().any(|by| condition.via.contains(by)) {
            return false;
        }
        if condition.secret && !self.is_fed_secrets() {
            return false;
        }
        if condition.input.is_empty() {
            return true;
        }
        let names = &condition.input;
        // A file that was fetched earlier stands before both.
        let fetched = command.upstream.is_empty() && command.inner.is_empty();
        if condition.fetched && !fetched {
            return false;
        }
        let earlier = if fetched { 0..self.all.len() } else { 0..0 };
        command.mark == Some(Mark::RunsInput)
            && (prints(command.upstream.clone(), names)
                || command.inner.iter().any(|range| prints(range.clone(), names))
                || prints(earlier, names))
    }

    /// Whether one of these programs is among some commands, or among those whose output they were given.
    fn comes_from(&self, range: std::ops::Range<usize>, names: &[String], depth: usize) -> bool {
        self.all.get(range).unwrap_or_default().iter().any(|source| {
            names.iter().any(|name| matches_segment(name, source.program().as_bytes()))
                || (depth > 0
                    && source.inner.iter().any(|range| self.comes_from(range.clone(), names, depth - 1)))
        })
    }

    /// Whether what it reads or is given comes from a key, a password file or the environment.
    fn is_fed_secrets(&self) -> bool {
        let command = self.command;
        let own = std::iter::once(command.upstream.clone()).chain(command.inner.iter().cloned());
        let mut sources: Vec<&Command> =
            own.flat_map(|range| self.all.get(range).unwrap_or_default()).collect();
        sources.extend(command.fed.iter().filter_map(|at| self.all.get(*at)));
        let given: Vec<&Command> = sources
            .iter()
            .flat_map(|source| source.inner.iter().cloned())
            .flat_map(|range| self.all.get(range).unwrap_or_default())
            .collect();
        // A copy of a copy: those that made them knew a secret when they were noted.
        if sources.iter().any(|source| !source.fed.is_empty()) {
            return true;
        }
        sources.extend(given);
        sources.into_iter().any(|source| {
            let secret = |arg: &Arg| place::is("secret", arg, source.cwd.as_deref(), self.scene);
            let prints = matches!(source.program(), "env" | "printenv" | "set" | "export" | "declare")
                && source.argv.len() <= 2;
            let files =
                source.files.iter().filter(|(channel, _)| *channel == Channel::Read).map(|(_, arg)| arg);
            let names =
                matches!(source.program(), "echo" | "printf" | "ls" | "test" | "[" | "stat" | "chmod");
            prints || (!names && source.argv.iter().skip(1).any(secret)) || files.into_iter().any(secret)
        })
    }

    fn texts_fit(&self, condition: &Condition) -> bool {
        let command = self.command;
        let holds =
            |text: &str, wanted: &String| text.to_ascii_lowercase().contains(&wanted.to_ascii_lowercase());
        if !condition.sql.is_empty() {
            let fits = |statement: &&Vec<String>| {
                condition.sql.iter().any(|pattern| query::starts(statement, pattern))
                    && (condition.has.is_empty()
                        || condition.has.iter().any(|pattern| query::contains(statement, pattern)))
                    && !(condition.unnarrowed && query::is_narrowed(statement))
            };
            if !self.statements.iter().any(|statement| fits(&statement)) {
                return false;
            }
        }
        if !condition.says.is_empty() && !condition.says.iter().any(|word| says(command, word)) {
            return false;
        }
        if !condition.text.is_empty() {
            let given =
                command.argv.iter().skip(1).map(|arg| arg.text.as_str()).chain(command.stdin.as_deref());
            if !given.into_iter().any(|text| condition.text.iter().any(|wanted| holds(text, wanted))) {
                return false;
            }
        }
        if !condition.code.is_empty() {
            let Some(code) = &command.code else { return false };
            let literal = |pattern: &String| {
                inline::literals(code)
                    .iter()
                    .chain(&inline::homes(code, &self.scene.home))
                    .any(|text| self.like(&Arg::new(text.as_str(), command.span), pattern))
            };
            if !condition.code.iter().any(|wanted| code.contains(wanted.as_str()))
                || !(condition.literal.is_empty() || condition.literal.iter().any(literal))
            {
                return false;
            }
        }
        (condition.variable.is_empty()
            || command.variables.iter().any(|(name, _)| condition.variable.contains(name)))
            && (condition.line.is_empty()
                || condition.line.iter().any(|pattern| line_fits(self.line, pattern)))
            && (!condition.silent || prints_nothing(command))
            && (!condition.dynamic || command.program().contains([UNSET, COMPUTED]))
    }

    /// Whether a word is like a pattern: `@kind` of place after a fixed start, or text with `*` and `?`.
    fn like(&self, arg: &Arg, pattern: &str) -> bool {
        if let Some((start, kind)) = pattern.rsplit_once('@')
            && !kind.is_empty()
            && (start.is_empty() || start.ends_with(['=', ':', ',', '+', '@']))
        {
            let named = |arg: &Arg| {
                kind.split('|').any(|kind| place::is(kind, arg, self.command.cwd.as_deref(), self.scene))
            };
            // The word itself keeps what was worked out about it for the next rule.
            if start.is_empty() {
                return named(arg);
            }
            let rest = match start {
                "*=" => arg.text.split_once('=').map(|(_, value)| value.trim_start_matches('@')),
                "*@" => arg.text.rsplit_once('@').map(|(_, value)| value),
                start => arg.text.strip_prefix(start),
            };
            let Some(rest) = rest else { return false };
            return named(&arg.with_text(rest));
        }
        matches_segment(pattern, arg.text.as_bytes())
    }
}

/// Whether a file that the shell opens for it certainly ends up empty.
fn prints_nothing(command: &Command) -> bool {
    command.mark != Some(Mark::Compound)
        && (command.argv.is_empty()
            || output::known(command).is_some_and(|text| text.is_empty())
            || copies_nothing(command))
}

fn copies_nothing(command: &Command) -> bool {
    matches!(command.program(), "cat" | "cp" | "tee")
        && command.argv.get(1).is_some_and(|arg| arg.text == "/dev/null")
}

/// Options of clients whose next word is a value.
const CLIENT_VALUES: &[&str] =
    &["-h", "-p", "-s", "-t", "-a", "-u", "-r", "-i", "-n", "-d", "-D", "-X", "--user", "--pass", "--sni"];
/// Commands after which all words are keys and values.
const ABOUT_KEYS: &[&str] = &[
    "get", "set", "setex", "setnx", "getset", "append", "del", "exists", "expire", "ttl", "type", "hset",
    "hget", "hdel", "lpush", "rpush", "sadd", "srem", "zadd", "publish", "echo",
];

/// The words that a client may take for a command.
fn said(command: &Command) -> impl Iterator<Item = &str> {
    let words = command.argv.iter().skip(1).map(|arg| arg.text.as_str());
    let values = std::iter::once("").chain(words.clone());
    words
        .zip(values)
        .filter(|(_, before)| !CLIENT_VALUES.contains(before))
        .map(|(word, _)| word)
        .take_while(|word| !ABOUT_KEYS.iter().any(|about| about.eq_ignore_ascii_case(word)))
}

/// Whether a client is told a command: as a word before any keys, at the start of a line it reads, or in a script's quotes.
fn says(command: &Command, wanted: &str) -> bool {
    let is = |word: &str| word.eq_ignore_ascii_case(wanted);
    let in_quotes = |text: &str| {
        text.split(['\'', '"'])
            .skip(1)
            .step_by(2)
            .any(|inner| is(inner.split([' ', ',']).next().unwrap_or(inner)))
    };
    let mut words = command.argv.iter().skip(1).map(|arg| arg.text.as_str());
    let mut lines = command.stdin.as_deref().unwrap_or_default().lines();
    said(command).any(is)
        || words.any(in_quotes)
        || lines.any(|line| is(line.split_whitespace().next().unwrap_or_default()) || in_quotes(line))
}

/// A pattern on a whole text, a closing `;` and blanks aside.
fn line_fits(line: &str, pattern: &str) -> bool {
    line.len() < 4096
        && line.lines().any(|line| matches_segment(pattern, line.trim().trim_end_matches(';').as_bytes()))
}

/// Words that are no options, nor the values of those few that name files without meaning them.
fn operands<'a>(program: &'a str, rest: &'a [Arg]) -> impl Iterator<Item = &'a Arg> {
    let end = rest.iter().position(|arg| arg.text == "--").unwrap_or(rest.len());
    let is_option = move |at: usize, arg: &Arg| at <= end && arg.text.starts_with('-') && arg.text.len() > 1;
    let is_key = move |at: usize| {
        let before = at.checked_sub(1).and_then(|before| rest.get(before)).map(|arg| arg.text.as_str());
        matches!(program, "ssh" | "scp" | "sftp" | "rsync" | "ssh-add")
            && matches!(before, Some("-i" | "-F" | "-o" | "-e"))
    };
    rest.iter().enumerate().filter(move |(at, arg)| !is_option(*at, arg) && !is_key(*at)).map(|(_, arg)| arg)
}

/// Options of programs with subcommands that take the next word.
fn takes_value(program: &str, option: Option<&Arg>) -> bool {
    let Some(option) = option.map(|arg| arg.text.as_str()) else { return false };
    match program {
        "git" => matches!(
            option,
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" | "--config-env"
        ),
        "kubectl" | "k" | "oc" | "helm" => matches!(
            option,
            "-n" | "--namespace"
                | "--context"
                | "--cluster"
                | "--kubeconfig"
                | "--user"
                | "-s"
                | "--server"
                | "--kube-context"
        ),
        "docker" | "podman" => matches!(
            option,
            "-H" | "--host"
                | "-c"
                | "--context"
                | "--config"
                | "-l"
                | "--log-level"
                | "-f"
                | "--file"
                | "-p"
                | "--project-name"
        ),
        "aws" => matches!(option, "--profile" | "--region" | "--output" | "--endpoint-url" | "--query"),
        "gcloud" => matches!(
            option,
            "--project" | "--account" | "--format" | "--configuration" | "--zone" | "--region"
        ),
        "npm" | "yarn" | "pnpm" => {
            matches!(option, "--prefix" | "-w" | "--workspace" | "-C" | "--dir" | "--cwd" | "--registry")
        }
        "heroku" | "fly" | "flyctl" | "vercel" | "netlify" => {
            matches!(option, "-a" | "--app" | "-r" | "--remote" | "-t" | "--token" | "-c" | "--config")
        }
        _ => false,
    }
}

/// Whether an option's value switches it off.
fn is_off(value: &str) -> bool {
    matches!(value, "false" | "none" | "no" | "0" | "off")
}

/// Whether an option is there.
///
/// `-x` is also found in clusters. `--long` is also found with a value, and when `loose` abbreviated.
/// `-long` is as Go and find write it, with one dash or two. `--long=value` needs that value.
fn has_flag(words: &[Arg], flag: &str, loose: bool) -> bool {
    if flag == "--" {
        return words.iter().any(|arg| arg.text == flag);
    }
    let end = words.iter().position(|arg| arg.text == "--").unwrap_or(words.len());
    let words = words.get(..end).unwrap_or_default();
    if let Some((name, value)) = flag.split_once('=') {
        return words.iter().enumerate().any(|(at, arg)| {
            let (given, attached) = arg
                .text
                .split_once('=')
                .map_or((arg.text.as_str(), None), |(name, value)| (name, Some(value)));
            let next = || words.get(at + 1).map(|arg| arg.text.as_str());
            let same = given == name || (!name.starts_with("--") && given.strip_prefix('-') == Some(name));
            same && attached.or_else(next).is_some_and(|given| matches_segment(value, given.as_bytes()))
        });
    }
    let bytes = flag.as_bytes();
    words.iter().any(|arg| {
        let text = arg.text.as_str();
        if arg.has_gap() && loose && text.starts_with('-') && text.contains([COMPUTED]) {
            return false;
        }
        match bytes {
            [b'-', letter] if *letter != b'-' => {
                let cluster = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
                cluster.is_some_and(|letters| {
                    letters.bytes().take_while(u8::is_ascii_alphanumeric).any(|byte| byte == *letter)
                        && (letters.len() < 12 || letters.starts_with(char::from(*letter)))
                })
            }
            [b'-', b'-', ..] => {
                let given =
                    text.split_once('=').map_or(text, |(name, value)| if is_off(value) { "" } else { name });
                given == flag
                    || (loose && given.len() > 3 && given.starts_with("--") && flag.starts_with(given))
            }
            [b'-', ..] => {
                let (given, value) = text.split_once('=').unwrap_or((text, "true"));
                !is_off(value) && (given == flag || given.strip_prefix('-') == Some(flag))
            }
            _ => base_name(text) == flag,
        }
    })
}
