//! How often something of one sort is told.
//!
//! Answers for a flood being counted and not told one by one. Invariant: what is not told is counted.

use super::bounds;
use std::time::Instant;

/// What may still be told now, and what was left out.
#[derive(Debug)]
pub(super) struct Pace {
    tokens: f64,
    since: Instant,
    left_out: u64,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { tokens: f64::from(bounds::EVENTS_AT_ONCE), since: Instant::now(), left_out: 0 }
    }

    /// Whether one more is told, and then how many before it were not.
    pub(super) fn next(&mut self) -> Option<u64> {
        let now = Instant::now();
        let gained = now.duration_since(self.since).as_secs_f64() * f64::from(bounds::EVENTS_PER_SECOND);
        self.tokens = (self.tokens + gained).min(f64::from(bounds::EVENTS_AT_ONCE));
        self.since = now;
        if self.tokens < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.tokens -= 1.0;
        Some(self.left_out())
    }

    /// How many were not told, once.
    pub(super) fn left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}
