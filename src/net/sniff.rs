//! What the first bytes of a connection are.
//!
//! Answers for telling TLS, HTTP and anything else apart, and for reading a TLS greeting. It leaves what follows
//! from that to the flow.
//! Invariant: what is not certainly one thing is not taken for it.

use rustls::server::Acceptor;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What a connection starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// A TLS handshake.
    Tls,
    /// A request of HTTP/1.
    Http1,
    /// The preface of HTTP/2 without TLS.
    Http2,
    /// Something else.
    Other,
    /// Too little to tell.
    More,
}

/// What every TLS handshake begins with.
pub(crate) const TLS: u8 = 0x16;
/// The preface of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The length of what stands before the settings of HTTP/2: a length, a type, flags and the number of no stream.
pub(crate) const SETTINGS: usize = 9;
/// So many bytes of empty lines may stand before a request.
const EMPTY: usize = 64;
/// The longest method that is taken for one.
const METHOD: usize = 20;

/// Says what the first bytes are.
pub(crate) fn start(bytes: &[u8]) -> Start {
    // Servers pass over empty lines before a request.
    let empty = bytes.iter().take_while(|byte| b"\r\n".contains(byte)).count();
    match &bytes[empty..] {
        _ if empty > EMPTY => Start::Other,
        [] | [TLS] => Start::More,
        [TLS, ..] if empty > 0 => Start::Other,
        [TLS, 3, ..] => Start::Tls,
        text if empty == 0 && PREFACE.starts_with(text) && text.len() < PREFACE.len() => Start::More,
        text if empty == 0 && text.starts_with(PREFACE) => Start::Http2,
        text => start_of_text(text),
    }
}

/// Whether what is not TLS as it is today may be an older form of it, which names no host.
pub(crate) fn is_nameless(bytes: &[u8]) -> bool {
    match bytes {
        [TLS, ..] => true,
        [first, rest @ ..] => *first >= 0x80 && matches!(rest, [] | [_] | [_, 1, ..]),
        [] => false,
    }
}

/// Whether a server greets as one of HTTP/2 does: it tells its settings before anybody said anything.
/// They are written at once, so that less than their head is no such greeting.
pub(crate) fn greets_as_http2(bytes: &[u8; SETTINGS]) -> bool {
    let [0, high, low, 4, 0, 0, 0, 0, 0] = *bytes else { return false };
    u16::from_be_bytes([high, low]) % 6 == 0
}

/// A method in capitals, a blank, and what a target starts with.
fn start_of_text(bytes: &[u8]) -> Start {
    let letters = bytes.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    match bytes.get(letters..) {
        _ if letters == 0 || letters > METHOD => Start::Other,
        None | Some([]) | Some([b' ']) => Start::More,
        Some([b' ', b'/' | b'*' | b'h' | b'H', ..]) => Start::Http1,
        Some(_) => Start::Other,
    }
}

/// What a TLS greeting says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The name it asks for.
    pub(crate) name: Option<String>,
    /// The protocols it offers.
    pub(crate) protocols: Vec<Vec<u8>>,
}

/// Reads a TLS greeting; the bytes read are added to `bytes`.
pub(crate) async fn greeting(
    stream: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
) -> io::Result<Greeting> {
    const LONGEST: usize = 64 << 10;
    let mut acceptor = Acceptor::default();
    let mut fed = 0;
    loop {
        while fed < bytes.len() {
            let mut rest = &bytes[fed..];
            let before = rest.len();
            acceptor.read_tls(&mut rest)?;
            fed += before - rest.len();
            match acceptor.accept() {
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    let protocols = hello.alpn().into_iter().flatten().map(<[u8]>::to_vec).collect();
                    return Ok(Greeting {
                        name: hello.server_name().map(str::to_ascii_lowercase),
                        protocols,
                    });
                }
                Ok(None) => {}
                Err((error, _)) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
            if before == rest.len() {
                break;
            }
        }
        if bytes.len() >= LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut room = [0; 4096];
        let read = stream.read(&mut room).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend(&room[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_are_a_greeting_of_http2() {
        for (bytes, expected) in [
            (b"\0\0\x12\x04\0\0\0\0\0", true),
            (b"\0\0\0\x04\0\0\0\0\0", true),
            (b"\0\0\x13\x04\0\0\0\0\0", false),
            (b"\0\0\0\x04\x01\0\0\0\0", false),
            (b"\0\0\x12\x04\0\0\0\0\x01", false),
            (b"SSH-2.0-x", false),
            (b"\0\0\0\0\0\0\0\0\0", false),
        ] {
            assert_eq!(greets_as_http2(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn old_forms_of_tls_are_known() {
        for (bytes, expected) in [
            (&b"\x16\x02\x00"[..], true),
            (b"\x80\x2e\x01\x03\x01", true),
            (b"\x80\x2e", true),
            (b"\x80\x2e\x02", false),
            (b"SSH-2.0-x\r\n", false),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", false),
            (b"", false),
        ] {
            assert_eq!(is_nameless(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn starts_are_told_apart() {
        for (bytes, expected) in [
            (&b""[..], Start::More),
            (b"\x16", Start::More),
            (b"\x16\x03\x01", Start::Tls),
            (b"\x16\x02", Start::Other),
            (b"GET / HTTP/1.1", Start::Http1),
            (b"GET http://x/", Start::Http1),
            (b"OPTIONS * HTTP/1.1", Start::Http1),
            (b"GE", Start::More),
            (b"GET ", Start::More),
            (b"PRI", Start::More),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Start::Http2),
            (b"PRINT /", Start::Http1),
            (b"SSH-2.0-x\r\n", Start::Other),
            (b"*1\r\n$4\r\nPING\r\n", Start::Other),
            (b"PING\r\n", Start::Other),
            (b"\0\0\0\x08\x04", Start::Other),
            (b"get / HTTP/1.1", Start::Other),
            (b"\r\n", Start::More),
            (b"\r\n\r\nGET / HTTP/1.1", Start::Http1),
            (b"\n\nGET / HTTP/1.1", Start::Http1),
            (b"\r\n\x16\x03\x01", Start::Other),
            (b"\r\nhello", Start::Other),
            (&[b'\n'; 65], Start::Other),
        ] {
            assert_eq!(start(bytes), expected, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
