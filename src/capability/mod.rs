//! The vocabulary: which capabilities exist, what scopes they take, how both are written.
//!
//! Values here are as typed, not yet placed in the world: no home directory, no roots, no files.
//! Invariant: [`CATALOG`] is the only list of capabilities; parser, help, schema and docs read it.

mod catalog;
mod command;
mod glob;
mod host;
mod names;
mod scope;
mod spec;
mod tools;

pub use catalog::{CATALOG, Capability, Entry, Family, Risk, ScopeKey, ValueKind};
pub use command::{CommandPattern, PatternError, Token, check_command, has_separator};
pub use glob::{Glob, is_literal, matches_segment};
pub(crate) use host::classify;
pub use host::{Address, Host, HostError, HostPattern, Method, Target};
pub use names::{fold, is_cut_by_some, likened};
pub use scope::{RawScope, RawValue, Scope, ScopeValue};
pub use spec::{Spec, SpecError, split_list};
pub use tools::{NameCase, ToolPattern, ToolPatternError};
