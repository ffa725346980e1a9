//! Private terminals.
//!
//! Answers for pairs from the terminal file system inside. It leaves moving bytes to the relay, and the user's own
//! terminal to [`crate::terminal`].
//! Invariant: the user's terminal is never handed inside.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::linux::sys::{check_int, fd};

/// A new pair: the supervisor's side and the command's.
pub(crate) fn open_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = libc::O_RDWR | libc::O_NOCTTY;
    let master = fd::open(fd::cwd(), c"/dev/ptmx", flags, 0)?;
    let unlocked: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int.
    check_int(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK as _, &raw const unlocked) })?;
    // SAFETY: TIOCGPTPEER takes flags as a plain integer and answers with a new descriptor.
    let user = check_int(unsafe {
        libc::ioctl(master.as_fd().as_raw_fd(), libc::TIOCGPTPEER as _, flags | libc::O_CLOEXEC)
    })?;
    Ok((master, fd::own(user.into())?))
}
