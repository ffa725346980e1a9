//! A text with a name, and places in it.
//!
//! Invariant: every [`Span`] is a byte range of the source it came from.

use std::fmt;

/// A byte range of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The range from `start` up to, and without, `end`.
    #[must_use]
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The smallest range that holds both.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A file, line and column, counted from one, for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Place {
    /// The source's name as the user knows it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A text and the name it goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    name: String,
    text: String,
    /// Where each line starts, so that a place is found without reading the text again.
    lines: Box<[usize]>,
}

impl Source {
    /// Names a text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { name: name.into(), text, lines }
    }

    /// The name given to it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All of it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The part a span covers; nothing when the span is not of this source.
    #[must_use]
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Where a byte offset lies.
    #[must_use]
    pub fn place(&self, offset: usize) -> Place {
        let before = floor_boundary(&self.text, offset);
        let line = self.line_of(before.len());
        Place {
            file: self.name.clone(),
            line: line + 1,
            column: before[self.lines[line]..].trim_start_matches('\u{feff}').chars().count() + 1,
        }
    }

    /// The line around a byte offset, without its end, and the offset at which it starts.
    #[must_use]
    pub fn line_at(&self, offset: usize) -> (&str, usize) {
        let line = self.line_of(floor_boundary(&self.text, offset).len());
        let start = self.lines[line];
        let end = self.lines.get(line + 1).map_or(self.text.len(), |next| next - 1);
        (self.text[start..end].trim_end_matches('\r'), start)
    }

    /// The number of the line that holds an offset, from 0.
    fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset).saturating_sub(1)
    }
}

/// The text up to `offset`, moved back to a character boundary.
fn floor_boundary(text: &str, offset: usize) -> &str {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let source = Source::new("a.md", "é: 1\nbü: 2\n");
        assert_eq!(source.place(0).to_string(), "a.md:1:1");
        assert_eq!(source.place(9).to_string(), "a.md:2:3");
    }

    #[test]
    fn a_line_is_found_without_its_carriage_return() {
        let source = Source::new("a.md", "one\r\ntwo\r\n");
        assert_eq!(source.line_at(6), ("two", 5));
    }

    #[test]
    fn an_offset_past_the_end_is_the_end() {
        assert_eq!(Source::new("x", "ab").place(99).column, 3);
    }
}
