//! The sockets of one launch on their way out.
//!
//! Answers for carrying them over a line, each with what it is, and for making [`Doors`] of them at the end. It
//! leaves making them to its neighbours.
//! Invariant: a kit arrives whole or not at all.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::book::Book;
use super::destinations::{Arrived, Remembered};
use super::inward::Line;
use crate::door::{Destinations, Doors, Inward, Way};
use crate::linux::sys::{errno, socket};

/// What one descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A listener for connections.
    Stream,
    /// A listener for a service of the host.
    Service,
    /// Where names are asked for by datagram.
    Names,
    /// Where names are asked for by stream.
    NameStream,
    /// The explicit proxy.
    Proxy,
    /// A line on which sockets of the inner network can be had.
    Inward,
    /// The book of connections made on the command's behalf.
    Book,
}

const PARTS: [Part; 7] =
    [Part::Stream, Part::Service, Part::Names, Part::NameStream, Part::Proxy, Part::Inward, Part::Book];
const WAYS: [Way; 3] = [Way::Redirected, Way::PerPort, Way::OnBehalf];
/// The first byte of a message with descriptors of a kit.
pub(crate) const MARK: u8 = b'D';
/// Descriptors in one message.
const AT_ONCE: usize = 64;
/// Bytes of one message: the mark, the way, whether it is the last, and one for each descriptor.
pub(crate) const CHUNK: usize = 3 + AT_ONCE;

/// The sockets, and how connections come to them.
#[derive(Debug)]
pub(crate) struct Kit {
    pub(crate) way: Way,
    pub(crate) parts: Vec<(Part, OwnedFd)>,
}

impl Kit {
    /// Sends copies of all of it.
    pub(crate) fn send(&self, line: BorrowedFd<'_>) -> io::Result<()> {
        let count = self.parts.chunks(AT_ONCE).count();
        for (at, chunk) in self.parts.chunks(AT_ONCE).enumerate() {
            let mut bytes = vec![MARK, place(&WAYS, self.way), u8::from(at + 1 == count)];
            bytes.extend(chunk.iter().map(|(part, _)| place(&PARTS, *part)));
            let numbers: Vec<RawFd> = chunk.iter().map(|(_, fd)| fd.as_raw_fd()).collect();
            socket::send_many(line, &bytes, &numbers)?;
        }
        Ok(())
    }

    /// As whoever serves them wants them.
    pub(crate) fn into_doors(self) -> io::Result<Doors> {
        let mut streams: Vec<TcpListener> = Vec::new();
        let (mut services, mut names, mut name_streams) = (Vec::new(), Vec::new(), Vec::new());
        let (mut proxy, mut inward, mut book) = (None, None, None);
        for (part, fd) in self.parts {
            match part {
                Part::Stream => streams.push(fd.into()),
                Part::Service => services.push(fd.into()),
                Part::Names => names.push(fd.into()),
                Part::NameStream => name_streams.push(fd.into()),
                Part::Proxy => proxy = Some(fd.into()),
                Part::Inward => inward = Some(fd),
                Part::Book => book = Some(fd),
            }
        }
        let destinations: Box<dyn Destinations> = match self.way {
            Way::Redirected => {
                let listeners = streams.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
                Box::new(Remembered { listeners })
            }
            Way::PerPort => Box::new(Arrived),
            Way::OnBehalf => {
                let file = book.ok_or_else(|| errno(libc::EPROTO))?;
                Box::new(Book::find(&file)?)
            }
        };
        streams.extend(services);
        let inward: Option<Box<dyn Inward>> = match inward {
            Some(fd) => Some(Box::new(Line::new(fd)?)),
            None => None,
        };
        Ok(Doors { way: self.way, streams, names, name_streams, proxy, destinations, inward })
    }
}

fn place<T: PartialEq>(all: &[T], one: T) -> u8 {
    all.iter().position(|each| *each == one).and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}

/// A kit of which a part has come.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    parts: Vec<(Part, OwnedFd)>,
}

impl Arriving {
    /// Adds a message; the kit if it was the last. What is malformed is dropped, and nothing comes of it.
    pub(crate) fn add(&mut self, bytes: &[u8], fds: Vec<OwnedFd>) -> Option<Kit> {
        let [MARK, way, last, kinds @ ..] = bytes else { return None };
        let way = *WAYS.get(usize::from(*way))?;
        if kinds.len() != fds.len() {
            return None;
        }
        for (kind, fd) in kinds.iter().zip(fds) {
            self.parts.push((*PARTS.get(usize::from(*kind))?, fd));
        }
        (*last == 1).then(|| Kit { way, parts: std::mem::take(&mut self.parts) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_kit_arrives_as_it_was_sent() {
        let (ours, theirs) = socket::pair().unwrap();
        let parts = (0..150).map(|at| {
            let part = if at == 149 { Part::Book } else { Part::Stream };
            (part, theirs.try_clone().unwrap())
        });
        let kit = Kit { way: Way::PerPort, parts: parts.collect() };
        kit.send(theirs.as_fd()).unwrap();
        let mut arriving = Arriving::default();
        let arrived = loop {
            let mut buffer = [0; CHUNK];
            let (length, fds) = socket::receive_many(ours.as_fd(), &mut buffer, 0).unwrap();
            if let Some(kit) = arriving.add(&buffer[..length], fds) {
                break kit;
            }
        };
        assert_eq!(arrived.way, Way::PerPort);
        assert_eq!(arrived.parts.len(), 150);
        assert_eq!(arrived.parts[149].0, Part::Book);
    }

    #[test]
    fn garbage_is_no_kit() {
        for bytes in [b"".as_slice(), b"D", b"D\x09\x01", b"D\0\x01\0", b"X\0\x01"] {
            assert!(Arriving::default().add(bytes, Vec::new()).is_none(), "{bytes:?}");
        }
    }
}
