//! One line of the log, sealed to the one before it.
//!
//! Answers for the bytes of a line and for reading them back. It leaves files to others.
//! Invariant: the seal covers every byte before it, the seal of the previous line among them.

use super::brief::{Brief, Field};
use super::digest::hash_after;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::Write as _;

/// The longest line that is written; what is longer is shortened first.
pub(super) const MAX_LINE: usize = 64 << 10;
/// Strings and lists of an event that is too long are cut to this.
const CUT_TEXT: usize = 1024;
const CUT_LIST: usize = 64;
/// What stands before the seal, and how long a seal is with what surrounds it.
const SEAL: &[u8] = b",\"hash\":\"";
const SEALED: usize = SEAL.len() + 64 + 2;

/// Where a chain stands: the last line's number and seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The number of the line, counted from 1.
    pub seq: u64,
    /// Its seal.
    pub hash: [u8; 32],
}

impl Link {
    /// Before the first line.
    pub const START: Self = Self { seq: 0, hash: [0; 32] };
}

/// A line of the log, read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// Its number.
    pub seq: u64,
    /// When, as it is written.
    pub time: String,
    /// Which run of sbx, or which conversation, it belongs to.
    pub session: String,
    /// Whose authority it was done under.
    pub agent: String,
    /// What sort of thing.
    pub kind: String,
    /// What belongs to this sort.
    pub body: Map<String, Value>,
    /// The seal of the line before.
    pub prev: [u8; 32],
    /// Its own seal, as written.
    pub hash: [u8; 32],
}

/// What is wrong with the bytes of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It is no line of a log at all.
    Foreign,
    /// Its seal does not fit its bytes: it was changed.
    Changed {
        /// The number it claims.
        seq: u64,
        /// The seal it claims.
        hash: [u8; 32],
    },
}

/// What a line says beside its place in the chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    pub(super) time: &'a str,
    pub(super) session: &'a str,
    pub(super) agent: &'a str,
    pub(super) kind: &'a str,
    pub(super) body: Body<'a>,
}

/// What belongs to a sort of event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    /// As an event has it.
    Map(&'a Map<String, Value>),
    /// As it is before an event is made.
    Brief(&'a Brief<'a>),
}

/// Adds the line that follows `last`, with its end of line, to those of a process that has sealed so many; where the
/// chain stands after it.
pub(super) fn seal(text: &mut Vec<u8>, content: Content<'_>, last: Link, sealed: u64) -> Link {
    let (begin, seq) = (text.len(), last.seq + 1);
    let _ = write!(text, "{{\"seq\":{seq}");
    for (name, value) in [
        ("time", content.time),
        ("session", content.session),
        ("agent", content.agent),
        ("kind", content.kind),
    ] {
        text.extend_from_slice(b",\"");
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b"\":");
        quote(text, value);
    }
    text.extend_from_slice(b",\"body\":");
    match content.body {
        Body::Map(body) => bounded(text, body),
        Body::Brief(brief) => fields(text, brief),
    }
    text.extend_from_slice(b",\"prev\":\"");
    Hex(&last.hash).add_to(text);
    text.push(b'"');
    let hash = hash_after(sealed, &text[begin..]);
    text.extend_from_slice(SEAL);
    Hex(&hash).add_to(text);
    text.extend_from_slice(b"\"}\n");
    Link { seq, hash }
}

/// Adds a text in quotes; a long one is cut.
fn quote(text: &mut Vec<u8>, value: &str) {
    const MOST: usize = 256;
    let long = value.len() > MOST;
    let cut = if long { value.char_indices().nth(MOST / 4) } else { None };
    add_json(text, &value[..cut.map_or(value.len(), |(at, _)| at)]);
}

/// Adds a value as JSON.
fn add_json(text: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Only the text could refuse it, or a key that is none; both are in memory and plain.
    let _ = serde_json::to_writer(text, value);
}

/// What a body may take of a line.
const ROOM: usize = MAX_LINE - 4096;

/// Adds fields as JSON; when they are too long for a line, as the body they come to.
fn fields(text: &mut Vec<u8>, brief: &Brief<'_>) {
    let begin = text.len();
    for (index, (name, field)) in brief.fields.iter().enumerate() {
        text.push(if index == 0 { b'{' } else { b',' });
        add_json(text, *name);
        text.push(b':');
        match field {
            Field::Text(value) => add_json(text, *value),
            Field::Flag(true) => text.extend_from_slice(b"true"),
            Field::Flag(false) => text.extend_from_slice(b"false"),
            Field::Nothing => text.extend_from_slice(b"null"),
        }
    }
    text.extend_from_slice(if brief.fields.is_empty() { b"{}" } else { b"}" });
    if text.len() - begin > ROOM {
        text.truncate(begin);
        bounded(text, &brief.body());
    }
}

/// Adds the body as JSON, shortened when it is too long for a line.
fn bounded(text: &mut Vec<u8>, body: &Map<String, Value>) {
    let begin = text.len();
    add_json(text, body);
    let whole = text.len() - begin;
    if whole <= ROOM {
        return;
    }
    text.truncate(begin);
    let cut: Map<String, Value> = body.iter().map(|(key, value)| (key.clone(), shortened(value))).collect();
    add_json(text, &cut);
    if text.len() - begin > ROOM {
        text.truncate(begin);
        let _ = write!(text, "{{\"cut\":{whole}}}");
    }
}

fn shortened(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) if text.len() > CUT_TEXT => {
            let kept: String = text.chars().take(CUT_TEXT / 4).collect();
            Value::String(format!("{kept}… (of {} bytes)", text.len()))
        }
        Value::String(_) => value.clone(),
        Value::Array(items) => {
            let more = items.len().saturating_sub(CUT_LIST);
            let rest = (more > 0).then(|| Value::String(format!("… ({more} more)")));
            Value::Array(items.iter().take(CUT_LIST).map(shortened).chain(rest).collect())
        }
        Value::Object(pairs) => {
            Value::Object(pairs.iter().map(|(key, value)| (key.clone(), shortened(value))).collect())
        }
    }
}

impl Entry {
    /// Reads a line, without its end of line.
    ///
    /// # Errors
    /// When it is not a line, or not the line that was sealed.
    pub fn read(line: &[u8]) -> Result<Self, Fault> {
        let at = line.len().checked_sub(SEALED).ok_or(Fault::Foreign)?;
        let entry = Self::parse(line).ok_or(Fault::Foreign)?;
        let sealed = line[at..].starts_with(SEAL) && line[at..].ends_with(b"\"}");
        let hash: [u8; 32] = Sha256::digest(&line[..at]).into();
        if sealed && hash == entry.hash {
            Ok(entry)
        } else {
            Err(Fault::Changed { seq: entry.seq, hash: entry.hash })
        }
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let Value::Object(mut fields) = serde_json::from_slice(line).ok()? else { return None };
        let mut text = |name: &str| match fields.get_mut(name)?.take() {
            Value::String(text) => Some(text),
            _ => None,
        };
        let (time, session, agent) = (text("time")?, text("session")?, text("agent")?);
        let (kind, prev, hash) = (text("kind")?, text("prev")?, text("hash")?);
        let seq = fields.get("seq")?.as_u64()?;
        let body = fields.get("body")?.as_object()?.clone();
        Some(Self { seq, time, session, agent, kind, body, prev: unhex(&prev)?, hash: unhex(&hash)? })
    }

    /// Where the chain stands after this line.
    #[must_use]
    pub const fn link(&self) -> Link {
        Link { seq: self.seq, hash: self.hash }
    }

    /// Whether it follows `last`.
    #[must_use]
    pub fn follows(&self, last: Link) -> bool {
        self.prev == last.hash && Some(self.seq) == last.seq.checked_add(1)
    }

    /// For machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "seq": self.seq, "time": self.time, "session": self.session, "agent": self.agent,
            "kind": self.kind, "body": self.body, "hash": Hex(&self.hash).to_string(),
        })
    }

    /// Whether it tells of something that was refused.
    #[must_use]
    pub fn is_denial(&self) -> bool {
        self.body.get("decision").is_some_and(|decision| decision == "deny")
            || self.body.get("denial").is_some_and(|denial| !denial.is_null())
    }
}

/// Bytes as hexadecimal digits.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl Hex<'_> {
    /// Adds the digits to a text.
    pub(super) fn add_to(&self, text: &mut Vec<u8>) {
        text.reserve(2 * self.0.len());
        for byte in self.0 {
            text.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
        self.0.iter().try_for_each(|byte| write!(f, "{}{}", digit(byte >> 4), digit(*byte)))
    }
}

/// Thirty-two bytes from sixty-four digits.
pub(super) fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let mut bytes = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(body: Value, last: Link) -> (String, Link) {
        let Value::Object(body) = body else { unreachable!("an object") };
        let mut text = Vec::new();
        let content = Content { time: "t", session: "s", agent: "a\"b", kind: "k", body: Body::Map(&body) };
        let link = seal(&mut text, content, last, 0);
        (String::from_utf8(text).unwrap(), link)
    }

    #[test]
    fn a_sealed_line_is_read_back_and_follows() {
        let (first, link) = line(json!({ "x": [1, "é\n"] }), Link::START);
        let entry = Entry::read(first.trim_end().as_bytes()).unwrap();
        assert!(entry.follows(Link::START) && entry.link() == link);
        assert_eq!((entry.agent.as_str(), &entry.body["x"]), ("a\"b", &json!([1, "é\n"])));
        let (second, _) = line(json!({}), link);
        let second = Entry::read(second.trim_end().as_bytes()).unwrap();
        assert!(second.follows(link) && !second.follows(Link::START));
    }

    #[test]
    fn the_line_of_a_brief_is_that_of_its_event() {
        let long = "é\"x".repeat(MAX_LINE);
        for value in ["", "plain", "q\"\\\n\u{1}\u{2028}é", &long] {
            let fields = [
                ("text", Field::Text(value)),
                ("yes", Field::Flag(true)),
                ("no", Field::Flag(false)),
                ("none", Field::Nothing),
            ];
            for fields in [&fields[..], &fields[..1], &[]] {
                let brief = Brief { kind: "k", agent: "a\"b", fields };
                let (whole, link) = line(brief.event().body.into(), Link::START);
                let mut text = Vec::new();
                let body = Body::Brief(&brief);
                let content = Content { time: "t", session: "s", agent: brief.agent, kind: brief.kind, body };
                assert_eq!(seal(&mut text, content, Link::START, 100), link);
                assert_eq!(String::from_utf8(text).unwrap(), whole);
            }
        }
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let (text, _) = line(json!({ "status": 0 }), Link::START);
        let bytes = text.trim_end().as_bytes();
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            assert!(Entry::read(&changed).is_err(), "byte {at}");
        }
        let padded = text.trim_end().replace("\"hash\":", " \"hash\":");
        assert!(Entry::read(padded.as_bytes()).is_err());
        let doubled = text.trim_end().replacen("{\"seq\"", "{\"seq\":9,\"seq\"", 1);
        assert!(Entry::read(doubled.as_bytes()).is_err());
    }

    #[test]
    fn a_line_is_never_longer_than_the_longest() {
        let long = json!({ "a": "x".repeat(MAX_LINE), "b": vec!["y".repeat(2000); 500] });
        let (text, _) = line(long, Link::START);
        assert!(text.len() <= MAX_LINE && Entry::read(text.trim_end().as_bytes()).is_ok());
        let many: Map<String, Value> = (0..9000).map(|n| (format!("key {n}"), json!("value"))).collect();
        let (text, _) = line(Value::Object(many), Link::START);
        assert!(text.len() <= MAX_LINE && text.contains("\"cut\""));
    }
}
