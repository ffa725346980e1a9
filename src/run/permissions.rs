//! What the permissions of files say to this user, who has no privileges behind a fence.
//!
//! Answers for telling a refusal of the file system from one of the record: root is not the owner of what belongs to
//! others, once it has no capabilities. It leaves what is granted to `decide`.
//! Invariant: nothing is said where it is not known to which groups this process belongs.

use crate::capability::Capability;
use crate::decide::{Permit, Request, decide};
use sbx_platform::path::resolve;
use sbx_platform::report::{Act, Verb};
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const READ: u32 = 4;
const WRITE: u32 = 2;
const ENTER: u32 = 1;
const STICKY: u32 = 0o1000;

/// A file or directory whose permissions are in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Barred {
    path: PathBuf,
    owner: u32,
    mode: u32,
}

impl fmt::Display for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, owner, mode } = self;
        write!(
            f,
            "the permissions of the file system are in the way, not the record: {} belongs to user {owner}, mode {mode:o}",
            path.display()
        )?;
        if sbx_platform::ids().0 == 0 {
            f.write_str(", and root has no privileges behind a fence; run sbx as that user")?;
        }
        Ok(())
    }
}

/// Whose this process is, as the kernel asks without privileges.
struct User {
    id: u32,
    groups: Vec<u32>,
}

impl User {
    fn own() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"))?;
        let (id, group) = sbx_platform::ids();
        let groups = groups.split_whitespace().filter_map(|number| number.parse().ok());
        Some(Self { id, groups: groups.chain([group]).collect() })
    }

    fn may(&self, found: &Metadata, wanted: u32) -> bool {
        let shift = if found.uid() == self.id {
            6
        } else if self.groups.contains(&found.gid()) {
            3
        } else {
            0
        };
        found.mode() >> shift & wanted == wanted
    }
}

/// What bars this user from a path, if its permissions do.
pub(super) fn barred(capability: Capability, path: &Path) -> Option<Barred> {
    let user = User::own()?;
    let bars = |path: &Path, wanted: u32| {
        let found = fs::metadata(path).ok().filter(|found| !user.may(found, wanted))?;
        Some(Barred { path: path.to_path_buf(), owner: found.uid(), mode: found.mode() & 0o7777 })
    };
    let above: Vec<&Path> = path.ancestors().skip(1).collect();
    let on_the_way = above.iter().rev().find_map(|dir| bars(dir, ENTER));
    let parent = || bars(above.first()?, WRITE | ENTER);
    on_the_way.or_else(|| match capability {
        Capability::FsRead => bars(path, READ),
        Capability::FsWrite if path.exists() => bars(path, WRITE),
        Capability::FsWrite => parent(),
        Capability::FsDelete => parent().or_else(|| stuck(&user, path, above.first()?)),
        _ => None,
    })
}

/// A directory in which everybody takes away only what is their own.
fn stuck(user: &User, path: &Path, dir: &Path) -> Option<Barred> {
    let (found, around) = (fs::symlink_metadata(path).ok()?, fs::metadata(dir).ok()?);
    let bars = around.mode() & STICKY != 0 && found.uid() != user.id && around.uid() != user.id;
    bars.then(|| Barred { path: path.to_path_buf(), owner: found.uid(), mode: found.mode() & 0o7777 })
}

/// What is worth telling root of a command that failed: the first change that is granted and was refused for its
/// permissions. Others meet the same without a fence.
#[must_use]
pub fn barred_root(permit: &Permit<'_>, acts: &[Act]) -> Option<String> {
    let root = sbx_platform::ids().0 == 0;
    acts.iter().filter(|act| root && act.is_refused()).find_map(|act| {
        let capability = match act.verb {
            Verb::Write => Capability::FsWrite,
            Verb::Remove => Capability::FsDelete,
            _ => return None,
        };
        let target = resolve(&act.path).ok()?;
        let request = Request::resolved_path(capability, act.path.clone(), target.clone());
        let granted = decide(permit.policy(), &request).is_allowed();
        granted.then(|| barred(capability, &target)).flatten().map(|barred| barred.to_string())
    })
}
