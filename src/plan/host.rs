//! What a plan must know of the machine.

use crate::profile::System;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// Anything that is neither a directory nor a link.
    File,
    /// A symbolic link, and what it says.
    Link(PathBuf),
}

/// How a program uses a file it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is executed: the program, its loader, its interpreter.
    Executed,
    /// It is loaded: a library.
    Loaded,
}

/// Questions about the machine's files, answered without changing anything.
pub trait Host {
    /// Which system it is.
    fn system(&self) -> System {
        System::here()
    }
    /// What stands at a path, links not followed.
    fn kind(&self, path: &Path) -> Option<Kind>;
    /// Where a path leads, every link followed; none when nothing is there.
    fn real(&self, path: &Path) -> Option<PathBuf>;
    /// The names in a directory.
    fn names(&self, directory: &Path) -> Vec<OsString>;
    /// The names in a directory if they are few enough to be looked through, else none.
    fn few_names(&self, _directory: &Path) -> Option<Vec<OsString>> {
        None
    }
    /// What a small regular file says; none when it is anything else.
    fn text(&self, _path: &Path) -> Option<String> {
        None
    }
    /// Whether a file may be executed.
    fn is_program(&self, path: &Path) -> bool;
    /// Everything a program needs, itself included: files that are executed, and libraries that are loaded.
    fn needed(&self, program: &Path) -> Vec<(PathBuf, Use)>;
    /// Why what a program needs cannot be listed, where that is so.
    fn lacks(&self, _program: &Path) -> Option<String> {
        None
    }
    /// The same, each with the name by which it is looked for, which may be a link to it.
    fn named_parts(&self, program: &Path) -> Vec<(PathBuf, PathBuf, Use)> {
        self.needed(program).into_iter().map(|(file, usage)| (file.clone(), file, usage)).collect()
    }
    /// The file of the running program itself, links followed.
    fn own_program(&self) -> Option<PathBuf> {
        None
    }
    /// A variable of the caller's environment.
    fn variable(&self, name: &str) -> Option<OsString>;
}
