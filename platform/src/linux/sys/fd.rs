//! Opening without following links, and moving descriptors about.
//!
//! Answers for descriptors. It leaves what they lead to, and whether that is wanted, to the callers.
//! Invariant: every descriptor made here is close-on-exec.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long, c_uint};

use super::{check, check_int};

/// Follow no symbolic link at all, magic or not.
pub(crate) const NO_SYMLINKS: u64 = 0x04 | 0x02;
/// Never leave the directory the walk starts in.
pub(crate) const BENEATH: u64 = 0x08;

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// The current directory as a starting point.
pub(crate) fn cwd() -> BorrowedFd<'static> {
    // SAFETY: AT_FDCWD is not a descriptor that could be closed; every call that takes it knows its meaning.
    unsafe { BorrowedFd::borrow_raw(libc::AT_FDCWD) }
}

/// Takes charge of a descriptor number just made by the kernel.
pub(crate) fn own(raw: c_long) -> io::Result<OwnedFd> {
    let raw = RawFd::try_from(raw).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: callers pass the fresh result of a successful descriptor-making call, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// `openat2`: opens `path` from `start` under the given resolution rules.
pub(crate) fn open2(
    start: BorrowedFd<'_>,
    path: &CStr,
    flags: c_int,
    mode: u32,
    resolve: u64,
) -> io::Result<OwnedFd> {
    let how = OpenHow { flags: u64::from((flags | libc::O_CLOEXEC) as u32), mode: u64::from(mode), resolve };
    // SAFETY: `path` is NUL-terminated and `how` outlives the call, its size is passed along.
    let raw = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            start.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<OpenHow>(),
        )
    };
    own(check(raw)?)
}

/// `openat`, following links as usual.
pub(crate) fn open(start: BorrowedFd<'_>, path: &CStr, flags: c_int, mode: u32) -> io::Result<OwnedFd> {
    // SAFETY: `path` is NUL-terminated and lives through the call.
    let raw =
        unsafe { libc::openat(start.as_raw_fd(), path.as_ptr(), flags | libc::O_CLOEXEC, mode as c_uint) };
    own(c_long::from(check_int(raw)?))
}

/// Closes every descriptor from `first` to `last`, both included.
pub(crate) fn close_range(first: RawFd, last: c_uint) -> io::Result<()> {
    // SAFETY: the caller owns or has given up every descriptor in the range; only this process is concerned.
    check(unsafe { libc::syscall(libc::SYS_close_range, first as c_uint, last, 0) }).map(drop)
}

/// Closes descriptors, as many at once as follow each other.
pub(crate) fn close_all(fds: impl IntoIterator<Item = OwnedFd>) {
    let mut left: Vec<OwnedFd> = fds.into_iter().collect();
    left.sort_unstable_by_key(AsRawFd::as_raw_fd);
    while let Some(last) = left.last().map(AsRawFd::as_raw_fd) {
        let follows = |at: usize| left[at - 1].as_raw_fd() + 1 == left[at].as_raw_fd();
        let from = (1..left.len()).rev().find(|at| !follows(*at)).unwrap_or(0);
        let run = left.split_off(from);
        // Where the kernel refuses, they are closed one by one.
        if close_range(run[0].as_raw_fd(), last.unsigned_abs()).is_ok() {
            for closed in run {
                let _ = closed.into_raw_fd();
            }
        }
    }
}

/// Marks every descriptor from `first` on to be closed by `execve`.
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: c_uint = 4;
    let flags = CLOSE_RANGE_CLOEXEC;
    // SAFETY: nothing is closed now; only a flag is set.
    check(unsafe { libc::syscall(libc::SYS_close_range, first as c_uint, c_uint::MAX, flags) }).map(drop)
}

/// Makes `to` a copy of `from` that survives `execve`.
pub(crate) fn dup_onto(from: RawFd, to: RawFd) -> io::Result<()> {
    if from == to {
        return keep_on_exec(from);
    }
    // SAFETY: plain integers; a bad descriptor is reported by the kernel.
    check_int(unsafe { libc::dup2(from, to) }).map(drop)
}

/// Clears close-on-exec.
pub(crate) fn keep_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: plain integers; a bad descriptor is reported by the kernel.
    check_int(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }).map(drop)
}

/// Sets close-on-exec.
pub(crate) fn close_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: plain integers; a bad descriptor is reported by the kernel.
    check_int(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}

/// A copy of `fd` numbered at least `least`.
pub(crate) fn dup_above(fd: RawFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain integers; a bad descriptor is reported by the kernel.
    own(c_long::from(check_int(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, least) })?))
}

/// How `fd` was opened, and what was set since: the access, appending, not waiting.
pub(crate) fn flags(fd: RawFd) -> io::Result<c_int> {
    // SAFETY: plain integers; a bad descriptor is reported by the kernel.
    check_int(unsafe { libc::fcntl(fd, libc::F_GETFL) })
}

fn set_flags(fd: RawFd, flags: c_int) -> io::Result<()> {
    // SAFETY: plain integers; a bad descriptor is reported by the kernel.
    check_int(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) }).map(drop)
}

/// Makes reads and writes on `fd` return at once.
pub(crate) fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    set_flags(fd, flags(fd)? | libc::O_NONBLOCK)
}

/// Makes reads and writes on `fd` wait.
pub(crate) fn set_blocking(fd: RawFd) -> io::Result<()> {
    set_flags(fd, flags(fd)? & !libc::O_NONBLOCK)
}

/// Whether reads and writes on `fd` return at once.
pub(crate) fn is_nonblocking(fd: RawFd) -> io::Result<bool> {
    flags(fd).map(|flags| flags & libc::O_NONBLOCK != 0)
}

/// Whether both are one opening, which has one position; kernels before 6.10 do not tell.
pub(crate) fn is_one_opening(fd: RawFd, other: RawFd) -> io::Result<bool> {
    const F_DUPFD_QUERY: c_int = 1027;
    // SAFETY: plain integers; a bad descriptor and a question that is not known are reported by the kernel.
    check_int(unsafe { libc::fcntl(fd, F_DUPFD_QUERY, other) }).map(|same| same == 1)
}

/// A pipe: the reading and the writing end.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two numbers the kernel writes.
    check_int(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    Ok((own(c_long::from(ends[0]))?, own(c_long::from(ends[1]))?))
}

/// Type, device and inode of what `fd` leads to.
pub(crate) fn stat(fd: RawFd) -> io::Result<libc::stat> {
    // SAFETY: an all-zero `stat` is a valid value of that plain C structure.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is a writable structure of the right type.
    check_int(unsafe { libc::fstat(fd, &raw mut found) })?;
    Ok(found)
}

/// Whether `fd` is a pipe that stands in no directory.
pub(crate) fn is_unnamed(fd: RawFd) -> io::Result<bool> {
    const PIPES: libc::c_long = 0x5049_5045;
    // SAFETY: an all-zero `statfs` is a valid value of that plain C structure.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is a writable structure of the right type.
    check_int(unsafe { libc::fstatfs(fd, &raw mut found) })?;
    Ok(found.f_type as libc::c_long == PIPES)
}

/// As [`stat`], for a name below `start`, not following a link in its last part.
pub(crate) fn stat_at(start: RawFd, name: &CStr) -> io::Result<libc::stat> {
    // SAFETY: an all-zero `stat` is a valid value of that plain C structure.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: `name` is NUL-terminated and `found` is a writable structure of the right type.
    check_int(unsafe { libc::fstatat(start, name.as_ptr(), &raw mut found, flags) })?;
    Ok(found)
}

/// What a symbolic link below `start` says; an empty name means `start` itself.
pub(crate) fn read_link<'b>(start: RawFd, name: &CStr, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    // SAFETY: `name` is NUL-terminated; the kernel writes at most the length passed along.
    let length = unsafe { libc::readlinkat(start, name.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    let length = usize::try_from(check(length as c_long)?).unwrap_or(0);
    if length == buffer.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    Ok(&buffer[..length])
}

/// `read` into `buffer`.
pub(crate) fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the length passed along.
    let length = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    check(length as c_long).map(|length| usize::try_from(length).unwrap_or(0))
}

/// `read` of at most `most` bytes to the end of `buffer`, whose new room is not filled with anything first.
pub(crate) fn read_more(fd: RawFd, buffer: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    buffer.reserve(most);
    let room = &mut buffer.spare_capacity_mut()[..most];
    // SAFETY: the kernel writes at most the length passed along.
    let length = unsafe { libc::read(fd, room.as_mut_ptr().cast(), room.len()) };
    let length = usize::try_from(check(length as c_long)?).unwrap_or(0);
    // SAFETY: the kernel has written that many bytes of the room.
    unsafe { buffer.set_len(buffer.len() + length) };
    Ok(length)
}

/// `pread` into `buffer`.
pub(crate) fn read_at(fd: RawFd, buffer: &mut [u8], offset: i64) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the length passed along.
    let length = unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), buffer.len(), offset) };
    check(length as c_long).map(|length| usize::try_from(length).unwrap_or(0))
}

/// `write` from `buffer`; may write less.
pub(crate) fn write(fd: RawFd, buffer: &[u8]) -> io::Result<usize> {
    // SAFETY: the kernel reads at most the length passed along.
    let length = unsafe { libc::write(fd, buffer.as_ptr().cast(), buffer.len()) };
    check(length as c_long).map(|length| usize::try_from(length).unwrap_or(0))
}

/// Waits until one of `set` is ready or `timeout` (milliseconds, -1 for ever) has passed.
pub(crate) fn poll(set: &mut [libc::pollfd], timeout: c_int) -> io::Result<()> {
    // SAFETY: pointer and length describe one writable slice.
    let ready = unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, timeout) };
    match check_int(ready) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            for entry in set {
                entry.revents = 0;
            }
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Bytes in a pipe that nobody has read yet.
pub(crate) fn waiting(fd: RawFd) -> io::Result<usize> {
    let mut count: c_int = 0;
    // SAFETY: FIONREAD writes one int.
    check_int(unsafe { libc::ioctl(fd, libc::FIONREAD as _, &raw mut count) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Where the next byte of `fd` is read or written; pipes, sockets and terminals have no such place.
pub(crate) fn position(fd: RawFd) -> io::Result<libc::off_t> {
    // SAFETY: plain integers; a bad descriptor is reported by the kernel.
    let at = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
    check(at as c_long).map(|_| at)
}

/// Sets a file back by so many bytes.
pub(crate) fn seek_back(fd: RawFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::off_t::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: plain integers; a bad descriptor is reported by the kernel.
    check(unsafe { libc::lseek(fd, -bytes, libc::SEEK_CUR) } as c_long).map(drop)
}

/// Waits until there is something to read from `fd`, or its other end is gone, or `time` has passed; whether there
/// is.
pub(crate) fn readable_within(fd: RawFd, time: std::time::Duration) -> bool {
    let milliseconds = c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX);
    let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    poll(&mut set, milliseconds).is_ok() && set[0].revents != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_together_is_closed_and_nothing_else() {
        let open = || open(cwd(), c"/dev/null", libc::O_RDONLY, 0).expect("opened");
        let all: Vec<OwnedFd> = (0..6).map(|_| open()).collect();
        let numbers: Vec<RawFd> = all.iter().map(AsRawFd::as_raw_fd).collect();
        let (kept, closed): (Vec<_>, Vec<_>) =
            all.into_iter().enumerate().partition(|(at, _)| matches!(at, 0 | 3));
        // Under numbers that no other thread of the tests is given meanwhile.
        let high: Vec<OwnedFd> =
            [300, 301, 302, 305].map(|least| dup_above(numbers[0], least).expect("copied")).into();
        let places: Vec<RawFd> = high.iter().map(AsRawFd::as_raw_fd).collect();
        close_all(high.into_iter().chain(closed.into_iter().map(|(_, fd)| fd)));
        assert!(places.iter().all(|fd| stat(*fd).is_err()), "{places:?}");
        assert!(kept.iter().all(|(_, fd)| stat(fd.as_raw_fd()).is_ok()));
    }
}
