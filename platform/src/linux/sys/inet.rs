//! Internet sockets: what the standard library has no name for.
//!
//! Answers for options, original destinations and connecting a socket that exists already. It leaves who may
//! connect where to the callers.
//! Invariant: addresses go in and come out as the standard library's own.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long, socklen_t};

use super::{check_int, errno, fd};

/// The kernel's form of an address.
#[repr(C, align(8))]
pub(crate) struct Raw([u8; 28]);

impl Raw {
    /// The bytes the kernel reads or writes.
    pub(crate) fn of(address: SocketAddr) -> (Self, usize) {
        let mut raw = Self([0; 28]);
        raw.0[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(four) => {
                raw.0[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                raw.0[4..8].copy_from_slice(&four.ip().octets());
                (raw, 16)
            }
            SocketAddr::V6(six) => {
                raw.0[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                raw.0[4..8].copy_from_slice(&six.flowinfo().to_be_bytes());
                raw.0[8..24].copy_from_slice(&six.ip().octets());
                raw.0[24..28].copy_from_slice(&six.scope_id().to_ne_bytes());
                (raw, 28)
            }
        }
    }

    /// Room for the kernel to write one.
    pub(crate) fn empty() -> Self {
        Self([0; 28])
    }

    /// Where that room is, and how much.
    pub(crate) fn room(&mut self) -> (*mut libc::c_void, socklen_t) {
        (self.0.as_mut_ptr().cast(), self.0.len() as socklen_t)
    }

    /// What the kernel wrote into it.
    pub(crate) fn read(&self, length: socklen_t) -> Option<SocketAddr> {
        Self::parse(self.0.get(..usize::try_from(length).ok()?)?)
    }

    /// What `bytes` in the kernel's form say; `None` for other families and what is too short.
    pub(crate) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
        let family = c_int::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
        let word = |from: usize| -> Option<[u8; 4]> { bytes.get(from..from + 4)?.try_into().ok() };
        match family {
            libc::AF_INET if bytes.len() >= 16 => {
                Some(SocketAddrV4::new(Ipv4Addr::from(word(4)?), port).into())
            }
            libc::AF_INET6 if bytes.len() >= 24 => {
                let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
                let scope = u32::from_ne_bytes(word(24).unwrap_or_default());
                Some(SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope).into())
            }
            _ => None,
        }
    }
}

/// Sets an option.
pub(crate) fn set(socket: RawFd, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe one readable slice.
    let done =
        unsafe { libc::setsockopt(socket, level, option, value.as_ptr().cast(), value.len() as socklen_t) };
    check_int(done).map(drop)
}

/// Lets `count` connections wait.
pub(crate) fn listen(socket: RawFd, count: c_int) -> io::Result<()> {
    // SAFETY: plain integers; a bad descriptor is reported by the kernel.
    check_int(unsafe { libc::listen(socket, count) }).map(drop)
}

/// Bursts of datagrams are kept, as far as the kernel lets an ordinary user have it.
pub(crate) fn widen_receive_buffer(socket: RawFd) {
    const BYTES: c_int = 4 << 20;
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &BYTES.to_ne_bytes());
}

/// Reading gives up after so many seconds.
pub(crate) fn set_patience(socket: RawFd, seconds: i64) -> io::Result<()> {
    let time = [seconds.to_ne_bytes(), 0_i64.to_ne_bytes()].concat();
    set(socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &time)
}

/// Where a redirected connection was meant to go.
pub(crate) fn original_destination(socket: RawFd, six: bool) -> Option<SocketAddr> {
    const ORIGINAL_DESTINATION: c_int = 80;
    let level = if six { libc::SOL_IPV6 } else { libc::SOL_IP };
    let mut raw = Raw([0; 28]);
    let mut length = raw.0.len() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of the buffer.
    let done = unsafe {
        libc::getsockopt(socket, level, ORIGINAL_DESTINATION, raw.0.as_mut_ptr().cast(), &raw mut length)
    };
    check_int(done).ok()?;
    raw.read(length)
}

/// A stream socket that is not connected.
pub(crate) fn unconnected(six: bool) -> io::Result<OwnedFd> {
    let family = if six { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: plain integers.
    let raw = check_int(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    fd::own(c_long::from(raw))
}

/// A socket for datagrams of one family only.
pub(crate) fn datagrams(six: bool) -> io::Result<OwnedFd> {
    let family = if six { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: plain integers.
    let raw = check_int(unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    let socket = fd::own(c_long::from(raw))?;
    if six {
        set(raw, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1_i32.to_ne_bytes())?;
    }
    Ok(socket)
}

/// Begins to connect `socket`; the kernel's answer, `EINPROGRESS` included.
pub(crate) fn connect(socket: RawFd, address: SocketAddr) -> io::Result<()> {
    let (raw, length) = Raw::of(address);
    // SAFETY: pointer and length describe one readable address.
    check_int(unsafe { libc::connect(socket, raw.0.as_ptr().cast(), length as socklen_t) }).map(drop)
}

/// Connects `socket`, waiting at most so many milliseconds.
pub(crate) fn connect_within(socket: &OwnedFd, address: SocketAddr, patience: c_int) -> io::Result<()> {
    let raw = socket.as_raw_fd();
    fd::set_nonblocking(raw)?;
    match connect(raw, address) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
            let mut wait = [libc::pollfd { fd: raw, events: libc::POLLOUT, revents: 0 }];
            fd::poll(&mut wait, patience)?;
            if wait[0].revents == 0 {
                return Err(errno(libc::ETIMEDOUT));
            }
            failure(raw)?;
        }
        other => other?,
    }
    fd::set_blocking(raw)
}

/// One of the socket's own numbers.
fn own_number(socket: RawFd, option: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: the kernel writes one integer.
    let done = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, option, (&raw mut value).cast(), &raw mut length)
    };
    check_int(done).map(|_| value)
}

/// What became of connecting in the background.
fn failure(socket: RawFd) -> io::Result<()> {
    match own_number(socket, libc::SO_ERROR)? {
        0 => Ok(()),
        code => Err(errno(code)),
    }
}

/// Whether a socket can only talk to the one it is joined to: one end of a pair of streams or packets on this machine.
/// Any other could be led elsewhere, in the network it was made in.
pub(crate) fn is_joined(socket: RawFd) -> bool {
    let number = |option| own_number(socket, option).ok();
    let mut peer: libc::sockaddr_storage = empty_address();
    let mut length = size_of::<libc::sockaddr_storage>() as socklen_t;
    number(libc::SO_DOMAIN) == Some(libc::AF_UNIX)
        && matches!(number(libc::SO_TYPE), Some(libc::SOCK_STREAM | libc::SOCK_SEQPACKET))
        && number(libc::SO_ACCEPTCONN) == Some(0)
        // SAFETY: `peer` has room for any address, and `length` says how much.
        && unsafe { libc::getpeername(socket, (&raw mut peer).cast(), &raw mut length) } == 0
}

fn empty_address() -> libc::sockaddr_storage {
    // SAFETY: all zeros are a valid address of that plain C structure.
    unsafe { std::mem::zeroed() }
}

/// The family of any socket.
pub(crate) fn family(socket: RawFd) -> io::Result<c_int> {
    own_number(socket, libc::SO_DOMAIN)
}

/// Whether it is a TCP socket of either family, and no other kind of stream.
pub(crate) fn is_tcp(socket: RawFd) -> io::Result<bool> {
    let known = [libc::AF_INET, libc::AF_INET6].contains(&family(socket)?);
    Ok(known
        && own_number(socket, libc::SO_TYPE)? == libc::SOCK_STREAM
        && own_number(socket, libc::SO_PROTOCOL)? == libc::IPPROTO_TCP)
}

/// The address a socket has.
pub(crate) fn local(socket: RawFd) -> io::Result<SocketAddr> {
    let mut raw = Raw([0; 28]);
    let mut length = raw.0.len() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of the buffer.
    check_int(unsafe { libc::getsockname(socket, raw.0.as_mut_ptr().cast(), &raw mut length) })?;
    raw.read(length).ok_or_else(|| errno(libc::EAFNOSUPPORT))
}

/// The address of a socket's other end.
pub(crate) fn peer(socket: RawFd) -> io::Result<SocketAddr> {
    let mut raw = Raw([0; 28]);
    let mut length = raw.0.len() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of the buffer.
    check_int(unsafe { libc::getpeername(socket, raw.0.as_mut_ptr().cast(), &raw mut length) })?;
    raw.read(length).ok_or_else(|| errno(libc::EAFNOSUPPORT))
}

/// Whether a socket has another end.
pub(crate) fn is_connected(socket: RawFd) -> bool {
    peer(socket).is_ok()
}

/// Gives a socket an address.
pub(crate) fn bind(socket: RawFd, address: SocketAddr) -> io::Result<()> {
    let (raw, length) = Raw::of(address);
    // SAFETY: pointer and length describe one readable address.
    check_int(unsafe { libc::bind(socket, raw.0.as_ptr().cast(), length as socklen_t) }).map(drop)
}

/// Lets a socket of the newer family speak to the older one too.
pub(crate) fn allow_both_families(socket: RawFd) -> io::Result<()> {
    set(socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &0_i32.to_ne_bytes())
}

/// Dissolves a connection, or what there is of one.
pub(crate) fn disconnect(socket: RawFd) -> io::Result<()> {
    let raw = Raw([0; 28]);
    // SAFETY: pointer and length describe one readable address, of no family.
    check_int(unsafe { libc::connect(socket, raw.0.as_ptr().cast(), 16) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_form() {
        for text in ["127.0.0.1:80", "198.18.0.7:443", "[::1]:53", "[2001:db8::7%3]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            let (raw, length) = Raw::of(address);
            assert_eq!(Raw::parse(&raw.0[..length]), Some(address), "{text}");
            assert_eq!(Raw::parse(&raw.0[..8]), None);
        }
        assert_eq!(Raw::parse(&[1, 0, b'/', 0]), None);
    }
}
