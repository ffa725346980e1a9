//! Control groups: limits for the whole tree of a launch.
//!
//! Answers for finding a group we may divide, making one for the launch and removing it. Version 2 where it is
//! delegated to us, version 1 where its files are ours to write. It leaves per-process limits to
//! [`super::limits`].
//! Invariant: a group is named after the supervisor, so that one left by a killed supervisor is found and
//! removed by the next.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use libc::pid_t;

use crate::linux::sys::process::{self, Born};
use crate::linux::sys::{c_path, fd};
use crate::plan::Limits;
use crate::report::Limit;

const MOUNT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "sbx-";

/// The groups of one launch.
#[derive(Debug)]
pub(crate) struct Group {
    dirs: Vec<PathBuf>,
    version: Version,
    /// Whether memory is bounded for the tree.
    pub(crate) memory: bool,
    /// Whether processes are.
    pub(crate) pids: bool,
    janitor: Option<Janitor>,
}

/// A process that removes the groups when the supervisor is gone, however it went.
#[derive(Debug)]
struct Janitor {
    pid: pid_t,
    line: Option<OwnedFd>,
}

impl Janitor {
    fn hire(dirs: &[PathBuf]) -> io::Result<Self> {
        let (theirs, ours) = fd::pipe()?;
        if let Some(pid) = process::fork()? {
            return Ok(Self { pid, line: Some(ours) });
        }
        drop(ours);
        let _ = process::new_session();
        let keep = theirs.as_raw_fd();
        let _ = fd::close_range(0, (keep - 1).unsigned_abs());
        let _ = fd::close_range(keep + 1, u32::MAX);
        let mut set = [libc::pollfd { fd: keep, events: 0, revents: 0 }];
        while set[0].revents == 0 && fd::poll(&mut set, -1).is_ok() {}
        remove(dirs);
        process::leave(0)
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.line = None;
        let _ = process::reap(self.pid, 0);
    }
}

/// Kills whatever is left in a group.
fn clear(dir: &Path) {
    if fs::write(dir.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let left = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in left.lines().filter_map(|line| line.parse::<pid_t>().ok()).filter(|pid| *pid > 1) {
        let _ = process::kill(pid, libc::SIGKILL);
    }
}

/// Removes groups, with everything in them; a process still on its way out is waited for, within reason.
fn remove(dirs: &[PathBuf]) {
    for dir in dirs {
        for _ in 0..1000 {
            match fs::remove_dir(dir) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    clear(dir);
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                _ => break,
            }
        }
    }
}

/// How a process gets into a group without being moved by another, which would make the kernel wait.
#[derive(Debug, Default)]
pub(crate) enum Door {
    /// There is no group.
    #[default]
    None,
    /// It is born there, or walks in where none can be.
    Birth(OwnedFd),
    /// It walks in by itself, through each of these.
    Entrances(Vec<OwnedFd>),
}

impl Door {
    /// Where a process is to be born.
    pub(crate) fn birthplace(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Birth(group) => Some(group.as_fd()),
            Self::None | Self::Entrances(_) => None,
        }
    }

    /// Walks in, unless this process was `born` there.
    pub(crate) fn enter(&self, born: Born) -> io::Result<()> {
        match (self, born) {
            (Self::Entrances(files), _) => files.iter().try_for_each(walk_in),
            (Self::Birth(group), Born::Outside) => {
                walk_in(&fd::open(group.as_fd(), c"cgroup.procs", libc::O_WRONLY, 0)?)
            }
            (Self::Birth(_), Born::Inside) | (Self::None, _) => Ok(()),
        }
    }
}

fn walk_in(entrance: &OwnedFd) -> io::Result<()> {
    fd::write(entrance.as_raw_fd(), b"0").map(drop)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Group {
    /// Makes a group for `limits`, if any of them needs one and one can be had.
    pub(crate) fn make(limits: &Limits) -> Option<Self> {
        if limits.memory.is_none() && limits.pids.is_none() {
            return None;
        }
        let mut group = version_two(limits).or_else(|| version_one(limits))?;
        group.janitor = Janitor::hire(&group.dirs).ok();
        Some(group)
    }

    /// How a process gets in.
    pub(crate) fn door(&self) -> io::Result<Door> {
        let open = |path: &Path, flags| fd::open(fd::cwd(), &c_path(path)?, flags, 0);
        match (self.version, self.dirs.as_slice()) {
            (Version::Two, [dir, ..]) => Ok(Door::Birth(open(dir, libc::O_RDONLY | libc::O_DIRECTORY)?)),
            (_, dirs) => dirs
                .iter()
                .map(|dir| open(&dir.join("tasks"), libc::O_WRONLY))
                .collect::<io::Result<_>>()
                .map(Door::Entrances),
        }
    }

    /// Limits that were reached here: something was killed for want of memory, or a process could not be made.
    pub(crate) fn reached(&self) -> Vec<Limit> {
        let memory = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let counted = |file: &str, word: &str| {
            let texts = self.dirs.iter().filter_map(|dir| fs::read_to_string(dir.join(file)).ok());
            texts.into_iter().any(|text| is_counted(&text, word))
        };
        let killed = self.memory && counted(memory, "oom_kill");
        let refused = self.pids && counted("pids.events", "max");
        [killed.then_some(Limit::Memory), refused.then_some(Limit::Pids)].into_iter().flatten().collect()
    }
}

/// Whether a file of counters has this one above 0.
fn is_counted(text: &str, word: &str) -> bool {
    text.lines().filter_map(|line| line.split_once(' ')).any(|(name, count)| name == word && count != "0")
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.dirs);
        self.janitor = None;
    }
}

/// The group of this process in the hierarchy with `controller` (empty for version 2).
fn own(controller: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then(|| path.to_owned())
    })
}

fn below(mount: &str, group: &str) -> PathBuf {
    Path::new(mount).join(group.trim_start_matches('/'))
}

/// Removes groups whose supervisor is gone.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<pid_t>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn divide(parent: &Path) -> Option<PathBuf> {
    sweep(parent);
    let dir = parent.join(format!("{PREFIX}{}", process::own_pid()));
    fs::create_dir(&dir).ok()?;
    Some(dir)
}

fn version_two(limits: &Limits) -> Option<Group> {
    if !Path::new(MOUNT).join("cgroup.controllers").exists() {
        return None;
    }
    let own = below(MOUNT, &own("")?);
    let wanted = [(limits.memory, "memory"), (limits.pids, "pids")];
    let parent = [own.as_path(), own.parent()?].into_iter().find(|dir| {
        let enabled = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
        dir.starts_with(MOUNT)
            && wanted
                .iter()
                .all(|(limit, name)| limit.is_none() || enabled.split_whitespace().any(|each| each == *name))
    })?;
    let dir = divide(parent)?;
    let set = |file: &str, limit: Option<u64>| {
        limit.is_some_and(|value| fs::write(dir.join(file), value.to_string()).is_ok())
    };
    let memory = set("memory.max", limits.memory);
    let _ = fs::write(dir.join("memory.swap.max"), "0");
    let pids = set("pids.max", limits.pids);
    Some(Group { dirs: vec![dir], version: Version::Two, memory, pids, janitor: None })
}

fn version_one(limits: &Limits) -> Option<Group> {
    let mut group =
        Group { dirs: Vec::new(), version: Version::One, memory: false, pids: false, janitor: None };
    let wanted = [("memory", "memory.limit_in_bytes", limits.memory), ("pids", "pids.max", limits.pids)];
    for (controller, file, limit) in wanted {
        let Some(value) = limit else { continue };
        let Some(path) = own(controller) else { continue };
        let Some(dir) = divide(&below(&format!("{MOUNT}/{controller}"), &path)) else { continue };
        let held = fs::write(dir.join(file), value.to_string()).is_ok();
        group.dirs.push(dir);
        match controller {
            "memory" => group.memory = held,
            _ => group.pids = held,
        }
    }
    (!group.dirs.is_empty()).then_some(group)
}
