//! Which programs can run: all of the system's, or only those the record lists.

use super::host::{Host, Use};
use super::lower::LowerError;
use super::places::Places;
use crate::capability::{Capability, CommandPattern, Token};
use crate::policy::{Command, PlacedScope, Policy};
use crate::profile::{HelperKind, System, helpers};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Where programs are looked up unless the record passes the caller's PATH in.
#[must_use]
pub const fn usual_path(system: System) -> &'static str {
    match system {
        System::Linux => "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        System::MacOs => "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    }
}

/// The most programs that one pattern may fit: each is shown by itself, with the libraries it needs.
const MOST_FITTING: usize = 256;

/// The files that listed programs are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// Programs, loaders, interpreters.
    pub(super) executed: BTreeSet<PathBuf>,
    /// Libraries, and directories of them.
    pub(super) loaded: BTreeSet<PathBuf>,
    /// Listed programs that cannot be run, and why.
    pub(super) broken: Vec<String>,
}

impl Parts {
    fn add_program(&mut self, program: &Path, host: &dyn Host) {
        let needed = host.needed(program);
        if needed.is_empty()
            && let Some(why) = host.lacks(program)
        {
            self.broken.push(format!("{} is listed and cannot be run: {why}", program.display()));
        }
        for (file, usage) in needed {
            match usage {
                Use::Executed => self.executed.insert(file),
                Use::Loaded => self.loaded.insert(file),
            };
        }
    }
}

/// Which programs a launch may execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Programs {
    /// Every program in view.
    Any,
    /// These files.
    Listed(Parts),
}

impl Programs {
    /// Files that are shown for what is listed.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        let parts = match self {
            Self::Any => None,
            Self::Listed(parts) => Some(parts),
        };
        let both = parts.into_iter().flat_map(|parts| parts.executed.iter().chain(&parts.loaded));
        both.map(PathBuf::as_path)
    }

    /// Adds a program that a listed command comes to.
    pub(super) fn add(&mut self, program: &Path, host: &dyn Host) {
        match self {
            Self::Any => {}
            Self::Listed(parts) => parts.add_program(program, host),
        }
    }

    /// What the agent's grants let a process in `cwd` execute.
    ///
    /// # Errors
    /// When a pattern fits more programs than can be listed one by one.
    pub(super) fn of(
        policy: &Policy,
        cwd: &Path,
        search: &OsStr,
        host: &dyn Host,
    ) -> Result<Self, LowerError> {
        let here = |capability| policy.held(capability).filter(|grant| grant.allows_cwd(Some(cwd)));
        let open = here(Capability::ProcExec).any(|grant| grant.is_open_exec())
            || here(Capability::ProcEval).next().is_some();
        if open {
            return Ok(Self::Any);
        }
        let net = [Capability::NetGet, Capability::NetPost, Capability::NetPut, Capability::NetDelete];
        let reaches = net.into_iter().any(|verb| policy.held(verb).next().is_some());
        let mut parts = Parts::default();
        for grant in here(Capability::ProcExec) {
            let PlacedScope::Exec { cmds, patterns } = &grant.scope else { continue };
            for command in cmds.iter().flatten() {
                match command {
                    Command::Name(name) => add_name(&mut parts, name, search, reaches, host),
                    Command::File(file) => add_file(&mut parts, file, search, reaches, host),
                }
            }
            for (file, pattern) in patterns.iter().flatten() {
                match (file, pattern.program()) {
                    (Some(file), _) => add_file(&mut parts, file, search, reaches, host),
                    (None, Some(Token::Literal(name))) => add_name(&mut parts, name, search, reaches, host),
                    (None, Some(Token::Glob(_))) => {
                        for name in fitting(pattern, search, host)? {
                            add_name(&mut parts, &name, search, reaches, host);
                        }
                    }
                    // A pattern for any program leaves nothing to list.
                    (None, None) => return Ok(Self::Any),
                }
            }
        }
        Ok(Self::Listed(parts))
    }
}

/// Where programs that the record lists are looked for, wherever their grants hold; some may not be there.
pub(super) fn listed(policy: &Policy, places: &Places, host: &dyn Host) -> Vec<PathBuf> {
    let search = trusted_path(policy, places, host);
    let found = |name: &str| find(OsStr::new(name), &search, host);
    let mut all = policy.listed_programs().to_vec();
    for grant in policy.held(Capability::ProcExec) {
        let PlacedScope::Exec { cmds, patterns } = &grant.scope else { continue };
        for command in cmds.iter().flatten() {
            if let Command::Name(name) = command {
                all.extend(found(name));
            }
        }
        for (file, pattern) in patterns.iter().flatten() {
            match (file, pattern.program()) {
                (None, Some(Token::Literal(name))) => all.extend(found(name)),
                (None, Some(Token::Glob(_))) => {
                    let names = fitting(pattern, &search, host).unwrap_or_default();
                    all.extend(names.iter().filter_map(|name| found(name)));
                }
                (Some(_), _) | (None, None) => {}
            }
        }
    }
    all
}

/// The names on the search path that a pattern fits. A name that is no text is none that could be asked for.
fn fitting(
    pattern: &CommandPattern,
    search: &OsStr,
    host: &dyn Host,
) -> Result<BTreeSet<String>, LowerError> {
    let dirs = std::env::split_paths(search).filter(|dir| dir.is_absolute());
    let names = dirs.flat_map(|dir| host.names(&dir)).filter_map(|name| name.into_string().ok());
    let found: BTreeSet<String> = names.filter(|name| pattern.matches_program(name.as_bytes())).collect();
    if found.len() > MOST_FITTING {
        return Err(LowerError::TooManyPrograms { pattern: pattern.to_string(), found: found.len() });
    }
    Ok(found)
}

fn add_name(parts: &mut Parts, name: &str, search: &OsStr, reaches: bool, host: &dyn Host) {
    let Some(file) = find(OsStr::new(name), search, host) else { return };
    parts.add_program(&file, host);
    add_helpers(parts, name, reaches, host);
}

/// A program by its file: where programs are looked for by name, it is what its name says and needs the same.
fn add_file(parts: &mut Parts, file: &Path, search: &OsStr, reaches: bool, host: &dyn Host) {
    parts.add_program(file, host);
    let usual = std::env::split_paths(search).any(|dir| Some(dir.as_path()) == file.parent());
    if let Some(name) = file.file_name().and_then(OsStr::to_str).filter(|_| usual) {
        add_helpers(parts, name, reaches, host);
    }
}

fn add_helpers(parts: &mut Parts, name: &str, reaches: bool, host: &dyn Host) {
    for helper in helpers(name) {
        match helper.kind {
            HelperKind::Net if !reaches => {}
            // Most are of another distribution.
            HelperKind::Exec | HelperKind::Net if !host.is_program(Path::new(helper.path)) => {}
            HelperKind::Exec | HelperKind::Net => parts.add_program(Path::new(helper.path), host),
            HelperKind::Code => parts.loaded.extend(host.real(Path::new(helper.path))),
        }
    }
}

/// Finds a program by name; only absolute directories are searched.
pub(super) fn find(name: &OsStr, search: &OsStr, host: &dyn Host) -> Option<PathBuf> {
    std::env::split_paths(search)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| host.is_program(file))
}

/// The file that the first word of a command means where it is launched.
#[must_use]
pub fn program_of(policy: &Policy, name: &OsStr, cwd: &Path, host: &dyn Host) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        let file = sbx_platform::path::normalize(&cwd.join(name));
        return Some(file).filter(|file| host.is_program(file));
    }
    let places = Places::of(policy, host).ok()?;
    find(name, &trusted_path(policy, &places, host), host)
}

/// The path that is searched, without directories where the agent could put a program of its own under a name that is
/// listed.
pub(super) fn trusted_path(policy: &Policy, places: &Places, host: &dyn Host) -> OsString {
    let search = search_path(policy, host);
    if !policy.runs_only_listed() {
        return search;
    }
    let writable = |dir: &PathBuf| {
        places.is_writable(dir) || host.real(dir).is_some_and(|real| places.is_writable(&real))
    };
    let dirs: Vec<PathBuf> = std::env::split_paths(&search).filter(|dir| !writable(dir)).collect();
    std::env::join_paths(dirs).unwrap_or(search)
}

/// The PATH that programs are looked up on: sbx's own, or the caller's where the record names it.
#[must_use]
pub fn search_path(policy: &Policy, host: &dyn Host) -> OsString {
    let passed = policy.sections().env.iter().any(|rule| rule.name == "PATH" && rule.inject.is_none());
    let callers = host.variable("PATH").filter(|_| passed);
    let absolute = callers.and_then(|path| {
        let dirs: Vec<PathBuf> = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
        std::env::join_paths(dirs).ok()
    });
    absolute.unwrap_or_else(|| usual_path(host.system()).into())
}
