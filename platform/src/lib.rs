//! The mechanism under `sbx`: paths, mounts, system calls and processes.
//!
//! This crate holds all of the project's `unsafe` code and knows nothing of policy.
//! It is handed plain values and does exactly what they say.

pub mod backend;
pub mod error;
#[cfg(target_os = "linux")]
mod linux;
pub mod path;
pub mod plan;
pub mod report;
pub mod text;

pub use backend::{Backend, Enforcement, Guarantee};
pub use error::PlatformError;
pub use plan::Plan;
pub use report::{End, Outcome};

/// Runs `plan` behind `backend` and waits until nothing of it is left.
///
/// # Errors
/// When the fence could not even be begun. A failure later in building it is [`End::Setup`].
#[cfg(target_os = "linux")]
pub fn launch(plan: &Plan, backend: Backend) -> Result<Outcome, PlatformError> {
    linux::launch(plan, backend, None)
}
