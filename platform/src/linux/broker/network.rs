//! Calls about sockets that are performed on the caller's behalf.
//!
//! Answers for reading an address from the caller, once, and for acting on a copy of the caller's own socket. It
//! leaves what an address leads to to [`Behalf`].
//! Invariant: the address that was read is the one that counts. The kernel goes on by itself only for sockets of
//! the file system, and only where Landlock refuses TCP underneath, so that exchanging the address gains nothing.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::Done;
use super::caller::Caller;
use super::listener::Call;
use crate::linux::landlock;
use crate::linux::net::Behalf;
use crate::linux::sys::errno;
use crate::linux::sys::inet::{self, Raw};

/// Longest address the kernel takes.
const ADDRESS_MAX: usize = 128;

/// Performs calls about sockets.
#[derive(Debug)]
pub(super) struct Network {
    behalf: Behalf,
    /// Whether the command itself is refused all TCP.
    refused_underneath: bool,
}

/// Whether `call` is one of them.
pub(super) fn is_network(call: &Call) -> bool {
    matches!(call.name(), "connect" | "bind" | "listen")
}

impl Network {
    pub(super) fn new(behalf: Behalf) -> Self {
        Self { behalf, refused_underneath: landlock::level() >= landlock::TCP }
    }

    pub(super) fn behalf(&self) -> &Behalf {
        &self.behalf
    }

    /// Performs `call`, if its caller is still there after its socket was taken.
    pub(super) fn perform(
        &mut self,
        call: &Call,
        caller: &Caller,
        is_valid: impl Fn() -> bool,
    ) -> io::Result<Done> {
        let socket = || -> io::Result<OwnedFd> {
            let socket = caller.descriptor(call.argument(0) as i32)?;
            // The number may by now be another process's.
            if is_valid() { Ok(socket) } else { Err(errno(libc::ESRCH)) }
        };
        if call.name() == "listen" {
            self.behalf.listen(&socket()?, call.argument(1) as i32)?;
            return Ok(Done::Nothing);
        }
        let mut bytes = [0; ADDRESS_MAX];
        let length = call.argument(2) as u32 as usize;
        let bytes = bytes.get_mut(..length).ok_or_else(|| errno(libc::EINVAL))?;
        if length < 2 {
            return Err(errno(libc::EINVAL));
        }
        caller.bytes(call.argument(1), bytes)?;
        match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
            libc::AF_UNIX if self.refused_underneath => return Ok(Done::Continue),
            libc::AF_UNIX => return Err(errno(libc::EACCES)),
            libc::AF_UNSPEC if call.name() == "connect" => {
                inet::disconnect(socket()?.as_raw_fd())?;
                return Ok(Done::Nothing);
            }
            _ => {}
        }
        let asked = Raw::parse(bytes).ok_or_else(|| errno(libc::EAFNOSUPPORT))?;
        if call.name() == "bind" {
            self.behalf.bind(&socket()?, asked)?;
        } else {
            self.behalf.connect(&socket()?, asked)?;
        }
        Ok(Done::Nothing)
    }
}
