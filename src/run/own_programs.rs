//! The user's own programs, which are run outside the fence: found only where no agent could have put another.
//!
//! Invariant: nothing is found in a place the record may write, in the project or in the working directory, nor
//! through a link that lies in one; and what [`OwnPrograms::command`] makes neither stands in such a place nor is told of
//! one by a variable.

use super::live::Live;
use crate::plan::{Host, LowerError, Opened, opened};
use crate::policy::Policy;
use sbx_platform::path::{follow, within};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the user's own programs are.
#[derive(Clone, Debug, Default)]
pub struct OwnPrograms {
    /// What the record opens.
    pub opened: Opened,
    shunned: Vec<PathBuf>,
    path: OsString,
    left_out: Vec<PathBuf>,
}

impl OwnPrograms {
    /// The caller's search path, without what an agent may have written to.
    ///
    /// # Errors
    /// When it cannot be told what the record opens.
    pub fn of(policy: &Policy, cwd: &Path) -> Result<Self, LowerError> {
        let (facts, opened) = (policy.facts(), opened(policy, &Live)?);
        let mut shunned: Vec<PathBuf> = opened.writable().map(Path::to_path_buf).collect();
        // A client may start its servers in the home or above it, which says nothing about what lies there.
        let near = facts.project.iter().map(PathBuf::as_path).chain([cwd, &facts.cwd]);
        let near = near.filter_map(|dir| Live.real(dir)).filter(|dir| !within(&facts.home, dir));
        shunned.extend(near);
        let mut own = Self { opened, shunned, ..Self::default() };
        let given = std::env::var_os("PATH").unwrap_or_default();
        let (kept, left_out): (Vec<PathBuf>, Vec<PathBuf>) =
            std::env::split_paths(&given).partition(|dir| dir.is_absolute() && own.is_own(dir));
        own.path = std::env::join_paths(kept).unwrap_or_default();
        own.left_out = left_out;
        Ok(own)
    }

    /// The search path that is left.
    #[must_use]
    pub fn path(&self) -> &OsStr {
        &self.path
    }

    /// A program of the user's.
    #[must_use]
    pub fn find(&self, name: &OsStr) -> Option<PathBuf> {
        let files = std::env::split_paths(&self.path).map(|dir| dir.join(name));
        files.filter(|file| Live.is_program(file)).find(|file| self.is_own(file))
    }

    /// A command of the user's: at the root of the file system, because many a program looks for parts of itself where
    /// it stands, and without variables that lead it to where an agent may have put something.
    #[must_use]
    pub fn command(&self, file: &Path) -> Command {
        let mut command = Command::new(file);
        command.current_dir("/").env("PATH", &self.path);
        for (name, value) in std::env::vars_os().filter(|(name, _)| name != "PATH") {
            if self.leads_astray(&value) {
                command.env_remove(name);
            }
        }
        command
    }

    /// Whether a variable names a path, alone or among others, that is not the user's own.
    fn leads_astray(&self, value: &OsStr) -> bool {
        let named = value.as_bytes().split(|byte| b":;,= \t\n\"'".contains(byte));
        let mut paths =
            named.filter(|part| part.starts_with(b"/")).map(|part| Path::new(OsStr::from_bytes(part)));
        paths.any(|path| !self.is_own(path))
    }

    /// Where nothing was looked for, for messages; empty when everything was looked through.
    #[must_use]
    pub fn left_out(&self) -> String {
        let dirs: Vec<String> = self.left_out.iter().map(|dir| dir.display().to_string()).collect();
        if dirs.is_empty() {
            return String::new();
        }
        format!(" (not looked for in {}, where an agent could put another)", dirs.join(", "))
    }

    /// Whether neither a file nor a link on the way to it lies where an agent may have put it.
    #[must_use]
    pub fn is_own(&self, path: &Path) -> bool {
        Self::steps(path, |step| self.shunned.iter().any(|place| within(step, place))) == Some(false)
    }

    /// Whether a file or a link on the way to it lies in what the record opens.
    #[must_use]
    pub fn is_opened(&self, path: &Path) -> bool {
        Self::steps(path, |step| self.opened.holds(step)) != Some(false)
    }

    /// Whether a file or a link on the way to it lies in what the record may write.
    #[must_use]
    pub fn is_written(&self, path: &Path) -> bool {
        Self::steps(path, |step| self.opened.writable().any(|place| within(step, place))) == Some(true)
    }

    fn steps(path: &Path, lies: impl Fn(&Path) -> bool) -> Option<bool> {
        let (links, end) = follow(path).ok()?;
        Some(links.iter().chain([&end]).any(|step| lies(step)))
    }
}
