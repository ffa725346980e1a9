//! Descriptors that the caller hands in by number.
//!
//! Answers for a descriptor of our own that means the same as theirs: the same place in a file, the same end of a
//! socket. It leaves what may be handed in to the caller.
//! Invariant: the number itself is neither owned nor closed.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, RawFd};

/// A descriptor that was handed in.
#[derive(Debug)]
pub struct Handed {
    /// The same by another number, which is closed when the program becomes another.
    pub file: File,
    /// Whether it only stands for a path and cannot be read or written itself.
    pub is_path: bool,
    /// Whether it can be written to.
    pub is_writable: bool,
}

impl Handed {
    /// What stands behind this number.
    ///
    /// # Errors
    /// When nothing does.
    pub fn take(number: RawFd) -> io::Result<Self> {
        // SAFETY: integers only; a number that is not open is an error.
        let copy = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
        // SAFETY: the kernel has just made this descriptor for us.
        let file = unsafe { File::from_raw_fd(copy) };
        // SAFETY: integers only, of a descriptor that we hold.
        let flags = check(unsafe { libc::fcntl(copy, libc::F_GETFL) })?;
        let is_path = is_path(flags);
        let is_writable = !is_path && flags & libc::O_ACCMODE != libc::O_RDONLY;
        Ok(Self { file, is_path, is_writable })
    }
}

#[cfg(target_os = "linux")]
const fn is_path(flags: i32) -> bool {
    flags & libc::O_PATH != 0
}

#[cfg(not(target_os = "linux"))]
const fn is_path(_flags: i32) -> bool {
    false
}

fn check(answer: i32) -> io::Result<i32> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_is_written_to_and_stays_open() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let handed = Handed::take(ours.as_raw_fd()).unwrap();
        assert!(handed.is_writable && !handed.is_path);
        (&handed.file).write_all(b"one").unwrap();
        drop(handed);
        (&ours).write_all(b"two").unwrap();
        let mut said = [0; 6];
        theirs.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"onetwo");
    }

    #[test]
    fn a_file_is_written_where_its_owner_is() {
        let path = std::env::temp_dir().join(format!("sbx-handed-{}", std::process::id()));
        let mut file = File::options().read(true).append(true).create_new(true).open(&path).unwrap();
        file.write_all(b"before ").unwrap();
        (&Handed::take(file.as_raw_fd()).unwrap().file).write_all(b"after").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(text, "before after");
        assert!(!Handed::take(File::open("/").unwrap().as_raw_fd()).unwrap().is_writable);
    }

    #[test]
    fn what_is_not_open_is_an_error() {
        assert!(Handed::take(987_654).is_err());
    }
}
