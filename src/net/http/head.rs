//! Heads of HTTP/1 messages.
//!
//! Answers for reading them in the one way that every server reads them. It leaves what they ask for to others.
//! Invariant: a head that two programs could read differently is malformed.

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

/// A length in plain digits.
fn number(value: &[u8]) -> Result<u64, Malformed> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(Malformed("the length is not a number"))
}

/// The words of `Connection`.
struct Tokens(Vec<String>);

impl Tokens {
    fn of<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let words = values.flat_map(|value| value.split(|byte| *byte == b','));
        Self(words.map(|word| String::from_utf8_lossy(word.trim_ascii()).to_ascii_lowercase()).collect())
    }

    fn has(&self, word: &str) -> bool {
        self.0.iter().any(|held| held == word)
    }

    fn keeps_alive(&self, minor: u8) -> bool {
        !self.has("close") && (minor == 1 || self.has("keep-alive"))
    }
}

/// Headers that may not be said to be of this connection only: a server would then not see them.
const LASTING: &[&str] =
    &["host", "content-length", "transfer-encoding", "authorization", "cookie", "content-type", "expect"];
/// Headers that are for the proxy.
const FOR_PROXY: &[&str] = &["proxy-connection", "proxy-authorization", "proxy-authenticate"];

/// The headers of a request.
struct Fields<'a> {
    lines: Vec<(&'a str, &'a [u8])>,
    connection: Tokens,
}

impl<'a> Fields<'a> {
    fn read(lines: &[httparse::Header<'a>]) -> Result<Self, Malformed> {
        let lines: Vec<(&str, &[u8])> = lines.iter().map(|line| (line.name, line.value)).collect();
        // Some servers take `_` for `-`; a name with one could be a second spelling of another.
        let odd = |name: &str| {
            let plain = name.to_ascii_lowercase().replace('_', "-");
            name.contains('_') && LASTING.contains(&plain.as_str())
        };
        if lines.iter().any(|(name, _)| name.is_empty() || odd(name)) {
            return Err(Malformed("a header's name could be read as another"));
        }
        if lines
            .iter()
            .any(|(_, value)| value.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f))
        {
            return Err(Malformed("a header has control characters"));
        }
        let connection = Tokens::of(values(&lines, "connection"));
        if connection.0.iter().any(|word| LASTING.contains(&word.as_str())) {
            return Err(Malformed("`Connection` names a header that must arrive"));
        }
        Ok(Self { lines, connection })
    }

    fn one(&self, name: &'static str) -> Result<Option<&'a [u8]>, Malformed> {
        let mut found = values(&self.lines, name);
        let first = found.next();
        if found.next().is_some() {
            return Err(Malformed(match name {
                "host" => "there are two hosts",
                "content-length" => "there are two lengths",
                "transfer-encoding" => "there are two transfer encodings",
                _ => "a header is there twice",
            }));
        }
        Ok(first)
    }

    fn request_framing(&self, minor: u8) -> Result<Framing, Malformed> {
        match (self.one("transfer-encoding")?, self.one("content-length")?) {
            (None, None) => Ok(Framing::None),
            (None, Some(length)) => Ok(match number(length)? {
                0 => Framing::None,
                length => Framing::Length(length),
            }),
            (Some(_), Some(_)) => Err(Malformed("there are a length and a transfer encoding")),
            (Some(coding), None) if minor == 1 && coding.eq_ignore_ascii_case(b"chunked") => {
                Ok(Framing::Chunked)
            }
            (Some(_), None) => Err(Malformed("the transfer encoding is not `chunked`")),
        }
    }

    fn keep_alive(&self, minor: u8) -> bool {
        let proxied = Tokens::of(values(&self.lines, "proxy-connection"));
        self.connection.keeps_alive(minor) && !proxied.has("close")
    }

    fn upgrade(&self) -> Result<Option<String>, Malformed> {
        match self.one("upgrade")? {
            None => Ok(None),
            Some(_) if !self.connection.has("upgrade") => Ok(None),
            Some(to) => Ok(Some(String::from_utf8_lossy(to).to_ascii_lowercase())),
        }
    }

    fn host(&self, minor: u8) -> Result<Option<String>, Malformed> {
        match self.one("host")? {
            None if minor == 1 => Err(Malformed("there is no host")),
            None => Ok(None),
            Some(value) => {
                let text = std::str::from_utf8(value).map_err(|_| Malformed("the host is not text"))?;
                Ok(Some(text.to_owned()))
            }
        }
    }

    /// What is passed on: everything but the host and what is for a proxy.
    fn others(&self) -> Vec<(String, Vec<u8>)> {
        let kept = |name: &str| {
            !name.eq_ignore_ascii_case("host") && !FOR_PROXY.iter().any(|own| name.eq_ignore_ascii_case(own))
        };
        let lines = self.lines.iter().filter(|(name, _)| kept(name));
        lines.map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect()
    }
}

fn values<'a>(lines: &[(&'a str, &'a [u8])], name: &str) -> impl Iterator<Item = &'a [u8]> {
    lines.iter().filter(move |(line, _)| line.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
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
