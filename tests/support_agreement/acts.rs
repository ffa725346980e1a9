//! What a fenced process tries, and what `decide` says to it.

use sbx::capability::Capability;
use std::fmt;
use std::path::{Path, PathBuf};

/// One act.
#[derive(Clone, Debug)]
pub(crate) struct Act {
    pub(crate) verb: &'static str,
    pub(crate) path: PathBuf,
    /// Whether the path stands before the act.
    pub(crate) exists: bool,
    /// What else it takes: where something is moved or linked to, what a link at the path leads to, arguments.
    pub(crate) more: Vec<PathBuf>,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.path.display())?;
        self.more.iter().try_for_each(|more| write!(f, " {}", more.display()))
    }
}

impl Act {
    pub(crate) fn new(verb: &'static str, path: impl Into<PathBuf>, exists: bool) -> Self {
        Self { verb, path: path.into(), exists, more: Vec::new() }
    }

    pub(crate) fn and(mut self, more: impl Into<PathBuf>) -> Self {
        self.more.push(more.into());
        self
    }

    /// What the act needs.
    pub(crate) fn capability(&self) -> Capability {
        match self.verb {
            "read" | "list" => Capability::FsRead,
            "delete" | "rmdir" => Capability::FsDelete,
            _ => Capability::FsWrite,
        }
    }

    /// Whether a name comes or goes, which is a matter of the directory.
    pub(crate) fn makes_or_takes(&self) -> bool {
        matches!(self.verb, "create" | "mkdir" | "delete" | "rmdir") || !self.exists
    }

    /// As the probe reads it.
    pub(crate) fn line(&self) -> String {
        // What a link at the path leads to was put there before.
        let more = if self.is_led() { &[] } else { self.more.as_slice() };
        let words = std::iter::once(self.path.as_path()).chain(more.iter().map(PathBuf::as_path));
        words.fold(self.verb.to_owned(), |line, word: &Path| format!("{line}\t{}", word.display()))
    }

    /// Whether the path is a link that somebody outside made.
    pub(crate) fn is_led(&self) -> bool {
        !self.more.is_empty() && matches!(self.verb, "read" | "write" | "truncate" | "make")
    }
}

/// What the kernel must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allow,
    Deny,
    /// Allowed by a pattern or on a granted place itself, which the kernel cannot always express.
    AllowMaybeNarrower,
    /// The program is listed, with other arguments: the kernel knows programs.
    DenyMaybeWider,
}

impl Verdict {
    /// What two together come to.
    pub(crate) fn both(self, other: Self) -> Self {
        match (self, other) {
            (Self::Deny, _) | (_, Self::Deny) => Self::Deny,
            (Self::Allow, other) => other,
            (this, _) => this,
        }
    }

    /// The same where the kernel may be narrower for another reason.
    pub(crate) fn loosely(self) -> Self {
        self.both(Self::AllowMaybeNarrower)
    }
}
