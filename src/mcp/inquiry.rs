//! Asking a server for its tools, as a client of either era would.
//!
//! Answers for the handshake and for every page. It leaves what is done with the answers to others.
//! Invariant: waits are bounded, and so is the number of pages.

use super::definitions::MOST_BYTES;
use super::pins::{Pins, pinned_part};
use super::protocol::{Json, Kind, Line, LineReader, Message, VERSION_KEY, line_of};
use super::wrap::write_until;
use sbx_platform::ready::never_wait;
use serde_json::{Value, json};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How long a server may take for one answer; packages are slow to start.
const WAIT: Duration = Duration::from_secs(60);
/// Pages of tools at most.
const PAGES: usize = 1000;
/// How long a server may take for its answer to a question that servers of the old era may not know, until it is asked
/// in their way too.
const PROBE: Duration = Duration::from_secs(5);
const DISCOVER: &str = "server/discover";
const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// Why a server could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InquiryError {
    /// It took too long.
    #[error("the server did not answer {0}")]
    Silent(&'static str),
    /// It went away.
    #[error("the server ended in place of answering {0}")]
    Gone(&'static str),
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

/// In which eras a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eras {
    /// In the new one, and in the old one when it does not answer.
    Both,
    /// In the old one only: the question of the new one ended it.
    Legacy,
}

impl InquiryError {
    /// Whether the server went away over the question of the new era, so that it may answer that of the old one.
    #[must_use]
    pub fn is_of_new_era(&self) -> bool {
        matches!(self, Self::Gone(method) if *method == DISCOVER)
    }
}

/// What a server tells of itself and of its tools.
///
/// # Errors
/// When it does not answer as the protocol has it.
pub fn inquire(to: File, from: File, most: usize, eras: Eras) -> Result<Pins, InquiryError> {
    // The next line is read when the last one was looked at: whoever says more waits.
    let (tell, lines) = sync_channel(0);
    never_wait(to.as_fd()).map_err(|_| InquiryError::Silent(DISCOVER))?;
    std::thread::spawn(move || {
        let mut reader = LineReader::new(from, most);
        while let Ok(Some(Line::Whole(line))) = reader.next_line() {
            if tell.send(line.to_vec()).is_err() {
                return;
            }
        }
    });
    let mut inquiry = Inquiry { to, lines, next: 0, modern: true };
    let introduction = inquiry.introduce(eras).map_err(|error| match error {
        InquiryError::Gone(_) if eras == Eras::Both => InquiryError::Gone(DISCOVER),
        error => error,
    })?;
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
    /// The handshake of the new era, or of the old one when the server does not know the new. One that is slow may know
    /// either, and is heard out about both.
    fn introduce(&mut self, eras: Eras) -> Result<Value, InquiryError> {
        let mut asked = Vec::new();
        if eras == Eras::Both {
            asked.push((self.question(DISCOVER, json!({}))?, DISCOVER));
            match self.answer(&asked, PROBE) {
                Ok((_, result)) => return Ok(result),
                Err(InquiryError::Refused { .. }) => asked.clear(),
                Err(InquiryError::Silent(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.modern = false;
        let about = json!({ "name": "sbx", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": about });
        asked.push((self.question("initialize", params)?, "initialize"));
        let (to, result) = match self.answer(&asked, WAIT) {
            Err(InquiryError::Refused { method: DISCOVER, .. }) => self.answer(&asked[1..], WAIT)?,
            answered => answered?,
        };
        self.modern = to == DISCOVER;
        if !self.modern {
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }), "initialize")?;
        }
        Ok(result)
    }

    fn send(&mut self, message: &Value, method: &'static str) -> Result<(), InquiryError> {
        let sent = write_until(self.to.as_fd(), Instant::now() + WAIT, line_of(message).as_bytes());
        sent.map_err(|error| match error.kind() {
            ErrorKind::TimedOut => InquiryError::Silent(method),
            _ => InquiryError::Gone(method),
        })
    }

    fn ask(&mut self, method: &'static str, params: Value) -> Result<Value, InquiryError> {
        let asked = self.question(method, params)?;
        self.answer(&[(asked, method)], WAIT).map(|(_, result)| result)
    }

    /// Asks, and says under which identifier.
    fn question(&mut self, method: &'static str, mut params: Value) -> Result<u64, InquiryError> {
        self.next += 1;
        if self.modern {
            params["_meta"] = json!({
                VERSION_KEY: MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "sbx", "version": env!("CARGO_PKG_VERSION") },
            });
        }
        self.send(&json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }), method)?;
        Ok(self.next)
    }

    /// The first answer to one of these questions, and to which.
    fn answer(
        &self,
        asked: &[(u64, &'static str)],
        patience: Duration,
    ) -> Result<(&'static str, Value), InquiryError> {
        let last = asked.last().map_or(DISCOVER, |(_, method)| *method);
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(|error| match error {
                RecvTimeoutError::Timeout => InquiryError::Silent(last),
                RecvTimeoutError::Disconnected => {
                    InquiryError::Gone(asked.first().map_or(last, |(_, first)| *first))
                }
            })?;
            let Ok(message) = Message::read(&line) else { continue };
            let Kind::Answer { id: Some(id), .. } = &message.kind else { continue };
            let Some((_, method)) = asked.iter().find(|(number, _)| id.key() == number.to_string()) else {
                continue;
            };
            let answer = message.tree().map_err(|_| InquiryError::NoList)?;
            return match (answer.get("result"), answer.get("error")) {
                (Some(result), _) => Ok((method, result.to_exact_value())),
                (None, error) => {
                    let error = error.map(Json::to_value).unwrap_or_default();
                    let error = error["message"].as_str().unwrap_or("?").to_owned();
                    Err(InquiryError::Refused { method, error })
                }
            };
        }
    }
}
