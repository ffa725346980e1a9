//! Whether a directory may leave its name.
//!
//! Answers for what a directory holds that has to stay where it is: moving it takes everything in it away from
//! where it stood. It leaves which names those are to [`super::protect`].
//! Invariant: everything is reached part by part beneath the directory that is held, following no links; what
//! could not be looked at is taken for something that stays.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::own::Own;
use super::protect::Protected;
use super::resolve::Spot;
use crate::linux::sys::{dir, fd};

/// Names looked at before a move.
const NAMES_MAX: usize = 1 << 16;
/// Directories in each other that are entered.
const DEPTH_MAX: usize = 100;

/// What holds a directory where it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Something of this path that is not the launch's own.
    By(PathBuf),
    /// There is too much in it, or something that cannot be looked at.
    Unknown,
}

/// Looks through a directory.
struct Look<'a> {
    protected: &'a Protected,
    own: &'a Own,
    left: usize,
}

/// Whether the directory at `spot` may be moved, with everything in it.
pub(super) fn may_leave(spot: &Spot, protected: &Protected, own: &Own) -> Result<(), Kept> {
    let name = spot.bare_name();
    // Too much to look at is a reason to keep what others have made, not what the launch made itself.
    let is_own = own.at(spot.parent.as_fd(), &name).is_some();
    let mut look = Look { protected, own, left: NAMES_MAX };
    let found = match dir::open(spot.parent.as_fd(), &name) {
        Ok(dir) => look.through(&dir, &spot.path, 0),
        Err(_) => Err(Kept::Unknown),
    };
    found.or_else(|kept| if is_own && kept == Kept::Unknown { Ok(()) } else { Err(kept) })
}

impl Look<'_> {
    fn through(&mut self, dir: &OwnedFd, path: &Path, depth: usize) -> Result<(), Kept> {
        let (is_own, within) = (self.own.has(dir.as_fd()), self.protected.may_be_within(path));
        let mut inner: Vec<CString> = Vec::new();
        let mut found = Ok(());
        let read = dir::names(dir, |name, kind| {
            let is_dir = match kind {
                libc::DT_UNKNOWN => fd::stat_at(dir.as_raw_fd(), name)
                    .map_or(true, |found| found.st_mode & libc::S_IFMT == libc::S_IFDIR),
                kind => kind == libc::DT_DIR,
            };
            let part = OsStr::from_bytes(name.to_bytes());
            if self.left == 0 {
                found = Err(Kept::Unknown);
            } else if !is_own && self.protected.stays(path, within, part, is_dir) {
                found = Err(Kept::By(path.join(part)));
            } else if is_dir {
                inner.push(name.to_owned());
            }
            self.left = self.left.saturating_sub(1);
            found.is_ok()
        });
        found?;
        if read.is_err() || depth == DEPTH_MAX {
            return Err(Kept::Unknown);
        }
        for name in inner {
            let below = dir::open(dir.as_fd(), &name).map_err(|_| Kept::Unknown)?;
            self.through(&below, &path.join(OsStr::from_bytes(name.to_bytes())), depth + 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::sys::c_path;
    use crate::plan::{Access, Code, InsideNew, MountOp, Plan, ProtectedName};
    use std::fs;
    use std::sync::Arc;

    fn guard() -> Protected {
        let mut plan = Plan::new("/bin/true", vec!["true".into()]);
        let (access, code) = (Access::ReadWrite, Code::Allowed);
        plan.mounts.push(MountOp::Bind { source: "/w".into(), dest: "/w".into(), access, code });
        let name = |parts: &[&'static str]| ProtectedName {
            components: parts.iter().map(|part| OsStr::new(*part).into()).collect(),
            may_make: Vec::new(),
            may_take: Vec::new(),
            inside_new: InsideNew::Anything,
        };
        plan.protect_names = Arc::new(vec![name(&[".envrc"]), name(&[".git", "config"])]);
        Protected::of(&plan).unwrap()
    }

    #[test]
    fn what_is_found_at_any_depth_keeps_a_directory_and_so_does_too_much() {
        let top = std::env::temp_dir().join(format!("sbx-leave-{}", std::process::id()));
        for dir in ["plain/a/b", "deep/a/.git", "link"] {
            fs::create_dir_all(top.join(dir)).unwrap();
        }
        fs::write(top.join("plain/a/b/envrc"), "").unwrap();
        fs::write(top.join("deep/a/.git/config"), "").unwrap();
        std::os::unix::fs::symlink("../deep", top.join("link/to")).unwrap();
        let (guard, mut own) = (guard(), Own::default());
        let held = || dir::open(fd::cwd(), &c_path(&top).unwrap()).unwrap();
        let asked = |name: &str, own: &Own| {
            let spot = Spot { parent: held(), name: CString::new(name).unwrap(), path: top.join(name) };
            may_leave(&spot, &guard, own)
        };
        assert_eq!(asked("plain", &own), Ok(()));
        assert_eq!(asked("link", &own), Ok(()), "links are not followed");
        assert_eq!(asked("deep", &own), Err(Kept::By(top.join("deep/a/.git/config"))));
        assert_eq!(asked("missing", &own), Err(Kept::Unknown));
        let few = |left| {
            let dir = dir::open(held().as_fd(), c"plain").unwrap();
            Look { protected: &guard, own: &own, left }.through(&dir, &top.join("plain"), 0)
        };
        assert_eq!((few(2), few(3)), (Err(Kept::Unknown), Ok(())));
        fs::create_dir(top.join("new")).unwrap();
        own.made(held().as_fd(), c"new");
        fs::write(top.join("new/.envrc"), "").unwrap();
        assert_eq!(asked("new", &own), Ok(()), "what it made itself");
        fs::rename(top.join("deep"), top.join("new/deep")).unwrap();
        assert_eq!(asked("new", &own), Err(Kept::By(top.join("new/deep/a/.git/config"))));
        fs::remove_dir_all(top).unwrap();
    }
}
