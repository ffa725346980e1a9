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
pub fn redact(event: Event) -> Event {
    Event { body: object(event.body), ..event }
}

fn object(pairs: Map<String, Value>) -> Map<String, Value> {
    pairs
        .into_iter()
        .map(|(key, value)| {
            let secret = value.is_string() && SECRETS.names_secret(&key);
            (key, if secret { Value::from(REDACTED) } else { value_without(value) })
        })
        .collect()
}

fn value_without(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(item(&text)),
        Value::Array(items) => list(items),
        Value::Object(pairs) => Value::Object(object(pairs)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// A list of strings is taken for the arguments of a command.
fn list(items: Vec<Value>) -> Value {
    let mut state = Arguments::default();
    let without = |value: Value| match value {
        Value::String(text) => Value::String(state.take(&text, item)),
        other => {
            state = Arguments::default();
            value_without(other)
        }
    };
    Value::Array(items.into_iter().map(without).collect())
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
    /// An argument without its secrets; `rest` looks into it when it is not one as a whole.
    fn take(&mut self, argument: &str, rest: impl FnOnce(&str) -> String) -> String {
        if std::mem::take(&mut self.secret_next) {
            // `Authorization: Bearer TOKEN`: the scheme is no secret, what follows it is.
            self.secret_next = SECRETS.is_scheme(argument);
            return if self.secret_next { argument.to_owned() } else { REDACTED.to_owned() };
        }
        if let Some(joined) = self.option(argument) {
            return joined;
        }
        let bare = argument.trim_start_matches('-');
        let dashed = bare.len() < argument.len();
        let valueless = !bare.contains('=') && !bare.contains(char::is_whitespace);
        let scheme = SECRETS.is_scheme(argument);
        let named =
            valueless && (dashed || self.setting || bare.ends_with(':')) && SECRETS.names_secret(bare);
        self.secret_next = scheme || named;
        self.setting |= SECRETS.is_setting(argument);
        if self.secret_next { argument.to_owned() } else { rest(argument) }
    }

    /// Follows which program is meant, wrappers before it left behind; answers when an option's value is joined.
    fn option(&mut self, argument: &str) -> Option<String> {
        let name = argument.rsplit('/').next().unwrap_or(argument);
        let of_program = SECRETS.options().filter(|option| Some(option.program) == self.program);
        let in_place =
            |subcommand: Option<&str>| subcommand.is_none() || subcommand == self.subcommand.as_deref();
        for option in of_program.filter(|option| in_place(option.subcommand)) {
            if argument == option.option {
                self.secret_next = true;
                return Some(argument.to_owned());
            }
            let short = option.option.len() == 2 && !argument.starts_with("--");
            if short && argument.len() > 2 && argument.starts_with(option.option) {
                return Some(format!("{}{REDACTED}", option.option));
            }
        }
        if let Some(option) = SECRETS.options().find(|option| option.program == name) {
            (self.program, self.subcommand, self.setting) = (Some(option.program), None, false);
        } else if self.program.is_some() && self.subcommand.is_none() && !argument.starts_with('-') {
            self.subcommand = Some(argument.to_owned());
        }
        None
    }
}

/// One argument, or a text.
fn item(text: &str) -> String {
    if text.contains("-----BEGIN") {
        return REDACTED.to_owned();
    }
    // A header, or a line of settings: all that follows is its value.
    if let Some((name, _)) = text.split_once(':')
        && !name.contains(char::is_whitespace)
        && !name.contains(['/', '"', '\'', '=', '?', '&'])
        && SECRETS.names_secret(name)
    {
        return format!("{name}: {REDACTED}");
    }
    if text.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`')) {
        words(text)
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
        let joined = if quote.is_some() { state.take(piece, item) } else { plain(&mut state, piece) };
        out.extend(quote);
        out.push_str(&joined);
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
fn plain(state: &mut Arguments, piece: &str) -> String {
    if state.secret_next && piece.chars().all(|c| matches!(c, ':' | '=' | ',' | '{' | '}')) {
        return piece.to_owned();
    }
    // What a shell puts between two commands begins another.
    if matches!(piece, "|" | "||" | "&&" | ";" | "&") {
        *state = Arguments::default();
        return piece.to_owned();
    }
    let name = piece.trim_end_matches(['=', ':']);
    if name.len() < piece.len() && SECRETS.names_secret(last_name(name)) && !state.secret_next {
        state.secret_next = true;
        return piece.to_owned();
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
fn word(text: &str) -> String {
    prefixed(&assigned(&userinfo(text)))
}

/// `scheme://name:password@host`, and `name:password@host`.
fn userinfo(text: &str) -> String {
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
        return format!("{user}:{REDACTED}@{host}");
    }
    out + rest
}

/// `NAME=value`, `--name=value`, `?name=value&…`, `name:value`.
fn assigned(text: &str) -> String {
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
    out + rest
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
fn prefixed(text: &str) -> String {
    let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | '=' | '~');
    let mut out = String::new();
    let mut rest = text;
    let mut inside = false;
    while let Some(c) = rest.chars().next() {
        let known = || SECRETS.prefixes().find(|prefix| rest.starts_with(*prefix));
        if let Some(prefix) = (!inside).then(known).flatten() {
            let length = rest.find(|c: char| !belongs(c)).unwrap_or(rest.len());
            if length >= prefix.len() + SHORTEST {
                out.push_str(REDACTED);
                rest = &rest[length..];
                continue;
            }
        }
        inside = c.is_ascii_alphanumeric();
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests;
