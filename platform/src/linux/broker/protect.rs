//! Which paths the broker guards.
//!
//! Answers for the question "may this name be made, changed or taken away?" on full paths. It leaves finding
//! the path to [`super::resolve`].
//! Invariant: a protected path cannot come to be by another way: not below itself, not by making something
//! else than a directory where one of its ancestors is expected, not by moving an ancestor.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::linux::mounts::writable_place;
use crate::plan::{Access, MountOp, Plan};

/// The guarded paths, as seen inside.
#[derive(Debug)]
pub(crate) struct Protected {
    paths: Vec<PathBuf>,
    proc: PathBuf,
}

impl Protected {
    /// The protected paths of `plan` that lie in writable places; `None` if there are none.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let mut paths = BTreeSet::new();
        for path in &plan.protect {
            let Some((source, dest)) = writable_place(plan, path) else { continue };
            let Ok(below) = path.strip_prefix(dest) else { continue };
            paths.extend(aliases(plan, &source.join(below)));
        }
        let list = plan.mounts.iter().find(|op| matches!(op, MountOp::Proc { .. }));
        let proc = list.map_or_else(|| PathBuf::from("/proc"), |op| op.dest().to_owned());
        (!paths.is_empty()).then(|| Self { paths: paths.into_iter().collect(), proc })
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
    fn other_names_for_the_same_place_are_kept_too() {
        assert!(!guard(&["/w/.envrc"]).allows_change(Path::new("/alias/.envrc")));
    }
}
