//! What calls are judged by: one value, loaded whole, swapped whole.
//!
//! Answers for putting record, allowlist, ready maps and pins together. It leaves watching files to
//! [`watch`](super::watch) and applying the rules to [`gate`](super::gate).
//! Invariant: rules are never changed after they are made, so no call is judged by half of them.

use super::arguments::Caller;
use super::deciding::settled;
use super::pins::{LockFile, Pins, Wanted};
use super::protocol::Json;
use crate::decide::Denial;
use crate::manifest::{ArgumentRule, Mcp, read_source};
use crate::policy::Policy;
use crate::profile::McpPreset;
use crate::run::{Agent, Setting};
use crate::text::render_all;
use crate::tool::Allowlist;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Where rules come from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The world at the start.
    pub setting: Setting,
    /// The agent's name, or the path of its record.
    pub agent: String,
    /// An allowlist that stands in for the record's.
    pub allowlist: Option<PathBuf>,
    /// A lock file that stands in for the record's.
    pub pins: Option<PathBuf>,
    /// A ready map by name, in place of the one that is recognised.
    pub preset: Option<String>,
    /// What the server is called in the lock file.
    pub server: String,
    /// What it is called when nobody names it.
    pub usual: String,
    /// Its package, as far as it is known.
    pub package: Option<String>,
    /// By what the server was recognised: its package or its program.
    pub known_as: Vec<String>,
    /// Where the server runs.
    pub cwd: PathBuf,
}

/// What calls are judged by.
#[derive(Debug)]
pub struct Rules {
    /// Whose authority.
    pub policy: Policy,
    /// Which names.
    pub allowlist: Allowlist,
    /// Which arguments.
    arguments: Vec<ArgumentRule>,
    /// Which definitions; none when nothing is pinned.
    pub pins: Option<Pinned>,
    /// The ready map that applies.
    preset: Option<&'static str>,
    cwd: PathBuf,
    /// The files beside the record that these were read from, where they really lie.
    pub(super) deciding: Vec<PathBuf>,
}

/// The pins of this server.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// The lock file.
    pub file: PathBuf,
    /// What it says of this server; none when it has not seen it yet.
    pub pins: Option<Pins>,
    /// What is worth telling about how they were found, or not.
    pub remark: Option<String>,
}

impl Origin {
    /// Loads everything, and says which files' change is a change of the rules.
    ///
    /// # Errors
    /// A sentence about the first part that is not right.
    pub fn load(&self) -> Result<(Rules, Vec<PathBuf>), String> {
        let setting = Setting::with_facts(self.setting.facts.clone()).map_err(|error| chain(&error))?;
        let agent = setting.agent(&self.agent).map_err(|error| chain(&error))?;
        let section = agent.policy.sections().mcp.clone();
        let preset = self.preset(section.as_ref())?;
        let real = |file: &PathBuf| settled(file, &agent.policy);
        let list = self.allowlist.as_ref().map(real).transpose()?;
        let lock = self.pins_file(&agent).as_ref().map(real).transpose()?;
        let deciding = list.iter().chain(&lock).cloned().collect();
        let named = match &list {
            Some(file) => Some(allowlist(file)?),
            None => section.clone(),
        };
        let ready: Vec<(String, String)> = preset
            .map(McpPreset::actions)
            .into_iter()
            .flatten()
            .map(|action| (action.tool.to_owned(), action.argument.to_owned()))
            .collect();
        let allowlist = Allowlist::new(&named.unwrap_or_default(), &ready);
        let mut arguments = section.as_ref().map(|section| section.arguments.clone()).unwrap_or_default();
        arguments.extend(preset.map(McpPreset::arguments).into_iter().flatten());
        let pins = lock.map(|file| self.pinned(file)).transpose()?;
        let (cwd, preset) = (self.cwd.clone(), preset.map(|preset| preset.name));
        let files = self.files(&agent);
        Ok((Rules { policy: agent.policy, allowlist, arguments, pins, preset, cwd, deciding }, files))
    }

    fn files(&self, agent: &Agent) -> Vec<PathBuf> {
        let config = self.setting.facts.config_dir.join("config.yml");
        let trust = self.setting.facts.config_dir.join("trusted");
        let record = agent.policy.record().map(Path::to_path_buf);
        let files = [Some(config), Some(trust), record, self.allowlist.clone(), self.pins_file(agent)];
        files.into_iter().flatten().collect()
    }

    fn preset(&self, section: Option<&Mcp>) -> Result<Option<McpPreset>, String> {
        match self.preset.as_deref().or(section.and_then(|section| section.preset.as_deref())) {
            None => Ok(McpPreset::recognise(&self.known_as)),
            Some("none") => Ok(None),
            Some(name) => {
                McpPreset::named(name).map(Some).ok_or_else(|| format!("there is no ready map `{name}`"))
            }
        }
    }

    /// The lock file that applies: as given, or as the record says.
    fn pins_file(&self, agent: &Agent) -> Option<PathBuf> {
        self.pins.clone().or_else(|| agent.policy.lock_file().map(Path::to_path_buf))
    }

    fn pinned(&self, file: PathBuf) -> Result<Pinned, String> {
        let wrong = |error| format!("{}: {error}", file.display());
        let lock = match std::fs::read_to_string(&file) {
            Ok(text) => LockFile::parse(&text).map_err(wrong)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => LockFile::default(),
            Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
        };
        let found = lock.find(&self.wanted());
        let server = &self.server;
        let remark = match found {
            Some((name, _)) if name == server => None,
            Some((name, _)) => Some(format!("{server} is pinned as {name} in {}", file.display())),
            None => {
                let others: Vec<&str> = lock.names().collect();
                (!others.is_empty()).then(|| {
                    let (others, file) = (others.join(", "), file.display());
                    format!(
                        "warning: {file} pins {others} and not {server}: the first list of its tools counts"
                    )
                })
            }
        };
        Ok(Pinned { pins: found.map(|(_, pins)| pins.clone()), file, remark })
    }

    /// By what a lock file may know the server.
    #[must_use]
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted { name: &self.server, usual: &self.usual, package: self.package.as_deref() }
    }
}

fn allowlist(file: &Path) -> Result<Mcp, String> {
    let source = read_source(file).map_err(|error| chain(&error))?;
    let (list, problems) = Mcp::parse_allowlist(&source);
    list.ok_or_else(|| format!("the allowlist has errors\n{}", render_all(&problems, &source)))
}

/// An error with what is behind it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text
}

impl Rules {
    /// Rules out of parts, for tests and for servers of sbx's own.
    #[must_use]
    pub fn of(policy: Policy, section: &Mcp, cwd: impl Into<PathBuf>) -> Self {
        Self {
            policy,
            allowlist: Allowlist::new(section, &[]),
            arguments: section.arguments.clone(),
            pins: None,
            preset: None,
            cwd: cwd.into(),
            deciding: Vec::new(),
        }
    }

    /// Keeps the pins that hold when a lock file does not say any more what it said: emptying it is no way to have
    /// another definition taken.
    pub(super) fn hold_pins_of(&mut self, old: &Self) {
        let held = old.pins.as_ref().and_then(|pinned| pinned.pins.as_ref());
        if let (Some(pinned), Some(held)) = (&mut self.pins, held)
            && pinned.pins.is_none()
        {
            pinned.pins = Some(held.clone());
        }
    }

    /// Puts a call's arguments before `decide`.
    ///
    /// # Errors
    /// The first no.
    pub fn judge_arguments(&self, tool: &str, arguments: &Json<'_>) -> Result<(), Box<Denial>> {
        let caller = Caller { policy: &self.policy, tool, cwd: &self.cwd };
        let mut rules = self.arguments.iter().filter(|rule| rule.is_about(tool));
        rules.try_for_each(|rule| caller.judge(rule, arguments))
    }

    /// What is active, for whoever asks; nothing can be changed by asking.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut body = self.allowlist.to_json();
        body["agent"] = json!(self.policy.agent());
        body["preset"] = json!(self.preset);
        body["argument_rules"] = self
            .arguments
            .iter()
            .map(|rule| {
                let names: Vec<&str> = rule.capabilities.iter().map(|capability| capability.name()).collect();
                json!({ "tool": rule.tool, "argument": rule.argument.to_string(), "requires": names })
            })
            .collect();
        body["pinned"] = json!(self.pins.as_ref().map(|pinned| pinned.file.display().to_string()));
        body["read_only"] = json!(true);
        body
    }
}
