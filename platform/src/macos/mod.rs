//! The macOS backend.
//!
//! Answers for carrying out a plan with Seatbelt: [`seatbelt`] turns it into a profile, on every system, so that
//! what a Mac would hold can be tested anywhere; the rest runs it, on macOS only. It leaves the choice of backend
//! to the caller and the vocabulary to [`crate::plan`].
//! Invariant: what a plan says reaches the kernel as one profile, before the command starts, and never changes.

mod base;
#[cfg(target_os = "macos")]
pub(crate) mod exec;
mod given;
mod in_place;
#[cfg(target_os = "macos")]
mod log;
#[cfg(target_os = "macos")]
mod prepare;
mod protect;
mod sbpl;
pub mod seatbelt;
#[cfg(target_os = "macos")]
mod stdio;
#[cfg(target_os = "macos")]
mod tree;
pub mod violations;
#[cfg(target_os = "macos")]
mod watch;

pub use given::given;
