//! From outside to a port inside.
//!
//! Answers for getting a socket of the inner network from the keeper, which stands there, and for connecting it
//! from outside. It leaves which ports are published to whoever serves them.
//! Invariant: the keeper makes sockets and connects none.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Mutex;

use crate::door::Inward;
use crate::linux::sys::{errno, inet, number, socket};

/// How long connecting may take, in milliseconds.
const PATIENCE: i32 = 5_000;
/// A question: the family and the port.
const QUESTION: usize = 3;
/// An answer: the error and the port.
const ANSWER: usize = 6;

/// The outer end.
#[derive(Debug)]
pub(super) struct Line(Mutex<OwnedFd>);

impl Line {
    pub(super) fn new(line: OwnedFd) -> io::Result<Self> {
        inet::set_patience(line.as_raw_fd(), 5)?;
        Ok(Self(Mutex::new(line)))
    }

    /// A socket of the inner network, and the port there that stands for `port`.
    fn socket(&self, six: bool, port: u16) -> io::Result<(OwnedFd, u16)> {
        let line = self.0.lock().map_err(|_| errno(libc::EIO))?;
        let [low, high] = port.to_le_bytes();
        socket::send(line.as_fd(), &[u8::from(six), low, high], None)?;
        let mut answer = [0; ANSWER];
        let received = socket::receive(line.as_fd(), &mut answer, 0)?;
        let [code @ .., low, high] = answer;
        match received {
            (ANSWER, Some(made)) => Ok((made, u16::from_le_bytes([low, high]))),
            (ANSWER, None) => Err(errno(i32::from_le_bytes(code))),
            _ => Err(errno(libc::EPIPE)),
        }
    }
}

impl Inward for Line {
    fn connect(&self, port: u16) -> io::Result<TcpStream> {
        let to = |six: bool| {
            let (socket, port) = self.socket(six, port)?;
            let address: SocketAddr =
                if six { (Ipv6Addr::LOCALHOST, port).into() } else { (Ipv4Addr::LOCALHOST, port).into() };
            inet::connect_within(&socket, address, PATIENCE)?;
            Ok(TcpStream::from(socket))
        };
        to(false).or_else(|error: io::Error| match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => to(true),
            _ => Err(error),
        })
    }
}

/// The inner end: answers one question. `find` tells which port stands for the one asked for.
pub(crate) fn answer(line: &OwnedFd, find: impl FnOnce(bool, u16) -> Option<u16>) -> io::Result<()> {
    let mut question = [0; QUESTION];
    let (length, _) = socket::receive(line.as_fd(), &mut question, libc::MSG_DONTWAIT)?;
    if length != QUESTION {
        return Err(errno(libc::EPIPE));
    }
    let (six, port) = (question[0] == 1, u16::from_le_bytes([question[1], question[2]]));
    let made = find(six, port)
        .ok_or_else(|| errno(libc::ECONNREFUSED))
        .and_then(|found| Ok((inet::unconnected(six)?, found)));
    let (code, port, made) = match made {
        Ok((made, found)) => (0, found, Some(made)),
        Err(error) => (number(&error), 0, None),
    };
    let bytes = [i32::to_le_bytes(code).as_slice(), &u16::to_le_bytes(port)].concat();
    socket::send(line.as_fd(), &bytes, made.as_ref().map(AsRawFd::as_raw_fd))
}
