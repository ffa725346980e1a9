//! Pipes that cannot be opened yet.
//!
//! Answers for opening a pipe for writing without holding up other callers. It leaves the waiting itself to
//! [`super::listener`].
//! Invariant: trying never waits.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libc::c_int;

use super::Done;
use super::resolve::Resolver;
use crate::linux::sys::fd;

/// A pipe to be opened for writing once it has a reader.
#[derive(Debug)]
pub(super) struct Waiting {
    proc: OwnedFd,
    object: OwnedFd,
    flags: c_int,
}

impl Waiting {
    /// Opens at once if that does not wait, else remembers how to.
    pub(super) fn begin(resolver: &Resolver, object: &OwnedFd, flags: c_int) -> io::Result<Done> {
        let flags = flags & !libc::O_NOFOLLOW;
        let object = fd::dup_above(object.as_raw_fd(), 3)?;
        let waiting = Self { proc: fd::dup_above(resolver.proc().as_raw_fd(), 3)?, object, flags };
        match waiting.try_open() {
            Some(opened) => Ok(Done::Open(opened?, flags)),
            None => Ok(Done::Waiting(waiting)),
        }
    }

    /// Opens without waiting; `None` while there is no reader and the caller wants to wait.
    pub(super) fn try_open(&self) -> Option<io::Result<OwnedFd>> {
        let name = match CString::new(format!("self/fd/{}", self.object.as_raw_fd())) {
            Ok(name) => name,
            Err(error) => return Some(Err(error.into())),
        };
        match fd::open(self.proc.as_fd(), &name, self.flags | libc::O_NONBLOCK, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) && self.flags & libc::O_NONBLOCK == 0 => {
                None
            }
            Ok(file) if self.flags & libc::O_NONBLOCK == 0 => {
                Some(fd::set_blocking(file.as_raw_fd()).map(|()| file))
            }
            other => Some(other),
        }
    }

    /// The caller's flags.
    pub(super) fn flags(&self) -> c_int {
        self.flags
    }
}
