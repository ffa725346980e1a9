//! Heads of HTTP/1 requests.
//!
//! Answers for reading them in the one way that every server reads them. It leaves what their headers mean together to
//! [`super::fields`], heads of answers to [`super::response`], and what is asked for to others.
//! Invariant: a head that two programs could read differently is malformed.

use super::fields::Fields;
use crate::net::bounds;
use httparse::{EMPTY_HEADER, Status};
use std::fmt;

/// Why a head is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none.
    None,
    /// So many bytes.
    Length(u64),
    /// In chunks.
    Chunked,
    /// The connection ends.
    Close,
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `/path?query`, or `*`.
    Origin(String),
    /// `http://authority/path`.
    Absolute {
        /// Host and port.
        authority: String,
        /// The path and query, at least `/`.
        path: String,
    },
    /// `host:port`, for CONNECT.
    Authority(String),
}

/// The head of a request.
#[derive(Debug)]
pub(crate) struct RequestHead {
    /// The method, as written.
    pub(crate) method: String,
    /// What it is for.
    pub(crate) form: Form,
    /// The 1 of HTTP/1.1.
    pub(crate) minor: u8,
    /// Every header but `Host`, in order.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    /// `Host`.
    pub(crate) host: Option<String>,
    /// How long its body is.
    pub(crate) framing: Framing,
    /// Whether the connection may be used again.
    pub(crate) keep_alive: bool,
    /// What it wants the connection to become.
    pub(crate) upgrade: Option<String>,
}

/// Reads the head of a request; none while it is not whole. The number is its length in bytes.
pub(crate) fn parse_request(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, Malformed> {
    let mut headers = [EMPTY_HEADER; bounds::HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) if bytes.len() >= bounds::HEAD => return Err(Malformed("the head is too long")),
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed("there are too many headers")),
        Err(_) => return Err(Malformed("the head is not HTTP/1")),
    };
    check_line_ends(&bytes[..length])?;
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(Malformed("the request line is incomplete"));
    };
    let fields = Fields::read(request.headers)?;
    let head = RequestHead {
        method: method.to_owned(),
        form: form(method, target)?,
        minor,
        framing: fields.request_framing(minor)?,
        keep_alive: fields.keep_alive(minor),
        upgrade: fields.upgrade()?,
        host: fields.host(minor)?,
        headers: fields.others(),
    };
    Ok(Some((head, length)))
}

/// Lines end in CR LF and nowhere else is either: some servers take one alone for the end of a line.
fn check_line_ends(head: &[u8]) -> Result<(), Malformed> {
    let odd = head.iter().enumerate().any(|(at, byte)| match byte {
        b'\n' => at == 0 || head[at - 1] != b'\r',
        b'\r' => head.get(at + 1) != Some(&b'\n'),
        _ => false,
    });
    if odd { Err(Malformed("a line does not end in CR LF")) } else { Ok(()) }
}

fn form(method: &str, target: &str) -> Result<Form, Malformed> {
    if !target.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) || target.contains('#') {
        return Err(Malformed("the target has characters that belong encoded"));
    }
    if method == "CONNECT" {
        return Ok(Form::Authority(target.to_owned()));
    }
    if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
        return Ok(Form::Origin(target.to_owned()));
    }
    let (scheme, rest) = target.split_once("://").ok_or(Malformed("the target has no known form"))?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(Malformed("the target is not an http URL"));
    }
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    if authority.contains('@') {
        return Err(Malformed("the target carries credentials"));
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok(Form::Absolute { authority: authority.to_owned(), path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RequestHead, Malformed> {
        parse_request(text.as_bytes()).map(|found| found.expect("a whole head").0)
    }

    #[test]
    fn an_ordinary_request_is_read() {
        let head =
            parse("POST /a?b HTTP/1.1\r\nHost: x.example\r\nContent-Length: 5\r\nX: y\r\n\r\n").unwrap();
        assert_eq!((head.method.as_str(), head.framing), ("POST", Framing::Length(5)));
        assert_eq!(head.form, Form::Origin("/a?b".to_owned()));
        assert_eq!(head.host.as_deref(), Some("x.example"));
        assert_eq!(head.headers.len(), 2);
        assert!(head.keep_alive && head.upgrade.is_none());
    }

    #[test]
    fn forms_are_told_apart() {
        let of = |line: &str| parse(&format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n")).map(|head| head.form);
        let absolute =
            |authority: &str, path: &str| Form::Absolute { authority: authority.into(), path: path.into() };
        assert_eq!(of("GET http://a.example:8/x?y"), Ok(absolute("a.example:8", "/x?y")));
        assert_eq!(of("GET http://a.example"), Ok(absolute("a.example", "/")));
        assert_eq!(of("GET HTTP://a.example?q"), Ok(absolute("a.example", "/?q")));
        assert_eq!(of("CONNECT a.example:443"), Ok(Form::Authority("a.example:443".into())));
        assert_eq!(of("OPTIONS *"), Ok(Form::Origin("*".into())));
        for odd in
            ["GET *", "GET a.example/x", "GET ftp://a/x", "GET http://u@a/x", "GET /a#b", "GET https://a/"]
        {
            assert!(of(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn what_two_servers_could_read_differently_is_refused() {
        for odd in [
            "GET / HTTP/1.1\nHost: h\n\n",
            "GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
            "GET / HTTP/1.1\r\nX: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nContent_Length: 4\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: close, Content-Length\r\nContent-Length: 3\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: h\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
            "G(T / HTTP/1.1\r\nHost: h\r\n\r\n",
        ] {
            assert!(parse_request(odd.as_bytes()).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn a_head_that_never_ends_is_refused_and_a_short_one_awaited() {
        assert!(parse_request(b"GET / HTTP/1.1\r\nHost: h\r\n").unwrap().is_none());
        let long = format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(bounds::HEAD));
        assert!(parse_request(long.as_bytes()).is_err());
    }

    #[test]
    fn proxy_headers_stay_here() {
        let head =
            parse("GET / HTTP/1.1\r\nHost: h\r\nProxy-Authorization: x\r\nProxy-Connection: close\r\n\r\n");
        let head = head.unwrap();
        assert!(head.headers.is_empty() && !head.keep_alive);
    }

    #[test]
    fn an_upgrade_is_one_only_when_the_connection_says_so() {
        let of = |lines: &str| parse(&format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n")).unwrap().upgrade;
        assert_eq!(of("Connection: Upgrade\r\nUpgrade: websocket\r\n").as_deref(), Some("websocket"));
        assert_eq!(of("Upgrade: websocket\r\n"), None);
    }
}
