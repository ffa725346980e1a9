//! What an agent holds: grants placed in the world, roots narrowed level by level.
//!
//! Pure: where links lead and what `$PROJECT` means are facts handed in.
//! Invariant: a [`Policy`] has no setter; the only ways to another one are to resolve another record
//! and to narrow this one.

mod attenuate;
mod chain;
mod grant;
mod index;
mod narrow;
mod receipt;
mod resolve;

pub use attenuate::{covers, covers_grant};
pub use chain::{Chain, Clamp, Level, LevelName};
pub use grant::{Command, Grant, GrantId, PlacedScope};
pub use narrow::Narrowing;
pub use receipt::{fingerprint, receipt_lines, receipt_of};
pub use resolve::{Policy, Proposal};

pub(crate) use attenuate::first_uncovered;
pub(crate) use index::CommandAsked;
