//! The file tree inside, built from nothing.
//!
//! Answers for turning an ordered list of operations into a root directory, each by descriptor. It leaves
//! what to show to the plan.
//! Invariant: mount points are only ever made on file systems made here, so nothing appears on the host, and
//! no symbolic link is followed on either side.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::linux::sources::{self, Shield, Sources};
use crate::linux::sys::fd::{self, BENEATH, NO_SYMLINKS};
use crate::linux::sys::mount::{self, NODEV, NOEXEC, NOSUID, RDONLY};
use crate::linux::sys::{c_path, errno};
use crate::path::within;
use crate::plan::{Access, Code, MountOp, Plan};
use crate::report::{SetupFailure, Step};

/// For so many bytes of a file system there is a name.
const BYTES_A_NAME: u64 = 1024;
/// Names beside those: of the root itself, which has some hundred.
const OWN_NAMES: u64 = 4096;
/// What a file of any length at least takes.
const PAGE: u64 = 4096;
/// What a link says takes nothing by itself while it is shorter than this.
const SHORT_LINK: usize = 128;
/// Bytes in private directories when the plan names none.
const SCRATCH_SIZE: u64 = 1 << 30;
/// Descriptors that are closed together.
const AT_ONCE: usize = 64;
/// Bytes that may be changed in a place that is copied.
const COPIES_SIZE: &CStr = c"4294967296";
/// Where changes are kept while the view is built; afterwards they have no name.
const COPIES: &str = "/.copies";
/// Parts of `/proc` that real user 0 could write to without any privilege.
pub(super) const PROC_KNOBS: [&CStr; 7] =
    [c"sys", c"sysrq-trigger", c"irq", c"bus", c"fs", c"acpi", c"pressure"];
/// Parts of `/proc` that real user 0 could read without any privilege and nobody else can.
pub(super) const PROC_SECRETS: [&CStr; 9] = [
    c"kcore",
    c"keys",
    c"kpagecgroup",
    c"kpagecount",
    c"kpageflags",
    c"pagetypeinfo",
    c"slabinfo",
    c"timer_list",
    c"vmallocinfo",
];

/// What is set on a device: it is written to all the same; what it is called, whose it is and when it was touched stays.
pub(super) const DEVICE: u64 = RDONLY | NOSUID | NOEXEC;

/// Below the devices.
const TERMINALS: &str = "pts";

/// Where something is put.
enum Point {
    /// At a path below the root all of which was made here, so that there is no link in it.
    Ours(CString),
    /// Onto this.
    Held(OwnedFd),
}

/// The root under construction.
struct View<'p> {
    plan: &'p Plan,
    root: OwnedFd,
    /// Devices numbers of file systems made here: the only ones on which a mount point may be created.
    own: Vec<u64>,
    /// Directories made here, and not covered since by something of the host.
    made: Vec<PathBuf>,
    /// Where something of the host was put: what lies there and below is not ours.
    covered: Vec<PathBuf>,
    real_root: bool,
    detached: bool,
    /// What has been put in its place and needs no descriptor any more.
    put: Vec<OwnedFd>,
}

/// Builds the view and makes it the root of this mount namespace.
pub(crate) fn build(plan: &Plan, sources: &Sources, real_root: bool) -> Result<(), SetupFailure> {
    let at_root = |error: io::Error| failure(Step::Root, Path::new("/"), &error);
    mount::make_private().map_err(at_root)?;
    let size = scratch_size(plan).saturating_add(own_size(plan));
    let [size, names] = room(size).map_err(at_root)?;
    let options = [(c"mode", c"0755"), (c"size", size.as_c_str()), (c"nr_inodes", names.as_c_str())];
    let root = mount::new_filesystem(c"tmpfs", &options, NOSUID | NODEV).map_err(at_root)?;
    let proc = fd::open(fd::cwd(), c"/proc", libc::O_PATH | libc::O_DIRECTORY, 0).map_err(at_root)?;
    mount::attach(root.as_fd(), proc.as_fd()).map_err(at_root)?;
    let own = vec![fd::stat(root.as_raw_fd()).map_err(at_root)?.st_dev];
    let mut view = View {
        plan,
        root,
        own,
        made: vec![PathBuf::from("/")],
        covered: Vec::new(),
        real_root,
        detached: sources.detached,
        put: Vec::with_capacity(AT_ONCE),
    };
    let mut devices = sources.devices.iter();
    for (number, (op, source)) in plan.mounts.iter().zip(&sources.binds).enumerate() {
        view.apply(op, source.as_ref(), &mut devices)
            .map_err(|error| failure(Step::Mount, op.dest(), &error))?;
        // What the plan mounts deeper comes later and stays on top.
        for (shield, source) in sources.protected.iter().filter(|(shield, _)| shield.place == number) {
            view.protect(shield, source).map_err(|error| failure(Step::Protect, &shield.dest, &error))?;
        }
    }
    mount::set_attributes(view.root.as_fd(), RDONLY, false).map_err(at_root)?;
    mount::pivot(view.root.as_fd()).map_err(|error| failure(Step::Pivot, Path::new("/"), &error))?;
    fd::close_all(view.put);
    Ok(())
}

/// Private terminals for the devices of the plan, if it has any: slow to make, and of no use to the rest of the view.
pub(super) fn make_terminals(plan: &Plan) -> Result<Option<OwnedFd>, SetupFailure> {
    let Some(dest) = terminals(plan) else { return Ok(None) };
    let options = [(c"ptmxmode", c"0666"), (c"mode", c"0620")];
    let made = mount::new_filesystem(c"devpts", &options, NOSUID | NOEXEC);
    made.map(Some).map_err(|error| failure(Step::Mount, &dest, &error))
}

/// Puts them in their place, in a view that stands.
pub(super) fn show_terminals(plan: &Plan, made: Option<&OwnedFd>) -> Result<(), SetupFailure> {
    let (Some(made), Some(dest)) = (made, terminals(plan)) else { return Ok(()) };
    let put = c_path(&dest).and_then(|path| mount::attach_at(made.as_fd(), fd::cwd(), &path));
    put.map_err(|error| failure(Step::Mount, &dest, &error))
}

/// Where terminals are, if the plan has devices.
fn terminals(plan: &Plan) -> Option<PathBuf> {
    plan.mounts.iter().find_map(|op| match op {
        MountOp::Dev { dest } => Some(dest.join(TERMINALS)),
        MountOp::Bind { .. }
        | MountOp::Tmpfs { .. }
        | MountOp::Dir { .. }
        | MountOp::Symlink { .. }
        | MountOp::File { .. }
        | MountOp::Proc { .. } => None,
    })
}

/// The bytes and the names for which a file system of `size` has room: what a name takes is counted nowhere else.
fn room(size: u64) -> io::Result<[CString; 2]> {
    let names = (size / BYTES_A_NAME).saturating_add(OWN_NAMES);
    Ok([CString::new(size.to_string())?, CString::new(names.to_string())?])
}

/// Bytes that the files and long links of the root itself take; directories and mount points take none.
fn own_size(plan: &Plan) -> u64 {
    let length = |op: &MountOp| match op {
        MountOp::File { data, .. } => data.len(),
        MountOp::Symlink { target, .. } => match target.as_os_str().len() {
            ..SHORT_LINK => 0,
            length => length,
        },
        MountOp::Bind { .. }
        | MountOp::Tmpfs { .. }
        | MountOp::Dir { .. }
        | MountOp::Proc { .. }
        | MountOp::Dev { .. } => 0,
    };
    plan.mounts.iter().map(|op| (length(op) as u64).next_multiple_of(PAGE)).sum()
}

/// Bytes that private directories may hold.
pub(super) fn scratch_size(plan: &Plan) -> u64 {
    plan.limits.scratch.unwrap_or(SCRATCH_SIZE)
}

pub(super) fn failure(step: Step, path: &Path, error: &io::Error) -> SetupFailure {
    SetupFailure { step, object: path.display().to_string(), errno: crate::linux::sys::number(error) }
}

/// What is set on a mount of the host with this access.
pub(super) fn bind_bits(access: Access, code: Code) -> u64 {
    NOSUID | NODEV | access_bits(access) | code_bits(code)
}

fn code_bits(code: Code) -> u64 {
    match code {
        Code::Allowed => 0,
        Code::Refused => NOEXEC,
    }
}

fn access_bits(access: Access) -> u64 {
    match access {
        // What is copied from stays as it is.
        Access::ReadOnly | Access::Copied => RDONLY,
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
                self.bind(source, dest, bind_bits(*access, *code))?;
                if *access == Access::Copied { self.copy(dest, *code) } else { Ok(()) }
            }
            MountOp::Tmpfs { dest, size, mode, code } => self.tmpfs(dest, *size, *mode, *code),
            MountOp::Dir { dest } => self.dir_point(dest).map(drop),
            MountOp::Symlink { target, dest } => {
                let target = c_path(target)?;
                self.in_parent(dest, |parent, name| mount::make_link(&target, parent, name))
            }
            MountOp::File { dest, data } => self.file(dest, data),
            MountOp::Proc { dest } => self.proc(dest),
            MountOp::Dev { dest } => self.dev(dest, devices),
        }
    }

    /// Puts `source` at `point`, with the attributes `bits`; what is a tree of its own has them already.
    fn put(&mut self, source: &OwnedFd, point: &Point, bits: u64) -> io::Result<()> {
        if self.detached {
            return self.attach(source, point);
        }
        let tree = mount::clone_tree(source.as_fd(), c"", bits)?;
        self.attach(&tree, point)?;
        self.has_put(tree);
        Ok(())
    }

    /// Remembers what needs no descriptor any more; a few at once are closed more cheaply than one by one.
    fn has_put(&mut self, tree: OwnedFd) {
        if self.put.len() == AT_ONCE {
            fd::close_all(self.put.drain(..));
        }
        self.put.push(tree);
    }

    fn attach(&self, tree: &OwnedFd, point: &Point) -> io::Result<()> {
        match point {
            Point::Ours(path) => mount::attach_at(tree.as_fd(), self.root.as_fd(), path),
            Point::Held(place) => mount::attach(tree.as_fd(), place.as_fd()),
        }
    }

    fn bind(&mut self, source: &OwnedFd, dest: &Path, bits: u64) -> io::Result<()> {
        let is_dir = fd::stat(source.as_raw_fd())?.st_mode & libc::S_IFMT == libc::S_IFDIR;
        let point = if is_dir { self.dir_point(dest)? } else { self.file_point(dest)? };
        self.cover(dest);
        self.put(source, &point, bits)
    }

    /// Lays a copy over what is bound at `dest`: what is changed is kept in memory.
    fn copy(&mut self, dest: &Path, code: Code) -> io::Result<()> {
        let tree =
            mount::new_filesystem(c"tmpfs", &[(c"size", COPIES_SIZE), (c"mode", c"0700")], NOSUID | NODEV)?;
        let point = self.dir_point(Path::new(COPIES))?;
        self.attach(&tree, &point)?;
        mount::make_dir(tree.as_fd(), c"upper", 0o755)?;
        mount::make_dir(tree.as_fd(), c"work", 0o700)?;
        // The root under construction lies at `/proc` for the moment.
        let here = |path: &Path| Path::new("/proc").join(below_root(path));
        let lower = escaped(&here(dest))?;
        let (upper, work) =
            (c_path(&here(Path::new(COPIES)).join("upper"))?, c_path(&here(Path::new(COPIES)).join("work"))?);
        let options = [
            (c"lowerdir", lower.as_c_str()),
            (c"upperdir", &upper),
            (c"workdir", &work),
            (c"userxattr", c""),
        ];
        let copy = mount::new_filesystem(c"overlay", &options, NOSUID | NODEV | code_bits(code))?;
        mount::attach_at(copy.as_fd(), self.root.as_fd(), &c_path(below_root(dest))?)?;
        mount::detach(&c_path(&here(Path::new(COPIES)))?)
    }

    /// Forgets what was made at `dest` and below.
    fn cover(&mut self, dest: &Path) {
        self.made.retain(|made| !within(made, dest));
        self.covered.push(dest.to_owned());
    }

    fn protect(&mut self, shield: &Shield, source: &OwnedFd) -> io::Result<()> {
        let Some(MountOp::Bind { code, .. }) = self.plan.mounts.get(shield.place) else {
            return Err(errno(libc::EINVAL));
        };
        let point = Point::Held(self.find(&shield.dest)?);
        self.put(source, &point, bind_bits(shield.access, *code))
    }

    fn tmpfs(&mut self, dest: &Path, size: Option<u64>, mode: u32, code: Code) -> io::Result<()> {
        let is_new = !self.made.iter().any(|known| known.as_os_str() == dest.as_os_str());
        if size.is_none() && is_new && self.make_dir(dest)? {
            return self.open_up(dest, mode, code);
        }
        let [size, names] = room(size.unwrap_or_else(|| scratch_size(self.plan)))?;
        let mode = CString::new(format!("{mode:o}"))?;
        let options =
            [(c"size", size.as_c_str()), (c"nr_inodes", names.as_c_str()), (c"mode", mode.as_c_str())];
        let tree = mount::new_filesystem(c"tmpfs", &options, NOSUID | NODEV | code_bits(code))?;
        self.own.push(fd::stat(tree.as_raw_fd())?.st_dev);
        let point = self.dir_point(dest)?;
        self.attach(&tree, &point)
    }

    /// Lets a new directory of the root be changed, which as a whole cannot be. To show it once more takes a third of
    /// what another file system takes, to be made and to end.
    fn open_up(&mut self, dest: &Path, mode: u32, code: Code) -> io::Result<()> {
        let path = c_path(below_root(dest))?;
        mount::change_mode(self.root.as_fd(), &path, mode)?;
        let tree = mount::clone_tree(self.root.as_fd(), &path, NOSUID | NODEV | code_bits(code))?;
        mount::attach_at(tree.as_fd(), self.root.as_fd(), &path)?;
        self.has_put(tree);
        Ok(())
    }

    fn file(&mut self, dest: &Path, data: &[u8]) -> io::Result<()> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let file = self
            .in_parent(dest, |parent, name| fd::open2(parent, name, flags, 0o644, NO_SYMLINKS | BENEATH))?;
        let mut rest = data;
        while !rest.is_empty() {
            rest = &rest[fd::write(file.as_raw_fd(), rest)?..];
        }
        Ok(())
    }

    fn proc(&mut self, dest: &Path) -> io::Result<()> {
        let tree = mount::new_filesystem(c"proc", &[], NOSUID | NODEV | NOEXEC)?;
        let point = self.dir_point(dest)?;
        self.attach(&tree, &point)?;
        if !self.real_root {
            return Ok(());
        }
        for name in PROC_KNOBS {
            let cover = match mount::clone_tree(tree.as_fd(), name, RDONLY | NOSUID | NODEV | NOEXEC) {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
                other => other?,
            };
            mount::attach_at(cover.as_fd(), tree.as_fd(), name)?;
            self.has_put(cover);
        }
        let nothing = fd::open(fd::cwd(), c"/dev/null", libc::O_PATH | libc::O_NOFOLLOW, 0)?;
        let mut cover = None;
        for name in PROC_SECRETS {
            let over = match cover.take() {
                Some(unused) => unused,
                None => mount::clone_tree(nothing.as_fd(), c"", DEVICE)?,
            };
            match mount::attach_at(over.as_fd(), tree.as_fd(), name) {
                Ok(()) => self.has_put(over),
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => cover = Some(over),
                Err(error) => return Err(error),
            }
        }
        cover.into_iter().chain([tree, nothing]).for_each(|done| self.has_put(done));
        Ok(())
    }

    fn dev(&mut self, dest: &Path, devices: &mut std::slice::Iter<'_, OwnedFd>) -> io::Result<()> {
        for name in sources::devices(self.plan) {
            let source = devices.next().ok_or_else(|| errno(libc::EINVAL))?;
            self.bind(source, &dest.join(name), DEVICE)?;
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
        self.dir_point(&dest.join(TERMINALS))?;
        self.tmpfs(&dest.join("shm"), None, 0o1777, Code::Refused)
    }

    /// Opens what already lies at `dest`.
    fn find(&self, dest: &Path) -> io::Result<OwnedFd> {
        fd::open2(self.root.as_fd(), &c_path(below_root(dest))?, libc::O_PATH, 0, NO_SYMLINKS | BENEATH)
    }

    /// Makes `dest` if its place is one of ours throughout; whether it was so.
    fn make_dir(&mut self, dest: &Path) -> io::Result<bool> {
        // By letter: what is written otherwise is looked up, and then found.
        let same = |known: &PathBuf| known.as_os_str() == dest.as_os_str();
        if self.made.iter().any(same) {
            return Ok(true);
        }
        if self.covered.iter().any(same) {
            return Ok(false);
        }
        let Some(parent) = dest.parent() else { return Ok(false) };
        if !self.make_dir(parent)? {
            return Ok(false);
        }
        match mount::make_dir(self.root.as_fd(), &c_path(below_root(dest))?, 0o755) {
            Ok(()) => {
                self.made.push(dest.to_owned());
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

    /// The directory at `dest` as a mount point, made where it may be made.
    fn dir_point(&mut self, dest: &Path) -> io::Result<Point> {
        if self.make_dir(dest)? {
            return Ok(Point::Ours(c_path(below_root(dest))?));
        }
        self.ensure_dir(dest).map(Point::Held)
    }

    /// The file at `dest` as a mount point, made where it may be made.
    fn file_point(&mut self, dest: &Path) -> io::Result<Point> {
        if dest.parent().map(|parent| self.make_dir(parent)).transpose()? == Some(true) {
            let path = c_path(below_root(dest))?;
            match mount::make_file(self.root.as_fd(), &path) {
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                other => return other.map(|()| Point::Ours(path)),
            }
        }
        match self.find(dest) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            other => return other.map(Point::Held),
        }
        let (parent, name) = self.parent_of(dest)?;
        mount::make_file(parent.as_fd(), &name)?;
        fd::open2(parent.as_fd(), &name, libc::O_PATH, 0, NO_SYMLINKS | BENEATH).map(Point::Held)
    }

    /// Makes something at `dest`, given a directory of ours and its name from there.
    fn in_parent<T>(
        &mut self,
        dest: &Path,
        make: impl FnOnce(BorrowedFd<'_>, &CStr) -> io::Result<T>,
    ) -> io::Result<T> {
        if dest.parent().map(|parent| self.make_dir(parent)).transpose()? == Some(true) {
            return make(self.root.as_fd(), &c_path(below_root(dest))?);
        }
        let (parent, name) = self.parent_of(dest)?;
        make(parent.as_fd(), &name)
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

/// A directory as the overlay takes it: colons part directories.
fn escaped(path: &Path) -> io::Result<CString> {
    let mut bytes = Vec::new();
    for byte in c_path(path)?.as_bytes() {
        if matches!(byte, b':' | b'\\') {
            bytes.push(b'\\');
        }
        bytes.push(*byte);
    }
    CString::new(bytes).map_err(io::Error::from)
}

/// `dest` relative to the root; `.` for the root itself.
fn below_root(dest: &Path) -> &Path {
    match dest.strip_prefix("/") {
        Ok(below) if below.as_os_str().is_empty() => Path::new("."),
        Ok(below) => below,
        Err(_) => dest,
    }
}
