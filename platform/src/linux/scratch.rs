//! Private directories that stand for private file systems where there are no namespaces.
//!
//! Answers for making them, for removing them, and for sweeping those of launches that were killed. It leaves
//! what they stand for to [`super::bare`].
//! Invariant: a directory belongs to a launch that lives as long as its lock is held; only what is not locked
//! is swept.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::linux::sys::process;
use crate::walk::{self, remove_tree};

/// How the names of all such directories begin.
const PREFIX: &str = "sbx-scratch-";
/// The most names looked at in one sweep.
const MOST: usize = 4096;

/// Directories of one launch; removed when dropped.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    dirs: Vec<(PathBuf, File)>,
}

/// The user's run-time directory if there is one, which is memory and goes with the session; else that for
/// temporary files.
fn base() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir());
    runtime.unwrap_or_else(std::env::temp_dir)
}

impl Scratch {
    /// One more directory.
    pub(crate) fn add(&mut self) -> io::Result<PathBuf> {
        let base = base();
        for attempt in 0..100 {
            let dir = base.join(format!("{PREFIX}{}-{attempt}", process::own_pid()));
            match DirBuilder::new().mode(0o700).create(&dir) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // A sweep that came between took it for an old one and removes it.
            let Ok(lock) = File::open(&dir) else { continue };
            if lock.try_lock().is_ok() && is_still_there(&dir, &lock) {
                self.dirs.push((dir.clone(), lock));
                return Ok(dir);
            }
        }
        Err(io::Error::from_raw_os_error(libc::EEXIST))
    }

    /// Removes what launches left behind that were killed.
    pub(crate) fn sweep() {
        let (base, user) = (base(), process::ids().0);
        let mut left = Vec::new();
        let mut looked_at = 0;
        let _ = walk::names(&base, |name| {
            if name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                left.push(base.join(name));
            }
            looked_at += 1;
            looked_at < MOST
        });
        for dir in left {
            let own = fs::symlink_metadata(&dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
            let Some(lock) = own.then(|| File::open(&dir).ok()).flatten() else { continue };
            if lock.try_lock().is_ok() && is_still_there(&dir, &lock) {
                remove_tree(&dir);
            }
        }
    }
}

fn is_still_there(dir: &Path, lock: &File) -> bool {
    match (fs::symlink_metadata(dir), lock.metadata()) {
        (Ok(there), Ok(held)) => (there.dev(), there.ino()) == (held.dev(), held.ino()),
        _ => false,
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for (dir, _) in &self.dirs {
            // Mostly nothing was left in it, which is found out by trying.
            if fs::remove_dir(dir).is_err() {
                remove_tree(dir);
            }
        }
    }
}
