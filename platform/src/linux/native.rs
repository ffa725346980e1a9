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
use crate::linux::keeper::FAILED;
use crate::linux::message::Message;
use crate::linux::mounts::{self, Opener, Sources};
use crate::linux::stage::Stage;
use crate::linux::supervise::Started;
use crate::linux::sys::process::{self, Fork};
use crate::linux::sys::{check_int, fd, number, socket};
use crate::plan::{Identity, Plan};
use crate::report::{SetupFailure, Step};

/// User, mount, pid, net, ipc, uts and cgroup.
pub(crate) const NAMESPACES: u64 =
    0x1000_0000 | 0x2_0000 | 0x2000_0000 | 0x4000_0000 | 0x0800_0000 | 0x0400_0000 | 0x0200_0000;

/// The user inside when the launcher is user 0 and the plan names none.
const ORDINARY: u32 = 1000;

/// Starts the inner process; `gate` says whether it must wait for the supervisor's word.
pub(crate) fn start(
    plan: &Plan,
    stage: Stage,
    stdio: [OwnedFd; 3],
    gate: Gate<'_>,
) -> Result<Started, PlatformError> {
    let real = process::ids();
    let opened =
        (real.0 == 0).then(|| Sources::open(plan, Opener::Outer)).transpose().map_err(PlatformError::from)?;
    let (ours, theirs) = socket::pair().map_err(|error| PlatformError::on("make", "a line", error))?;
    let into = match gate {
        Gate::Open | Gate::Wait => None,
        Gate::Into(group) => Some(group.as_fd()),
    };
    match process::fork_into(flags(), into) {
        Ok(Fork::Parent(pidfd, pid)) => Ok(Started { pidfd, pid, line: ours }),
        Ok(Fork::Child) => {
            drop(ours);
            let waits = matches!(gate, Gate::Wait);
            match enter(plan, opened, &theirs, waits, real) {
                Ok(()) => stage.run(theirs, stdio),
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

/// How the inner process comes under a control group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gate<'g> {
    /// Not at all.
    Open,
    /// The supervisor moves it and then says go.
    Wait,
    /// It is born there.
    Into(&'g OwnedFd),
}

fn flags() -> u64 {
    #[cfg(feature = "test-hooks")]
    if crate::hooks::namespaces_closed() {
        // A set the kernel refuses, so that the path of a refusal is really taken.
        return NAMESPACES | libc::CLONE_FS as u64;
    }
    NAMESPACES
}

/// Everything up to the new root.
fn enter(
    plan: &Plan,
    opened: Option<Sources>,
    line: &OwnedFd,
    waits: bool,
    real: (u32, u32),
) -> Result<(), SetupFailure> {
    hold_on(line, waits).map_err(|error| fail(Step::Lifeline, "", &error))?;
    let sources = match opened {
        Some(sources) => sources,
        None => Sources::open(plan, Opener::Inner)?,
    };
    map_identity(plan.identity, real).map_err(|error| fail(Step::Identity, "", &error))?;
    let name = plan.hostname.as_bytes();
    // SAFETY: pointer and length describe one readable slice.
    check_int(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })
        .map_err(|error| fail(Step::Hostname, &plan.hostname, &error))?;
    socket::raise_loopback().map_err(|error| fail(Step::Loopback, "", &error))?;
    mounts::build(plan, &sources, real.0 == 0)
}

fn fail(step: Step, object: &str, error: &io::Error) -> SetupFailure {
    SetupFailure { step, object: object.to_owned(), errno: number(error) }
}

/// Dies with the supervisor from here on, and makes sure that it has not died before.
pub(crate) fn hold_on(line: &OwnedFd, waits: bool) -> io::Result<()> {
    process::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)?;
    let mut set = [libc::pollfd { fd: line.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    fd::poll(&mut set, if waits { -1 } else { 0 })?;
    if set[0].revents & libc::POLLHUP != 0 {
        process::leave(FAILED);
    }
    if waits {
        let mut word = [0; 1];
        let (length, _) = socket::receive(line.as_fd(), &mut word, 0)?;
        if length == 0 {
            process::leave(FAILED);
        }
    }
    Ok(())
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
