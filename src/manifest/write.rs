//! Rewrites a file so that readers see the old text or the new, never a part.

use super::load::{LoadError, read_bounded};
use crate::text::Source;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Why a file could not be rewritten; it is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError<E> {
    /// It could not be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The change itself was refused.
    #[error("{0}")]
    Refused(E),
    /// The file system said no.
    #[error("cannot {op} {}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// Applies a change to a file under a lock: two at once follow one another, and neither is lost.
///
/// Mode and owner are kept. A link is followed, and what it leads to is rewritten.
/// When `change` answers `None` nothing is written.
///
/// # Errors
/// When reading, the change, or writing fails; the file is then as it was.
pub fn rewrite<E>(
    path: &Path,
    change: impl FnOnce(Source) -> Result<Option<String>, E>,
) -> Result<bool, WriteError<E>> {
    rewrite_bounded(path, super::MAX_BYTES, change)
}

/// The same for files that are not sbx's own and may be larger.
pub(crate) fn rewrite_bounded<E>(
    path: &Path,
    most: usize,
    change: impl FnOnce(Source) -> Result<Option<String>, E>,
) -> Result<bool, WriteError<E>> {
    let fail = |op, path: &Path| {
        let path = path.to_path_buf();
        move |source| WriteError::Io { op, path, source }
    };
    let real = fs::canonicalize(path).map_err(fail("find", path))?;
    let dir = real.parent().unwrap_or(Path::new("/"));
    // The directory is locked rather than the file, because the file is about to be replaced.
    let lock = File::open(dir).map_err(fail("open", dir))?;
    lock.lock().map_err(fail("lock", dir))?;
    let source = read_bounded(&real, most)?;
    let Some(text) =
        change(Source::new(path.display().to_string(), source.text())).map_err(WriteError::Refused)?
    else {
        return Ok(false);
    };
    let before = fs::metadata(&real).map_err(fail("examine", &real))?;
    let staged = Staged::create(&real, &before, &text).map_err(fail("write", &real))?;
    fs::rename(&staged.path, &real).map_err(fail("replace", &real))?;
    staged.keep();
    lock.sync_all().map_err(fail("sync", dir))?;
    Ok(true)
}

/// Writes a new file in one step; one that exists is left alone.
///
/// # Errors
/// When it exists or cannot be written.
pub(crate) fn create(path: &Path, text: &str) -> io::Result<()> {
    create_with(path, text, 0o666)
}

/// The same with no more permissions than these at any moment.
///
/// # Errors
/// When it exists or cannot be written.
pub(crate) fn create_with(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A finished copy beside the file, removed unless it took the file's place.
struct Staged {
    path: PathBuf,
}

impl Staged {
    fn create(real: &Path, before: &fs::Metadata, text: &str) -> io::Result<Self> {
        // This very name is protected in every fence: no fenced process can hold a descriptor of what is about
        // to be put in place. The directory is locked, so that a copy that lies there is stale.
        let staged = Self { path: real.with_file_name(".sbx-staged") };
        let _ = fs::remove_file(&staged.path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged.path)?;
        file.write_all(text.as_bytes())?;
        let same_owner =
            file.metadata().is_ok_and(|now| now.uid() == before.uid() && now.gid() == before.gid());
        if !same_owner {
            fchown(&file, Some(before.uid()), Some(before.gid()))?;
        }
        file.set_permissions(fs::Permissions::from_mode(before.mode() & 0o7777))?;
        file.sync_all()?;
        Ok(staged)
    }

    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_with_no_more_permissions_than_asked_for() {
        let path = std::env::temp_dir().join(format!("sbx-create-{}", std::process::id()));
        create_with(&path, "text", 0o600).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(create(&path, "other").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(path).unwrap();
    }
}
