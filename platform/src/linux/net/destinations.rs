//! Where connections were meant to go.
//!
//! Answers for asking the kernel about a connection that came to one of our sockets. It leaves whether it may
//! go there to whoever serves it.
//! Invariant: a connection that was not led here by the fence has no destination.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::door::Destinations;
use crate::linux::sys::inet;

/// Connections led here by the packet filter, which remembers.
#[derive(Debug)]
pub(super) struct Remembered {
    /// The listeners to which connections are led.
    pub(super) listeners: Vec<SocketAddr>,
}

impl Destinations for Remembered {
    fn of(&self, stream: BorrowedFd<'_>) -> Option<SocketAddr> {
        let local = inet::local(stream.as_raw_fd()).ok()?;
        if !self.listeners.contains(&local) {
            return Some(local);
        }
        let meant = inet::original_destination(stream.as_raw_fd(), local.is_ipv6())?;
        // Somebody inside has found the listener itself, which is nobody's destination.
        (meant != local).then_some(meant)
    }
}

/// Connections to addresses that are local inside: theirs is the one they arrived at.
#[derive(Debug)]
pub(super) struct Arrived;

impl Destinations for Arrived {
    fn of(&self, stream: BorrowedFd<'_>) -> Option<SocketAddr> {
        let local = inet::local(stream.as_raw_fd()).ok()?;
        Some(SocketAddr::new(local.ip().to_canonical(), local.port()))
    }
}
