//! What a fenced process sees of the system, and what single commands need beside it.

use std::sync::LazyLock;

/// What a path of the system view holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemKind {
    /// Programs and libraries.
    Code,
    /// Never executable.
    Data,
}

/// The system view, read from `profiles/base/linux.txt`.
pub static SYSTEM_VIEW: LazyLock<Vec<(&'static str, SystemKind)>> = LazyLock::new(|| {
    rows(include_str!("../../profiles/base/linux.txt"))
        .filter_map(|mut cells| {
            let path = cells.next()?;
            let kind = if cells.next()? == "code" { SystemKind::Code } else { SystemKind::Data };
            Some((path, kind))
        })
        .collect()
});

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

/// The helpers of commands, read from `profiles/commands/helpers.txt`.
pub static HELPERS: LazyLock<Vec<Helper>> = LazyLock::new(|| {
    rows(include_str!("../../profiles/commands/helpers.txt"))
        .filter_map(|mut cells| {
            let command = cells.next()?;
            let kind = if cells.next()? == "exec" { HelperKind::Exec } else { HelperKind::Code };
            Some(Helper { command, kind, path: cells.next()? })
        })
        .collect()
});

/// Settings of git that run nothing, read from `profiles/base/inert-git-keys.txt`.
pub static INERT_GIT_KEYS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    rows(include_str!("../../profiles/base/inert-git-keys.txt"))
        .filter_map(|mut cells| cells.next())
        .collect()
});

/// How bubblewrap is installed on each distribution, read from `profiles/doctor/install.txt`.
pub static INSTALL: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    rows(include_str!("../../profiles/doctor/install.txt"))
        .filter_map(|mut cells| Some((cells.next()?, cells.next()?)))
        .collect()
});

/// The cells of each line that is not a comment.
pub(super) fn rows(text: &'static str) -> impl Iterator<Item = impl Iterator<Item = &'static str>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split('|').map(str::trim))
}
