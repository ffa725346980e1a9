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

/// A system that commands are run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// A view of its own is built from nothing.
    Linux,
    /// Everything is seen where it stands.
    MacOs,
}

impl System {
    /// The one this program was built for; systems without a backend are taken for Linux.
    #[must_use]
    pub const fn here() -> Self {
        if cfg!(target_os = "macos") { Self::MacOs } else { Self::Linux }
    }
}

const LINUX: &str = include_str!("../../profiles/base/linux.txt");
static LINUX_ROWS: [[&str; 2]; count(LINUX)] = rows(LINUX);
const MACOS: &str = include_str!("../../profiles/base/macos.txt");
static MACOS_ROWS: [[&str; 2]; count(MACOS)] = rows(MACOS);

/// What a process sees of the system this program was built for.
pub fn system_view() -> impl Iterator<Item = (&'static str, SystemKind)> {
    view_of(System::here())
}

/// What a process sees of a system, from `profiles/base/`.
pub fn view_of(system: System) -> impl Iterator<Item = (&'static str, SystemKind)> {
    let rows: &'static [[&str; 2]] = match system {
        System::Linux => &LINUX_ROWS,
        System::MacOs => &MACOS_ROWS,
    };
    rows.iter().map(|[path, kind]| (*path, if *kind == "code" { SystemKind::Code } else { SystemKind::Data }))
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
    /// It is executed to reach a host.
    Net,
    /// It is loaded.
    Code,
}

const HELPERS: &str = include_str!("../../profiles/commands/helpers.txt");
static HELPER_ROWS: [[&str; 3]; count(HELPERS)] = rows(HELPERS);

/// The helpers of a command, from `profiles/commands/helpers.txt`.
pub fn helpers(of: &str) -> impl Iterator<Item = Helper> {
    HELPER_ROWS.iter().filter(move |[command, ..]| *command == of).map(|[command, kind, path]| {
        let kind = match *kind {
            "exec" => HelperKind::Exec,
            "net" => HelperKind::Net,
            _ => HelperKind::Code,
        };
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
