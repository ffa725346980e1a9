//! The bwrap backend: bubblewrap builds the view, our stage inside adds the rest.
//!
//! Answers for translating the mounts of a plan into bubblewrap's options, for trusting only a bubblewrap that
//! nobody but root can change, and for starting it with an empty environment. It leaves Landlock, seccomp and
//! limits to [`super::stage`].
//! Invariant: options travel over a descriptor, never as arguments others can read, and bubblewrap is never
//! asked to make a mount point inside a place of the host.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::PlatformError;
use crate::linux::cgroup::Door;
use crate::linux::keeper::FAILED;
use crate::linux::message::Message;
use crate::linux::native::{self, hold_on};
use crate::linux::supervise::Started;
use crate::linux::sys::process::{self, Born, Fork};
use crate::linux::sys::{c_path, check_int, fd, socket};
use crate::linux::{mounts, sources};
use crate::plan::{Access, MountOp, Network, Plan};
use crate::report::{SetupFailure, Step};
use crate::text;

/// Where a bubblewrap is looked for; never through `PATH`.
const CANDIDATES: [&str; 3] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"];
/// The word by which our own program knows that it is the stage inside.
pub(crate) const STAGE: &str = "__stage";

/// The first bubblewrap that only root can change.
pub(crate) fn find() -> Option<PathBuf> {
    #[cfg(feature = "test-hooks")]
    if crate::hooks::bwrap_missing() {
        return None;
    }
    let cwd = std::env::current_dir().ok();
    CANDIDATES.into_iter().filter_map(|path| std::fs::canonicalize(path).ok()).find(|path| {
        let below_cwd = cwd.as_ref().is_some_and(|cwd| cwd != Path::new("/") && path.starts_with(cwd));
        !below_cwd && path.ancestors().all(is_roots_alone) && !is_setuid(path)
    })
}

fn is_roots_alone(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == 0 && meta.mode() & 0o022 == 0)
}

fn is_setuid(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o6000 != 0)
}

/// Options under construction, and the descriptors they name.
struct Options {
    words: Vec<u8>,
    files: Vec<OwnedFd>,
}

impl Options {
    fn add(&mut self, words: &[&OsStr]) {
        for word in words {
            self.words.extend_from_slice(word.as_bytes());
            self.words.push(0);
        }
    }

    fn flag(&mut self, words: &[&str]) {
        for word in words {
            self.add(&[OsStr::new(word)]);
        }
    }

    fn path(&mut self, option: &str, paths: &[&Path]) {
        self.add(&[OsStr::new(option)]);
        for path in paths {
            self.add(&[path.as_os_str()]);
        }
    }

    /// Shows what is at `source` now, whatever takes its place until bubblewrap comes to it.
    fn bind(&mut self, access: Access, source: &Path, dest: &Path) -> io::Result<()> {
        let held = fd::open2(fd::cwd(), &c_path(source)?, libc::O_PATH, 0, fd::NO_SYMLINKS)?;
        let option = if access == Access::ReadWrite { "--bind-fd" } else { "--ro-bind-fd" };
        self.flag(&[option, &held.as_raw_fd().to_string()]);
        self.add(&[dest.as_os_str()]);
        self.files.push(held);
        Ok(())
    }

    /// An in-memory file with `data`, open for the child; its number.
    fn file(&mut self, data: &[u8]) -> io::Result<RawFd> {
        let file = memory_file(data)?;
        let number = file.as_raw_fd();
        self.files.push(file);
        Ok(number)
    }
}

fn memory_file(data: &[u8]) -> io::Result<OwnedFd> {
    // SAFETY: a literal name and an integer.
    let raw = check_int(unsafe { libc::memfd_create(c"sbx".as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    let mut file = unsafe { std::fs::File::from_raw_fd(raw) };
    file.write_all(data)?;
    file.rewind()?;
    Ok(file.into())
}

fn options(plan: &Plan) -> io::Result<Options> {
    let mut all = Options { words: Vec::new(), files: Vec::new() };
    all.flag(&["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts"]);
    all.flag(&[
        "--unshare-cgroup-try",
        "--cap-drop",
        "ALL",
        "--new-session",
        "--die-with-parent",
        "--as-pid-1",
    ]);
    // What is mounted on the host later would come into the view, without its attributes. So the stage cuts it off
    // before anything else, or fails, and gives this up afterwards.
    all.flag(&["--cap-add", "CAP_SYS_ADMIN"]);
    match &plan.network {
        Network::None => all.flag(&["--unshare-net"]),
        // A network that bubblewrap makes belongs to another user namespace than the one our stage is in. So the
        // stage makes its own as well.
        Network::Gateway(_) => {
            for needed in ["CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE"] {
                all.flag(&["--cap-add", needed]);
            }
        }
    }
    let (uid, gid) = native::inner_ids(plan.identity, process::ids());
    all.flag(&["--uid", &uid.to_string(), "--gid", &gid.to_string(), "--hostname", &plan.hostname]);
    let shields = sources::shields(plan).map_err(|failure| io::Error::from_raw_os_error(failure.errno))?;
    for (number, op) in plan.mounts.iter().enumerate() {
        mount(op, plan, &mut all)?;
        for shield in shields.iter().filter(|shield| shield.place == number) {
            all.bind(shield.access, &shield.source, &shield.dest)?;
        }
    }
    all.flag(&["--remount-ro", "/", "--chdir", "/"]);
    Ok(all)
}

fn mount(op: &MountOp, plan: &Plan, all: &mut Options) -> io::Result<()> {
    match op {
        MountOp::Bind { source, dest, access, .. } => {
            may_make(plan, dest)?;
            all.bind(*access, source, dest)?;
        }
        MountOp::Tmpfs { dest, size, mode, .. } => {
            may_make(plan, dest)?;
            let size = size.unwrap_or_else(|| mounts::scratch_size(plan));
            all.flag(&["--perms", &format!("{mode:04o}"), "--size", &size.to_string()]);
            all.path("--tmpfs", &[dest]);
        }
        MountOp::Dir { dest } => all.path("--dir", &[dest]),
        MountOp::Symlink { target, dest } => all.path("--symlink", &[target, dest]),
        MountOp::File { dest, data } => {
            let number = all.file(data)?;
            all.flag(&["--ro-bind-data", &number.to_string()]);
            all.add(&[dest.as_os_str()]);
        }
        MountOp::Proc { dest } => {
            all.path("--proc", &[dest]);
            cover_proc(dest, process::ids().0 == 0, all);
        }
        MountOp::Dev { dest } => {
            all.path("--dev", &[dest]);
            let size = mounts::scratch_size(plan);
            all.flag(&["--perms", "1777", "--size", &size.to_string()]);
            all.path("--tmpfs", &[&dest.join("shm")]);
            // Files without a name could be made there, as large as one likes.
            all.path("--remount-ro", &[dest]);
        }
    }
    Ok(())
}

/// Lays over the process list what the native backend lays over it: what real user 0 could write to or read without
/// any privilege. The first of the knobs is for everybody.
fn cover_proc(dest: &Path, real_root: bool, all: &mut Options) {
    let host = |name: &CStr| {
        let name = Path::new(OsStr::from_bytes(name.to_bytes()));
        (Path::new("/proc").join(name), dest.join(name))
    };
    for (knob, inside) in mounts::PROC_KNOBS.map(host) {
        if knob == Path::new("/proc/sys") || real_root && knob.exists() {
            all.path("--ro-bind", &[&knob, &inside]);
        }
    }
    for (secret, inside) in mounts::PROC_SECRETS.map(host) {
        if real_root && secret.exists() {
            all.path("--ro-bind", &[Path::new("/dev/null"), &inside]);
        }
    }
}

/// A mount point inside a place of the host must be there already, and not be reached through a link.
fn may_make(plan: &Plan, dest: &Path) -> io::Result<()> {
    for op in &plan.mounts {
        let MountOp::Bind { source, dest: outer, .. } = op else { continue };
        if dest == outer {
            continue;
        }
        if let Ok(below) = dest.strip_prefix(outer) {
            let path = c_path(&source.join(below))?;
            fd::open2(fd::cwd(), &path, libc::O_PATH, 0, fd::NO_SYMLINKS)?;
        }
    }
    Ok(())
}

/// What bubblewrap would be told, an option a line, with paths in place of descriptors.
pub(crate) fn told(plan: &Plan) -> io::Result<String> {
    let options = options(plan)?;
    let held = |number: &str| {
        let file = options.files.iter().find(|file| file.as_raw_fd().to_string() == number)?;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        Some(path.display().to_string())
    };
    let mut text = String::from("bwrap");
    let mut by_descriptor = false;
    for word in options.words.split(|byte| *byte == 0).filter(|word| !word.is_empty()) {
        let word = String::from_utf8_lossy(word);
        if word.starts_with("--") {
            text.push_str("\n  ");
        } else {
            text.push(' ');
        }
        match word.strip_suffix("-fd") {
            Some(option) => text.push_str(option),
            None if by_descriptor => text.push_str(&held(&word).unwrap_or_else(|| word.to_string())),
            None => crate::text::escape(OsStr::new(word.as_ref()), &mut text),
        }
        by_descriptor = word.ends_with("-fd");
    }
    Ok(text)
}

/// Starts bubblewrap with our stage inside.
pub(crate) fn start(plan: &Plan, stdio: [OwnedFd; 3], door: &Door) -> Result<Started, PlatformError> {
    let wrap = |error| PlatformError::on("start", "bwrap", error);
    let bwrap = find().ok_or_else(|| PlatformError::NoBackend {
        reason: String::from("no bwrap that is owned by root and writable by nobody else"),
    })?;
    let options = options(plan).map_err(wrap)?;
    let arguments = memory_file(&options.words).map_err(wrap)?;
    let text = memory_file(text::write(plan).as_bytes()).map_err(wrap)?;
    let own = fd::open(fd::cwd(), c"/proc/self/exe", libc::O_RDONLY, 0).map_err(wrap)?;
    let (ours, theirs) = socket::pair().map_err(wrap)?;
    let number = |file: &OwnedFd| file.as_raw_fd().to_string();
    let argv: Vec<OsString> = vec![
        "bwrap".into(),
        "--args".into(),
        number(&arguments).into(),
        "--".into(),
        format!("/proc/self/fd/{}", own.as_raw_fd()).into(),
        STAGE.into(),
        number(&theirs).into(),
        number(&text).into(),
    ];
    let argv: Vec<CString> = argv.iter().filter_map(|word| CString::new(word.as_bytes()).ok()).collect();
    let program = c_path(&bwrap).map_err(wrap)?;
    let environment = crate::linux::environment();
    match process::fork_into(0, door.birthplace()).map_err(wrap)? {
        Fork::Parent(pidfd, pid) => {
            Ok(Started { pidfd, pid, line: ours, kit: None, unsaid: (Step::Helper, "bwrap") })
        }
        Fork::Child(born) => {
            drop(ours);
            let mut kept = vec![&arguments, &text, &own, &theirs];
            kept.extend(&options.files);
            let words = [argv.as_slice(), &environment];
            let error = become_bwrap(&program, words, &stdio, &kept, &plan.pass_fds, (door, born));
            let errno = crate::linux::sys::number(&error);
            let failure = SetupFailure { step: Step::Helper, object: bwrap.display().to_string(), errno };
            let _ = socket::send(theirs.as_fd(), &Message::Failed(failure).encode(), None);
            process::leave(FAILED)
        }
    }
}

/// Returns only if something failed.
fn become_bwrap(
    program: &CStr,
    [argv, environment]: [&[CString]; 2],
    stdio: &[OwnedFd; 3],
    kept: &[&OwnedFd],
    pass: &[RawFd],
    (door, born): (&Door, Born),
) -> io::Error {
    let arrange = || {
        hold_on(kept[3], door, born)?;
        for (to, from) in stdio.iter().enumerate() {
            fd::dup_onto(from.as_raw_fd(), to as RawFd)?;
        }
        fd::close_on_exec_from(3)?;
        kept.iter().try_for_each(|file| fd::keep_on_exec(file.as_raw_fd()))?;
        pass.iter().try_for_each(|number| fd::keep_on_exec(*number))
    };
    if let Err(error) = arrange() {
        return error;
    }
    let pointers = |words: &[CString]| {
        let words = words.iter().map(|word| word.as_ptr());
        words.chain([std::ptr::null()]).collect::<Vec<*const libc::c_char>>()
    };
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: both vectors are null-terminated and their strings NUL-terminated; all live until the call succeeds.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}
