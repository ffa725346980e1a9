//! The Linux backends.
//!
//! Answers for building the fence with namespaces, Landlock, seccomp and limits. It leaves the choice of
//! backend to the caller and the vocabulary to [`crate::plan`].
//! Invariant: nothing outside this folder makes a system call of its own.

mod bare;
mod broker;
mod bwrap;
mod caps;
mod cgroup;
pub(crate) mod entry;
mod input;
mod keeper;
pub(crate) mod landlock;
mod limits;
mod message;
mod mounts;
mod native;
mod net;
pub(crate) mod probe;
mod relay;
pub(crate) mod seccomp;
mod sources;
pub(crate) mod spawn;
mod spent;
mod stage;
#[cfg(all(target_arch = "x86_64", target_env = "musl"))]
mod start;
mod supervise;
pub(crate) mod sys;
mod telling;
mod terminal;
mod trace;

use std::ffi::CString;
use std::path::Path;
use std::time::Instant;

use crate::backend::{Backend, Enforcement, Guarantee};
use crate::door::{Porter, Way};
use crate::error::PlatformError;
use crate::linux::bare::Children;
use crate::linux::broker::Protected;
use crate::linux::cgroup::Group;
use crate::linux::net::{Here, Host, Kit};
use crate::linux::probe::Facts;
use crate::linux::spawn::Ties;
use crate::linux::stage::{Stage, Surroundings};
use crate::linux::supervise::{Attendant, Finished};
use crate::linux::sys::{c_path, fd, process, signal};
use crate::plan::{Network, Plan, Stdio};
use crate::report::{End, Limit, Outcome, Step};
use crate::scratch::{Scratch, Sweep};
use crate::signals::{FORWARDED, minded};

/// As [`launch`], in the process that serves the doors.
pub(crate) fn launch_with(
    plan: &Plan,
    backend: Option<Backend>,
    porter: Option<&mut dyn Porter>,
) -> Result<Outcome, PlatformError> {
    match porter {
        Some(porter) => launch(plan, backend, &Ties::default(), Some(&mut Here(porter))),
        None => launch(plan, backend, &Ties::default(), None),
    }
}

/// Runs `plan` behind `backend`, or behind the strongest that works, and waits for the end.
pub(crate) fn launch(
    plan: &Plan,
    backend: Option<Backend>,
    ties: &Ties,
    host: Option<&mut dyn Host>,
) -> Result<Outcome, PlatformError> {
    alone()?;
    let mut reception = Reception { host, told: false, opened: false };
    reception.suits(plan)?;
    if let Some(backend) = backend {
        return launch_behind(plan, backend, ties, &mut reception);
    }
    let mut refused = None;
    for backend in Backend::ALL {
        // bubblewrap complains on the command's own standard error, so it is tried in silence first.
        if backend == Backend::Bwrap && probe::attempt(backend).is_err() {
            continue;
        }
        match launch_behind(plan, backend, ties, &mut reception) {
            // Whoever serves the doors may have started threads, and expects no others.
            other if reception.opened => return other,
            Err(error) if is_closed(&error) => refused = Some(error),
            Ok(outcome) if is_closed_inside(&outcome) => {
                refused = None;
                continue;
            }
            other => return other,
        }
    }
    Err(refused.unwrap_or_else(|| PlatformError::NoBackend {
        reason: String::from("namespaces are closed, there is no bwrap to use and no Landlock"),
    }))
}

/// What the kernel, or a helper, would be told before the command of `plan` runs behind `backend`; nothing is run.
pub(crate) fn explain(plan: &Plan, backend: Backend) -> Result<String, PlatformError> {
    let level = landlock::level();
    let filter = seccomp::refused().count();
    let inside = format!(
        "landlock level {level}: the rights of the plan, and no others\nseccomp: {filter} system calls refused, at all or in some forms"
    );
    match backend {
        Backend::Native => Ok(format!(
            "namespaces user mount pid ipc uts cgroup network\nroot built from nothing, by the mounts of the plan\nno privileges, and no new ones\n{inside}"
        )),
        Backend::Bwrap => {
            let told = bwrap::told(plan).map_err(|error| PlatformError::on("explain", "bwrap", error))?;
            Ok(format!("{told}\n{inside}"))
        }
        Backend::Landlock => Ok(format!("no namespaces: paths of the host, and no others\n{inside}")),
    }
}

/// Whether an error means "this backend does not exist here", so that the next may be tried.
fn is_closed(error: &PlatformError) -> bool {
    match error {
        PlatformError::NoBackend { .. } => true,
        PlatformError::Operation { op, source, .. } => {
            *op == Step::Namespaces.name() && !is_short(sys::number(source))
        }
        PlatformError::BadPlan { .. }
        | PlatformError::Missing { .. }
        | PlatformError::Launcher { .. }
        | PlatformError::Threads { .. } => false,
    }
}

/// Whether something was merely used up at the moment. Whoever could use it up would else choose the fence of the next.
fn is_short(errno: i32) -> bool {
    matches!(errno, libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE)
}

/// Whether the inner side found namespaces closed although they could be made: some hosts take every privilege
/// in them away, and some helpers fail as a whole. Nothing has run then.
fn is_closed_inside(outcome: &Outcome) -> bool {
    let End::Setup(failure) = &outcome.end else { return false };
    // Where parts of /proc are masked, as in most containers, a new one cannot be mounted.
    let masked = failure.step == Step::Mount && failure.errno == libc::EPERM;
    let closed = masked
        || matches!(
            failure.step,
            Step::Identity | Step::Hostname | Step::Loopback | Step::Root | Step::Network | Step::Helper
        );
    closed && !is_short(failure.errno)
}

/// Whoever attends, and what has happened there.
struct Reception<'h> {
    host: Option<&'h mut dyn Host>,
    told: bool,
    opened: bool,
}

impl Reception<'_> {
    /// Doors need somebody to serve them.
    fn suits(&self, plan: &Plan) -> Result<(), PlatformError> {
        match (&plan.network, &self.host) {
            (Network::Gateway(_), None) => Err(PlatformError::BadPlan {
                reason: String::from("a network with doors needs someone who serves them"),
            }),
            (Network::Gateway(_), Some(_)) | (Network::None, _) => Ok(()),
        }
    }

    /// Tells that the launch has begun, once, however many backends are tried.
    fn begun(&mut self, plan: &Plan) -> Result<(), PlatformError> {
        let Some(host) = self.host.as_mut().filter(|_| !self.told) else { return Ok(()) };
        self.told = true;
        let program = plan.program.display().to_string();
        host.begun().map_err(|error| PlatformError::on("begin the launch of", program, error))
    }

    fn open(&mut self, plan: &Plan, kit: Kit) -> Result<(), PlatformError> {
        let Some(host) = &mut self.host else { return Ok(()) };
        self.opened = true;
        let program = plan.program.display().to_string();
        host.take(kit).map_err(|error| PlatformError::on("serve the network of", program, error))
    }
}

/// What is done for one launch beside watching over it.
struct Attending<'a, 'h> {
    plan: &'a Plan,
    group: Option<&'a Group>,
    reception: &'a mut Reception<'h>,
    enforcement: Enforcement,
    /// What is being removed meanwhile, of launches that were killed.
    sweep: Option<Sweep>,
}

impl Attendant for Attending<'_, '_> {
    fn begun(&mut self) -> Result<(), PlatformError> {
        self.reception.begun(self.plan)
    }

    fn open(&mut self, kit: Kit) -> Result<(), PlatformError> {
        // Only now is it known how connections come to the doors, and so what holds.
        let Enforcement { backend, landlock, .. } = self.enforcement;
        self.enforcement = promise(self.plan, backend, landlock, self.group, Some(kit.way))?;
        self.reception.open(self.plan, kit)
    }

    fn under_way(&mut self) {
        if self.enforcement.backend == Backend::Landlock {
            self.sweep = Some(Scratch::sweep());
        }
    }
}

fn launch_behind(
    plan: &Plan,
    backend: Backend,
    ties: &Ties,
    reception: &mut Reception<'_>,
) -> Result<Outcome, PlatformError> {
    let begun = Instant::now();
    // Whoever ignores the end of children cannot wait for it, and neither could the keeper.
    signal::set_default(libc::SIGCHLD);
    let unwatched = cannot_be_watched(plan).then(|| Plan { unwatched: true, ..plan.clone() });
    let plan = unwatched.as_ref().unwrap_or(plan);
    let landlock = match backend {
        Backend::Landlock => landlock::level_with_scopes(),
        Backend::Native | Backend::Bwrap => landlock::level(),
    };
    if backend == Backend::Landlock && landlock == 0 {
        return Err(PlatformError::NoBackend { reason: String::from("this kernel has no Landlock") });
    }
    if plan.copies() && backend != Backend::Native {
        let reason = format!("{backend} cannot keep changes apart");
        return Err(PlatformError::NoBackend { reason });
    }
    let group = Group::make(&plan.limits);
    let enforcement = promise(plan, backend, landlock, group.as_ref(), None)?;
    // Whoever talks to a terminal of ours hangs up with the user's.
    let forwarded = if plan.stdio == Stdio::Pty { FORWARDED.to_vec() } else { minded(&FORWARDED) };
    let signals = signal::Collected::take(&forwarded)
        .map_err(|error| PlatformError::on("collect", "signals", error))?;
    let arranged = relay::arrange(plan)?;
    let translated = (backend == Backend::Landlock).then(|| bare::translate(plan)).transpose()?;
    let plan = translated.as_ref().map_or(plan, |(host, _)| host);
    let brood = (backend == Backend::Landlock).then(adopt).transpose()?;
    let surroundings = Surroundings { namespaces: backend != Backend::Landlock, landlock };
    let prepare = || Stage::prepare(plan, surroundings, signals.mask_before());
    let door = group.as_ref().map(Group::door).transpose();
    let door = door.map_err(|error| PlatformError::on("open", "a control group", error))?.unwrap_or_default();
    let started = match backend {
        Backend::Native => native::start(plan, prepare()?, arranged.ends, &door)?,
        Backend::Bwrap => bwrap::start(plan, arranged.ends, &door)?,
        Backend::Landlock => bare::start(plan, prepare()?, arranged.ends, &door)?,
    };
    drop(door);
    let group = group.as_ref();
    let mut attending = Attending { plan, group, reception, enforcement, sweep: None };
    let watch = supervise::begin(plan, started, &signals, ties, arranged.relays, &mut attending);
    let finished = watch.wait()?;
    let Attending { enforcement, sweep: _sweep, .. } = attending;
    if let Some((children, spared)) = brood {
        children.kill(&spared);
    }
    if is_unwatchable(&finished) {
        // Where something is named that this leaves open, that says more than what the kernel said.
        let unwatched = Plan { unwatched: true, ..plan.clone() };
        promise(&unwatched, backend, landlock, group, None)?;
    }
    Ok(outcome(finished, group, begun, enforcement))
}

/// Whether nothing can watch over what the plan protects, and it is content with that. Only who is content is worth
/// the time it takes to try.
fn cannot_be_watched(plan: &Plan) -> bool {
    !plan.required.contains(&Guarantee::ProtectedPaths)
        && Protected::of(plan).is_some()
        && !probe::can_be_watched()
}

/// Whether the kernel did not let a broker be set beside the command: where somebody else watches already, as in a
/// container of that kind or inside another fence, there is no second one.
fn is_unwatchable(finished: &Finished) -> bool {
    matches!(&finished.end, End::Setup(failure) if failure.step == Step::Broker)
}

/// What will hold, or the first required promise that will not.
fn promise(
    plan: &Plan,
    backend: Backend,
    landlock: u32,
    group: Option<&Group>,
    way: Option<Way>,
) -> Result<Enforcement, PlatformError> {
    let facts = Facts::of(landlock, plan, group);
    let enforcement = Enforcement { backend, given: facts.given(backend, plan, way), landlock };
    let missing: Vec<_> =
        plan.required.iter().copied().filter(|required| !enforcement.has(*required)).collect();
    if missing.is_empty() { Ok(enforcement) } else { Err(PlatformError::Missing { backend, missing }) }
}

/// Makes orphans of the launch come to us; answers with the children that are none of ours to end.
fn adopt() -> Result<(Children, Vec<i32>), PlatformError> {
    let wrap = |error| PlatformError::on("adopt", "orphans", error);
    process::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).map_err(wrap)?;
    let children = Children::of_self().map_err(wrap)?;
    let spared = children.numbers();
    Ok((children, spared))
}

fn outcome(finished: Finished, group: Option<&Group>, begun: Instant, enforcement: Enforcement) -> Outcome {
    let mut reached = finished.reached;
    reached.extend(group.into_iter().flat_map(Group::reached));
    let killed = finished.end == End::Signaled(libc::SIGKILL);
    let starved = killed && reached.contains(&Limit::Memory);
    let end = if starved { End::Limit(Limit::Memory) } else { finished.end };
    if let End::Limit(limit) = end
        && !reached.contains(&limit)
    {
        reached.push(limit);
    }
    let mut collected = finished.collected.into_iter();
    Outcome {
        end,
        duration: begun.elapsed(),
        enforcement,
        stdout: collected.next().unwrap_or_default(),
        stderr: collected.next().unwrap_or_default(),
        acts: finished.acts,
        reached,
        lost: finished.lost,
    }
}

/// Whether `path` can be opened without following a link anywhere in it.
pub(crate) fn is_straight(path: &Path) -> bool {
    let open = |path: CString| fd::open2(fd::cwd(), &path, libc::O_PATH, 0, fd::NO_SYMLINKS);
    c_path(path).and_then(open).is_ok()
}

/// A fence is built by copying this process, which is only sound while it has one thread.
fn alone() -> Result<(), PlatformError> {
    let count = process::thread_count()
        .map_err(|error| PlatformError::on("count the threads of", "this process", error))?;
    if count == 1 { Ok(()) } else { Err(PlatformError::Threads { count }) }
}

/// What parts of ourselves that are started anew are told of the caller's environment: nothing, but for the switches
/// of tests.
fn environment() -> Vec<std::ffi::CString> {
    #[cfg(feature = "test-hooks")]
    return crate::hooks::environment();
    #[cfg(not(feature = "test-hooks"))]
    Vec::new()
}
