//! Memory that two processes share, and code that is not needed while one waits.
//!
//! Answers for making shared memory, finding it again by its descriptor and giving it back. It leaves the meaning of the
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

/// Gives the pages of this program's code and constants back; what is still needed comes again from the file.
///
/// Only in the static program, which does nothing but launch; another may have better use for its pages.
pub(crate) fn give_back_code() {
    #[cfg(target_env = "musl")]
    // SAFETY: the function is called with valid data during the call only, and needs none of its own.
    unsafe {
        libc::dl_iterate_phdr(Some(give_back_object), std::ptr::null_mut());
    }
}

/// Gives back the parts of one object that were never writable, and ends the walk: the first is the program.
///
/// # Safety
/// For the C library to call, with a live description of an object that is loaded.
#[cfg(target_env = "musl")]
unsafe extern "C" fn give_back_object(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the C library passes a pointer to a live structure.
    let object = unsafe { &*object };
    // SAFETY: it says where its headers are and how many, and they live as long as the program.
    let parts = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let kept = |part: &&libc::Elf64_Phdr| part.p_type == libc::PT_LOAD && part.p_flags & libc::PF_W == 0;
    for part in parts.iter().filter(kept) {
        const PAGE: u64 = 4096;
        let from = (object.dlpi_addr + part.p_vaddr).next_multiple_of(PAGE);
        let to = (object.dlpi_addr + part.p_vaddr + part.p_memsz) / PAGE * PAGE;
        let Some(length) = to.checked_sub(from).and_then(|length| usize::try_from(length).ok()) else {
            continue;
        };
        let start = std::ptr::with_exposed_provenance_mut(usize::try_from(from).unwrap_or_default());
        // SAFETY: whole pages of a part that is mapped from the file and was never written to: what is dropped is read
        // from there again.
        unsafe { libc::madvise(start, length, libc::MADV_DONTNEED) };
    }
    1
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_program_goes_on_without_its_pages() {
        static WORDS: [&str; 3] = ["a", "b", "c"];
        let before = WORDS.concat();
        super::give_back_code();
        assert_eq!(WORDS.concat(), before);
    }
}
