//! Asking a server for its tools, as a client of either era would.
//!
//! Answers for the handshake and for every page. It leaves what is done with the answers to others.
//! Invariant: waits are bounded, and so is the number of pages.

use super::definitions::MOST_BYTES;
use super::pins::{Pins, pinned_part};
use super::protocol::{Id, Json, Kind, Line, LineReader, Message, VERSION_KEY, line_of};
use super::wrap::write_until;
use sbx_platform::ready::never_wait;
use serde_json::{Value, json};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// How long a server may take for one answer; packages are slow to start.
const WAIT: Duration = Duration::from_secs(60);
/// Pages of tools at most.
const PAGES: usize = 1000;
const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// Why a server could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InquiryError {
    /// It took too long or went away.
    #[error("the server did not answer {0}")]
    Silent(&'static str),
    /// It answered with an error.
    #[error("the server answered {method} with an error: {error}")]
    Refused {
        /// What was asked.
        method: &'static str,
        /// What it said.
        error: String,
    },
    /// Its answer has no tools, or there is no end to them.
    #[error("the server's list of tools is not one")]
    NoList,
}

/// A conversation with a server.
struct Inquiry {
    to: File,
    lines: Receiver<Vec<u8>>,
    next: u64,
    modern: bool,
}

/// What a server tells of itself and of its tools.
///
/// # Errors
/// When it does not answer as the protocol has it.
pub fn inquire(to: File, from: File, most: usize) -> Result<Pins, InquiryError> {
    // The next line is read when the last one was looked at: whoever says more waits.
    let (tell, lines) = sync_channel(0);
    never_wait(to.as_fd()).map_err(|_| InquiryError::Silent("server/discover"))?;
    std::thread::spawn(move || {
        let mut reader = LineReader::new(from, most);
        while let Ok(Some(Line::Whole(line))) = reader.next_line() {
            if tell.send(line.to_vec()).is_err() {
                return;
            }
        }
    });
    let mut inquiry = Inquiry { to, lines, next: 0, modern: true };
    let introduction = inquiry.introduce()?;
    let mut pins =
        Pins { instructions: introduction["instructions"].as_str().map(str::to_owned), ..Pins::default() };
    let mut cursor: Option<String> = None;
    let mut bytes = 0;
    for _ in 0..PAGES {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let page = inquiry.ask("tools/list", params)?;
        for tool in page["tools"].as_array().ok_or(InquiryError::NoList)? {
            let name = tool["name"].as_str().ok_or(InquiryError::NoList)?;
            let definition = pinned_part(tool);
            bytes += name.len() + line_of(&definition).len();
            if bytes > MOST_BYTES {
                return Err(InquiryError::NoList);
            }
            pins.tools.insert(name.to_owned(), definition);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(pins);
        }
    }
    Err(InquiryError::NoList)
}

impl Inquiry {
    /// The handshake of the new era, or of the old one when the server does not know the new.
    fn introduce(&mut self) -> Result<Value, InquiryError> {
        match self.ask("server/discover", json!({})) {
            Ok(result) => return Ok(result),
            Err(InquiryError::Refused { .. }) => self.modern = false,
            Err(error) => return Err(error),
        }
        let about = json!({ "name": "sbx", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": about });
        let result = self.ask("initialize", params)?;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }), "initialize")?;
        Ok(result)
    }

    fn send(&mut self, message: &Value, method: &'static str) -> Result<(), InquiryError> {
        let sent = write_until(self.to.as_fd(), Instant::now() + WAIT, line_of(message).as_bytes());
        sent.map_err(|_| InquiryError::Silent(method))
    }

    fn ask(&mut self, method: &'static str, mut params: Value) -> Result<Value, InquiryError> {
        self.next += 1;
        if self.modern {
            params["_meta"] = json!({
                VERSION_KEY: MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "sbx", "version": env!("CARGO_PKG_VERSION") },
            });
        }
        let asked = self.next.to_string();
        self.send(&json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }), method)?;
        let until = Instant::now() + WAIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(|_| InquiryError::Silent(method))?;
            let Ok(message) = Message::read(&line) else { continue };
            let Kind::Answer { id: Some(id), .. } = &message.kind else { continue };
            if Id::read(&asked).map(Id::key) != Some(id.key()) {
                continue;
            }
            let answer = message.tree().map_err(|_| InquiryError::NoList)?;
            return match (answer.get("result"), answer.get("error")) {
                (Some(result), _) => Ok(result.to_value()),
                (None, error) => {
                    let error = error.map(Json::to_value).unwrap_or_default();
                    Err(InquiryError::Refused {
                        method,
                        error: error["message"].as_str().unwrap_or("?").to_owned(),
                    })
                }
            };
        }
    }
}
