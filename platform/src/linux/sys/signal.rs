//! Signals as readable descriptors.
//!
//! Answers for blocking, collecting and giving back signals. It leaves what a signal means to the supervisor.
//! Invariant: the mask taken by [`Collected::take`] is given back exactly, also to the child.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use libc::{c_int, c_long};

use super::{check, check_int, fd};

/// Signals held back for a while.
#[derive(Debug)]
pub(crate) struct Held {
    before: libc::sigset_t,
}

impl Held {
    /// Holds back `set` on this thread.
    pub(crate) fn take(set: &libc::sigset_t) -> io::Result<Self> {
        let mut before = empty();
        // SAFETY: both sets are valid and live through the call.
        let done = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const *set, &raw mut before) };
        if done == 0 { Ok(Self { before }) } else { Err(io::Error::from_raw_os_error(done)) }
    }

    /// The mask that stood before.
    pub(crate) fn before(&self) -> libc::sigset_t {
        self.before
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: `before` was filled by the kernel; no old mask is asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Signals collected on a descriptor instead of being delivered.
#[derive(Debug)]
pub(crate) struct Collected {
    line: OwnedFd,
    before: libc::sigset_t,
}

fn empty() -> libc::sigset_t {
    // SAFETY: an all-zero signal set is the empty set.
    unsafe { std::mem::zeroed() }
}

fn apply(how: c_int, set: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    let mut before = empty();
    // SAFETY: both sets are valid and live through the call.
    check_int(unsafe { libc::sigprocmask(how, &raw const *set, &raw mut before) })?;
    Ok(before)
}

/// The set of these signals.
pub(crate) fn set_of(signals: &[c_int]) -> libc::sigset_t {
    let mut set = empty();
    for signal in signals {
        // SAFETY: `set` is a valid signal set; an unknown number only fails.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    set
}

/// A set without these signals.
pub(crate) fn without(mut set: libc::sigset_t, signals: &[c_int]) -> libc::sigset_t {
    for signal in signals {
        // SAFETY: `set` is a valid signal set; an unknown number only fails.
        unsafe { libc::sigdelset(&raw mut set, *signal) };
    }
    set
}

/// Replaces the mask of blocked signals.
pub(crate) fn set_mask(set: &libc::sigset_t) -> io::Result<()> {
    apply(libc::SIG_SETMASK, set).map(drop)
}

/// Gives `signal` its default action.
pub(crate) fn set_default(signal: c_int) {
    // SAFETY: the default action runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Has `signal` do nothing.
pub(crate) fn ignore(signal: c_int) {
    // SAFETY: ignoring runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

impl Collected {
    /// Blocks `signals` and opens a descriptor on which they arrive.
    pub(crate) fn take(signals: &[c_int]) -> io::Result<Self> {
        let set = set_of(signals);
        let before = apply(libc::SIG_BLOCK, &set)?;
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: `set` is valid; -1 asks for a new descriptor.
        let raw = check_int(unsafe { libc::signalfd(-1, &raw const set, flags) })?;
        Ok(Self { line: fd::own(c_long::from(raw))?, before })
    }

    /// The mask that stood before.
    pub(crate) fn mask_before(&self) -> libc::sigset_t {
        self.before
    }

    /// The descriptor to wait on.
    pub(crate) fn raw(&self) -> RawFd {
        self.line.as_raw_fd()
    }

    /// Waits until one has arrived, but not longer than `time`.
    pub(crate) fn wait(&self, time: Duration) {
        fd::readable_within(self.raw(), time);
    }

    /// The next signal that has arrived.
    pub(crate) fn next(&self) -> Option<c_int> {
        let mut buffer = [0_u8; size_of::<libc::signalfd_siginfo>()];
        match fd::read(self.raw(), &mut buffer) {
            Ok(length) if length == buffer.len() => {
                let number = u32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
                c_int::try_from(number).ok()
            }
            Ok(_) | Err(_) => None,
        }
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        let _ = set_mask(&self.before);
    }
}

/// Stops this process until someone continues it.
pub(crate) fn stop_self() {
    // SAFETY: stops the process; nothing else is concerned.
    let _ = check(c_long::from(unsafe { libc::raise(libc::SIGSTOP) }));
}

/// Stops this process, and those that the user started with it, as the terminal would; where nobody is there who
/// could continue them, the kernel goes on at once.
pub(crate) fn stop_group() {
    set_default(libc::SIGTSTP);
    let before = apply(libc::SIG_UNBLOCK, &set_of(&[libc::SIGTSTP]));
    // SAFETY: plain integers; 0 is the group of this process.
    let _ = check_int(unsafe { libc::kill(0, libc::SIGTSTP) });
    if let Ok(before) = before {
        let _ = set_mask(&before);
    }
}
