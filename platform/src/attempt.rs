//! Things a fence is tried with that the standard library has no words for.
//!
//! Answers for doing one thing and saying what the kernel said. What the answer means is for the caller.
//! Invariant: nothing here changes anything that outlives the calling process, but for [`truncate`].

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

fn said(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Whether a process could be signalled; none is sent.
///
/// # Errors
/// What the kernel said.
pub fn signal(process: i32) -> io::Result<()> {
    // SAFETY: signal 0 only asks; plain numbers.
    said(unsafe { libc::kill(process, 0) }).map(drop)
}

/// Cuts a file to nothing by its name, without opening it.
///
/// # Errors
/// What the kernel said.
pub fn truncate(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` ends with a zero byte and outlives the call.
    said(unsafe { libc::truncate(path.as_ptr(), 0) }).map(drop)
}

/// Opens a file to read it or to add to it, without waiting for the other end of a pipe.
///
/// # Errors
/// What the kernel said.
pub fn open(path: &Path, write: bool) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(!write).append(write).custom_flags(flags).open(path)
}

/// Whether a file could be opened, or names in a directory changed, by who this process acts for; nothing is opened.
///
/// # Errors
/// What the kernel said.
pub fn may(path: &Path, write: bool) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mode = if write { libc::W_OK } else { libc::R_OK };
    // SAFETY: `path` ends with a zero byte and outlives the call; the rest are plain numbers.
    said(unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) }).map(drop)
}

/// Enters a new user namespace.
///
/// # Errors
/// What the kernel said; unsupported where there are none.
pub fn user_namespace() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    // SAFETY: changes only what this process may do; plain numbers.
    return said(unsafe { libc::unshare(libc::CLONE_NEWUSER) }).map(drop);
    #[cfg(not(target_os = "linux"))]
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Whether a program may be executed, as the kernel would decide, without executing it.
///
/// # Errors
/// What the kernel said; one that does not know the question says that it is invalid.
pub fn may_execute(path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        const ONLY_CHECK: libc::c_int = 0x10000;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let nothing: [*const libc::c_char; 2] = [path.as_ptr(), std::ptr::null()];
        let (words, variables) = (nothing.as_ptr(), nothing[1..].as_ptr());
        // SAFETY: the path and both lists end with a null and outlive the call, which returns.
        let result = unsafe {
            libc::syscall(libc::SYS_execveat, libc::AT_FDCWD, path.as_ptr(), words, variables, ONLY_CHECK)
        };
        said(libc::c_int::try_from(result).unwrap_or(-1)).map(drop)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// A piece of shared memory that others can find by its number; gone when dropped.
#[derive(Debug)]
pub struct SharedMemory {
    id: libc::c_int,
}

impl SharedMemory {
    /// Makes a piece.
    ///
    /// # Errors
    /// When the number is taken, or there is no shared memory.
    pub fn make(number: i32) -> io::Result<Self> {
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
        // SAFETY: plain numbers.
        said(unsafe { libc::shmget(number as _, 4096, flags) }).map(|id| Self { id })
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the piece is ours; removing takes no buffer.
        let _ = said(unsafe { libc::shmctl(self.id, libc::IPC_RMID, std::ptr::null_mut()) });
    }
}

/// Whether a piece of shared memory of that number can be found.
///
/// # Errors
/// What the kernel said.
pub fn find_memory(number: i32) -> io::Result<()> {
    // SAFETY: plain numbers; nothing is made or mapped.
    said(unsafe { libc::shmget(number as _, 0, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_fence_everything_is_found() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(signal(own).is_ok());
        let piece = SharedMemory::make(own).unwrap();
        assert!(find_memory(own).is_ok());
        drop(piece);
        assert!(find_memory(own).is_err());
        assert!(truncate(Path::new("/nonexistent/file")).is_err());
    }
}
