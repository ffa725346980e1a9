//! The caller's standard input, where it is more than a descriptor to read from.
//!
//! Answers for a terminal that others are in front of, and for a file of which more was read than the command took. It
//! leaves moving bytes to [`super::relay`].
//! Invariant: a terminal is not read from behind, for which the kernel would stop us; and a file is never left further
//! on than what left for the command.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::linux::sys::fd;

/// What standard input is.
#[derive(Debug)]
pub(crate) enum Input {
    /// Something that is read as it comes.
    Plain,
    /// A terminal, which only those in front of it may read.
    Terminal,
    /// A file, and the command's end of the pipe through which it is passed on: what is in there when all has ended was
    /// taken by nobody.
    File(OwnedFd),
}

impl Input {
    /// That of descriptor `number`, which is passed on through the pipe that `read` is an end of.
    pub(crate) fn of(number: RawFd, read: &OwnedFd) -> io::Result<Self> {
        let found = fd::stat(number)?;
        Ok(match found.st_mode & libc::S_IFMT {
            libc::S_IFREG => Self::File(fd::dup_above(read.as_raw_fd(), 3)?),
            libc::S_IFCHR => Self::Terminal,
            _ => Self::Plain,
        })
    }

    /// Whether reading has to wait, because somebody else is in front of the terminal.
    pub(crate) fn is_behind(&self, number: RawFd) -> bool {
        match self {
            Self::Terminal => is_behind(number),
            Self::Plain | Self::File(_) => false,
        }
    }

    /// Sets a file back by what was read from it and is still `held`, or in the pipe; called when all has ended.
    pub(crate) fn give_back(&self, number: RawFd, held: usize) {
        let Self::File(pipe) = self else { return };
        let left = held + fd::waiting(pipe.as_raw_fd()).unwrap_or(0);
        if left > 0 {
            // Where it cannot be, it stays read.
            let _ = fd::seek_back(number, left);
        }
    }
}

/// Whether others are in front of this terminal; of one that is not ours to be in front of, nobody is.
fn is_behind(terminal: RawFd) -> bool {
    // SAFETY: a descriptor.
    let front = unsafe { libc::tcgetpgrp(terminal) };
    // SAFETY: takes nothing.
    front > 0 && front != unsafe { libc::getpgrp() }
}
