//! Where a plan lets something be changed, and what.
//!
//! Answers for places whose mounts say more than their rights: those below private file systems, and those that are
//! mounted to be changed and where nothing may be written. It leaves names that are protected to [`super::protect`].
//! Invariant: rights add up along a path, but those of a private place end where something of the host is bound.

use std::path::{Path, PathBuf};

use super::protect::Change;
use crate::path::within;
use crate::plan::{Access, MountOp, Place, Plan, Rights};

/// What may be done in which places, as far as the kernel's own rules do not say it.
#[derive(Debug)]
pub(super) struct Places {
    /// Rights on bound places that lie below a private place: the kernel's own rules add up along a path, so
    /// that the private place's rights would hold there too.
    held_here: Vec<Place>,
    /// Places of which what is made there outlives the launch.
    lasting: Vec<PathBuf>,
    /// Private places, of which nothing outlives the launch.
    private: Vec<PathBuf>,
    /// What is shown of the host to be changed, be it a copy: by its path here, and by its own.
    shown: Vec<PathBuf>,
    /// Places that are mounted to be changed and where nothing may be written: names may be taken away there.
    unwritten: Vec<PathBuf>,
    /// Places where files may be written, be it inside one of those.
    written: Vec<PathBuf>,
    /// Places from which names may be taken away.
    taken: Vec<PathBuf>,
    /// Places where files may be read.
    read: Vec<PathBuf>,
    /// The largest file there may be.
    file_size: Option<u64>,
}

impl Places {
    /// Those of `plan`.
    pub(super) fn of(plan: &Plan) -> Self {
        let unwritten: Vec<PathBuf> = unwritten(plan).map(Path::to_path_buf).collect();
        // Asked for only where something is unwritten, which is seldom.
        let written = match unwritten.is_empty() {
            true => Vec::new(),
            false => written(plan).map(|place| place.path.clone()).collect(),
        };
        let with = |right: Rights| {
            let places = plan.rights.iter().filter(move |place| place.rights.contains(right));
            places.map(|place| place.path.clone()).collect()
        };
        let lasting = plan.mounts.iter().filter_map(lasting_place).map(Path::to_path_buf).collect();
        Self {
            held_here: below_private(plan),
            lasting,
            private: plan.mounts.iter().filter_map(private_place).map(Path::to_path_buf).collect(),
            shown: plan.mounts.iter().flat_map(changeable).map(Path::to_path_buf).collect(),
            unwritten,
            written,
            taken: with(Rights::REMOVE),
            read: with(Rights::READ),
            file_size: plan.limits.file_size,
        }
    }

    /// Whether there is anything here that the kernel's own rules do not hold.
    pub(super) fn hold_more_than_the_kernel(&self) -> bool {
        self.hold_rights() || self.have_unwritten()
    }

    /// Whether rights are held here that the kernel's own rules would lend too widely.
    pub(super) fn hold_rights(&self) -> bool {
        !self.held_here.is_empty()
    }

    /// Whether something is mounted to be changed where nothing may be written.
    pub(super) fn have_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Whether anything that is made outlives the launch.
    pub(super) fn is_lasting(&self) -> bool {
        !self.lasting.is_empty()
    }

    /// Whether what is made at `path` outlives the launch.
    pub(super) fn is_lasting_at(&self, path: &Path) -> bool {
        lies_in(path, &self.lasting)
    }

    /// Whether `path` lies in a private place and in nothing of the host's that is shown there.
    pub(super) fn is_private_at(&self, path: &Path) -> bool {
        lies_in(path, &self.private) && !lies_in(path, &self.shown)
    }

    /// Whether `path` leads, through a private place, to something of the host's: moved, it would lead there by a name at
    /// which nothing is guarded.
    fn leads_out(&self, path: &Path) -> bool {
        self.is_private_at(path) && self.shown.iter().any(|place| leads_to(path, place))
    }

    /// Whether what lies at `path` may not be written, although nothing is mounted read-only there.
    pub(super) fn is_unwritten(&self, path: &Path) -> bool {
        lies_in(path, &self.unwritten) && !lies_in(path, &self.written)
    }

    /// Whether `path` lies where files of the host may be written, but for what is protected.
    pub(super) fn is_written(&self, path: &Path) -> bool {
        self.is_lasting_at(path) && !self.is_unwritten(path)
    }

    /// Whether the name `path` may be taken away, but for what is protected.
    pub(super) fn is_taken(&self, path: &Path) -> bool {
        lies_in(path, &self.taken)
    }

    /// Whether the file of the host at `path` may get another name. By that one it might be read at a later launch, when
    /// a pattern matches it, and whoever may only write it must not arrange that.
    pub(super) fn is_linked(&self, path: &Path) -> bool {
        !self.is_lasting_at(path) || lies_in(path, &self.read)
    }

    /// Whether a file may become this long.
    pub(super) fn allow_length(&self, length: i64) -> bool {
        self.file_size.is_none_or(|most| u64::try_from(length).is_ok_and(|length| length <= most))
    }

    /// Whether the place `path` lies in has the right for `change`.
    pub(super) fn allow(&self, path: &Path, change: Change) -> bool {
        let right = match change {
            Change::Write | Change::Make => Rights::WRITE,
            Change::Take | Change::Leave => Rights::REMOVE,
        };
        if change == Change::Make && self.is_unwritten(path) {
            return false;
        }
        // What leads to such a place stays where it is, or the place would be found by another name.
        if change != Change::Write
            && (self.held_here.iter().any(|place| leads_to(path, &place.path)) || self.leads_out(path))
        {
            return false;
        }
        let mut holding = self.held_here.iter().filter(|place| path.starts_with(&place.path)).peekable();
        holding.peek().is_none() || holding.any(|place| place.rights.contains(right))
    }
}

/// Whether `path` is a directory above `place`.
pub(super) fn leads_to(path: &Path, place: &Path) -> bool {
    place != path && place.starts_with(path)
}

fn lies_in(path: &Path, places: &[PathBuf]) -> bool {
    places.iter().any(|place| path.starts_with(place))
}

/// Rights on bound places that lie below a private file system.
fn below_private(plan: &Plan) -> Vec<Place> {
    let below = |path: &Path, dest: &Path| within(path, dest) && path != dest;
    let caught = |place: &&Place| {
        plan.mounts.iter().filter_map(private_place).any(|dest| below(&place.path, dest))
            && plan.mounts.iter().filter_map(bound_place).any(|dest| within(&place.path, dest))
    };
    plan.rights.iter().filter(caught).cloned().collect()
}

/// Places that are mounted to be changed and where nothing may be written: the kernel's rules do not know modes and
/// times, and not all of them know truncation.
fn unwritten(plan: &Plan) -> impl Iterator<Item = &Path> {
    plan.mounts.iter().filter_map(move |op| {
        let MountOp::Bind { dest, access: Access::ReadWrite, .. } = op else { return None };
        (!written(plan).any(|place| within(dest, &place.path))).then_some(dest.as_path())
    })
}

/// Places with the right to write, but for private ones, which lend none to what is bound below them.
fn written(plan: &Plan) -> impl Iterator<Item = &Place> {
    let lies_in = |path: &Path, wanted: fn(&MountOp) -> Option<&Path>| {
        plan.mounts.iter().filter_map(wanted).any(|dest| within(path, dest))
    };
    plan.rights.iter().filter(move |place| {
        (place.rights.contains(Rights::WRITE) || place.rights.contains(Rights::MODIFY))
            && (!lies_in(&place.path, private_place) || lies_in(&place.path, bound_place))
    })
}

fn private_place(op: &MountOp) -> Option<&Path> {
    match op {
        MountOp::Tmpfs { dest, .. } => Some(dest),
        _ => None,
    }
}

/// Where something of the host can be written.
fn lasting_place(op: &MountOp) -> Option<&Path> {
    match op {
        MountOp::Bind { dest, access: Access::ReadWrite, .. } => Some(dest),
        _ => None,
    }
}

/// What of the host can be changed, or a copy of it: where it is seen, and where it is.
fn changeable(op: &MountOp) -> impl Iterator<Item = &Path> {
    let both = match op {
        MountOp::Bind { source, dest, access: Access::ReadWrite | Access::Copied, .. } => {
            Some([dest.as_path(), source.as_path()])
        }
        _ => None,
    };
    both.into_iter().flatten()
}

fn bound_place(op: &MountOp) -> Option<&Path> {
    match op {
        MountOp::Bind { dest, .. } => Some(dest),
        _ => None,
    }
}

/// Whether `plan` has a place that is mounted to be changed and where nothing may be written.
pub(crate) fn has_unwritten(plan: &Plan) -> bool {
    unwritten(plan).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::broker::protect::Protected;
    use crate::plan::Code;

    fn place(path: &str, rights: Rights) -> Place {
        Place { path: path.into(), rights }
    }

    fn plan(rights: Vec<Place>) -> Plan {
        let mut plan = Plan::new("/bin/true", vec!["true".into()]);
        let (source, dest, access, code) = ("/w".into(), "/w".into(), Access::ReadWrite, Code::Allowed);
        plan.mounts.push(MountOp::Bind { source, dest, access, code });
        plan.rights = rights;
        plan
    }

    #[test]
    fn where_names_may_only_be_taken_away_nothing_is_written_but_what_is_open_deeper() {
        let plan = plan(vec![place("/w", Rights::REMOVE), place("/w/sub", Rights::WRITE)]);
        assert!(has_unwritten(&plan));
        let guard = Protected::of(&plan).unwrap();
        let path = Path::new;
        let allows = |name, change| guard.allows_change(path(name), &|| false, change);
        let places = guard.places();
        assert!(places.is_unwritten(path("/w/x")) && !places.is_unwritten(path("/w/sub/x")));
        assert!(!allows("/w/x", Change::Make) && allows("/w/sub/x", Change::Make));
        assert!(
            !guard.allows_mode(path("/w/x"), &|| false) && guard.allows_mode(path("/w/sub/x"), &|| false)
        );
        assert!(allows("/w/x", Change::Take));
    }

    #[test]
    fn what_leads_from_a_private_place_to_one_of_the_hosts_stays_and_that_one_is_not_private() {
        let mut plan = plan(vec![place("/w", Rights::WRITE)]);
        let tmpfs =
            |dest: &str| MountOp::Tmpfs { dest: dest.into(), size: None, mode: 0o700, code: Code::Allowed };
        plan.mounts.insert(0, tmpfs("/tmp"));
        let (source, dest, code) = ("/host".into(), "/tmp/a/w".into(), Code::Allowed);
        plan.mounts.push(MountOp::Bind { source, dest, access: Access::Copied, code });
        plan.mounts.push(tmpfs("/w/hidden"));
        let (places, path) = (Places::of(&plan), Path::new);
        assert!(places.is_private_at(path("/tmp/a/x")) && !places.is_private_at(path("/tmp/a/w/x")));
        assert!(!places.is_private_at(path("/w/hidden/x")) && !places.is_private_at(path("/opt")));
        assert!(!places.allow(path("/tmp/a"), Change::Take) && !places.allow(path("/tmp"), Change::Make));
        assert!(places.allow(path("/tmp/a/x"), Change::Take) && places.allow(path("/w/x"), Change::Make));
    }

    #[test]
    fn a_private_place_lends_no_right_to_write() {
        let mut plan = plan(vec![place("/", Rights::WRITE), place("/w", Rights::REMOVE)]);
        assert!(!has_unwritten(&plan));
        let private = MountOp::Tmpfs { dest: "/".into(), size: Some(1), mode: 0o700, code: Code::Allowed };
        plan.mounts.insert(0, private);
        assert!(has_unwritten(&plan));
        plan.rights[1].rights = Rights::WRITE;
        assert!(!has_unwritten(&plan));
    }
}
