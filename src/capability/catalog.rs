//! The catalogue: seventeen capabilities in one table.
//!
//! A new verb is a new row here; parser, doctor, schema, completions and docs follow.

use crate::text::closest;
use std::fmt;

/// How much harm a capability can do when misused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// Stays inside the record store and can be undone.
    Low,
    /// Discloses or changes something of consequence.
    Medium,
    /// Destroys, leaves the machine, or runs code.
    High,
}

impl Risk {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What kind of thing a capability is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Records in the store.
    Records,
    /// Other agents' records.
    Agent,
    /// Files and directories.
    Fs,
    /// The network.
    Net,
    /// Processes.
    Proc,
}

impl Family {
    /// The word before the dot.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Agent => "agent",
            Self::Fs => "fs",
            Self::Net => "net",
            Self::Proc => "proc",
        }
    }

    /// Whether it reaches outside the record store: a bare grant then allows nothing.
    #[must_use]
    pub const fn is_external(self) -> bool {
        matches!(self, Self::Fs | Self::Net | Self::Proc)
    }

    /// Whether its grants live below a root.
    #[must_use]
    pub const fn is_rooted(self) -> bool {
        matches!(self, Self::Fs | Self::Proc)
    }
}

/// A key of a scope, in the order in which scopes are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScopeKey {
    /// The root below which the grant holds.
    In,
    /// Programs, by name or file.
    Cmds,
    /// Command lines, token by token.
    Patterns,
    /// Paths below the root, or record ids.
    Paths,
    /// Host patterns.
    Hosts,
    /// Record classes.
    Classes,
    /// One agent.
    Id,
    /// Several agents.
    Ids,
}

/// What a scope key's value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// One string.
    Text,
    /// A list of strings.
    List,
}

impl ScopeKey {
    /// The key as written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Cmds => "cmds",
            Self::Patterns => "patterns",
            Self::Paths => "paths",
            Self::Hosts => "hosts",
            Self::Classes => "classes",
            Self::Id => "id",
            Self::Ids => "ids",
        }
    }

    /// What its value looks like.
    #[must_use]
    pub const fn kind(self) -> ValueKind {
        match self {
            Self::In | Self::Id => ValueKind::Text,
            Self::Cmds | Self::Patterns | Self::Paths | Self::Hosts | Self::Classes | Self::Ids => {
                ValueKind::List
            }
        }
    }
}

macro_rules! catalog {
    ($($variant:ident $name:literal $family:ident $risk:ident [$($key:ident)*] $summary:literal,)*) => {
        /// A verb on a kind of thing, such as `net.get`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Capability { $(#[doc = $summary] $variant,)* }

        /// Every capability there is.
        pub const CATALOG: &[Entry] = &[$(Entry {
            capability: Capability::$variant,
            name: $name,
            family: Family::$family,
            risk: Risk::$risk,
            keys: &[$(ScopeKey::$key,)*],
            summary: $summary,
        },)*];
    };
}

catalog! {
    RecordsRead "records.read" Records Low [] "read records",
    RecordsCreate "records.create" Records Low [Classes] "create records",
    RecordsUpdate "records.update" Records Medium [Paths Classes] "change records",
    RecordsDelete "records.delete" Records High [Classes] "delete records",
    AgentCreate "agent.create" Agent Medium [Id] "create other agents",
    AgentUpdate "agent.update" Agent Medium [Paths Id Ids] "change other agents' records",
    AgentDelete "agent.delete" Agent High [Id Ids] "delete other agents",
    AgentGrant "agent.grant" Agent High [Id] "give other agents authority it holds itself",
    FsRead "fs.read" Fs Medium [In Paths] "read files and list directories",
    FsWrite "fs.write" Fs High [In Paths] "create and change files",
    FsDelete "fs.delete" Fs High [In Paths] "remove files, or rename them away",
    NetGet "net.get" Net Medium [Hosts] "fetch over the network (GET, HEAD, OPTIONS)",
    NetPost "net.post" Net High [Hosts] "send over the network (POST)",
    NetPut "net.put" Net High [Hosts] "replace over the network (PUT, PATCH)",
    NetDelete "net.delete" Net High [Hosts] "delete over the network (DELETE)",
    ProcExec "proc.exec" Proc High [In Cmds Patterns] "run programs",
    ProcEval "proc.eval" Proc High [In] "run shell text",
}

/// One row of the catalogue.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// Which capability.
    pub capability: Capability,
    /// `resource.verb`.
    pub name: &'static str,
    /// What it is about.
    pub family: Family,
    /// How much harm it can do.
    pub risk: Risk,
    /// The scope keys it takes.
    pub keys: &'static [ScopeKey],
    /// What it lets an agent do.
    pub summary: &'static str,
}

impl Capability {
    /// Its row in the catalogue.
    #[must_use]
    pub const fn entry(self) -> &'static Entry {
        &CATALOG[self as usize]
    }

    /// `resource.verb`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// What it is about.
    #[must_use]
    pub const fn family(self) -> Family {
        self.entry().family
    }

    /// How much harm it can do.
    #[must_use]
    pub const fn risk(self) -> Risk {
        self.entry().risk
    }

    /// The scope keys it takes.
    #[must_use]
    pub const fn keys(self) -> &'static [ScopeKey] {
        self.entry().keys
    }

    /// Finds a capability by its exact name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        CATALOG.iter().find(|entry| entry.name == name).map(|entry| entry.capability)
    }

    /// The capability most like a misspelt name.
    #[must_use]
    pub fn closest_name(name: &str) -> Option<&'static str> {
        let renamed = name.strip_prefix("shell.").map(|verb| format!("proc.{verb}"));
        closest(renamed.as_deref().unwrap_or(name), CATALOG.iter().map(|entry| entry.name))
    }

    /// Finds one of its scope keys by name.
    #[must_use]
    pub fn key(self, name: &str) -> Option<ScopeKey> {
        self.keys().iter().copied().find(|key| key.name() == name)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_stands_at_its_own_index() {
        for (index, entry) in CATALOG.iter().enumerate() {
            assert_eq!(entry.capability as usize, index);
            assert!(entry.name.starts_with(entry.family.name()));
        }
        assert_eq!(CATALOG.len(), 17);
    }

    #[test]
    fn keys_of_a_row_are_in_printing_order() {
        for entry in CATALOG {
            assert!(entry.keys.is_sorted(), "{}", entry.name);
        }
    }

    #[test]
    fn the_old_name_of_proc_finds_the_new_one() {
        assert_eq!(Capability::closest_name("shell.exec"), Some("proc.exec"));
    }
}
