//! Changing times for a caller.
//!
//! Answers for `utimensat` and its older relatives, which no rule of the kernel's refuses: they are asked about where
//! some place is mounted to be changed and nothing may be written in it. It leaves which places to [`super::protect`].
//! Invariant: what was looked at is what is changed, by descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use libc::{c_int, timespec};

use super::Done;
use super::caller::Caller;
use super::perform::Hands;
use super::resolve::Step;
use crate::linux::sys::{check_int, errno, fd};

/// Two times in the caller's memory, at this address; 0 stands for now.
#[derive(Clone, Copy, Debug)]
pub(super) enum Times {
    /// Seconds each.
    Seconds(u64),
    /// Seconds and microseconds.
    Micros(u64),
    /// Seconds and nanoseconds.
    Nanos(u64),
}

impl Times {
    fn read(self, caller: &Caller) -> io::Result<Option<[timespec; 2]>> {
        let (at, fields, scale) = match self {
            Self::Seconds(at) => (at, 1, 0),
            Self::Micros(at) => (at, 2, 1000),
            Self::Nanos(at) => (at, 2, 1),
        };
        if at == 0 {
            return Ok(None);
        }
        let mut bytes = [0; 32];
        caller.bytes(at, &mut bytes[..16 * fields])?;
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
            i64::from_ne_bytes(word)
        };
        let time = |index: usize| {
            let part = if fields == 2 { word(2 * index + 1) } else { 0 };
            let is_odd = scale == 1000 && !(0..1_000_000).contains(&part);
            if is_odd {
                Err(errno(libc::EINVAL))
            } else {
                Ok(timespec { tv_sec: word(fields * index), tv_nsec: part * scale })
            }
        };
        Ok(Some([time(0)?, time(1)?]))
    }
}

impl Hands<'_> {
    /// `utimensat`, `futimesat`, `utimes`, `utime`.
    pub(super) fn set_times(
        &mut self,
        caller: &Caller,
        (dirfd, name): (c_int, u64),
        times: Times,
        flags: c_int,
    ) -> io::Result<Done> {
        let times = times.read(caller)?;
        if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Err(errno(libc::EINVAL));
        }
        if name == 0 && dirfd != libc::AT_FDCWD {
            return self.set_times_of(&caller.start(self.resolver().proc(), dirfd)?, times);
        }
        let name = caller.name(name)?;
        if name.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            return self.set_times_of(&caller.start(self.resolver().proc(), dirfd)?, times);
        }
        let spot = self.resolver().spot(caller, dirfd, &name)?;
        match self.last(caller, spot, flags & libc::AT_SYMLINK_NOFOLLOW == 0)?.0 {
            Step::Object(object) => self.set_times_of(&object, times),
            // Whose name that is, is not in the path; and with a slash behind it even a link is followed.
            Step::Spot(spot) if spot.is_dots() || spot.wants_directory() => {
                let object = fd::open(spot.parent.as_fd(), &spot.name, libc::O_PATH, 0)?;
                self.set_times_of(&object, times)
            }
            Step::Spot(spot) => {
                self.guard_times(&spot.path)?;
                change(spot.parent.as_raw_fd(), &spot.name, times, libc::AT_SYMLINK_NOFOLLOW)
            }
        }
    }

    fn set_times_of(&self, object: &OwnedFd, times: Option<[timespec; 2]>) -> io::Result<Done> {
        let path = self.resolver().path_of(object)?;
        if path.is_absolute() {
            self.guard_times(&path)?;
        }
        change(libc::AT_FDCWD, &self.resolver().own_name(object)?, times, 0)
    }
}

fn change(dir: RawFd, name: &std::ffi::CStr, times: Option<[timespec; 2]>, flags: c_int) -> io::Result<Done> {
    let times = times.as_ref().map_or(std::ptr::null(), |times| times.as_ptr());
    // SAFETY: a descriptor we hold, a NUL-terminated name, and two times or none.
    check_int(unsafe { libc::utimensat(dir, name.as_ptr(), times, flags) }).map(|_| Done::Nothing)
}
