//! Control groups: limits for the whole tree of a launch.
//!
//! Answers for finding a group we may divide, making one for the launch and removing it. Version 2 where it is
//! delegated to us, version 1 where its files are ours to write. It leaves per-process limits to
//! [`super::limits`].
//! Invariant: a group is named after the supervisor, so that one left by a killed supervisor is found and
//! removed by the next.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use libc::pid_t;

use crate::linux::sys::{c_path, fd, process};
use crate::plan::Limits;

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
        version_two(limits).or_else(|| version_one(limits))
    }

    /// The group a process can be born in, if the kernel can do that.
    pub(crate) fn birthplace(&self) -> Option<OwnedFd> {
        if self.version == Version::One {
            return None;
        }
        let path = c_path(self.dirs.first()?).ok()?;
        fd::open(fd::cwd(), &path, libc::O_RDONLY | libc::O_DIRECTORY, 0).ok()
    }

    /// Moves `pid` and what it will start into the group.
    pub(crate) fn admit(&self, pid: pid_t) -> io::Result<()> {
        self.dirs.iter().try_for_each(|dir| fs::write(dir.join("cgroup.procs"), pid.to_string()))
    }

    /// Whether the kernel killed something here for want of memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        self.dirs.iter().filter_map(|dir| fs::read_to_string(dir.join(file)).ok()).any(|text| {
            text.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count != "0"))
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for dir in &self.dirs {
            for _ in 0..20 {
                match fs::remove_dir(dir) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                    }
                    _ => break,
                }
            }
        }
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
    Some(Group { dirs: vec![dir], version: Version::Two, memory, pids })
}

fn version_one(limits: &Limits) -> Option<Group> {
    let mut group = Group { dirs: Vec::new(), version: Version::One, memory: false, pids: false };
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
