//! The machine as it is, for [`plan`](crate::plan).

use crate::plan::{Host, Kind};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Answers from the file system and the environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live;

impl Host for Live {
    fn kind(&self, path: &Path) -> Option<Kind> {
        let meta = std::fs::symlink_metadata(path).ok()?;
        Some(if meta.is_dir() {
            Kind::Directory
        } else if meta.is_symlink() {
            Kind::Link(std::fs::read_link(path).ok()?)
        } else {
            Kind::File
        })
    }

    fn real(&self, path: &Path) -> Option<PathBuf> {
        std::fs::canonicalize(path).ok()
    }

    fn names(&self, directory: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name())).collect()
    }

    fn is_program(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    }

    fn read(&self, path: &Path, offset: u64, length: usize) -> Option<Vec<u8>> {
        let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))?;
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        bytes.truncate(filled);
        Some(bytes)
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}
