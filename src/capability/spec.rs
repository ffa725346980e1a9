//! The compact form: `net.get{hosts=[*.github.com,api.x.dev]}`, read and printed.
//!
//! Invariant: what [`Spec`] prints, [`Spec::parse`] reads back to the same value.

use super::{Capability, RawScope, RawValue, Scope, ScopeValue};
use crate::text::{Code, Problem, Severity, Source, Span, render_all};
use std::fmt;

/// A capability with its scope, as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spec {
    /// Which capability.
    pub capability: Capability,
    /// How it is narrowed.
    pub scope: Scope,
}

/// Why a compact spec could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", render_all(problems, written))]
pub struct SpecError {
    written: Source,
    problems: Vec<Problem>,
}

impl SpecError {
    /// Wraps what is wrong with a spec that was given on its own.
    #[must_use]
    pub fn new(text: &str, mut problems: Vec<Problem>) -> Self {
        for problem in &mut problems {
            problem.severity = Severity::Error;
        }
        Self { written: Source::new("spec", text), problems }
    }

    /// What is wrong, with places in the spec's own text.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The spec as it was given.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.written
    }
}

impl Spec {
    /// Reads one compact spec.
    ///
    /// ```
    /// # use sbx::capability::Spec;
    /// let spec = Spec::parse("net.get{ hosts = [ a.com , b.com ] }")?;
    /// assert_eq!(spec.to_string(), "net.get{hosts=[a.com,b.com]}");
    /// # Ok::<(), sbx::capability::SpecError>(())
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with it, with places.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        Self::read(text).map_err(|problems| SpecError::new(text, problems))
    }

    /// Like [`Spec::parse`], with spans relative to `text`.
    pub(crate) fn read(text: &str) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader { text, at: 0 };
        let (name, name_span) = reader.name();
        if name.is_empty() {
            return Err(vec![
                Problem::warning(Code::SpecEmpty, "the spec is empty").at(Span::new(0, text.len())),
            ]);
        }
        let capability = Self::capability(name, name_span)?;
        let raw = reader.scope().map_err(|problem| vec![problem])?;
        Ok(Self { capability, scope: Scope::check(capability, raw)? })
    }

    /// Looks a capability name up, with the problem that a wrong one is.
    pub(crate) fn capability(name: &str, span: Span) -> Result<Capability, Vec<Problem>> {
        if let Some(capability) = Capability::from_name(name) {
            return Ok(capability);
        }
        let well_formed = matches!(name.split('.').collect::<Vec<_>>()[..], [resource, verb]
            if !resource.is_empty() && !verb.is_empty());
        let problem = if well_formed {
            Problem::warning(Code::UnknownCapability, format!("there is no capability `{name}`"))
                .help("`sbx schema capabilities` lists all seventeen")
        } else {
            Problem::warning(Code::MalformedCapability, format!("`{name}` is not of the form resource.verb"))
                .help("write, for example, `fs.read`")
        };
        Err(vec![problem.suggest(Capability::closest_name(name)).at(span)])
    }
}

/// Splits a string of specs at blanks and commas outside braces, brackets and quotes.
#[must_use]
pub fn split_list(text: &str) -> Vec<(&str, Span)> {
    let (mut tokens, mut start, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0usize, false, false);
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match c {
            '\\' if quoted => escaped = true,
            '"' if depth > 0 => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth = depth.saturating_sub(1),
            ' ' | '\t' | '\n' | '\r' | ',' if depth == 0 && !quoted => {
                push_token(&mut tokens, text, start, at);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    push_token(&mut tokens, text, start, text.len());
    tokens
}

fn push_token<'a>(tokens: &mut Vec<(&'a str, Span)>, text: &'a str, start: usize, end: usize) {
    if start < end {
        tokens.push((&text[start..end], Span::new(start, end)));
    }
}

/// Reads a spec from left to right; every problem knows its place.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Text up to one of the stop characters, without blanks around it.
    fn word(&mut self, stops: &[char]) -> (&'a str, Span) {
        self.blanks();
        let start = self.at;
        let length = self.rest().find(stops).unwrap_or(self.rest().len());
        let word = self.rest()[..length].trim_end();
        self.at += length;
        (word, Span::new(start, start + word.len()))
    }

    fn name(&mut self) -> (&'a str, Span) {
        self.word(&['{'])
    }

    fn scope(&mut self) -> Result<RawScope, Problem> {
        if !self.eat('{') {
            return Ok(RawScope::new());
        }
        let mut scope = RawScope::new();
        loop {
            let (key, key_span) = self.word(&['=', ',', '}']);
            if self.peek().is_none() {
                return Err(self.unclosed("the scope's `}` is missing"));
            }
            if key.is_empty() || !self.eat('=') {
                return Err(self.bad_pair(key_span));
            }
            if scope.iter().any(|(seen, ..)| seen == key) {
                return Err(
                    Problem::warning(Code::SpecPair, format!("`{key}` is written twice")).at(key_span)
                );
            }
            let start = self.at;
            let value = self.value()?;
            scope.push((key.to_owned(), key_span, value, Span::new(start, self.at)));
            self.blanks();
            if self.eat('}') {
                break;
            }
            if !self.eat(',') {
                return Err(self.unclosed("the scope's `}` is missing"));
            }
        }
        self.blanks();
        if self.rest().is_empty() {
            Ok(scope)
        } else {
            let rest = Span::new(self.at, self.text.len());
            Err(Problem::warning(Code::SpecPair, "there is text after the scope's `}`").at(rest))
        }
    }

    fn value(&mut self) -> Result<RawValue, Problem> {
        self.blanks();
        if !self.eat('[') {
            return self.item(&[',', '}']).map(|text| RawValue::Text(text.unwrap_or_default()));
        }
        let mut items = Vec::new();
        loop {
            if let Some(item) = self.item(&[',', ']'])? {
                items.push(item);
            }
            self.blanks();
            if self.eat(']') {
                return Ok(RawValue::List(items));
            }
            if !self.eat(',') {
                return Err(self.unclosed("the list's `]` is missing"));
            }
        }
    }

    /// One item, quoted or not; an empty one is none.
    fn item(&mut self, stops: &[char]) -> Result<Option<String>, Problem> {
        self.blanks();
        if self.eat('"') {
            return self.quoted().map(Some);
        }
        let (word, _) = self.word(stops);
        Ok((!word.is_empty()).then(|| word.to_owned()))
    }

    fn quoted(&mut self) -> Result<String, Problem> {
        let mut text = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok(text);
                }
                '\\' => text.extend(chars.next().map(|(_, escaped)| escaped)),
                c => text.push(c),
            }
        }
        Err(self.unclosed("a quote is not closed"))
    }

    fn unclosed(&self, message: &str) -> Problem {
        Problem::warning(Code::SpecUnclosed, message).at(Span::new(self.at, self.text.len()))
    }

    fn bad_pair(&self, key_span: Span) -> Problem {
        Problem::warning(Code::SpecPair, "a scope is one or more key=value pairs")
            .at(key_span.to(Span::new(self.at, self.at)))
            .help("write, for example, `fs.read{in=~/work}`; leave `{}` off for a bare capability")
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.capability.name())?;
        if self.scope.is_bare() {
            return Ok(());
        }
        for (index, (key, value)) in self.scope.iter().enumerate() {
            f.write_str(if index == 0 { "{" } else { "," })?;
            write!(f, "{}=", key.name())?;
            match value {
                ScopeValue::Text(text) => write_item(f, text)?,
                ScopeValue::List(items) => {
                    for (index, item) in items.iter().enumerate() {
                        f.write_str(if index == 0 { "[" } else { "," })?;
                        write_item(f, item)?;
                    }
                    f.write_str(if items.is_empty() { "[]" } else { "]" })?;
                }
            }
        }
        f.write_str("}")
    }
}

fn write_item(f: &mut fmt::Formatter<'_>, item: &str) -> fmt::Result {
    let plain = !item.is_empty()
        && item.trim() == item
        && !item.contains(['"', '\\', ',', '[', ']', '{', '}', '='])
        && !item.chars().any(char::is_control);
    if plain {
        return f.write_str(item);
    }
    let escaped = item.replace('\\', "\\\\").replace('"', "\\\"");
    write!(f, "\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Code {
        Spec::parse(text).unwrap_err().problems()[0].code
    }

    #[test]
    fn prints_back_in_stable_key_order() {
        let spec = Spec::parse("proc.exec{cmds=[rg,jq],in=~/Work}").unwrap();
        assert_eq!(spec.to_string(), "proc.exec{in=~/Work,cmds=[rg,jq]}");
    }

    #[test]
    fn quoted_items_hold_reserved_characters() {
        let text = r#"fs.read{in=/w,paths=["a,b","c\"d"]}"#;
        let spec = Spec::parse(text).unwrap();
        assert_eq!(spec.scope.list(crate::capability::ScopeKey::Paths).unwrap(), ["a,b", "c\"d"]);
        assert_eq!(spec.to_string(), text);
    }

    #[test]
    fn each_slip_has_its_own_code() {
        assert_eq!(code(""), Code::SpecEmpty);
        assert_eq!(code("  "), Code::SpecEmpty);
        assert_eq!(code("net.get{hosts=[x]"), Code::SpecUnclosed);
        assert_eq!(code("net.get{hosts=[x"), Code::SpecUnclosed);
        assert_eq!(code("net.get{"), Code::SpecUnclosed);
        assert_eq!(code("net.get{hosts=[\"x]}"), Code::SpecUnclosed);
        assert_eq!(code("net.get{}"), Code::SpecPair);
        assert_eq!(code("net.get{hosts}"), Code::SpecPair);
        assert_eq!(code("net.get{hosts=[a],hosts=[b]}"), Code::SpecPair);
        assert_eq!(code("net.get{hosts=[a]} x"), Code::SpecPair);
        assert_eq!(code("net.get{hosts=a}"), Code::ScopeType);
        assert_eq!(code("net.gte"), Code::UnknownCapability);
        assert_eq!(code("netget"), Code::MalformedCapability);
    }

    #[test]
    fn a_list_of_specs_splits_outside_brackets() {
        let tokens: Vec<&str> = split_list("a.b, c.d{x=[1, 2]}\n e.f").into_iter().map(|(t, _)| t).collect();
        assert_eq!(tokens, ["a.b", "c.d{x=[1, 2]}", "e.f"]);
    }
}
