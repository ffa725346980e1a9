//! Directories that a launch made itself.
//!
//! Answers for the question whose a directory is. It leaves what may be done there to [`super::protect`].
//! Invariant: nothing that was there before the launch becomes its own, by whatever name it is found.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directories remembered; what is made beyond that is guarded like the rest.
const OWN_MAX: usize = 4096;

/// Directories that the launch made itself: what lies below is its own.
#[derive(Debug)]
pub(super) struct Own {
    /// What the directory at a path is.
    look: fn(&Path) -> Option<Identity>,
    /// Each with what it is: another directory that takes its name is not the launch's.
    dirs: HashMap<PathBuf, Identity>,
    /// Names from which directories that were there before were moved away.
    vacated: BTreeSet<PathBuf>,
}

/// Device and number of a directory.
pub(super) type Identity = (u64, u64);

impl Default for Own {
    fn default() -> Self {
        Self { look: identity_of, dirs: HashMap::new(), vacated: BTreeSet::new() }
    }
}

impl Own {
    /// A directory was made.
    pub(super) fn made(&mut self, path: &Path, identity: Identity) {
        let is_full = self.dirs.len() >= OWN_MAX || self.vacated.len() >= OWN_MAX;
        let in_place_of_another = path.ancestors().any(|above| self.vacated.contains(above));
        if !is_full && !in_place_of_another && !self.covers(path) {
            self.dirs.insert(path.to_path_buf(), identity);
        }
    }

    /// Whether moving a directory would make something the launch's own that is not, or the other way round.
    pub(super) fn confuses(&self, from: &Path, to: &Path, exchange: bool) -> bool {
        let (from, to) = (self.covers(from), self.covers(to));
        if exchange { from != to } else { !from && to }
    }

    /// Something was moved: what was remembered below either name is no longer sure.
    pub(super) fn moved(&mut self, from: &Path, to: &Path, directory: Option<Identity>) {
        let by_itself = directory.is_some() && self.dirs.get(from).copied() == directory;
        let own = by_itself || from.parent().is_some_and(|above| self.covers(above));
        self.dirs.retain(|path, _| !path.starts_with(from) && !path.starts_with(to));
        let Some(identity) = directory else { return };
        if own {
            self.made(to, identity);
        } else if self.vacated.len() < OWN_MAX {
            self.vacated.insert(from.to_path_buf());
        }
    }

    /// Something was removed.
    pub(super) fn removed(&mut self, path: &Path) {
        self.dirs.remove(path);
    }

    /// Whether `path` is, or lies in, such a directory.
    pub(super) fn covers(&self, path: &Path) -> bool {
        let own = |above: &Path| self.dirs.get(above).is_some_and(|own| (self.look)(above) == Some(*own));
        !self.dirs.is_empty() && path.ancestors().any(own)
    }
}

/// What the directory at `path` is, if there is one.
fn identity_of(path: &Path) -> Option<Identity> {
    std::fs::symlink_metadata(path)
        .ok()
        .filter(std::fs::Metadata::is_dir)
        .map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
impl Own {
    pub(super) const THE_SAME: Identity = (1, 1);

    /// Paths of tests lead nowhere: whatever lies there is taken for the same directory.
    pub(super) fn seen_everywhere() -> Self {
        Self { look: |_| Some(Self::THE_SAME), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_the_place_of_another_directory_is_not_the_launchs_own() {
        let mut own = Own::seen_everywhere();
        own.moved(Path::new("/w/sub"), Path::new("/w/away"), Some((2, 2)));
        own.made(Path::new("/w/sub"), Own::THE_SAME);
        assert!(!own.covers(Path::new("/w/sub/.envrc")));
        own.made(Path::new("/w/new"), Own::THE_SAME);
        assert!(own.covers(Path::new("/w/new/.envrc")));
        own.look = |_| Some((3, 3));
        assert!(!own.covers(Path::new("/w/new/.envrc")), "somebody else put another there");
    }

    #[test]
    fn nothing_becomes_the_launchs_own_by_moving() {
        let mut own = Own::seen_everywhere();
        own.made(Path::new("/w/own"), Own::THE_SAME);
        let confuses =
            |from: &str, to: &str, exchange| own.confuses(Path::new(from), Path::new(to), exchange);
        assert!(confuses("/w/old", "/w/own/old", false) && confuses("/w/old", "/w/own", false));
        assert!(confuses("/w/own", "/w/old", true) && confuses("/w/old", "/w/own", true));
        assert!(!confuses("/w/own/x", "/w/x", false) && !confuses("/w/a", "/w/b", false));
        let mut own = Own::seen_everywhere();
        own.made(Path::new("/w/old/new"), Own::THE_SAME);
        own.moved(Path::new("/w/old"), Path::new("/w/away"), Some(Own::THE_SAME));
        assert!(!own.covers(Path::new("/w/old/new")));
    }
}
