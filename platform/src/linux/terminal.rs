//! Private terminals.
//!
//! Answers for pairs from the terminal file system inside, for making one the controlling terminal, and for
//! the raw mode of the user's own. It leaves moving bytes to the relay.
//! Invariant: the user's terminal is never handed inside, and its mode is given back.

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
    // SAFETY: TIOCSCTTY takes a plain integer.
    check_int(unsafe { libc::ioctl(terminal, libc::TIOCSCTTY as _, 0) }).map(drop)
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

/// Copies the window size of `from` to `to`; a descriptor that is no terminal is left alone.
pub(crate) fn copy_size(from: RawFd, to: RawFd) {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one `winsize`.
    if unsafe { libc::ioctl(from, libc::TIOCGWINSZ as _, &raw mut size) } == 0 {
        // SAFETY: TIOCSWINSZ reads one `winsize`.
        unsafe { libc::ioctl(to, libc::TIOCSWINSZ as _, &raw const size) };
    }
}

/// The user's terminal in raw mode, given back on drop.
#[derive(Debug)]
pub(crate) struct Raw {
    terminal: RawFd,
    before: libc::termios,
}

impl Raw {
    /// Puts `terminal` into raw mode; `None` if it is no terminal.
    pub(crate) fn enter(terminal: RawFd) -> Option<Self> {
        // SAFETY: an all-zero `termios` is a valid value of that plain C structure.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: `before` is a writable structure of the right type.
        check_int(unsafe { libc::tcgetattr(terminal, &raw mut before) }).ok()?;
        let raw = Self { terminal, before };
        raw.again();
        Some(raw)
    }

    /// Raw mode once more, after the user has stopped and continued us.
    pub(crate) fn again(&self) {
        let mut mode = self.before;
        // SAFETY: `mode` is a valid `termios`.
        unsafe { libc::cfmakeraw(&raw mut mode) };
        // SAFETY: as above.
        unsafe { libc::tcsetattr(self.terminal, libc::TCSADRAIN, &raw const mode) };
    }

    /// The mode as it was found.
    pub(crate) fn give_back(&self) {
        // SAFETY: `before` was filled by tcgetattr.
        unsafe { libc::tcsetattr(self.terminal, libc::TCSADRAIN, &raw const self.before) };
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.give_back();
    }
}
