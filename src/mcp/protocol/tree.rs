//! A policed message as a tree, and its one spelling.
//!
//! Numbers keep their spelling, maps their order. Invariant: no map of a tree has a key twice; within
//! [`FOLDED`] levels not even in two spellings that some reader takes for one.

use super::json::{Fault, Scanner};
use crate::capability::fold;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Levels of maps in which keys may not differ by case only: the message, its parameters, their arguments.
const FOLDED: usize = 3;

/// A JSON value, borrowed from its line as far as possible.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'l> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it was spelled.
    Number(&'l str),
    /// A string, decoded.
    Text(Cow<'l, str>),
    /// A list.
    List(Vec<Json<'l>>),
    /// A map in the order of the text.
    Map(Vec<(Cow<'l, str>, Json<'l>)>),
}

impl<'l> Json<'l> {
    /// Reads one value.
    ///
    /// # Errors
    /// When readers could differ about it.
    pub fn read(text: &'l str) -> Result<Self, Fault> {
        Self::read_below(text, 0)
    }

    /// Reads a value that may be spread over several lines.
    ///
    /// # Errors
    /// When readers could differ about it.
    pub fn read_document(text: &'l str) -> Result<Self, Fault> {
        let mut scanner = Scanner::new(text).over_lines();
        scanner.blanks();
        let value = build(&mut scanner, 0, 0)?;
        scanner.end()?;
        Ok(value)
    }

    /// The same for a value that stands some levels deep in its message.
    pub(super) fn read_below(text: &'l str, level: usize) -> Result<Self, Fault> {
        let mut scanner = Scanner::new(text);
        scanner.blanks();
        let value = build(&mut scanner, 0, level)?;
        scanner.end()?;
        Ok(value)
    }

    /// The value of a key of the map it is.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.members()?.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The pairs of the map it is.
    #[must_use]
    pub fn members(&self) -> Option<&[(Cow<'l, str>, Self)]> {
        match self {
            Self::Map(members) => Some(members),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => None,
        }
    }

    /// The items of the list it is.
    #[must_use]
    pub fn items(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::Map(_) => None,
        }
    }

    /// The string it is.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// The one spelling: no blanks, keys in their order, numbers as they were, nothing that ends a line.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(spelled) => out.push_str(spelled),
            Self::Text(text) => quote(text, out),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Map(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    quote(key, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// The same for code that knows serde; a number that has no such value becomes its spelling.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.valued(&|_| true)
    }

    /// The same for comparing: a number becomes its spelling also when another one would have the same value.
    #[must_use]
    pub fn to_exact_value(&self) -> Value {
        self.valued(&is_exact)
    }

    fn valued(&self, has_value: &impl Fn(&str) -> bool) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(spelled) => {
                let value = serde_json::from_str(spelled).ok().filter(|_| has_value(spelled));
                value.unwrap_or_else(|| Value::String((*spelled).to_owned()))
            }
            Self::Text(text) => Value::String(text.clone().into_owned()),
            Self::List(items) => items.iter().map(|item| item.valued(has_value)).collect(),
            Self::Map(members) => {
                let pair =
                    |(key, value): &(Cow<'l, str>, Self)| (key.clone().into_owned(), value.valued(has_value));
                members.iter().map(pair).collect()
            }
        }
    }
}

/// Digits that floating point keeps.
const KEPT_DIGITS: usize = 15;

/// Whether no other number has the value that a number gets.
fn is_exact(spelled: &str) -> bool {
    if spelled.parse::<i64>().is_ok() || spelled.parse::<u64>().is_ok() {
        return true;
    }
    let digits = spelled.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let few = digits.trim_start_matches('0').len() <= KEPT_DIGITS;
    let zero = digits.bytes().all(|digit| digit == b'0');
    // What is written into a lock file must be the same when it is read again.
    let again = |value: f64| serde_json::from_str(&Value::from(value).to_string()).ok() == Some(value);
    few && serde_json::from_str::<f64>(spelled).is_ok_and(|value| again(value) && (zero || value.is_normal()))
}

fn build<'l>(scanner: &mut Scanner<'l>, depth: usize, level: usize) -> Result<Json<'l>, Fault> {
    match scanner.peek() {
        Some(b'{') => {
            let mut members: Vec<(Cow<'l, str>, Json<'l>)> = Vec::new();
            scanner.members(depth, |scanner, key| {
                let key = no_prototype(key.decode()?)?;
                members.push((key, build(scanner, depth + 1, level + 1)?));
                Ok(())
            })?;
            unique(members.iter().map(|(key, _)| key.as_ref()), level < FOLDED)?;
            Ok(Json::Map(members))
        }
        Some(b'[') => {
            let mut items = Vec::new();
            scanner.items(depth, |scanner| {
                items.push(build(scanner, depth + 1, level)?);
                Ok(())
            })?;
            Ok(Json::List(items))
        }
        Some(b'"') => Ok(Json::Text(scanner.string()?.decode()?)),
        _ => Ok(match scanner.scalar()? {
            "null" => Json::Null,
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            number => Json::Number(number),
        }),
    }
}

/// A key, unless it is the one by which some readers give a map keys that it does not have.
pub(super) fn no_prototype(key: Cow<'_, str>) -> Result<Cow<'_, str>, Fault> {
    if key == "__proto__" { Err(Fault::Prototype) } else { Ok(key) }
}

/// Up to so many keys it is quicker to compare each with each.
const FEW: usize = 8;

/// No key twice, nor, when `folded`, in another spelling.
pub(super) fn unique<'k>(
    keys: impl ExactSizeIterator<Item = &'k str> + Clone,
    folded: bool,
) -> Result<(), Fault> {
    if keys.len() <= FEW {
        // Most keys are spelled as they are compared, and differ then if they differ at all.
        let folded = folded && !keys.clone().all(|key| matches!(fold(key), Cow::Borrowed(_)));
        let same = |one: &str, other: &str| one == other || folded && fold(one) == fold(other);
        let before = |index| keys.clone().take(index);
        let twice = keys.clone().enumerate().find(|(index, key)| before(*index).any(|one| same(one, key)));
        return twice.map_or(Ok(()), |(_, key)| Err(Fault::Duplicate(key.to_owned())));
    }
    let mut seen: HashSet<Cow<'k, str>> = HashSet::with_capacity(keys.len());
    for key in keys {
        if !seen.insert(if folded { fold(key) } else { Cow::Borrowed(key) }) {
            return Err(Fault::Duplicate(key.to_owned()));
        }
    }
    Ok(())
}

/// A key of `members` that a careless reader takes for `wanted`, though it is not.
#[must_use]
pub fn lookalike<'m>(members: &'m [(Cow<'_, str>, Json<'_>)], wanted: &str) -> Option<&'m str> {
    let wanted_folded = fold(wanted);
    members.iter().map(|(key, _)| key.as_ref()).find(|key| *key != wanted && fold(key) == wanted_folded)
}

/// A map's text without a member, and without what some reader takes for it; none when it is no map.
#[must_use]
pub fn without_like(map: &str, key: &str) -> Option<String> {
    let tree = Json::read(map).ok()?;
    let wanted = fold(key);
    let kept = tree.members()?.iter().filter(|(name, _)| fold(name) != wanted).cloned().collect();
    let mut out = String::new();
    Json::Map(kept).write(&mut out);
    Some(out)
}

/// A string in quotes, with nothing inside that any reader takes for a line's end.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push('"');
    let mut start = 0;
    for (at, c) in text.char_indices() {
        let plain =
            !matches!(c, '"' | '\\' | '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}');
        if plain {
            continue;
        }
        out.push_str(&text[start..at]);
        start = at + c.len_utf8();
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other => {
                let _ = write!(out, "\\u{:04x}", u32::from(other));
            }
        }
    }
    out.push_str(&text[start..]);
    out.push('"');
}

/// The text of a member of a map, as it stands.
#[must_use]
pub fn raw<'l>(map: &'l str, wanted: &str) -> Option<&'l str> {
    let mut found = None;
    let mut scanner = Scanner::new(map);
    scanner.blanks();
    scanner
        .members(0, |scanner, key| {
            let value = scanner.value(1)?;
            if key.decode()? == wanted {
                found = Some(value);
            }
            Ok(())
        })
        .ok()?;
    found
}

/// A map's text with one member more, or with that member replaced; none when it is no map.
#[must_use]
pub fn with_member(map: &str, key: &str, value: &str) -> Option<String> {
    let mut out = String::with_capacity(map.len() + key.len() + value.len() + 8);
    let mut scanner = Scanner::new(map);
    scanner.blanks();
    out.push('{');
    scanner
        .members(0, |scanner, name| {
            let kept = scanner.value(1)?;
            let name = name.decode()?;
            if name != key {
                quote(&name, &mut out);
                out.push(':');
                out.push_str(kept);
                out.push(',');
            }
            Ok(())
        })
        .ok()?;
    quote(key, &mut out);
    out.push(':');
    out.push_str(value);
    out.push('}');
    Some(out)
}
