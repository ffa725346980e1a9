//! From a caller's name to a directory held by descriptor and a last part.
//!
//! Answers for following links as the kernel would for the caller: `/proc/self` is the caller's, not ours.
//! It leaves what may be done there to [`super::perform`].
//! Invariant: the result is a directory we hold and one name in it that is used without following links.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::caller::{self, Caller};
use crate::linux::sys::fd::{self, NO_SYMLINKS};
use crate::linux::sys::{c_path, errno, mount, process};

/// Links followed in one resolution, as in the kernel.
const MAX_LINKS: usize = 40;
const PROC_MAGIC: libc::c_long = 0x9fa0;

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Spot {
    /// The directory.
    pub(super) parent: OwnedFd,
    /// The last part, with trailing slashes if it had them.
    pub(super) name: CString,
    /// The full path, for deciding.
    pub(super) path: PathBuf,
}

impl Spot {
    /// The last part without trailing slashes.
    pub(super) fn bare_name(&self) -> CString {
        let bytes = self.name.to_bytes();
        let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        CString::new(&bytes[..end]).unwrap_or_default()
    }

    /// Whether the last part names a directory by where it stands, so that the path does not say which.
    pub(super) fn is_dots(&self) -> bool {
        matches!(self.bare_name().to_bytes(), b"." | b"..")
    }

    /// Whether the name ends in a slash.
    pub(super) fn wants_directory(&self) -> bool {
        self.name.to_bytes().ends_with(b"/")
    }
}

/// Resolves names for callers.
#[derive(Debug)]
pub(super) struct Resolver {
    root: OwnedFd,
    proc: OwnedFd,
    proc_path: PathBuf,
    own: OwnedFd,
    ourselves: PathBuf,
}

impl Resolver {
    pub(super) fn new(proc_path: &Path) -> io::Result<Self> {
        let proc = fd::open(fd::cwd(), &c_path(proc_path)?, libc::O_PATH | libc::O_DIRECTORY, 0)?;
        let own = fd::open(proc.as_fd(), c"self/fd", libc::O_PATH | libc::O_DIRECTORY, 0)?;
        let ourselves = proc_path.join(process::own_pid().to_string());
        Ok(Self { root: root()?, proc, proc_path: proc_path.to_owned(), own, ourselves })
    }

    /// The process list.
    pub(super) fn proc(&self) -> BorrowedFd<'_> {
        self.proc.as_fd()
    }

    /// Where the process list is.
    pub(super) fn proc_path(&self) -> &Path {
        &self.proc_path
    }

    /// Our own descriptor as a name by which it can be opened anew.
    pub(super) fn reopen(&self, object: &OwnedFd, flags: i32) -> io::Result<OwnedFd> {
        fd::open(self.own.as_fd(), &CString::new(object.as_raw_fd().to_string())?, flags, 0)
    }

    /// The path of what `object` leads to.
    pub(super) fn path_of(&self, object: &OwnedFd) -> io::Result<PathBuf> {
        let mut buffer = [0; 4096];
        let number = CString::new(object.as_raw_fd().to_string())?;
        let path = fd::read_link(self.own.as_raw_fd(), &number, &mut buffer)?;
        Ok(PathBuf::from(OsStr::from_bytes(path)))
    }

    /// The directory at `path`, which has no links in it.
    pub(super) fn held(&self, path: &Path) -> io::Result<OwnedFd> {
        let below = relative(&c_path(path)?)?;
        fd::open2(self.root.as_fd(), &below, libc::O_PATH | libc::O_DIRECTORY, 0, NO_SYMLINKS)
    }

    /// The path `/proc/self/fd/N` of one of our descriptors.
    pub(super) fn own_name(&self, object: &OwnedFd) -> io::Result<CString> {
        c_path(&self.proc_path.join("self/fd").join(object.as_raw_fd().to_string()))
    }

    /// Where `name`, given with `dirfd`, leads.
    pub(super) fn spot(&self, caller: &Caller, dirfd: i32, name: &CStr) -> io::Result<Spot> {
        let (parent, last) = caller::split(name)?;
        let parent = self.directory(caller, dirfd, &parent)?;
        self.place(parent, last)
    }

    fn place(&self, parent: OwnedFd, name: CString) -> io::Result<Spot> {
        let mut spot = Spot { path: self.path_of(&parent)?, parent, name };
        let bare = spot.bare_name();
        spot.path.push(OsStr::from_bytes(bare.to_bytes()));
        if spot.path.starts_with(&self.ourselves) {
            return Err(errno(libc::EACCES));
        }
        Ok(spot)
    }

    /// The directory `name` leads to, following links.
    pub(super) fn directory(&self, caller: &Caller, dirfd: i32, name: &CStr) -> io::Result<OwnedFd> {
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let relative = relative(name)?;
        if name.to_bytes().starts_with(b"/") {
            return match fd::open2(self.root.as_fd(), &relative, flags, 0, NO_SYMLINKS) {
                Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                    self.walk(caller, root()?, relative.to_bytes(), &mut 0)
                }
                other => other,
            };
        }
        let start = caller.start(self.proc(), dirfd)?;
        if relative.as_c_str() == c"." {
            return Ok(start);
        }
        match fd::open2(start.as_fd(), &relative, flags, 0, NO_SYMLINKS) {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                self.walk(caller, start, relative.to_bytes(), &mut 0)
            }
            other => other,
        }
    }

    /// One more link: `spot` is a symbolic link; where does it lead?
    pub(super) fn follow(&self, caller: &Caller, spot: &Spot, links: &mut usize) -> io::Result<Step> {
        *links += 1;
        if *links > MAX_LINKS {
            return Err(errno(libc::ELOOP));
        }
        let name = spot.bare_name();
        if is_proc(spot.parent.as_fd())? {
            return match self.own_entry(caller, &name)? {
                Some(_) => Err(errno(libc::EISDIR)),
                None => Ok(Step::Object(fd::open(spot.parent.as_fd(), &name, libc::O_PATH, 0)?)),
            };
        }
        let mut buffer = [0; 4096];
        let target = fd::read_link(spot.parent.as_raw_fd(), &name, &mut buffer)?;
        let target = CString::new(target)?;
        let (parent, last) = caller::split(&target)?;
        let start = if target.to_bytes().starts_with(b"/") {
            root()?
        } else {
            fd::dup_above(spot.parent.as_raw_fd(), 3)?
        };
        let parent = self.walk(caller, start, relative(&parent)?.to_bytes(), links)?;
        Ok(Step::Spot(self.place(parent, last)?))
    }

    /// Walks part by part, following links for the caller.
    fn walk(&self, caller: &Caller, start: OwnedFd, path: &[u8], links: &mut usize) -> io::Result<OwnedFd> {
        let mut at = start;
        let mut rest: VecDeque<Vec<u8>> = parts(path).collect();
        while let Some(part) = rest.pop_front() {
            let name = CString::new(part)?;
            let flags = libc::O_PATH | libc::O_NOFOLLOW;
            let next = fd::open(at.as_fd(), &name, flags, 0)?;
            if fd::stat(next.as_raw_fd())?.st_mode & libc::S_IFMT != libc::S_IFLNK {
                at = next;
                continue;
            }
            *links += 1;
            if *links > MAX_LINKS {
                return Err(errno(libc::ELOOP));
            }
            if is_proc(at.as_fd())? {
                match self.own_entry(caller, &name)? {
                    Some(entry) => push_front(&mut rest, entry.as_bytes()),
                    // What only we may enter is not entered on behalf of another.
                    None if self.path_of(&at)?.starts_with(&self.ourselves) => {
                        return Err(errno(libc::EACCES));
                    }
                    None => at = fd::open(at.as_fd(), &name, libc::O_PATH, 0)?,
                }
                continue;
            }
            let mut buffer = [0; 4096];
            let target = fd::read_link(next.as_raw_fd(), c"", &mut buffer)?;
            if target.starts_with(b"/") {
                at = root()?;
            }
            push_front(&mut rest, target);
        }
        if fd::stat(at.as_raw_fd())?.st_mode & libc::S_IFMT != libc::S_IFDIR {
            return Err(errno(libc::ENOTDIR));
        }
        Ok(at)
    }

    /// What `self` and `thread-self` in the process list mean for the caller.
    fn own_entry(&self, caller: &Caller, name: &CStr) -> io::Result<Option<String>> {
        let process = || caller.status(self.proc(), "Tgid");
        match name.to_bytes() {
            b"self" => process().map(Some),
            b"thread-self" => Ok(Some(format!("{}/task/{}", process()?, caller.thread()))),
            _ => Ok(None),
        }
    }
}

/// Where following a link leads.
#[derive(Debug)]
pub(super) enum Step {
    /// To another name.
    Spot(Spot),
    /// To an object without a name of its own: a link in the process list.
    Object(OwnedFd),
}

fn root() -> io::Result<OwnedFd> {
    fd::open(fd::cwd(), c"/", libc::O_PATH | libc::O_DIRECTORY, 0)
}

fn is_proc(dir: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(mount::filesystem_kind(dir)? == PROC_MAGIC)
}

/// `name` without leading slashes; `.` if nothing is left.
fn relative(name: &CStr) -> io::Result<CString> {
    let bytes = name.to_bytes();
    let start = bytes.iter().position(|byte| *byte != b'/').unwrap_or(bytes.len());
    let rest = if start == bytes.len() { b".".as_slice() } else { &bytes[start..] };
    CString::new(rest).map_err(io::Error::from)
}

fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> + '_ {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec)
}

fn push_front(rest: &mut VecDeque<Vec<u8>>, path: &[u8]) {
    for part in parts(path).rev() {
        rest.push_front(part);
    }
}
