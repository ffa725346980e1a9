//! Arguments with placeholders.
//!
//! Invariant: one element of a template is one argument, whatever the values hold.

use std::ops::Range;

/// How placeholders are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// `${name}`
    Dollar,
    /// `{{name}}`, blanks inside allowed.
    Braces,
}

/// One argument: text and placeholders in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

/// A part of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// As written.
    Text(String),
    /// The value of this parameter.
    Value(String),
}

/// The placeholders of a text, each with its place.
pub(super) fn placeholders(text: &str, syntax: Syntax) -> Vec<(Range<usize>, &str)> {
    let (open, close) = match syntax {
        Syntax::Dollar => ("${", "}"),
        Syntax::Braces => ("{{", "}}"),
    };
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find(open).map(|at| from + at) {
        let inner = start + open.len();
        let Some(end) = text[inner..].find(close).map(|at| inner + at) else { break };
        let name = match syntax {
            Syntax::Dollar => &text[inner..end],
            Syntax::Braces => text[inner..end].trim(),
        };
        if is_name(name, syntax) {
            found.push((start..end + close.len(), name));
            from = end + close.len();
        } else {
            from = inner;
        }
    }
    found
}

/// Whether a parameter can be named so.
pub(super) fn is_name(name: &str, syntax: Syntax) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let rest = |c: char| first(c) || c.is_ascii_digit() || (c == '-' && syntax == Syntax::Braces);
    name.len() <= 64 && name.starts_with(first) && name.chars().all(rest)
}

impl Template {
    /// Reads one argument.
    #[must_use]
    pub fn parse(text: &str, syntax: Syntax) -> Self {
        let mut pieces = Vec::new();
        let mut from = 0;
        for (range, name) in placeholders(text, syntax) {
            if range.start > from {
                pieces.push(Piece::Text(text[from..range.start].to_owned()));
            }
            pieces.push(Piece::Value(name.to_owned()));
            from = range.end;
        }
        if from < text.len() || pieces.is_empty() {
            pieces.push(Piece::Text(text[from..].to_owned()));
        }
        Self { pieces }
    }

    /// Its parts.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The parameters it names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The text it is when it names no parameter.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The parameter whose value comes first in the argument.
    #[must_use]
    pub fn leading(&self) -> Option<&str> {
        match self.pieces.first() {
            Some(Piece::Value(name)) => Some(name),
            Some(Piece::Text(_)) | None => None,
        }
    }

    /// The argument, with what `value` says for each parameter.
    pub fn fill<E>(&self, mut value: impl FnMut(&str) -> Result<String, E>) -> Result<String, E> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Value(name) => filled.push_str(&value(name)?),
            }
        }
        Ok(filled)
    }

    /// As the token of a command pattern: `*` for each value; none where no token says it.
    #[must_use]
    pub fn pattern(&self) -> Option<String> {
        let mut token = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) if text.chars().any(|c| c.is_whitespace() || c.is_control()) => {
                    return None;
                }
                Piece::Text(text) if text.contains(['*', '?', '[', '\\', ',', '"', '{', '}', ']']) => {
                    return None;
                }
                Piece::Text(text) => token.push_str(text),
                Piece::Value(_) => token.push('*'),
            }
        }
        (!token.is_empty()).then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, syntax: Syntax) -> Vec<&str> {
        placeholders(text, syntax).into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn what_is_no_placeholder_is_text() {
        assert_eq!(names("${a}${b_1} $a ${ ${x", Syntax::Dollar), ["a", "b_1"]);
        assert_eq!(names("${a-b} ${1} ${}", Syntax::Dollar), [""; 0]);
        assert_eq!(names("$${a} ${${b}", Syntax::Dollar), ["a", "b"]);
        assert_eq!(names("{{ a }}-{{b-c}} {{ }} {{x", Syntax::Braces), ["a", "b-c"]);
    }

    #[test]
    fn one_element_is_one_argument() {
        let template = Template::parse("--x=${n}!", Syntax::Dollar);
        assert_eq!(template.fill::<()>(|_| Ok("1 2".to_owned())), Ok("--x=1 2!".to_owned()));
        assert_eq!(template.pattern().as_deref(), Some("--x=*!"));
        assert_eq!(Template::parse("a b", Syntax::Dollar).pattern(), None);
    }
}
