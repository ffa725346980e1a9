//! What each backend can give on this kernel, found out by doing it.
//!
//! Answers for facts about the kernel and for the promises that follow. It leaves the names to
//! [`crate::backend`].
//! Invariant: [`probe`] reports a backend as working only after a whole fence was built with it.

use std::path::PathBuf;

use crate::backend::{Backend, Guarantee};
use crate::door::Way;
use crate::error::PlatformError;
use crate::linux::broker::{Protected, has_unwritten};
use crate::linux::cgroup::Group;
use crate::linux::net::{Host, Kit};
use crate::linux::seccomp::{self, Arch, Filter, Inet, Watch};
use crate::linux::spawn::Ties;
use crate::linux::sys::{check, process};
use crate::linux::{bwrap, landlock};
use crate::plan::{Access, Code, Gateway, Limits, MountOp, Network, Place, Plan, Rights, Stdio, UnixSockets};
use crate::probe::{Probe, Tried};
use crate::report::{End, Step};

/// What promises depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    landlock: u32,
    /// Whether the kernel can hand watched calls to a broker.
    notify: bool,
    tree_memory: bool,
    tree_pids: bool,
    real_root: bool,
}

impl Facts {
    /// A limit that is not asked for is not exceeded.
    pub(crate) fn of(landlock: u32, plan: &Plan, group: Option<&Group>) -> Self {
        let limits = &plan.limits;
        Self {
            landlock,
            notify: !plan.unwatched && has_notify(),
            tree_memory: limits.memory.is_none() || group.is_some_and(|group| group.memory),
            tree_pids: limits.pids.is_none() || group.is_some_and(|group| group.pids),
            real_root: process::ids().0 == 0,
        }
    }

    /// The promises `backend` keeps for `plan`.
    ///
    /// `way` is how connections come to its doors; without it, the best that `backend` knows.
    pub(crate) fn given(self, backend: Backend, plan: &Plan, way: Option<Way>) -> Vec<Guarantee> {
        let way = match (&plan.network, backend) {
            (Network::None, _) => None,
            (Network::Gateway(_), Backend::Native | Backend::Bwrap) => way.or(Some(Way::Redirected)),
            (Network::Gateway(_), Backend::Landlock) => way.or(Some(Way::OnBehalf)),
        };
        let holds = |guarantee: &Guarantee| self.holds(backend, plan, way, *guarantee);
        Guarantee::ALL.iter().copied().filter(holds).collect()
    }

    fn holds(self, backend: Backend, plan: &Plan, way: Option<Way>, guarantee: Guarantee) -> bool {
        use Guarantee as G;
        let namespaces = backend != Backend::Landlock;
        let level = |least: u32| self.landlock >= least;
        match guarantee {
            G::FsHidden | G::PidHidden | G::PrivateTmp | G::Loopback | G::Terminals => namespaces,
            // Mounts are read-only as a whole; where names may be taken away and nothing written, the broker refuses it.
            G::FsMetadata => namespaces && (self.notify || !has_unwritten(plan)),
            G::FsRead => level(1),
            G::FsDelete => {
                level(1) && (self.notify || Protected::of(plan).is_none_or(|kept| !kept.holds_rights()))
            }
            G::FsWrite => level(1) || namespaces && !has_unwritten(plan),
            G::FsTruncate => level(3) || namespaces && (level(1) && self.notify || !has_unwritten(plan)),
            // Landlock and mounts are about files that are there.
            G::FsGlob => !plan.narrowed,
            // bubblewrap cannot mount without code, and without mounts nothing can.
            G::ExecOnly => backend == Backend::Native && level(1),
            // Without a network of its own, Landlock must refuse what the launcher does not connect itself.
            G::NetNone | G::NetHosts => way != Some(Way::OnBehalf) || level(4) && self.notify,
            G::NetPorts => way != Some(Way::PerPort),
            G::NetNames | G::NetListen => way != Some(Way::OnBehalf),
            G::IpcHidden | G::SyscallFilter => true,
            G::Signals | G::Teardown => namespaces || level(6),
            G::SocketsHidden => namespaces || plan.unix_sockets == UnixSockets::PairsOnly,
            G::ProtectedPaths => self.notify,
            G::MemoryLimit => self.tree_memory,
            // The kernel does not count processes of real user 0 by itself, and without a user namespace it
            // counts those outside too.
            G::PidsLimit => self.tree_pids || namespaces && !self.real_root,
            // bubblewrap has a moment, before anything of ours runs, in which it outlives its parent.
            G::TeardownKilled => backend == Backend::Native,
        }
    }
}

/// Whether the kernel knows the line of watched calls and its descriptors.
fn has_notify() -> bool {
    const GET_NOTIF_SIZES: libc::c_ulong = 3;
    let mut sizes = [0_u16; 3];
    // SAFETY: the kernel writes three 16-bit numbers.
    check(unsafe { libc::syscall(libc::SYS_seccomp, GET_NOTIF_SIZES, 0, sizes.as_mut_ptr()) }).is_ok()
        && sizes[0] == 80
}

/// Whether a broker can be set beside a process, found out by doing it.
pub(crate) fn can_be_watched() -> bool {
    #[cfg(feature = "test-hooks")]
    if crate::hooks::notify_missing() {
        return false;
    }
    has_notify() && matches!(process::fork().map(tried), Ok(true))
}

/// In the child: whether a filter with a line can be installed. In the parent: what the child found.
fn tried(child: Option<libc::pid_t>) -> bool {
    let Some(child) = child else {
        let filter = Filter {
            unix: true,
            inet: Inet::Own,
            ipc: true,
            memory_files: true,
            watch: Watch::Making,
            times: false,
            trace: false,
        };
        let done = process::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)
            .and_then(|_| seccomp::install_watched(&filter.watching(Arch::NATIVE)));
        process::leave(libc::c_int::from(done.is_err()))
    };
    matches!(process::reap(child, 0), Ok(Some((_, 0))))
}

/// Builds one fence with each backend around a program that does not exist.
pub(crate) fn probe() -> Result<Probe, PlatformError> {
    super::alone()?;
    let landlock = landlock::level_with_scopes();
    let mut plan = trial();
    plan.limits = Limits { memory: Some(1 << 30), pids: Some(256), ..Limits::default() };
    plan.unwatched = !can_be_watched();
    let group = Group::make(&plan.limits);
    let facts = Facts::of(landlock, &plan, group.as_ref());
    drop(group);
    let tried = Backend::ALL.map(|backend| {
        let result = attempt(backend);
        let doors = if result.is_ok() { attempt_doors(backend) } else { None };
        let given = if result.is_ok() { both(facts, backend, doors) } else { Vec::new() };
        Tried { backend, given, doors, failure: result.err() }
    });
    Ok(Probe { landlock, bwrap: bwrap::find(), backends: tried.to_vec() })
}

/// What holds whether a plan has doors or not; what is about doors only as it was seen.
fn both(facts: Facts, backend: Backend, doors: Option<Way>) -> Vec<Guarantee> {
    use Guarantee as G;
    let with_doors =
        doors.map(|way| facts.given(backend, &trial_with_doors(), Some(way))).unwrap_or_default();
    let mut given = facts.given(backend, &trial(), None);
    let is_about_doors = |one: &G| matches!(one, G::NetHosts | G::NetPorts | G::NetNames | G::NetListen);
    given.retain(|one| !is_about_doors(one) || with_doors.contains(one));
    // The trial has no patterns; one that has is what this is about.
    given.retain(|one| *one != G::FsGlob);
    given
}

/// Notes how connections would come to the doors.
struct Noted(Option<Way>);

impl Host for Noted {
    fn take(&mut self, kit: Kit) -> std::io::Result<()> {
        self.0 = Some(kit.way);
        Ok(())
    }
}

/// How connections come to the doors of a network, found out by making them.
fn attempt_doors(backend: Backend) -> Option<Way> {
    let mut noted = Noted(None);
    let outcome =
        super::launch(&trial_with_doors(), Some(backend), &Ties::default(), Some(&mut noted)).ok()?;
    match outcome.end {
        End::Setup(failure) if failure.step == Step::Exec => noted.0,
        End::Setup(_) | End::Exited(_) | End::Signaled(_) | End::Limit(_) => None,
    }
}

/// `Ok` if everything up to `execve` worked.
pub(crate) fn attempt(backend: Backend) -> Result<(), String> {
    let outcome =
        super::launch(&trial(), Some(backend), &Ties::default(), None).map_err(|error| error.to_string())?;
    match outcome.end {
        End::Setup(failure) if failure.step == Step::Exec && failure.errno == libc::ENOENT => Ok(()),
        End::Setup(failure) => Err(failure.to_string()),
        End::Exited(_) | End::Signaled(_) | End::Limit(_) => Err(String::from("ended in an unexpected way")),
    }
}

/// The same with doors.
fn trial_with_doors() -> Plan {
    Plan { network: Network::Gateway(Gateway { ports: vec![443], ..Gateway::default() }), ..trial() }
}

/// A plan with every kind of mount, and nothing to run.
fn trial() -> Plan {
    let mut plan = Plan::new("/nonexistent/program", vec!["nothing".into()]);
    plan.stdio = Stdio::Capture;
    for path in ["/usr", "/lib", "/lib64"].map(PathBuf::from) {
        if std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            plan.mounts.push(MountOp::Bind {
                source: path.clone(),
                dest: path,
                access: Access::ReadOnly,
                code: Code::Allowed,
            });
        } else if let Ok(target) = std::fs::read_link(&path) {
            plan.mounts.push(MountOp::Symlink { target, dest: path });
        }
    }
    plan.mounts.extend([
        MountOp::Proc { dest: "/proc".into() },
        MountOp::Dev { dest: "/dev".into() },
        MountOp::Tmpfs { dest: "/tmp".into(), size: None, mode: 0o1777, code: Code::Refused },
    ]);
    plan.rights = vec![Place { path: "/".into(), rights: Rights::LIST | Rights::READ | Rights::EXECUTE }];
    plan
}
