//! Pictures of authority: what each agent holds as a tree, what happened, and what changed.
//!
//! Answers for the tree, the counts over time, the comparison of two versions of a record, and one page that shows
//! them. Pure: policies, entries and the moment are handed in. It leaves printing and files to `cli`.
//! Invariant: no text from a record or the log reaches a page unescaped.

mod activity;
mod besides;
mod diff;
mod page;
mod tree;

pub use activity::{Activity, Refusal, Slot};
pub use besides::besides;
pub use diff::{Change, Difference, Direction, compare};
pub use page::{Page, Shown, render_page};
pub use tree::{Node, authority};
