//! Protected paths as the platform wants them.

use super::host::Host;
use super::places::Places;
use crate::policy::Policy;
use crate::profile::{INERT_GIT_KEYS, Opening, PROTECTED, ProtectedPath};
use sbx_platform::path::within;
use sbx_platform::plan::{InsideNew, ProtectedName, Rights};
use std::path::{Path, PathBuf};

/// Exact paths that stay as they are: sbx's own files, and protected names that stand right in a writable
/// place, whose permissions and times are then kept too.
pub(super) fn paths(policy: &Policy, places: &Places, host: &dyn Host) -> Vec<PathBuf> {
    let record = policy.record().map(Path::to_path_buf);
    let own = [policy.facts().config_dir.clone()].into_iter().chain(record);
    let writable: Vec<&Path> =
        places.iter().map(|(path, _)| path).filter(|path| places.is_writable(path)).collect();
    let standing = PROTECTED.iter().filter(|protected| !protected.has_wildcard()).flat_map(|protected| {
        let tail = PathBuf::from_iter(&protected.components);
        writable.iter().map(move |place| place.join(&tail))
    });
    // A grant that names a protected path opens it, so it is not laid over.
    let opened = |path: &PathBuf| {
        places.named(Rights::WRITE).chain(places.named(Rights::REMOVE)).any(|named| within(named, path))
    };
    // Most do not exist: one look tells, and only what does is followed.
    let stands = |path: &PathBuf| host.kind(path).is_some() && host.real(path).as_deref() == Some(path);
    own.chain(standing.filter(|path| stands(path) && !opened(path))).collect()
}

/// Names that stay as they are wherever they stand in a writable place, but for those a grant names.
pub(super) fn names(places: &Places) -> Vec<ProtectedName> {
    PROTECTED
        .iter()
        .map(|protected| ProtectedName {
            components: protected.components.iter().map(Into::into).collect(),
            may_make: opened(places, protected, Rights::WRITE),
            may_take: opened(places, protected, Rights::REMOVE),
            inside_new: inside_new(protected),
        })
        .collect()
}

/// A repository made inside the launch is the agent's own, but what git would run later stays out of it.
fn inside_new(protected: &ProtectedPath) -> InsideNew {
    let settings = || InsideNew::Settings(INERT_GIT_KEYS.iter().map(|key| (*key).to_owned()).collect());
    match protected.components.as_slice() {
        [".git", "hooks"] | [".git", "modules", "**", "hooks"] => InsideNew::Ending(".sample".into()),
        [".git", "config"] | [".git", "modules", "**", "config"] => settings(),
        [".git", "worktrees", "*", "commondir" | "gitdir"] => InsideNew::Anything,
        [_] if protected.opening == Opening::Named => InsideNew::Anything,
        _ => InsideNew::Nothing,
    }
}

/// Paths below a protected name that a grant with a right names.
fn opened(places: &Places, protected: &ProtectedPath, right: Rights) -> Vec<PathBuf> {
    if protected.opening == Opening::Never {
        return Vec::new();
    }
    let below = |path: &&Path| protected.find(path).is_some_and(|found| within(path, found));
    places.named(right).filter(below).map(Path::to_path_buf).collect()
}
