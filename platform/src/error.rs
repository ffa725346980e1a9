//! What can go wrong before a command runs.
//!
//! Answers for the shape of every failure: the operation, the object it was done to, and the cause.
//! It leaves the failures of the command itself to [`crate::report::Outcome`].
//! Invariant: an error here means that nothing of the command was executed.

use std::io;
#[cfg(target_os = "linux")]
use std::path::Path;

use crate::backend::{Backend, Guarantee};

fn names(guarantees: &[Guarantee]) -> String {
    guarantees.iter().map(|guarantee| guarantee.name()).collect::<Vec<_>>().join(", ")
}

/// A launch that did not happen, or a question to the kernel that had no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlatformError {
    /// One operation failed on one object.
    #[error("cannot {op} {object}: {source}")]
    Operation {
        /// What was tried, as a verb phrase.
        op: &'static str,
        /// What it was tried on.
        object: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The plan contradicts itself or asks for something no backend can express.
    #[error("the plan cannot be carried out: {reason}")]
    BadPlan {
        /// Which part of the plan, and why.
        reason: String,
    },
    /// No fence exists here.
    #[error("no backend on this platform: {reason}")]
    NoBackend {
        /// What was looked for and not found.
        reason: String,
    },
    /// The chosen backend lacks something that was required.
    #[error("backend {backend} does not give {}", names(missing))]
    Missing {
        /// The backend that was asked.
        backend: Backend,
        /// Everything it lacks.
        missing: Vec<Guarantee>,
    },
    /// A launcher process said this.
    #[error("{reason}")]
    Launcher {
        /// Its own error message.
        reason: String,
    },
    /// The process has several threads, so that a child could inherit a held lock.
    #[error("a process with {count} threads cannot build a fence itself; start a launcher process instead")]
    Threads {
        /// How many threads were seen.
        count: u64,
    },
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
impl PlatformError {
    /// An operation on a path that the kernel refused.
    #[cfg(target_os = "linux")]
    pub(crate) fn on_path(op: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Operation { op, object: path.display().to_string(), source }
    }

    /// An operation on something without a path.
    pub(crate) fn on(op: &'static str, object: impl Into<String>, source: io::Error) -> Self {
        Self::Operation { op, object: object.into(), source }
    }
}

impl From<crate::report::SetupFailure> for PlatformError {
    fn from(failure: crate::report::SetupFailure) -> Self {
        let source = io::Error::from_raw_os_error(failure.errno);
        Self::Operation { op: failure.step.name(), object: failure.object, source }
    }
}
