//! The user's terminal and the sizes of others.
//!
//! Answers for the raw mode of the user's own, for making a terminal the controlling one, and for window sizes. It
//! leaves private terminals to the backends.
//! Invariant: the user's terminal gets back the mode it was found in.

use std::io;
use std::os::fd::RawFd;

/// Makes `terminal` the controlling terminal of this session.
pub(crate) fn control(terminal: RawFd) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes a plain integer.
    if unsafe { libc::ioctl(terminal, libc::TIOCSCTTY as _, 0) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
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
        if unsafe { libc::tcgetattr(terminal, &raw mut before) } != 0 {
            return None;
        }
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
