//! Waiting until something can be read or written, and writing without waiting.
//!
//! Answers for several descriptors at once. It leaves reading, and what is written when, to the caller.
//! Invariant: [`write_now`] does not wait, though the descriptor itself would.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// As many bytes as a pipe that is ready takes at once.
const AT_ONCE: usize = libc::PIPE_BUF;

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'f> {
    /// That there is something to read, or that there will be nothing any more.
    Read(BorrowedFd<'f>),
    /// That something can be written, or that nobody reads it any more.
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

/// Writes as much as there is room for; how much that was.
///
/// # Errors
/// `WouldBlock` where there is room for nothing; otherwise what writing gives.
pub fn write_now(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    match write_all_there_is_room_for(to, bytes) {
        // Some kernels cannot be asked for that on a pipe, and none on every kind of file.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        other => return other,
    }
    let [takes] = ready([Wanted::Write(to)], Duration::ZERO)?;
    if !takes {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let piece = &bytes[..bytes.len().min(AT_ONCE)];
    // SAFETY: pointer and length describe one readable slice, and the descriptor is borrowed.
    let written = unsafe { libc::write(to.as_raw_fd(), piece.as_ptr().cast(), piece.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

#[cfg(target_os = "linux")]
fn write_all_there_is_room_for(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    const WHERE_IT_STANDS: libc::c_long = -1;
    let piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: `piece` describes one slice, which is only read, and the descriptor is borrowed.
    let written = unsafe {
        libc::syscall(
            libc::SYS_pwritev2,
            to.as_raw_fd(),
            &raw const piece,
            1,
            WHERE_IT_STANDS,
            WHERE_IT_STANDS,
            libc::RWF_NOWAIT,
        )
    };
    usize::try_from(written).map_err(|_| match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
            io::ErrorKind::Unsupported.into()
        }
        error => error,
    })
}

#[cfg(not(target_os = "linux"))]
fn write_all_there_is_room_for(_: BorrowedFd<'_>, _: &[u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
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
    fn what_there_is_room_for_is_written_without_waiting() {
        let file = std::env::temp_dir().join(format!("sbx-ready-{}", std::process::id()));
        let kept = std::fs::File::create(&file).unwrap();
        assert_eq!(write_now(kept.as_fd(), b"said").unwrap(), 4, "a file has room");
        assert_eq!(std::fs::read(&file).unwrap(), b"said");
        std::fs::remove_file(&file).unwrap();

        let (mut pipe_end, pipe) = std::io::pipe().unwrap();
        let (mut socket_end, socket) = std::os::unix::net::UnixStream::pair().unwrap();
        for (from, to) in [(&mut pipe_end as &mut dyn Read, pipe.as_fd()), (&mut socket_end, socket.as_fd())]
        {
            let line: Vec<u8> = (0..1 << 22).map(|at: u32| at as u8).collect();
            let mut sent = 0;
            let full = loop {
                match write_now(to, &line[sent..]) {
                    Ok(written) => sent += written,
                    Err(error) => break error,
                }
            };
            assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
            let mut read = vec![0; sent];
            from.read_exact(&mut read).unwrap();
            assert!(read == line[..sent], "each byte once and in its place");
        }
        drop(pipe_end);
        assert_eq!(write_now(pipe.as_fd(), b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn it_waits_no_longer_than_it_may() {
        let (from, _to) = std::io::pipe().unwrap();
        let begun = std::time::Instant::now();
        assert_eq!(ready([Wanted::Read(from.as_fd())], Duration::from_micros(1500)).unwrap(), [false]);
        assert!(begun.elapsed() >= Duration::from_micros(1500));
    }
}
