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
    /// Up to where there is no line end.
    searched: usize,
    filled: usize,
    /// Where the line stands, with its end, that was handed out last.
    last: Range<usize>,
}

impl<R: Read> LineReader<R> {
    /// Reads lines of up to `most` bytes from `source`.
    pub fn new(source: R, most: usize) -> Self {
        Self { source, most, buffer: vec![0; CHUNK], start: 0, searched: 0, filled: 0, last: 0..0 }
    }

    /// The longest line that is taken.
    #[must_use]
    pub const fn most(&self) -> usize {
        self.most
    }

    /// Whether a whole line is at hand without reading.
    #[must_use]
    pub fn has_line(&self) -> bool {
        self.buffer[self.start..self.filled].contains(&b'\n')
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
        loop {
            let fresh = &self.buffer[self.searched..self.filled];
            if let Some(length) = fresh.iter().position(|byte| *byte == b'\n') {
                let (from, to) = (self.start, self.searched + length);
                self.start = to + 1;
                self.searched = self.start;
                self.last = from..self.start;
                return Ok(Some(Line::Whole(&self.buffer[from..to])));
            }
            self.searched = self.filled;
            self.last = 0..0;
            if self.filled - self.start > self.most {
                return self.pass_long_line().map(Some);
            }
            self.make_room();
            let read = read(&mut self.source, &mut self.buffer[self.filled..])?;
            if read == 0 {
                let rest = self.start..self.filled;
                (self.start, self.searched) = (self.filled, self.filled);
                return Ok((!rest.is_empty()).then(|| Line::Unfinished(&self.buffer[rest])));
            }
            self.filled += read;
        }
    }

    /// Moves what is left to the front, and grows when a line needs it.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.searched -= self.start;
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

    /// Reads on to the end of a line that is too long, keeping only its ends.
    fn pass_long_line(&mut self) -> io::Result<Line<'_>> {
        let line = &self.buffer[self.start..self.filled];
        let head = line[..KEPT.min(line.len())].to_vec();
        let mut tail = line[line.len().saturating_sub(KEPT)..].to_vec();
        let mut chunk = vec![0; CHUNK];
        let rest = loop {
            let read = read(&mut self.source, &mut chunk)?;
            let end = chunk[..read].iter().position(|byte| *byte == b'\n');
            tail.extend_from_slice(&chunk[..end.unwrap_or(read)]);
            tail.drain(..tail.len().saturating_sub(KEPT));
            match end {
                Some(end) => break chunk[end + 1..read].to_vec(),
                None if read == 0 => break Vec::new(),
                None => {}
            }
        };
        let (heads, tails) = (head.len(), tail.len());
        self.buffer = [head, tail, rest].concat();
        self.filled = self.buffer.len();
        self.start = heads + tails;
        self.searched = self.start;
        let (head, tail) = self.buffer[..self.start].split_at(heads);
        Ok(Line::TooLong { head, tail })
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
