//! What was made that is worth telling of afterwards, by whatever name it is found then.
//!
//! Answers for following such names when the directories they stand in are moved. It leaves which names those are
//! to [`super::protect`], and what they come to to whoever is told.
//! Invariant: what is followed is held by descriptor, and nothing that could be told is lost before it was.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use super::resolve::{Resolver, Spot};
use crate::linux::sys::fd;
use crate::report::Verb;

/// Names of a kind that are followed; those beyond are told of once, where they were made.
const FOLLOWED: usize = 64;

/// Names that were made.
#[derive(Debug, Default)]
pub(super) struct Noted {
    followed: Vec<Followed>,
    /// What is still to be told.
    news: Vec<(Verb, PathBuf)>,
}

#[derive(Debug)]
struct Followed {
    verb: Verb,
    parent: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl Noted {
    /// Something was made or written at `spot`.
    pub(super) fn made(&mut self, spot: &Spot, verb: Verb) {
        let known = self.followed.iter().position(|known| known.verb == verb && known.path == spot.path);
        if let Some(at) = known {
            if is_same(&self.followed[at].parent, &spot.parent) {
                return;
            }
            // The directory it stood in is gone, and another stands in its place.
            self.followed.swap_remove(at);
        }
        let is_full = self.followed.iter().filter(|known| known.verb == verb).count() >= FOLLOWED;
        let held = fd::dup_above(spot.parent.as_raw_fd(), 3).ok().filter(|_| !is_full);
        if let Some((parent, name)) = held.zip(spot.path.file_name()) {
            let (name, path) = (name.to_owned(), spot.path.clone());
            self.followed.push(Followed { verb, parent, name, path });
        }
        self.news.push((verb, spot.path.clone()));
        if is_full {
            // Whoever reads this is told that there was more.
            self.news.push((verb, PathBuf::new()));
        }
    }

    /// A directory was moved: what is followed may have another path now.
    pub(super) fn moved(&mut self, resolver: &Resolver) {
        for known in &mut self.followed {
            let Ok(parent) = resolver.path_of(&known.parent) else { continue };
            let path = parent.join(&known.name);
            if path != known.path {
                known.path.clone_from(&path);
                self.news.push((known.verb, path));
            }
        }
    }

    /// What was not told yet.
    pub(super) fn take(&mut self) -> Vec<(Verb, PathBuf)> {
        std::mem::take(&mut self.news)
    }
}

/// Whether two descriptors stand for one directory.
fn is_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    let id = |dir: &OwnedFd| fd::stat(dir.as_raw_fd()).ok().map(|found| (found.st_dev, found.st_ino));
    id(one).is_some_and(|known| id(other) == Some(known))
}
