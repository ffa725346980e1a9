//! The hoist chain: config → project → agent → grant, each level only narrowing.
//!
//! Invariant: the result lies within every level that names a root.

use crate::text::Place;
use sbx_platform::path::within;
use std::fmt;
use std::path::{Path, PathBuf};

/// Which level set a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LevelName {
    /// The machine's configuration.
    Config,
    /// The project in which the record was found.
    Project,
    /// The agent's `sandbox`.
    Agent,
    /// The grant's `in`.
    Grant,
}

impl fmt::Display for LevelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Config => "config `sandbox`",
            Self::Project => "project directory",
            Self::Agent => "agent `sandbox`",
            Self::Grant => "grant `in`",
        })
    }
}

/// One level that names a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Which one.
    pub name: LevelName,
    /// The root it names, links followed.
    pub root: PathBuf,
    /// Where that is written.
    pub place: Option<Place>,
}

/// A level that asked for more than the one above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clamp {
    /// The level that asked.
    pub asked: Level,
    /// What it was narrowed to.
    pub narrowed_to: PathBuf,
}

/// The levels above a grant, narrowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    levels: Vec<Level>,
    root: Option<PathBuf>,
    clamps: Vec<Clamp>,
}

impl Chain {
    /// The same chain, one level deeper.
    #[must_use]
    pub fn push(mut self, level: Level) -> Self {
        let (root, clamped) = self.narrow(&level.root);
        if clamped {
            self.clamps.push(Clamp { asked: level.clone(), narrowed_to: root.clone() });
        }
        self.root = Some(root);
        self.levels.push(level);
        self
    }

    /// Where a deeper root ends up, and whether it was clamped.
    #[must_use]
    pub fn narrow(&self, deeper: &Path) -> (PathBuf, bool) {
        match &self.root {
            Some(root) if !within(deeper, root) => (root.clone(), true),
            _ => (deeper.to_path_buf(), false),
        }
    }

    /// The root that all levels together leave; none when no level names one.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// The level that set the root.
    #[must_use]
    pub fn set_by(&self) -> Option<&Level> {
        let root = self.root.as_deref()?;
        self.levels.iter().rev().find(|level| level.root == root)
    }

    /// The levels that name a root, outermost first.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The levels that asked for more than they got.
    #[must_use]
    pub fn clamps(&self) -> &[Clamp] {
        &self.clamps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(roots: &[&str]) -> Chain {
        roots.iter().fold(Chain::default(), |chain, root| {
            chain.push(Level { name: LevelName::Agent, root: root.into(), place: None })
        })
    }

    #[test]
    fn a_deeper_level_narrows() {
        assert_eq!(chain(&["/w", "/w/lib"]).root(), Some(Path::new("/w/lib")));
        assert!(chain(&["/w", "/w/lib"]).clamps().is_empty());
    }

    #[test]
    fn a_level_outside_is_clamped_to_the_one_above() {
        for outside in ["/etc", "/wx", "/"] {
            let chain = chain(&["/w", outside]);
            assert_eq!(chain.root(), Some(Path::new("/w")));
            assert_eq!(chain.clamps().len(), 1);
        }
    }
}
