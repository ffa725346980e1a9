//! May this agent do that? The one place where it is decided.
//!
//! Pure: requests carry what was asked and what it turned out to be (link targets, addresses).
//! Invariant: only [`decide`] makes a [`Permit`], and allowing allocates nothing.

mod agents;
mod ask;
mod decision;
mod denial;
mod judge;
mod nearest;
mod protected;
mod request;
mod suggest;

pub use decision::{Decision, Permit};
pub use denial::{Denial, DenialCode, NearestGrant, grant_command};
pub use judge::decide;
pub use protected::{Protection, protection};
pub use request::{AskError, Request, Subject};

pub(crate) use ask::KEYS as REQUEST_KEYS;
pub(crate) use denial::one_line;
