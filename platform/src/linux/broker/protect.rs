//! Which paths the broker guards.
//!
//! Answers for the question "may this name be made, changed or taken away?" on full paths. It leaves finding
//! the path to [`super::resolve`].
//! Invariant: a protected path cannot come to be by another way: not below itself, not by making something
//! else than a directory where one of its ancestors is expected, not by moving an ancestor.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::linux::sources::writable_place;
use crate::plan::{Access, MountOp, Place, Plan, Rights};

/// The guarded paths, as seen inside.
#[derive(Debug)]
pub(crate) struct Protected {
    paths: Vec<PathBuf>,
    kept: Kept,
    proc: PathBuf,
}

impl Protected {
    /// The protected paths of `plan` that lie in writable places, and the places nothing may be removed from
    /// although they lie in a private directory; `None` if there are none.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let mut paths = BTreeSet::new();
        for path in &plan.protect {
            let Some((source, dest)) = writable_place(plan, path) else { continue };
            let Ok(below) = path.strip_prefix(dest) else { continue };
            paths.extend(aliases(plan, &source.join(below)));
        }
        let list = plan.mounts.iter().find(|op| matches!(op, MountOp::Proc { .. }));
        let proc = list.map_or_else(|| PathBuf::from("/proc"), |op| op.dest().to_owned());
        let kept = Kept::of(plan);
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        (!paths.is_empty() || !kept.places.is_empty()).then_some(Self { paths, kept, proc })
    }

    /// Whether removing names has to be watched too.
    pub(crate) fn watches_removal(&self) -> bool {
        !self.kept.places.is_empty()
    }

    /// Whether a name may be taken away at `path`, as far as the kernel does not see to that.
    pub(super) fn allows_removal(&self, path: &Path) -> bool {
        self.kept.allows_removal(path)
    }

    /// Where the process list is.
    pub(super) fn proc(&self) -> &Path {
        &self.proc
    }

    /// Whether a directory may be made at `path`.
    pub(super) fn allows_directory(&self, path: &Path) -> bool {
        !self.paths.iter().any(|kept| path.starts_with(kept))
    }

    /// Whether anything else may be made, written, moved to or moved away at `path`.
    pub(super) fn allows_change(&self, path: &Path) -> bool {
        !self.paths.iter().any(|kept| path.starts_with(kept) || kept.starts_with(path))
    }
}

/// Bound places below a private directory: its right to remove must not reach into them, but in the kernel
/// rights add up along the path.
#[derive(Debug, Default)]
struct Kept {
    places: Vec<PathBuf>,
    removable: Vec<PathBuf>,
}

impl Kept {
    fn of(plan: &Plan) -> Self {
        let binds = || plan.mounts.iter().filter(|op| matches!(op, MountOp::Bind { .. })).map(MountOp::dest);
        let bound = |place: &&Place| binds().any(|dest| place.path.starts_with(dest));
        let removing = plan.rights.iter().filter(|place| place.rights.contains(Rights::REMOVE));
        let (ours, others): (Vec<&Place>, Vec<&Place>) = removing.partition(bound);
        let leaks = |dest: &&Path| {
            others.iter().any(|place| dest.starts_with(&place.path))
                && !ours.iter().any(|place| dest.starts_with(&place.path))
        };
        Self {
            places: binds().filter(leaks).map(Path::to_owned).collect(),
            removable: ours.iter().map(|place| place.path.clone()).collect(),
        }
    }

    fn allows_removal(&self, path: &Path) -> bool {
        !self.places.iter().any(|kept| path.starts_with(kept))
            || self.removable.iter().any(|free| path.starts_with(free) && path != free)
    }
}

/// Every place inside at which the host path `host` can be written.
fn aliases<'p>(plan: &'p Plan, host: &'p Path) -> impl Iterator<Item = PathBuf> + 'p {
    plan.mounts.iter().filter_map(move |op| {
        let MountOp::Bind { source, dest, access: Access::ReadWrite, .. } = op else { return None };
        let below = host.strip_prefix(source).ok()?;
        Some(if below.as_os_str().is_empty() { dest.clone() } else { dest.join(below) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Code;

    fn guard(protect: &[&str]) -> Protected {
        let mut plan = Plan::new("/bin/true", vec!["true".into()]);
        for dest in ["/w", "/alias"] {
            plan.mounts.push(MountOp::Bind {
                source: "/w".into(),
                dest: dest.into(),
                access: Access::ReadWrite,
                code: Code::Allowed,
            });
        }
        plan.protect = protect.iter().map(PathBuf::from).collect();
        Protected::of(&plan).unwrap()
    }

    #[test]
    fn a_protected_path_and_all_below_it_are_kept() {
        let guard = guard(&["/w/.git/hooks"]);
        assert!(!guard.allows_change(Path::new("/w/.git/hooks/pre-commit")));
        assert!(!guard.allows_directory(Path::new("/w/.git/hooks")));
        assert!(guard.allows_directory(Path::new("/w/.git")));
        assert!(guard.allows_change(Path::new("/w/.git/index")));
        assert!(guard.allows_change(Path::new("/w/.git/hooks2")));
    }

    #[test]
    fn an_ancestor_can_be_made_a_directory_and_nothing_else() {
        let guard = guard(&["/w/.git/hooks"]);
        assert!(!guard.allows_change(Path::new("/w/.git")));
        assert!(!guard.allows_change(Path::new("/w")));
    }

    #[test]
    fn a_private_directory_lends_no_right_to_remove() {
        let mut plan = Plan::new("/bin/true", vec!["true".into()]);
        plan.mounts.push(MountOp::Tmpfs { dest: "/tmp".into(), size: 1, mode: 0o700, code: Code::Allowed });
        for dest in ["/tmp/w", "/tmp/w/sub"] {
            let (source, dest) = (dest.into(), dest.into());
            plan.mounts.push(MountOp::Bind { source, dest, access: Access::ReadWrite, code: Code::Allowed });
        }
        let place = |path: &str, rights| Place { path: path.into(), rights };
        plan.rights = vec![
            place("/tmp", Rights::WRITE | Rights::REMOVE),
            place("/tmp/w", Rights::WRITE),
            place("/tmp/w/sub", Rights::WRITE | Rights::REMOVE),
        ];
        let guard = Protected::of(&plan).unwrap();
        assert!(guard.allows_removal(Path::new("/tmp/x")));
        assert!(!guard.allows_removal(Path::new("/tmp/w/x")));
        assert!(guard.allows_removal(Path::new("/tmp/w/sub/x")));
        assert!(guard.allows_change(Path::new("/tmp/w/x")));
    }

    #[test]
    fn other_names_for_the_same_place_are_kept_too() {
        assert!(!guard(&["/w/.envrc"]).allows_change(Path::new("/alias/.envrc")));
    }
}
