//! The native backend: namespaces of our own.
//!
//! Answers for making the namespaces, mapping the user and holding on to the supervisor. It leaves the view
//! to [`super::mounts`] and the rest to [`super::stage`].
//! Invariant: from its first instruction on, the inner process dies with the supervisor: by parent-death
//! signal, and by the line, whose other end only the supervisor holds.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use crate::error::PlatformError;
use crate::linux::cgroup::Door;
use crate::linux::keeper::FAILED;
use crate::linux::message::Message;
use crate::linux::mounts;
use crate::linux::net::{self, Apart, Kit};
use crate::linux::sources::{Opener, Sources};
use crate::linux::stage::Stage;
use crate::linux::supervise::{OWN_STAGE, Started};
use crate::linux::sys::process::{self, Born, Fork};
use crate::linux::sys::{check_int, fd, number, socket};
use crate::plan::{Identity, Network, Plan};
use crate::report::{SetupFailure, Step};

/// User, mount, pid, ipc, uts and cgroup; the network comes apart.
pub(crate) const NAMESPACES: u64 =
    0x1000_0000 | 0x2_0000 | 0x2000_0000 | 0x0800_0000 | 0x0400_0000 | 0x0200_0000;

/// The user inside when the launcher is user 0 and the plan names none.
const ORDINARY: u32 = 1000;

/// Starts the inner process, in the group behind `door`.
pub(crate) fn start(
    plan: &Plan,
    stage: Stage,
    stdio: [OwnedFd; 3],
    door: &Door,
) -> Result<Started, PlatformError> {
    let real = process::ids();
    let opened = open_outside(plan, real)?;
    let (ours, theirs) = socket::pair().map_err(|error| PlatformError::on("make", "a line", error))?;
    match process::fork_into(flags(), door.birthplace()) {
        Ok(Fork::Parent(pidfd, pid)) => {
            if let Some(sources) = opened {
                sources.close();
            }
            Ok(Started { pidfd, pid, line: ours, kit: None, unsaid: OWN_STAGE })
        }
        Ok(Fork::Child(born)) => {
            drop(ours);
            match enter(plan, opened, &theirs, (door, born), real) {
                Ok(inward) => stage.run(theirs, stdio, inward),
                Err(failure) => {
                    let _ = socket::send(theirs.as_fd(), &Message::Failed(failure).encode(), None);
                    process::leave(FAILED)
                }
            }
        }
        Err(error) => {
            Err(PlatformError::on("make namespaces for", plan.program.display().to_string(), error))
        }
    }
}

/// Opens the sources here if this process is privileged, so that directories only it may enter can be shown.
fn open_outside(plan: &Plan, real: (u32, u32)) -> Result<Option<Sources>, PlatformError> {
    if real.0 != 0 {
        return Ok(None);
    }
    match Sources::open(plan, Opener::Outer) {
        // User 0 of a container has the name but not the privilege.
        Err(failure) if failure.errno == libc::EPERM => Ok(None),
        other => other.map(Some).map_err(PlatformError::from),
    }
}

fn flags() -> u64 {
    #[cfg(feature = "test-hooks")]
    if crate::hooks::namespaces_closed() {
        // A set the kernel refuses, so that the path of a refusal is really taken.
        return NAMESPACES | libc::CLONE_FS as u64;
    }
    NAMESPACES
}

/// Everything up to the new root and the sockets of the network.
fn enter(
    plan: &Plan,
    opened: Option<Sources>,
    line: &OwnedFd,
    (door, born): (&Door, Born),
    real: (u32, u32),
) -> Result<Option<OwnedFd>, SetupFailure> {
    hold_on(line, door, born).map_err(|error| fail(Step::Lifeline, "", &error))?;
    let sockets = std::thread::scope(|scope| {
        let network = Apart::begin(scope, plan)?;
        show(plan, opened, real)?;
        network.join()
    })?;
    sockets.map_or(Ok(None), |(kit, inward)| send_out(&kit, line).map(|()| inward))
}

/// Names, users and the view.
fn show(plan: &Plan, opened: Option<Sources>, real: (u32, u32)) -> Result<(), SetupFailure> {
    let sources = match opened {
        Some(sources) => sources,
        None => Sources::open(plan, Opener::Inner)?,
    };
    map_identity(plan.identity, real).map_err(|error| fail(Step::Identity, "", &error))?;
    let name = plan.hostname.as_bytes();
    // SAFETY: pointer and length describe one readable slice.
    check_int(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })
        .map_err(|error| fail(Step::Hostname, &plan.hostname, &error))?;
    // What is made here has the modes it is made with.
    let mask = process::set_mask(0);
    let built = mounts::build(plan, &sources, real.0 == 0);
    process::set_mask(mask);
    built?;
    sources.close();
    Ok(())
}

/// Makes the sockets of the plan's network and sends them out; the line on which more are asked for, if any are.
pub(crate) fn hand_out(plan: &Plan, line: &OwnedFd) -> Result<Option<OwnedFd>, SetupFailure> {
    let Network::Gateway(gateway) = &plan.network else { return Ok(None) };
    let (kit, inward) = net::arrange(gateway)?;
    send_out(&kit, line).map(|()| inward)
}

fn send_out(kit: &Kit, line: &OwnedFd) -> Result<(), SetupFailure> {
    kit.send(line.as_fd()).map_err(|error| fail(Step::Network, "line", &error))
}

fn fail(step: Step, object: &str, error: &io::Error) -> SetupFailure {
    SetupFailure { step, object: object.to_owned(), errno: number(error) }
}

/// Dies with the supervisor from here on, makes sure that it has not died before, and goes under its limits.
pub(crate) fn hold_on(line: &OwnedFd, door: &Door, born: Born) -> io::Result<()> {
    process::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)?;
    let mut set = [libc::pollfd { fd: line.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    fd::poll(&mut set, 0)?;
    if set[0].revents & libc::POLLHUP != 0 {
        process::leave(FAILED);
    }
    door.enter(born)
}

/// Lets one user and one group inside stand for the launcher's own.
fn map_identity(identity: Identity, (real_uid, real_gid): (u32, u32)) -> io::Result<()> {
    let (uid, gid) = inner_ids(identity, (real_uid, real_gid));
    put("/proc/self/setgroups", "deny")?;
    put("/proc/self/uid_map", &format!("{uid} {real_uid} 1"))?;
    put("/proc/self/gid_map", &format!("{gid} {real_gid} 1"))
}

/// The user and group inside.
pub(crate) fn inner_ids(identity: Identity, (real_uid, real_gid): (u32, u32)) -> (u32, u32) {
    let ordinary = |id: u32| if id == 0 { ORDINARY } else { id };
    match identity {
        Identity::Same => (ordinary(real_uid), ordinary(real_gid)),
        Identity::Mapped { uid, gid } => (uid, gid),
    }
}

fn put(path: &str, text: &str) -> io::Result<()> {
    let file = fd::open(fd::cwd(), &crate::linux::sys::c_path(Path::new(path))?, libc::O_WRONLY, 0)?;
    fd::write(file.as_raw_fd(), text.as_bytes()).map(drop)
}
