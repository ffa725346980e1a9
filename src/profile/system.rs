//! What a fenced process sees of the system, and what single commands need beside it.

use super::table::{count, rows};

/// What a path of the system view holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemKind {
    /// Programs and libraries.
    Code,
    /// Never executable.
    Data,
}

const VIEW: &str = include_str!("../../profiles/base/linux.txt");
static VIEW_ROWS: [[&str; 2]; count(VIEW)] = rows(VIEW);

/// The system view, from `profiles/base/linux.txt`.
pub fn system_view() -> impl Iterator<Item = (&'static str, SystemKind)> {
    VIEW_ROWS
        .iter()
        .map(|[path, kind]| (*path, if *kind == "code" { SystemKind::Code } else { SystemKind::Data }))
}

/// What a command needs beside its own file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Helper {
    /// Which command.
    pub command: &'static str,
    /// A program to execute, or libraries to load.
    pub kind: HelperKind,
    /// Where it is.
    pub path: &'static str,
}

/// How a command uses a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperKind {
    /// It is executed.
    Exec,
    /// It is loaded.
    Code,
}

const HELPERS: &str = include_str!("../../profiles/commands/helpers.txt");
static HELPER_ROWS: [[&str; 3]; count(HELPERS)] = rows(HELPERS);

/// The helpers of a command, from `profiles/commands/helpers.txt`.
pub fn helpers(of: &str) -> impl Iterator<Item = Helper> {
    HELPER_ROWS.iter().filter(move |[command, ..]| *command == of).map(|[command, kind, path]| {
        let kind = if *kind == "exec" { HelperKind::Exec } else { HelperKind::Code };
        Helper { command, kind, path }
    })
}

const INSTALL: &str = include_str!("../../profiles/doctor/install.txt");
static INSTALL_ROWS: [[&str; 2]; count(INSTALL)] = rows(INSTALL);

/// How bubblewrap is installed on a distribution, from `profiles/doctor/install.txt`.
#[must_use]
pub fn install(distribution: &str) -> Option<&'static str> {
    INSTALL_ROWS.iter().find(|[id, _]| *id == distribution).map(|[_, command]| *command)
}

const GIT_KEYS: &str = include_str!("../../profiles/base/inert-git-keys.txt");
static GIT_KEY_ROWS: [[&str; 1]; count(GIT_KEYS)] = rows(GIT_KEYS);

/// Settings of git that run nothing, from `profiles/base/inert-git-keys.txt`.
pub fn inert_git_keys() -> impl Iterator<Item = &'static str> {
    GIT_KEY_ROWS.iter().map(|[key]| *key)
}
