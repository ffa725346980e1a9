//! Doing what a caller asked for, once it is clear where.
//!
//! Answers for acting with the caller's mode and mask, and for refusing at protected paths. It leaves reading
//! and answering calls to the broker.
//! Invariant: every act names a directory we hold and one part in it, and follows no link in that part.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use libc::c_int;

use super::Done;
use super::caller::Caller;
use super::leave::{Kept, may_leave};
use super::mask::Masks;
use super::noted::Noted;
use super::own::Own;
use super::places::Places;
use super::protect::{Change, Protected};
use super::resolve::{Resolver, Spot, Step};
use super::settings;
use super::waiting::Waiting;
use crate::linux::sys::{check, check_int, dir, errno, fd, mount, process};
use crate::report::Verb;

/// The marker bit of `O_TMPFILE`.
const UNNAMED: c_int = 0x40_0000;

/// Performs calls.
#[derive(Debug)]
pub(super) struct Hands<'p> {
    protected: &'p Protected,
    own: Own,
    noted: Noted,
    /// What held the directory that was to be moved last.
    kept: Option<PathBuf>,
    resolver: Resolver,
    masks: Masks,
}

type From = (c_int, u64);

impl<'p> Hands<'p> {
    pub(super) fn new(protected: &'p Protected) -> io::Result<Self> {
        let resolver = Resolver::new(protected.proc())?;
        let (own, noted) = (Own::default(), Noted::default());
        Ok(Self { protected, own, noted, kept: None, resolver, masks: Masks::default() })
    }

    /// What was made since this was last asked and is worth telling of.
    pub(super) fn news(&mut self) -> Vec<(Verb, PathBuf)> {
        self.noted.take()
    }

    /// What held the directory that was to be moved and was not.
    pub(super) fn kept(&mut self) -> Option<PathBuf> {
        self.kept.take()
    }

    /// Something was made or written at `spot`.
    fn note(&mut self, spot: &Spot) {
        if let Some(verb) = self.protected.tells(&spot.path, &|| self.own.has(spot.parent.as_fd())) {
            self.noted.made(spot, verb);
        }
    }

    /// What resolves names.
    pub(super) fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// `umask`, which only the caller itself can do.
    pub(super) fn umask(&mut self, caller: &Caller, mask: u64) -> io::Result<Done> {
        self.masks.let_change(caller, mask, self.resolver.proc());
        Ok(Done::Continue)
    }

    /// A caller asks for something.
    pub(super) fn heard_of(&mut self, caller: &Caller) {
        self.masks.heard_of(caller);
    }

    /// Takes on the caller's mask for the next act.
    fn take_mask(&mut self, caller: &Caller) -> io::Result<()> {
        let mask = self.masks.of(caller, self.resolver.proc())?;
        process::set_mask(mask);
        Ok(())
    }

    fn spot(&self, caller: &Caller, (dirfd, name): From) -> io::Result<Spot> {
        self.resolver.spot(caller, dirfd, &caller.name(name)?)
    }

    /// `open`, `openat`, `creat`.
    pub(super) fn open(
        &mut self,
        caller: &Caller,
        dirfd: c_int,
        name: u64,
        flags: c_int,
        mode: u32,
    ) -> io::Result<Done> {
        let name = caller.name(name)?;
        if flags & UNNAMED != 0 {
            let dir = self.resolver.directory(caller, dirfd, &name)?;
            self.take_mask(caller)?;
            return Ok(Done::Open(fd::open(dir.as_fd(), c".", flags, mode)?, flags));
        }
        let making = flags & libc::O_CREAT != 0;
        let follow = flags & libc::O_NOFOLLOW == 0 && !(making && flags & libc::O_EXCL != 0);
        let spot = self.resolver.spot(caller, dirfd, &name)?;
        let (last, found) = self.last(caller, spot, follow)?;
        match last {
            Step::Object(object) => self.open_object(caller, &object, flags),
            Step::Spot(spot) => self.open_spot(caller, &spot, found, flags, mode),
        }
    }

    /// Follows links in the last part until there are none; also says what lies there.
    pub(super) fn last(
        &self,
        caller: &Caller,
        mut spot: Spot,
        follow: bool,
    ) -> io::Result<(Step, Option<libc::stat>)> {
        let mut links = 0;
        loop {
            let found = look(&spot)?;
            let is_link = found.is_some_and(|found| found.st_mode & libc::S_IFMT == libc::S_IFLNK);
            if !follow || !is_link {
                return Ok((Step::Spot(spot), found));
            }
            match self.resolver.follow(caller, &spot, &mut links)? {
                Step::Spot(next) => spot = next,
                object => return Ok((object, None)),
            }
        }
    }

    fn open_spot(
        &mut self,
        caller: &Caller,
        spot: &Spot,
        found: Option<libc::stat>,
        flags: c_int,
        mode: u32,
    ) -> io::Result<Done> {
        let kind = found.map(|found| found.st_mode & libc::S_IFMT);
        if spot.wants_directory() || kind == Some(libc::S_IFDIR) {
            return Err(errno(refusal_for_directory(kind, flags)));
        }
        self.guard(spot, Change::Write)?;
        self.guard_content(&spot.path, kind.is_some(), flags)?;
        let flags = flags | libc::O_NOFOLLOW | libc::O_NOCTTY;
        match kind {
            Some(libc::S_IFIFO) => {
                let object = fd::open(spot.parent.as_fd(), &spot.name, libc::O_PATH | libc::O_NOFOLLOW, 0)?;
                Waiting::begin(&self.resolver, &object, flags)
            }
            Some(libc::S_IFCHR) if found.is_some_and(|found| found.st_rdev == libc::makedev(5, 0)) => {
                let terminal = caller.terminal(self.resolver.proc())?;
                Ok(Done::Open(fd::open(fd::cwd(), &terminal, flags, 0)?, flags))
            }
            _ => {
                if flags & libc::O_CREAT != 0 {
                    self.take_mask(caller)?;
                }
                let opened = fd::open(spot.parent.as_fd(), &spot.name, flags, mode)?;
                self.note(spot);
                Ok(Done::Open(opened, flags))
            }
        }
    }

    /// Opens something reached through the process list: a descriptor the caller has, for instance.
    fn open_object(&self, caller: &Caller, object: &OwnedFd, flags: c_int) -> io::Result<Done> {
        let found = fd::stat(object.as_raw_fd())?;
        self.guard_object(object, Change::Write)?;
        self.guard_content(&self.resolver.path_of(object)?, true, flags)?;
        let flags = flags & !(libc::O_NOFOLLOW | libc::O_CREAT | libc::O_EXCL) | libc::O_NOCTTY;
        match found.st_mode & libc::S_IFMT {
            // Others read from it too, and must not be told what the caller's own input never said.
            libc::S_IFIFO if flags & libc::O_ACCMODE != libc::O_RDONLY && self.protected.is_input(&found) => {
                Err(errno(libc::EACCES))
            }
            libc::S_IFIFO => Waiting::begin(&self.resolver, object, flags),
            libc::S_IFCHR if found.st_rdev == libc::makedev(5, 0) => {
                let terminal = caller.terminal(self.resolver.proc())?;
                Ok(Done::Open(fd::open(fd::cwd(), &terminal, flags, 0)?, flags))
            }
            _ => Ok(Done::Open(self.resolver.reopen(object, flags)?, flags)),
        }
    }

    /// `mkdir`, `mkdirat`.
    pub(super) fn mkdir(&mut self, caller: &Caller, dirfd: c_int, name: u64, mode: u32) -> io::Result<Done> {
        let spot = self.spot(caller, (dirfd, name))?;
        let is_own = || self.own.has(spot.parent.as_fd());
        if !self.protected.allows_directory(&spot.path, &is_own, Change::Make) {
            return Err(self.refusal(&spot));
        }
        self.take_mask(caller)?;
        mount::make_dir(spot.parent.as_fd(), &spot.name, mode)?;
        self.own.made(spot.parent.as_fd(), &spot.bare_name());
        self.note(&spot);
        Ok(Done::Nothing)
    }

    /// An existing name answers as the kernel would, so that `mkdir -p` and the like go on.
    fn refusal(&self, spot: &Spot) -> io::Error {
        errno(if matches!(look(spot), Ok(Some(_))) { libc::EEXIST } else { libc::EACCES })
    }

    /// `mknod`, `mknodat`: pipes, sockets and plain files; the filter refuses devices.
    pub(super) fn mknod(&mut self, caller: &Caller, dirfd: c_int, name: u64, mode: u32) -> io::Result<Done> {
        let spot = self.spot(caller, (dirfd, name))?;
        self.guard(&spot, Change::Make)?;
        self.take_mask(caller)?;
        // SAFETY: a descriptor we hold, a NUL-terminated name and integers.
        check_int(unsafe { libc::mknodat(spot.parent.as_raw_fd(), spot.name.as_ptr(), mode, 0) })?;
        self.note(&spot);
        Ok(Done::Nothing)
    }

    /// `rename` and relatives.
    pub(super) fn rename(&mut self, caller: &Caller, from: From, to: From, flags: u32) -> io::Result<Done> {
        // Whiteouts would leave device nodes behind.
        if flags & !(libc::RENAME_EXCHANGE | libc::RENAME_NOREPLACE) != 0 {
            return Err(errno(libc::EINVAL));
        }
        let (from, to) = (self.spot(caller, from)?, self.spot(caller, to)?);
        if from.is_dots() || to.is_dots() {
            // Never done, and the kernel has a word for each.
            return put(&from, &to, flags).map(|()| Done::Nothing);
        }
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        let (from_kind, to_kind) = (kind_at(&from), kind_at(&to));
        self.guard(&from, taking(from_kind))?;
        if exchange {
            self.guard(&from, Change::Make)?;
        }
        if from_kind != Some(libc::S_IFREG) || exchange && to_kind != Some(libc::S_IFREG) {
            self.guard_tree(&from)?;
            self.guard_tree(&to)?;
        }
        let is_own = || self.own.has(to.parent.as_fd());
        if let Some(keys) = self.protected.settings_at(&to.path, &is_own).filter(|_| !exchange) {
            if flags & libc::RENAME_NOREPLACE != 0 && to_kind.is_some() {
                return Err(errno(libc::EEXIST));
            }
            // A copy takes two names away; where that is refused, nothing of it may be left.
            if !self.places().is_taken(&from.path) || !self.places().is_taken(&to.path) {
                return Err(errno(libc::EACCES));
            }
            let settings = settings::replace(&from, &to, keys)?;
            if settings.lead_elsewhere {
                // Where to is known for good only at the end.
                self.noted.made(&to, Verb::Made);
            }
            return Ok(Done::Nothing);
        }
        // Of what is protected a copy may be put down again; where there is no right to write, nothing is.
        if !self.places().allow(&to.path, Change::Make) {
            return Err(errno(libc::EACCES));
        }
        if let Err(refused) = self.guard(&to, Change::Make) {
            // git writes its settings anew even where nothing changes.
            let written = self.places().is_written(&to.path) && self.protected.is_settings(&to.path);
            let changes = flags != 0 || !written || !settings::is_same(&from, &to);
            return if changes { Err(refused) } else { settings::leave(&from).map(|()| Done::Nothing) };
        }
        if to_kind.is_some() {
            self.guard(&to, taking(to_kind))?;
        }
        let from_dir = from_kind == Some(libc::S_IFDIR);
        let to_dir = exchange && to_kind == Some(libc::S_IFDIR);
        for (spot, is_dir) in [(&from, from_dir), (&to, to_dir)] {
            if is_dir {
                self.guard_leaving(spot)?;
            }
        }
        if from_dir || to_dir {
            self.stay_on_one_side(&from, &to)?;
        }
        let replaced = self.own.at(to.parent.as_fd(), &to.bare_name()).filter(|_| !exchange);
        put(&from, &to, flags)?;
        if let Some(replaced) = replaced {
            self.own.gone(replaced);
        }
        self.note(&to);
        if exchange {
            self.note(&from);
        }
        if from_dir || to_dir {
            self.noted.moved(&self.resolver);
        }
        Ok(Done::Nothing)
    }

    /// `link`, `linkat`.
    pub(super) fn link(&mut self, caller: &Caller, from: From, to: From, flags: c_int) -> io::Result<Done> {
        let to = self.spot(caller, to)?;
        self.guard(&to, Change::Make)?;
        let name = caller.name(from.1)?;
        let source = if name.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            Step::Object(caller.start(self.resolver.proc(), from.0)?)
        } else {
            let spot = self.resolver.spot(caller, from.0, &name)?;
            self.last(caller, spot, flags & libc::AT_SYMLINK_FOLLOW != 0)?.0
        };
        match source {
            Step::Spot(from) => {
                // Another name for a protected file would be a way to write it.
                self.guard(&from, Change::Make)?;
                self.guard_link(&from.path)?;
                link(from.parent.as_raw_fd(), &from.name, &to, 0)?;
            }
            Step::Object(object) => {
                self.guard_object(&object, Change::Make)?;
                self.guard_link(&self.resolver.path_of(&object)?)?;
                link(libc::AT_FDCWD, &self.resolver.own_name(&object)?, &to, libc::AT_SYMLINK_FOLLOW)?;
            }
        }
        self.note(&to);
        Ok(Done::Nothing)
    }

    /// `symlink`, `symlinkat`.
    pub(super) fn symlink(
        &mut self,
        caller: &Caller,
        target: u64,
        dirfd: c_int,
        name: u64,
    ) -> io::Result<Done> {
        let target = caller.name(target)?;
        let spot = self.spot(caller, (dirfd, name))?;
        self.guard(&spot, Change::Make)?;
        self.guard_tree(&spot)?;
        mount::make_link(&target, spot.parent.as_fd(), &spot.name)?;
        self.note(&spot);
        Ok(Done::Nothing)
    }

    /// `truncate`.
    pub(super) fn truncate(&mut self, caller: &Caller, name: u64, length: i64) -> io::Result<Done> {
        if !self.places().allow_length(length) {
            return Err(errno(libc::EFBIG));
        }
        let spot = self.spot(caller, (libc::AT_FDCWD, name))?;
        let flags = libc::O_WRONLY | libc::O_NONBLOCK;
        let opened = match self.last(caller, spot, true)? {
            (Step::Spot(spot), found) => self.open_spot(caller, &spot, found, flags, 0)?,
            (Step::Object(object), _) => self.open_object(caller, &object, flags)?,
        };
        let Done::Open(file, _) = opened else { return Err(errno(libc::EINVAL)) };
        // SAFETY: a descriptor we hold and an integer.
        check_int(unsafe { libc::ftruncate(file.as_raw_fd(), length) }).map(|_| Done::Nothing)
    }

    /// `unlink`, `unlinkat`, `rmdir`.
    pub(super) fn unlink(
        &mut self,
        caller: &Caller,
        dirfd: c_int,
        name: u64,
        flags: c_int,
    ) -> io::Result<Done> {
        let spot = self.spot(caller, (dirfd, name))?;
        let is_dir = flags & libc::AT_REMOVEDIR != 0;
        let is_own = || self.own.has(spot.parent.as_fd());
        // A directory above a protected path that exists is not empty, so the kernel keeps it.
        let guarded = !is_dir || !self.protected.allows_directory(&spot.path, &is_own, Change::Take);
        // By `.` and `..` nothing is taken away, and the kernel says so.
        if guarded && !spot.is_dots() {
            self.guard(&spot, taking(kind_at(&spot)))?;
        }
        let own = self.own.at(spot.parent.as_fd(), &spot.bare_name()).filter(|_| is_dir);
        // SAFETY: a descriptor we hold, a NUL-terminated name and an integer.
        check_int(unsafe { libc::unlinkat(spot.parent.as_raw_fd(), spot.name.as_ptr(), flags) })?;
        if let Some(own) = own {
            self.own.gone(own);
        }
        Ok(Done::Nothing)
    }

    /// Whether the permissions of this object, which lies at `path`, may be changed.
    pub(super) fn may_change_mode(&self, object: &OwnedFd, path: &Path) -> bool {
        self.protected.allows_mode(path, &|| self.is_in_own(object, path))
    }

    /// Whether `object`, found at `path`, stands in a directory that the launch made: that directory is held while
    /// the object is looked for in it.
    fn is_in_own(&self, object: &OwnedFd, path: &Path) -> bool {
        let stands = || {
            let parent = self.resolver.held(path.parent()?).ok()?;
            let name = CString::new(path.file_name()?.as_encoded_bytes()).ok()?;
            let found = dir::identity(parent.as_fd(), &name).ok()?;
            (self.own.has(parent.as_fd()) && found == dir::identity(object.as_fd(), c"").ok()?).then_some(())
        };
        stands().is_some()
    }

    /// Opening what lies at `path` changes no file where none may be written: the kernel's rules do not know all the
    /// ways.
    fn guard_content(&self, path: &Path, stands: bool, flags: c_int) -> io::Result<()> {
        let only_reads = stands && flags & (libc::O_ACCMODE | libc::O_TRUNC) == 0;
        if only_reads || !self.places().is_unwritten(path) { Ok(()) } else { Err(errno(libc::EACCES)) }
    }

    /// Whether the times of what lies at `path` may be changed.
    pub(super) fn guard_times(&self, path: &Path) -> io::Result<()> {
        if self.places().is_unwritten(path) { Err(errno(libc::EACCES)) } else { Ok(()) }
    }

    fn guard_tree(&self, spot: &Spot) -> io::Result<()> {
        if self.protected.allows_tree(&spot.path) { Ok(()) } else { Err(errno(libc::EACCES)) }
    }

    /// A directory is moved only if everything in it could be taken away by name. Callers that are told of another
    /// file system would copy, and then take away what they can: half of the directory here, half there.
    fn guard_leaving(&mut self, spot: &Spot) -> io::Result<()> {
        may_leave(spot, self.protected, &self.own).map_err(|kept| {
            self.kept = match kept {
                Kept::By(path) => Some(path),
                Kept::Unknown => None,
            };
            errno(libc::EACCES)
        })
    }

    /// In a private place names are not guarded, so no directory comes out of one. Where private places are mounts, they
    /// are another file system to the kernel anyway; where they are directories, this says the same.
    fn stay_on_one_side(&self, from: &Spot, to: &Spot) -> io::Result<()> {
        let private = |spot: &Spot| self.places().is_private_at(&spot.path);
        if private(from) == private(to) { Ok(()) } else { Err(errno(libc::EXDEV)) }
    }

    fn guard(&self, spot: &Spot, change: Change) -> io::Result<()> {
        let is_own = || self.own.has(spot.parent.as_fd());
        if self.protected.allows_change(&spot.path, &is_own, change) {
            Ok(())
        } else {
            Err(errno(libc::EACCES))
        }
    }

    fn places(&self) -> &Places {
        self.protected.places()
    }

    fn guard_link(&self, source: &Path) -> io::Result<()> {
        if self.places().is_linked(source) { Ok(()) } else { Err(errno(libc::EACCES)) }
    }

    fn guard_object(&self, object: &OwnedFd, change: Change) -> io::Result<()> {
        let path = self.resolver.path_of(object)?;
        let is_own = || self.is_in_own(object, &path);
        let allowed = !path.is_absolute() || self.protected.allows_change(&path, &is_own, change);
        if allowed { Ok(()) } else { Err(errno(libc::EACCES)) }
    }
}

fn put(from: &Spot, to: &Spot, flags: u32) -> io::Result<()> {
    let (old, new) = (from.parent.as_raw_fd(), to.parent.as_raw_fd());
    // SAFETY: descriptors we hold, NUL-terminated names and an integer.
    let done =
        unsafe { libc::syscall(libc::SYS_renameat2, old, from.name.as_ptr(), new, to.name.as_ptr(), flags) };
    check(done).map(drop)
}

fn link(from: c_int, name: &CStr, to: &Spot, flags: c_int) -> io::Result<()> {
    // SAFETY: descriptors we hold and NUL-terminated names.
    check_int(unsafe { libc::linkat(from, name.as_ptr(), to.parent.as_raw_fd(), to.name.as_ptr(), flags) })
        .map(drop)
}

/// What lies at `spot`, `None` if nothing does.
fn look(spot: &Spot) -> io::Result<Option<libc::stat>> {
    match fd::stat_at(spot.parent.as_raw_fd(), &spot.bare_name()) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The kind of what lies at `spot`, if something does.
fn kind_at(spot: &Spot) -> Option<u32> {
    look(spot).ok().flatten().map(|found| found.st_mode & libc::S_IFMT)
}

/// How something of this kind is taken away. What a link leads to may hold anything.
fn taking(kind: Option<u32>) -> Change {
    if matches!(kind, Some(libc::S_IFREG | libc::S_IFDIR)) { Change::Leave } else { Change::Take }
}

/// What the kernel says to opening a directory, or a name with a trailing slash, for writing.
fn refusal_for_directory(kind: Option<u32>, flags: c_int) -> i32 {
    let making = flags & libc::O_CREAT != 0;
    match kind {
        Some(libc::S_IFDIR) if making && flags & libc::O_EXCL != 0 => libc::EEXIST,
        Some(libc::S_IFDIR) => libc::EISDIR,
        None if making => libc::EISDIR,
        None => libc::ENOENT,
        Some(_) => libc::ENOTDIR,
    }
}
