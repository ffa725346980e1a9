//! What a process keeps to itself: directories nobody else can enter, and a session of its own.
//!
//! Answers for making and entering such a directory without being led elsewhere by a link. It leaves what is
//! kept there to the caller.
//! Invariant: a [`PrivateDir`] belongs to this user, and no other user can read, write or enter it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A directory of this user's, open.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    held: File,
}

impl PrivateDir {
    /// Opens a directory, making it first where there is none. The last part of `path` must not be a link.
    ///
    /// # Errors
    /// When it is a link or no directory, belongs to another user, or is open to others.
    pub fn make(path: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Self::open(path),
        }
    }

    /// Makes a directory that was not there before.
    ///
    /// # Errors
    /// When it is there, or cannot be made.
    pub fn make_new(path: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(path)?;
        Self::open(path)
    }

    /// Opens a directory that is there.
    ///
    /// # Errors
    /// As for [`PrivateDir::make`], and when there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        let held = open_directory(path)?;
        let meta = held.metadata()?;
        if meta.uid() != crate::ids().0 {
            return Err(refused("it belongs to another user"));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(refused("it is open to other users"));
        }
        Ok(Self { path: path.to_path_buf(), held })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A name in this very directory, whatever has become of its path; good while this value lives.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            PathBuf::from(format!("/proc/self/fd/{}/{name}", self.held.as_raw_fd()))
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = &self.held;
            self.path.join(name)
        }
    }

    /// A private directory in it, made where there is none.
    ///
    /// # Errors
    /// As for [`PrivateDir::make`].
    pub fn child(&self, name: &str) -> io::Result<Self> {
        Ok(Self { path: self.path.join(name), ..Self::make(&self.at(name))? })
    }
}

/// Whether a directory is one of this user's that nobody else can write to.
///
/// # Errors
/// When it cannot be examined, or is a link.
pub fn is_own(path: &Path) -> io::Result<bool> {
    let meta = open_directory(path)?.metadata()?;
    Ok(meta.uid() == crate::ids().0 && meta.mode() & 0o022 == 0)
}

fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

/// Leaves the caller's terminal and session, so that neither can end this process.
///
/// # Errors
/// When this process leads a group already.
pub fn leave_session() -> io::Result<()> {
    // SAFETY: takes nothing; it changes only which session this process belongs to.
    let session = unsafe { libc::setsid() };
    if session == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets go of every descriptor but the three usual ones: whoever stays when its caller has gone must not keep the
/// caller's pipes and locks. For the start of a program, before it has opened anything.
pub fn let_go_of_inherited() {
    #[cfg(target_os = "linux")]
    let _ = crate::linux::sys::fd::close_range(3, u32::MAX);
    #[cfg(not(target_os = "linux"))]
    for number in 3..INHERITED_MAX {
        // SAFETY: a plain number; nothing of this program is open yet, as the caller promises.
        unsafe { libc::close(number) };
    }
}

/// Where nobody can be asked for all of them, descriptors from here on are taken for unused.
#[cfg(not(target_os = "linux"))]
const INHERITED_MAX: libc::c_int = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("sbx-own-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).expect("a directory");
        dir
    }

    #[test]
    fn a_link_or_an_open_directory_is_not_private() {
        let base = scratch("kinds");
        std::fs::create_dir(base.join("open")).expect("a directory");
        std::fs::set_permissions(base.join("open"), std::fs::Permissions::from_mode(0o755)).expect("a mode");
        std::os::unix::fs::symlink(&base, base.join("link")).expect("a link");
        std::fs::write(base.join("file"), "").expect("a file");
        for name in ["open", "link", "file"] {
            assert!(PrivateDir::make(&base.join(name)).is_err(), "{name}");
        }
        let own = PrivateDir::make(&base.join("own")).expect("a private directory");
        assert!(PrivateDir::make_new(&base.join("own")).is_err());
        std::fs::write(own.at("x"), "y").expect("a file in it");
        assert_eq!(std::fs::read_to_string(base.join("own/x")).expect("the same file"), "y");
        std::fs::remove_dir_all(base).expect("cleaned up");
    }
}
