//! Socket pairs that carry small messages and descriptors.
//!
//! Answers for one message per packet, with one or many descriptors attached. It leaves the meaning of the
//! bytes to [`crate::report`] and the broker.
//! Invariant: a received descriptor is close-on-exec and owned by the receiver.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::{c_int, c_long};

use super::{check, check_int, fd};

/// Room for one descriptor in a control message, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 24]);

/// Two ends of a line that keeps message boundaries.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `ends` has room for the two numbers the kernel writes.
    check_int(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    Ok((fd::own(c_long::from(ends[0]))?, fd::own(c_long::from(ends[1]))?))
}

fn header(vector: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: an all-zero `msghdr` is a valid value of that plain C structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut *vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    header
}

/// Sends one message, with a copy of `extra` attached if given. Never raises `SIGPIPE`.
pub(crate) fn send(line: BorrowedFd<'_>, bytes: &[u8], extra: Option<RawFd>) -> io::Result<()> {
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 24]);
    let mut header = header(&mut vector, &mut control);
    if let Some(extra) = extra {
        // One cmsghdr: length 20, SOL_SOCKET, SCM_RIGHTS, then the number.
        control.0[..8].copy_from_slice(&20_u64.to_ne_bytes());
        control.0[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        control.0[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
        control.0[16..20].copy_from_slice(&extra.to_ne_bytes());
        header.msg_control = control.0.as_mut_ptr().cast();
    } else {
        header.msg_controllen = 0;
    }
    // SAFETY: the header points at `vector` and `control`, which outlive the call; the kernel only reads them.
    check(unsafe { libc::sendmsg(line.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) } as c_long)
        .map(drop)
}

/// Receives one message into `buffer`: its length (0 when the other side is gone) and the descriptor, if any.
pub(crate) fn receive(
    line: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: c_int,
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([0; 24]);
    let mut header = header(&mut vector, &mut control);
    let flags = flags | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header points at `vector` and `control`, both writable for the lengths given in it.
    let length = check(unsafe { libc::recvmsg(line.as_raw_fd(), &raw mut header, flags) } as c_long)?;
    let attached = u64::from_ne_bytes(control.0[..8].try_into().unwrap_or_default());
    let mut number = [0_u8; 4];
    number.copy_from_slice(&control.0[16..20]);
    let extra = (attached == 20).then(|| fd::own(c_long::from(i32::from_ne_bytes(number)))).transpose()?;
    Ok((usize::try_from(length).unwrap_or(0), extra))
}

/// Room for many descriptors.
const MANY: usize = 64;

/// A control message of `MANY` descriptors, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Controls([u8; 16 + 4 * MANY]);

/// Sends one message with copies of at most [`MANY`] descriptors attached.
pub(crate) fn send_many(line: BorrowedFd<'_>, bytes: &[u8], extras: &[RawFd]) -> io::Result<()> {
    let length = 16 + 4 * extras.len();
    let mut control = Controls([0; 16 + 4 * MANY]);
    if length > control.0.len() {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    control.0[..8].copy_from_slice(&(length as u64).to_ne_bytes());
    control.0[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    control.0[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
    for (at, extra) in extras.iter().enumerate() {
        control.0[16 + 4 * at..20 + 4 * at].copy_from_slice(&extra.to_ne_bytes());
    }
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut header = header(&mut vector, &mut Control([0; 24]));
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = if extras.is_empty() { 0 } else { length.next_multiple_of(8) as _ };
    // SAFETY: the header points at `vector` and `control`, which outlive the call; the kernel only reads them.
    check(unsafe { libc::sendmsg(line.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) } as c_long)
        .map(drop)
}

/// As [`receive`], with all descriptors that came along, at most [`MANY`].
pub(crate) fn receive_many(
    line: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: c_int,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Controls([0; 16 + 4 * MANY]);
    let mut header = header(&mut vector, &mut Control([0; 24]));
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    let flags = flags | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header points at `vector` and `control`, both writable for the lengths given in it.
    let length = check(unsafe { libc::recvmsg(line.as_raw_fd(), &raw mut header, flags) } as c_long)?;
    let attached = u64::from_ne_bytes(control.0[..8].try_into().unwrap_or_default());
    let end = usize::try_from(attached).unwrap_or(0).min(control.0.len());
    let numbers = control.0.get(16..end).unwrap_or_default().chunks_exact(4);
    let own = |bytes: &[u8]| {
        let number = i32::from_ne_bytes(bytes.try_into().unwrap_or([0xff; 4]));
        fd::own(c_long::from(number))
    };
    Ok((usize::try_from(length).unwrap_or(0), numbers.map(own).collect::<io::Result<_>>()?))
}

/// Brings up the loopback device of this network namespace; a socket in there.
pub(crate) fn raise_loopback() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: plain integers.
    let socket = fd::own(c_long::from(check_int(unsafe { libc::socket(libc::AF_INET, kind, 0) })?))?;
    // SAFETY: an all-zero `ifreq` is a valid value of that plain C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    check_int(done)?;
    Ok(socket)
}

/// The network namespace of a socket. Unlike a path, it needs no view to be looked up in.
pub(crate) fn network_of(socket: &OwnedFd) -> io::Result<OwnedFd> {
    const SIOCGSKNS: libc::c_ulong = 0x894c;
    // SAFETY: takes nothing beside the descriptor and returns a new one.
    fd::own(c_long::from(check_int(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS as _) })?))
}
