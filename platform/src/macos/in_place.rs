//! A plan in terms of the host's own paths, for systems without a view of their own.
//!
//! Answers for what stands where: binds stand where they come from, private file systems where a directory was
//! made for them, and an empty place laid over a shown one hides it. It leaves holding that to the profile.
//! Invariant: a path gets rights only through something the plan shows.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::path::within;
use crate::plan::{Code, MountOp, Place, Plan, Rights};

/// A path inside, and what stands for it on the host, if anything does.
type Shown = (PathBuf, Option<PathBuf>);

/// What a plan comes to on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InPlace {
    /// What may be done where, outside private directories.
    pub(super) places: Vec<Place>,
    /// What may be done in private directories.
    pub(super) private: Vec<Place>,
    /// Where code may be loaded from.
    pub(super) code: Vec<PathBuf>,
    /// Shown places that are hidden after all.
    pub(super) hidden: Vec<PathBuf>,
    /// Links that can be seen, but need not lead anywhere.
    pub(super) links: Vec<PathBuf>,
}

/// The plan in host terms; `scratch` says what stands for its private file systems.
pub(super) fn in_place(plan: &Plan, scratch: &[(PathBuf, PathBuf)]) -> InPlace {
    let mut found = InPlace::default();
    let shown = shown(plan, scratch);
    for op in &plan.mounts {
        match op {
            MountOp::Bind { source, code: Code::Allowed, .. } => found.code.push(source.clone()),
            MountOp::Tmpfs { dest, code, .. } => match stand_in(dest, &shown) {
                Some(Some(own)) if is_scratch(dest, scratch) => {
                    found.code.extend((*code == Code::Allowed).then_some(own));
                }
                _ => found.hidden.push(dest.clone()),
            },
            MountOp::Symlink { dest, .. } => found.links.push(dest.clone()),
            MountOp::Bind { code: Code::Refused, .. }
            | MountOp::Dir { .. }
            | MountOp::File { .. }
            | MountOp::Proc { .. }
            | MountOp::Dev { .. } => {}
        }
    }
    for place in &plan.rights {
        for host in on_host(place, &shown) {
            let private = scratch.iter().any(|(_, own)| within(&host.path, own));
            if private { &mut found.private } else { &mut found.places }.push(host);
        }
    }
    found
}

/// The variables of a plan, each path of a private file system being where its directory is.
pub(super) fn environment(plan: &Plan, scratch: &[(PathBuf, PathBuf)]) -> Vec<(OsString, OsString)> {
    let shown = shown(plan, scratch);
    let redirect = |value: &OsStr| {
        let path = Path::new(value);
        let own = path.is_absolute().then(|| stand_in(path, &shown)).flatten().flatten();
        own.map_or_else(|| value.to_owned(), PathBuf::into_os_string)
    };
    plan.env.iter().map(|(name, value)| (name.clone(), redirect(value))).collect()
}

/// The private file systems that need a directory to stand for them: those not laid over a shown place.
pub(super) fn wanted(plan: &Plan) -> Vec<PathBuf> {
    let binds = || {
        plan.mounts.iter().filter_map(|op| match op {
            MountOp::Bind { dest, .. } => Some(dest),
            MountOp::Tmpfs { .. }
            | MountOp::Dir { .. }
            | MountOp::Symlink { .. }
            | MountOp::File { .. }
            | MountOp::Proc { .. }
            | MountOp::Dev { .. } => None,
        })
    };
    let tmpfs = plan.mounts.iter().filter_map(|op| match op {
        MountOp::Tmpfs { dest, .. } => Some(dest),
        MountOp::Bind { .. }
        | MountOp::Dir { .. }
        | MountOp::Symlink { .. }
        | MountOp::File { .. }
        | MountOp::Proc { .. }
        | MountOp::Dev { .. } => None,
    });
    tmpfs.filter(|dest| !binds().any(|bound| within(dest, bound))).cloned().collect()
}

fn is_scratch(dest: &Path, scratch: &[(PathBuf, PathBuf)]) -> bool {
    scratch.iter().any(|(inside, _)| inside == dest)
}

fn shown(plan: &Plan, scratch: &[(PathBuf, PathBuf)]) -> Vec<Shown> {
    let one = |op: &MountOp| match op {
        MountOp::Bind { source, dest, .. } => Some((dest.clone(), Some(source.clone()))),
        MountOp::Tmpfs { dest, .. } => {
            let own = scratch.iter().find(|(inside, _)| inside == dest).map(|(_, own)| own.clone());
            Some((dest.clone(), own))
        }
        MountOp::Dir { .. }
        | MountOp::Symlink { .. }
        | MountOp::File { .. }
        | MountOp::Proc { .. }
        | MountOp::Dev { .. } => None,
    };
    plan.mounts.iter().filter_map(one).collect()
}

/// What stands for `path`: `None` if nothing inside covers it, `Some(None)` if what covers it has no stand-in.
fn stand_in(path: &Path, shown: &[Shown]) -> Option<Option<PathBuf>> {
    shown.iter().rev().find_map(|(dest, source)| {
        let below = path.strip_prefix(dest).ok()?;
        let join =
            |source: &PathBuf| if below.as_os_str().is_empty() { source.clone() } else { source.join(below) };
        Some(source.as_ref().map(join))
    })
}

/// What `place` means on the host: the shown path it lies in, or every shown path below it.
fn on_host(place: &Place, shown: &[Shown]) -> Vec<Place> {
    let with = |path: PathBuf| (place.rights != Rights::NONE).then_some(Place { path, rights: place.rights });
    if let Some(covering) = stand_in(&place.path, shown) {
        return covering.and_then(with).into_iter().collect();
    }
    let below = shown.iter().filter(|(dest, _)| within(dest, &place.path));
    below.filter_map(|(_, source)| source.clone()).filter_map(with).collect()
}
