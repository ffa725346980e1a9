//! Programs in other languages on the command line: which of their strings a shell would run.
//!
//! They are not parsed. Strings are found by their quotes, and taken for commands only where the program
//! calls something that starts processes.

/// What such a program would start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// Shell text.
    Text(String),
    /// Words of a command.
    Argv(Vec<String>),
}

/// Calls that start a process, in any of the languages.
const STARTS: &[&str] = &[
    "system",
    "popen",
    "subprocess",
    "exec",
    "spawn",
    "shell_exec",
    "passthru",
    "proc_open",
    "qx",
    "%x",
    "child_process",
    "Open3",
    "pty.",
    "Runtime",
    "do shell script",
    "shell-command",
    "fork",
    "os.exec",
    "IO.popen",
    "Kernel",
    "run(",
    "check_output",
    "check_call",
    "sh(",
    "Deno.Command",
    "Bun.$",
    "|getline",
    "| getline",
    "e ",
];
/// The most strings that are looked at.
const MAX_STRINGS: usize = 200;

/// What a program would start.
pub(super) fn runs(language: &str, code: &str) -> Vec<Run> {
    runs_within(language, code, 3)
}

fn runs_within(language: &str, code: &str, depth: usize) -> Vec<Run> {
    let mut runs = Vec::new();
    match language {
        "sed" | "gsed" => return sed(code),
        "tclsh" | "expect" | "wish" => {
            let words = ["exec ", "spawn ", "system "];
            let commands = code
                .split([';', '\n'])
                .filter_map(|line| words.iter().find_map(|word| line.trim().strip_prefix(word)));
            return commands.map(|text| Run::Text(text.to_owned())).collect();
        }
        "awk" | "gawk" | "mawk" | "nawk" if !code.contains("system") && !code.contains('|') => return runs,
        _ => {}
    }
    let piped = matches!(language, "awk" | "gawk" | "mawk" | "nawk") && code.contains('|');
    let starts = piped || STARTS.iter().any(|call| code.contains(call));
    let strings = strings(code);
    if depth > 0 && (code.contains("exec(") || code.contains("eval")) {
        // A program within the program.
        let inner =
            strings.iter().filter(|string| STARTS.iter().any(|call| string.text.contains(call))).take(8);
        inner.for_each(|string| runs.extend(runs_within(language, &string.text, depth - 1)));
    }
    let backquotes = matches!(language, "perl" | "ruby" | "php" | "irb");
    for string in strings.iter().filter(|string| string.quote == '`' && backquotes) {
        runs.push(Run::Text(string.text.clone()));
    }
    if code.contains("b64") || code.contains("base64") || code.contains("atob") || code.contains("unpack") {
        let hidden = strings.iter().filter_map(|string| decoded(&string.text));
        for hidden in hidden.take(8) {
            if depth > 0 {
                runs.extend(runs_within(language, &hidden, depth - 1));
            }
            runs.push(Run::Text(hidden));
        }
    }
    if !starts {
        return runs;
    }
    let mut at = 0;
    while let Some(first) = strings.get(at) {
        let mut group = vec![first.text.clone()];
        let mut glued = first.text.clone();
        let (mut end, mut next) = (first.end, at + 1);
        while let Some(string) = strings.get(next) {
            let between: String =
                code.get(end..string.start).unwrap_or("?").chars().filter(|c| !c.is_whitespace()).collect();
            match between.as_str() {
                "," | ",[" | ",(" => group.push(string.text.clone()),
                "+" | "." | "" => glued.push_str(&string.text),
                _ => break,
            }
            (end, next) = (string.end, next + 1);
        }
        if group.len() > 1 {
            runs.push(Run::Argv(group));
        } else {
            runs.push(Run::Text(glued));
        }
        at = next;
    }
    runs
}

/// A string of a program.
struct Literal {
    text: String,
    quote: char,
    start: usize,
    end: usize,
}

/// The texts between quotes, for rules that speak of them.
pub(super) fn literals(code: &str) -> Vec<String> {
    strings(code).into_iter().map(|string| string.text).collect()
}

/// Ways to name the home directory without a quoted path.
const HOMES: &[&str] = &[
    "Path.home(",
    "homedir(",
    "Dir.home",
    "environ[\"HOME\"",
    "environ['HOME'",
    "getenv(\"HOME\"",
    "getenv('HOME'",
    "ENV{HOME",
    "ENV['HOME'",
    "ENV[\"HOME\"",
    "env.HOME",
];

/// The home directory, as often as a program names it and adds nothing to it.
pub(super) fn homes(code: &str, home: &str) -> Vec<String> {
    let joins = code.contains("join(");
    let alone = |rest: &str| {
        let rest = rest.trim_start_matches([')', ']', '}', ' ', '"', '\'']);
        !(rest.starts_with(['/', '+', '.']) || joins && rest.starts_with(','))
    };
    let mut found: Vec<String> = HOMES
        .iter()
        .flat_map(|name| code.match_indices(name).take(MAX_STRINGS))
        .filter(|(at, name)| code.get(at + name.len()..).is_some_and(alone))
        .map(|_| home.to_owned())
        .collect();
    if code.contains("expand") {
        let strings = strings(code).into_iter().filter_map(|string| {
            let rest = string.text.strip_prefix('~')?.to_owned();
            (!rest.is_empty() || code.get(string.end..).is_some_and(alone)).then(|| format!("{home}{rest}"))
        });
        found.extend(strings);
    }
    found
}

fn strings(code: &str) -> Vec<Literal> {
    let mut strings = Vec::new();
    let mut chars = code.char_indices().peekable();
    while let Some((start, quote)) = chars.next() {
        if !matches!(quote, '"' | '\'' | '`') || strings.len() >= MAX_STRINGS {
            // Perl and Ruby have quotes of letters.
            if let Some((text, end)) = lettered(code, start).filter(|_| strings.len() < MAX_STRINGS) {
                strings.push(Literal { text, quote: '`', start, end });
                while chars.peek().is_some_and(|(at, _)| *at < end) {
                    chars.next();
                }
            }
            continue;
        }
        let mut text = String::new();
        let mut closed = None;
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'x')) => {
                        let digits: String = chars.clone().take(2).map(|(_, c)| c).collect();
                        match u8::from_str_radix(&digits, 16) {
                            Ok(code) => {
                                text.push(char::from(code));
                                chars.next();
                                chars.next();
                            }
                            Err(_) => text.push('x'),
                        }
                    }
                    Some((_, c)) => text.push(c),
                    None => {}
                },
                c if c == quote => {
                    closed = Some(at + 1);
                    break;
                }
                c => text.push(c),
            }
        }
        if let Some(end) = closed {
            strings.push(Literal { text, quote, start, end });
        }
    }
    strings
}

/// `qx{…}`, `%x(…)` at a place.
fn lettered(code: &str, at: usize) -> Option<(String, usize)> {
    let rest = code.get(at..)?;
    let inner = rest.strip_prefix("qx").or(rest.strip_prefix("%x"))?.trim_start();
    let open = inner.chars().next()?;
    let close = match open {
        '{' => '}',
        '(' => ')',
        '[' => ']',
        '/' | '|' | '!' => open,
        _ => return None,
    };
    let start = at + (rest.len() - inner.len()) + open.len_utf8();
    let length = code.get(start..)?.find(close)?;
    Some((code.get(start..start + length)?.to_owned(), start + length + close.len_utf8()))
}

/// sed runs the text after an `e` command, and what a substitution with the flag `e` leaves.
fn sed(code: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    for command in code.split([';', '\n']).take(MAX_STRINGS) {
        let command = without_address(command.trim());
        if let Some(text) = command.strip_prefix("e ") {
            runs.push(Run::Text(text.to_owned()));
        } else if command == "e" {
            // What it has read so far.
            runs.push(Run::Text(super::command::COMPUTED.to_string()));
        } else if let Some(text) = substituted(command) {
            runs.push(Run::Text(text));
        }
    }
    runs
}

/// A command without the lines it is for: `1,$`, `/pattern/`.
fn without_address(command: &str) -> &str {
    let mut rest = command;
    loop {
        let next = rest.trim_start_matches(|c: char| {
            c.is_ascii_digit() || matches!(c, '$' | ',' | ' ' | '!' | '{' | '~')
        });
        let after =
            next.strip_prefix('/').and_then(|pattern| pattern.split_once('/')).map(|(_, after)| after);
        match after {
            Some(after) => rest = after,
            None => return next,
        }
    }
}

/// What a substitution with the flag `e` leaves to be run.
fn substituted(command: &str) -> Option<String> {
    let rest = command.strip_prefix('s')?;
    let separator = rest.chars().next()?;
    let mut parts = vec![String::new()];
    let mut chars = rest.get(separator.len_utf8()..)?.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => parts.last_mut()?.extend(chars.next()),
            c if c == separator => parts.push(String::new()),
            c => parts.last_mut()?.push(c),
        }
    }
    match parts.as_slice() {
        [_, replacement, flags] if flags.contains('e') => Some(replacement.clone()),
        _ => None,
    }
}

fn decoded(text: &str) -> Option<String> {
    if text.len() < 8 {
        return None;
    }
    super::output::decoded(text)
}
