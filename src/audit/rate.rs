//! How many events of a kind are told, and how many more there were.
//!
//! Invariant: nothing that somebody else can repeat at will fills the log; what is left out is counted.

use std::time::Instant;

/// So many at once and then so many a second.
#[derive(Debug)]
pub struct Rate {
    at_once: f64,
    a_second: f64,
    /// How many may still be told, as of when.
    left: f64,
    since: Instant,
    left_out: u64,
}

impl Rate {
    /// A rate of which nothing is used up yet.
    #[must_use]
    pub fn new(at_once: u32, a_second: u32) -> Self {
        let at_once = f64::from(at_once);
        Self { at_once, a_second: f64::from(a_second), left: at_once, since: Instant::now(), left_out: 0 }
    }

    /// How many were left out since the last that was told.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether one more is told now; if so, how many were left out before it.
    pub fn admit(&mut self) -> Option<u64> {
        self.admit_of(1)
    }

    /// Whether so many more are told now, all of them; if so, how many were left out before them.
    pub fn admit_of(&mut self, number: u32) -> Option<u64> {
        let now = Instant::now();
        let gained = now.duration_since(self.since).as_secs_f64() * self.a_second;
        self.left = (self.left + gained).min(self.at_once);
        self.since = now;
        if self.left < f64::from(number) {
            self.left_out += u64::from(number);
            return None;
        }
        self.left -= f64::from(number);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted() {
        let mut rate = Rate::new(2, 0);
        assert_eq!((rate.admit(), rate.admit(), rate.admit(), rate.admit()), (Some(0), Some(0), None, None));
        rate.left = 1.0;
        assert_eq!(rate.admit(), Some(2));
        rate.left = 2.0;
        assert_eq!((rate.admit_of(3), rate.admit_of(2)), (None, Some(3)));
    }
}
