//! A wish that may come while something runs: that it end, with everything it started.
//!
//! Answers for the wish reaching a launch, whichever comes first. It leaves ending to the platform: letting go of a
//! launch's leash is its end.
//! Invariant: what is begun after the wish ends at once.

use sbx_platform::Leash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A wish that can be shared: copies are the same wish.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    wished: bool,
    /// What the launch under way hangs on; launches of one call follow one another.
    leash: Option<Leash>,
}

impl Cancel {
    /// No wish yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends what runs, and whatever would be begun from now on.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.wished = true;
        drop(state.leash.take());
    }

    /// Whether the wish was made.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().wished
    }

    /// Takes charge of a launch: it ends when the wish is made, or at once when it was made already.
    pub fn hold(&self, leash: Option<Leash>) {
        let mut state = self.state();
        state.leash = leash.filter(|_| !state.wished);
    }

    /// Lets go of a launch that has ended.
    pub fn release(&self) {
        drop(self.state().leash.take());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment, so that what a panicking thread left is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_shared_and_stays() {
        let cancel = Cancel::default();
        let same = cancel.clone();
        assert!(!same.is_cancelled());
        cancel.cancel();
        same.hold(None);
        same.release();
        assert!(same.is_cancelled());
    }
}
