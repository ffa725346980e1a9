//! From a permit to a plan: what the kernel is told to hold.
//!
//! Pure: what exists on the machine is asked of a [`Host`]. [`lower`] needs a [`Permit`](crate::Permit), so
//! "run without asking" does not compile; [`lower_helper`] runs nothing but sbx itself.
//! Invariant: a plan is never wider than what `decide` allows over the process view: the agent's grants,
//! reading the proc root, the system view and private scratch.

mod environment;
mod git;
mod helper;
mod host;
mod in_place;
mod lower;
mod network;
mod places;
mod programs;
mod protect;
mod view;

pub use git::{GitSetting, git_settings, repositories};
pub use helper::lower_helper;
pub use host::{Host, Kind, Use};
pub use lower::{Entry, Invocation, LowerError, Lowered, Private, Rehearsal, lower};
pub use network::{Outlet, PROXY_PORT};
pub use places::{Opened, opened};
pub use programs::{program_of, search_path, usual_path};
