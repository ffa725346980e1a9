//! Here-documents: what ends one, and its body.
//!
//! Where shells differ about the end, the text is refused: what one takes for data the other runs.

use super::scan::{Parsed, Scanner};
use super::syntax::{Piece, Word};
use super::tree::fill_in_pieces;
use crate::text::Span;

/// Marks a word that stands for the body of a here-document; NUL is refused in texts.
pub(super) const SLOT: char = '\0';

/// A here-document whose body has not come yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    delimiter: String,
    strip_tabs: bool,
    quoted: bool,
    slot: usize,
}

impl<'t> Scanner<'t> {
    /// Notes a here-document; its slot stands for the body until that was read.
    pub(super) fn here_document(&mut self, written: &str, span: Span, strip_tabs: bool) -> Parsed<Word> {
        let (delimiter, quoted) = delimiter(written)
            .ok_or_else(|| self.error("shells differ about the end of a here-document that is written so"))?;
        let slot = self.bodies.len();
        self.bodies.push(Word::default());
        self.pending.push(Pending { delimiter, strip_tabs, quoted, slot });
        Ok(Word { pieces: vec![Piece::Bare(format!("{SLOT}{slot}"))], span })
    }

    /// A line end, and the here-documents that begin after it.
    pub(super) fn newline(&mut self) -> Parsed<()> {
        self.advance(1)?;
        for pending in std::mem::take(&mut self.pending) {
            let start = self.at;
            let body = self.body(&pending)?;
            let span = self.span_from(start);
            let pieces = if pending.quoted {
                vec![Piece::Quoted(body)]
            } else {
                // Read on its own: quotes mean nothing in it, substitutions do.
                let mut inner = Scanner::new(&body, self.depth, Some(span))?;
                let mut pieces = inner.nested(|inner| inner.double_quoted(None))?;
                fill_in_pieces(&mut pieces, &inner.bodies);
                pieces
            };
            if let Some(slot) = self.bodies.get_mut(pending.slot) {
                *slot = Word { pieces, span };
            }
        }
        Ok(())
    }

    /// The lines up to the delimiter.
    fn body(&mut self, pending: &Pending) -> Parsed<String> {
        let mut body = String::new();
        while !self.rest().is_empty() {
            let line = self.line()?;
            let line = if pending.strip_tabs { line.trim_start_matches('\t') } else { line };
            if line.trim_end_matches('\n') == pending.delimiter {
                break;
            }
            body.push_str(line);
            // A line that goes on is compared as a whole.
            let (mut whole, mut last) = (line.to_owned(), line);
            while !pending.quoted && goes_on(last) && !self.rest().is_empty() {
                whole.truncate(whole.len() - 2);
                last = self.line()?;
                whole.push_str(last);
                body.push_str(last);
                if whole.trim_end_matches('\n') == pending.delimiter {
                    return Err(self.error("shells differ about whether joined lines end a here-document"));
                }
            }
        }
        Ok(body)
    }

    /// The next line with its end.
    fn line(&mut self) -> Parsed<&'t str> {
        let line = self.rest().split_inclusive('\n').next().unwrap_or_default();
        self.advance(line.len())?;
        Ok(line)
    }
}

/// Whether the line end is escaped.
fn goes_on(line: &str) -> bool {
    let text = line.strip_suffix('\n').unwrap_or("");
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
}

/// The text that ends a body, quotes removed and nothing expanded, and whether there were quotes; none where
/// shells do not agree.
fn delimiter(written: &str) -> Option<(String, bool)> {
    let (mut text, mut quoted) = (String::new(), false);
    let mut open = None;
    let mut chars = written.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, open) {
            ('$', None) if matches!(chars.peek(), Some('\'' | '"')) => return None,
            (quote @ ('\'' | '"'), None) => (open, quoted) = (Some(quote), true),
            (quote, Some(open_quote)) if quote == open_quote => open = None,
            ('\\', None) => {
                quoted = true;
                text.extend(chars.next().filter(|c| *c != '\n'));
            }
            ('\\', Some('"')) => match chars.next() {
                Some('\n') => {}
                Some(c @ ('$' | '`' | '"' | '\\')) => text.push(c),
                other => text.extend(std::iter::once('\\').chain(other)),
            },
            (c, _) => text.push(c),
        }
    }
    Some((text, quoted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delimiter_is_what_is_written_without_its_quotes() {
        for (written, text, quoted) in [
            ("E", "E", false),
            ("'E F'", "E F", true),
            ("\"$x\"", "$x", true),
            ("${x}", "${x}", false),
            ("`a b`", "`a b`", false),
            ("\\E", "E", true),
            ("E''", "E", true),
            ("\"a\\\"b\\c\"", "a\"b\\c", true),
        ] {
            assert_eq!(delimiter(written), Some((text.to_owned(), quoted)), "{written}");
        }
        assert_eq!(delimiter("$'E'"), None);
        assert!(goes_on("a\\\n") && !goes_on("a\\\\\n") && !goes_on("a\n") && !goes_on("a\\"));
    }
}
