//! What a line is: a request, a notification, an answer.
//!
//! Only the top of the message is taken apart; the rest is known to be JSON and kept as it stands.
//! Invariant: a line that any reader could take for another kind of message, or for several, is refused.

use super::json::{Fault, Scanner};
use super::tree::{Json, no_prototype, raw, unique};
use crate::capability::fold;
use std::borrow::Cow;

/// The keys JSON-RPC gives a meaning to.
const KEYS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// One message, the top of it taken apart.
#[derive(Clone, Debug)]
pub struct Message<'l> {
    /// The line, without its end.
    pub line: &'l str,
    /// What it is.
    pub kind: Kind<'l>,
    /// Whether it holds characters that end a line for some readers; such a line is never passed on as it is.
    pub separators: bool,
}

/// What a message is.
#[derive(Clone, Debug)]
pub enum Kind<'l> {
    /// Asks for an answer.
    Request {
        /// By which the answer is known.
        id: Id<'l>,
        /// What is asked.
        method: Cow<'l, str>,
        /// With what.
        params: Option<&'l str>,
    },
    /// Tells something.
    Notification {
        /// What is told.
        method: Cow<'l, str>,
        /// With what.
        params: Option<&'l str>,
    },
    /// Answers.
    Answer {
        /// To which request; none only in errors.
        id: Option<Id<'l>>,
        /// What came of it; none for an error.
        result: Option<&'l str>,
    },
}

/// Whole numbers of so many digits are the same to readers that have floating point only.
const MOST_DIGITS: usize = 15;

/// An identifier as it was spelled.
#[derive(Clone, Copy, Debug)]
pub struct Id<'l>(&'l str);

impl<'l> Id<'l> {
    /// Takes the text of an identifier: a string or a number.
    #[must_use]
    pub fn read(text: &'l str) -> Option<Self> {
        matches!(text.as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9')).then_some(Self(text))
    }

    /// As it was spelled.
    #[must_use]
    pub const fn spelled(self) -> &'l str {
        self.0
    }

    /// The same for every spelling that some reader takes for the same identifier.
    #[must_use]
    pub fn key(self) -> String {
        // A whole number that every reader can hold is spelled in one way, but for a point or an exponent.
        if self.0.len() <= MOST_DIGITS && self.0.bytes().all(|byte| byte.is_ascii_digit()) {
            return self.0.to_owned();
        }
        match Json::read(self.0) {
            Ok(Json::Text(text)) => format!("\"{text}"),
            // Many readers have no numbers but these.
            _ => self.0.parse::<f64>().map_or_else(|_| self.0.to_owned(), |number| number.to_string()),
        }
    }
}

impl<'l> Message<'l> {
    /// Takes a line apart.
    ///
    /// # Errors
    /// When it is not one message, or readers could differ about which.
    pub fn read(line: &'l [u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(line).map_err(|_| Fault::Encoding)?;
        // Before the line's end a carriage return is harmless: it stands outside of the message.
        let text = text.strip_suffix('\r').unwrap_or(text);
        let mut scanner = Scanner::new(text);
        scanner.blanks();
        match scanner.peek() {
            Some(b'{') => {}
            Some(b'[') => return Err(Fault::Batch),
            _ if text.starts_with('\u{feff}') => return Err(Fault::ByteOrderMark),
            _ => {
                // Telling apart what is no object from what is no JSON.
                scanner.value(0)?;
                scanner.end()?;
                return Err(Fault::NotObject);
            }
        }
        let mut members: Vec<(Cow<'l, str>, &'l str)> = Vec::with_capacity(4);
        scanner.members(0, |scanner, key| {
            let key = no_prototype(key.decode()?)?;
            members.push((key, scanner.value(1)?));
            Ok(())
        })?;
        scanner.end()?;
        unique(members.iter().map(|(key, _)| key.as_ref()), true)?;
        for (key, _) in &members {
            if !KEYS.contains(&key.as_ref()) && KEYS.contains(&fold(key).as_ref()) {
                return Err(Fault::Lookalike(key.clone().into_owned()));
            }
        }
        let kind = kind(&members)?;
        Ok(Self { line: text, kind, separators: scanner.separators })
    }

    /// The whole message as a tree, for policing and for its one spelling.
    ///
    /// # Errors
    /// When readers could differ about some part of it.
    pub fn tree(&self) -> Result<Json<'l>, Fault> {
        Json::read(self.line)
    }
}

fn kind<'l>(members: &[(Cow<'l, str>, &'l str)]) -> Result<Kind<'l>, Fault> {
    let get = |wanted: &str| members.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value);
    let text = |value: &'l str| match Json::read(value)? {
        Json::Text(text) => Ok(text),
        _ => Err(Fault::NotMessage("`method` is a string")),
    };
    let version = get("jsonrpc").map(Json::read).transpose()?;
    if version.as_ref().and_then(Json::text) != Some("2.0") {
        return Err(Fault::NotMessage("`jsonrpc` is \"2.0\""));
    }
    let id = match get("id") {
        None => None,
        Some("null") => None,
        Some(id) => Some(Id::read(id).ok_or(Fault::NotMessage("`id` is a string or a number"))?),
    };
    if let Some(Id(spelled)) = id {
        // Half a surrogate pair would be another identifier to other readers.
        Json::read(spelled)?;
    }
    match (get("method"), get("result"), get("error")) {
        (Some(method), None, None) => {
            // Nothing, said in so many words.
            let (method, params) = (text(method)?, get("params").filter(|params| *params != "null"));
            if params.is_some_and(|params| !params.starts_with(['{', '['])) {
                return Err(Fault::NotMessage("`params` is an object"));
            }
            match (id, get("id")) {
                (Some(id), _) => Ok(Kind::Request { id, method, params }),
                (None, None) => Ok(Kind::Notification { method, params }),
                (None, Some(_)) => Err(Fault::NotMessage("a request's `id` is not null")),
            }
        }
        (None, Some(result), None) => match id {
            Some(_) => Ok(Kind::Answer { id, result: Some(result) }),
            None => Err(Fault::NotMessage("a result has the `id` of its request")),
        },
        (None, None, Some(_)) => Ok(Kind::Answer { id, result: None }),
        (None, None, None) => Err(Fault::NotMessage("a message has `method`, `result` or `error`")),
        _ => Err(Fault::NotMessage("a message is a request or an answer, not both")),
    }
}

/// The identifier of a message of which only the beginning and the end are known, as far as can be told.
///
/// Only good for answering with an error: what stands between may say otherwise.
#[must_use]
pub fn guess_id(head: &[u8], tail: &[u8]) -> Option<String> {
    let from_head = || {
        let head = std::str::from_utf8(head)
            .unwrap_or_else(|error| std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default());
        let mut found = None;
        let mut scanner = Scanner::new(head);
        scanner.blanks();
        // Stops at the member that is cut off.
        let _ = scanner.members(0, |scanner, key| {
            let key = key.decode()?;
            let value = scanner.value(1)?;
            if key == "id" {
                found = Some(value);
            }
            Ok(())
        });
        found.and_then(Id::read).map(|id| id.spelled().to_owned())
    };
    let from_tail = || {
        let tail = String::from_utf8_lossy(tail);
        let at = tail.rfind("\"id\":")?;
        let rest = format!("{{{}", tail[at..].trim_end());
        // Where more than one map ends behind it, it is another's, deeper inside.
        Json::read(&rest).ok()?;
        raw(&rest, "id").and_then(Id::read).map(|id| id.spelled().to_owned())
    };
    from_head().or_else(from_tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &[u8]) -> &'static str {
        Message::read(line).map_or_else(|fault| fault.name(), |_| "taken")
    }

    #[test]
    fn tricks_to_be_read_in_two_ways_are_refused() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;
        assert_eq!(fault(call.as_bytes()), "taken");
        let cases: &[(&str, &str)] = &[
            ("{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":\r{\"a\":1}\r}", "control_character"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#, "duplicate_key"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"tools/call"}"#, "duplicate_key"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","METHOD":"tools/call"}"#, "duplicate_key"),
            (r#"{"jsonrpc":"2.0","id":1,"Method":"tools/call"}"#, "lookalike_key"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","param\u017f":{}}"#, "lookalike_key"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params\u0000y":{}}"#, "lookalike_key"),
            (r#"{"jsonrpc":"2.0","id":1,"metho\ud800d":"x"}"#, "surrogate"),
            (r#"{"jsonrpc":"2.0","id":1,"__proto__":{"method":"tools/call"},"method":"x"}"#, "prototype_key"),
            (r#"{"jsonrpc":"2.0","id":1,"__pr\u006fto__":{},"method":"x"}"#, "prototype_key"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":7}"#, "not_message"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]"#, "batch"),
            ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}", "byte_order_mark"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#, "not_message"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "not_message"),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"x"}"#, "not_message"),
            (r#"{"id":1,"method":"x"}"#, "not_message"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x"} {}"#, "syntax"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x",}"#, "syntax"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":01}}"#, "syntax"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}"#, "syntax"),
            ("\"text\"", "not_object"),
            ("not json", "syntax"),
            ("", "syntax"),
        ];
        for (line, expected) in cases {
            assert_eq!(fault(line.as_bytes()), *expected, "{line}");
        }
        assert_eq!(fault(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}"), "encoding");
        let deep =
            format!(r#"{{"jsonrpc":"2.0","method":"x","params":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        assert_eq!(fault(deep.as_bytes()), "depth");
    }

    #[test]
    fn what_some_readers_take_for_a_line_end_is_noticed() {
        let line = "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"a\":\"\u{2028}é\"}}";
        let message = Message::read(line.as_bytes()).unwrap();
        assert!(message.separators);
        let mut spelled = String::new();
        message.tree().unwrap().write(&mut spelled);
        assert_eq!(spelled, line.replace('\u{2028}', "\\u2028"));
    }

    #[test]
    fn numbers_and_order_survive_the_one_spelling() {
        let text = r#"{"b":1e400,"a":[1.0,-0,18446744073709551616],"c":"\ud83d\ude00\u0041\/"}"#;
        let mut spelled = String::new();
        Json::read(text).unwrap().write(&mut spelled);
        assert_eq!(spelled, r#"{"b":1e400,"a":[1.0,-0,18446744073709551616],"c":"😀A/"}"#);
    }

    #[test]
    fn numbers_that_are_compared_are_told_apart() {
        let exact = |text| Json::read(text).unwrap().to_exact_value();
        for (one, other) in [
            ("18446744073709551616", "18446744073709551617"),
            ("0.1234567890123456789", "0.1234567890123456788"),
            ("1e-400", "2e-400"),
            ("1e400", "2e400"),
            ("-9223372036854775809", "-9223372036854775810"),
        ] {
            assert_ne!(exact(one), exact(other), "{one}");
        }
        for plain in ["0", "-1", "0.5", "1e3", "18446744073709551615", "0.0", "0e5"] {
            assert!(exact(plain).is_number(), "{plain}");
        }
    }

    #[test]
    fn identifiers_are_the_same_in_every_spelling() {
        let key = |text| Id::read(text).unwrap().key();
        assert_eq!(key("1"), key("1.0"));
        assert_eq!(key("10"), key("1e1"));
        assert_eq!(key("999999999999999"), key("999999999999999.0"));
        assert_eq!(key("9007199254740993"), key("9007199254740992"));
        assert_eq!(key("\"a\""), key("\"\\u0061\""));
        assert_ne!(key("1"), key("\"1\""));
    }

    #[test]
    fn a_cut_message_still_tells_whose_it_is() {
        assert_eq!(guess_id(br#"{"jsonrpc":"2.0","id":7,"result":{"x":"aaa"#, b"aaa\"}}").unwrap(), "7");
        assert_eq!(
            guess_id(br#"{"result":{"x":"aaa"#, br#"aa"},"jsonrpc":"2.0","id":"k"}"#).unwrap(),
            "\"k\""
        );
        assert_eq!(guess_id(b"{\"x\":", b"}"), None);
        // Another's, deeper inside.
        assert_eq!(guess_id(b"{\"params\":{\"x\":\"aa", b"aa\",\"id\":7}}"), None);
    }
}
