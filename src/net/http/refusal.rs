//! Answers that the gateway itself gives.

use super::exchange::{Connection, Next};
use super::head::{Framing, RequestHead};
use crate::decide::Denial;
use crate::net::bounds;
use crate::net::dial::Duplex;
use serde_json::{Value, json};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// An answer of HTTP/1 that says no, and its body for other protocols.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// The status.
    pub(crate) status: u16,
    /// JSON, for people and machines.
    pub(crate) body: String,
}

/// The answer to what is not granted.
pub(crate) fn forbidden(denial: &Denial) -> Refusal {
    Refusal::new(403, denial.to_json())
}

impl Refusal {
    fn new(status: u16, body: Value) -> Self {
        let body = serde_json::to_string_pretty(&body).unwrap_or_default() + "\n";
        Self { status, body }
    }

    /// The answer to what is not taken, whatever is granted.
    pub(crate) fn malformed(status: u16, why: &str) -> Self {
        Self::new(status, json!({ "is_error": true, "code": "malformed", "message": format!("sbx: {why}") }))
    }

    /// The answer when the other side cannot be had.
    pub(crate) fn unreachable(why: &str) -> Self {
        Self::new(502, json!({ "is_error": true, "code": "unreachable", "message": format!("sbx: {why}") }))
    }

    /// The bytes of the answer.
    pub(crate) fn bytes(&self, method: &str, keep_alive: bool) -> Vec<u8> {
        let reason = match self.status {
            400 => "Bad Request",
            403 => "Forbidden",
            421 => "Misdirected Request",
            502 => "Bad Gateway",
            _ => "Refused",
        };
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let length = self.body.len();
        let mut text = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: {connection}\r\nX-Sbx: refused\r\n\r\n",
            self.status
        );
        if method != "HEAD" {
            text.push_str(&self.body);
        }
        text.into_bytes()
    }
}

impl<S: Duplex> Connection<'_, S> {
    /// Says no and goes on, where the request has no body that would be in the way.
    pub(super) async fn refuse(&mut self, head: &RequestHead, refusal: &Refusal) -> io::Result<Next> {
        let keep = head.keep_alive && head.framing == Framing::None;
        self.reply.write_all(&refusal.bytes(&head.method, keep)).await?;
        self.reply.flush().await?;
        if keep {
            return Ok(Next::Again);
        }
        self.linger().await?;
        Ok(Next::Close)
    }

    pub(super) async fn refuse_malformed(&mut self, status: u16, why: &'static str) -> io::Result<()> {
        let target = self.route.as_ref().map(|route| &route.target);
        self.service.report.malformed("request", target, why);
        self.reply.write_all(&Refusal::malformed(status, why).bytes("GET", false)).await?;
        self.reply.flush().await?;
        self.linger().await
    }

    /// Takes what is still coming, for a time, so that the answer is not lost with it: a client that still sends when
    /// its connection is closed sees an error and not the answer.
    async fn linger(&mut self) -> io::Result<()> {
        let _ = self.reply.shutdown().await;
        let drain = async {
            let mut room = [0; 8192];
            while self.client.stream.read(&mut room).await.is_ok_and(|read| read > 0) {}
        };
        let _ = tokio::time::timeout(bounds::DRAINING, drain).await;
        Ok(())
    }
}
