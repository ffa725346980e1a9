//! The book of connections made on the command's behalf.
//!
//! Answers for telling whoever serves the doors where a connection was meant to go, by the port it comes from.
//! The keeper writes an entry before it connects, so it is there when the connection arrives; it is in shared
//! memory, so writing never waits for anybody.
//! Invariant: an entry is read once. A connection without one was made by somebody else on this host.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use crate::door::Destinations;
use crate::linux::sys::inet;
use crate::linux::sys::memory::{self, Shared};

/// Words of one entry: a mark with the port, and the address.
const ENTRY: usize = 4;
const ENTRIES: usize = 1 << 16;
const WRITTEN: u64 = 1 << 63;
const FOUR: u64 = 1 << 32;

/// One entry for every port.
#[derive(Debug)]
pub(super) struct Book(Shared);

impl Book {
    /// An empty book, and the file by which another process finds it.
    pub(super) fn new() -> io::Result<(OwnedFd, Self)> {
        let file = memory::file()?;
        let book = Self::find(&file)?;
        Ok((file, book))
    }

    /// The book in `file`.
    pub(super) fn find(file: &OwnedFd) -> io::Result<Self> {
        Shared::over(file, ENTRY * ENTRIES).map(Self)
    }

    /// Notes that what comes from `port` is meant for `asked`.
    pub(super) fn write(&self, port: u16, asked: SocketAddr) {
        let at = ENTRY * usize::from(port);
        let (family, bits) = match asked.ip() {
            IpAddr::V4(four) => (FOUR, u128::from(four.to_bits())),
            IpAddr::V6(six) => (0, six.to_bits()),
        };
        self.0[at + 1].store((bits >> 64) as u64, Ordering::Relaxed);
        self.0[at + 2].store(bits as u64, Ordering::Relaxed);
        self.0[at].store(WRITTEN | family | u64::from(asked.port()), Ordering::Release);
    }

    /// Takes what was noted for `port` away.
    pub(super) fn take(&self, port: u16) -> Option<SocketAddr> {
        let at = ENTRY * usize::from(port);
        let mark = self.0[at].swap(0, Ordering::Acquire);
        if mark & WRITTEN == 0 {
            return None;
        }
        let [high, low] = [1, 2].map(|word| u128::from(self.0[at + word].load(Ordering::Relaxed)));
        let bits = high << 64 | low;
        let ip: IpAddr = if mark & FOUR == 0 {
            Ipv6Addr::from_bits(bits).into()
        } else {
            Ipv4Addr::from_bits(bits as u32).into()
        };
        Some(SocketAddr::new(ip, mark as u16))
    }
}

impl Destinations for Book {
    fn of(&self, stream: BorrowedFd<'_>) -> Option<SocketAddr> {
        let from = inet::peer(stream.as_raw_fd()).ok()?;
        if from.ip().to_canonical() != IpAddr::V4(Ipv4Addr::LOCALHOST) {
            return None;
        }
        self.take(from.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_once_by_the_other_side() {
        let (file, book) = Book::new().unwrap();
        let other = Book::find(&file).unwrap();
        for (port, text) in [(1, "203.0.113.7:443"), (65535, "[2001:db8::7]:1"), (0, "0.0.0.0:0")] {
            let asked: SocketAddr = text.parse().unwrap();
            book.write(port, asked);
            assert_eq!(other.take(port), Some(asked));
            assert_eq!(other.take(port), None);
            assert_eq!(book.take(port), None);
        }
    }
}
