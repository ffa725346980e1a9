//! What a command prints, for the few of which that is known without running them.
//!
//! `echo cm0= | base64 -d | sh` hides a command from everyone who does not do what these four do.

use super::command::{Arg, Command};

/// What it prints; none when that is not known.
pub(super) fn known(command: &Command) -> Option<String> {
    let arguments = command.argv.get(1..).unwrap_or_default();
    if arguments.iter().any(Arg::has_gap) {
        return None;
    }
    let texts: Vec<&str> = arguments.iter().map(|arg| arg.text.as_str()).collect();
    let stdin = command.stdin.as_deref();
    let has = |wanted: &[&str]| texts.iter().any(|text| wanted.contains(text));
    match command.program() {
        "echo" => Some(echo(&texts)),
        "printf" if !has(&["-v"]) => printf(arguments),
        ":" | "true" | "false" | "cd" | "export" | "set" | "shopt" | "unset" => Some(String::new()),
        "tee" | "sponge" => stdin.map(str::to_owned),
        "cat" | "head" | "tail" | "sort" | "uniq"
            if texts.iter().all(|text| matches!(*text, "-" | "/dev/stdin")) =>
        {
            stdin.map(str::to_owned)
        }
        "base64" | "gbase64" if has(&["-d", "-D", "--decode", "-di", "-id"]) => decoded(stdin?),
        "openssl" if has(&["-d"]) && has(&["base64", "enc", "-base64", "-a"]) => decoded(stdin?),
        "base32" | "basenc" => None,
        "rev" => Some(stdin?.lines().map(|line| line.chars().rev().collect::<String>() + "\n").collect()),
        "tac" => Some(stdin?.lines().rev().map(|line| format!("{line}\n")).collect()),
        "xxd" if has(&["-r", "-rp", "-p", "-ps"]) => from_hex(stdin?),
        "tr" => translated(&texts, stdin?),
        "which" | "whereis" => texts.last().map(|name| format!("/usr/bin/{name}\n")),
        "command" if has(&["-v", "-V"]) => texts.last().map(|name| format!("/usr/bin/{name}\n")),
        "basename" => texts.first().map(|path| format!("{}\n", super::command::base_name(path))),
        "pwd" => command.cwd.as_ref().map(|cwd| format!("{cwd}\n")),
        _ => None,
    }
}

fn echo(texts: &[&str]) -> String {
    let options =
        texts.iter().take_while(|text| matches!(**text, "-n" | "-e" | "-E" | "-ne" | "-en")).count();
    let (options, words) = texts.split_at(options);
    let text = words.join(" ");
    let text = if options.iter().any(|option| option.contains('e')) { unescaped(&text) } else { text };
    if options.iter().any(|option| option.contains('n')) { text } else { text + "\n" }
}

/// What `printf` makes of its arguments, for the plain directives.
pub(super) fn printf(arguments: &[Arg]) -> Option<String> {
    let mut arguments = arguments.iter().skip_while(|arg| arg.text == "--");
    let format = unescaped(&arguments.next()?.text);
    let rest: Vec<&str> = arguments.map(|arg| arg.text.as_str()).collect();
    let mut rest = rest.into_iter().peekable();
    let mut out = String::new();
    loop {
        let before = rest.len();
        let mut parts = format.chars();
        while let Some(c) = parts.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            match parts.next() {
                Some('%') => out.push('%'),
                Some('b') => out.push_str(&unescaped(rest.next().unwrap_or_default())),
                Some('s' | 'd' | 'c' | 'q') => out.push_str(rest.next().unwrap_or_default()),
                _ => return None,
            }
            if out.len() > 1 << 15 {
                return None;
            }
        }
        if rest.peek().is_none() || rest.len() == before {
            return Some(out);
        }
    }
}

/// Backslash sequences as `echo -e` and `printf` read them.
pub(super) fn unescaped(text: &str) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let digits_after =
        |mut code: u32, rest: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: usize| {
            for _ in 0..most {
                let Some(digit) = rest.peek().and_then(|c| c.to_digit(radix)) else { break };
                code = code * radix + digit;
                rest.next();
            }
            code
        };
    let digits =
        |rest: &mut std::iter::Peekable<std::str::Chars<'_>>, radix, most| digits_after(0, rest, radix, most);
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match rest.next() {
            Some('n') => out.push(b'\n'),
            Some('t') => out.push(b'\t'),
            Some('x') => out.push(u8::try_from(digits(&mut rest, 16, 2)).unwrap_or(b'?')),
            Some('0') => out.push(u8::try_from(digits(&mut rest, 8, 3) & 0xff).unwrap_or(b'?')),
            Some(first @ '1'..='7') => {
                let code = digits_after(first.to_digit(8).unwrap_or_default(), &mut rest, 8, 2);
                out.push(u8::try_from(code & 0xff).unwrap_or(b'?'));
            }
            Some('u') => {
                let c = char::from_u32(digits(&mut rest, 16, 4)).unwrap_or('?');
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Some('\\') => out.push(b'\\'),
            Some(other) => {
                out.push(b'\\');
                out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
            }
            None => out.push(b'\\'),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Base 64, blanks passed over.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xff_ffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    String::from_utf8(out).ok()
}

fn from_hex(text: &str) -> Option<String> {
    let digits: Vec<u32> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let bytes: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| u8::try_from(pair.iter().fold(0, |code, digit| code * 16 + digit)).ok())
        .collect();
    String::from_utf8(bytes?).ok()
}

/// `tr SET1 SET2` and `tr -d SET`, with ranges.
fn translated(texts: &[&str], stdin: &str) -> Option<String> {
    match texts {
        ["-d", set] => {
            let set = ranges(set);
            Some(stdin.chars().filter(|c| !set.contains(c)).collect())
        }
        [from, to] if !from.starts_with('-') => {
            let (from, to) = (ranges(from), ranges(to));
            let swap = |c: char| match from.iter().position(|other| *other == c) {
                Some(at) => to.get(at).or(to.last()).copied().unwrap_or(c),
                None => c,
            };
            Some(stdin.chars().map(swap).collect())
        }
        _ => None,
    }
}

fn ranges(set: &str) -> Vec<char> {
    let set: Vec<char> = unescaped(set).chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&c) = set.get(at) {
        match (set.get(at + 1), set.get(at + 2)) {
            (Some('-'), Some(&last)) if c <= last => {
                out.extend((c..=last).take(512));
                at += 3;
            }
            _ => {
                out.push(c);
                at += 1;
            }
        }
    }
    out
}
