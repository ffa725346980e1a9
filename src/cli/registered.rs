//! What clients' files say of servers and hooks, for the doctor.

use super::client_file;
use crate::doctor::{Finding, Level, Registered, What, Whose, clients};
use crate::hook::{Client, install as hooks};
use crate::mcp::install::{self as servers, Listed, Shape};
use crate::profile::{hook_clients, mcp_clients};
use crate::run::Setting;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is wrong with what clients start.
pub(super) fn findings(setting: &Setting) -> Vec<Finding> {
    let (mut entries, mut found) = (Vec::new(), Vec::new());
    let mut add = |file: &Path, read: Result<Vec<Registered>, String>| match read {
        Ok(read) => entries.extend(read),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", file.display());
            found.push(Finding::new("clients", "client-file", Level::Note, message));
        }
    };
    for place in mcp_clients() {
        let file = client_file::place(place.file, &setting.facts);
        let Ok(text) = client_file::text(&file) else { continue };
        let shape =
            Shape { key: place.key, toml: place.toml, typed: false, local: place.name == "claude-code" };
        let server = |Listed { name, project, entry }: Listed| {
            let whose = match project.map(PathBuf::from) {
                // The client remembers projects that are long gone.
                Some(project) if !project.is_dir() => return None,
                Some(project) => Whose::Local(project),
                None if place.project => Whose::Project,
                None => Whose::User,
            };
            registered(place.name, &file, What::Server { name, whose }, &entry)
        };
        add(&file, servers::listed(&text, shape).map(|all| all.into_iter().filter_map(server).collect()));
    }
    for place in hook_clients() {
        let file = client_file::place(place.file, &setting.facts);
        let (Ok(text), Some(client)) = (client_file::text(&file), Client::from_name(place.name)) else {
            continue;
        };
        let events: Vec<&str> = place.events.split(' ').collect();
        let hook = |(event, entry): (String, Value)| {
            let closes = hooks::closes(client, &entry);
            registered(place.name, &file, What::Hook { event, closes }, &entry)
        };
        add(
            &file,
            hooks::listed(&text, client, &events).map(|all| all.into_iter().filter_map(hook).collect()),
        );
    }
    entries.dedup_by(|a, b| a.file == b.file && a.program == b.program && a.words == b.words);
    found.extend(clients(setting, &entries));
    found
}

fn registered(client: &'static str, file: &Path, what: What, entry: &Value) -> Option<Registered> {
    let (program, words) = match &what {
        What::Hook { .. } => hooks::command(entry)?,
        What::Server { .. } => {
            let words = entry["args"].as_array().into_iter().flatten();
            let words = words.filter_map(|word| word.as_str().map(str::to_owned)).collect();
            (entry["command"].as_str()?.to_owned(), words)
        }
    };
    let is_sbx = servers::is_sbx(&program, &words);
    Some(Registered { client, file: file.to_path_buf(), what, program, words, is_sbx })
}
