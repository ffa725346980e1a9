//! Calling an operation off while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A wish to stop, shared by whoever has it and whoever works. Copies are the same wish.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Not called off.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls it off. What runs for it is ended, and the call answers `cancelled`.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was called off.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
