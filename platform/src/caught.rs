//! Signals to this process, caught by a handler, for systems where they cannot be read from a descriptor.
//!
//! Answers for keeping what came until it is asked for. It leaves what a signal means to [`crate::signals`].
//! Invariant: a signal is kept until it is read, whatever comes after it; one that came twice is kept once.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libc::c_int;

/// One bit for each signal that came and was not read yet.
static CAME: AtomicU32 = AtomicU32::new(0);

/// How often is looked for a signal that is waited for.
const GLANCE: Duration = Duration::from_millis(20);

extern "C" fn came(number: c_int) {
    CAME.fetch_or(bit(number), Ordering::SeqCst);
}

fn bit(number: c_int) -> u32 {
    u32::try_from(number).ok().and_then(|number| 1_u32.checked_shl(number)).unwrap_or(0)
}

/// Signals that are caught while this lives; what stood before is given back on drop.
#[derive(Debug)]
pub(crate) struct Caught {
    before: Vec<(c_int, libc::sigaction)>,
}

impl Caught {
    /// Catches `signals` from now on.
    pub(crate) fn take(signals: &[c_int]) -> io::Result<Self> {
        let mut caught = Self { before: Vec::with_capacity(signals.len()) };
        for number in signals {
            CAME.fetch_and(!bit(*number), Ordering::SeqCst);
            // SAFETY: an all-zero `sigaction` is a valid value of that plain C structure.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = came as extern "C" fn(c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            let mut before = action;
            // SAFETY: both are valid; the handler only sets a bit, which it may do at any moment.
            if unsafe { libc::sigaction(*number, &raw const action, &raw mut before) } != 0 {
                return Err(io::Error::last_os_error());
            }
            caught.before.push((*number, before));
        }
        Ok(caught)
    }

    /// A signal that has come, the one with the lowest number first.
    pub(crate) fn next(&self) -> Option<c_int> {
        let mut own = self.before.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        own.sort_unstable();
        own.into_iter().find(|number| CAME.fetch_and(!bit(*number), Ordering::SeqCst) & bit(*number) != 0)
    }

    /// Waits until one has come, but not longer than `time`.
    pub(crate) fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        let own = self.before.iter().fold(0, |bits, (number, _)| bits | bit(*number));
        while CAME.load(Ordering::SeqCst) & own == 0 && Instant::now() < until {
            std::thread::sleep(GLANCE.min(time));
        }
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        for (number, before) in &self.before {
            // SAFETY: gives back what was found; no old action is asked for.
            unsafe { libc::sigaction(*number, &raw const *before, std::ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raise(number: c_int) {
        // SAFETY: the signal is caught by the value under test.
        unsafe { libc::raise(number) };
    }

    #[test]
    fn one_signal_does_not_hide_another() {
        // None of those that a launch passes on: other tests do that.
        let caught = Caught::take(&[libc::SIGURG, libc::SIGIO, libc::SIGVTALRM]).unwrap();
        assert_eq!(caught.next(), None);
        for number in [libc::SIGVTALRM, libc::SIGIO, libc::SIGIO] {
            raise(number);
        }
        let came: std::collections::BTreeSet<_> =
            [caught.next(), caught.next()].into_iter().flatten().collect();
        assert_eq!(came, [libc::SIGIO, libc::SIGVTALRM].into_iter().collect());
        assert_eq!(caught.next(), None);
        raise(libc::SIGURG);
        let begun = Instant::now();
        caught.wait(Duration::from_secs(60));
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert_eq!(caught.next(), Some(libc::SIGURG));
        drop(caught);
        // By default this one does nothing; were the handler still there it would be kept.
        raise(libc::SIGURG);
        assert_eq!(CAME.load(Ordering::SeqCst) & bit(libc::SIGURG), 0);
    }
}
