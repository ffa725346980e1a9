//! Lines of a stream, bounded.
//!
//! Answers for where a line ends and that none takes more memory than agreed. It leaves their meaning to others.
//! Invariant: bytes after the last line end are never handed out as a line.

use std::io::{self, Read};
use std::ops::Range;

/// How much is read at once.
const CHUNK: usize = 64 << 10;
/// What is kept of a line that is too long: its beginning and its end.
const KEPT: usize = 4 << 10;
/// A buffer that has grown beyond this for one line is given back after it.
const SPARE: usize = 1 << 20;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'b> {
    /// A line, without its end.
    Whole(&'b [u8]),
    /// A line of more bytes than are taken; its beginning and its end.
    TooLong {
        /// The first bytes.
        head: &'b [u8],
        /// The last bytes.
        tail: &'b [u8],
    },
    /// What stands after the last line end when the stream is over.
    Unfinished(&'b [u8]),
}

/// Reads lines of at most so many bytes.
#[derive(Debug)]
pub struct LineReader<R> {
    source: R,
    most: usize,
    buffer: Vec<u8>,
    /// Where the next line starts.
    start: usize,
    /// Where it ends, once that is known.
    end: Option<usize>,
    /// Up to where there is no line end.
    searched: usize,
    filled: usize,
    /// Whether something was left out of the next line, because it is too long.
    cut: bool,
    /// Whether the source has no more.
    over: bool,
    /// Where the line stands, with its end, that was handed out last.
    last: Range<usize>,
}

impl<R: Read> LineReader<R> {
    /// Reads lines of up to `most` bytes from `source`.
    pub fn new(source: R, most: usize) -> Self {
        let buffer = vec![0; CHUNK];
        let (cut, over) = (false, false);
        Self { source, most, buffer, start: 0, end: None, searched: 0, filled: 0, cut, over, last: 0..0 }
    }

    /// The longest line that is taken.
    #[must_use]
    pub const fn most(&self) -> usize {
        self.most
    }

    /// Where lines come from.
    pub const fn source(&self) -> &R {
        &self.source
    }

    /// The whole line that was handed out last, with its end.
    #[must_use]
    pub fn last_with_end(&self) -> &[u8] {
        &self.buffer[self.last.clone()]
    }

    /// The next line; none at the end.
    ///
    /// # Errors
    /// When the source cannot be read.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        while !self.has_line() && !self.over {
            self.fill()?;
        }
        Ok(self.take_line())
    }

    /// Reads once; that waits only while there is nothing to read.
    ///
    /// # Errors
    /// When the source cannot be read.
    pub fn fill(&mut self) -> io::Result<()> {
        self.make_room();
        let read = read(&mut self.source, &mut self.buffer[self.filled..])?;
        self.filled += read;
        self.over = read == 0;
        Ok(())
    }

    /// Whether the source has no more; what was read may still have to be taken.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Whether the source has no more, and all of it was taken.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.over && self.start == self.filled
    }

    /// Whether a whole line is at hand without reading.
    pub fn has_line(&mut self) -> bool {
        if self.end.is_none() {
            let fresh = &self.buffer[self.searched..self.filled];
            self.end = fresh.iter().position(|byte| *byte == b'\n').map(|length| self.searched + length);
            self.searched = self.filled;
        }
        self.end.is_some()
    }

    /// The next line of what was read; at the end of the source also what is left.
    pub fn take_line(&mut self) -> Option<Line<'_>> {
        self.last = 0..0;
        let whole = self.has_line();
        if !whole && (!self.over || self.start == self.filled) {
            return None;
        }
        let (from, to) = (self.start, self.end.take().unwrap_or(self.filled));
        self.start = (to + 1).min(self.filled);
        self.searched = self.start;
        let line = &self.buffer[from..to];
        if std::mem::take(&mut self.cut) || line.len() > self.most {
            let (head, rest) = line.split_at(KEPT.min(line.len()));
            return Some(Line::TooLong { head, tail: &rest[rest.len().saturating_sub(KEPT)..] });
        }
        if !whole {
            return Some(Line::Unfinished(line));
        }
        self.last = from..self.start;
        Some(Line::Whole(line))
    }

    /// Moves what is left to the front, and grows when a line needs it.
    fn make_room(&mut self) {
        self.last = 0..0;
        if self.filled - self.start > self.most.max(2 * KEPT) && !self.has_line() {
            self.cut_line();
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.searched -= self.start;
            self.end = self.end.map(|end| end - self.start);
            self.start = 0;
        }
        if self.filled == 0 && self.buffer.len() > SPARE {
            self.buffer = vec![0; CHUNK];
        }
        if self.buffer.len() - self.filled < CHUNK / 2 {
            // Doubling keeps the copying linear; the bound on a line bounds this too.
            let wanted = (self.buffer.len() * 2).min(self.most + 2 * CHUNK).max(self.filled + CHUNK);
            self.buffer.resize(wanted, 0);
        }
    }

    /// Keeps only the ends of a line that is too long already.
    fn cut_line(&mut self) {
        let (head, tail) = (self.start + KEPT, self.filled - KEPT);
        self.buffer.copy_within(tail..self.filled, head);
        self.filled = head + KEPT;
        self.searched = self.filled;
        self.cut = true;
    }
}

fn read(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], most: usize) -> Vec<String> {
        /// Hands out a few bytes at a time, as pipes do.
        struct Drip<'t>(&'t [u8]);
        impl Read for Drip<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let n = self.0.len().min(3).min(buffer.len());
                buffer[..n].copy_from_slice(&self.0[..n]);
                self.0 = &self.0[n..];
                Ok(n)
            }
        }
        let mut reader = LineReader::new(Drip(text), most);
        let mut found = Vec::new();
        let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        while let Some(line) = reader.next_line().unwrap() {
            found.push(match line {
                Line::Whole(line) => show(line),
                Line::TooLong { head, tail } => format!("long {} … {}", show(head), show(tail)),
                Line::Unfinished(rest) => format!("unfinished {}", show(rest)),
            });
        }
        found
    }

    #[test]
    fn lines_end_at_line_ends_only() {
        assert_eq!(lines(b"one\ntwo\r\n\nthree", 100), ["one", "two\r", "", "unfinished three"]);
        assert!(lines(b"", 100).is_empty());
    }

    #[test]
    fn a_long_line_costs_only_itself() {
        let text = [b"a\n".as_slice(), &[b'x'; 20_000], b"END\nb\n"].concat();
        let found = lines(&text, 10_000);
        assert_eq!((found[0].as_str(), found[2].as_str(), found.len()), ("a", "b", 3));
        assert!(found[1].starts_with("long xxx") && found[1].ends_with("xEND"));
    }

    #[test]
    fn a_line_of_just_the_agreed_length_is_taken() {
        let text = [[b'x'; 50].as_slice(), b"\n"].concat();
        assert_eq!(lines(&text, 50)[0].len(), 50);
    }
}
