//! Heads of HTTP/1 answers.
//!
//! Answers for where an answer's body ends. What else it says is passed on as it is.
//! Invariant: a connection whose next answer could be taken for part of this one is not used again.

use super::fields::{Tokens, number};
use super::head::{Framing, Malformed};
use crate::net::bounds;
use httparse::{EMPTY_HEADER, Status};

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    /// The status.
    pub(crate) status: u16,
    /// Its length in bytes.
    pub(crate) length: usize,
    /// How long its body is.
    pub(crate) framing: Framing,
    /// Whether the connection may be used again.
    pub(crate) keep_alive: bool,
}

/// Reads the head of an answer to a request with this method; none while it is not whole.
pub(crate) fn parse_response(bytes: &[u8], method: &str) -> Result<Option<ResponseHead>, Malformed> {
    let mut headers = [EMPTY_HEADER; bounds::HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let length = match response.parse(bytes) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) if bytes.len() >= bounds::HEAD => return Err(Malformed("the head is too long")),
        Ok(Status::Partial) => return Ok(None),
        Err(_) => return Err(Malformed("the answer is not HTTP/1")),
    };
    let (Some(status), Some(minor)) = (response.code, response.version) else {
        return Err(Malformed("the status line is incomplete"));
    };
    let lines: Vec<(&str, &[u8])> = response.headers.iter().map(|line| (line.name, line.value)).collect();
    let of = |name: &'static str| {
        lines.iter().filter(move |(line, _)| line.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    };
    let chunked = of("transfer-encoding").next_back().map(ends_in_chunked);
    let mut lengths = of("content-length").map(number).collect::<Result<Vec<u64>, Malformed>>()?;
    lengths.dedup();
    let bodiless = method == "HEAD" || status < 200 || matches!(status, 204 | 304);
    let framing = match (chunked, lengths[..].len()) {
        _ if bodiless => Framing::None,
        (Some(true), _) => Framing::Chunked,
        (Some(false), _) | (None, 0) => Framing::Close,
        (None, 1) => Framing::Length(lengths[0]),
        (None, _) => return Err(Malformed("the answer has two lengths")),
    };
    let ambiguous = chunked.is_some() && !lengths.is_empty();
    let connection = Tokens::of(of("connection"));
    let keep_alive = connection.keeps_alive(minor) && framing != Framing::Close && !ambiguous;
    Ok(Some(ResponseHead { status, length, framing, keep_alive }))
}

fn ends_in_chunked(value: &[u8]) -> bool {
    let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    last.trim_ascii().eq_ignore_ascii_case(b"chunked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_how_long_they_are() {
        let of =
            |text: &str, method| parse_response(text.as_bytes(), method).map(|head| head.expect("a head"));
        let framing = |text: &str, method| of(text, method).map(|head| (head.framing, head.keep_alive));
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "GET"),
            Ok((Framing::Length(3), true))
        );
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "HEAD"),
            Ok((Framing::None, true))
        );
        assert_eq!(framing("HTTP/1.1 304 x\r\nContent-Length: 3\r\n\r\n", "GET"), Ok((Framing::None, true)));
        assert_eq!(framing("HTTP/1.1 200 OK\r\n\r\n", "GET"), Ok((Framing::Close, false)));
        assert_eq!(
            framing("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", "GET"),
            Ok((Framing::Length(3), false))
        );
        let both = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(framing(both, "GET"), Ok((Framing::Chunked, false)));
        assert!(of("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", "GET").is_err());
        assert!(parse_response(b"HTTP/1.1 20", "GET").unwrap().is_none());
        assert!(parse_response(b"SSH-2.0-x\r\n", "GET").is_err());
    }
}
