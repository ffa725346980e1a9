//! An answer of HTTP/1 as a value, for requests that sbx makes itself.
//!
//! Answers for reading one whole answer within bounds. It leaves which request it belongs to to the caller.
//! Invariant: no more of a body is kept than was wanted.

use super::body::Chunks;
use super::head::{Framing, Malformed, parse_response};
use super::wire::Wire;
use crate::net::bounds;
use crate::net::relay::Way;
use httparse::EMPTY_HEADER;
use std::io;
use tokio::io::AsyncRead;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body was longer than wanted.
    pub(crate) truncated: bool,
}

/// Reads the answer to a request with this method, and at most so many bytes of its body.
pub(crate) async fn read_answer(
    stream: impl AsyncRead + Unpin,
    method: &str,
    most: usize,
) -> io::Result<Answer> {
    let mut wire = Wire::new(stream, Vec::new());
    let malformed = |why: Malformed| io::Error::new(io::ErrorKind::InvalidData, why.0);
    let head = loop {
        match parse_response(wire.pending(), method).map_err(malformed)? {
            // Interim answers come before the one that counts.
            Some(head) if head.status < 200 && head.status != 101 => drop(wire.take(head.length)),
            Some(head) => break head,
            None if wire.more().await? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    };
    let headers = headers(&wire.take(head.length));
    let (body, truncated) = match head.framing {
        Framing::None => (Vec::new(), false),
        Framing::Length(length) => sized(&mut wire, length, most).await?,
        Framing::Close => unsized_body(&mut wire, most).await?,
        Framing::Chunked => chunked(&mut wire, most).await?,
    };
    Ok(Answer { status: head.status, headers, body, truncated })
}

fn headers(head: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut lines = [EMPTY_HEADER; bounds::HEADERS];
    let mut response = httparse::Response::new(&mut lines);
    if response.parse(head).is_err() {
        return Vec::new();
    }
    response.headers.iter().map(|line| (line.name.to_ascii_lowercase(), line.value.to_vec())).collect()
}

async fn sized<R: AsyncRead + Unpin>(
    wire: &mut Wire<R>,
    length: u64,
    most: usize,
) -> io::Result<(Vec<u8>, bool)> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let wanted = length.min(most);
    while wire.pending().len() < wanted {
        if wire.more().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok((wire.take(wanted), length > most))
}

async fn unsized_body<R: AsyncRead + Unpin>(wire: &mut Wire<R>, most: usize) -> io::Result<(Vec<u8>, bool)> {
    while wire.pending().len() <= most && wire.more().await? > 0 {}
    let truncated = wire.pending().len() > most;
    Ok((wire.take(most), truncated))
}

async fn chunked<R: AsyncRead + Unpin>(wire: &mut Wire<R>, most: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut chunks = Chunks::new(Way::In);
    let mut raw = Vec::new();
    loop {
        let here = chunks.feed(wire.pending())?;
        raw.extend(wire.take(here));
        // The sizes of chunks are no part of the body, but of what is held.
        let enough = raw.len() > most.saturating_mul(2).saturating_add(bounds::SMALL_BUFFER);
        if chunks.ended() || enough {
            let mut body = joined(&raw);
            let truncated = body.len() > most || !chunks.ended();
            body.truncate(most);
            return Ok((body, truncated));
        }
        if wire.more().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The content of chunks that were followed already, as far as they go.
fn joined(mut raw: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = raw.windows(2).position(|pair| pair == b"\r\n") {
        let digits = raw[..end].split(|byte| b"; \t".contains(byte)).next().unwrap_or_default();
        let size = std::str::from_utf8(digits).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok());
        let Some(size) = size.filter(|size| *size > 0) else { break };
        let data = &raw[end + 2..];
        body.extend(&data[..size.min(data.len())]);
        raw = data.get(size.saturating_add(2)..).unwrap_or_default();
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], most: usize) -> io::Result<Answer> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read_answer(bytes, "GET", most))
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\nnext";
        let answer = read(chunked, 100).unwrap();
        assert_eq!((answer.body.as_slice(), answer.truncated), (&b"abcde"[..], false));
        let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef";
        assert_eq!(read(sized, 100).unwrap().body, b"abc");
        let close = b"HTTP/1.1 200 OK\r\n\r\nabcdef";
        assert_eq!(read(close, 100).unwrap().body, b"abcdef");
        let early = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n";
        let answer = read(early, 100).unwrap();
        assert_eq!((answer.status, answer.headers), (204, vec![("x-a".to_owned(), b"b".to_vec())]));
    }

    #[test]
    fn too_much_is_cut_and_too_little_is_an_error() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nabcdef",
            "HTTP/1.1 200 OK\r\n\r\nabcdef",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n",
        ] {
            let answer = read(text.as_bytes(), 4).unwrap();
            assert_eq!((answer.body.as_slice(), answer.truncated), (&b"abcd"[..], true), "{text}");
        }
        assert!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 100).is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabc", 100).is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\n", 100).is_err());
    }
}
