//! From what a call came to, to the result a client reads.
//!
//! Invariant: no answer is longer than clients take, whatever a command printed.

use super::offer::Reply;
use crate::decide::{Denial, DenialCode};
use crate::mcp::results::denial_result;
use serde_json::{Value, json};

/// The most of one stream in an answer, as it is spelled in JSON: clients close a connection over lines of 10 MiB.
pub(super) const MOST_STREAM: usize = 3 << 19;
/// The most of one stream that is also told as text: a model reads no more.
const MOST_TEXT: usize = 64 << 10;
/// The most of a value that is told as text too.
const MOST_JSON: usize = 1 << 20;
/// The longest answer.
const MOST_ANSWER: usize = 9 << 20;

/// The result of a call.
pub(super) fn result(reply: &Reply) -> Value {
    match reply {
        Reply::Done { text, value } => {
            fitting(text.as_deref().map_or_else(|| as_text(value), shortened), value, false)
        }
        Reply::Failed { text, value } => fitting(shortened(&format!("Error: {text}")), value, true),
        Reply::Denied(denial) => denied(denial),
    }
}

/// A value as a text that is JSON too, unless it is so long that nobody would read it.
fn as_text(value: &Value) -> String {
    let text = format!("{value:#}");
    if text.len() > MOST_JSON { shortened(&text) } else { text }
}

/// The denial in all places where clients look: text for the model, an object for machines.
fn denied(denial: &Denial) -> Value {
    let mut result = denial_result(denial);
    // Whoever is kept to a list is told the list, in the form that is known for it.
    if denial.code != DenialCode::ToolNotAllowed {
        result["content"][0]["text"] = json!(format!("Error: {denial}"));
    }
    result["structuredContent"] = denial.to_json();
    result
}

fn fitting(text: String, value: &Value, is_error: bool) -> Value {
    let result = json!({
        "content": [{ "type": "text", "text": &text }], "structuredContent": value, "isError": is_error,
    });
    let length = result.to_string().len();
    if length <= MOST_ANSWER {
        return result;
    }
    let message = format!("the answer has {length} bytes, and clients take {MOST_ANSWER}; ask for less");
    json!({
        "content": [{ "type": "text", "text": format!("Error: {message}\n{}", shortened(&text)) }],
        "structuredContent": { "is_error": true, "code": "too_large", "message": message },
        "isError": true,
    })
}

/// A text of a length a model can read: its beginning and its end.
fn shortened(text: &str) -> String {
    if text.len() <= MOST_TEXT {
        return text.to_owned();
    }
    let mut head = MOST_TEXT / 2;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - MOST_TEXT / 2;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let left_out = tail - head;
    format!("{}\n[{left_out} bytes left out; structuredContent has more]\n{}", &text[..head], &text[tail..])
}

/// The first of a text that is no longer than `most` once it is spelled in JSON, and whether there was more.
pub(super) fn bounded(text: &str, most: usize) -> (String, bool) {
    let mut spelled = 0;
    for (at, c) in text.char_indices() {
        spelled += match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            '\u{0}'..='\u{1f}' | '\u{85}' | '\u{2028}' | '\u{2029}' => 6,
            other => other.len_utf8(),
        };
        if spelled > most {
            return (text[..at].to_owned(), true);
        }
    }
    (text.to_owned(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_by_what_it_takes_on_the_line() {
        assert_eq!(bounded("añb", 10), ("añb".to_owned(), false));
        assert_eq!(bounded("añb", 2), ("a".to_owned(), true));
        assert_eq!(bounded("\u{1}\u{1}", 11), ("\u{1}".to_owned(), true));
    }

    #[test]
    fn a_long_text_keeps_its_ends() {
        let text = format!("first{}last", "é".repeat(MOST_TEXT));
        let short = shortened(&text);
        assert!(short.len() < MOST_TEXT + 100 && short.starts_with("first") && short.ends_with("last"));
    }

    #[test]
    fn no_answer_is_longer_than_clients_take() {
        let reply = Reply::value(json!({ "x": "\u{1}".repeat(4 << 20) }));
        let result = result(&reply);
        assert_eq!(result["structuredContent"]["code"], "too_large");
        assert!(result.to_string().len() < MOST_ANSWER);
    }
}
