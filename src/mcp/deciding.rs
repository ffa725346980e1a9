//! The files that decide which calls pass: where they really lie, and whether the agent could make them others.
//!
//! Answers for no way to such a file leading through a link that the agent may turn. It leaves keeping the files as they
//! are while something runs to the fence.
//! Invariant: what is read and written is the path that [`settled`] gave out, in which there is no link.

use crate::plan::opened;
use crate::policy::Policy;
use crate::run::Live;
use sbx_platform::path::{follow, within};
use std::path::{Path, PathBuf};

/// Where a file really lies, whether or not it is there yet.
///
/// # Errors
/// A sentence, when the way leads through a link that the agent may change.
pub(super) fn settled(file: &Path, policy: &Policy) -> Result<PathBuf, String> {
    let cannot = |error: std::io::Error| format!("cannot follow {}: {error}", file.display());
    let (links, end) = follow(file).map_err(cannot)?;
    match links.iter().find(|link| is_open(link, policy)) {
        None => Ok(end),
        Some(link) => Err(format!(
            "{} is reached through the link {}, which {} may change; name {} itself, or keep the link elsewhere",
            file.display(),
            link.display(),
            policy.agent(),
            end.display(),
        )),
    }
}

/// Whether a path lies where the agent may change something.
pub(super) fn is_open(path: &Path, policy: &Policy) -> bool {
    // Where what is opened cannot be told, nothing can be launched either.
    opened(policy, &Live).map_or(true, |opened| opened.writable().any(|place| within(path, place)))
}

/// What to say about a file that only the fence of this one server keeps as it is.
pub(super) fn remark(file: &Path, policy: &Policy) -> Option<String> {
    let kept_always = policy.lock_file().and_then(|lock| settled(lock, policy).ok());
    (kept_always.as_deref() != Some(file) && is_open(file, policy)).then(|| {
        format!(
            "warning: {} lies where {} may write: this server cannot change it, but anything else that is run for {} can; keep it elsewhere",
            file.display(),
            policy.agent(),
            policy.agent(),
        )
    })
}
