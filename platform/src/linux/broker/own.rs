//! Directories that a launch made itself.
//!
//! Answers for the question whose a directory is, asked of a directory that is held. It leaves what may be done
//! there to [`super::protect`].
//! Invariant: no path is kept or asked for. A directory is the launch's own because the launch made that very
//! directory, whatever it is called by now; what lies in it is not for that reason.

use std::collections::HashSet;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::linux::sys::dir::{self, Identity};

/// Directories remembered, as many as a table of some 4 MiB holds; what is made beyond that is guarded like the rest.
const OWN_MAX: usize = 7 << 14;

/// Directories that the launch made itself.
#[derive(Debug, Default)]
pub(super) struct Own {
    dirs: HashSet<Identity>,
}

impl Own {
    /// A directory was just made by this name. Another launch could have put one of its choice there since: what is
    /// found has to be empty, and an empty directory is as good as a new one.
    pub(super) fn made(&mut self, parent: BorrowedFd<'_>, name: &CStr) {
        let Ok(made) = dir::open(parent, name) else { return };
        let mut is_empty = true;
        let looked = dir::names(&made, |_, _| {
            is_empty = false;
            false
        });
        if looked.is_ok() && is_empty && self.dirs.len() < OWN_MAX {
            self.dirs.extend(dir::identity(made.as_fd(), c""));
        }
    }

    /// Whether the launch made this directory.
    pub(super) fn has(&self, dir: BorrowedFd<'_>) -> bool {
        self.at(dir, c"").is_some()
    }

    /// The directory of this name, if the launch made it.
    pub(super) fn at(&self, parent: BorrowedFd<'_>, name: &CStr) -> Option<Identity> {
        let known = |found: &Identity| self.dirs.contains(found);
        // Most launches make no directory, and need not look.
        if self.dirs.is_empty() { None } else { dir::identity(parent, name).ok().filter(known) }
    }

    /// A directory is gone: its number will be used for another.
    pub(super) fn gone(&mut self, identity: Identity) {
        self.dirs.remove(&identity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::sys::{c_path, fd};
    use std::fs;

    #[test]
    fn a_directory_is_known_by_what_it_is_and_not_by_its_name() {
        let top = std::env::temp_dir().join(format!("sbx-own-{}", std::process::id()));
        fs::create_dir_all(top.join("full/inside")).unwrap();
        fs::create_dir(top.join("new")).unwrap();
        let here = dir::open(fd::cwd(), &c_path(&top).unwrap()).unwrap();
        let mut own = Own::default();
        own.made(here.as_fd(), c"new");
        own.made(here.as_fd(), c"full");
        let has = |own: &Own, name| own.at(here.as_fd(), name).is_some();
        assert!(has(&own, c"new") && !has(&own, c"full"), "one that holds something is not new");
        fs::create_dir(top.join("new/below")).unwrap();
        fs::rename(top.join("new"), top.join("other")).unwrap();
        fs::rename(top.join("full"), top.join("new")).unwrap();
        assert!(has(&own, c"other") && !has(&own, c"new") && !has(&own, c"other/below"));
        own.gone(own.at(here.as_fd(), c"other").unwrap());
        assert!(!has(&own, c"other"));
        fs::remove_dir_all(top).unwrap();
    }
}
