//! Putting sbx into a client's list of servers, and taking it out again.
//!
//! Answers for what a client's file says afterwards. Reading and writing files is left to the command line.
//! Invariant: only the entries that are meant change; doing the same again changes nothing.

mod ends;
pub(crate) mod entry;
pub(crate) mod jsonc;
mod toml;

use ends::Ends;
pub use entry::is_sbx;
use entry::{Edit, Meant, replaced, unwrapped, wrapped};
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
    /// Whether the file has lists for single projects too, below `projects`.
    pub local: bool,
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
    let ends = Ends::of(text);
    let mut file = File::open(ends.taken_from(text), shape)?;
    let mut told = Vec::new();
    if let Change::Add { name, command, args } = change {
        let outcome = match file.servers()?.get(name) {
            Some(there) => file.put(name, there, &replaced(there, command, args, shape.typed))?,
            None => file.add(name, command, args, shape.typed)?,
        };
        told.push((name.clone(), outcome));
    } else {
        file.change_all(change, &mut told, |name| name.to_owned())?;
        for project in file.projects(shape)? {
            let mut list = file.of_project(&project);
            list.change_all(change, &mut told, |name| format!("{name} in {project}"))?;
            file = list.of_user();
        }
    }
    let after = ends.given_to(file.text());
    // What was written must be what was meant, to a reader of its own.
    File::open(ends.taken_from(&after), shape)?.servers()?;
    Ok(Installed { text: after, entries: told })
}

/// A server of a client's list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// What the client calls it.
    pub name: String,
    /// The project it is for, when the file has a list of its own for that.
    pub project: Option<String>,
    /// What is said of it.
    pub entry: Value,
}

/// Every server of a client's list, and of those for single projects.
///
/// # Errors
/// A sentence about what is wrong with the file.
pub fn listed(text: &str, shape: Shape<'_>) -> Result<Vec<Listed>, String> {
    let mut file = File::open(Ends::of(text).taken_from(text), shape)?;
    let mut all = file.listed(None)?;
    for project in file.projects(shape)? {
        file = file.of_project(&project);
        all.extend(file.listed(Some(&project))?);
    }
    Ok(all)
}

/// A client's file, open for changes.
enum File<'s> {
    Json { text: String, key: &'s str, project: Option<String> },
    Toml { document: Box<toml_edit::DocumentMut>, key: &'s str },
}

impl<'s> File<'s> {
    fn open(text: String, shape: Shape<'s>) -> Result<Self, String> {
        Ok(if shape.toml {
            Self::Toml { document: Box::new(toml::parse(&text)?), key: shape.key }
        } else {
            Self::Json { text, key: shape.key, project: None }
        })
    }

    fn servers(&self) -> Result<Map<String, Value>, String> {
        match self {
            Self::Json { text, .. } if text.trim().is_empty() => Ok(Map::new()),
            Self::Json { text, key, project } => {
                let root = jsonc::Node::parse(text)?;
                let list = path(key, project).iter().try_fold(&root, |node, key| node.get(key));
                match list.map(jsonc::Node::to_value) {
                    None => Ok(Map::new()),
                    Some(Value::Object(servers)) => Ok(servers),
                    Some(_) => Err(format!("`{key}` is not a map")),
                }
            }
            Self::Toml { document, key } => toml::servers(document, key),
        }
    }

    fn listed(&self, project: Option<&String>) -> Result<Vec<Listed>, String> {
        let servers = self.servers()?.into_iter();
        Ok(servers.map(|(name, entry)| Listed { name, project: project.cloned(), entry }).collect())
    }

    /// The projects that have a list of their own.
    fn projects(&self, shape: Shape<'_>) -> Result<Vec<String>, String> {
        match self {
            Self::Json { text, key, .. } if shape.local && !text.trim().is_empty() => {
                let root = jsonc::Node::parse(text)?;
                let projects = root.get("projects").and_then(jsonc::Node::members).unwrap_or_default();
                let own = projects.iter().filter(|project| project.value.get(key).is_some());
                Ok(own.map(|project| project.key.clone()).collect())
            }
            Self::Json { .. } | Self::Toml { .. } => Ok(Vec::new()),
        }
    }

    /// The same file, with a project's list in place of the user's.
    fn of_project(self, name: &str) -> Self {
        match self {
            Self::Json { text, key, .. } => Self::Json { text, key, project: Some(name.to_owned()) },
            toml @ Self::Toml { .. } => toml,
        }
    }

    /// The same file, with the user's list again.
    fn of_user(self) -> Self {
        match self {
            Self::Json { text, key, .. } => Self::Json { text, key, project: None },
            toml @ Self::Toml { .. } => toml,
        }
    }

    /// Wraps or unwraps what is in the list, and says what became of each entry.
    fn change_all(
        &mut self,
        change: &Change,
        told: &mut Vec<(String, Outcome)>,
        shown: impl Fn(&str) -> String,
    ) -> Result<(), String> {
        let only = match change {
            Change::Add { .. } => return Ok(()),
            Change::Wrap { only, .. } | Change::Unwrap { only } => only,
        };
        for (name, server) in self.servers()? {
            if only.as_ref().is_some_and(|only| *only != name) {
                continue;
            }
            let meant = match change {
                Change::Wrap { command, agent, .. } => wrapped(&name, &server, command, agent),
                Change::Add { .. } | Change::Unwrap { .. } => {
                    unwrapped(&server).ok_or(Outcome::Skipped("it is not wrapped"))
                }
            };
            let outcome = meant.map_or_else(Ok, |meant| self.put(&name, &server, &meant))?;
            told.push((shown(&name), outcome));
        }
        Ok(())
    }

    /// Adds an entry.
    fn add(&mut self, name: &str, command: &str, args: &[String], typed: bool) -> Result<Outcome, String> {
        let mut entry = Map::new();
        if typed {
            entry.insert("type".to_owned(), json!("stdio"));
        }
        entry.extend([("command".to_owned(), json!(command)), ("args".to_owned(), json!(args))]);
        match self {
            Self::Json { text, key, project } => {
                let path = [path(key, project), vec![name]].concat();
                *text = jsonc::set(text, &path, &Value::Object(entry))?;
            }
            Self::Toml { document, key } => {
                let set = entry.into_iter().map(|(key, value)| (key, Edit::Set(value)));
                toml::edit(document, key, name, set)?;
            }
        }
        Ok(Outcome::Added)
    }

    /// Makes an entry's keys what they should be; the others stay.
    fn put(&mut self, name: &str, there: &Value, meant: &Meant) -> Result<Outcome, String> {
        if meant.iter().all(|(key, edit)| edit.is_done(&there[*key])) {
            return Ok(Outcome::Same);
        }
        match self {
            Self::Json { text, key, project } => {
                for (member, edit) in meant {
                    let path = [path(key, project), vec![name, member]].concat();
                    *text = match edit {
                        Edit::Unset => jsonc::unset(text, &path)?,
                        Edit::Set(value) => jsonc::set(text, &path, value)?,
                        Edit::Lead(cut, put) => jsonc::lead(text, &path, *cut, put)?,
                    };
                }
            }
            Self::Toml { document, key } => {
                toml::edit(document, key, name, meant.iter().map(|(key, edit)| (*key, edit.clone())))?;
            }
        }
        Ok(Outcome::Changed)
    }

    fn text(self) -> String {
        match self {
            Self::Json { text, .. } => text,
            Self::Toml { document, .. } => document.to_string(),
        }
    }
}

/// Where a list stands in a file.
fn path<'p>(key: &'p str, project: &'p Option<String>) -> Vec<&'p str> {
    project.iter().flat_map(|project| ["projects", project.as_str()]).chain([key]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Shape<'_> = Shape { key: "mcpServers", toml: false, typed: true, local: true };
    const TOML: Shape<'_> = Shape { key: "mcp_servers", toml: true, typed: false, local: false };

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
            let read = |text: &str| File::open(text.to_owned(), shape).unwrap().servers().unwrap();
            assert_eq!(read(&back.text), read(text));
        }
    }

    #[test]
    fn a_server_of_one_project_is_wrapped_too_and_one_without_words_gets_none() {
        let text = "{\n  \"projects\": {\n    \"/w/a\": {\"mcpServers\": {\"db\": {\"command\": \"dbd\"}}},\n    \"/w/b\": {}\n  }\n}\n";
        let once = install(text, JSON, &wrap()).unwrap();
        assert_eq!(once.entries, [("db in /w/a".to_owned(), Outcome::Changed)]);
        assert!(once.text.contains("/usr/bin/sbx"), "{}", once.text);
        let back = install(&once.text, JSON, &Change::Unwrap { only: None }).unwrap();
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(&back.text), read(text));
        let toml = "[mcp_servers.db]\ncommand = \"dbd\"\n";
        let once = install(toml, TOML, &wrap()).unwrap();
        let back = install(&once.text, TOML, &Change::Unwrap { only: None }).unwrap();
        assert_eq!(back.text, toml);
    }

    #[test]
    fn what_was_wrapped_for_another_or_by_an_old_sbx_is_wrapped_anew() {
        let old = r#"{"mcpServers": {"fs": {"command": "/gone/sbx", "args": ["mcp", "wrap", "--agent", "old", "--allowlist", "a.yml", "--", "npx", "--agent", "x"]}}}"#;
        let done = install(old, JSON, &wrap()).unwrap();
        assert_eq!(done.entries, [("fs".to_owned(), Outcome::Changed)]);
        let server = &listed(&done.text, JSON).unwrap()[0].entry;
        let words = ["mcp", "wrap", "--agent", "scout", "--allowlist", "a.yml", "--", "npx", "--agent", "x"];
        assert_eq!((&server["command"], &server["args"]), (&json!("/usr/bin/sbx"), &json!(words)));
    }

    /// Wraps and unwraps, and expects the same text to the byte; what it was in between.
    fn there_and_back(text: &str, shape: Shape<'_>) -> String {
        let once = install(text, shape, &wrap()).unwrap();
        assert_eq!(once.entries[0].1, Outcome::Changed, "{text}");
        let twice = install(&once.text, shape, &wrap()).unwrap();
        assert_eq!((&twice.text, &twice.entries[0].1), (&once.text, &Outcome::Same));
        assert_eq!(install(&once.text, shape, &Change::Unwrap { only: None }).unwrap().text, text);
        once.text
    }

    #[test]
    fn comments_in_lists_and_ends_of_lines_survive_both_ways() {
        let inline =
            "{\"mcpServers\": {\"fs\": {\"command\": \"npx\", \"args\": [ /* a */ \"-y\", /* b */ \"p\" ]}}}";
        let lines = "{\n  \"mcpServers\": {\n    \"fs\": {\n      \"command\": \"npx\",\n      \"args\": [\n        // yes\n        \"-y\", // why\n        \"p\",\n      ]\n    }\n  }\n}\n";
        let wrapped = there_and_back(inline, JSON);
        assert!(wrapped.contains("[ /* a */ \"mcp\", \"wrap\",") && wrapped.contains("/* b */"), "{wrapped}");
        assert!(there_and_back(lines, JSON).contains("// yes\n        \"mcp\",\n"), "{lines}");
        let toml = "[mcp_servers.fs]\ncommand = \"npx\"\nargs = [ \"-y\", \"p\" ] # why\n";
        let toml_lines =
            "[mcp_servers.fs]\ncommand = \"npx\"\nargs = [\n  # yes\n  \"-y\", # why\n  \"p\",\n]\n";
        there_and_back("[mcp_servers.fs]\ncommand = \"npx\"\nargs = [\"-y\", \"p\"]\n", TOML);
        for (text, shape) in [(lines, JSON), (toml, TOML), (toml_lines, TOML)] {
            assert!(there_and_back(text, shape).contains("why"));
            let windows = there_and_back(&text.replace('\n', "\r\n"), shape);
            assert_eq!(windows.matches('\n').count(), windows.matches("\r\n").count());
            assert!(there_and_back(&format!("\u{feff}{text}"), shape).starts_with('\u{feff}'));
        }
        assert!(install("a = 1\r\nb = 2\n", TOML, &wrap()).is_err());
    }

    #[test]
    fn what_would_not_come_back_is_left_alone() {
        for (entry, why) in [
            (json!({ "command": "x", "args": ["p", 8080] }), "its `args` are not a list of words"),
            (json!({ "command": "x", "args": "-y p" }), "its `args` are not a list of words"),
            (
                json!({ "type": "http", "url": "https://a", "command": "x" }),
                "it is not started by the client",
            ),
            (json!({ "url": "https://a", "command": "x" }), "it is not started by the client"),
        ] {
            let text = json!({ "mcpServers": { "fs": entry } }).to_string();
            let done = install(&text, JSON, &wrap()).unwrap();
            assert_eq!((done.text, &done.entries[0].1), (text, &Outcome::Skipped(why)));
        }
        let toml = "[mcp_servers.fs]\ncommand = \"x\"\nargs = [\"p\", 8080]\n";
        assert!(matches!(install(toml, TOML, &wrap()).unwrap().entries[0].1, Outcome::Skipped(_)));
    }

    #[test]
    fn a_server_in_place_of_one_on_the_network_is_nothing_of_it() {
        let text =
            json!({ "mcpServers": { "fs": { "type": "http", "url": "https://a", "headers": {}, "x": 1 } } });
        let add = Change::Add { name: "fs".into(), command: "sbx".into(), args: vec!["mcp".into()] };
        let done = install(&text.to_string(), JSON, &add).unwrap();
        let wanted = json!({ "type": "stdio", "x": 1, "command": "sbx", "args": ["mcp"] });
        assert_eq!(listed(&done.text, JSON).unwrap()[0].entry, wanted);
        assert_eq!(install(&done.text, JSON, &add).unwrap().entries[0].1, Outcome::Same);
    }

    #[test]
    fn sbx_is_known_by_its_words_whatever_it_is_called() {
        let moved = Change::Wrap { command: "/opt/sbx-x86_64".into(), agent: "scout".into(), only: None };
        let odd = json!({ "mcpServers": { "-x": { "command": "npx", "args": ["--", "p"] }, "--": { "command": "q" } } });
        let once = install(&odd.to_string(), JSON, &moved).unwrap();
        assert!(once.text.contains("--name=-x") && once.text.contains("--name=--\""), "{}", once.text);
        let twice = install(&once.text, JSON, &moved).unwrap();
        assert!(twice.entries.iter().all(|(_, outcome)| *outcome == Outcome::Same), "{:?}", twice.entries);
        let back = install(&once.text, JSON, &Change::Unwrap { only: None }).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&back.text).unwrap(), odd);
        // By hand, without a word between; and as it was once written for such a name.
        for args in [
            json!(["mcp", "wrap", "-a", "x", "--name", "--", "--", "npx"]),
            json!(["mcp", "wrap", "-a", "x", "npx"]),
        ] {
            let text = json!({ "mcpServers": { "fs": { "command": "/x/sbx-2", "args": args } } }).to_string();
            let back = install(&text, JSON, &Change::Unwrap { only: None }).unwrap();
            assert_eq!(listed(&back.text, JSON).unwrap()[0].entry, json!({ "command": "npx" }));
        }
    }

    #[test]
    fn an_agent_is_replaced_however_it_is_written() {
        for (old, new) in [("--agent=old", "--agent=scout"), ("-aold", "-ascout"), ("-a=old", "-a=scout")] {
            let text = json!({ "mcpServers": { "fs": { "command": "sbx", "args": ["mcp", "wrap", old, "--", "npx"] } } });
            let done = install(&text.to_string(), JSON, &wrap()).unwrap();
            let server = &listed(&done.text, JSON).unwrap()[0].entry;
            assert_eq!(server["args"], json!(["mcp", "wrap", new, "--", "npx"]));
            let again = install(&done.text, JSON, &wrap()).unwrap();
            assert_eq!(again.entries[0].1, Outcome::Same);
        }
    }

    #[test]
    fn servers_of_single_projects_are_listed_with_them() {
        let text = "{\"mcpServers\": {\"a\": {}}, \"projects\": {\"/w/a\": {\"mcpServers\": {\"b\": {}}}, \"/w/b\": {}}}";
        let names = |shape| {
            let all = listed(text, shape).unwrap().into_iter();
            all.map(|server| (server.name, server.project)).collect::<Vec<_>>()
        };
        let (users, local) = (("a".to_owned(), None), ("b".to_owned(), Some("/w/a".to_owned())));
        assert_eq!(names(JSON), [users.clone(), local]);
        assert_eq!(names(Shape { local: false, ..JSON }), [users]);
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
