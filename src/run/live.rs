//! The machine as it is, for [`plan`](crate::plan).

use crate::plan::{Host, Kind, Use};
use sbx_platform::elf::Role;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The most names that are read sooner than some forty are looked up one by one.
const FEW: usize = 128;

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

    fn few_names(&self, directory: &Path) -> Option<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory).ok()? {
            if names.len() == FEW {
                return None;
            }
            names.push(entry.ok()?.file_name());
        }
        Some(names)
    }

    fn is_program(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    }

    fn needed(&self, program: &Path) -> Vec<(PathBuf, Use)> {
        let needed = sbx_platform::elf::closure(program).unwrap_or_default();
        let usage = |role| if role == Role::Executed { Use::Executed } else { Use::Loaded };
        needed.into_iter().map(|needed| (needed.file, usage(needed.role))).collect()
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}

/// The machine as it is, with a caller's environment in place of this process's own.
#[derive(Clone, Debug, Default)]
pub struct LiveFor {
    /// The caller's variables.
    pub variables: std::collections::BTreeMap<String, OsString>,
}

impl Host for LiveFor {
    fn kind(&self, path: &Path) -> Option<Kind> {
        Live.kind(path)
    }

    fn real(&self, path: &Path) -> Option<PathBuf> {
        Live.real(path)
    }

    fn names(&self, directory: &Path) -> Vec<OsString> {
        Live.names(directory)
    }

    fn few_names(&self, directory: &Path) -> Option<Vec<OsString>> {
        Live.few_names(directory)
    }

    fn is_program(&self, path: &Path) -> bool {
        Live.is_program(path)
    }

    fn needed(&self, program: &Path) -> Vec<(PathBuf, Use)> {
        Live.needed(program)
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).cloned()
    }
}
