//! The machine as it is, for [`plan`](crate::plan).

use crate::manifest::read_bounded;
use crate::plan::{Host, Kind, Use};
use crate::profile::System;
use sbx_platform::elf::Role;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The most names that are read sooner than some forty are looked up one by one.
const FEW: usize = 128;

/// The longest text that is read to know where it leads.
const MOST_TEXT: usize = 64 << 10;

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
        sbx_platform::path::real(path).ok()
    }

    fn names(&self, directory: &Path) -> Vec<OsString> {
        let mut names = Vec::new();
        // What was read before an error counts.
        let _ = sbx_platform::walk::names(directory, |name| {
            names.push(name);
            true
        });
        names
    }

    fn few_names(&self, directory: &Path) -> Option<Vec<OsString>> {
        let mut names = Vec::new();
        let listed = sbx_platform::walk::names(directory, |name| {
            names.push(name);
            names.len() <= FEW
        });
        listed.ok().filter(|()| names.len() <= FEW)?;
        Some(names)
    }

    fn text(&self, path: &Path) -> Option<String> {
        read_bounded(path, MOST_TEXT).ok().map(|source| source.text().to_owned())
    }

    fn is_program(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    }

    fn needed(&self, program: &Path) -> Vec<(PathBuf, Use)> {
        let needed = sbx_platform::elf::closure(program).unwrap_or_default();
        if needed.is_empty() && self.system() == System::MacOs {
            return started(program);
        }
        needed.into_iter().map(|needed| (needed.file, usage(needed.role))).collect()
    }

    fn lacks(&self, program: &Path) -> Option<String> {
        sbx_platform::elf::closure(program).err().map(|error| error.to_string())
    }

    fn named_parts(&self, program: &Path) -> Vec<(PathBuf, PathBuf, Use)> {
        let needed = sbx_platform::elf::closure(program).unwrap_or_default();
        if needed.is_empty() {
            return self
                .needed(program)
                .into_iter()
                .map(|(file, usage)| (file.clone(), file, usage))
                .collect();
        }
        needed.into_iter().map(|needed| (needed.path, needed.file, usage(needed.role))).collect()
    }

    fn own_program(&self) -> Option<PathBuf> {
        std::env::current_exe().ok().and_then(|program| self.real(&program))
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}

fn usage(role: Role) -> Use {
    if role == Role::Executed { Use::Executed } else { Use::Loaded }
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

    fn text(&self, path: &Path) -> Option<String> {
        Live.text(path)
    }

    fn is_program(&self, path: &Path) -> bool {
        Live.is_program(path)
    }

    fn needed(&self, program: &Path) -> Vec<(PathBuf, Use)> {
        Live.needed(program)
    }

    fn lacks(&self, program: &Path) -> Option<String> {
        Live.lacks(program)
    }

    fn own_program(&self) -> Option<PathBuf> {
        Live.own_program()
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).cloned()
    }
}

/// What is executed where libraries need no listing: the program, and the interpreters of a script.
fn started(program: &Path) -> Vec<(PathBuf, Use)> {
    const CHAIN: usize = 4;
    let mut found = Vec::new();
    let mut next = std::fs::canonicalize(program).ok();
    while let Some(file) = next.take().filter(|_| found.len() < CHAIN) {
        next = interpreter(&file).and_then(|own| std::fs::canonicalize(own).ok());
        found.push((file, Use::Executed));
    }
    found
}

/// The program that a script names in its first line.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut head = [0; 256];
    let read = std::io::Read::read(&mut std::fs::File::open(file).ok()?, &mut head).ok()?;
    let line = head[..read].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.trim_ascii().split(|byte| byte.is_ascii_whitespace()).next()?;
    std::str::from_utf8(word).ok().filter(|word| word.starts_with('/')).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_needs_its_interpreter() {
        let dir = std::env::temp_dir().join(format!("sbx-script-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let script = dir.join("s");
        std::fs::write(&script, "#! /bin/sh -e\nexit\n").unwrap();
        let files: Vec<PathBuf> = started(&script).into_iter().map(|(file, _)| file).collect();
        assert_eq!(files[1..], [std::fs::canonicalize("/bin/sh").unwrap()]);
        std::fs::write(&script, "#!relative\n").unwrap();
        assert_eq!(started(&script).len(), 1);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
