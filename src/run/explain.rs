//! Why a fenced command failed: what it asked for that its record does not grant.

use crate::capability::Capability;
use crate::decide::{Denial, Permit, Request, decide};
use crate::profile::system_view;
use sbx_platform::path::{resolve, within};
use sbx_platform::report::{Act, Verb};
use std::path::Path;

/// The most denials that are told; the first ones are usually the cause of the rest.
const MOST: usize = 20;
/// Private inside, whatever stands there outside.
const SCRATCH: &[&str] = &["/tmp", "/proc", "/dev", "/run", "/home/sbx"];
/// Files of the system that a process sees in a version of its own.
pub(super) const MADE: &[&str] =
    &["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];

/// What was asked for and is not granted, each once, in the order it was asked.
#[must_use]
pub fn refused(permit: &Permit<'_>, acts: &[Act]) -> Vec<Denial> {
    let mut denials: Vec<Denial> = Vec::new();
    for act in acts.iter().filter(|act| !is_scratch(permit, &act.path)) {
        let Some(denial) = judge(permit, act) else { continue };
        if denials.len() < MOST && !denials.iter().any(|seen| seen.message == denial.message) {
            denials.push(denial);
        }
    }
    denials
}

fn judge(permit: &Permit<'_>, act: &Act) -> Option<Denial> {
    let capability = match act.verb {
        Verb::Read => Capability::FsRead,
        Verb::Write => Capability::FsWrite,
        Verb::Remove => Capability::FsDelete,
        Verb::Made => return None,
    };
    let target = resolve(&act.path).unwrap_or_else(|_| act.path.clone());
    // Programs look for many files that do not exist; only what is there was hidden from them.
    let seen = is_in_view(permit, &act.path) || is_in_view(permit, &target);
    if act.verb == Verb::Read && (seen || std::fs::symlink_metadata(&target).is_err()) {
        return None;
    }
    let request = Request::resolved_path(capability, act.path.clone(), target);
    decide(permit.policy(), &request).denial().cloned()
}

/// Whether a path is part of the process view beside the agent's own grants.
fn is_in_view(permit: &Permit<'_>, path: &Path) -> bool {
    let in_root = permit.grant().root.as_deref().is_some_and(|root| within(path, root));
    let made = MADE.iter().any(|file| path == Path::new(file));
    in_root || made || system_view().any(|(place, _)| within(path, Path::new(place)))
}

/// Scratch is the process's own; a granted place that lies there is not.
fn is_scratch(permit: &Permit<'_>, path: &Path) -> bool {
    let granted = permit.policy().grants().iter().filter_map(|grant| grant.root.as_deref());
    SCRATCH.iter().any(|scratch| within(path, Path::new(scratch)))
        && !granted.into_iter().any(|root| within(path, root))
}
