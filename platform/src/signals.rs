//! Signals to this process: which are collected, and what they mean for a command that is waited for.
//!
//! Answers for collecting the wishes to end, and for the meaning of signals that a launcher passes on. It leaves
//! what is done about them to the caller.
//! Invariant: while a value lives, these signals do nothing by themselves.

use std::io;
use std::time::Duration;

#[cfg(not(target_os = "linux"))]
use crate::caught::Caught as Collected;
#[cfg(target_os = "linux")]
use crate::linux::sys::signal::Collected;

/// Signals that a launcher passes on to its command.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(crate) const FORWARDED: [libc::c_int; 9] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// Those of `signals` that this process was not started with orders to ignore: what `nohup` and a shell's `&` have
/// ignored stays so, here and in the command, as without a launcher.
pub(crate) fn minded(signals: &[libc::c_int]) -> Vec<libc::c_int> {
    signals.iter().copied().filter(|number| !is_ignored(*number)).collect()
}

fn is_ignored(number: libc::c_int) -> bool {
    // SAFETY: an all-zero `sigaction` is a valid value of that plain C structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only asks, and writes what it finds to a structure of the right type.
    let asked = unsafe { libc::sigaction(number, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// How long a command asked to end may take before it is killed.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// What a signal to the launcher asks for.
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// That the command's terminal takes the size of the user's.
    Resize,
    /// That command and launcher stop until they are continued.
    Suspend,
    /// That the command ends, now or within [`GRACE`].
    End,
    /// Nothing of the launcher itself.
    Other,
}

/// What a signal asks for.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(crate) fn wish(number: libc::c_int) -> Wish {
    match number {
        libc::SIGWINCH => Wish::Resize,
        libc::SIGTSTP => Wish::Suspend,
        libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT => Wish::End,
        _ => Wish::Other,
    }
}

/// Wishes to end: from a terminal, from a parent, from a terminal that is gone.
#[derive(Debug)]
pub struct Signals {
    collected: Collected,
}

impl Signals {
    /// Collects interrupts, hang-ups and requests to end from now on, for threads started afterwards too, but for those
    /// that this process was started to ignore. Commands that are started meanwhile do not notice.
    ///
    /// # Errors
    /// When they cannot be collected.
    pub fn collect() -> io::Result<Self> {
        let collected = Collected::take(&minded(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]))?;
        Ok(Self { collected })
    }

    /// The next one, if it comes in time.
    #[must_use]
    pub fn next_within(&self, time: Duration) -> Option<i32> {
        self.collected.next().or_else(|| {
            self.collected.wait(time);
            self.collected.next()
        })
    }
}
