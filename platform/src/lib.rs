//! The mechanism under `sbx`: paths, mounts, system calls and processes.
//!
//! This crate holds all of the project's `unsafe` code and knows nothing of policy.
//! It is handed plain values and does exactly what they say.
//!
//! ```no_run
//! use sbx_platform::plan::{Access, Code, MountOp, Place, Plan, Rights};
//! use sbx_platform::{Backend, launch};
//!
//! let mut plan = Plan::new("/usr/bin/true", vec!["true".into()]);
//! plan.mounts.push(MountOp::Bind {
//!     source: "/usr".into(),
//!     dest: "/usr".into(),
//!     access: Access::ReadOnly,
//!     code: Code::Allowed,
//! });
//! plan.rights.push(Place { path: "/usr".into(), rights: Rights::READ | Rights::LIST | Rights::EXECUTE });
//! let outcome = launch(&plan, Some(Backend::Native), None)?;
//! # Ok::<(), sbx_platform::PlatformError>(())
//! ```

pub mod attempt;
pub mod backend;
#[cfg(any(test, not(target_os = "linux")))]
mod caught;
pub mod door;
pub mod elf;
pub mod error;
pub mod fold;
pub mod group;
pub mod handed;
#[cfg(target_os = "linux")]
pub mod heap;
#[cfg(all(target_os = "linux", feature = "test-hooks"))]
mod hooks;
mod launch;
#[cfg(target_os = "linux")]
mod linux;
pub mod macos;
pub mod own;
pub mod path;
pub mod plan;
pub mod probe;
pub mod queue;
pub mod ready;
pub mod report;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod scratch;
mod signals;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod terminal;
pub mod text;
pub mod walk;

pub use backend::{Backend, Enforcement, Guarantee};
pub use error::PlatformError;
pub use handed::Handed;
pub use launch::{
    Child, Leash, Told, explain, ids, landlock, launch, leave, probe, refuse_dumps, refused_calls, spawn,
    take_over,
};
pub use plan::{Pipe, Plan};
pub use probe::Probe;
pub use report::{End, Outcome};
pub use signals::Signals;
