//! Datagrams with the address they were sent to, and answers that come from there.
//!
//! Answers for the one control message that carries such an address, in both families. It leaves who asks and what
//! is answered to the callers.
//! Invariant: nothing here waits.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use libc::{c_int, c_long};

use super::check;
use super::inet::{Raw, set};

/// Asks the kernel to tell with each datagram where it was sent, and lets answers come from any local address.
pub(crate) fn tell_destinations(socket: RawFd, six: bool) -> io::Result<()> {
    const SIX_FREE_BIND: c_int = 78;
    let on = 1_i32.to_ne_bytes();
    if six {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &on)?;
        // A route alone makes an address local here, which the newer family does not take for one of its own.
        set(socket, libc::IPPROTO_IPV6, SIX_FREE_BIND, &on)
    } else {
        set(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, &on)
    }
}

/// Room for one address in a control message, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Where the parts of a control message stand: its header is a length, a level and a kind.
const DATA: usize = 16;

impl Control {
    /// The address in it, whichever family it is of.
    fn address(&self) -> Option<IpAddr> {
        let word = |at: usize| i32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap_or_default());
        match (word(8), word(12)) {
            // An index, the address to answer from, the address in the header.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let octets: [u8; 4] = self.0[DATA + 8..DATA + 12].try_into().ok()?;
                Some(Ipv4Addr::from(octets).into())
            }
            // The address in the header, an index.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let octets: [u8; 16] = self.0[DATA..DATA + 16].try_into().ok()?;
                Some(Ipv6Addr::from(octets).into())
            }
            _ => None,
        }
    }

    /// One that says where an answer comes from, and its length.
    fn from(address: IpAddr) -> (Self, usize) {
        let mut control = Self([0; 64]);
        let mut fill = |level: c_int, kind: c_int, length: usize, at: usize, octets: &[u8]| {
            control.0[..8].copy_from_slice(&((DATA + length) as u64).to_ne_bytes());
            control.0[8..12].copy_from_slice(&level.to_ne_bytes());
            control.0[12..16].copy_from_slice(&kind.to_ne_bytes());
            control.0[DATA + at..DATA + at + octets.len()].copy_from_slice(octets);
            (DATA + length).next_multiple_of(8)
        };
        let length = match address {
            IpAddr::V4(four) => fill(libc::IPPROTO_IP, libc::IP_PKTINFO, 12, 4, &four.octets()),
            IpAddr::V6(six) => fill(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20, 0, &six.octets()),
        };
        (control, length)
    }
}

/// Takes a datagram: its length, who sent it and where it was sent. `EAGAIN` when there is none.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
    let mut from = Raw::empty();
    let mut control = Control([0; 64]);
    let mut vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    // SAFETY: an all-zero `msghdr` is a valid value of that plain C structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut vector, 1);
    (header.msg_name, header.msg_namelen) = from.room();
    (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), control.0.len() as _);
    // SAFETY: the header points at `from`, `vector` and `control`, writable for the lengths given in it.
    let length =
        check(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) } as c_long)?;
    let sender = from.read(header.msg_namelen).ok_or_else(|| super::errno(libc::EAFNOSUPPORT))?;
    let told = (header.msg_controllen as usize) > DATA;
    Ok((usize::try_from(length).unwrap_or(0), sender, told.then(|| control.address()).flatten()))
}

/// Sends a datagram that comes from `from`, where that is known.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    to: SocketAddr,
    from: Option<IpAddr>,
) -> io::Result<()> {
    let (mut address, length) = Raw::of(to);
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = from.map(Control::from);
    // SAFETY: an all-zero `msghdr` is a valid value of that plain C structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut vector, 1);
    (header.msg_name, header.msg_namelen) = (address.room().0, length as _);
    if let Some((control, length)) = &mut control {
        (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), *length as _);
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header points at `address`, `vector` and `control`, which outlive the call; they are only read.
    check(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) } as c_long).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn an_answer_comes_from_where_it_was_asked() {
        for (any, asked) in [("0.0.0.0:0", "127.0.0.7"), ("[::]:0", "::1")] {
            let Ok(server) = UdpSocket::bind(any) else { continue };
            let asked: IpAddr = asked.parse().unwrap();
            tell_destinations(server.as_raw_fd(), asked.is_ipv6()).unwrap();
            let client = UdpSocket::bind(any).unwrap();
            client.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            let at = SocketAddr::new(asked, server.local_addr().unwrap().port());
            client.send_to(b"question", at).unwrap();
            let mut room = [0; 64];
            let (length, from, told) = receive(server.as_fd(), &mut room).unwrap();
            assert_eq!((&room[..length], told), (&b"question"[..], Some(asked)));
            send(server.as_fd(), b"answer", from, told).unwrap();
            let (length, answered) = client.recv_from(&mut room).unwrap();
            assert_eq!((&room[..length], answered), (&b"answer"[..], at));
            let none = receive(server.as_fd(), &mut room).unwrap_err();
            assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        }
    }
}
