//! Putting the hook into a client's settings, and taking it out again.
//!
//! Answers for what a client's file says afterwards. Reading and writing files is left to the command line.
//! Invariant: only sbx's own entries change; doing the same again changes nothing.

use super::clients::Client;
use super::fence::word;
use super::plain;
use crate::mcp::install::jsonc::{self, Kind, Node};
use crate::mcp::install::{Installed, Outcome};
use serde_json::{Value, json};

/// Seconds that a client waits; sbx needs milliseconds.
const PATIENCE: u64 = 5;

/// How the hook is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The absolute path of sbx.
    pub program: String,
    /// What follows `sbx hook CLIENT`.
    pub options: Vec<String>,
}

/// Puts a hook into a client's file under each of its events, or takes it out of them.
///
/// # Errors
/// A sentence about what is wrong with the file.
pub fn install(
    text: &str,
    client: Client,
    events: &[&str],
    hook: Option<&Hook>,
) -> Result<Installed, String> {
    let mut text = text.to_owned();
    let mut entries = Vec::new();
    if hook.is_some() && client == Client::Cursor {
        text = versioned(&text)?;
    }
    for event in events {
        let (next, outcome) = put(&text, client, event, hook)?;
        entries.push(((*event).to_owned(), outcome));
        text = next;
    }
    Ok(Installed { text, entries })
}

/// Every hook of sbx's in a client's file: the event, and the entry.
///
/// # Errors
/// A sentence about what is wrong with the file.
pub fn listed(text: &str, client: Client, events: &[&str]) -> Result<Vec<(String, Value)>, String> {
    let root = Node::parse(text)?;
    let list = |event: &&&str| root.get("hooks")?.get(event).and_then(|list| own(list, client));
    let found =
        events.iter().filter_map(|event| Some(((**event).to_owned(), list(&event)?.entry.to_value())));
    Ok(found.collect())
}

/// Whether a client blocks calls when this entry fails; none where it has no such switch.
#[must_use]
pub fn closes(client: Client, entry: &Value) -> Option<bool> {
    match client {
        Client::ClaudeCode => Some(entry["onFailure"] == "block"),
        Client::Cursor => Some(entry["failClosed"] == true),
        Client::Codex | Client::Vscode | Client::Gemini => None,
    }
}

/// Cursor wants the version of its format said.
fn versioned(text: &str) -> Result<String, String> {
    let there = !text.trim().is_empty() && Node::parse(text)?.get("version").is_some();
    if there { Ok(text.to_owned()) } else { jsonc::set(text, &["version"], &json!(1)) }
}

fn put(text: &str, client: Client, event: &str, hook: Option<&Hook>) -> Result<(String, Outcome), String> {
    let root = if text.trim().is_empty() { None } else { Some(Node::parse(text)?) };
    let list = root.as_ref().and_then(|root| root.get("hooks")?.get(event));
    let entry = hook.map(|hook| entry(client, hook));
    let (Some(root), Some(list)) = (&root, list) else {
        return match entry {
            None => Ok((text.to_owned(), Outcome::Same)),
            Some(entry) => {
                let list = json!([grouped(client, &entry)]);
                Ok((jsonc::set(text, &["hooks", event], &list)?, Outcome::Added))
            }
        };
    };
    let Kind::List(_) = &list.kind else { return Err(format!("`hooks.{event}` is not a list")) };
    Ok(match (own(list, client), entry) {
        (None, None) => (text.to_owned(), Outcome::Same),
        (None, Some(entry)) => (jsonc::push(text, list, &grouped(client, &entry)), Outcome::Added),
        (Some(own), None) => (own.taken_out(text, list), Outcome::Removed),
        (Some(own), Some(entry)) if own.entry.to_value() == entry => (text.to_owned(), Outcome::Same),
        (Some(own), Some(entry)) => (jsonc::replace(text, root, own.entry, &entry), Outcome::Changed),
    })
}

/// What a client is told about the hook.
fn entry(client: Client, hook: &Hook) -> Value {
    let words = ["hook", client.name()].into_iter().chain(hook.options.iter().map(String::as_str));
    let words: Vec<&str> = words.collect();
    // Only a client that takes words apart starts the program without a shell.
    let line = || words.iter().fold(word(&hook.program), |line, next| format!("{line} {}", word(next)));
    match client {
        Client::ClaudeCode => json!({
            "type": "command", "command": hook.program, "args": words, "timeout": PATIENCE, "onFailure": "block",
        }),
        Client::Codex => json!({ "type": "command", "command": line(), "timeout": PATIENCE }),
        Client::Vscode => json!({ "type": "command", "command": line(), "timeout": PATIENCE }),
        Client::Gemini => {
            json!({ "name": "sbx", "type": "command", "command": line(), "timeout": PATIENCE * 1000 })
        }
        Client::Cursor => json!({ "command": line(), "timeout": PATIENCE, "failClosed": true }),
    }
}

/// Some clients keep hooks in groups of one matcher; none here, for every tool is asked about.
fn grouped(client: Client, entry: &Value) -> Value {
    match client {
        Client::ClaudeCode | Client::Codex | Client::Gemini => json!({ "hooks": [entry] }),
        Client::Cursor | Client::Vscode => entry.clone(),
    }
}

/// An entry of sbx's, and where it stands.
struct Own<'n> {
    entry: &'n Node,
    /// Its place in the list, or that of its group.
    at: usize,
    /// The group's list, and the place in it.
    group: Option<(&'n Node, usize)>,
}

impl Own<'_> {
    fn taken_out(&self, text: &str, list: &Node) -> String {
        match self.group {
            Some((hooks, index)) if matches!(&hooks.kind, Kind::List(entries) if entries.len() > 1) => {
                jsonc::take_out(text, hooks, index)
            }
            // A group of nothing else goes with it.
            _ => jsonc::take_out(text, list, self.at),
        }
    }
}

/// The first entry of sbx's for a client.
fn own(list: &Node, client: Client) -> Option<Own<'_>> {
    let Kind::List(items) = &list.kind else { return None };
    items.iter().enumerate().find_map(|(at, item)| {
        if is_own(item, client) {
            return Some(Own { entry: item, at, group: None });
        }
        let hooks = item.get("hooks")?;
        let Kind::List(entries) = &hooks.kind else { return None };
        let index = entries.iter().position(|entry| is_own(entry, client))?;
        Some(Own { entry: &entries[index], at, group: Some((hooks, index)) })
    })
}

fn is_own(entry: &Node, client: Client) -> bool {
    let value = entry.to_value();
    called(&value).is_some_and(|words| words.get(1).is_some_and(|name| name == client.name()))
}

/// The words after the program, when a hook's entry calls `sbx hook`.
#[must_use]
pub fn called(entry: &Value) -> Option<Vec<String>> {
    let (program, words) = command(entry)?;
    let name = program.rsplit('/').next()?;
    (name == "sbx" && words.first().is_some_and(|word| word == "hook")).then_some(words)
}

/// The program and the words of a hook's entry, as far as they are plain.
#[must_use]
pub fn command(entry: &Value) -> Option<(String, Vec<String>)> {
    let command = entry.get("command")?.as_str()?;
    match entry.get("args").and_then(Value::as_array) {
        Some(args) => {
            let words = args.iter().map(|word| word.as_str().unwrap_or_default().to_owned()).collect();
            Some((command.to_owned(), words))
        }
        None => {
            let mut words = plain::words(command)?.into_iter();
            Some((words.next()?, words.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(agent: &str) -> Hook {
        Hook { program: "/opt/my sbx/sbx".to_owned(), options: vec!["--agent".to_owned(), agent.to_owned()] }
    }

    #[test]
    fn a_hook_is_put_in_once_changed_and_taken_out() {
        let others = [
            "",
            "{}",
            "{\n  // mine\n  \"model\": \"x\", // good\n}\n",
            "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]} // own\n    ]\n  }\n}\n",
            "{\"hooks\": {\"PreToolUse\": []}, \"version\": 1}",
        ];
        for client in Client::ALL {
            for text in others {
                let events = ["PreToolUse", "other"];
                let once = install(text, client, &events, Some(&hook("a"))).unwrap();
                assert!(once.entries.iter().all(|(_, outcome)| *outcome == Outcome::Added), "{once:?}");
                for kept in ["// mine", "// good", "// own", "\"mine\""] {
                    assert_eq!(text.contains(kept), once.text.contains(kept), "{kept} in {}", once.text);
                }
                let twice = install(&once.text, client, &events, Some(&hook("a"))).unwrap();
                assert_eq!((&twice.text, &twice.entries[0].1), (&once.text, &Outcome::Same));
                let other = install(&once.text, client, &events, Some(&hook("b"))).unwrap();
                assert_eq!(other.entries[1].1, Outcome::Changed);
                assert_eq!(install(&other.text, client, &events, Some(&hook("a"))).unwrap().text, once.text);
                let out = install(&other.text, client, &events, None).unwrap();
                assert_eq!(out.entries[0].1, Outcome::Removed);
                assert!(!out.text.contains("my sbx"), "{}", out.text);
                let read = |text: &str| Node::parse(text).unwrap().to_value();
                if let Some(before) = Some(text).filter(|text| text.contains("own")) {
                    assert_eq!(read(&out.text)["hooks"]["PreToolUse"], read(before)["hooks"]["PreToolUse"]);
                }
                assert_eq!(install(&out.text, client, &events, None).unwrap().text, out.text);
            }
        }
    }

    #[test]
    fn another_programs_hook_is_never_taken_for_ones_own() {
        for command in [
            "sbx-other hook codex",
            "sbx hooks codex",
            "sbx exec hook codex",
            "x sbx hook codex",
            "sbx hook codex; x",
        ] {
            assert_eq!(called(&json!({ "command": command })), None, "{command}");
        }
        assert!(called(&json!({ "command": "'/a b/sbx' hook codex --agent a" })).is_some());
        assert!(
            install("{\"hooks\": {\"PreToolUse\": {}}}", Client::Codex, &["PreToolUse"], Some(&hook("a")))
                .is_err()
        );
        assert!(install("{\"hooks\": 1}", Client::Codex, &["PreToolUse"], Some(&hook("a"))).is_err());
    }
}
