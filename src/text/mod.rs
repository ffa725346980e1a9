//! Text and what is wrong with it: spans, problems, carets, did-you-mean.
//!
//! Knows nothing of records or policy. A [`Problem`] is collected, never thrown; whoever holds the
//! [`Source`] can print it like a compiler would.

mod codes;
mod options;
mod plain;
mod problem;
mod render;
mod source;
mod suggest;

pub use options::{OptionValue, option_value};
pub use plain::{deceives, shell_quoted};
pub use problem::{Code, Problem, Severity};
pub use render::{render, render_all};
pub use source::{Place, Source, Span};
pub use suggest::closest;

pub(crate) use codes::codes;
