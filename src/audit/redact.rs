//! Takes secrets out of events, by the rules in `profiles/audit/redact.txt`.
//!
//! Answers for every string of an event. When it is unsure where a secret ends, it takes out more.
//! Invariant: what follows a name, option or scheme of the rules is never kept.

use super::Event;
use crate::profile::SECRETS;
use serde_json::{Map, Value};

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";
/// The shortest run after a known prefix that is taken for a credential.
const SHORTEST: usize = 8;

/// The event without secrets.
#[must_use]
pub fn redact(mut event: Event) -> Event {
    object(&mut event.body);
    event
}

/// Whether a text by this name would stay in an event as it is.
pub(super) fn is_plain(name: &str, text: &str) -> bool {
    !SECRETS.names_secret(name) && item(text).is_none()
}

fn object(pairs: &mut Map<String, Value>) {
    for (key, value) in pairs {
        if can_hold(value) && SECRETS.names_secret(key) {
            *value = Value::from(REDACTED);
        } else {
            value_without(value);
        }
    }
}

/// Whether a value can be a secret or have one in it: a pin is a number, and of several codes there is a list.
fn can_hold(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Number(_) => true,
        Value::Array(items) => !items.is_empty(),
        Value::Object(pairs) => !pairs.is_empty(),
        Value::Null | Value::Bool(_) => false,
    }
}

fn value_without(value: &mut Value) {
    match value {
        Value::String(text) => replace(text, item),
        Value::Array(items) => list(items),
        Value::Object(pairs) => object(pairs),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A list of strings is taken for the arguments of a command.
fn list(items: &mut [Value]) {
    let mut state = Arguments::default();
    for value in items {
        if let Value::String(text) = value {
            replace(text, |argument| state.take(argument, item));
        } else {
            state = Arguments::default();
            value_without(value);
        }
    }
}

/// Puts in the place of a text what is to stand there instead, if anything is.
fn replace(text: &mut String, instead: impl FnOnce(&str) -> Option<String>) {
    if let Some(instead) = instead(text) {
        *text = instead;
    }
}

/// What is known from the arguments before.
#[derive(Debug, Default)]
struct Arguments {
    program: Option<&'static str>,
    subcommand: Option<String>,
    setting: bool,
    secret_next: bool,
}

impl Arguments {
    /// What is to stand in the place of an argument, if it holds a secret; `rest` looks into it when it is not one
    /// as a whole.
    fn take(&mut self, argument: &str, rest: impl FnOnce(&str) -> Option<String>) -> Option<String> {
        if std::mem::take(&mut self.secret_next) {
            // `Authorization: Bearer TOKEN`: the scheme is no secret, what follows it is.
            self.secret_next = SECRETS.is_scheme(argument);
            return (!self.secret_next).then(|| REDACTED.to_owned());
        }
        match self.option(argument) {
            Place::Value(option) => return Some(format!("{option}{REDACTED}")),
            Place::Before => {
                self.secret_next = true;
                return None;
            }
            Place::Elsewhere => {}
        }
        let bare = argument.trim_start_matches('-');
        let dashed = bare.len() < argument.len();
        let valueless = || !bare.contains('=') && !bare.contains(char::is_whitespace);
        let scheme = SECRETS.is_scheme(argument);
        let named =
            (dashed || self.setting || bare.ends_with(':')) && valueless() && SECRETS.names_secret(bare);
        self.secret_next = scheme || named;
        self.setting |= SECRETS.is_setting(argument);
        if self.secret_next { None } else { rest(argument) }
    }

    /// Whether what a text without quotes holds is the value of a secret's name, before it or in it.
    fn is_named(&self, text: &str) -> bool {
        let before = text.split(['[', '{']).next().unwrap_or_default();
        let name = before.trim_end_matches([':', '=']);
        let assigned = name.len() < before.len() && SECRETS.names_secret(last_name(name));
        assigned || self.secret_next && name.is_empty()
    }

    /// Follows which program is meant, wrappers before it left behind, and says where an option has its secret.
    fn option(&mut self, argument: &str) -> Place {
        if let Some(program) = self.program {
            let in_place =
                |subcommand: Option<&str>| subcommand.is_none() || subcommand == self.subcommand.as_deref();
            let of_program = SECRETS.options().filter(|option| option.program == program);
            for option in of_program.filter(|option| in_place(option.subcommand)) {
                if argument == option.option {
                    return Place::Before;
                }
                let short = option.option.len() == 2 && !argument.starts_with("--");
                if short && argument.len() > 2 && argument.starts_with(option.option) {
                    return Place::Value(option.option);
                }
            }
        }
        let name = argument.rsplit('/').next().unwrap_or(argument);
        if let Some(program) = SECRETS.program(name) {
            (self.program, self.subcommand, self.setting) = (Some(program), None, false);
        } else if self.program.is_some() && self.subcommand.is_none() && !argument.starts_with('-') {
            self.subcommand = Some(argument.to_owned());
        }
        Place::Elsewhere
    }
}

/// Where the secret of an option is.
enum Place {
    /// In the argument, joined to the option.
    Value(&'static str),
    /// In the next argument.
    Before,
    /// Nowhere: it is not such an option.
    Elsewhere,
}

/// One argument, or a text: what is to stand in its place, if it holds a secret.
fn item(text: &str) -> Option<String> {
    // Most are plain words, in which a secret is known by nothing but how it begins.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
    if text.bytes().all(plain) && !text.contains("--") {
        return prefixed(text);
    }
    if text.contains("-----BEGIN") {
        return Some(REDACTED.to_owned());
    }
    // A header, or a line of settings: all that follows is its value.
    if let Some((name, _)) = text.split_once(':')
        && !name.contains(char::is_whitespace)
        && !name.contains(['/', '"', '\'', '=', '?', '&'])
        && SECRETS.names_secret(name)
    {
        return Some(format!("{name}: {REDACTED}"));
    }
    if text.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`')) {
        Some(words(text))
    } else {
        word(text)
    }
}

/// A text of several words, read roughly as a shell would.
fn words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut state = Arguments::default();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let quote = matches!(first, '"' | '\'' | '`').then_some(first);
        let body = if quote.is_some() { &rest[1..] } else { rest };
        let length = match quote {
            Some(quote) => closing(body, quote),
            None => {
                body.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`')).unwrap_or(body.len())
            }
        };
        let piece = &body[..length];
        // Where a list or an object has its name, it is not told which of its parts are secrets.
        if let Some(opens) = piece.find(['[', '{']).filter(|_| quote.is_none() && state.is_named(piece)) {
            out.push_str(&piece[..opens]);
            out.push_str(REDACTED);
            return out;
        }
        let instead = if quote.is_some() { state.take(piece, item) } else { plain(&mut state, piece) };
        out.extend(quote);
        out.push_str(instead.as_deref().unwrap_or(piece));
        rest = &body[length..];
        if let Some(quote) = quote
            && let Some(after) = rest.strip_prefix(quote)
        {
            out.push(quote);
            rest = after;
            // `"password": "…"`, with or without the blank.
            let colon = after.trim_start().starts_with([':', '=']);
            state.secret_next |= colon && SECRETS.names_secret(piece);
        }
    }
    out
}

/// A piece without quotes; punctuation between a quoted name and its value does not use up the expectation.
fn plain(state: &mut Arguments, piece: &str) -> Option<String> {
    if state.secret_next && piece.chars().all(|c| matches!(c, ':' | '=' | ',' | '{' | '}')) {
        return None;
    }
    // What a shell puts between two commands begins another.
    if matches!(piece, "|" | "||" | "&&" | ";" | "&") {
        *state = Arguments::default();
        return None;
    }
    let name = piece.trim_end_matches(['=', ':']);
    if name.len() < piece.len() && SECRETS.names_secret(last_name(name)) && !state.secret_next {
        state.secret_next = true;
        return None;
    }
    state.take(piece, word)
}

/// Where a quoted text ends; everything when it does not.
fn closing(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            return at;
        }
        escaped = c == '\\' && !escaped && quote != '\'';
    }
    text.len()
}

/// A word without blanks and quotes.
fn word(text: &str) -> Option<String> {
    let mut instead = None;
    for take_out in [userinfo, assigned, prefixed] {
        let now = take_out(instead.as_deref().unwrap_or(text));
        instead = now.or(instead);
    }
    instead
}

/// `scheme://name:password@host`, and `name:password@host`.
fn userinfo(text: &str) -> Option<String> {
    if !text.contains('@') {
        return None;
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://").map(|at| at + 3) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        if let Some(host) = rest[..end].rfind('@') {
            out.push_str(REDACTED);
            rest = &rest[host..];
        }
    }
    let plain = out.is_empty().then(|| rest.split_once('@')).flatten();
    if let Some((before, host)) = plain
        && let Some((user, password)) = before.split_once(':')
        && !user.is_empty()
        && !password.is_empty()
        && !before.contains('/')
        && !host.is_empty()
    {
        return Some(format!("{user}:{REDACTED}@{host}"));
    }
    Some(out + rest)
}

/// `NAME=value`, `--name=value`, `?name=value&…`, `name:value`.
fn assigned(text: &str) -> Option<String> {
    if !text.contains(['=', ':']) {
        return None;
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['=', ':']) {
        let name = last_name(&rest[..at]);
        let value = &rest[at + 1..];
        out.push_str(&rest[..=at]);
        rest = value;
        if value.is_empty() || value.starts_with("//") || !is_secret(name) {
            continue;
        }
        out.push_str(REDACTED);
        // In the query of an address the next pair can be told apart; elsewhere the value may hold anything.
        let query = out.contains('?');
        rest = if query { value.find(['&', '#']).map_or("", |end| &value[end..]) } else { "" };
    }
    Some(out + rest)
}

/// Whether a name is a secret's, also when a short option is joined to it, as in `-DTOKEN`.
fn is_secret(name: &str) -> bool {
    let joined = name.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| rest.get(1..));
    SECRETS.names_secret(name) || joined.is_some_and(|rest| SECRETS.names_secret(rest))
}

/// The name at the end of a text.
fn last_name(text: &str) -> &str {
    let begins = text.rfind(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '.'));
    &text[begins.map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8))..]
}

/// Credentials that are known by how they begin.
fn prefixed(text: &str) -> Option<String> {
    let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | '=' | '~');
    let mut out = String::new();
    let (mut kept, mut at, mut inside) = (0, 0, false);
    while let Some(byte) = text.as_bytes().get(at) {
        // Prefixes are ASCII: none begins in the middle of a character.
        if let Some(prefix) = (!inside && byte.is_ascii()).then(|| SECRETS.prefix(&text[at..])).flatten() {
            let length = text[at..].find(|c: char| !belongs(c)).unwrap_or(text.len() - at);
            if length >= prefix.len() + SHORTEST {
                out.push_str(&text[kept..at]);
                out.push_str(REDACTED);
                at += length;
                kept = at;
                continue;
            }
        }
        inside = byte.is_ascii_alphanumeric();
        at += 1;
    }
    (kept > 0).then(|| out + &text[kept..])
}

#[cfg(test)]
mod tests;
