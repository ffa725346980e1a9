//! What a fenced process tries, and what `decide` says to it.

use sbx::capability::Capability;
use std::fmt;
use std::path::PathBuf;

/// One act.
#[derive(Clone, Debug)]
pub(crate) struct Act {
    pub(crate) verb: &'static str,
    pub(crate) path: PathBuf,
    /// Whether the path stands before the act.
    pub(crate) exists: bool,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.path.display())
    }
}

impl Act {
    /// What the act needs.
    pub(crate) fn capability(&self) -> Capability {
        match self.verb {
            "read" | "list" => Capability::FsRead,
            "delete" => Capability::FsDelete,
            _ => Capability::FsWrite,
        }
    }
}

/// What the kernel must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allow,
    Deny,
    /// Allowed by a pattern or on a granted place itself, which the kernel cannot always express.
    AllowMaybeNarrower,
}
