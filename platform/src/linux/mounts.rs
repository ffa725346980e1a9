//! The file tree inside, built from nothing.
//!
//! Answers for turning an ordered list of operations into a root directory, each by descriptor. It leaves
//! what to show to the plan.
//! Invariant: mount points are only ever made on file systems made here, so nothing appears on the host, and
//! no symbolic link is followed on either side.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::linux::sys::fd::{self, BENEATH, NO_SYMLINKS};
use crate::linux::sys::mount::{self, NODEV, NOEXEC, NOSUID, RDONLY};
use crate::linux::sys::{c_path, errno};
use crate::plan::{Access, Code, MountOp, Plan, Stdio};
use crate::report::{SetupFailure, Step};

/// Bytes of the root file system, which only holds directories, links and small files.
const ROOT_SIZE: &CStr = c"16777216";
/// Shared memory when the plan names no size.
pub(crate) const SHARED_MEMORY: u64 = 64 << 20;
/// Host devices that are safe to show; the last, one's own terminal, only to those who have one.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// The devices this plan shows.
fn devices(plan: &Plan) -> &'static [&'static str] {
    if plan.stdio == Stdio::Pty { &DEVICES } else { &DEVICES[..5] }
}
/// Parts of `/proc` that real user 0 could write to without any privilege.
const PROC_KNOBS: [&CStr; 6] = [c"sys", c"sysrq-trigger", c"irq", c"bus", c"fs", c"acpi"];

/// The host objects a view shows, opened before anything is built so that their identity is fixed.
#[derive(Debug)]
pub(crate) struct Sources {
    binds: Vec<Option<OwnedFd>>,
    devices: Vec<OwnedFd>,
    protected: Vec<(PathBuf, OwnedFd, Access)>,
    /// Whether each is a tree of its own already, ready to be put somewhere.
    detached: bool,
}

/// Where sources are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opener {
    /// The inner process: by path, with the rights of the user.
    Inner,
    /// The launcher, being privileged: as detached trees, so that directories only it may enter can be shown.
    Outer,
}

impl Sources {
    /// Opens every host path the plan shows, and every protected path that exists in a writable place.
    pub(crate) fn open(plan: &Plan, opener: Opener) -> Result<Self, SetupFailure> {
        let pin = |path: &Path| pin(path, opener).map_err(|error| failure(Step::Mount, path, &error));
        let mut binds = Vec::with_capacity(plan.mounts.len());
        let mut devices = Vec::new();
        for op in &plan.mounts {
            binds.push(match op {
                MountOp::Bind { source, .. } => Some(pin(source)?),
                MountOp::Dev { .. } => {
                    for name in self::devices(plan) {
                        devices.push(pin(&Path::new("/dev").join(name))?);
                    }
                    None
                }
                MountOp::Tmpfs { .. }
                | MountOp::Dir { .. }
                | MountOp::Symlink { .. }
                | MountOp::File { .. }
                | MountOp::Proc { .. } => None,
            });
        }
        let mut protected = Vec::new();
        for (dest, source, access) in shields(plan)? {
            protected.push((dest, pin(&source)?, access));
        }
        Ok(Self { binds, devices, protected, detached: opener == Opener::Outer })
    }
}

/// Opens `path` as a place, refusing symbolic links anywhere in it.
fn pin(path: &Path, opener: Opener) -> io::Result<OwnedFd> {
    let place = fd::open2(fd::cwd(), &c_path(path)?, libc::O_PATH, 0, NO_SYMLINKS)?;
    match opener {
        Opener::Inner => Ok(place),
        Opener::Outer => mount::clone_tree(place.as_fd(), c""),
    }
}

/// Self-binds for the ancestors of existing protected paths, then read-only binds for the paths themselves:
/// where each appears, what it shows, and how.
pub(crate) fn shields(plan: &Plan) -> Result<Vec<(PathBuf, PathBuf, Access)>, SetupFailure> {
    let mut ancestors = BTreeSet::new();
    let mut holes = BTreeSet::new();
    for path in &plan.protect {
        let Some((source, dest)) = writable_place(plan, path) else { continue };
        let Ok(below) = path.strip_prefix(dest) else { continue };
        let on_host = source.join(below);
        match std::fs::symlink_metadata(&on_host) {
            Ok(meta) if meta.file_type().is_symlink() => {
                return Err(failure(Step::Protect, &on_host, &errno(libc::ELOOP)));
            }
            Ok(_) if below.as_os_str().is_empty() => continue,
            Ok(_) => {}
            Err(_) => continue,
        }
        holes.insert((path.clone(), on_host));
        let mut inner = PathBuf::new();
        let parts: Vec<_> = below.components().collect();
        for part in &parts[..parts.len() - 1] {
            inner.push(part);
            ancestors.insert((dest.join(&inner), source.join(&inner)));
        }
    }
    let open = ancestors.into_iter().map(|(dest, source)| (dest, source, Access::ReadWrite));
    let shut = holes.into_iter().map(|(dest, source)| (dest, source, Access::ReadOnly));
    Ok(open.chain(shut).collect())
}

/// The last bind that shows `path`, if it is writable: its host and inner path.
pub(crate) fn writable_place<'p>(plan: &'p Plan, path: &Path) -> Option<(&'p Path, &'p Path)> {
    let mut found = None;
    for op in &plan.mounts {
        match op {
            MountOp::Bind { source, dest, access, .. } if path.starts_with(dest) => {
                found = (*access == Access::ReadWrite).then_some((source.as_path(), dest.as_path()));
            }
            MountOp::Tmpfs { dest, .. } | MountOp::Proc { dest } | MountOp::Dev { dest }
                if path.starts_with(dest) =>
            {
                found = None;
            }
            MountOp::Bind { .. }
            | MountOp::Tmpfs { .. }
            | MountOp::Proc { .. }
            | MountOp::Dev { .. }
            | MountOp::Dir { .. }
            | MountOp::Symlink { .. }
            | MountOp::File { .. } => {}
        }
    }
    found
}

/// The root under construction.
struct View<'p> {
    plan: &'p Plan,
    root: OwnedFd,
    /// Devices numbers of file systems made here: the only ones on which a mount point may be created.
    own: Vec<u64>,
    /// Directories made here, and not covered since by something of the host.
    made: BTreeSet<PathBuf>,
    real_root: bool,
    detached: bool,
}

/// Builds the view and makes it the root of this mount namespace.
pub(crate) fn build(plan: &Plan, sources: &Sources, real_root: bool) -> Result<(), SetupFailure> {
    let at_root = |error: io::Error| failure(Step::Root, Path::new("/"), &error);
    mount::make_private().map_err(at_root)?;
    let options = [(c"mode", c"0755"), (c"size", ROOT_SIZE)];
    let root = mount::new_filesystem(c"tmpfs", &options, NOSUID | NODEV).map_err(at_root)?;
    let proc = fd::open(fd::cwd(), c"/proc", libc::O_PATH | libc::O_DIRECTORY, 0).map_err(at_root)?;
    mount::attach(root.as_fd(), proc.as_fd()).map_err(at_root)?;
    let own = vec![fd::stat(root.as_raw_fd()).map_err(at_root)?.st_dev];
    let mut view = View {
        plan,
        root,
        own,
        made: BTreeSet::from([PathBuf::from("/")]),
        real_root,
        detached: sources.detached,
    };
    let mut devices = sources.devices.iter();
    for (op, source) in plan.mounts.iter().zip(&sources.binds) {
        view.apply(op, source.as_ref(), &mut devices)
            .map_err(|error| failure(Step::Mount, op.dest(), &error))?;
    }
    for (dest, source, access) in &sources.protected {
        view.protect(dest, source, *access).map_err(|error| failure(Step::Protect, dest, &error))?;
    }
    mount::set_attributes(view.root.as_fd(), RDONLY, false).map_err(at_root)?;
    mount::pivot(view.root.as_fd()).map_err(|error| failure(Step::Pivot, Path::new("/"), &error))
}

fn failure(step: Step, path: &Path, error: &io::Error) -> SetupFailure {
    SetupFailure { step, object: path.display().to_string(), errno: crate::linux::sys::number(error) }
}

fn code_bits(code: Code) -> u64 {
    match code {
        Code::Allowed => 0,
        Code::Refused => NOEXEC,
    }
}

fn access_bits(access: Access) -> u64 {
    match access {
        Access::ReadOnly => RDONLY,
        Access::ReadWrite => 0,
    }
}

impl View<'_> {
    fn apply(
        &mut self,
        op: &MountOp,
        source: Option<&OwnedFd>,
        devices: &mut std::slice::Iter<'_, OwnedFd>,
    ) -> io::Result<()> {
        match op {
            MountOp::Bind { dest, access, code, .. } => {
                let source = source.ok_or_else(|| errno(libc::EINVAL))?;
                let bits = NOSUID | NODEV | access_bits(*access) | code_bits(*code);
                self.bind(source, dest, bits)
            }
            MountOp::Tmpfs { dest, size, mode, code } => self.tmpfs(dest, *size, *mode, *code),
            MountOp::Dir { dest } => self.ensure_dir(dest).map(drop),
            MountOp::Symlink { target, dest } => {
                let (parent, name) = self.parent_of(dest)?;
                mount::make_link(&c_path(target)?, parent.as_fd(), &name)
            }
            MountOp::File { dest, data } => self.file(dest, data),
            MountOp::Proc { dest } => self.proc(dest),
            MountOp::Dev { dest } => self.dev(dest, devices),
        }
    }

    /// Gives `source` the attributes `bits` and puts it at `dest`.
    fn put(&self, source: &OwnedFd, dest: BorrowedFd<'_>, bits: u64) -> io::Result<()> {
        if self.detached {
            mount::set_attributes(source.as_fd(), bits, true)?;
            return mount::attach(source.as_fd(), dest);
        }
        let tree = mount::clone_tree(source.as_fd(), c"")?;
        mount::set_attributes(tree.as_fd(), bits, true)?;
        mount::attach(tree.as_fd(), dest)
    }

    fn bind(&mut self, source: &OwnedFd, dest: &Path, bits: u64) -> io::Result<()> {
        let is_dir = fd::stat(source.as_raw_fd())?.st_mode & libc::S_IFMT == libc::S_IFDIR;
        let point = if is_dir { self.ensure_dir(dest)? } else { self.ensure_file(dest)? };
        self.made.retain(|made| !made.starts_with(dest));
        self.put(source, point.as_fd(), bits)
    }

    fn protect(&self, dest: &Path, source: &OwnedFd, access: Access) -> io::Result<()> {
        let (_, place) = writable_place(self.plan, dest).ok_or_else(|| errno(libc::EINVAL))?;
        let code = self.plan.mounts.iter().rev().find_map(|op| {
            let MountOp::Bind { dest, code, .. } = op else { return None };
            (dest == place).then_some(*code)
        });
        let bits = NOSUID | NODEV | access_bits(access) | code_bits(code.unwrap_or(Code::Refused));
        self.put(source, self.find(dest)?.as_fd(), bits)
    }

    fn tmpfs(&mut self, dest: &Path, size: u64, mode: u32, code: Code) -> io::Result<()> {
        let size = CString::new(size.to_string())?;
        let mode = CString::new(format!("{mode:o}"))?;
        let options = [(c"size", size.as_c_str()), (c"mode", mode.as_c_str())];
        let tree = mount::new_filesystem(c"tmpfs", &options, NOSUID | NODEV | code_bits(code))?;
        self.own.push(fd::stat(tree.as_raw_fd())?.st_dev);
        let point = self.ensure_dir(dest)?;
        mount::attach(tree.as_fd(), point.as_fd())
    }

    fn file(&mut self, dest: &Path, data: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent_of(dest)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let file = fd::open2(parent.as_fd(), &name, flags, 0o644, NO_SYMLINKS | BENEATH)?;
        let mut rest = data;
        while !rest.is_empty() {
            rest = &rest[fd::write(file.as_raw_fd(), rest)?..];
        }
        Ok(())
    }

    fn proc(&mut self, dest: &Path) -> io::Result<()> {
        let tree = mount::new_filesystem(c"proc", &[], NOSUID | NODEV | NOEXEC)?;
        mount::attach(tree.as_fd(), self.ensure_dir(dest)?.as_fd())?;
        if !self.real_root {
            return Ok(());
        }
        for name in PROC_KNOBS {
            let Ok(knob) = fd::open(tree.as_fd(), name, libc::O_PATH | libc::O_NOFOLLOW, 0) else { continue };
            let cover = mount::clone_tree(knob.as_fd(), c"")?;
            mount::set_attributes(cover.as_fd(), RDONLY | NOSUID | NODEV | NOEXEC, true)?;
            mount::attach(cover.as_fd(), knob.as_fd())?;
        }
        Ok(())
    }

    fn dev(&mut self, dest: &Path, devices: &mut std::slice::Iter<'_, OwnedFd>) -> io::Result<()> {
        for name in self::devices(self.plan) {
            let source = devices.next().ok_or_else(|| errno(libc::EINVAL))?;
            self.bind(source, &dest.join(name), NOSUID | NOEXEC)?;
        }
        let dir = self.ensure_dir(dest)?;
        for (target, name) in [
            (c"/proc/self/fd", c"fd"),
            (c"/proc/self/fd/0", c"stdin"),
            (c"/proc/self/fd/1", c"stdout"),
            (c"/proc/self/fd/2", c"stderr"),
            (c"pts/ptmx", c"ptmx"),
        ] {
            mount::make_link(target, dir.as_fd(), name)?;
        }
        let options = [(c"newinstance", c"1"), (c"ptmxmode", c"0666"), (c"mode", c"0620")];
        let terminals = mount::new_filesystem(c"devpts", &options[1..], NOSUID | NOEXEC)?;
        mount::attach(terminals.as_fd(), self.ensure_dir(&dest.join("pts"))?.as_fd())?;
        let size = self.plan.limits.shared_memory.unwrap_or(SHARED_MEMORY);
        self.tmpfs(&dest.join("shm"), size, 0o1777, Code::Refused)
    }

    /// Opens what already lies at `dest`.
    fn find(&self, dest: &Path) -> io::Result<OwnedFd> {
        fd::open2(self.root.as_fd(), &c_path(below_root(dest))?, libc::O_PATH, 0, NO_SYMLINKS | BENEATH)
    }

    /// Makes `dest` if its place is one of ours throughout; whether it was so.
    fn make_dir(&mut self, dest: &Path) -> io::Result<bool> {
        if self.made.contains(dest) {
            return Ok(true);
        }
        let Some(parent) = dest.parent() else { return Ok(false) };
        if !self.make_dir(parent)? {
            return Ok(false);
        }
        match mount::make_dir(self.root.as_fd(), &c_path(below_root(dest))?, 0o755) {
            Ok(()) => {
                self.made.insert(dest.to_owned());
                Ok(true)
            }
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the directory at `dest`, making it and its parents where they may be made.
    fn ensure_dir(&mut self, dest: &Path) -> io::Result<OwnedFd> {
        if self.make_dir(dest)? {
            let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
            return fd::open(self.root.as_fd(), &c_path(below_root(dest))?, flags, 0);
        }
        match self.find(dest) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            other => return other,
        }
        let parent = self.ensure_dir(dest.parent().ok_or_else(|| errno(libc::EINVAL))?)?;
        self.may_make_in(parent.as_fd())?;
        let name = c_path(Path::new(dest.file_name().ok_or_else(|| errno(libc::EINVAL))?))?;
        mount::make_dir(parent.as_fd(), &name, 0o755)?;
        fd::open2(parent.as_fd(), &name, libc::O_PATH | libc::O_DIRECTORY, 0, NO_SYMLINKS | BENEATH)
    }

    /// Opens the file at `dest`, making an empty one where it may be made.
    fn ensure_file(&mut self, dest: &Path) -> io::Result<OwnedFd> {
        let flags = libc::O_RDONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        if dest.parent().map(|parent| self.make_dir(parent)).transpose()? == Some(true) {
            match fd::open(self.root.as_fd(), &c_path(below_root(dest))?, flags, 0o644) {
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                other => return other,
            }
        }
        match self.find(dest) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            other => return other,
        }
        let (parent, name) = self.parent_of(dest)?;
        fd::open2(parent.as_fd(), &name, flags, 0o644, NO_SYMLINKS | BENEATH)
    }

    /// The directory `dest` is to appear in, which must be one of ours.
    fn parent_of(&mut self, dest: &Path) -> io::Result<(OwnedFd, CString)> {
        let parent = self.ensure_dir(dest.parent().ok_or_else(|| errno(libc::EINVAL))?)?;
        self.may_make_in(parent.as_fd())?;
        let name = dest.file_name().ok_or_else(|| errno(libc::EINVAL))?;
        Ok((parent, c_path(Path::new(name))?))
    }

    fn may_make_in(&self, dir: BorrowedFd<'_>) -> io::Result<()> {
        let device = fd::stat(dir.as_raw_fd())?.st_dev;
        if self.own.contains(&device) { Ok(()) } else { Err(errno(libc::ENOENT)) }
    }
}

/// `dest` relative to the root; `.` for the root itself.
fn below_root(dest: &Path) -> &Path {
    match dest.strip_prefix("/") {
        Ok(below) if below.as_os_str().is_empty() => Path::new("."),
        Ok(below) => below,
        Err(_) => dest,
    }
}
