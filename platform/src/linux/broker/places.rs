//! Where a plan lets something be changed, and what.
//!
//! Answers for places whose mounts say more than their rights: those below private file systems, and those that are
//! mounted to be changed and where nothing may be written. It leaves holding them to [`super::protect`].
//! Invariant: rights add up along a path, but those of a private place end where something of the host is bound.

use std::path::Path;

use crate::path::within;
use crate::plan::{Access, MountOp, Place, Plan, Rights};

/// Rights on bound places that lie below a private file system.
pub(super) fn below_private(plan: &Plan) -> Vec<Place> {
    let below = |path: &Path, dest: &Path| within(path, dest) && path != dest;
    let caught = |place: &&Place| {
        plan.mounts.iter().filter_map(private_place).any(|dest| below(&place.path, dest))
            && plan.mounts.iter().filter_map(bound_place).any(|dest| within(&place.path, dest))
    };
    plan.rights.iter().filter(caught).cloned().collect()
}

/// Places that are mounted to be changed and where nothing may be written: the kernel's rules do not know modes and
/// times, and not all of them know truncation.
pub(super) fn unwritten(plan: &Plan) -> impl Iterator<Item = &Path> {
    plan.mounts.iter().filter_map(move |op| {
        let MountOp::Bind { dest, access: Access::ReadWrite, .. } = op else { return None };
        (!written(plan).any(|place| within(dest, &place.path))).then_some(dest.as_path())
    })
}

/// Places with the right to write, but for private ones, which lend none to what is bound below them.
pub(super) fn written(plan: &Plan) -> impl Iterator<Item = &Place> {
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
    use crate::linux::broker::protect::{Change, Protected};
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
        assert!(guard.is_unwritten(path("/w/x")) && !guard.is_unwritten(path("/w/sub/x")));
        assert!(!allows("/w/x", Change::Make) && allows("/w/sub/x", Change::Make));
        assert!(
            !guard.allows_mode(path("/w/x"), &|| false) && guard.allows_mode(path("/w/sub/x"), &|| false)
        );
        assert!(allows("/w/x", Change::Take));
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
