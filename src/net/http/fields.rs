//! The headers of a request, read together.
//!
//! Answers for what they say of the body, the connection and the host, and for refusing what two servers could take for
//! different things. It leaves the first line to [`super::head`].
//! Invariant: a header that decides something is there once, in one spelling.

use super::head::{Framing, Malformed};

/// A length in plain digits.
pub(super) fn number(value: &[u8]) -> Result<u64, Malformed> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(Malformed("the length is not a number"))
}

/// The words of `Connection`.
pub(super) struct Tokens(Vec<String>);

impl Tokens {
    pub(super) fn of<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let words = values.flat_map(|value| value.split(|byte| *byte == b','));
        Self(words.map(|word| String::from_utf8_lossy(word.trim_ascii()).to_ascii_lowercase()).collect())
    }

    fn has(&self, word: &str) -> bool {
        self.0.iter().any(|held| held == word)
    }

    pub(super) fn keeps_alive(&self, minor: u8) -> bool {
        !self.has("close") && (minor == 1 || self.has("keep-alive"))
    }
}

/// Headers that may not be said to be of this connection only: a server would then not see them.
const LASTING: &[&str] =
    &["host", "content-length", "transfer-encoding", "authorization", "cookie", "content-type", "expect"];
/// Headers that are for the proxy.
const FOR_PROXY: &[&str] = &["proxy-connection", "proxy-authorization", "proxy-authenticate"];

/// The headers of a request.
pub(super) struct Fields<'a> {
    lines: Vec<(&'a str, &'a [u8])>,
    connection: Tokens,
}

impl<'a> Fields<'a> {
    pub(super) fn read(lines: &[httparse::Header<'a>]) -> Result<Self, Malformed> {
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

    pub(super) fn request_framing(&self, minor: u8) -> Result<Framing, Malformed> {
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

    pub(super) fn keep_alive(&self, minor: u8) -> bool {
        let proxied = Tokens::of(values(&self.lines, "proxy-connection"));
        self.connection.keeps_alive(minor) && !proxied.has("close")
    }

    pub(super) fn upgrade(&self) -> Result<Option<String>, Malformed> {
        match self.one("upgrade")? {
            None => Ok(None),
            Some(_) if !self.connection.has("upgrade") => Ok(None),
            Some(to) => Ok(Some(String::from_utf8_lossy(to).to_ascii_lowercase())),
        }
    }

    pub(super) fn host(&self, minor: u8) -> Result<Option<String>, Malformed> {
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
    pub(super) fn others(&self) -> Vec<(String, Vec<u8>)> {
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
