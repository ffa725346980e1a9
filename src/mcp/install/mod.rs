//! Putting sbx into a client's list of servers, and taking it out again.
//!
//! Answers for what a client's file says afterwards. Reading and writing files is left to the command line.
//! Invariant: only the entries that are meant change; doing the same again changes nothing.

pub(crate) mod jsonc;
mod toml;

use serde_json::{Map, Value, json};

/// What is to be done to a list of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Add a server, or make it what it should be.
    Add {
        /// What the client calls it.
        name: String,
        /// The program.
        command: String,
        /// Its words.
        args: Vec<String>,
    },
    /// Put `sbx mcp wrap` before servers that are there.
    Wrap {
        /// How sbx is called.
        command: String,
        /// For which agent.
        agent: String,
        /// Only this server.
        only: Option<String>,
    },
    /// Take `sbx mcp wrap` away again.
    Unwrap {
        /// Only this server.
        only: Option<String>,
    },
}

/// How a client's list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape<'s> {
    /// The key of the list.
    pub key: &'s str,
    /// Whether the file is TOML; else JSON, perhaps with comments.
    pub toml: bool,
    /// Whether an entry says that it is talked to over its streams.
    pub typed: bool,
}

/// What a file says afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// All of it.
    pub text: String,
    /// What became of each entry that was looked at.
    pub entries: Vec<(String, Outcome)>,
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is new.
    Added,
    /// It is another.
    Changed,
    /// It is as it should be already.
    Same,
    /// It is gone.
    Removed,
    /// It is left alone, and why.
    Skipped(&'static str),
}

impl Outcome {
    /// One word for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Same => "same",
            Self::Removed => "removed",
            Self::Skipped(_) => "skipped",
        }
    }
}

/// Applies a change to a client's file.
///
/// # Errors
/// A sentence about what is wrong with the file.
pub fn install(text: &str, shape: Shape<'_>, change: &Change) -> Result<Installed, String> {
    let mut file = File::open(text, shape)?;
    let servers = file.servers()?;
    let mut told = Vec::new();
    match change {
        Change::Add { name, command, args } => {
            let mut entry = Map::new();
            let there = servers.get(name);
            if shape.typed && there.is_none() {
                entry.insert("type".to_owned(), json!("stdio"));
            }
            entry.extend([("command".to_owned(), json!(command)), ("args".to_owned(), json!(args))]);
            told.push((name.clone(), file.put(name, there, entry)?));
        }
        Change::Wrap { command, agent, only } => {
            for (name, server) in
                servers.iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == *name))
            {
                let outcome = match wrapped(name, server, command, agent) {
                    Ok(entry) => file.put(name, Some(server), entry)?,
                    Err(outcome) => outcome,
                };
                told.push((name.clone(), outcome));
            }
        }
        Change::Unwrap { only } => {
            for (name, server) in
                servers.iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == *name))
            {
                let outcome = match unwrapped(server) {
                    Some(entry) => file.put(name, Some(server), entry)?,
                    None => Outcome::Skipped("it is not wrapped"),
                };
                told.push((name.clone(), outcome));
            }
        }
    }
    let text = file.text();
    // What was written must be what was meant, to a reader of its own.
    File::open(&text, shape)?.servers()?;
    Ok(Installed { text, entries: told })
}

/// Every server of a client's list.
///
/// # Errors
/// A sentence about what is wrong with the file.
pub fn listed(text: &str, shape: Shape<'_>) -> Result<Map<String, Value>, String> {
    File::open(text, shape)?.servers()
}

/// The keys of an entry that runs a server behind sbx.
fn wrapped(name: &str, server: &Value, sbx: &str, agent: &str) -> Result<Map<String, Value>, Outcome> {
    let Some(command) = server["command"].as_str() else {
        return Err(Outcome::Skipped("it is not started by the client"));
    };
    if own_words(server, "wrap").is_some() {
        return Err(Outcome::Same);
    }
    if own_words(server, "serve").is_some() {
        return Err(Outcome::Skipped("it is sbx itself, which fences every call"));
    }
    let args = server["args"].as_array().cloned().unwrap_or_default();
    let words = ["mcp", "wrap", "--agent", agent, "--name", name, "--", command].map(|word| json!(word));
    Ok(Map::from_iter([
        ("command".to_owned(), json!(sbx)),
        ("args".to_owned(), words.into_iter().chain(args).collect()),
    ]))
}

/// The keys of an entry as it was before sbx.
fn unwrapped(server: &Value) -> Option<Map<String, Value>> {
    let words = own_words(server, "wrap")?;
    let at = words.iter().position(|word| word == "--")?;
    let (command, args) = words[at + 1..].split_first()?;
    Some(Map::from_iter([("command".to_owned(), command.clone()), ("args".to_owned(), json!(args))]))
}

/// The words of an entry that runs `sbx mcp` and this.
fn own_words<'s>(server: &'s Value, what: &str) -> Option<&'s [Value]> {
    let program = server["command"].as_str()?.rsplit('/').next()?;
    let words = server["args"].as_array()?;
    let starts = words.first() == Some(&json!("mcp")) && words.get(1) == Some(&json!(what));
    (program == "sbx" && starts).then_some(words)
}

/// A client's file, open for changes.
enum File<'s> {
    Json { text: String, key: &'s str },
    Toml { document: Box<toml_edit::DocumentMut>, key: &'s str },
}

impl<'s> File<'s> {
    fn open(text: &str, shape: Shape<'s>) -> Result<Self, String> {
        Ok(if shape.toml {
            Self::Toml { document: Box::new(toml::parse(text)?), key: shape.key }
        } else {
            Self::Json { text: text.to_owned(), key: shape.key }
        })
    }

    fn servers(&self) -> Result<Map<String, Value>, String> {
        match self {
            Self::Json { text, .. } if text.trim().is_empty() => Ok(Map::new()),
            Self::Json { text, key } => match jsonc::Node::parse(text)?.get(key).map(jsonc::Node::to_value) {
                None => Ok(Map::new()),
                Some(Value::Object(servers)) => Ok(servers),
                Some(_) => Err(format!("`{key}` is not a map")),
            },
            Self::Toml { document, key } => toml::servers(document, key),
        }
    }

    /// Makes an entry's keys what they should be; the others stay.
    fn put(
        &mut self,
        name: &str,
        there: Option<&Value>,
        entry: Map<String, Value>,
    ) -> Result<Outcome, String> {
        if there.is_some_and(|there| entry.iter().all(|(key, value)| &there[key] == value)) {
            return Ok(Outcome::Same);
        }
        match self {
            Self::Json { text, key } if there.is_none() => {
                *text = jsonc::set(text, &[key, name], &Value::Object(entry))?;
            }
            Self::Json { text, key } => {
                for (member, value) in &entry {
                    *text = jsonc::set(text, &[key, name, member], value)?;
                }
            }
            Self::Toml { document, key } => toml::set(document, key, name, &entry)?,
        }
        Ok(if there.is_none() { Outcome::Added } else { Outcome::Changed })
    }

    fn text(self) -> String {
        match self {
            Self::Json { text, .. } => text,
            Self::Toml { document, .. } => document.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Shape<'_> = Shape { key: "mcpServers", toml: false, typed: true };
    const TOML: Shape<'_> = Shape { key: "mcp_servers", toml: true, typed: false };

    fn wrap() -> Change {
        Change::Wrap { command: "/usr/bin/sbx".into(), agent: "scout".into(), only: None }
    }

    #[test]
    fn wrapping_twice_is_wrapping_once_and_can_be_undone() {
        let json = "{\n  // servers\n  \"mcpServers\": {\n    \"fs\": {\"command\": \"npx\", \"args\": [\"-y\", \"p\"], \"env\": {\"K\": \"v\"}},\n    \"web\": {\"url\": \"https://a.example\"}\n  }\n}\n";
        let toml = "# mine\nmodel = \"x\"\n\n[mcp_servers.fs]\ncommand = \"npx\" # why\nargs = [\"-y\", \"p\"]\nenv = { K = \"v\" }\n";
        for (text, shape) in [(json, JSON), (toml, TOML)] {
            let once = install(text, shape, &wrap()).unwrap();
            assert_eq!(once.entries[0].1, Outcome::Changed);
            assert!(once.text.contains("/usr/bin/sbx") && once.text.contains("scout"), "{}", once.text);
            for kept in ["// servers", "# mine", "# why", "\"K\": \"v\"", "K = \"v\"", "model"] {
                assert_eq!(text.contains(kept), once.text.contains(kept), "{kept} in {}", once.text);
            }
            let twice = install(&once.text, shape, &wrap()).unwrap();
            assert_eq!((twice.text.as_str(), &twice.entries[0].1), (once.text.as_str(), &Outcome::Same));
            let back = install(&once.text, shape, &Change::Unwrap { only: None }).unwrap();
            let read = |text: &str| File::open(text, shape).unwrap().servers().unwrap();
            assert_eq!(read(&back.text), read(text));
        }
    }

    #[test]
    fn a_server_is_added_once() {
        let add = Change::Add {
            name: "sbx".into(),
            command: "sbx".into(),
            args: vec!["mcp".into(), "serve".into()],
        };
        for (text, shape) in [("", JSON), ("{}", JSON), ("", TOML), ("model = 1\n", TOML)] {
            let once = install(text, shape, &add).unwrap();
            assert_eq!(once.entries, [("sbx".to_owned(), Outcome::Added)]);
            let twice = install(&once.text, shape, &add).unwrap();
            assert_eq!((twice.text, &twice.entries[0].1), (once.text, &Outcome::Same));
        }
    }
}
