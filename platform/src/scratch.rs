//! Private directories that stand for private file systems where there are no namespaces.
//!
//! Answers for making them, for removing them, and for sweeping those of launches that were killed. It leaves
//! what they stand for to the backends.
//! Invariant: a directory belongs to a launch that lives as long as its lock is held; only what is not locked
//! is swept.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};

use crate::launch::ids;
use crate::path;
use crate::walk::{self, remove_tree};

/// How the names of all such directories begin.
const PREFIX: &str = "sbx-scratch-";
/// The most names looked at in one sweep.
const MOST: usize = 4096;

/// Directories of one launch, or of launches that were killed; removed when dropped.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Where they lie, once that is known.
    base: Option<PathBuf>,
    dirs: Vec<(PathBuf, File)>,
}

/// The user's run-time directory if there is one, which is memory and goes with the session; else that for
/// temporary files. Links followed, because profiles match what the kernel resolves to.
fn base() -> io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir());
    path::real(&runtime.unwrap_or_else(std::env::temp_dir))
}

/// A name that no launch had before: where processes outlive a launch that was killed, one of them may still have
/// rights on the directory of an earlier one with the same process number.
fn fresh() -> String {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("{}{:x}", own_prefix(), since.as_nanos())
}

/// How the names of this process's own begin.
fn own_prefix() -> String {
    format!("{PREFIX}{}-", std::process::id())
}

impl Scratch {
    /// One more directory.
    pub(crate) fn add(&mut self) -> io::Result<PathBuf> {
        let base = match self.base.take() {
            Some(base) => base,
            None => base()?,
        };
        let base = self.base.insert(base);
        for _ in 0..100 {
            let dir = base.join(fresh());
            match DirBuilder::new().mode(0o700).create(&dir) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            let lock = match File::open(&dir) {
                Ok(lock) => lock,
                // A sweep that came between took it for an old one and has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    let _ = fs::remove_dir(&dir);
                    return Err(error);
                }
            };
            if lock.try_lock().is_ok() && is_still_there(&dir, &lock) {
                self.dirs.push((dir.clone(), lock));
                return Ok(dir);
            }
        }
        Err(io::Error::from_raw_os_error(libc::EEXIST))
    }

    /// Removes what launches left behind that were killed. That is mostly nothing; but large trees take their time, in
    /// which a launch must be watched.
    pub(crate) fn sweep() -> Sweep {
        let left = Self::left_behind();
        if left.dirs.is_empty() {
            return Sweep(None);
        }
        // Where no thread is to be had, this has removed them already.
        Sweep(Builder::new().spawn(move || drop(left)).ok())
    }

    /// What no living launch holds, held by us.
    fn left_behind() -> Self {
        let Ok(base) = base() else { return Self::default() };
        let (user, own) = (ids().0, own_prefix());
        let mut found = Vec::new();
        let mut looked_at = 0;
        let _ = walk::names(&base, |name| {
            let name = name.as_encoded_bytes();
            if name.starts_with(PREFIX.as_bytes()) && !name.starts_with(own.as_bytes()) {
                found.push(base.join(OsStr::from_bytes(name)));
            }
            looked_at += 1;
            looked_at < MOST
        });
        let abandoned = |dir: PathBuf| {
            fs::symlink_metadata(&dir).ok().filter(|meta| meta.is_dir() && meta.uid() == user)?;
            let lock = File::open(&dir).ok()?;
            (lock.try_lock().is_ok() && is_still_there(&dir, &lock)).then_some((dir, lock))
        };
        Self { dirs: found.into_iter().filter_map(abandoned).collect(), base: Some(base) }
    }
}

/// Removal under way, which is waited for at the end.
#[derive(Debug)]
pub(crate) struct Sweep(Option<JoinHandle<()>>);

impl Drop for Sweep {
    fn drop(&mut self) {
        // A thread that only removes has nothing to say.
        let _ = self.0.take().map(JoinHandle::join);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_swept_and_what_is_held_stays() {
        let mut held = Scratch::default();
        let (own, other) = (held.add().unwrap(), held.add().unwrap());
        assert!(own != other && own.is_dir());
        let left = base().unwrap().join(fresh().replacen(&own_prefix(), "sbx-scratch-0-", 1));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("file"), "x").unwrap();
        drop(Scratch::sweep());
        assert!(!left.exists() && own.is_dir() && other.is_dir());
        drop(held);
        assert!(!own.exists() && !other.exists());
    }
}
