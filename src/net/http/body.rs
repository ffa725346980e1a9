//! Bodies of HTTP/1 messages, passed on as they come.
//!
//! Answers for finding where a body ends. It never holds more of one than a buffer.
//! Invariant: nothing after the end of a body is passed on as part of it.

use super::head::Framing;
use super::wire::Wire;
use crate::net::bounds;
use crate::net::relay::{Buffer, Meter, Way};
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// A body on its way.
#[derive(Debug)]
pub(crate) struct Passing {
    rest: Rest,
    way: Way,
}

/// Where a body broke off.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Whoever sends it hung up or failed.
    Source(io::Error),
    /// What came is no body.
    Odd,
    /// Whoever gets it takes no more.
    Sink(io::Error),
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Source(error) | Broken::Sink(error) => error,
            Broken::Odd => Self::new(io::ErrorKind::InvalidData, "odd chunks"),
        }
    }
}

#[derive(Debug)]
enum Rest {
    Length(u64),
    Chunks(Chunks),
    All,
}

impl Passing {
    pub(crate) fn new(framing: Framing, way: Way) -> Self {
        let rest = match framing {
            Framing::None => Rest::Length(0),
            Framing::Length(length) => Rest::Length(length),
            Framing::Chunked => Rest::Chunks(Chunks::new(way)),
            Framing::Close => Rest::All,
        };
        Self { rest, way }
    }

    /// What of the body has come already, so that it can be written together with its head.
    pub(crate) fn ready<R: AsyncRead + Unpin>(&mut self, from: &mut Wire<R>) -> Result<Vec<u8>, Broken> {
        let here = self.part(from.pending())?;
        Ok(from.take(here))
    }

    /// How many of these bytes belong to the body; they are taken off it.
    fn part(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        match &mut self.rest {
            Rest::Length(length) => {
                let here = usize::try_from(*length).unwrap_or(usize::MAX).min(bytes.len());
                *length -= here as u64;
                Ok(here)
            }
            Rest::Chunks(chunks) => chunks.feed(bytes).map_err(|_| Broken::Odd),
            Rest::All => Ok(bytes.len()),
        }
    }

    fn is_done(&self) -> bool {
        match &self.rest {
            Rest::Length(length) => *length == 0,
            Rest::Chunks(chunks) => chunks.ended(),
            Rest::All => false,
        }
    }

    /// Passes the rest on.
    pub(crate) async fn run<R, W>(
        mut self,
        from: &mut Wire<R>,
        to: &mut W,
        meter: &Meter,
    ) -> Result<(), Broken>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let first = self.ready(from)?;
        write(to, &first, self.way, meter).await.map_err(Broken::Sink)?;
        let mut buffer = Buffer::new(meter);
        while !self.is_done() {
            // No more is read than belongs to the body, where that is known.
            let most = if let Rest::Length(length) = self.rest { length } else { u64::MAX };
            let read = buffer.read(&mut from.stream, most).await.map_err(Broken::Source)?;
            if read.is_empty() {
                let whole = matches!(self.rest, Rest::All);
                let early = || Broken::Source(io::ErrorKind::UnexpectedEof.into());
                return if whole { Ok(()) } else { Err(early()) };
            }
            let (here, rest) = read.split_at(self.part(read)?);
            write(to, here, self.way, meter).await.map_err(Broken::Sink)?;
            from.give_back(rest);
        }
        Ok(())
    }
}

async fn write<W: AsyncWrite + Unpin>(to: &mut W, bytes: &[u8], way: Way, meter: &Meter) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    to.write_all(bytes).await?;
    to.flush().await?;
    meter.count(way, bytes.len());
    Ok(())
}

/// Follows a chunked body to its end. What comes from inside must be in the plainest form there is.
#[derive(Debug)]
pub(crate) struct Chunks {
    state: State,
    size: u64,
    digits: u8,
    /// Bytes since the line began, and of all trailers.
    line: usize,
    strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Extension,
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
    Ended,
}

impl Chunks {
    pub(crate) fn new(way: Way) -> Self {
        Self { state: State::Size, size: 0, digits: 0, line: 0, strict: way == Way::Out }
    }

    pub(crate) fn ended(&self) -> bool {
        self.state == State::Ended
    }

    /// How many of the bytes belong to the body.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Ended {
            if self.state == State::Data {
                let here = usize::try_from(self.size).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.size -= here as u64;
                at += here;
                if self.size == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            self.step(bytes[at]).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "odd chunks"))?;
            at += 1;
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Option<()> {
        self.state = match (self.state, byte) {
            (State::Size, b'\r') if self.digits > 0 => State::SizeEnd,
            (State::Size, b';' | b' ' | b'\t') if self.digits > 0 && !self.strict => {
                self.line = 0;
                State::Extension
            }
            (State::Size, _) if self.digits < 15 => {
                let digit = (byte as char).to_digit(16)?;
                self.size = self.size << 4 | u64::from(digit);
                self.digits += 1;
                State::Size
            }
            (State::Extension, b'\r') => State::SizeEnd,
            (State::Extension, 0x20..=0x7e | b'\t' | 0x80..) if self.line < 4096 => {
                self.line += 1;
                State::Extension
            }
            (State::SizeEnd, b'\n') if self.size == 0 => {
                self.line = 0;
                State::TrailerStart
            }
            (State::SizeEnd, b'\n') => State::Data,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => {
                (self.size, self.digits) = (0, 0);
                State::Size
            }
            (State::TrailerStart, b'\r') => State::LastLf,
            // From inside none is needed, and some servers would take one for a header.
            (State::TrailerStart | State::Trailer, 0x20..=0x7e | b'\t' | 0x80..)
                if !self.strict && self.line < bounds::TRAILERS =>
            {
                self.line += 1;
                State::Trailer
            }
            (State::Trailer, b'\r') => State::TrailerLf,
            (State::TrailerLf, b'\n') => State::TrailerStart,
            (State::LastLf, b'\n') => State::Ended,
            _ => return None,
        };
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(way: Way, text: &[u8]) -> io::Result<(usize, bool)> {
        let mut chunks = Chunks::new(way);
        let used = chunks.feed(text)?;
        Ok((used, chunks.ended()))
    }

    #[test]
    fn a_body_ends_where_it_says() {
        let body = b"4\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\nGET / HTTP/1.1";
        assert_eq!(whole(Way::Out, body).unwrap(), (body.len() - 14, true));
        let trailing = b"1\r\na\r\n0\r\nX: y\r\nZ: w\r\n\r\nrest";
        assert_eq!(whole(Way::In, trailing).unwrap(), (trailing.len() - 4, true));
        assert!(whole(Way::In, b"1;ext=1\r\na\r\n0\r\n\r\n").unwrap().1);
    }

    #[test]
    fn any_split_gives_the_same() {
        let body = b"a\r\n0123456789\r\n3\r\nabc\r\n0\r\n\r\nnext";
        for cut in 0..body.len() - 4 {
            let mut chunks = Chunks::new(Way::Out);
            let first = chunks.feed(&body[..cut]).unwrap();
            assert_eq!(first, cut);
            assert_eq!(first + chunks.feed(&body[cut..]).unwrap(), body.len() - 4);
            assert!(chunks.ended());
        }
    }

    #[test]
    fn odd_chunks_from_inside_are_refused() {
        for odd in [
            &b"\r\n"[..],
            b"0x4\r\nWiki\r\n",
            b"4\nWiki\r\n",
            b"4\r\nWikiX\r\n",
            b"4;a=b\r\nWiki\r\n",
            b"4 \r\nWiki\r\n",
            b"-4\r\nWiki\r\n",
            b"0\r\nContent-Length: 4\r\n\r\n",
            b"fffffffffffffffff\r\n",
            b"4\r\nWiki\n",
        ] {
            assert!(whole(Way::Out, odd).is_err(), "{}", String::from_utf8_lossy(odd));
        }
    }
}
