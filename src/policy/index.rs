//! Finds the grants that could allow a request without looking at all of them.
//!
//! Paths are looked up by each ancestor, hosts by each suffix, commands by program and first
//! argument. Invariant: a lookup visits every grant that could match, and allocates nothing.

use super::grant::{Command, Grant, GrantId, PlacedScope};
use crate::capability::{CATALOG, Capability, CommandPattern, Host, HostPattern, Token};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

type Key = Box<[u8]>;

/// All indexes of one policy.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    held: Vec<Vec<GrantId>>,
    paths: HashMap<Capability, HashMap<Key, Vec<GrantId>>>,
    hosts: HashMap<Capability, Hosts>,
    commands: Commands,
}

#[derive(Clone, Debug, Default)]
struct Hosts {
    exact: HashMap<Host, Vec<(GrantId, Option<u16>)>>,
    outside: HashMap<Host, Vec<(GrantId, Option<u16>)>>,
    below: HashMap<Box<str>, Vec<(GrantId, Option<u16>)>>,
    any: Vec<(GrantId, Option<u16>)>,
}

#[derive(Clone, Debug, Default)]
struct Commands {
    names: HashMap<Key, Program>,
    files: HashMap<PathBuf, Program>,
    /// Grants that let any command run, and patterns whose program is a glob.
    other: Vec<(GrantId, Option<CommandPattern>)>,
}

/// What is granted for one program.
#[derive(Clone, Debug, Default)]
struct Program {
    whole: Vec<GrantId>,
    by_first: HashMap<Key, Vec<(GrantId, CommandPattern)>>,
    other: Vec<(GrantId, CommandPattern)>,
}

/// A command line as the index sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandAsked<'a> {
    pub(crate) argv: &'a [OsString],
    /// The file the program is, when known.
    pub(crate) file: Option<&'a Path>,
}

impl Index {
    pub(super) fn new(grants: &[Grant]) -> Self {
        let mut index = Self {
            held: vec![Vec::new(); CATALOG.len()],
            paths: HashMap::new(),
            hosts: HashMap::new(),
            commands: Commands::default(),
        };
        for (number, grant) in grants.iter().enumerate() {
            let id = GrantId(u32::try_from(number).unwrap_or(u32::MAX));
            index.held[grant.capability() as usize].push(id);
            index.add(id, grant);
        }
        index
    }

    fn add(&mut self, id: GrantId, grant: &Grant) {
        match &grant.scope {
            PlacedScope::Fs { paths } => self.add_paths(id, grant, paths.as_deref()),
            PlacedScope::Net { hosts } => {
                let index = self.hosts.entry(grant.capability()).or_default();
                hosts.iter().for_each(|(pattern, port)| index.add(id, pattern, *port));
            }
            PlacedScope::Exec { cmds, patterns } => {
                if grant.is_open_exec() {
                    self.commands.other.push((id, None));
                }
                cmds.iter().flatten().for_each(|command| self.commands.add_command(id, command));
                patterns.iter().flatten().for_each(|(file, pattern)| {
                    self.commands.add_pattern(id, file.as_deref(), pattern);
                });
            }
            PlacedScope::Records { .. } | PlacedScope::Agent { .. } | PlacedScope::Eval => {}
        }
    }

    fn add_paths(&mut self, id: GrantId, grant: &Grant, entries: Option<&[crate::manifest::PathEntry]>) {
        let bases = self.paths.entry(grant.capability()).or_default();
        let mut add = |base: &Path| {
            bases.entry(base.as_os_str().as_encoded_bytes().into()).or_default().push(id);
        };
        match entries {
            None => grant.root.iter().for_each(|root| add(root)),
            Some(entries) => entries.iter().for_each(|entry| add(&entry.base)),
        }
    }

    /// The grants of one capability.
    pub(crate) fn held(&self, capability: Capability) -> &[GrantId] {
        &self.held[capability as usize]
    }

    /// The first grant whose base is `path` or above it and that passes `fits`.
    pub(crate) fn find_path(
        &self,
        capability: Capability,
        path: &Path,
        fits: impl Fn(GrantId) -> bool,
    ) -> Option<GrantId> {
        let bases = self.paths.get(&capability)?;
        let mut held = ancestors(path.as_os_str().as_encoded_bytes()).filter_map(|base| bases.get(base));
        held.find_map(|ids| ids.iter().copied().find(|id| fits(*id)))
    }

    /// The first grant that names the host or a pattern above it, for a port.
    pub(crate) fn find_host(
        &self,
        capability: Capability,
        host: &Host,
        port: Option<u16>,
        literal_only: bool,
    ) -> Option<GrantId> {
        let hosts = self.hosts.get(&capability)?;
        let pick = |list: &[(GrantId, Option<u16>)]| {
            list.iter().find(|(_, held)| held.is_none() || *held == port).map(|(id, _)| *id)
        };
        let exact = hosts.exact.get(host).and_then(|list| pick(list));
        if exact.is_some() || literal_only || host.is_inside() {
            return exact;
        }
        if let Some(outside) = hosts.outside.get(host).and_then(|list| pick(list)) {
            return Some(outside);
        }
        let below = match host {
            Host::Name(name) => suffixes(name).find_map(|suffix| pick(hosts.below.get(suffix)?)),
            Host::Ip(_) => None,
        };
        below.or_else(|| pick(&hosts.any))
    }

    /// The first grant whose command or pattern fits and that passes `fits`.
    pub(crate) fn find_command(
        &self,
        asked: CommandAsked<'_>,
        fits: impl Fn(GrantId) -> bool,
    ) -> Option<GrantId> {
        let name = asked.argv.first()?.as_encoded_bytes();
        let arguments = &asked.argv[1..];
        let named = if name.contains(&b'/') { None } else { self.commands.names.get(name) };
        let filed = asked.file.and_then(|file| self.commands.files.get(file));
        let program = named.into_iter().chain(filed).find_map(|program| program.find(arguments, &fits));
        program.or_else(|| self.commands.find_other(name, arguments, &fits))
    }
}

impl Hosts {
    fn add(&mut self, id: GrantId, pattern: &HostPattern, port: Option<u16>) {
        match pattern {
            HostPattern::Any => self.any.push((id, port)),
            HostPattern::Below(suffix) => self.below.entry(suffix.clone()).or_default().push((id, port)),
            HostPattern::Exact(host) => self.exact.entry(host.clone()).or_default().push((id, port)),
            HostPattern::Outside(host) => self.outside.entry(host.clone()).or_default().push((id, port)),
        }
    }
}

impl Commands {
    fn add_command(&mut self, id: GrantId, command: &Command) {
        let program = match command {
            Command::Name(name) => self.names.entry(name.as_bytes().into()).or_default(),
            Command::File(file) => self.files.entry(file.clone()).or_default(),
        };
        program.whole.push(id);
    }

    fn add_pattern(&mut self, id: GrantId, file: Option<&Path>, pattern: &CommandPattern) {
        match (file, pattern.program()) {
            (Some(file), _) => self.files.entry(file.to_path_buf()).or_default().add(id, pattern),
            (None, Some(Token::Literal(name))) => {
                self.names.entry(name.as_bytes().into()).or_default().add(id, pattern);
            }
            (None, Some(Token::Glob(_)) | None) => self.other.push((id, Some(pattern.clone()))),
        }
    }

    fn find_other(
        &self,
        name: &[u8],
        arguments: &[OsString],
        fits: &impl Fn(GrantId) -> bool,
    ) -> Option<GrantId> {
        let matches = |pattern: &CommandPattern| {
            // A glob is about names; only a lone `*` also covers programs named as files.
            let program =
                pattern.program().is_none() || (!name.contains(&b'/') && pattern.matches_program(name));
            program && matches_all(pattern, arguments)
        };
        let found = self.other.iter().find(|(id, pattern)| pattern.as_ref().is_none_or(matches) && fits(*id));
        found.map(|(id, _)| *id)
    }
}

impl Program {
    fn add(&mut self, id: GrantId, pattern: &CommandPattern) {
        match pattern.first_argument() {
            _ if pattern.is_whole_program() => self.whole.push(id),
            Some(Token::Literal(first)) => {
                self.by_first.entry(first.as_bytes().into()).or_default().push((id, pattern.clone()));
            }
            Some(Token::Glob(_)) | None => self.other.push((id, pattern.clone())),
        }
    }

    fn find(&self, arguments: &[OsString], fits: &impl Fn(GrantId) -> bool) -> Option<GrantId> {
        let first = arguments.first().and_then(|first| self.by_first.get(first.as_encoded_bytes()));
        let whole = self.whole.iter().copied().find(|id| fits(*id));
        whole.or_else(|| {
            let mut patterns = first.into_iter().flatten().chain(&self.other);
            patterns.find(|(id, pattern)| matches_all(pattern, arguments) && fits(*id)).map(|(id, _)| *id)
        })
    }
}

fn matches_all(pattern: &CommandPattern, arguments: &[OsString]) -> bool {
    pattern.matches_arguments(arguments.iter().map(|argument| argument.as_encoded_bytes()))
}

/// `/a/b`, `/a`, `/` of an absolute path without doubled separators.
fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(path), |path| {
        let slash = path.iter().rposition(|byte| *byte == b'/')?;
        (path.len() > 1).then(|| &path[..slash.max(1)])
    })
}

/// `a.b.c`, `b.c`, `c`.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| name.split_once('.').map(|(_, rest)| rest))
}
