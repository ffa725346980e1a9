//! Letting whoever holds the lock of a file know that others wait for it.
//!
//! Answers for a mark on an open file that others can see and that goes with whoever made it. It leaves the lock itself,
//! and what is done about somebody who waits, to the caller.
//! Invariant: where it cannot be told whether somebody waits, somebody does.
//!
//! The mark is a shared lock of one byte far behind the end of the file, of the kind that belongs to an open file: no
//! mark holds another up, and none outlives its process.

use std::fs::File;

/// A mark on a file, until it is dropped.
#[derive(Debug)]
pub struct Waiting<'f>(&'f File);

impl<'f> Waiting<'f> {
    /// Marks an open file. Where that cannot be done, whoever holds the lock does not wait for marks either.
    #[must_use]
    pub fn at(file: &'f File) -> Self {
        let _ = mark::set(file, true);
        Self(file)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let _ = mark::set(self.0, false);
    }
}

/// Whether somebody else has marked the file.
#[must_use]
pub fn is_awaited(file: &File) -> bool {
    !mark::is_free(file)
}

#[cfg(target_os = "linux")]
mod mark {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    /// Which byte is locked.
    const PLACE: libc::off_t = 1 << 30;

    pub(super) fn set(file: &File, waits: bool) -> io::Result<()> {
        let kind = if waits { libc::F_RDLCK } else { libc::F_UNLCK };
        ask(file, libc::F_OFD_SETLK, kind).map(drop)
    }

    pub(super) fn is_free(file: &File) -> bool {
        ask(file, libc::F_OFD_GETLK, libc::F_WRLCK).is_ok_and(|found| found == libc::F_UNLCK)
    }

    /// Sets a lock or asks for one that would be in its way; the kind that comes of it.
    fn ask(file: &File, command: libc::c_int, kind: libc::c_int) -> io::Result<libc::c_int> {
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let mut lock = libc::flock {
            l_type: kind.try_into().map_err(invalid)?,
            l_whence: libc::SEEK_SET.try_into().map_err(invalid)?,
            l_start: PLACE,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: the descriptor is borrowed, and `lock` is one writable value of the kind these commands take.
        let done = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(lock.l_type.into()) }
    }
}

/// Elsewhere nobody can be seen to wait.
#[cfg(not(target_os = "linux"))]
mod mark {
    use std::fs::File;
    use std::io;

    pub(super) fn set(_: &File, _: bool) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn is_free(_: &File) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_is_seen_by_others_until_it_does_not() {
        let path = std::env::temp_dir().join(format!("sbx-queue-{}", std::process::id()));
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let (holder, one, other) = (open(), open(), File::open(&path).unwrap());
        assert!(!is_awaited(&holder));
        let first = Waiting::at(&one);
        assert!(is_awaited(&holder) && !is_awaited(&one), "one's own mark is no other's");
        let second = Waiting::at(&other);
        drop(first);
        assert!(is_awaited(&holder) && is_awaited(&one), "who only reads waits too");
        drop(second);
        assert!(!is_awaited(&holder));
        let left = Waiting::at(&one);
        std::mem::forget(left);
        drop(one);
        assert!(!is_awaited(&holder), "a mark goes with the file it was made by");
        std::fs::remove_file(&path).unwrap();
    }
}
