//! What an entry of a client's list is to become.
//!
//! Answers for telling an entry that is sbx's own from others, and for which of its words change. It leaves the file to
//! [`install`](super::install).
//! Invariant: the words of a server are kept as they stand, none left out and none read otherwise than the client does.

use super::Outcome;
use crate::text::option_value;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Options of `sbx mcp wrap` with a value in the next word.
pub(crate) const VALUED: [&str; 10] = [
    "--agent",
    "-a",
    "--in",
    "--backend",
    "--allow-degraded",
    "--allowlist",
    "--pins",
    "--preset",
    "--name",
    "--max-message",
];
/// Keys of an entry that is talked to over the network.
const REMOTE: [&str; 5] = ["url", "serverUrl", "httpUrl", "headers", "http_headers"];

/// What becomes of one key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Edit {
    /// It says this.
    Set(Value),
    /// It is there no more.
    Unset,
    /// The first so many words of its list are these; the others stay as they are written.
    Lead(usize, Vec<String>),
}

/// The keys of an entry that change, and how.
pub(super) type Meant = Vec<(&'static str, Edit)>;

impl Edit {
    /// Whether the key is so already.
    pub(super) fn is_done(&self, there: &Value) -> bool {
        match self {
            Self::Set(value) => value == there,
            Self::Unset => there.is_null(),
            Self::Lead(cut, put) => {
                let words = there.as_array().map(Vec::as_slice).unwrap_or_default();
                words.iter().take(*cut).map(Value::as_str).eq(put.iter().map(|word| Some(word.as_str())))
            }
        }
    }
}

/// An entry of sbx's own: `sbx mcp wrap …` or `sbx mcp serve …`.
enum Own<'s> {
    /// Its words, and which of them is the first of the server's.
    Wrap(Vec<&'s str>, usize),
    Serve,
}

/// What puts sbx before a server.
pub(super) fn wrapped(name: &str, server: &Value, sbx: &str, agent: &str) -> Result<Meant, Outcome> {
    let Some(command) = server["command"].as_str().filter(|_| !is_remote(server)) else {
        return Err(Outcome::Skipped("it is not started by the client"));
    };
    let args = words(server).ok_or(Outcome::Skipped("its `args` are not a list of words"))?;
    match own(command, &args, sbx) {
        Some(Own::Wrap(words, first)) => return Ok(rewrapped(&words, first, sbx, agent)),
        Some(Own::Serve) => return Err(Outcome::Skipped("it is sbx itself, which fences every call")),
        None => {}
    }
    let mut lead = before(agent, name);
    lead.push(command.to_owned());
    let args = if server["args"].is_null() { Edit::Set(json!(lead)) } else { Edit::Lead(0, lead) };
    Ok(vec![("command", Edit::Set(json!(sbx))), ("args", args)])
}

/// The words that stand before those of a server.
pub(crate) fn before(agent: &str, name: &str) -> Vec<String> {
    // What looks like an option is no value but in the word of its option.
    let option = |option: &str, value: &str| match value.starts_with('-') {
        true => vec![format!("{option}={value}")],
        false => vec![option.to_owned(), value.to_owned()],
    };
    let lead = ["mcp", "wrap"].map(str::to_owned).to_vec();
    [lead, option("--agent", agent), option("--name", name), vec!["--".to_owned()]].concat()
}

/// What an entry that is wrapped already becomes, perhaps for another agent or by an sbx that has moved.
fn rewrapped(words: &[&str], first: usize, sbx: &str, agent: &str) -> Meant {
    let mut own: Vec<String> = words[..first].iter().map(|word| (*word).to_owned()).collect();
    match option_value(&words[..first], "agent", Some('a')) {
        Some(at) => own[at.word] = format!("{}{agent}", &words[at.word][..at.from]),
        None => drop(own.splice(2..2, ["--agent".to_owned(), agent.to_owned()])),
    }
    vec![("command", Edit::Set(json!(sbx))), ("args", Edit::Lead(first, own))]
}

/// What takes sbx away from before a server.
pub(super) fn unwrapped(server: &Value) -> Option<Meant> {
    let (command, args) = (server["command"].as_str()?, words(server)?);
    let Some(Own::Wrap(words, first)) = own(command, &args, "sbx") else { return None };
    let server = words.get(first)?;
    // A server without words needs no list of them.
    let args = if words.len() == first + 1 { Edit::Unset } else { Edit::Lead(first + 1, Vec::new()) };
    Some(vec![("command", Edit::Set(json!(server))), ("args", args)])
}

/// What makes an entry that is there another server.
pub(super) fn replaced(there: &Value, command: &str, args: &[String], typed: bool) -> Meant {
    let mut meant = vec![("command", Edit::Set(json!(command))), ("args", Edit::Set(json!(args)))];
    if is_remote(there) {
        meant.extend(REMOTE.map(|key| (key, Edit::Unset)));
        meant.push(("type", if typed { Edit::Set(json!("stdio")) } else { Edit::Unset }));
    }
    meant
}

/// Whether a command is sbx, whatever its file is called.
#[must_use]
pub fn is_sbx(program: &str, words: &[String]) -> bool {
    let words: Vec<Cow<'_, str>> = words.iter().map(|word| Cow::Borrowed(word.as_str())).collect();
    program.rsplit('/').next() == Some("sbx") || own(program, &words, "sbx").is_some()
}

/// Whether an entry is talked to over the network, whatever else it says.
fn is_remote(server: &Value) -> bool {
    let other = server["type"].as_str().is_some_and(|kind| kind != "stdio" && kind != "local");
    other || REMOTE[..3].iter().any(|key| server[*key].is_string())
}

/// The words of an entry; none when they are not a list of words, and the client makes something of them that is not
/// known here.
fn words(server: &Value) -> Option<Vec<Cow<'_, str>>> {
    match &server["args"] {
        Value::Null => Some(Vec::new()),
        Value::Array(words) => words.iter().map(|word| word.as_str().map(Cow::Borrowed)).collect(),
        _ => None,
    }
}

/// Takes an entry of sbx's own apart. Its program may be called otherwise, as what a link leads to is; its words tell.
fn own<'s>(command: &str, args: &'s [Cow<'_, str>], sbx: &str) -> Option<Own<'s>> {
    let words: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
    let first = first_of_server(&words);
    let named = command == sbx || command.rsplit('/').next() == Some("sbx");
    let for_agent = || option_value(&words[..first.unwrap_or(words.len())], "agent", Some('a')).is_some();
    match words.get(..2)? {
        ["mcp", "wrap"] if named || for_agent() => {
            let first = first.unwrap_or(words.len());
            Some(Own::Wrap(words, first))
        }
        ["mcp", "serve"] if named || for_agent() => Some(Own::Serve),
        _ => None,
    }
}

/// Where the words of the server begin among those of `mcp wrap`.
fn first_of_server(words: &[&str]) -> Option<usize> {
    let mut at = 2;
    while let Some(word) = words.get(at) {
        at += match *word {
            "--" => {
                at += 1;
                break;
            }
            option if VALUED.contains(&option) => 2,
            option if option.starts_with('-') => 1,
            _ => break,
        };
    }
    (at < words.len()).then_some(at)
}
