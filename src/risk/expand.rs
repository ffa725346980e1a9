//! From words to arguments: braces, tilde, parameters, substitutions, field splitting.
//!
//! What cannot be known is marked in the argument, never left out: an argument that looks complete is
//! complete.

use super::command::{Arg, COMPUTED, UNSET};
use super::flatten::Walk;
use super::syntax::{Param, Piece, Word};
use crate::capability::matches_segment;
use crate::text::Span;

/// The longest value that is followed; a longer one counts as not known.
const MAX_VALUE: usize = 16 * 1024;
/// The longest value that a pattern is tried on at every place.
const MAX_TRIMMED: usize = 256;
/// The most words one word may become.
const MAX_FIELDS: usize = 128;

/// What a variable holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Certain; more than one for a list.
    Known(Vec<String>),
    /// What it most likely is.
    Guess(String),
    /// Something that is only known when it runs.
    Computed,
    /// Never set in this text.
    Unset,
}

/// A part of a word while braces are expanded.
#[derive(Clone, Copy, Debug)]
enum Unit<'w> {
    Bare(char),
    Quoted(char),
    /// Quotes with nothing between them still make a word.
    Empty,
    Piece(&'w Piece),
}

/// Arguments being put together.
struct Fields {
    done: Vec<Arg>,
    open: Option<Arg>,
    span: Span,
    /// Whether some were too many to keep.
    dropped: bool,
}

impl Fields {
    fn open(&mut self) -> &mut Arg {
        self.open.get_or_insert_with(|| Arg::new("", self.span))
    }

    fn literal(&mut self, c: char) {
        self.open().text.push(c);
    }

    fn text(&mut self, text: &str, known: bool) {
        let arg = self.open();
        if arg.text.len() + text.len() > MAX_VALUE {
            arg.text.push(COMPUTED);
            arg.known = false;
        } else {
            arg.text.push_str(text);
            arg.known &= known;
        }
    }

    /// Text that the shell splits.
    fn split(&mut self, text: &str, known: bool, separators: &str) {
        let mut first = true;
        for part in text.split(|c| separators.contains(c)) {
            if !first {
                self.close();
            }
            if !part.is_empty() {
                self.text(part, known);
                let arg = self.open();
                arg.glob |= part.contains(['*', '?', '[']);
            }
            first = false;
        }
    }

    fn close(&mut self) {
        let Some(arg) = self.open.take() else { return };
        if self.done.len() < MAX_FIELDS * 4 {
            self.done.push(arg);
        } else {
            self.dropped = true;
        }
    }
}

impl Walk<'_> {
    /// The arguments a word becomes.
    pub(super) fn expand(&mut self, word: &Word) -> Vec<Arg> {
        if let [Piece::Bare(text)] = word.pieces.as_slice()
            && !text.contains(['{', '~', '*', '?', '['])
        {
            return vec![Arg::new(text.as_str(), word.span)];
        }
        let units = units(&word.pieces);
        let mut fields = Fields { done: Vec::new(), open: None, span: word.span, dropped: false };
        let (words, whole) = braces(&units);
        for units in words {
            self.fill(&units, &mut fields, true);
            fields.close();
        }
        if fields.dropped || !whole {
            self.opaque(word.span, "it becomes too many words to look at each");
        }
        fields.done
    }

    /// The one argument a word becomes where nothing is split: assignments, redirections, here-documents.
    pub(super) fn expand_whole(&mut self, word: &Word) -> Arg {
        let mut fields =
            Fields { done: Vec::new(), open: Some(Arg::new("", word.span)), span: word.span, dropped: false };
        let units = units(&word.pieces);
        self.fill(&units, &mut fields, false);
        fields.open.unwrap_or_default()
    }

    fn fill(&mut self, units: &[Unit<'_>], fields: &mut Fields, split: bool) {
        let mut rest = units;
        if let Some((home, after)) = self.tilde(units) {
            fields.text(&home, false);
            rest = after;
        }
        for unit in rest {
            match unit {
                Unit::Bare(c) => {
                    fields.literal(*c);
                    if split && matches!(c, '*' | '?' | '[') {
                        fields.open().glob = true;
                    }
                }
                Unit::Quoted(c) => fields.literal(*c),
                Unit::Empty => drop(fields.open()),
                Unit::Piece(piece) => self.fill_piece(piece, fields, split),
            }
        }
    }

    fn fill_piece(&mut self, piece: &Piece, fields: &mut Fields, split: bool) {
        match piece {
            Piece::Bare(text) | Piece::Quoted(text) => fields.text(text, true),
            Piece::Param(param) => {
                let quoted = param.quoted || !split;
                let value = self.param(param, fields.span);
                let value = if is_joined(param) { self.in_one_word(value) } else { value };
                self.fill_value(value, fields, quoted, is_list(param) && !is_joined(param));
            }
            Piece::Command { body, quoted } => {
                let value = match self.substitute(body) {
                    Some(text) if text.len() <= MAX_VALUE => {
                        Value::Guess(text.trim_end_matches('\n').to_owned())
                    }
                    _ => Value::Computed,
                };
                self.fill_value(value, fields, *quoted || !split, false);
            }
            Piece::Process { body, out: true } => {
                self.sinks.push(body.clone());
                fields.text("/dev/fd/63", false);
            }
            Piece::Process { body, out: false } => {
                self.piped = self.substitute(body);
                fields.text("/dev/fd/63", false);
            }
            Piece::Arithmetic(pieces) => {
                let word = Word { pieces: pieces.clone(), span: fields.span };
                let expression = self.expand_whole(&word);
                self.evaluated(&expression.text, word.span);
                fields.text(&COMPUTED.to_string(), false);
            }
        }
    }

    /// All values as one word, with the first separator between them.
    fn in_one_word(&self, value: Value) -> Value {
        match (value, self.variables.get("IFS")) {
            (Value::Known(values), None) => Value::Known(vec![values.join(" ")]),
            (Value::Known(values), Some(Value::Known(separators))) => {
                let between = separators.concat().chars().next().map(String::from);
                Value::Known(vec![values.join(&between.unwrap_or_default())])
            }
            (Value::Known(_), Some(_)) => Value::Computed,
            (value, _) => value,
        }
    }

    fn fill_value(&mut self, value: Value, fields: &mut Fields, quoted: bool, list: bool) {
        let separators = match self.variables.get("IFS") {
            Some(Value::Known(values)) if !quoted => values.concat(),
            _ => " \t\n".to_owned(),
        };
        match value {
            Value::Known(values) if list => {
                for (at, value) in values.iter().enumerate() {
                    if at > 0 {
                        fields.close();
                    }
                    fields.text(value, true);
                }
            }
            Value::Known(values) => {
                let text = values.first().map_or("", String::as_str);
                if quoted { fields.text(text, true) } else { fields.split(text, true, &separators) }
            }
            Value::Guess(text) if quoted => fields.text(&text, false),
            Value::Guess(text) => fields.split(&text, false, &separators),
            Value::Computed => fields.text(&COMPUTED.to_string(), false),
            Value::Unset => fields.text(&UNSET.to_string(), false),
        }
    }

    /// `~` or `~name` at the start of a word.
    fn tilde<'u, 'w>(&self, units: &'u [Unit<'w>]) -> Option<(String, &'u [Unit<'w>])> {
        let Some(Unit::Bare('~')) = units.first() else { return None };
        let mut name = String::new();
        for (at, unit) in units.iter().enumerate().skip(1) {
            match unit {
                Unit::Bare('/') => return Some((self.home_of(&name), units.get(at..)?)),
                Unit::Bare(c) => name.push(*c),
                Unit::Quoted(_) | Unit::Empty | Unit::Piece(_) => return None,
            }
        }
        Some((self.home_of(&name), &[]))
    }

    fn home_of(&self, name: &str) -> String {
        match name {
            "" => self.scene.home.clone(),
            "root" => "/root".to_owned(),
            "+" | "-" => self.cwd.clone().unwrap_or_else(|| COMPUTED.to_string()),
            name => format!("/home/{name}"),
        }
    }

    /// What a parameter comes to, its operator applied.
    fn param(&mut self, param: &Param, span: Span) -> Value {
        self.uses(&param.name);
        let value = self.lookup(&param.name, param.index.as_deref());
        let word = Word { pieces: param.word.clone(), span };
        // Whatever the operator does, what its word substitutes may run.
        let operand = if param.word.is_empty() { Arg::new("", span) } else { self.expand_whole(&word) };
        let single = match &value {
            Value::Known(values) if values.len() <= 1 => Some(values.first().cloned().unwrap_or_default()),
            Value::Guess(text) => Some(text.clone()),
            Value::Known(_) | Value::Computed | Value::Unset => None,
        };
        if let Some(index) = param.index.as_deref().filter(|index| !matches!(*index, "@" | "*" | "")) {
            self.evaluated(index, span);
        }
        if param.op == ":" {
            self.evaluated(&operand.text, span);
        }
        match (param.op, single) {
            ("", _) if param.word.is_empty() => value,
            // An operator that is not known here.
            ("", _) => Value::Computed,
            // A prompt: what it substitutes runs.
            ("@", Some(text)) if operand.text == "P" => {
                self.expand_again(&text, span).map_or(Value::Guess(text), |arg| Value::Guess(arg.text))
            }
            ("@", None) if operand.text == "P" => {
                self.opaque(span, "a text is expanded that shows only when it runs");
                Value::Computed
            }
            (":-" | "-" | ":=" | "=", Some(text)) if !text.is_empty() => {
                let _ = text;
                value
            }
            (op @ (":-" | "-" | ":=" | "="), _) => {
                if op.contains('=') {
                    self.put(&param.name, Value::Guess(operand.text.clone()));
                }
                guess(operand.text)
            }
            (":+" | "+", _) => guess(operand.text),
            (":?" | "?", Some(_)) => value,
            (":?" | "?", None) => Value::Computed,
            ("!", Some(name)) => self.lookup(&name, None),
            ("length", Some(text)) => Value::Known(vec![text.chars().count().to_string()]),
            (op, Some(text)) if operand.known => {
                changed(op, &text, &operand.text).map_or(Value::Computed, Value::Guess)
            }
            _ => Value::Computed,
        }
    }

    fn lookup(&self, name: &str, index: Option<&str>) -> Value {
        let name = self.referred(name);
        let value = match self.variables.get(name) {
            Some(value) => value.clone(),
            None => self.given(name),
        };
        match (value, index) {
            (Value::Known(values), Some("@" | "*")) => Value::Known(values),
            (Value::Known(values), Some(index)) => {
                match index.trim().parse::<usize>().ok().and_then(|at| values.get(at)) {
                    Some(text) => Value::Known(vec![text.clone()]),
                    None => Value::Computed,
                }
            }
            (value, _) => value,
        }
    }

    /// Variables that are there without anybody setting them.
    fn given(&self, name: &str) -> Value {
        match name {
            "HOME" => Value::Guess(self.scene.home.clone()),
            "PWD" => self.cwd.clone().map_or(Value::Computed, Value::Guess),
            "IFS" => Value::Known(vec![" \t\n".to_owned()]),
            "SHELL" | "BASH" | "0" => Value::Guess("/bin/sh".to_owned()),
            "TMPDIR" => Value::Guess("/tmp".to_owned()),
            "PATH" => Value::Guess("/usr/local/bin:/usr/bin:/bin".to_owned()),
            "UID" | "EUID" | "PPID" | "RANDOM" | "SECONDS" | "LINENO" | "HOSTNAME" | "USER" | "LOGNAME"
            | "OLDPWD" | "?" | "$" | "!" | "#" | "-" | "_" | "@" | "*" => Value::Computed,
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => Value::Computed,
            _ => Value::Unset,
        }
    }
}

fn guess(text: String) -> Value {
    Value::Guess(text)
}

/// `"$*"` and `"${list[*]}"`.
fn is_joined(param: &Param) -> bool {
    param.op.is_empty() && param.quoted && (param.name == "*" || param.index.as_deref() == Some("*"))
}

fn is_list(param: &Param) -> bool {
    param.op.is_empty()
        && (param.name == "@"
            || (param.name == "*" && !param.quoted)
            || matches!(param.index.as_deref(), Some("@" | "*")))
}

/// A value after `#`, `%`, `/`, `:` and the like, with an operand that is known.
fn changed(op: &str, text: &str, operand: &str) -> Option<String> {
    let plain = |pattern: &str| !pattern.contains(['*', '?', '[']);
    match op {
        "#" | "##" if plain(operand) => Some(text.strip_prefix(operand).unwrap_or(text).to_owned()),
        "%" | "%%" if plain(operand) => Some(text.strip_suffix(operand).unwrap_or(text).to_owned()),
        "#" | "##" | "%" | "%%" if !operand.contains('[') && text.len() <= MAX_TRIMMED => {
            Some(trimmed(op, text, operand).to_owned())
        }
        "/" | "//" => {
            let (from, to) = operand.split_once('/').unwrap_or((operand, ""));
            let many = op == "//";
            (plain(from) && !from.is_empty())
                .then(|| if many { text.replace(from, to) } else { text.replacen(from, to, 1) })
        }
        // With a pattern only some letters change.
        "^^" | ",," | "^" | "," if !operand.is_empty() => None,
        "^^" => Some(text.to_uppercase()),
        ",," => Some(text.to_lowercase()),
        "," => Some(text.chars().take(1).flat_map(char::to_lowercase).chain(text.chars().skip(1)).collect()),
        "^" => Some(text.chars().take(1).flat_map(char::to_uppercase).chain(text.chars().skip(1)).collect()),
        ":" => {
            let (from, length) = operand.split_once(':').unwrap_or((operand, ""));
            let total = text.chars().count();
            let from: i64 = from.trim().parse().ok()?;
            let from = if from < 0 {
                total.checked_sub(usize::try_from(-from).ok()?)?
            } else {
                usize::try_from(from).ok()?
            };
            let length = if length.is_empty() { total } else { length.trim().parse().ok()? };
            Some(text.chars().skip(from).take(length).collect())
        }
        "@" => match operand {
            "U" => Some(text.to_uppercase()),
            "L" => Some(text.to_lowercase()),
            "u" => changed("^", text, ""),
            "E" => Some(super::output::unescaped(text)),
            "Q" => Some(super::flatten::quoted(text)),
            _ => None,
        },
        _ => None,
    }
}

/// A text without the shortest or longest start or end that is like a pattern.
fn trimmed<'t>(op: &str, text: &'t str, pattern: &str) -> &'t str {
    let mut splits = (0..=text.len()).filter_map(|at| text.split_at_checked(at));
    let fits = |part: &str| matches_segment(pattern, part.as_bytes());
    match op {
        "#" => splits.find(|(start, _)| fits(start)).map_or(text, |(_, rest)| rest),
        "##" => splits.rfind(|(start, _)| fits(start)).map_or(text, |(_, rest)| rest),
        "%" => splits.rfind(|(_, end)| fits(end)).map_or(text, |(rest, _)| rest),
        _ => splits.find(|(_, end)| fits(end)).map_or(text, |(rest, _)| rest),
    }
}

fn units(pieces: &[Piece]) -> Vec<Unit<'_>> {
    let mut units = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Bare(text) => units.extend(text.chars().map(Unit::Bare)),
            Piece::Quoted(text) if text.is_empty() => units.push(Unit::Empty),
            Piece::Quoted(text) => units.extend(text.chars().map(Unit::Quoted)),
            other => units.push(Unit::Piece(other)),
        }
    }
    units
}

/// What braces make of a word: `{a,b}c` is `ac bc`, `{1..3}` is `1 2 3`.
/// The second is false where that would be too many.
fn braces<'w>(units: &[Unit<'w>]) -> (Vec<Vec<Unit<'w>>>, bool) {
    let mut results = Vec::new();
    let mut whole = true;
    let mut pending = vec![units.to_vec()];
    let mut rounds = 0usize;
    while let Some(units) = pending.pop() {
        rounds += 1;
        let fits = results.len() + pending.len() < MAX_FIELDS && rounds < MAX_FIELDS * 4;
        let found = first_brace(&units);
        whole &= fits || found.is_none();
        match found.filter(|_| fits) {
            None => results.push(units),
            Some((open, close, parts)) => {
                let before = units.get(..open).unwrap_or_default();
                let after = units.get(close + 1..).unwrap_or_default();
                // The last is pushed first, so that the first comes out first.
                whole &= parts.len() < MAX_FIELDS;
                pending.extend(parts.into_iter().rev().map(|part| [before, &part, after].concat()));
            }
        }
    }
    (results, whole)
}

type Brace<'w> = (usize, usize, Vec<Vec<Unit<'w>>>);

/// The first brace that expands, with its alternatives. One look from left to right.
fn first_brace<'w>(units: &[Unit<'w>]) -> Option<Brace<'w>> {
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut found: Option<Brace<'w>> = None;
    for (at, unit) in units.iter().enumerate() {
        match unit {
            Unit::Bare('{') => open.push((at, Vec::new())),
            Unit::Bare(',') => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            Unit::Bare('}') => {
                let Some((start, commas)) = open.pop() else { continue };
                let parts = alternatives(units, start, at, &commas);
                if let Some(parts) = parts.filter(|_| found.as_ref().is_none_or(|(first, ..)| start < *first))
                {
                    found = Some((start, at, parts));
                }
                if open.is_empty() && found.is_some() {
                    return found;
                }
            }
            Unit::Bare(_) | Unit::Quoted(_) | Unit::Empty | Unit::Piece(_) => {}
        }
    }
    found
}

fn alternatives<'w>(
    units: &[Unit<'w>],
    open: usize,
    close: usize,
    commas: &[usize],
) -> Option<Vec<Vec<Unit<'w>>>> {
    if !commas.is_empty() {
        let mut parts = Vec::new();
        let mut start = open + 1;
        for end in commas.iter().copied().chain([close]) {
            parts.push(units.get(start..end)?.to_vec());
            start = end + 1;
        }
        return Some(parts);
    }
    let inside: Option<String> = units
        .get(open + 1..close)?
        .iter()
        .map(|unit| match unit {
            Unit::Bare(c) | Unit::Quoted(c) => Some(*c),
            Unit::Empty | Unit::Piece(_) => None,
        })
        .collect();
    let inside = inside?;
    let (from, to) = inside.split_once("..")?;
    let chars = |text: String| text.chars().map(Unit::Bare).collect::<Vec<_>>();
    if let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>()) {
        let count = i64::try_from(MAX_FIELDS).unwrap_or(1);
        let numbers: Vec<i64> = if from <= to {
            (from..=to.min(from.saturating_add(count))).collect()
        } else {
            (to.max(from.saturating_sub(count))..=from).rev().collect()
        };
        return Some(numbers.into_iter().map(|number| chars(number.to_string())).collect());
    }
    let (mut from, mut to) = (from.chars(), to.chars());
    match (from.next(), from.next(), to.next(), to.next()) {
        (Some(from), None, Some(to), None) => {
            let (low, high) = (from.min(to), from.max(to));
            Some((low..=high).take(MAX_FIELDS).map(|c| vec![Unit::Bare(c)]).collect())
        }
        _ => None,
    }
}
