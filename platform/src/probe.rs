//! What this machine can give, as a value.
//!
//! Answers for the shape of the findings and for choosing among them. How they are found is for the platform.
//! Invariant: choosing is pure; the same findings give the same choice.

use std::path::PathBuf;

use crate::backend::{Backend, Guarantee};
use crate::door::Way;

/// What was found out about this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The Landlock level, 0 for none.
    pub landlock: u32,
    /// The bubblewrap that would be used.
    pub bwrap: Option<PathBuf>,
    /// Every backend, strongest first.
    pub backends: Vec<Tried>,
}

/// A backend that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Which.
    pub backend: Backend,
    /// The promises it keeps here; empty if it does not work.
    pub given: Vec<Guarantee>,
    /// How connections come to the doors of a network, if there can be one.
    pub doors: Option<Way>,
    /// Why it does not work.
    pub failure: Option<String>,
}

impl Probe {
    /// The strongest backend that works.
    #[must_use]
    pub fn strongest(&self) -> Option<&Tried> {
        self.backends.iter().find(|tried| tried.failure.is_none())
    }
}
