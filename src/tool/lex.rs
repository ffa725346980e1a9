//! The words and operators of a shell line, as far as it takes to know where a value would land.
//!
//! Answers for reading a line that has placeholders, strictly: what cannot be read with certainty is refused.
//! It leaves what the commands do with their words to `evaluate`.
//! Invariant: a placeholder that is returned stands in a word, outside quotes and everything that expands.

use super::problem::ToolCode;
use super::template::{Syntax, placeholders};
use std::ops::Range;

/// A refusal: what kind, where, and why.
pub(super) type Refused = (ToolCode, Range<usize>, String);

/// A word of the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) span: Range<usize>,
    /// Its text with quotes taken off, up to the first part that is not literal.
    pub(super) literal: String,
    /// Whether it is nothing but literal text.
    pub(super) is_literal: bool,
    /// Placeholders in it, and whether the first stands at its very start.
    pub(super) values: Vec<(Range<usize>, String)>,
}

impl Word {
    /// Whether a value begins the word.
    pub(super) fn leading_value(&self) -> Option<&str> {
        self.values.first().filter(|(range, _)| range.start == self.span.start).map(|(_, name)| name.as_str())
    }
}

/// A piece of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Word(Word),
    /// `;`, `|`, `>` and the like; a new line is one too.
    Operator(&'static str, Range<usize>),
}

const OPERATORS: &[&str] = &[
    "<<<", "<<-", "&>>", ";;&", "&&", "||", ";;", ";&", "|&", ">>", ">|", ">&", "<&", "<>", "<<", "&>", ";",
    "|", "&", "(", ")", "<", ">", "\n",
];

/// Reads a line.
pub(super) fn lex(text: &str) -> Result<Vec<Piece>, Refused> {
    let mut reader = Reader { text, at: 0, holes: placeholders(text, Syntax::Dollar) };
    let mut pieces = Vec::new();
    while let Some(next) = reader.peek() {
        match next {
            ' ' | '\t' => reader.at += 1,
            '\r' => return Err(reader.odd(reader.at..reader.at + 1, "a carriage return")),
            '\\' if reader.rest().starts_with("\\\n") => reader.at += 2,
            '#' => reader.comment()?,
            _ => match OPERATORS.iter().find(|operator| reader.rest().starts_with(**operator)) {
                Some(operator) => pieces.push(reader.operator(operator)?),
                None => pieces.push(Piece::Word(reader.word()?)),
            },
        }
    }
    Ok(pieces)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    holes: Vec<(Range<usize>, &'a str)>,
}

/// How deep substitutions may nest.
const MAX_DEPTH: usize = 8;

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn odd(&self, span: Range<usize>, what: &str) -> Refused {
        let message =
            format!("a line with placeholders cannot have {what}: it could not be read with certainty");
        (ToolCode::PlaceholderInsideQuotes, span, message)
    }

    /// Refuses placeholders within a range.
    fn closed(&self, range: Range<usize>, what: &str) -> Result<(), Refused> {
        let inside = |hole: &&(Range<usize>, &str)| hole.0.start < range.end && range.start < hole.0.end;
        match self.holes.iter().find(inside) {
            None => Ok(()),
            Some((span, name)) => Err((
                ToolCode::PlaceholderInsideQuotes,
                span.clone(),
                format!("the placeholder ${{{name}}} stands in {what}, where the shell would read its value"),
            )),
        }
    }

    fn comment(&mut self) -> Result<(), Refused> {
        let end = self.rest().find('\n').map_or(self.text.len(), |at| self.at + at);
        self.closed(self.at..end, "a comment")?;
        self.at = end;
        Ok(())
    }

    fn operator(&mut self, operator: &'static str) -> Result<Piece, Refused> {
        let span = self.at..self.at + operator.len();
        self.at = span.end;
        match operator {
            "<<" | "<<-" => return Err(self.odd(span, "a here-document")),
            "<" | ">" if self.rest().starts_with('(') => return Err(self.odd(span, "a process substitution")),
            "(" if self.rest().starts_with('(') => return Err(self.odd(span, "arithmetic")),
            "<&" | ">&" if self.rest().trim_start().starts_with("${") => {
                return Err(self.odd(span, "a descriptor from a value"));
            }
            _ => {}
        }
        Ok(Piece::Operator(operator, span))
    }

    fn word(&mut self) -> Result<Word, Refused> {
        let mut word = Word { span: self.at..self.at, is_literal: true, ..Word::default() };
        while let Some(next) = self.peek() {
            let ends = matches!(next, ' ' | '\t' | '\n' | '\r' | ';' | '|' | '&' | '(' | ')' | '<' | '>');
            if ends {
                break;
            }
            match next {
                '\'' => self.single(&mut word)?,
                '"' => self.double(&mut word)?,
                '`' => self.expansion(&mut word, "backquotes", |reader| reader.backquoted())?,
                '$' => self.dollar(&mut word)?,
                '\\' => self.escaped(&mut word)?,
                plain => {
                    if word.is_literal {
                        word.literal.push(plain);
                    }
                    self.at += plain.len_utf8();
                }
            }
        }
        word.span.end = self.at;
        Ok(word)
    }

    fn single(&mut self, word: &mut Word) -> Result<(), Refused> {
        let start = self.at;
        let inner = start + 1;
        let Some(length) = self.text[inner..].find('\'') else {
            self.closed(start..self.text.len(), "quotes")?;
            return Err(self.odd(start..inner, "a quote that is not closed"));
        };
        self.closed(inner..inner + length, "quotes")?;
        if word.is_literal {
            word.literal.push_str(&self.text[inner..inner + length]);
        }
        self.at = inner + length + 1;
        Ok(())
    }

    fn double(&mut self, word: &mut Word) -> Result<(), Refused> {
        let start = self.at;
        let end = self.double_end(start, 0)?;
        self.closed(start..end, "quotes")?;
        let inner = &self.text[start + 1..end - 1];
        if inner.contains(['$', '`']) {
            self.no_parameters(start..end)?;
            word.is_literal = false;
        } else if word.is_literal {
            word.literal.push_str(&inner.replace("\\\n", "").replace("\\\"", "\"").replace("\\\\", "\\"));
        }
        self.at = end;
        Ok(())
    }

    /// One past the closing double quote.
    fn double_end(&self, start: usize, depth: usize) -> Result<usize, Refused> {
        let mut at = start + 1;
        while let Some(next) = self.text[at..].chars().next() {
            match next {
                '"' => return Ok(at + 1),
                '\\' => at += 1 + self.text[at + 1..].chars().next().map_or(0, char::len_utf8),
                '`' => at = self.backquote_end(at)?,
                '$' if self.text[at..].starts_with("$(") => at = self.parenthesis_end(at + 1, depth + 1)?,
                '$' if self.text[at..].starts_with("${") => at = self.brace_end(at + 1, depth + 1)?,
                other => at += other.len_utf8(),
            }
        }
        self.closed(start..self.text.len(), "quotes")?;
        Err(self.odd(start..start + 1, "a quote that is not closed"))
    }

    fn backquote_end(&self, start: usize) -> Result<usize, Refused> {
        let mut at = start + 1;
        while let Some(next) = self.text[at..].chars().next() {
            match next {
                '`' => return Ok(at + 1),
                '\\' => at += 1 + self.text[at + 1..].chars().next().map_or(0, char::len_utf8),
                other => at += other.len_utf8(),
            }
        }
        self.closed(start..self.text.len(), "backquotes")?;
        Err(self.odd(start..start + 1, "a backquote that is not closed"))
    }

    fn backquoted(&self) -> Result<usize, Refused> {
        self.backquote_end(self.at)
    }

    /// One past the `)` that closes the `(` at `start`.
    fn parenthesis_end(&self, start: usize, depth: usize) -> Result<usize, Refused> {
        self.nested_end(start, '(', ')', depth)
    }

    fn brace_end(&self, start: usize, depth: usize) -> Result<usize, Refused> {
        self.nested_end(start, '{', '}', depth)
    }

    fn nested_end(&self, start: usize, open: char, close: char, depth: usize) -> Result<usize, Refused> {
        let unclosed = || self.odd(start..start + 1, "a substitution that is not closed");
        if depth > MAX_DEPTH {
            return Err(self.odd(start..start + 1, "substitutions this deep"));
        }
        let mut level = 0usize;
        let mut at = start;
        while let Some(next) = self.text[at..].chars().next() {
            match next {
                '\'' => at = self.text[at + 1..].find('\'').map(|end| at + end + 2).ok_or_else(unclosed)?,
                '"' => at = self.double_end(at, depth + 1)?,
                '`' => at = self.backquote_end(at)?,
                '\\' => at += 1 + self.text[at + 1..].chars().next().map_or(0, char::len_utf8),
                '#' if open == '(' => return Err(self.odd(at..at + 1, "a `#` inside a substitution")),
                other => {
                    if other == open {
                        level += 1;
                    } else if other == close {
                        level -= 1;
                        if level == 0 {
                            return Ok(at + close.len_utf8());
                        }
                    }
                    at += other.len_utf8();
                }
            }
        }
        self.closed(start..self.text.len(), "a substitution")?;
        Err(unclosed())
    }

    /// Consumes something that the shell expands; no placeholder may stand in it.
    fn expansion(
        &mut self,
        word: &mut Word,
        what: &str,
        end: impl FnOnce(&Self) -> Result<usize, Refused>,
    ) -> Result<(), Refused> {
        let start = self.at;
        let end = end(self)?;
        self.closed(start..end, what)?;
        self.no_parameters(start..end)?;
        // Unbalanced parentheses of `case`, and code that is read anew, are not followed in here.
        let inner = &self.text[start..end];
        let mut words = inner.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if let Some(odd) = words.find(|word| matches!(*word, "case" | "eval" | "source" | "set" | "shift")) {
            return Err(self.odd(start..end, &format!("`{odd}` inside a substitution")));
        }
        word.is_literal = false;
        self.at = end;
        Ok(())
    }

    fn dollar(&mut self, word: &mut Word) -> Result<(), Refused> {
        let start = self.at;
        if let Some((range, name)) = self.holes.iter().find(|(range, _)| range.start == start) {
            word.values.push((range.clone(), (*name).to_owned()));
            word.is_literal = false;
            self.at = range.end;
            return Ok(());
        }
        let rest = self.rest();
        if rest.starts_with("$((") || rest.starts_with("$[") {
            self.closed(start..self.text.len(), "arithmetic")?;
            return Err(self.odd(start..start + 2, "arithmetic"));
        }
        if rest.starts_with("$(") {
            return self
                .expansion(word, "a command substitution", |reader| reader.parenthesis_end(start + 1, 1));
        }
        if rest.starts_with("${") {
            self.brace_end(start + 1, 1).and_then(|end| self.closed(start..end, "an expansion"))?;
            return Err(
                self.odd(start..start + 2, "`${…}` that is no placeholder (write $NAME for a variable)")
            );
        }
        if rest.starts_with("$'") || rest.starts_with("$\"") {
            self.closed(start..self.text.len(), "quotes")?;
            return Err(self.odd(start..start + 2, "quotes after `$`"));
        }
        let name = rest[1..].chars().next();
        let length = match name {
            Some(first) if first.is_ascii_alphabetic() || first == '_' => {
                rest[1..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len() - 1)
            }
            Some('$') => {
                // `$${x}` looks like a placeholder, and is the process number followed by `{x}`.
                self.closed(start + 1..start + 3, "an expansion")?;
                1
            }
            Some('?' | '!' | '-' | '0'..='9' | '@' | '*' | '#') => 1,
            _ => 0,
        };
        self.no_parameters(start..start + 1 + length)?;
        if length == 0 && word.is_literal {
            word.literal.push('$');
        }
        word.is_literal &= length == 0;
        self.at = start + 1 + length;
        Ok(())
    }

    /// The values are the shell's parameters; a line that uses those by number would see them unquoted.
    fn no_parameters(&self, range: Range<usize>) -> Result<(), Refused> {
        let text = &self.text[range.clone()];
        let numbered = |at: usize| {
            let after = text[at + 1..].trim_start_matches('{');
            after.starts_with(|c: char| c.is_ascii_digit() && c != '0' || matches!(c, '@' | '*' | '#'))
        };
        match text.match_indices('$').find(|(at, _)| numbered(*at)) {
            Some(_) => Err(self.odd(range, "`$1`, `$@` and the like, which are its values")),
            None => Ok(()),
        }
    }

    fn escaped(&mut self, word: &mut Word) -> Result<(), Refused> {
        let start = self.at;
        let next = self.text[start + 1..].chars().next();
        match next {
            None => return Err(self.odd(start..start + 1, "a backslash at its end")),
            Some('\n') => {}
            Some(next) => {
                self.closed(start..start + 1 + next.len_utf8(), "text after a backslash")?;
                if word.is_literal {
                    word.literal.push(next);
                }
            }
        }
        self.at = start + 1 + next.map_or(0, char::len_utf8);
        Ok(())
    }
}
