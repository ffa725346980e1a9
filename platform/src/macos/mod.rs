//! The macOS backend.
//!
//! Answers for carrying out a plan with Seatbelt: [`seatbelt`] turns it into a profile, on every system, so that
//! what a Mac would hold can be tested anywhere; the rest runs it, on macOS, and in tests on Linux with stand-ins for
//! `sandbox-exec` and for what the system tells of processes. It leaves the choice of backend to the caller and the
//! vocabulary to [`crate::plan`].
//! Invariant: what a plan says reaches the kernel as one profile, before the command starts, and never changes.

mod base;
#[cfg(any(target_os = "macos", all(test, target_os = "linux")))]
#[cfg_attr(
    all(test, target_os = "linux"),
    expect(dead_code, unreachable_pub, reason = "tests elsewhere use a part of it, from within")
)]
pub(crate) mod exec;
mod given;
mod in_place;
#[cfg(any(target_os = "macos", all(test, target_os = "linux")))]
mod log;
#[cfg(any(target_os = "macos", all(test, target_os = "linux")))]
mod prepare;
#[cfg(target_os = "macos")]
mod processes;
mod protect;
mod sbpl;
pub mod seatbelt;
#[cfg(all(test, target_os = "linux"))]
mod standin;
#[cfg(any(target_os = "macos", all(test, target_os = "linux")))]
mod stdio;
#[cfg(any(target_os = "macos", all(test, target_os = "linux")))]
mod tree;
pub mod violations;
#[cfg(any(target_os = "macos", all(test, target_os = "linux")))]
mod watch;

pub use given::given;
#[cfg(all(test, target_os = "linux"))]
use standin::processes;
