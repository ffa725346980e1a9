//! The landlock backend: no namespaces at all.
//!
//! Answers for carrying out a plan where namespaces are closed: rights on host paths instead of a view, private
//! directories instead of private file systems, a subreaper instead of a pid namespace. What that cannot hold
//! is left out of its guarantees by name.
//! Invariant: a path gets rights only through something the plan shows; what the plan would hide or replace is
//! out of reach rather than shown, but for the lists of accounts.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::PlatformError;
use crate::linux::cgroup::Door;
use crate::linux::keeper::FAILED;
use crate::linux::message::Message;
use crate::linux::native::hold_on;
use crate::linux::net;
use crate::linux::stage::Stage;
use crate::linux::supervise::{OWN_STAGE, Started};
use crate::linux::sys::process::{self, Fork};
use crate::linux::sys::{c_path, fd, socket};
use crate::path::within;
use crate::plan::{Gateway, MountOp, Network, Place, Plan, Rights};
use crate::report::{SetupFailure, Step};
use crate::scratch::Scratch;

/// Device nodes that stay in reach.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Lists of accounts, which the host's own stand in for where the plan makes some: without one's own name in them
/// ssh and others stop, and who has an account is no secret on a machine.
const ACCOUNTS: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// A path inside, and what stands for it on the host, if anything does.
type Shown = (PathBuf, Option<PathBuf>);

/// The plan in host terms: rights on host paths, and variables that point at private directories.
///
/// A private file system that no variable points at could not be found, so nothing stands for it.
pub(crate) fn translate(plan: &Plan) -> Result<(Plan, Scratch), PlatformError> {
    let wrap = |error| PlatformError::on("make", "a private directory", error);
    let mut scratch = Scratch::default();
    let mut shown: Vec<Shown> = Vec::new();
    let mut private: Vec<MountOp> = Vec::new();
    for op in &plan.mounts {
        match op {
            MountOp::Bind { source, dest, .. } => shown.push((dest.clone(), Some(source.clone()))),
            MountOp::Tmpfs { dest, size, mode, code } => {
                // Rights add up along a path, so nothing below a place that is shown can be hidden.
                if let Some((above, _)) = shown.iter().find(|(above, _)| within(dest, above)) {
                    let reason = format!("landlock cannot hide {} below {}", dest.display(), above.display());
                    return Err(PlatformError::NoBackend { reason });
                }
                let wanted = plan.env.iter().any(|(_, value)| within(Path::new(value), dest));
                let dir = wanted.then(|| scratch.add()).transpose().map_err(wrap)?;
                private.extend(dir.iter().map(|dir| MountOp::Tmpfs {
                    dest: dir.clone(),
                    size: *size,
                    mode: *mode,
                    code: *code,
                }));
                shown.push((dest.clone(), dir));
            }
            MountOp::Dir { .. }
            | MountOp::Symlink { .. }
            | MountOp::File { .. }
            | MountOp::Proc { .. }
            | MountOp::Dev { .. } => {}
        }
    }
    let mut host = plan.clone();
    host.rights = plan.rights.iter().flat_map(|place| on_host(place, &shown)).collect();
    host.rights.extend(fixed(plan));
    host.env = plan.env.iter().map(|(name, value)| (name.clone(), redirect(value, &shown))).collect();
    for (name, value) in network_variables(plan) {
        if !host.env.iter().any(|(known, _)| known == name) {
            host.env.push((name.into(), value.into()));
        }
    }
    host.mounts.retain(|op| matches!(op, MountOp::Bind { .. }));
    // Nothing is mounted; these say which directories end with the launch.
    host.mounts.extend(private);
    Ok((host, scratch))
}

/// What programs must be told where datagrams cannot be sent: to ask for names by stream, and, because not all
/// programs can do that, of the proxy.
fn network_variables(plan: &Plan) -> Vec<(&'static str, String)> {
    let Network::Gateway(Gateway { proxy, .. }) = &plan.network else { return Vec::new() };
    let mut told = vec![("RES_OPTIONS", String::from("use-vc"))];
    if let Some(port) = proxy {
        let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"];
        told.extend(names.map(|name| (name, format!("http://127.0.0.1:{port}"))));
        told.extend(["NO_PROXY", "no_proxy"].map(|name| (name, String::from("localhost,127.0.0.1,::1"))));
        told.push(("NODE_USE_ENV_PROXY", String::from("1")));
    }
    told
}

/// What stands for `path`: `None` if nothing inside covers it, `Some(None)` if what covers it has no stand-in.
fn stand_in(path: &Path, shown: &[Shown]) -> Option<Option<PathBuf>> {
    let covers = |(dest, _): &&Shown| within(path, dest);
    shown.iter().rev().find(covers).and_then(|(dest, source)| {
        let below = path.strip_prefix(dest).ok()?;
        let join =
            |source: &PathBuf| if below.as_os_str().is_empty() { source.clone() } else { source.join(below) };
        Some(source.as_ref().map(join))
    })
}

/// What `place` means on the host: the shown path it lies in, or every shown path below it.
fn on_host(place: &Place, shown: &[Shown]) -> Vec<Place> {
    if let Some(covering) = stand_in(&place.path, shown) {
        return covering.map(|path| Place { path, rights: place.rights }).into_iter().collect();
    }
    let below = shown.iter().filter(|(dest, _)| within(dest, &place.path));
    let paths = below.filter_map(|(_, source)| source.clone());
    paths.map(|path| Place { path, rights: place.rights }).collect()
}

/// The process list to read, the lists of accounts and the harmless devices, where the plan has them.
fn fixed(plan: &Plan) -> Vec<Place> {
    let mut places = Vec::new();
    for op in &plan.mounts {
        match op {
            MountOp::Proc { .. } => {
                places.push(Place { path: "/proc".into(), rights: Rights::LIST | Rights::READ });
            }
            MountOp::Dev { .. } => places.extend(DEVICES.iter().map(|name| Place {
                path: Path::new("/dev").join(name),
                rights: Rights::READ | Rights::MODIFY,
            })),
            MountOp::File { dest, .. } => {
                let account = ACCOUNTS.iter().any(|account| dest == Path::new(account));
                places.extend(account.then(|| Place { path: dest.clone(), rights: Rights::READ }));
            }
            MountOp::Bind { .. } | MountOp::Tmpfs { .. } | MountOp::Dir { .. } | MountOp::Symlink { .. } => {}
        }
    }
    places
}

/// A variable that is the path of a private file system becomes the path of the directory standing for it.
fn redirect(value: &OsString, shown: &[Shown]) -> OsString {
    if value.as_bytes().first() != Some(&b'/') {
        return value.clone();
    }
    stand_in(Path::new(value), shown).flatten().map_or_else(|| value.clone(), PathBuf::into_os_string)
}

/// Starts the inner process.
pub(crate) fn start(
    plan: &Plan,
    stage: Stage,
    stdio: [OwnedFd; 3],
    door: &Door,
) -> Result<Started, PlatformError> {
    let wrap = |error| PlatformError::on("start", "a process", error);
    let (ours, theirs) = socket::pair().map_err(wrap)?;
    let (kit, behalf, inward) = match &plan.network {
        Network::None => (None, None, None),
        Network::Gateway(gateway) => {
            let (kit, behalf, inward) = net::prepare(gateway).map_err(|error| {
                PlatformError::on("make connections on behalf of", plan.program.display().to_string(), error)
            })?;
            (Some(kit), Some(behalf), inward)
        }
    };
    match process::fork_into(0, door.birthplace()).map_err(wrap)? {
        Fork::Parent(pidfd, pid) => {
            // The launch is recorded while the other goes under its rules; nobody else needs a processor for it.
            process::step_aside();
            Ok(Started { pidfd, pid, line: ours, kit, unsaid: OWN_STAGE })
        }
        Fork::Child(born) => {
            drop(ours);
            let ready = hold_on(&theirs, door, born)
                .and_then(|()| process::prctl(libc::PR_SET_PDEATHSIG, 0))
                .and_then(|_| process::prctl(libc::PR_SET_CHILD_SUBREAPER, 1));
            if let Err(error) = ready {
                let errno = crate::linux::sys::number(&error);
                let failure = SetupFailure { step: Step::Lifeline, object: String::new(), errno };
                let _ = socket::send(theirs.as_fd(), &Message::Failed(failure).encode(), None);
                process::leave(FAILED);
            }
            // Only the parent keeps the doors.
            drop(kit);
            stage.on_behalf(behalf).run(theirs, stdio, inward)
        }
    }
}

/// A view of this process's children that works after it has been restricted.
#[derive(Debug)]
pub(crate) struct Children {
    list: OwnedFd,
}

impl Children {
    /// The children of this process, from now on.
    pub(crate) fn of_self() -> io::Result<Self> {
        let path = c_path(Path::new(&format!("/proc/self/task/{}/children", process::own_pid())))?;
        Ok(Self { list: fd::open(fd::cwd(), &path, libc::O_RDONLY, 0)? })
    }

    /// The descriptor it needs.
    pub(crate) fn raw(&self) -> RawFd {
        self.list.as_raw_fd()
    }

    /// Their numbers.
    pub(crate) fn numbers(&self) -> Vec<i32> {
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = fd::read_at(self.raw(), &mut buffer, text.len() as i64) {
            text.extend_from_slice(&buffer[..length]);
        }
        String::from_utf8_lossy(&text).split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Kills every child but those in `spare`, and theirs as they come to us, until none is left.
    pub(crate) fn kill(&self, spare: &[i32]) {
        for _ in 0..10_000 {
            let doomed: Vec<i32> = self.numbers().into_iter().filter(|pid| !spare.contains(pid)).collect();
            if doomed.is_empty() {
                return;
            }
            for pid in &doomed {
                let _ = process::kill(*pid, libc::SIGKILL);
            }
            for pid in doomed {
                let _ = process::reap(pid, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Access, Code};

    #[test]
    fn only_what_is_shown_gets_rights() {
        let mut plan = Plan::new("/usr/bin/true", vec!["true".into()]);
        for path in ["/usr", "/etc/ssl"] {
            plan.mounts.push(MountOp::Bind {
                source: path.into(),
                dest: path.into(),
                access: Access::ReadOnly,
                code: Code::Allowed,
            });
        }
        plan.mounts.push(MountOp::Tmpfs {
            dest: "/tmp".into(),
            size: Some(1),
            mode: 0o700,
            code: Code::Allowed,
        });
        let read = Rights::READ | Rights::LIST;
        plan.rights = vec![
            Place { path: "/".into(), rights: Rights::LIST },
            Place { path: "/etc".into(), rights: read },
            Place { path: "/usr/lib".into(), rights: read },
        ];
        plan.env = vec![("TMPDIR".into(), "/tmp".into()), ("PATH".into(), "/usr/bin:/bin".into())];
        let (host, _scratch) = translate(&plan).unwrap();
        let tmp = PathBuf::from(&host.env[0].1);
        assert!(tmp.is_dir());
        let place = |path: &str, rights| Place { path: path.into(), rights };
        assert_eq!(
            host.rights,
            vec![
                place("/usr", Rights::LIST),
                place("/etc/ssl", Rights::LIST),
                Place { path: tmp.clone(), rights: Rights::LIST },
                place("/etc/ssl", read),
                place("/usr/lib", read),
            ]
        );
        assert_eq!(host.env[1].1, "/usr/bin:/bin");
    }
}
