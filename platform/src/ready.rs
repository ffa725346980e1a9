//! Waiting until something can be read or written.
//!
//! Answers for several descriptors at once. It leaves reading and writing to the caller.
//! Invariant: to what is ready to be written, [`AT_ONCE`] bytes can be written without waiting, though the descriptor
//! itself would wait.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// As many bytes as a pipe that is ready takes at once.
pub const AT_ONCE: usize = libc::PIPE_BUF;

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'f> {
    /// That there is something to read, or that there will be nothing any more.
    Read(BorrowedFd<'f>),
    /// That [`AT_ONCE`] bytes can be written, or that nobody reads them any more.
    Write(BorrowedFd<'f>),
    /// Nothing.
    Nothing,
}

impl Wanted<'_> {
    fn entry(self) -> libc::pollfd {
        let (fd, events) = match self {
            Self::Read(fd) => (fd.as_raw_fd(), libc::POLLIN),
            Self::Write(fd) => (fd.as_raw_fd(), libc::POLLOUT),
            Self::Nothing => (-1, 0),
        };
        libc::pollfd { fd, events, revents: 0 }
    }
}

/// Makes whoever reads or writes this never wait. That is so for everybody who has the same open file, so that it is
/// only for what nobody else has.
///
/// # Errors
/// When it cannot be made so.
pub fn never_wait(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: integers only, of a descriptor that is borrowed.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    // SAFETY: the same.
    let done =
        flags >= 0 && unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) } >= 0;
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits until something of what is wanted is so, but no longer than `most`; what is so now.
///
/// # Errors
/// When the system cannot tell.
pub fn ready<const N: usize>(wanted: [Wanted<'_>; N], most: Duration) -> io::Result<[bool; N]> {
    let mut set = wanted.map(Wanted::entry);
    // Rather late than never: what is left of a millisecond is waited for too.
    let time = libc::c_int::try_from(most.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX);
    // SAFETY: pointer and length describe one writable array, and the descriptors are borrowed until it returns.
    let found = unsafe { libc::poll(set.as_mut_ptr(), N as libc::nfds_t, time) };
    if found < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok([false; N]) } else { Err(error) };
    }
    Ok(set.map(|entry| entry.revents != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn a_pipe_is_read_when_it_has_something_and_written_while_it_has_room() {
        let (mut from, mut to) = std::io::pipe().unwrap();
        let ask = |from: &std::io::PipeReader, to: &std::io::PipeWriter| {
            ready([Wanted::Read(from.as_fd()), Wanted::Write(to.as_fd()), Wanted::Nothing], Duration::ZERO)
                .unwrap()
        };
        assert_eq!(ask(&from, &to), [false, true, false]);
        let mut written = 0;
        while ask(&from, &to)[1] {
            to.write_all(&[7; AT_ONCE]).unwrap();
            written += AT_ONCE;
            assert!(written < 64 << 20, "a pipe has an end to its room");
        }
        assert_eq!(ask(&from, &to), [true, false, false]);
        from.read_exact(&mut vec![0; written]).unwrap();
        assert_eq!(ask(&from, &to), [false, true, false]);
        drop(from);
        assert_eq!(ready([Wanted::Write(to.as_fd())], Duration::ZERO).unwrap(), [true], "nobody reads it");
    }

    #[test]
    fn it_waits_no_longer_than_it_may() {
        let (from, _to) = std::io::pipe().unwrap();
        let begun = std::time::Instant::now();
        assert_eq!(ready([Wanted::Read(from.as_fd())], Duration::from_micros(1500)).unwrap(), [false]);
        assert!(begun.elapsed() >= Duration::from_micros(1500));
    }
}
