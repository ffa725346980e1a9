//! Changing permissions for a caller.
//!
//! Answers for `chmod` and its relatives: a hook that can no longer be executed is as good as removed. It leaves
//! which paths are kept to [`super::protect`].
//! Invariant: what was looked at is what is changed, by descriptor.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libc::c_int;

use super::Done;
use super::caller::Caller;
use super::perform::Hands;
use super::resolve::Step;
use crate::linux::sys::{check_int, errno, fd};

impl Hands<'_> {
    /// `chmod`, `fchmodat`, `fchmodat2`.
    pub(super) fn chmod(
        &mut self,
        caller: &Caller,
        dirfd: c_int,
        name: u64,
        mode: u32,
        flags: c_int,
    ) -> io::Result<Done> {
        let name = caller.name(name)?;
        if name.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            return self.fchmod(caller, dirfd, mode);
        }
        let spot = self.resolver().spot(caller, dirfd, &name)?;
        let object = match self.last(caller, spot, flags & libc::AT_SYMLINK_NOFOLLOW == 0)?.0 {
            Step::Object(object) => object,
            Step::Spot(spot) => {
                fd::open(spot.parent.as_fd(), &spot.bare_name(), libc::O_PATH | libc::O_NOFOLLOW, 0)?
            }
        };
        self.change_mode(&object, mode)
    }

    /// `fchmod`.
    pub(super) fn fchmod(&mut self, caller: &Caller, descriptor: c_int, mode: u32) -> io::Result<Done> {
        let object = caller.start(self.resolver().proc(), descriptor)?;
        self.change_mode(&object, mode)
    }

    fn change_mode(&self, object: &OwnedFd, mode: u32) -> io::Result<Done> {
        match fd::stat(object.as_raw_fd())?.st_mode & libc::S_IFMT {
            libc::S_IFLNK => return Err(errno(libc::EOPNOTSUPP)),
            libc::S_IFDIR => {}
            _ if mode & libc::S_ISGID != 0 => return Err(errno(libc::EPERM)),
            _ => {}
        }
        let path = self.resolver().path_of(object)?;
        if path.is_absolute() && !self.may_change_mode(object, &path) {
            return Err(errno(libc::EACCES));
        }
        change(&self.resolver().own_name(object)?, mode).map(|()| Done::Nothing)
    }
}

fn change(path: &CStr, mode: u32) -> io::Result<()> {
    // SAFETY: a NUL-terminated path and an integer.
    check_int(unsafe { libc::chmod(path.as_ptr(), mode) }).map(drop)
}
