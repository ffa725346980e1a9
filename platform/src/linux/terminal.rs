//! Private terminals.
//!
//! Answers for pairs from the terminal file system inside, and for who is in front of one. It leaves moving bytes to the relay, and the user's own
//! terminal to [`crate::terminal`].
//! Invariant: the user's terminal is never handed inside.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use crate::linux::sys::{check_int, fd, process, signal};

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

/// Makes this process the leader of a session that `terminal` controls. The command is another process of that
/// session: one whose parent stands outside could not be stopped from the terminal.
pub(crate) fn lead(terminal: RawFd) -> io::Result<()> {
    // bubblewrap has made a session already.
    let _ = process::new_session();
    // What hangs up is for the command to mind; this process ends with its line.
    signal::ignore(libc::SIGHUP);
    crate::terminal::control(terminal)
}

/// Makes this process a group of its own, to which `terminal` listens.
pub(crate) fn come_to_the_front(terminal: RawFd) -> io::Result<()> {
    // SAFETY: plain integers; this process becomes a group of its own.
    check_int(unsafe { libc::setpgid(0, 0) })?;
    // Whoever is not in front yet is stopped for asking, unless it does not mind.
    signal::ignore(libc::SIGTTOU);
    // SAFETY: takes nothing.
    let group = unsafe { libc::getpid() };
    // SAFETY: a descriptor and an integer.
    let done = check_int(unsafe { libc::tcsetpgrp(terminal, group) });
    signal::set_default(libc::SIGTTOU);
    signal::set_default(libc::SIGHUP);
    done.map(drop)
}
