//! Signals to this process, to be read one after the other.
//!
//! Answers for collecting the wishes to end. It leaves what is done about them to the caller.
//! Invariant: while a value lives, these signals do nothing by themselves.

use std::io;
use std::time::Duration;

/// Wishes to end: from a terminal, from a parent, from a terminal that is gone.
#[derive(Debug)]
pub struct Signals {
    #[cfg(target_os = "linux")]
    collected: crate::linux::sys::signal::Collected,
}

impl Signals {
    /// Collects interrupts, hang-ups and requests to end from now on, for threads started afterwards too. Commands
    /// that are started meanwhile do not notice.
    ///
    /// # Errors
    /// When they cannot be collected.
    pub fn collect() -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        return crate::linux::sys::signal::Collected::take(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
            .map(|collected| Self { collected });
        #[cfg(not(target_os = "linux"))]
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The next one, if it comes in time.
    #[must_use]
    pub fn next_within(&self, time: Duration) -> Option<i32> {
        #[cfg(target_os = "linux")]
        return self.collected.next().or_else(|| {
            crate::linux::sys::fd::readable_within(self.collected.raw(), time);
            self.collected.next()
        });
        #[cfg(not(target_os = "linux"))]
        {
            let _ = time;
            None
        }
    }
}
