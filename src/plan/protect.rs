//! Protected paths as the platform wants them.

use super::places::Places;
use crate::policy::Policy;
use crate::profile::PROTECTED;
use sbx_platform::path::within;
use sbx_platform::plan::{ProtectedName, Rights};
use std::path::PathBuf;

/// Exact paths that stay as they are: sbx's own files.
pub(super) fn own_files(policy: &Policy) -> Vec<PathBuf> {
    let record = policy.record().map(std::path::Path::to_path_buf);
    [policy.facts().config_dir.clone()].into_iter().chain(record).collect()
}

/// Names that stay as they are wherever they stand in a writable place, but for those a grant names.
pub(super) fn names(places: &Places) -> Vec<ProtectedName> {
    let opened: Vec<PathBuf> = places
        .iter()
        .filter(|(path, rights)| {
            let changes = rights.contains(Rights::WRITE) || rights.contains(Rights::REMOVE);
            changes && PROTECTED.iter().any(|protected| protected.find(path).is_some())
        })
        .map(|(path, _)| path.to_path_buf())
        .collect();
    PROTECTED
        .iter()
        .map(|protected| ProtectedName {
            components: protected.components.iter().map(Into::into).collect(),
            except: opened
                .iter()
                .filter(|path| protected.find(path).is_some_and(|found| within(path, found)))
                .cloned()
                .collect(),
        })
        .collect()
}
