//! One grant, placed: roots expanded and narrowed, patterns compiled.

use crate::capability::{Capability, CommandPattern, HostPattern, Spec, has_separator};
use crate::manifest::{MAX_AGENT_ID, PathEntry, WrittenIn, is_agent_id};
use crate::text::Place;
use sbx_platform::path::within;
use std::path::{Path, PathBuf};

/// A grant's number in its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(pub(crate) u32);

impl GrantId {
    /// Its place among the policy's grants.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A grant that is held.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Grant {
    /// As written.
    pub spec: Spec,
    /// Where it holds; none for families without roots, and for an inert grant.
    pub root: Option<PathBuf>,
    /// Whether its own `in` lay outside the level above.
    pub clamped: bool,
    /// The patterns of its scope.
    pub scope: PlacedScope,
    /// Where it is written.
    pub place: Option<Place>,
    /// Which part of the record it comes from.
    pub origin: WrittenIn,
}

/// A scope with its patterns compiled. `None` does not narrow; an empty list allows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacedScope {
    /// Records by class and id.
    Records {
        /// Classes.
        classes: Option<Vec<String>>,
        /// Ids.
        paths: Option<Vec<PathEntry>>,
    },
    /// Agents by id.
    Agent {
        /// `id` and `ids` together.
        ids: Option<Vec<String>>,
        /// Patterns of ids.
        paths: Option<Vec<PathEntry>>,
    },
    /// Files below the root.
    Fs {
        /// Which of them.
        paths: Option<Vec<PathEntry>>,
    },
    /// Hosts, each with an optional port.
    Net {
        /// Which.
        hosts: Vec<(HostPattern, Option<u16>)>,
    },
    /// Programs.
    Exec {
        /// By name or file, with any arguments.
        cmds: Option<Vec<Command>>,
        /// By command line.
        patterns: Option<Vec<(Option<PathBuf>, CommandPattern)>>,
    },
    /// Shell text.
    Eval,
}

/// An entry of `cmds`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Looked up on sbx's own PATH.
    Name(String),
    /// This file.
    File(PathBuf),
}

impl Grant {
    /// Which capability it is.
    #[must_use]
    pub fn capability(&self) -> Capability {
        self.spec.capability
    }

    /// Whether it needs a root and has none: every call is denied.
    #[must_use]
    pub fn is_inert(&self) -> bool {
        self.capability().family().is_rooted() && self.root.is_none()
    }

    /// Whether a file is covered.
    #[must_use]
    pub fn allows_path(&self, target: &Path) -> bool {
        let PlacedScope::Fs { paths } = &self.scope else { return false };
        self.root.as_deref().is_some_and(|root| within(target, root))
            && paths.as_ref().is_none_or(|entries| entries.iter().any(|entry| entry.matches(target)))
    }

    /// Whether the grant's `paths` names this very path or something below it, without a wildcard.
    #[must_use]
    pub fn names_path(&self, protected: &Path, target: &Path) -> bool {
        let PlacedScope::Fs { paths: Some(entries) } = &self.scope else { return false };
        entries
            .iter()
            .any(|entry| entry.glob.is_none() && within(&entry.base, protected) && entry.matches(target))
    }

    /// Whether work in a directory is covered; a request that names none is not narrowed by it.
    #[must_use]
    pub fn allows_cwd(&self, cwd: Option<&Path>) -> bool {
        self.root.as_deref().is_some_and(|root| cwd.is_none_or(|cwd| within(cwd, root)))
    }

    /// Whether it lets any command run below its root.
    #[must_use]
    pub fn is_open_exec(&self) -> bool {
        matches!(&self.scope, PlacedScope::Exec { cmds: None, patterns: None })
    }

    /// Whether a record is covered.
    #[must_use]
    pub fn allows_record(&self, id: Option<&str>, class: Option<&str>) -> bool {
        let PlacedScope::Records { classes, paths } = &self.scope else { return false };
        // What an id with `..` leads to is for the store to say, so no grant can be about it.
        if id.is_some_and(|id| id.split('/').any(|part| part == "..")) {
            return false;
        }
        let class_fits =
            |classes: &Vec<String>| class.is_some_and(|class| classes.iter().any(|held| held == class));
        let id_fits = |paths: &Vec<PathEntry>| {
            id.is_some_and(|id| paths.iter().any(|entry| entry.matches(Path::new(id))))
        };
        classes.as_ref().is_none_or(class_fits) && paths.as_ref().is_none_or(id_fits)
    }

    /// Whether another agent is covered.
    #[must_use]
    pub fn allows_agent(&self, id: &str) -> bool {
        let PlacedScope::Agent { ids, paths } = &self.scope else { return false };
        // `./me` or `x/../me` is no name, and may lead to an agent that another rule is about.
        if !id.is_empty() && !is_agent_id(id) {
            return false;
        }
        let mut room = [0; AGENTS.len() + MAX_AGENT_ID];
        let full = full_id(id, &mut room);
        let path_fits = |paths: &Vec<PathEntry>| {
            paths.iter().any(|entry| entry.matches(Path::new(id)) || entry.matches(Path::new(full)))
        };
        ids.as_ref().is_none_or(|ids| ids.iter().any(|held| held == id))
            && paths.as_ref().is_none_or(path_fits)
    }
}

const AGENTS: &str = "agents/";

/// An agent's id with its prefix, put together without allocating; nothing when it is too long.
fn full_id<'a>(id: &str, room: &'a mut [u8; AGENTS.len() + MAX_AGENT_ID]) -> &'a str {
    let length = AGENTS.len() + id.len();
    let Some(full) = room.get_mut(..length) else { return "" };
    full[..AGENTS.len()].copy_from_slice(AGENTS.as_bytes());
    full[AGENTS.len()..].copy_from_slice(id.as_bytes());
    std::str::from_utf8(full).unwrap_or_default()
}

impl Command {
    /// Places an entry of `cmds`: a name stays a name, a file is found from the root.
    #[must_use]
    pub(super) fn place(entry: &str, root: Option<&Path>, home: &Path) -> Self {
        if has_separator(entry) {
            Self::File(place_file(entry, root, home))
        } else {
            Self::Name(entry.to_owned())
        }
    }
}

pub(super) fn place_file(entry: &str, root: Option<&Path>, home: &Path) -> PathBuf {
    let path = match entry.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => root.unwrap_or(Path::new("/")).join(entry),
    };
    sbx_platform::path::normalize(&path)
}
