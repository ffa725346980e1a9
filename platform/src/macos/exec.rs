//! Runs a plan behind Seatbelt.
//!
//! Answers for starting the process: `sandbox-exec` by its absolute path, a session of its own, limits, and no
//! descriptor but those of the plan. It leaves what is allowed to [`super::seatbelt`].
//! Invariant: nothing is started before its profile is written, and nothing is run without one.

use std::fs::File;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio as Handle};
use std::time::{Duration, Instant};

use crate::backend::{Backend, Enforcement};
use crate::door::{Porter, Way};
use crate::error::PlatformError;
use crate::macos::given::given;
use crate::macos::log::Log;
use crate::macos::prepare::Prepared;
use crate::macos::stdio::{self, Relays};
use crate::macos::tree::Tree;
use crate::macos::watch::{User, Watch};
use crate::plan::{Limits, Pipe, Plan, Stdio};
use crate::probe::{Probe, Tried};
use crate::report::{Act, End, Outcome};
use crate::scratch::Scratch;
use crate::terminal;

/// The backend that this is.
#[cfg(target_os = "macos")]
const OWN: Backend = Backend::Seatbelt;
/// Stands for it in tests elsewhere.
#[cfg(not(target_os = "macos"))]
const OWN: Backend = Backend::Native;

/// A launch under way.
#[derive(Debug)]
pub struct Child {
    /// To the command's standard input, if a pipe was asked for.
    pub stdin: Option<File>,
    /// From its standard output.
    pub stdout: Option<File>,
    /// From its standard error.
    pub stderr: Option<File>,
    id: u32,
    leash: Option<OwnedFd>,
    supervisor: Option<std::thread::JoinHandle<Result<Outcome, PlatformError>>>,
}

/// Refused changes, as they happen.
pub type Told = std::iter::Empty<Act>;

/// What a launch hangs on; dropping it ends the launch at once.
#[derive(Debug)]
pub struct Leash(#[expect(dead_code, reason = "held, so that the supervisor sees it let go")] OwnedFd);

impl Child {
    /// Refused changes as they happen: here they are known only afterwards, from the system's log.
    pub fn told(&mut self) -> Option<Told> {
        None
    }

    /// Hands out the leash: letting go of it ends everything, while another thread waits.
    pub fn leash(&mut self) -> Option<Leash> {
        self.leash.take().map(Leash)
    }

    /// The command's process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Passes a signal on to the command.
    ///
    /// # Errors
    /// When it is gone already.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        let gone = self.supervisor.as_ref().is_none_or(std::thread::JoinHandle::is_finished);
        let pid = libc::pid_t::try_from(self.id).map_err(|_| io::ErrorKind::NotFound)?;
        // SAFETY: takes two integers; the group's leader is not reaped while the supervisor runs.
        if gone || unsafe { libc::killpg(pid, number) } != 0 {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    }

    /// Ends everything at once.
    pub fn kill(&mut self) {
        self.leash = None;
    }

    /// Whether the launch ends within some time, so that [`Child::wait`] will not take long.
    #[must_use]
    pub fn ends_within(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let is_over = || self.supervisor.as_ref().is_none_or(std::thread::JoinHandle::is_finished);
        while !is_over() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5).min(time));
        }
        is_over()
    }

    /// Waits until nothing of the launch that can be found is left.
    ///
    /// # Errors
    /// When the supervisor failed.
    pub fn wait(mut self) -> Result<Outcome, PlatformError> {
        drop(self.stdin.take());
        let supervisor = self.supervisor.take().map(std::thread::JoinHandle::join);
        supervisor.and_then(Result::ok).unwrap_or_else(|| {
            let gone = io::Error::from_raw_os_error(libc::ECHILD);
            Err(PlatformError::on("wait for", "the supervisor", gone))
        })
    }
}

impl Drop for Child {
    /// Ends everything; a launch nobody waits for is a launch nobody wants.
    fn drop(&mut self) {
        self.leash = None;
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.join();
        }
    }
}

/// Runs `plan` and waits for its end, passing signals on.
pub(crate) fn launch(
    plan: &Plan,
    backend: Option<Backend>,
    mut porter: Option<&mut dyn Porter>,
) -> Result<Outcome, PlatformError> {
    if let Some(porter) = porter.as_deref_mut() {
        let program = plan.program.display().to_string();
        porter.begun().map_err(|error| PlatformError::on("begin the launch of", program, error))?;
    }
    let user = User::attend(plan.stdio == Stdio::Pty)
        .map_err(|error| PlatformError::on("collect", "signals", error))?;
    let mut child = start(plan, backend, [Pipe::Inherit; 3], porter, user)?;
    let held = child.leash();
    let outcome = child.wait();
    drop(held);
    outcome
}

/// Starts `plan` and returns at once.
pub(crate) fn spawn(
    plan: &Plan,
    backend: Option<Backend>,
    pipes: [Pipe; 3],
    porter: Option<&mut dyn Porter>,
) -> Result<Child, PlatformError> {
    start(plan, backend, pipes, porter, User::default())
}

fn start(
    plan: &Plan,
    backend: Option<Backend>,
    pipes: [Pipe; 3],
    porter: Option<&mut dyn Porter>,
    user: User,
) -> Result<Child, PlatformError> {
    if plan.copies() {
        return Err(PlatformError::NoBackend { reason: String::from("changes cannot be kept apart here") });
    }
    if backend.is_some_and(|backend| backend != OWN) {
        return Err(PlatformError::NoBackend { reason: String::from("macOS has seatbelt only") });
    }
    let enforcement = promise(plan)?;
    let prepared = Prepared::make(plan, porter)?;
    begin(plan, prepared, enforcement, pipes, user)
}

fn promise(plan: &Plan) -> Result<Enforcement, PlatformError> {
    let enforcement = Enforcement { backend: OWN, given: given(plan), landlock: 0 };
    let lacks = |required: &crate::Guarantee| !enforcement.has(*required);
    let missing: Vec<_> = plan.required.iter().copied().filter(lacks).collect();
    if missing.is_empty() {
        return Ok(enforcement);
    }
    Err(PlatformError::Missing { backend: OWN, missing })
}

fn begin(
    plan: &Plan,
    prepared: Prepared,
    enforcement: Enforcement,
    pipes: [Pipe; 3],
    user: User,
) -> Result<Child, PlatformError> {
    let begun = Instant::now();
    let program = plan.program.display().to_string();
    let wrap = |error| PlatformError::on("start", program.as_str(), error);
    let mut command = prepared.command(&plan.program);
    command.args(plan.argv.iter().skip(1)).envs(prepared.env.iter().cloned()).current_dir(&plan.cwd);
    let mut relays = Relays::default();
    let mut ours = [None, None, None];
    for (number, asked) in (0..).zip(pipes) {
        let (end, own) = stdio::arrange(plan, number, asked, &mut relays).map_err(wrap)?;
        set(&mut command, number, end);
        if let Ok(at) = usize::try_from(number) {
            ours[at] = own;
        }
    }
    if let Some(terminal) = &prepared.terminal {
        for number in 0..3 {
            set(&mut command, number, terminal.theirs.try_clone().map_err(wrap)?.into());
        }
        terminal.relay(&mut relays, plan.limits.output.unwrap_or(u64::MAX)).map_err(wrap)?;
    }
    confine(&mut command, plan, prepared.terminal.is_some());
    let log = plan.trace.then(|| Log::start(&prepared.surroundings.tag)).flatten();
    let child = command.spawn().map_err(wrap)?;
    let (hold, leash) = io::pipe().map_err(wrap)?;
    let id = child.id();
    let watch = Watch {
        limits: plan.limits.clone(),
        tree: Tree::of(libc::pid_t::try_from(id).unwrap_or(libc::pid_t::MAX)),
        hold: hold.into(),
        terminal: prepared.terminal.as_ref().and_then(|terminal| terminal.ours.try_clone().ok()),
        user,
        child,
        begun,
        kill_at: None,
    };
    // Our copy of the command's end goes with the command, or its reader would never see the end.
    drop(command);
    let supervisor = std::thread::Builder::new().name(String::from("sbx-supervisor")).spawn(move || {
        let mut prepared = prepared;
        prepared.terminal = None;
        Ok(watch.until_the_end(&prepared, relays, log, enforcement))
    });
    let supervisor = Some(supervisor.map_err(wrap)?);
    // While the command gets under way there is time for what others could not do.
    drop(Scratch::sweep());
    let [stdin, stdout, stderr] = ours;
    Ok(Child { stdin, stdout, stderr, id, leash: Some(leash.into()), supervisor })
}

fn set(command: &mut Command, number: RawFd, end: Handle) {
    match number {
        0 => command.stdin(end),
        1 => command.stdout(end),
        _ => command.stderr(end),
    };
}

/// A session of its own, limits, and no descriptor but those of the plan.
fn confine(command: &mut Command, plan: &Plan, terminal: bool) {
    let limits = bounds(&plan.limits);
    let keep = plan.pass_fds.clone();
    let arrange = move || {
        // SAFETY: takes nothing; the new process leads no group yet.
        let session = unsafe { libc::setsid() };
        if session < 0 {
            return Err(io::Error::last_os_error());
        }
        if terminal {
            terminal::control(0)?;
        }
        // Before the limits: afterwards this would be the new one, and what is open above it would stay open.
        // SAFETY: takes nothing and cannot fail.
        let most = unsafe { libc::getdtablesize() };
        for number in 3..most {
            let flags = if keep.contains(&number) { 0 } else { libc::FD_CLOEXEC };
            // SAFETY: takes integers; a number that is not open is answered with an error.
            unsafe { libc::fcntl(number, libc::F_SETFD, flags) };
        }
        for (resource, most) in &limits {
            let bound = libc::rlimit { rlim_cur: *most, rlim_max: *most };
            // SAFETY: `bound` is a valid `rlimit`.
            if unsafe { libc::setrlimit(*resource, &raw const bound) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where code between fork and exec belongs on macOS"
    )]
    // SAFETY: the closure makes system calls only: no allocation, no lock.
    unsafe {
        command.pre_exec(arrange)
    };
}

/// How the C library of this system types what can be bounded.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type Resource = libc::c_int;
/// The same in tests elsewhere.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Resource = libc::__rlimit_resource_t;

/// What the kernel bounds for each process by itself.
fn bounds(limits: &Limits) -> Vec<(Resource, u64)> {
    let seconds = |time: Duration| time.as_secs().max(1);
    let asked = [
        (libc::RLIMIT_CPU, limits.cpu.map(seconds)),
        (libc::RLIMIT_NOFILE, limits.open_files),
        (libc::RLIMIT_FSIZE, limits.file_size),
        (libc::RLIMIT_CORE, Some(0)),
    ];
    asked.into_iter().filter_map(|(resource, most)| Some((resource, most?))).collect()
}

/// Finds out, by doing it, whether a profile can be put in force here and holds.
pub(crate) fn probe() -> Probe {
    let mut plan = Plan::new("/bin/cat", vec!["cat".into(), "/private/etc/master.passwd".into()]);
    plan.stdio = Stdio::Capture;
    plan.limits.wall = Some(Duration::from_secs(10));
    let failure = match spawn(&plan, None, [Pipe::Inherit; 3], None).and_then(Child::wait) {
        // The plan lets nothing be executed, so that running anything at all would be wrong.
        Ok(outcome) => match outcome.end {
            End::Exited(0) => Some(String::from("a profile that allows nothing let a program run")),
            End::Setup(failure) => Some(failure.to_string()),
            End::Exited(_) | End::Signaled(_) => None,
            End::Limit(limit) => Some(format!("the limit {} was hit", limit.name())),
        },
        Err(error) => Some(error.to_string()),
    };
    let given = if failure.is_none() { given(&plan) } else { Vec::new() };
    let doors = failure.is_none().then_some(Way::OnBehalf);
    let tried = Tried { backend: OWN, given, doors, failure };
    Probe { landlock: 0, bwrap: None, backends: vec![tried] }
}
