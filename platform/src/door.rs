//! The doors between a fenced network and whoever serves it.
//!
//! Answers for the vocabulary: what sockets come out of a launch, and how a connection's destination is told.
//! It leaves making the sockets to the backends and every decision about names to whoever serves them.
//! Invariant: a socket of a door belongs to the fence's own network; serving it is the only way out of there.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::BorrowedFd;

#[cfg(target_os = "linux")]
use crate::linux::sys::datagram;

/// How connections come to the doors; each way is a guarantee by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Every TCP connection and every question of port 53 is led to one door by rules inside.
    Redirected,
    /// One listener for every port in [`crate::plan::Gateway::ports`]; other ports are refused at once.
    PerPort,
    /// No network of its own: the launcher connects the command's own sockets to the door.
    OnBehalf,
}

/// Where a connection was meant to go.
pub trait Destinations: Send + Sync + std::fmt::Debug {
    /// The address the command asked for, or `None` when this connection was not made by the command.
    ///
    /// To be asked once for every connection that comes to any of the doors, the proxy and names by stream
    /// included: with [`Way::OnBehalf`] the doors stand on the host's loopback, where others can find them.
    fn of(&self, stream: BorrowedFd<'_>) -> Option<SocketAddr>;
}

/// The sockets that come out of one launch, to be served until they hang up.
#[derive(Debug)]
pub struct Doors {
    /// How connections come here.
    pub way: Way,
    /// Where connections arrive whose destination is asked of [`Doors::destinations`].
    pub streams: Vec<TcpListener>,
    /// Where names are asked for by datagram, which is for [`Asker`] to read.
    pub names: Vec<UdpSocket>,
    /// Where names are asked for by stream.
    pub name_streams: Vec<TcpListener>,
    /// Where programs come that were told of a proxy; HTTP, CONNECT and SOCKS5h on one port.
    pub proxy: Option<TcpListener>,
    /// Tells a connection's destination.
    pub destinations: Box<dyn Destinations>,
    /// Reaches ports inside, for [`crate::plan::Gateway::published`].
    pub inward: Option<Box<dyn Inward>>,
}

/// Who asked by datagram, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Who.
    pub from: SocketAddr,
    /// The address that was asked, which is where the answer must come from.
    pub asked: Option<IpAddr>,
}

impl Asker {
    /// The next question on a socket of [`Doors::names`], without waiting for one: its length, and who asked.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
    pub fn next(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<(usize, Self)> {
        let (length, from, asked) = datagram::receive(socket, room)?;
        Ok((length, Self { from, asked }))
    }

    /// Answers on the socket the question came to, from the address that was asked.
    ///
    /// # Errors
    /// When the datagram cannot be sent now.
    pub fn answer(&self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
        datagram::send(socket, bytes, self.from, self.asked)
    }
}

/// Where there is no network of a launch's own, nobody asks.
#[cfg(not(target_os = "linux"))]
mod datagram {
    use std::io;
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::BorrowedFd;

    pub(super) fn receive(
        _: BorrowedFd<'_>,
        _: &mut [u8],
    ) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn send(_: BorrowedFd<'_>, _: &[u8], _: SocketAddr, _: Option<IpAddr>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Connects from outside to a port the command listens on inside.
pub trait Inward: Send + Sync + std::fmt::Debug {
    /// A stream to that port inside.
    ///
    /// # Errors
    /// When nothing listens there, or no more connections can be had.
    fn connect(&self, port: u16) -> io::Result<TcpStream>;
}

/// Whoever attends a launch: is told that it has begun, and serves its doors if it has any.
pub trait Porter {
    /// The fence is being built; the command waits until this has returned. Called once, and what is done here
    /// costs no time while the fence takes longer.
    ///
    /// # Errors
    /// The launch is given up.
    fn begun(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Takes the doors once, before the command starts; serves them from threads of its own.
    ///
    /// # Errors
    /// The launch is given up.
    fn open(&mut self, doors: Doors) -> io::Result<()>;
}
