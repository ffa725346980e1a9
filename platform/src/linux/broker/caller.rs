//! The process behind a watched call.
//!
//! Answers for reading names from its memory and for finding the directories it means. It leaves resolution
//! to [`super::resolve`].
//! Invariant: a name is read once; what was read is what is decided on and acted on.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::linux::sys::{check, errno, fd, process};

/// Longest name, its end included.
const NAME_MAX: usize = 4096;
/// Memory is read up to such a boundary first, so that a name at the end of a mapping can be read.
const PAGE: u64 = 4096;

/// A caller waiting for its answer.
#[derive(Debug)]
pub(crate) struct Caller {
    thread: u32,
}

impl Caller {
    /// The thread of this number.
    pub(crate) fn of(thread: u32) -> Self {
        Self { thread }
    }

    /// The calling thread.
    pub(crate) fn thread(&self) -> u32 {
        self.thread
    }

    /// The name at `address`.
    pub(crate) fn name(&self, address: u64) -> io::Result<CString> {
        let mut bytes = [0_u8; NAME_MAX];
        let mut have = 0;
        while have < NAME_MAX {
            let at = address.wrapping_add(have as u64);
            let step = usize::try_from(PAGE - at % PAGE).unwrap_or(NAME_MAX).min(NAME_MAX - have);
            let length = self.read(at, &mut bytes[have..have + step])?;
            if let Some(end) = bytes[have..have + length].iter().position(|byte| *byte == 0) {
                return CString::new(&bytes[..have + end]).map_err(|_| errno(libc::EFAULT));
            }
            have += length;
        }
        Err(errno(libc::ENAMETOOLONG))
    }

    /// A copy of the caller's descriptor `number`: the very same socket or file.
    pub(super) fn descriptor(&self, number: i32) -> io::Result<OwnedFd> {
        let thread = self.thread() as i32;
        // A thread that does not lead its process has a descriptor only since Linux 6.9.
        let pidfd = process::pidfd_open(thread)
            .or_else(|_| process::pidfd_open_thread(thread))
            .or_else(|_| process::pidfd_open(self.leader()?))?;
        process::copy_descriptor(&pidfd, number)
    }

    /// The process a thread belongs to, where the kernel does not know threads by descriptor.
    fn leader(&self) -> io::Result<i32> {
        let proc = fd::open(fd::cwd(), c"/proc", libc::O_PATH, 0)?;
        self.status(proc.as_fd(), "Tgid")?.parse().map_err(|_| errno(libc::ESRCH))
    }

    /// `length` bytes at `address`, all of them.
    pub(crate) fn bytes(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.read(address, buffer)? == buffer.len() { Ok(()) } else { Err(errno(libc::EFAULT)) }
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
        // SAFETY: `local` describes a writable slice; `remote` is only looked at in the other process.
        let length = unsafe {
            libc::process_vm_readv(self.thread() as i32, &raw const local, 1, &raw const remote, 1, 0)
        };
        match usize::try_from(check(length as libc::c_long)?) {
            Ok(length) if length > 0 => Ok(length),
            _ => Err(errno(libc::EFAULT)),
        }
    }

    /// The directory a name starts from: `dirfd` of the caller, or its working directory.
    pub(super) fn start(&self, proc: BorrowedFd<'_>, dirfd: i32) -> io::Result<OwnedFd> {
        let path = if dirfd == libc::AT_FDCWD {
            format!("{}/cwd", self.thread())
        } else {
            format!("{}/fd/{dirfd}", self.thread())
        };
        let path = CString::new(path)?;
        match fd::open(proc, &path, libc::O_PATH, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Err(errno(libc::EBADF)),
            other => other,
        }
    }

    /// A line of the caller's status, such as `Umask` or `Tgid`.
    pub(super) fn status(&self, proc: BorrowedFd<'_>, key: &str) -> io::Result<String> {
        let path = CString::new(format!("{}/status", self.thread()))?;
        let file = fd::open(proc, &path, libc::O_RDONLY, 0)?;
        let mut buffer = [0; 1024];
        let length = fd::read(std::os::fd::AsRawFd::as_raw_fd(&file), &mut buffer)?;
        let text = String::from_utf8_lossy(&buffer[..length]);
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.map(|value| value.trim().to_owned()).ok_or_else(|| errno(libc::ESRCH))
    }

    /// The terminal the caller's session belongs to, as a path below `/dev`.
    pub(super) fn terminal(&self, proc: BorrowedFd<'_>) -> io::Result<CString> {
        let path = CString::new(format!("{}/stat", self.thread()))?;
        let file = fd::open(proc, &path, libc::O_RDONLY, 0)?;
        let mut buffer = [0; 1024];
        let length = fd::read(std::os::fd::AsRawFd::as_raw_fd(&file), &mut buffer)?;
        let text = String::from_utf8_lossy(&buffer[..length]);
        let after = text.rsplit(')').next().unwrap_or("");
        let device: u32 = after.split_whitespace().nth(4).and_then(|n| n.parse().ok()).unwrap_or(0);
        let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
        if (136..144).contains(&major) {
            return CString::new(format!("/dev/pts/{}", (major - 136) << 8 | minor)).map_err(io::Error::from);
        }
        Err(errno(libc::ENXIO))
    }
}

/// The directory part and the last part of a name; the last part keeps its trailing slashes.
pub(super) fn split(name: &CStr) -> io::Result<(CString, CString)> {
    let bytes = name.to_bytes();
    if bytes.is_empty() {
        return Err(errno(libc::ENOENT));
    }
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    if end == 0 {
        return Ok((c"/".to_owned(), c".".to_owned()));
    }
    let cut = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let parent = if cut == 0 { b".".as_slice() } else { &bytes[..cut] };
    Ok((CString::new(parent)?, CString::new(&bytes[cut..])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_as_the_kernel_reads_them() {
        for (name, parent, last) in [
            (c"a", c".", c"a"),
            (c"a/b", c"a/", c"b"),
            (c"/b", c"/", c"b"),
            (c"a/b//", c"a/", c"b//"),
            (c"/", c"/", c"."),
            (c"//", c"/", c"."),
        ] {
            assert_eq!(split(name).unwrap(), (parent.to_owned(), last.to_owned()), "{name:?}");
        }
        assert!(split(c"").is_err());
    }
}
