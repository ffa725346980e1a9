//! What the gateway reads of bytes from inside, for whoever tries it with bytes of any sort.
//!
//! Answers for handing bytes to the readers that connections are handed to. Invariant: nothing is sent or decided here.

use super::http::{Chunks, Form, parse_request};
use super::names::{Answer, parse};
use super::relay::Way;
use super::{sniff, socks};
use tokio::io::{AsyncWriteExt, duplex};

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The method.
    pub method: String,
    /// Host and port, where the target says them.
    pub authority: Option<String>,
    /// The path and query; nothing for CONNECT.
    pub path: String,
    /// Every header but `Host`.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Its length in bytes.
    pub length: usize,
}

/// Reads the head of a request; none while it is not whole.
///
/// # Errors
/// When it is not taken: why.
pub fn request_head(bytes: &[u8]) -> Result<Option<Head>, &'static str> {
    let found = parse_request(bytes).map_err(|why| why.0)?;
    Ok(found.map(|(head, length)| {
        let (authority, path) = match head.form {
            Form::Origin(path) => (None, path),
            Form::Absolute { authority, path } => (Some(authority), path),
            Form::Authority(authority) => (Some(authority), String::new()),
        };
        Head { method: head.method, authority, path, headers: head.headers, length }
    }))
}

/// How many of these bytes are a chunked body, and whether it ends there; in pieces of a length. None when it is no
/// such body.
#[must_use]
pub fn chunked(bytes: &[u8], piece: usize, from_inside: bool) -> Option<(usize, bool)> {
    let mut chunks = Chunks::new(if from_inside { Way::Out } else { Way::In });
    let mut taken = 0;
    for piece in bytes.chunks(piece.max(1)) {
        taken += chunks.feed(piece).ok()?;
        if chunks.ended() {
            break;
        }
    }
    Some((taken, chunks.ended()))
}

/// A question for a name and the bytes that would answer it: with an address, and with a refusal.
#[must_use]
pub fn question(bytes: &[u8]) -> Option<(String, [Vec<u8>; 2])> {
    let question = parse(bytes).ok()?;
    let address = Answer::V4(std::net::Ipv4Addr::LOCALHOST);
    let answers = [question.datagram(&address, 1), question.datagram(&Answer::Prohibited, 1)];
    Some((question.name, answers))
}

/// The target that a SOCKS client asks for.
#[must_use]
pub fn socks_target(bytes: &[u8]) -> Option<String> {
    waiting_for_nobody(async {
        let (mut near, mut far) = duplex(bytes.len() + 64);
        far.write_all(bytes).await.ok()?;
        far.shutdown().await.ok()?;
        socks::read(&mut near).await.ok()?.ok().map(|target| target.to_string())
    })
}

/// The name and the protocols in a TLS greeting.
#[must_use]
pub fn tls_greeting(bytes: &[u8]) -> Option<(Option<String>, Vec<Vec<u8>>)> {
    waiting_for_nobody(async {
        let mut rest = bytes;
        let said = sniff::greeting(&mut rest, &mut Vec::new()).await.ok()?;
        Some((said.name, said.protocols))
    })
}

/// Runs something that is ready whenever it is asked.
fn waiting_for_nobody<T>(work: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::runtime::Builder::new_current_thread().build().ok()?.block_on(work)
}
