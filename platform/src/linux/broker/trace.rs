//! What is asked for, told to the supervisor.
//!
//! Answers for naming files as the command named them, each once. It decides nothing and changes nothing: what
//! is told here is for explaining a refusal afterwards.
//! Invariant: a bounded number of messages, and none that waits.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::caller::Caller;
use super::listener::Call;
use super::resolve::Resolver;
use crate::linux::message::Message;
use crate::linux::sys::socket;
use crate::report::{Act, Verb};

/// Files that are told of at most when someone listens all the time.
const MOST: usize = 4096;
/// How many of a kind are told of at most when they are only read at the end: they must fit into the line.
const FEW: usize = 64;

/// Tells of files.
#[derive(Debug)]
pub(crate) struct Trace<'k> {
    line: BorrowedFd<'k>,
    /// Whether everything is told, or refusals only.
    all: bool,
    told: HashSet<Act>,
}

impl<'k> Trace<'k> {
    pub(crate) fn new(line: BorrowedFd<'k>, all: bool) -> Self {
        Self { line, all, told: HashSet::new() }
    }

    /// Tells that `call` asks for something, or was refused it.
    pub(super) fn note(&mut self, call: &Call, caller: &Caller<'_>, resolver: &Resolver, verb: Verb) {
        for (dirfd, name) in names(call) {
            let Some(path) = asked(caller, resolver, dirfd, name) else { continue };
            let act = Act { verb, path };
            let alike = self.told.iter().filter(|told| told.verb == verb).count();
            let most = if self.all { MOST } else { FEW };
            if alike < most && self.told.insert(act.clone()) {
                let _ = socket::send(self.line, &Message::Asked(act).encode(), None);
            }
        }
    }
}

/// What a call does to the names it is given.
pub(super) fn verb(call: &Call) -> Verb {
    match call.name() {
        "unlink" | "unlinkat" | "rmdir" | "rename" | "renameat" | "renameat2" => Verb::Remove,
        _ => Verb::Write,
    }
}

/// The directories and addresses of a call's names.
fn names(call: &Call) -> Vec<(i32, u64)> {
    let a = |index: usize| call.argument(index);
    let here = libc::AT_FDCWD;
    match call.name() {
        "openat" | "mkdirat" | "mknodat" | "unlinkat" => vec![(a(0) as i32, a(1))],
        "symlink" => vec![(here, a(1))],
        "symlinkat" => vec![(a(1) as i32, a(2))],
        "link" => vec![(here, a(1))],
        "linkat" => vec![(a(2) as i32, a(3))],
        "renameat" | "renameat2" => vec![(a(0) as i32, a(1))],
        "fchmodat" | "fchmodat2" => vec![(a(0) as i32, a(1))],
        "umask" | "fchmod" => Vec::new(),
        _ => vec![(here, a(0))],
    }
}

/// A name, made absolute as it stands: what is hidden cannot be resolved from inside.
fn asked(caller: &Caller<'_>, resolver: &Resolver, dirfd: i32, name: u64) -> Option<PathBuf> {
    let name = caller.name(name).ok()?;
    let name = Path::new(OsStr::from_bytes(name.to_bytes()));
    if name.is_absolute() {
        return Some(crate::path::normalize(name));
    }
    let start = caller.start(resolver.proc(), dirfd).ok()?;
    Some(crate::path::normalize(&resolver.path_of(&start).ok()?.join(name)))
}
