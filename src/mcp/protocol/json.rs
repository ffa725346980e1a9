//! The grammar of JSON, strictly: what is skipped here is known to be well formed.
//!
//! Stricter than the standard where readers differ: blanks are only spaces and tabs (a carriage return is a line's
//! end to some readers), nesting is bounded, keys hold no half surrogates.
//! Invariant: work is linear in the text and the stack is bounded by [`MAX_DEPTH`].

use std::borrow::Cow;

/// How deep lists and maps may nest; most readers stop near here.
pub(super) const MAX_DEPTH: usize = 128;

/// Why a line cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Bytes that are not UTF-8, which readers replace, drop or refuse.
    #[error("the line is not UTF-8")]
    Encoding,
    /// A byte order mark, which some readers skip and others stumble over.
    #[error("the line starts with a byte order mark")]
    ByteOrderMark,
    /// A control character outside of an escape; a carriage return ends a line for some readers.
    #[error("the line holds a raw control character at byte {0}")]
    Control(usize),
    /// Not JSON.
    #[error("the line is not JSON at byte {0}")]
    Syntax(usize),
    /// Lists or maps within lists or maps without end.
    #[error("the line nests deeper than {MAX_DEPTH} levels")]
    Depth,
    /// Half of a surrogate pair, which readers replace, drop or keep.
    #[error("the line holds half a surrogate pair at byte {0}")]
    Surrogate(usize),
    /// The same key twice, of which some readers take the first and others the last.
    #[error("the key `{0}` stands there twice, or once more in another spelling")]
    Duplicate(String),
    /// A key that some readers take for one of the protocol's.
    #[error("the key `{0}` is not one of the protocol's, but some readers would take it for one")]
    Lookalike(String),
    /// A key by which some readers give a map keys that it does not have.
    #[error("the key `__proto__` gives a map other keys to some readers")]
    Prototype,
    /// A list of messages.
    #[error("batches are not part of the protocol any more")]
    Batch,
    /// Something else than an object.
    #[error("a message is a JSON object")]
    NotObject,
    /// Not a message of JSON-RPC 2.0.
    #[error("{0}")]
    NotMessage(&'static str),
    /// No line end before the end of the stream.
    #[error("the last line is not finished")]
    Unfinished,
    /// More than is taken at once.
    #[error("the line is longer than {0} bytes")]
    TooLong(usize),
}

impl Fault {
    /// The code JSON-RPC has for it.
    #[must_use]
    pub const fn code(&self) -> i64 {
        match self {
            Self::Encoding
            | Self::ByteOrderMark
            | Self::Control(_)
            | Self::Syntax(_)
            | Self::Depth
            | Self::Surrogate(_)
            | Self::Unfinished => super::PARSE_ERROR,
            Self::Duplicate(_)
            | Self::Lookalike(_)
            | Self::Prototype
            | Self::Batch
            | Self::NotObject
            | Self::NotMessage(_)
            | Self::TooLong(_) => super::INVALID_REQUEST,
        }
    }

    /// The stable name of its kind.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Encoding => "encoding",
            Self::ByteOrderMark => "byte_order_mark",
            Self::Control(_) => "control_character",
            Self::Syntax(_) => "syntax",
            Self::Depth => "depth",
            Self::Surrogate(_) => "surrogate",
            Self::Duplicate(_) => "duplicate_key",
            Self::Lookalike(_) => "lookalike_key",
            Self::Prototype => "prototype_key",
            Self::Batch => "batch",
            Self::NotObject => "not_object",
            Self::NotMessage(_) => "not_message",
            Self::Unfinished => "unfinished",
            Self::TooLong(_) => "too_long",
        }
    }
}

/// A place in a text that is being read.
#[derive(Clone, Debug)]
pub(super) struct Scanner<'l> {
    text: &'l str,
    at: usize,
    /// Whether a character was passed that ends a line for some readers though it is legal in a string.
    pub(super) separators: bool,
    /// Whether the ends of lines are blanks.
    lines: bool,
}

/// A string as it stands, without its quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoted<'l> {
    raw: &'l str,
    escaped: bool,
    start: usize,
}

impl<'l> Scanner<'l> {
    pub(super) fn new(text: &'l str) -> Self {
        Self { text, at: 0, separators: false, lines: false }
    }

    /// The same for a text that is not a line of a stream.
    pub(super) fn over_lines(mut self) -> Self {
        self.lines = true;
        self
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn blanks(&mut self) {
        while match self.peek() {
            Some(b' ' | b'\t') => true,
            Some(b'\n' | b'\r') => self.lines,
            _ => false,
        } {
            self.at += 1;
        }
    }

    /// What is wrong here.
    pub(super) fn fault(&self) -> Fault {
        match self.peek() {
            Some(byte) if byte < 0x20 => Fault::Control(self.at),
            _ => Fault::Syntax(self.at),
        }
    }

    /// Passes this byte, or says that it is missing.
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.fault())
        }
    }

    /// Passes this byte if it is next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Nothing but blanks may be left.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        self.blanks();
        if self.at == self.text.len() { Ok(()) } else { Err(self.fault()) }
    }

    /// Passes a value and hands out its text.
    pub(super) fn value(&mut self, depth: usize) -> Result<&'l str, Fault> {
        let start = self.at;
        self.skip(depth)?;
        Ok(&self.text[start..self.at])
    }

    fn skip(&mut self, depth: usize) -> Result<(), Fault> {
        match self.peek() {
            Some(b'{') => self.members(depth, |scanner, _| scanner.skip(depth + 1)),
            Some(b'[') => self.items(depth, |scanner| scanner.skip(depth + 1)),
            Some(b'"') => self.string().map(drop),
            _ => self.scalar().map(drop),
        }
    }

    /// Passes a map; `each` passes the value after each key.
    pub(super) fn members(
        &mut self,
        depth: usize,
        mut each: impl FnMut(&mut Self, Quoted<'l>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.expect(b'{')?;
        if depth >= MAX_DEPTH {
            return Err(Fault::Depth);
        }
        self.blanks();
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            self.blanks();
            let key = self.string()?;
            self.blanks();
            self.expect(b':')?;
            self.blanks();
            each(self, key)?;
            self.blanks();
            if !self.take(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// Passes a list; `each` passes one item.
    pub(super) fn items(
        &mut self,
        depth: usize,
        mut each: impl FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.expect(b'[')?;
        if depth >= MAX_DEPTH {
            return Err(Fault::Depth);
        }
        self.blanks();
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.blanks();
            each(self)?;
            self.blanks();
            if !self.take(b',') {
                return self.expect(b']');
            }
        }
    }

    /// Passes `null`, `true`, `false` or a number.
    pub(super) fn scalar(&mut self) -> Result<&'l str, Fault> {
        let start = self.at;
        let rest = &self.text[start..];
        let word = ["null", "true", "false"].into_iter().find(|word| rest.starts_with(word));
        match word {
            Some(word) => self.at += word.len(),
            None => self.number()?,
        }
        Ok(&self.text[start..self.at])
    }

    fn number(&mut self) -> Result<(), Fault> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(self.fault()) }
    }

    /// Passes a string.
    pub(super) fn string(&mut self) -> Result<Quoted<'l>, Fault> {
        self.expect(b'"')?;
        let bytes = self.text.as_bytes();
        let (start, mut escaped) = (self.at, false);
        loop {
            let plain = bytes[self.at..].iter().position(|byte| STOPS[usize::from(*byte)]);
            self.at += plain.ok_or(Fault::Syntax(bytes.len()))?;
            match bytes[self.at] {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                // The first bytes of U+0085 and of U+2028 and U+2029.
                0xc2 | 0xe2 => {
                    self.separators |= bytes[self.at..].starts_with(b"\xc2\x85")
                        || bytes[self.at..].starts_with(b"\xe2\x80\xa8")
                        || bytes[self.at..].starts_with(b"\xe2\x80\xa9");
                    self.at += 1;
                }
                _ => return Err(Fault::Control(self.at)),
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Ok(Quoted { raw, escaped, start })
    }

    fn escape(&mut self) -> Result<(), Fault> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        let length = match rest.first() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') if rest.get(1..5).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => 6,
            _ => return Err(Fault::Syntax(self.at)),
        };
        self.at += length;
        Ok(())
    }
}

/// Bytes at which reading a string must look closer.
const STOPS: [bool; 256] = {
    let mut stops = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        stops[byte] = true;
        byte += 1;
    }
    stops[b'"' as usize] = true;
    stops[b'\\' as usize] = true;
    stops[0xc2] = true;
    stops[0xe2] = true;
    stops
};

impl<'l> Quoted<'l> {
    /// What the string says.
    pub(super) fn decode(self) -> Result<Cow<'l, str>, Fault> {
        if !self.escaped {
            return Ok(Cow::Borrowed(self.raw));
        }
        let mut decoded = String::with_capacity(self.raw.len());
        let mut rest = self.raw;
        while let Some(at) = rest.find('\\') {
            decoded.push_str(&rest[..at]);
            let (c, length) = self.one(&rest[at + 1..])?;
            decoded.push(c);
            rest = &rest[at + 1 + length..];
        }
        decoded.push_str(rest);
        Ok(Cow::Owned(decoded))
    }

    /// What stands after a backslash, and how many bytes that takes.
    fn one(self, rest: &str) -> Result<(char, usize), Fault> {
        let lone = Fault::Surrogate(self.start);
        Ok(match rest.as_bytes().first() {
            Some(b'b') => ('\u{8}', 1),
            Some(b'f') => ('\u{c}', 1),
            Some(b'n') => ('\n', 1),
            Some(b'r') => ('\r', 1),
            Some(b't') => ('\t', 1),
            Some(b'u') => match unit(&rest[1..]) {
                Some(high @ 0xd800..=0xdbff) => {
                    let low = rest[5..].strip_prefix("\\u").and_then(unit);
                    let low = low.filter(|low| (0xdc00..=0xdfff).contains(low)).ok_or(lone.clone())?;
                    let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    (char::from_u32(code).ok_or(lone)?, 11)
                }
                Some(code) => (char::from_u32(code).ok_or(lone)?, 5),
                None => return Err(Fault::Syntax(self.start)),
            },
            Some(&byte) => (char::from(byte), 1),
            None => return Err(Fault::Syntax(self.start)),
        })
    }
}

fn unit(hex: &str) -> Option<u32> {
    u32::from_str_radix(hex.get(..4)?, 16).ok()
}
