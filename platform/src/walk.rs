//! Files reached part by part from the top, no link followed: what is opened is what the path says.
//!
//! Answers for holding a directory and acting on names in it. It leaves which path that should be to the caller.
//! Invariant: a link anywhere in a path is an error, so nobody is led elsewhere by one that appears meanwhile.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use libc::c_int;

/// For a directory that is only gone through.
#[cfg(target_os = "linux")]
const THROUGH: c_int = libc::O_PATH | libc::O_DIRECTORY;
#[cfg(not(target_os = "linux"))]
const THROUGH: c_int = libc::O_RDONLY | libc::O_DIRECTORY;
/// For everything: no link is followed, nothing waits, nothing is inherited.
const ALWAYS: c_int = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;

/// A directory, held.
#[derive(Debug)]
pub struct Dir(OwnedFd);

/// What a name in a directory is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To read what is there.
    Read,
    /// To change what is there.
    Write,
    /// To make a file where nothing is.
    Make,
}

/// What stands at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// What kind of thing.
    pub kind: Kind,
    /// Bytes of a file.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// How many names it has.
    pub links: u64,
    /// Its user and group.
    pub owner: (u32, u32),
    /// Seconds since 1970 at which its content last changed.
    pub changed: i64,
    /// Device and number, which no two things share at one time.
    pub identity: (u64, u64),
}

/// Kinds of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket, a device.
    Other,
}

impl Dir {
    /// The directory at an absolute path without `.` and `..`.
    ///
    /// # Errors
    /// When a part is missing, is no directory, or is a link.
    pub fn at(path: &Path) -> io::Result<Self> {
        let mut dir = Self(open_at(libc::AT_FDCWD, c"/", THROUGH | libc::O_CLOEXEC, 0)?);
        for part in path.components() {
            match part {
                Component::RootDir => {}
                Component::Normal(name) => dir = dir.child(name)?,
                Component::CurDir | Component::ParentDir | Component::Prefix(_) => {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
            }
        }
        Ok(dir)
    }

    /// A directory in it.
    ///
    /// # Errors
    /// As for [`Dir::at`].
    pub fn child(&self, name: &OsStr) -> io::Result<Self> {
        let name = single(name)?;
        match open_at(self.raw(), &name, THROUGH | libc::O_NOFOLLOW | libc::O_CLOEXEC, 0) {
            // The kernel says the same of a file and of a link here.
            Err(error) if error.raw_os_error() == Some(libc::ENOTDIR) => {
                let link = look_at(self.raw(), &name, libc::AT_SYMLINK_NOFOLLOW)
                    .is_ok_and(|looked| looked.kind == Kind::Link);
                Err(if link { io::Error::from_raw_os_error(libc::ELOOP) } else { error })
            }
            other => other.map(Self),
        }
    }

    /// Opens a name in it without waiting, whatever stands there.
    ///
    /// # Errors
    /// What the kernel said; a link is not opened.
    pub fn open(&self, name: &OsStr, purpose: Purpose) -> io::Result<File> {
        let flags = match purpose {
            Purpose::Read => libc::O_RDONLY,
            Purpose::Write => libc::O_WRONLY,
            Purpose::Make => libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL,
        };
        open_at(self.raw(), &single(name)?, flags | ALWAYS, 0o666).map(File::from)
    }

    /// A file in it without a name, which is gone unless it is given one.
    ///
    /// # Errors
    /// What the kernel said, also that the file system has no such files.
    pub fn unnamed(&self) -> io::Result<File> {
        #[cfg(target_os = "linux")]
        return open_at(self.raw(), c".", libc::O_TMPFILE | libc::O_WRONLY | libc::O_CLOEXEC, 0o666)
            .map(File::from);
        #[cfg(not(target_os = "linux"))]
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives a file without a name one in it; nothing may stand there.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn name(&self, file: &File, name: &OsStr) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            let own = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
            let name = single(name)?;
            // SAFETY: both names end with a zero byte and outlive the call; the descriptors are held.
            said(unsafe {
                libc::linkat(libc::AT_FDCWD, own.as_ptr(), self.raw(), name.as_ptr(), libc::AT_SYMLINK_FOLLOW)
            })
            .map(drop)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (file, name);
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Renames within it, over what may stand there.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to) = (single(from)?, single(to)?);
        // SAFETY: both names end with a zero byte and outlive the call; the descriptor is held.
        said(unsafe { libc::renameat(self.raw(), from.as_ptr(), self.raw(), to.as_ptr()) }).map(drop)
    }

    /// Takes a name away: a file's or a link's, or an empty directory's.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn remove(&self, name: &OsStr, kind: Kind) -> io::Result<()> {
        let flags = if kind == Kind::Directory { libc::AT_REMOVEDIR } else { 0 };
        let name = single(name)?;
        // SAFETY: the name ends with a zero byte and outlives the call; the descriptor is held.
        said(unsafe { libc::unlinkat(self.raw(), name.as_ptr(), flags) }).map(drop)
    }

    /// Makes a directory in it.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn make(&self, name: &OsStr) -> io::Result<()> {
        let name = single(name)?;
        // SAFETY: the name ends with a zero byte and outlives the call; the descriptor is held.
        said(unsafe { libc::mkdirat(self.raw(), name.as_ptr(), 0o777) }).map(drop)
    }

    /// What stands at a name in it.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn look(&self, name: &OsStr) -> io::Result<Looked> {
        look_at(self.raw(), &single(name)?, libc::AT_SYMLINK_NOFOLLOW)
    }

    /// What it is itself.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn itself(&self) -> io::Result<Looked> {
        look_at(self.raw(), c".", 0)
    }

    /// The names in it, as long as `wanted` takes them.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn names(&self, wanted: impl FnMut(OsString) -> bool) -> io::Result<()> {
        let listed = open_at(self.raw(), c".", libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC, 0)?;
        list(listed, wanted)
    }

    fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The names in a directory, links on the way to it followed, as long as `wanted` takes them.
///
/// # Errors
/// What the kernel said.
pub fn names(directory: &Path, wanted: impl FnMut(OsString) -> bool) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    list(open_at(libc::AT_FDCWD, &path, flags, 0)?, wanted)
}

/// Whether something was not reached because a link stood in the way.
#[must_use]
pub fn met_a_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// What an open file is.
///
/// # Errors
/// What the kernel said.
pub fn look(file: &File) -> io::Result<Looked> {
    use std::os::unix::fs::MetadataExt;
    let meta = file.metadata()?;
    Ok(Looked {
        kind: kind(meta.mode()),
        size: meta.len(),
        mode: meta.mode() & 0o7777,
        links: meta.nlink(),
        owner: (meta.uid(), meta.gid()),
        changed: meta.mtime(),
        identity: (meta.dev(), meta.ino()),
    })
}

fn said(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A name that is one part of a path and neither `.` nor `..`.
fn single(name: &OsStr) -> io::Result<CString> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(CString::new(bytes)?)
}

fn open_at(start: RawFd, name: &CStr, flags: c_int, mode: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: the name ends with a zero byte and outlives the call; the start is held or means the working directory.
    let raw = said(unsafe { libc::openat(start, name.as_ptr(), flags, mode) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn look_at(start: RawFd, name: &CStr, flags: c_int) -> io::Result<Looked> {
    // SAFETY: all zeroes is a valid value of this plain structure.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with a zero byte, `found` is writable; both outlive the call.
    said(unsafe { libc::fstatat(start, name.as_ptr(), &raw mut found, flags) })?;
    #[allow(
        clippy::allow_attributes,
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "systems differ"
    )]
    Ok(Looked {
        kind: kind(u32::from(found.st_mode)),
        size: u64::try_from(found.st_size).unwrap_or(0),
        mode: u32::from(found.st_mode) & 0o7777,
        links: found.st_nlink as u64,
        owner: (found.st_uid, found.st_gid),
        changed: found.st_mtime as i64,
        identity: (found.st_dev as u64, found.st_ino as u64),
    })
}

fn kind(mode: u32) -> Kind {
    const FORMAT: u32 = 0o170_000;
    match mode & FORMAT {
        0o100_000 => Kind::File,
        0o040_000 => Kind::Directory,
        0o120_000 => Kind::Link,
        _ => Kind::Other,
    }
}

#[cfg(target_os = "linux")]
fn list(dir: OwnedFd, mut wanted: impl FnMut(OsString) -> bool) -> io::Result<()> {
    /// Before the name: number, offset, record length, kind.
    const HEAD: usize = 19;
    // Not filled with anything first: mostly little of it is used.
    let mut room: Vec<u8> = Vec::with_capacity(32 << 10);
    loop {
        let most = room.capacity();
        // SAFETY: the kernel writes at most `most` bytes, for which there is room; the descriptor is held.
        let read = unsafe { libc::syscall(libc::SYS_getdents64, dir.as_raw_fd(), room.as_mut_ptr(), most) };
        let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
        if read == 0 {
            return Ok(());
        }
        // SAFETY: the kernel has written that many bytes, and no more than there is room for.
        unsafe { room.set_len(read.min(most)) };
        let mut rest = room.as_slice();
        while rest.len() > HEAD {
            let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
            let Some(entry) = rest.get(..length).filter(|entry| entry.len() > HEAD) else { break };
            let name = entry[HEAD..].split(|byte| *byte == 0).next().unwrap_or_default();
            if name != b"." && name != b".." && !wanted(OsString::from_vec(name.to_vec())) {
                return Ok(());
            }
            rest = &rest[length..];
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn list(dir: OwnedFd, mut wanted: impl FnMut(OsString) -> bool) -> io::Result<()> {
    use std::os::fd::IntoRawFd;
    /// Ends the listing and closes its descriptor.
    struct Listing(*mut libc::DIR);
    impl Drop for Listing {
        fn drop(&mut self) {
            // SAFETY: made by `fdopendir` below and closed nowhere else.
            unsafe { libc::closedir(self.0) };
        }
    }
    // SAFETY: the descriptor is a directory's, and is the listing's from here on.
    let raw = unsafe { libc::fdopendir(dir.into_raw_fd()) };
    if raw.is_null() {
        return Err(io::Error::last_os_error());
    }
    let listing = Listing(raw);
    loop {
        // SAFETY: the listing is open and used by this thread alone.
        let entry = unsafe { libc::readdir(listing.0) };
        if entry.is_null() {
            return Ok(());
        }
        // SAFETY: the entry is valid until the next call.
        let name = unsafe { &(*entry).d_name };
        // SAFETY: the name ends with a zero byte within its field.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_bytes();
        if name != b"." && name != b".." && !wanted(OsString::from_vec(name.to_vec())) {
            return Ok(());
        }
    }
}

/// The most directories that are opened up to remove what is in them.
const MOST_OPENED: usize = 100_000;

/// Removes a directory of our own with all that is in it, also where whoever filled it has closed directories to everyone.
pub fn remove_tree(path: &Path) {
    if std::fs::remove_dir_all(path).is_ok() {
        return;
    }
    let mut pending = vec![path.to_path_buf()];
    for _ in 0..MOST_OPENED {
        let Some(dir) = pending.pop() else { break };
        if open_up(&dir).is_err() {
            continue;
        }
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        pending.extend(below.map(|entry| entry.path()));
    }
    let _ = std::fs::remove_dir_all(path);
}

/// Lets the owner into a directory; what a link leads to is left as it is.
#[cfg(target_os = "linux")]
fn open_up(dir: &Path) -> io::Result<()> {
    let held = Dir::at(dir)?;
    std::fs::set_permissions(format!("/proc/self/fd/{}", held.0.as_raw_fd()), Permissions::from_mode(0o700))
}

#[cfg(not(target_os = "linux"))]
fn open_up(dir: &Path) -> io::Result<()> {
    if !std::fs::symlink_metadata(dir)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    std::fs::set_permissions(dir, Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn scratch(name: &str) -> std::path::PathBuf {
        let temp = std::fs::canonicalize(std::env::temp_dir()).expect("a temporary directory");
        let dir = temp.join(format!("sbx-walk-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).expect("a directory");
        dir
    }

    #[test]
    fn no_link_is_followed_anywhere() {
        let base = scratch("links");
        std::fs::create_dir(base.join("real")).expect("a directory");
        std::fs::write(base.join("real/file"), "x").expect("a file");
        std::os::unix::fs::symlink("real", base.join("way")).expect("a link");
        std::os::unix::fs::symlink("file", base.join("real/last")).expect("a link");
        assert!(Dir::at(&base.join("way")).is_err_and(|error| met_a_link(&error)));
        assert!(Dir::at(&base.join("real/file")).is_err_and(|error| !met_a_link(&error)));
        let real = Dir::at(&base.join("real")).expect("a directory");
        assert!(real.open(OsStr::new("file"), Purpose::Read).is_ok());
        assert!(real.open(OsStr::new("last"), Purpose::Read).is_err());
        assert!(real.open(OsStr::new("last"), Purpose::Make).is_err());
        assert_eq!(real.look(OsStr::new("last")).expect("a look").kind, Kind::Link);
        for name in ["", ".", "..", "../real", "a/b"] {
            assert!(real.look(OsStr::new(name)).is_err(), "{name}");
        }
        std::fs::remove_dir_all(base).expect("cleaned up");
    }

    #[test]
    fn what_was_closed_is_removed_and_what_a_link_leads_to_is_left() {
        let base = scratch("closed");
        let (tree, outside) = (base.join("tree"), base.join("outside"));
        std::fs::create_dir_all(tree.join("a/b")).expect("directories");
        std::fs::create_dir(&outside).expect("a directory");
        std::fs::write(tree.join("a/b/file"), "x").expect("a file");
        std::os::unix::fs::symlink(&outside, tree.join("a/way")).expect("a link");
        for (dir, mode) in [(&outside, 0o500), (&tree.join("a/b"), 0), (&tree.join("a"), 0)] {
            std::fs::set_permissions(dir, Permissions::from_mode(mode)).expect("closed");
        }
        remove_tree(&tree);
        assert!(!tree.exists());
        assert_eq!(std::fs::metadata(&outside).expect("it stands").permissions().mode() & 0o777, 0o500);
        std::fs::remove_dir_all(base).expect("cleaned up");
    }

    #[test]
    fn names_are_listed_until_enough_is_enough() {
        let base = scratch("names");
        (0..700).for_each(|n| std::fs::write(base.join(format!("file-{n:04}")), "").expect("a file"));
        let dir = Dir::at(&base).expect("a directory");
        let mut seen = Vec::new();
        dir.names(|name| {
            seen.push(name);
            true
        })
        .expect("listed");
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 700);
        let mut few = 0;
        dir.names(|_| {
            few += 1;
            few < 3
        })
        .expect("listed");
        assert_eq!(few, 3);
        std::fs::remove_dir_all(base).expect("cleaned up");
    }

    #[test]
    fn a_file_without_a_name_leaves_nothing_until_it_is_named() {
        let base = scratch("unnamed");
        let dir = Dir::at(&base).expect("a directory");
        // Not every file system has such files; what is promised is that nothing is left.
        if let Ok(mut file) = dir.unnamed() {
            file.write_all(b"x").expect("written");
            assert_eq!(std::fs::read_dir(&base).expect("listed").count(), 0);
            dir.name(&file, OsStr::new("n")).expect("named");
            assert_eq!(std::fs::read(base.join("n")).expect("read"), b"x");
            assert!(dir.name(&file, OsStr::new("n")).is_err());
        }
        std::fs::remove_dir_all(base).expect("cleaned up");
    }
}
