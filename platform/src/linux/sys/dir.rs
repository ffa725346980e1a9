//! What a directory is, and what it holds.
//!
//! Answers for telling directories apart and for reading their names by descriptor. It leaves what the answers
//! mean to the callers.
//! Invariant: no link is followed, and nothing is looked for by a path of more than one part.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_uint};

use super::{check, fd};

/// Room for the names that are read at once.
const ROOM: usize = 32 << 10;
/// Where in an entry its length, its kind and its name are.
const LENGTH: usize = 16;
const KIND: usize = 18;
const NAME: usize = 19;

/// What sets a file apart from every other: numbers are used again, but not with the same time of birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: (u32, u32),
    number: u64,
    /// Zero where the file system keeps no such time.
    born: (i64, u32),
}

/// What `name` below `start` is; an empty name means `start` itself.
pub(crate) fn identity(start: BorrowedFd<'_>, name: &CStr) -> io::Result<Identity> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
    let wanted: c_uint = libc::STATX_INO | libc::STATX_BTIME;
    // SAFETY: an all-zero `statx` is a valid value of that plain C structure.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is NUL-terminated and `found` is a writable structure of the right type.
    check(unsafe {
        libc::syscall(libc::SYS_statx, start.as_raw_fd(), name.as_ptr(), flags, wanted, &raw mut found)
    })?;
    let has_birth = found.stx_mask & libc::STATX_BTIME != 0;
    let born = if has_birth { (found.stx_btime.tv_sec, found.stx_btime.tv_nsec) } else { (0, 0) };
    Ok(Identity { device: (found.stx_dev_major, found.stx_dev_minor), number: found.stx_ino, born })
}

/// Opens the directory `name` below `start` for reading its names.
pub(crate) fn open(start: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    fd::open(start, name, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK, 0)
}

/// Hands every name in `dir` with its kind (`DT_…`) to `each`, until that says `false`.
pub(crate) fn names(dir: &OwnedFd, mut each: impl FnMut(&CStr, u8) -> bool) -> io::Result<()> {
    let mut buffer = vec![0_u8; ROOM];
    loop {
        let filled = read(dir.as_raw_fd(), &mut buffer)?;
        if filled == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..filled];
        while let Some((name, kind, length)) = first(rest) {
            if !matches!(name.to_bytes(), b"." | b"..") && !each(name, kind) {
                return Ok(());
            }
            rest = &rest[length..];
        }
    }
}

fn read(dir: c_int, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the length passed along.
    let filled = unsafe { libc::syscall(libc::SYS_getdents64, dir, buffer.as_mut_ptr(), buffer.len()) };
    check(filled).map(|filled| usize::try_from(filled).unwrap_or(0))
}

/// The first entry: its name, its kind, its length.
fn first(entries: &[u8]) -> Option<(&CStr, u8, usize)> {
    let length = usize::from(u16::from_ne_bytes([*entries.get(LENGTH)?, *entries.get(LENGTH + 1)?]));
    let name = CStr::from_bytes_until_nul(entries.get(NAME..length)?).ok()?;
    Some((name, entries[KIND], length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn names_are_read_with_their_kinds_and_directories_told_apart() {
        let path = std::env::temp_dir().join(format!("sbx-dir-{}", std::process::id()));
        std::fs::create_dir_all(path.join("sub")).unwrap();
        for number in 0..2000 {
            std::fs::write(path.join(format!("a-file-with-a-longer-name-{number}")), "").unwrap();
        }
        let dir = open(fd::cwd(), &crate::linux::sys::c_path(&path).unwrap()).unwrap();
        let (mut dirs, mut files) = (0, 0);
        names(&dir, |_, kind| {
            *(if kind == libc::DT_DIR { &mut dirs } else { &mut files }) += 1;
            true
        })
        .unwrap();
        assert_eq!((dirs, files), (1, 2000));
        let sub = open(dir.as_fd(), c"sub").unwrap();
        let this = identity(sub.as_fd(), c"").unwrap();
        assert_eq!(this, identity(dir.as_fd(), c"sub").unwrap());
        assert_ne!(this, identity(dir.as_fd(), c"").unwrap());
        std::fs::remove_dir_all(path).unwrap();
    }
}
