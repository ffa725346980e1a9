//! Memory that two processes share.
//!
//! Answers for making it, finding it again by its descriptor and giving it back. It leaves the meaning of the
//! words in it to the callers.
//! Invariant: it is only ever seen as atomic words, since the other side may write at any time.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use super::{check_int, errno};

/// A file in memory without a name.
pub(crate) fn file() -> io::Result<OwnedFd> {
    // SAFETY: a literal name and an integer.
    let raw = check_int(unsafe { libc::memfd_create(c"sbx".as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Words shared with whoever has the same file.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Never handed out for longer than `self` lives.
    words: &'static [AtomicU64],
}

impl Shared {
    /// The first `count` words of `file`, which grows if it must.
    pub(crate) fn over(file: &OwnedFd, count: usize) -> io::Result<Self> {
        let length = count * size_of::<AtomicU64>();
        // SAFETY: plain integers.
        check_int(unsafe { libc::ftruncate(file.as_raw_fd(), length as libc::off_t) })?;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, which touches nothing that exists.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if start.is_null() {
            return Err(errno(libc::ENOMEM));
        }
        // SAFETY: the mapping is that long, page-aligned, zero where nothing was written, and stays until `drop`.
        let words = unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), count) };
        Ok(Self { words })
    }
}

impl Deref for Shared {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        self.words
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let length = size_of_val(self.words);
        // SAFETY: exactly the mapping made in `over`, of which no reference is left.
        unsafe { libc::munmap(self.words.as_ptr().cast_mut().cast(), length) };
    }
}
