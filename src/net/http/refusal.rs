//! Answers that the gateway itself gives.

use crate::decide::Denial;
use serde_json::{Value, json};

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
