//! Named tools in the live world: loading their definitions, and running them behind the agent's fence.
//!
//! Invariant: a tool runs with the agent's authority narrowed to the tool's own needs, or not at all.

mod call;
mod catalogue;
mod output;
mod own;

pub(in crate::run) use call::{not_started, record};

pub use call::{Caller, Prepared, place, prepare, run_tool};
pub use catalogue::{Catalogue, Change};
pub use output::{Failure, Report, Stop};
pub use own::Own;
