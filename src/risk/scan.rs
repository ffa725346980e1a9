//! Words: quotes, escapes, parameters, substitutions. The grammar above words is [`parse`](super::parse)'s.
//!
//! Invariant: every step forward costs fuel and every nesting costs depth, so no input takes longer than
//! its length allows or reaches deeper than the stack does.

use super::heredoc::Pending;
use super::syntax::{List, Param, Piece, Word};
use crate::text::Span;

/// The longest text that is read.
pub const MAX_BYTES: usize = 64 * 1024;
/// How deep constructs may nest.
pub(super) const MAX_DEPTH: usize = 64;
/// Steps per byte; reading again after a wrong guess is rare and shallow in honest text.
const FUEL_PER_BYTE: usize = 24;

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// What is wrong.
    pub message: String,
    /// Where.
    pub span: Span,
}

pub(super) type Parsed<T> = Result<T, SyntaxError>;

/// A place in a text, and what was met on the way there.
#[derive(Debug)]
pub(super) struct Scanner<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) pending: Vec<Pending>,
    /// Bodies of here-documents, in the order of their operators.
    pub(super) bodies: Vec<Word>,
    fuel: usize,
    /// Where a text that is not the one asked about stands in that one.
    origin: Option<Span>,
}

impl<'t> Scanner<'t> {
    /// A scanner; `origin` is the place of a text that was taken out of another one.
    pub(super) fn new(text: &'t str, depth: usize, origin: Option<Span>) -> Parsed<Self> {
        let fuel = text.len().saturating_mul(FUEL_PER_BYTE) + 1024;
        let scanner = Self { text, at: 0, depth, pending: Vec::new(), bodies: Vec::new(), fuel, origin };
        if text.len() > MAX_BYTES {
            return Err(scanner.error_at(0, format!("the text is longer than {} kB", MAX_BYTES / 1024)));
        }
        match text.find('\0') {
            Some(at) => Err(scanner.error_at(at, "there is a NUL character in the text")),
            None => Ok(scanner),
        }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Steps over bytes that are known to be there.
    pub(super) fn advance(&mut self, bytes: usize) -> Parsed<()> {
        self.fuel =
            self.fuel.checked_sub(1).ok_or_else(|| self.error("the text is too tangled to be read"))?;
        self.at = (self.at + bytes).min(self.text.len());
        Ok(())
    }

    pub(super) fn eat(&mut self, token: &str) -> Parsed<bool> {
        let found = self.rest().starts_with(token);
        if found {
            self.advance(token.len())?;
        }
        Ok(found)
    }

    /// Takes one whole character.
    fn take(&mut self) -> Parsed<Option<char>> {
        let next = self.rest().chars().next();
        if let Some(c) = next {
            self.advance(c.len_utf8())?;
        }
        Ok(next)
    }

    /// Where it stands, to come back to after a wrong guess.
    pub(super) fn mark(&self) -> (usize, Vec<Pending>, usize) {
        (self.at, self.pending.clone(), self.bodies.len())
    }

    /// Forgets what was read since a mark, here-documents included; only the fuel is gone.
    pub(super) fn go_back(&mut self, (at, pending, bodies): (usize, Vec<Pending>, usize)) {
        self.at = at;
        self.pending = pending;
        self.bodies.truncate(bodies);
    }

    pub(super) fn span_from(&self, start: usize) -> Span {
        self.origin.unwrap_or_else(|| Span::new(start, self.at.max(start)))
    }

    pub(super) fn origin_of(&self, start: usize) -> Span {
        self.span_from(start)
    }

    pub(super) fn error(&self, message: impl Into<String>) -> SyntaxError {
        self.error_at(self.at, message)
    }

    pub(super) fn error_at(&self, at: usize, message: impl Into<String>) -> SyntaxError {
        let at = at.min(self.text.len());
        let width = self.text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        SyntaxError { message: message.into(), span: self.origin.unwrap_or(Span::new(at, at + width)) }
    }

    /// Goes one level down for the time of `inner`.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error("constructs are nested too deeply"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Blanks, escaped line ends, and a comment where a word could start.
    pub(super) fn skip_blanks(&mut self) -> Parsed<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.advance(1)?,
                Some(b'\\') if self.peek_at(1) == Some(b'\n') => self.advance(2)?,
                Some(b'#') => {
                    let line = self.rest().find('\n').unwrap_or(self.rest().len());
                    self.advance(line)?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Whether a word starts here.
    pub(super) fn at_word(&self) -> bool {
        match self.peek() {
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')') => false,
            Some(b'<' | b'>') => self.peek_at(1) == Some(b'('),
            Some(_) => true,
        }
    }

    /// A word; there must be one here.
    pub(super) fn word(&mut self) -> Parsed<Word> {
        let start = self.at;
        let mut pieces = Pieces::default();
        while self.at_word() {
            self.piece(&mut pieces)?;
        }
        if self.at == start {
            return Err(self.error("a word is missing"));
        }
        Ok(Word { pieces: pieces.done(), span: self.span_from(start) })
    }

    /// One piece outside double quotes.
    pub(super) fn piece(&mut self, pieces: &mut Pieces) -> Parsed<()> {
        match self.peek() {
            Some(b'\\') => {
                self.advance(1)?;
                match self.take()? {
                    Some('\n') => {}
                    Some(c) => pieces.quoted(c),
                    None => pieces.quoted('\\'),
                }
            }
            Some(b'\'') => {
                let text = self.single_quoted()?;
                pieces.push(Piece::Quoted(text));
            }
            Some(b'"') => {
                self.advance(1)?;
                pieces.push(Piece::Quoted(String::new()));
                let inner = self.nested(|scanner| scanner.double_quoted(Some(b'"')))?;
                inner.into_iter().for_each(|piece| pieces.push(piece));
            }
            Some(b'$') if self.peek_at(1) == Some(b'\'') => {
                self.advance(2)?;
                let text = self.ansi_quoted()?;
                pieces.push(Piece::Quoted(text));
            }
            Some(b'$') if self.peek_at(1) == Some(b'"') => self.advance(1)?,
            Some(b'$') => self.dollar(pieces, false)?,
            Some(b'`') => {
                let body = self.backquoted()?;
                pieces.push(Piece::Command { body, quoted: false });
            }
            Some(b'<' | b'>') if self.peek_at(1) == Some(b'(') => {
                let out = self.peek() == Some(b'>');
                self.advance(2)?;
                let body = self.nested(Self::until_close)?;
                pieces.push(Piece::Process { body, out });
            }
            _ => {
                if let Some(c) = self.take()? {
                    pieces.bare(c);
                }
            }
        }
        Ok(())
    }

    fn single_quoted(&mut self) -> Parsed<String> {
        let start = self.at;
        self.advance(1)?;
        let length = self.rest().find('\'').ok_or_else(|| self.error_at(start, "a quote is not closed"))?;
        let text = self.rest().get(..length).unwrap_or_default().to_owned();
        self.advance(length + 1)?;
        Ok(text)
    }

    /// The inside of `$'…'`.
    fn ansi_quoted(&mut self) -> Parsed<String> {
        let start = self.at;
        let mut text = Vec::new();
        loop {
            match self.take()? {
                None => return Err(self.error_at(start, "a quote is not closed")),
                Some('\'') => return Ok(String::from_utf8_lossy(&text).into_owned()),
                Some('\\') => self.ansi_escape(&mut text)?,
                Some(c) => push_char(&mut text, c),
            }
        }
    }

    fn ansi_escape(&mut self, text: &mut Vec<u8>) -> Parsed<()> {
        let Some(c) = self.take()? else { return Ok(()) };
        match c {
            'n' => text.push(b'\n'),
            't' => text.push(b'\t'),
            'r' => text.push(b'\r'),
            'a' | 'b' | 'e' | 'E' | 'f' | 'v' => text.push(0x1b),
            'x' => {
                let code = self.digits(16, 2)?;
                text.push(u8::try_from(code).unwrap_or(b'?'));
            }
            'u' | 'U' => {
                let code = self.digits(16, if c == 'u' { 4 } else { 8 })?;
                push_char(text, char::from_u32(code).unwrap_or('?'));
            }
            'c' => drop(self.take()?),
            '0'..='7' => {
                self.at -= 1;
                let code = self.digits(8, 3)?;
                text.push(u8::try_from(code & 0xff).unwrap_or(b'?'));
            }
            other => push_char(text, other),
        }
        Ok(())
    }

    fn digits(&mut self, radix: u32, most: usize) -> Parsed<u32> {
        let mut code = 0u32;
        for _ in 0..most {
            let Some(digit) = self.rest().chars().next().and_then(|c| c.to_digit(radix)) else { break };
            code = code.wrapping_mul(radix).wrapping_add(digit);
            self.advance(1)?;
        }
        Ok(code)
    }

    /// The inside of double quotes, or of a here-document when nothing closes it.
    pub(super) fn double_quoted(&mut self, close: Option<u8>) -> Parsed<Vec<Piece>> {
        let start = self.at;
        let mut pieces = Pieces::default();
        loop {
            match self.peek() {
                None if close.is_none() => return Ok(pieces.done()),
                None => return Err(self.error_at(start.saturating_sub(1), "a quote is not closed")),
                Some(byte) if Some(byte) == close => {
                    self.advance(1)?;
                    return Ok(pieces.done());
                }
                Some(b'\\') => {
                    self.advance(1)?;
                    match self.take()? {
                        Some('\n') => {}
                        Some(c @ ('$' | '`' | '\\')) => pieces.quoted(c),
                        Some('"') if close.is_some() => pieces.quoted('"'),
                        Some(c) => {
                            pieces.quoted('\\');
                            pieces.quoted(c);
                        }
                        None => pieces.quoted('\\'),
                    }
                }
                Some(b'$') => self.dollar(&mut pieces, true)?,
                Some(b'`') => {
                    let body = self.backquoted()?;
                    pieces.push(Piece::Command { body, quoted: true });
                }
                Some(_) => {
                    if let Some(c) = self.take()? {
                        pieces.quoted(c);
                    }
                }
            }
        }
    }

    fn dollar(&mut self, pieces: &mut Pieces, quoted: bool) -> Parsed<()> {
        self.advance(1)?;
        let rest = self.rest();
        if rest.starts_with("((") {
            let before = self.mark();
            self.advance(2)?;
            match self.nested(Self::arithmetic) {
                Ok(inner) => {
                    pieces.push(Piece::Arithmetic(inner));
                    return Ok(());
                }
                Err(_) => self.go_back(before),
            }
        }
        match self.peek() {
            Some(b'(') => {
                self.advance(1)?;
                let body = self.nested(Self::until_close)?;
                pieces.push(Piece::Command { body, quoted });
            }
            Some(b'{') => {
                self.advance(1)?;
                let param = self.nested(|scanner| scanner.braced(quoted))?;
                pieces.push(Piece::Param(param));
            }
            Some(b'[') => {
                self.advance(1)?;
                let inner = self.nested(|scanner| scanner.pieces_until(b']', true))?;
                pieces.push(Piece::Arithmetic(inner));
            }
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => {
                let name = self.name();
                self.advance(name.len())?;
                pieces.push(Piece::Param(Param::plain(name, quoted)));
            }
            Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => {
                let name = self.take()?.map(String::from).unwrap_or_default();
                pieces.push(Piece::Param(Param::plain(&name, quoted)));
            }
            _ if quoted => pieces.quoted('$'),
            _ => pieces.bare('$'),
        }
        Ok(())
    }

    /// The name that starts here.
    pub(super) fn name(&self) -> &'t str {
        let rest = self.rest();
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            ""
        } else {
            rest.get(..length).unwrap_or_default()
        }
    }

    /// The inside of `${…}`.
    fn braced(&mut self, quoted: bool) -> Parsed<Param> {
        let start = self.at;
        let mut op = "";
        if self.peek_at(1) != Some(b'}') {
            if self.eat("!")? {
                op = "!";
            } else if self.peek() == Some(b'#') && self.peek_at(1).is_some_and(|byte| byte != b'}') {
                self.advance(1)?;
                op = "length";
            }
        }
        let mut name = self.name().to_owned();
        if name.is_empty() {
            let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
            name = self.rest().get(..digits).unwrap_or_default().to_owned();
        }
        if name.is_empty() {
            match self.peek() {
                Some(byte @ (b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!')) => {
                    name = char::from(byte).to_string();
                }
                _ => return Err(self.error_at(start, "`${` is not followed by a name")),
            }
        }
        self.advance(name.len())?;
        let mut index = None;
        if self.eat("[")? {
            let length = self.rest().find(']').ok_or_else(|| self.error_at(start, "`[` is not closed"))?;
            let inside = self.rest().get(..length).unwrap_or_default();
            if inside.contains(['`', '$']) {
                // An index is computed, and what computes it runs.
                let word = self.nested(|scanner| scanner.pieces_until(b']', true))?;
                let rest = self.pieces_until(b'}', quoted)?;
                let word = word.into_iter().chain(rest).collect();
                return Ok(Param { name, index: Some(String::new()), op: "?index", word, quoted });
            }
            index = Some(inside.to_owned());
            self.advance(length + 1)?;
        }
        if op.is_empty() {
            op = self.param_op()?;
        }
        let word = self.pieces_until(b'}', quoted)?;
        Ok(Param { name, index, op, word, quoted })
    }

    fn param_op(&mut self) -> Parsed<&'static str> {
        const OPS: &[&str] = &[
            ":-", ":=", ":?", ":+", "##", "%%", "//", "/#", "/%", "^^", ",,", "-", "=", "?", "+", "#", "%",
            "/", "^", ",", "@", ":",
        ];
        for op in OPS {
            if self.eat(op)? {
                return Ok(op);
            }
        }
        Ok("")
    }

    /// Pieces up to a closing byte, which is taken.
    pub(super) fn pieces_until(&mut self, close: u8, quoted: bool) -> Parsed<Vec<Piece>> {
        let start = self.at;
        let mut pieces = Pieces::default();
        loop {
            match self.peek() {
                None => {
                    let message = format!("`{}` is missing", char::from(close));
                    return Err(self.error_at(start.saturating_sub(1), message));
                }
                Some(byte) if byte == close => {
                    self.advance(1)?;
                    return Ok(pieces.done());
                }
                Some(b'\'') if quoted => {
                    self.advance(1)?;
                    pieces.quoted('\'');
                }
                Some(b'<' | b'>' | b'\n' | b' ' | b'(' | b')') => {
                    if let Some(c) = self.take()? {
                        pieces.bare(c);
                    }
                }
                Some(_) => self.piece(&mut pieces)?,
            }
        }
    }

    /// The inside of `$((…))` or `((…))`, up to `))`.
    pub(super) fn arithmetic(&mut self) -> Parsed<Vec<Piece>> {
        let start = self.at;
        let mut pieces = Pieces::default();
        let mut open = 0usize;
        loop {
            match self.peek() {
                None => return Err(self.error_at(start, "`((` is not closed")),
                Some(b')') if open == 0 => {
                    if self.peek_at(1) != Some(b')') {
                        return Err(self.error("this is not arithmetic"));
                    }
                    self.advance(2)?;
                    return Ok(pieces.done());
                }
                Some(byte @ (b'(' | b')')) => {
                    if byte == b'(' {
                        open += 1
                    } else {
                        open -= 1
                    }
                    self.advance(1)?;
                    pieces.bare(char::from(byte));
                }
                Some(b'<' | b'>' | b'#') => {
                    if let Some(c) = self.take()? {
                        pieces.bare(c);
                    }
                }
                Some(_) => self.piece(&mut pieces)?,
            }
        }
    }

    /// The inside of backquotes, which is unescaped before it is read.
    fn backquoted(&mut self) -> Parsed<List> {
        let start = self.at;
        self.advance(1)?;
        let mut inner = String::new();
        loop {
            match self.take()? {
                None => return Err(self.error_at(start, "a backquote is not closed")),
                Some('`') => break,
                Some('\\') => match self.take()? {
                    Some(c @ ('`' | '\\' | '$')) => inner.push(c),
                    Some(c) => inner.extend(['\\', c]),
                    None => inner.push('\\'),
                },
                Some(c) => inner.push(c),
            }
        }
        let span = self.origin_of(start);
        self.nested(|scanner| super::parse::parse_nested(&inner, scanner.depth, Some(span)))
    }
}

impl Param {
    fn plain(name: &str, quoted: bool) -> Self {
        Self { name: name.to_owned(), index: None, op: "", word: Vec::new(), quoted }
    }
}

/// Pieces being gathered; neighbours of one kind are joined.
#[derive(Debug, Default)]
pub(super) struct Pieces(Vec<Piece>);

impl Pieces {
    pub(super) fn bare(&mut self, c: char) {
        match self.0.last_mut() {
            Some(Piece::Bare(text)) => text.push(c),
            _ => self.0.push(Piece::Bare(c.into())),
        }
    }

    pub(super) fn quoted(&mut self, c: char) {
        match self.0.last_mut() {
            Some(Piece::Quoted(text)) => text.push(c),
            _ => self.0.push(Piece::Quoted(c.into())),
        }
    }

    pub(super) fn push(&mut self, piece: Piece) {
        match (self.0.last_mut(), piece) {
            (Some(Piece::Quoted(text)), Piece::Quoted(more)) => text.push_str(&more),
            (_, piece) => self.0.push(piece),
        }
    }

    pub(super) fn done(self) -> Vec<Piece> {
        self.0
    }
}

fn push_char(text: &mut Vec<u8>, c: char) {
    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}
