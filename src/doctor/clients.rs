//! What clients are told of sbx: hooks that would not be asked, servers without a fence or without pins.
//!
//! Answers for judging what stands in clients' files; reading those is left to whoever hands the entries in.

use super::finding::{Finding, Level};
use super::tools::is_there;
use crate::run::Setting;
use crate::text::option_value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Something that a client starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Which client.
    pub client: &'static str,
    /// In which of its files.
    pub file: PathBuf,
    /// What for.
    pub what: What,
    /// The program, as it is written there.
    pub program: String,
    /// Its arguments.
    pub words: Vec<String>,
    /// Whether it is sbx, whatever its file is called.
    pub is_sbx: bool,
}

/// What a client starts something for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A hook of sbx's, asked at this event.
    Hook {
        /// The event.
        event: String,
        /// Whether calls are blocked when the hook fails; none where the client has no such switch.
        closes: Option<bool>,
    },
    /// A server.
    Server {
        /// What the client calls it.
        name: String,
        /// Whose it is.
        whose: Whose,
    },
}

/// Whose a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The user's, in every project.
    User,
    /// Everybody's who has the project that the file is in.
    Project,
    /// The user's, in this project only.
    Local(PathBuf),
}

/// Findings about what clients start.
#[must_use]
pub fn clients(setting: &Setting, registered: &[Registered]) -> Vec<Finding> {
    registered.iter().flat_map(|entry| judge(setting, entry)).collect()
}

fn judge(setting: &Setting, entry: &Registered) -> Vec<Finding> {
    let own = entry.is_sbx;
    let wraps = own && entry.words.starts_with(&["mcp".to_owned(), "wrap".to_owned()]);
    let mut found = Vec::new();
    match &entry.what {
        What::Hook { closes, .. } => {
            found.extend(program(entry, *closes == Some(true)));
            if *closes == Some(false) {
                let switch = if entry.client == "cursor" { "failClosed: true" } else { "onFailure: block" };
                let message = format!("{} lets calls run when its hook fails", place(entry));
                let fix = format!("sbx hook install --client {} --agent A writes `{switch}`", entry.client);
                found.push(Finding::new("clients", "hook-fails-open", Level::Warning, message).fix(fix));
            }
            found.extend(agent(setting, entry));
        }
        What::Server { .. } if wraps => {
            found.extend(program(entry, true));
            found.extend(agent(setting, entry));
            found.extend(unpinned(setting, entry));
            found.extend(no_server(entry));
        }
        What::Server { name, whose } if !own => {
            let message = format!("{} starts the server {name} without a fence", place(entry));
            let client = whose.options(entry.client);
            let fix = format!("sbx mcp install --client {client} --wrap-existing --name {name} --agent A");
            found.push(Finding::new("clients", "server-unfenced", Level::Note, message).fix(fix));
        }
        What::Server { .. } => found.extend(program(entry, true)),
    }
    found
}

impl Whose {
    /// A client as it is named to `install`, with its list.
    fn options(&self, client: &str) -> String {
        match self {
            Self::User | Self::Local(_) => client.to_owned(),
            Self::Project => format!("{client} --project"),
        }
    }
}

fn place(entry: &Registered) -> String {
    let file = entry.file.display();
    match &entry.what {
        What::Server { whose: Whose::Local(project), .. } => {
            format!("{} ({file}, for {})", entry.client, project.display())
        }
        What::Server { whose: Whose::User | Whose::Project, .. } | What::Hook { .. } => {
            format!("{} ({file})", entry.client)
        }
    }
}

/// Whether the client would find this very program.
fn program(entry: &Registered, closes: bool) -> Option<Finding> {
    let path = Path::new(&entry.program);
    let finding = |code, message: String| Finding::new("clients", code, Level::Warning, message);
    let again = match &entry.what {
        What::Hook { .. } => format!("sbx hook install --client {} --agent A", entry.client),
        What::Server { name, whose } => {
            let client = whose.options(entry.client);
            format!("sbx mcp install --client {client} --name {name} --agent A -- SERVER")
        }
    };
    if !path.is_absolute() {
        let message =
            format!("{} starts sbx by its name: whatever comes first on PATH is asked", place(entry));
        return Some(finding("client-by-name", message).fix(again));
    }
    let runs = fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if !runs {
        let then = if closes { "nothing it guards works" } else { "its calls run unasked" };
        let message = format!("{} starts {}, which is not there: {then}", place(entry), entry.program);
        return Some(finding("client-missing", message).fix(again));
    }
    let own = std::env::current_exe().and_then(fs::canonicalize).ok();
    if fs::canonicalize(path).ok() == own {
        return None;
    }
    let message = format!("{} starts another sbx than this one: {}", place(entry), entry.program);
    Some(finding("client-other-sbx", message).fix(again))
}

/// Whether there is an agent of the name that is written there.
fn agent(setting: &Setting, entry: &Registered) -> Option<Finding> {
    let error = match named(entry, "agent", Some('a')) {
        Some(name) => setting.agent(name).err()?.to_string(),
        None => "it names no agent".to_owned(),
    };
    let message = format!("{}: {error}", place(entry));
    Some(Finding::new("clients", "client-agent", Level::Warning, message))
}

/// A server that is wrapped and is not there.
fn no_server(entry: &Registered) -> Option<Finding> {
    let at = entry.words.iter().position(|word| word == "--")?;
    let server = entry.words.get(at + 1).filter(|server| !is_there(server))?;
    let message = format!("{} wraps {server}, which is not there", place(entry));
    let fix = format!("install {server}, or take the entry out of {}", entry.file.display());
    Some(Finding::new("clients", "server-missing", Level::Warning, message).fix(fix))
}

/// A package that may be another tomorrow, with nothing that would notice.
fn unpinned(setting: &Setting, entry: &Registered) -> Option<Finding> {
    let at = entry.words.iter().position(|word| word == "--")?;
    let (launcher, rest) = entry.words[at + 1..].split_first()?;
    let launcher = Path::new(launcher).file_name()?.to_str()?;
    let fetched = matches!(launcher, "npx" | "uvx") || (matches!(launcher, "npm" | "uv") && !rest.is_empty());
    let package = rest
        .iter()
        .find(|word| !word.starts_with('-') && !matches!(word.as_str(), "exec" | "tool" | "run"))?;
    let versioned = package.trim_start_matches('@').contains(['@', '=']) && !package.ends_with("@latest");
    let record = named(entry, "agent", Some('a')).and_then(|name| setting.agent(name).ok());
    let pins = record
        .is_some_and(|agent| agent.policy.sections().mcp.as_ref().is_some_and(|mcp| mcp.pins.is_some()));
    if !fetched || versioned || pins || named(entry, "pins", None).is_some() {
        return None;
    }
    let message = format!(
        "{} starts whatever {package} is at the time: neither its version nor its tools are pinned",
        place(entry)
    );
    let fix = format!("name a version, or: sbx mcp pin --agent A -- {}", entry.words[at + 1..].join(" "));
    Some(Finding::new("clients", "server-unpinned", Level::Warning, message).fix(fix))
}

/// The value of an option, before the command that is wrapped.
fn named<'e>(entry: &'e Registered, long: &str, letter: Option<char>) -> Option<&'e str> {
    let words: Vec<&str> = entry.words.iter().map(String::as_str).collect();
    option_value(&words, long, letter).map(|at| &words[at.word][at.from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_read_however_it_is_written() {
        let entry = |words: &[&str]| Registered {
            client: "cursor",
            file: PathBuf::new(),
            what: What::Server { name: "fs".into(), whose: Whose::User },
            program: "sbx".into(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            is_sbx: true,
        };
        for words in
            [&["--agent", "old", "--pins=p"][..], &["--agent=old", "--pins", "p"], &["-aold", "--pins=p"]]
        {
            let entry = entry(words);
            assert_eq!(
                (named(&entry, "agent", Some('a')), named(&entry, "pins", None)),
                (Some("old"), Some("p"))
            );
        }
    }
}
