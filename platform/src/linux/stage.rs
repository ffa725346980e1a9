//! The last steps before the command, the same for every backend, and the process that stays beside it.
//!
//! Answers for limits, privileges, Landlock, seccomp, descriptors and `execve`, in that order, and for
//! reporting each failure by step and object. It leaves the view to the backends.
//! Invariant: the command starts only after every step has succeeded.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use libc::{c_char, c_int, c_void, pid_t};

use crate::error::PlatformError;
use crate::linux::bare::Children;
use crate::linux::broker::Protected;
use crate::linux::keeper::{self, Keeper};
use crate::linux::landlock::{self, Cutting, Holds, Tcp};
use crate::linux::message::{MESSAGE_MAX, Message};
use crate::linux::net::{Behalf, GO};
use crate::linux::seccomp::{self, Arch, Filter, Inet, Instruction, Watch};
use crate::linux::sys::{c_path, check_int, fd, number, process, signal, socket};
use crate::linux::trace::Tracer;
use crate::linux::{caps, limits, terminal};
use crate::path::within;
use crate::plan::{Access, Exec, Limits, MountOp, Network, Place, Plan, Rights, Stdio, UnixSockets};
use crate::report::{SetupFailure, Step};

/// Room for the child between its birth and `execve`; it only makes system calls there.
const STACK: usize = 64 << 10;

/// What the surroundings of a stage already hold, so that it knows what is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// Whether the stage stands in namespaces of its own.
    pub(crate) namespaces: bool,
    /// The Landlock level to use, 0 for none.
    pub(crate) landlock: u32,
}

/// Everything the last steps need, made before the first process is.
#[derive(Debug)]
pub(crate) struct Stage {
    program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    places: Vec<Place>,
    holds: Holds,
    limits: Limits,
    pass: Vec<RawFd>,
    terminal: bool,
    surroundings: Surroundings,
    filter: Vec<Instruction>,
    watching: Vec<Instruction>,
    /// The same with all that is asked for told to a tracer; empty when nobody wants to know.
    traced: Vec<Instruction>,
    has_broker: bool,
    protected: Option<Protected>,
    behalf: Option<Behalf>,
    brood: Option<Children>,
    /// Whether refusals are told as they happen.
    tells: bool,
    /// Whether somebody must have taken the sockets of the network first.
    mask: libc::sigset_t,
}

impl Stage {
    /// Translates the plan into what the kernel takes.
    pub(crate) fn prepare(
        plan: &Plan,
        surroundings: Surroundings,
        mask: libc::sigset_t,
    ) -> Result<Self, PlatformError> {
        let text = |text: &OsString| {
            CString::new(text.as_bytes()).map_err(|_| PlatformError::BadPlan {
                reason: format!("argument or variable {} contains a NUL", text.display()),
            })
        };
        let path = |path: &Path| c_path(path).map_err(|error| PlatformError::on_path("use", path, error));
        let env = plan.env.iter().map(|(name, value)| {
            let mut pair = name.clone().into_vec();
            pair.push(b'=');
            pair.extend(value.as_bytes());
            text(&OsString::from_vec(pair))
        });
        let protected = if plan.unwatched { None } else { Protected::of(plan) };
        let filter = filter_for(plan, surroundings, protected.as_ref());
        Ok(Self {
            program: path(&plan.program)?,
            argv: plan.argv.iter().map(text).collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
            cwd: path(&plan.cwd)?,
            places: if surroundings.namespaces { places(plan) } else { plan.rights.clone() },
            holds: Holds {
                cutting: if surroundings.namespaces { cutting(plan) } else { Cutting::Refused },
                sockets: plan.unix_sockets,
            },
            limits: plan.limits.clone(),
            pass: plan.pass_fds.clone(),
            terminal: plan.stdio == Stdio::Pty,
            surroundings,
            filter: filter.program(Arch::NATIVE),
            // Where the kernel lets nobody be followed, only the broker tells.
            watching: if filter.has_watching() { filter.unfollowed(Arch::NATIVE) } else { Vec::new() },
            traced: if filter.trace { filter.watching(Arch::NATIVE) } else { Vec::new() },
            has_broker: filter.is_watched(),
            protected,
            behalf: None,
            brood: None,
            tells: plan.tells,
            mask,
        })
    }

    /// The same, with connections made on the command's behalf.
    pub(crate) fn on_behalf(self, behalf: Option<Behalf>) -> Self {
        Self { behalf, ..self }
    }

    /// Takes the last steps, starts the command and stays until it has ended. Never returns.
    /// `inward` is where sockets of this network are asked for.
    pub(crate) fn run(mut self, line: OwnedFd, mut stdio: [OwnedFd; 3], inward: Option<OwnedFd>) -> ! {
        let mut early = Vec::new();
        let _ = socket::send(line.as_fd(), &Message::Standing.encode(), None);
        let started = self.confine(&line, &mut stdio).and_then(|()| {
            early = await_go(&line);
            let _ = socket::send(line.as_fd(), &Message::Starting.encode(), None);
            self.start(&stdio)
        });
        match started {
            Ok((command, listener, tracer)) => {
                let protected = self.protected.take().map(|protected| protected.with_stdio(&stdio));
                drop(stdio);
                let brood = self.brood.take();
                let behalf = self.behalf.take();
                let (terminal, tells) = (self.terminal, self.tells);
                let keeper = Keeper {
                    line,
                    command,
                    listener,
                    protected,
                    behalf,
                    inward,
                    brood,
                    terminal,
                    tracer,
                    tells,
                };
                keeper.run(&early)
            }
            Err(failure) => {
                let _ = socket::send(line.as_fd(), &Message::Failed(failure).encode(), None);
                process::leave(keeper::FAILED)
            }
        }
    }

    /// Steps that hold for this process and everything it starts.
    fn confine(&mut self, line: &OwnedFd, stdio: &mut [OwnedFd; 3]) -> Result<(), SetupFailure> {
        if self.terminal {
            let (master, user) = terminal::open_pair().map_err(|error| fail(Step::Terminal, "", &error))?;
            let copy = |_| fd::dup_above(user.as_raw_fd(), 3);
            let report = Message::Terminal.encode();
            socket::send(line.as_fd(), &report, Some(master.as_raw_fd()))
                .and_then(|()| Ok([copy(0)?, copy(1)?, copy(2)?]))
                .map(|ends| *stdio = ends)
                .and_then(|()| terminal::lead(user.as_raw_fd()))
                .map_err(|error| fail(Step::Terminal, "", &error))?;
        }
        if self.surroundings.namespaces {
            own_nothing(stdio).map_err(|error| fail(Step::Stdio, "/dev/null", &error))?;
        } else {
            self.brood = Some(Children::of_self().map_err(|error| fail(Step::Lifeline, "", &error))?);
        }
        process::prctl(libc::PR_SET_DUMPABLE, 0)
            .and_then(|_| caps::drop_all())
            .map_err(|error| fail(Step::Privileges, "", &error))?;
        // Without privileges, as the command: what it could not enter is no place for it to be in.
        let cwd = self.cwd.to_string_lossy();
        // SAFETY: `cwd` is NUL-terminated.
        check_int(unsafe { libc::chdir(self.cwd.as_ptr()) })
            .map_err(|error| fail(Step::Directory, &cwd, &error))?;
        // What is done on the command's behalf is done by this process, so only the command is refused it.
        let free = self.surroundings.namespaces || self.behalf.is_some();
        let tcp = if free { Tcp::Free } else { Tcp::Refused };
        if self.surroundings.landlock > 0 {
            landlock::restrict(self.surroundings.landlock, &self.places, self.holds, tcp)?;
        }
        seccomp::install(&self.filter).map_err(|error| fail(Step::Seccomp, "", &error))
    }

    /// Makes the child that becomes the command: its number, the line of watched calls, and what follows it.
    fn start(&self, stdio: &[OwnedFd; 3]) -> Result<Started, SetupFailure> {
        let at_fork = |error: io::Error| fail(Step::Fork, &self.program.to_string_lossy(), &error);
        #[cfg(feature = "test-hooks")]
        if self.has_broker && crate::hooks::notify_missing() {
            return Err(fail(Step::Broker, "", &io::Error::from_raw_os_error(libc::EBUSY)));
        }
        let lines = match self.has_broker {
            true => Some(socket::pair().map_err(at_fork)?),
            false => None,
        };
        let birth = Birth {
            stage: self,
            stdio: [stdio[0].as_raw_fd(), stdio[1].as_raw_fd(), stdio[2].as_raw_fd()],
            argv: pointers(&self.argv),
            env: pointers(&self.env),
            listener_line: lines.as_ref().map(|(_, theirs)| theirs),
            watching: &self.watching,
            failure: None,
        };
        let (pid, tracer) = match self.traced.is_empty() {
            true => (self.bear(birth)?, None),
            false => self.bear_followed(birth)?,
        };
        let listener = match &lines {
            Some((ours, _)) => {
                let mut byte = [0];
                let (_, listener) = socket::receive(ours.as_fd(), &mut byte, libc::MSG_DONTWAIT)
                    .map_err(|error| fail(Step::Broker, "", &error))?;
                listener
            }
            None => None,
        };
        Ok((pid, listener, tracer))
    }

    /// A child that shares this memory until it is the command, which is the fastest way.
    fn bear(&self, mut birth: Birth<'_>) -> Result<pid_t, SetupFailure> {
        // Not cleared: only the few pages that are used get touched.
        let mut stack: Vec<u128> = Vec::with_capacity(STACK / size_of::<u128>());
        let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: this process has one thread and is suspended until the child has left this memory by `execve`
        // or exit; the child has a stack of its own, and `birth` lives until then.
        let pid = check_int(unsafe { libc::clone(be_born, top.cast(), flags, (&raw mut birth).cast()) })
            .map_err(|error| fail(Step::Fork, &self.program.to_string_lossy(), &error))?;
        birth.failure.map_or(Ok(pid), |failed| Err(self.failed(failed)))
    }

    /// A child that waits until it is followed. This process goes on meanwhile, since it is what follows.
    fn bear_followed(&self, mut birth: Birth<'_>) -> Result<(pid_t, Option<Tracer>), SetupFailure> {
        let at_fork = |error: io::Error| fail(Step::Fork, &self.program.to_string_lossy(), &error);
        let (ours, theirs) = socket::pair().map_err(at_fork)?;
        let Some(pid) = process::fork().map_err(at_fork)? else {
            drop(ours);
            // A process that may not be looked at cannot be followed; it holds nothing but this plan.
            let _ = process::prctl(libc::PR_SET_DUMPABLE, 1);
            let _ = socket::send(theirs.as_fd(), FOLLOWED, None);
            let mut word = [0];
            match socket::receive(theirs.as_fd(), &mut word, 0) {
                Ok((1, _)) if word == *FOLLOWED => birth.watching = &birth.stage.traced,
                Ok((1, _)) => {}
                Ok(_) | Err(_) => process::leave(keeper::FAILED),
            }
            let (step, error) = birth.become_command();
            let failure = SetupFailure { step, object: String::new(), errno: number(&error) };
            let _ = socket::send(theirs.as_fd(), &Message::Failed(failure).encode(), None);
            process::leave(keeper::FAILED)
        };
        drop(theirs);
        // It must have got so far first.
        let _ = socket::receive(ours.as_fd(), &mut [0], 0);
        let mut tracer = Tracer::seize(pid).ok();
        let word = if tracer.is_some() { FOLLOWED } else { b"n" };
        socket::send(ours.as_fd(), word, None).map_err(at_fork)?;
        if let Some(tracer) = &mut tracer {
            tracer.until_born(pid);
        }
        // The line is closed when the child becomes the command.
        let mut buffer = [0; MESSAGE_MAX];
        match socket::receive(ours.as_fd(), &mut buffer, 0) {
            Ok((length, _)) => match Message::decode(&buffer[..length]) {
                Some(Message::Failed(failure)) => Err(self.failed((failure.step, failure.errno))),
                _ => Ok((pid, tracer)),
            },
            Err(error) => Err(at_fork(error)),
        }
    }

    fn failed(&self, (step, error): (Step, i32)) -> SetupFailure {
        let program = self.program.to_string_lossy();
        let object = if step == Step::Exec { program.as_ref() } else { "" };
        fail(step, object, &io::Error::from_raw_os_error(error))
    }
}

/// A command under way.
type Started = (pid_t, Option<OwnedFd>, Option<Tracer>);

/// Says that the child can be followed, and that it is.
const FOLLOWED: &[u8; 1] = b"y";

/// Waits for the word to start; the signals that came meanwhile. Leaves with the supervisor.
fn await_go(line: &OwnedFd) -> Vec<u8> {
    let mut early = Vec::new();
    loop {
        let mut word = [0; 2];
        match socket::receive(line.as_fd(), &mut word, 0) {
            Ok((1, _)) if word[..1] == *GO => return early,
            Ok((2, _)) if word[0] == b'S' => early.push(word[1]),
            Ok((0, _)) => process::leave(keeper::FAILED),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => process::leave(keeper::FAILED),
        }
    }
}

/// Takes the view's own `/dev/null` in place of the host's, which could be changed through a descriptor.
fn own_nothing(stdio: &mut [OwnedFd; 3]) -> io::Result<()> {
    for end in stdio {
        let found = fd::stat(end.as_raw_fd())?;
        if found.st_mode & libc::S_IFMT == libc::S_IFCHR && found.st_rdev == libc::makedev(1, 3) {
            *end = fd::open(fd::cwd(), c"/dev/null", libc::O_RDWR, 0)?;
        }
    }
    Ok(())
}

fn fail(step: Step, object: &str, error: &io::Error) -> SetupFailure {
    SetupFailure { step, object: object.to_owned(), errno: number(error) }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// The filter for the command.
fn filter_for(plan: &Plan, surroundings: Surroundings, protected: Option<&Protected>) -> Filter {
    let watch = match protected {
        None => Watch::Off,
        Some(protected) if surroundings.namespaces && !protected.watches_removal() => Watch::Making,
        Some(_) => Watch::MakingAndRemoving,
    };
    Filter {
        unix: plan.unix_sockets == UnixSockets::Allowed,
        inet: match (&plan.network, surroundings.namespaces) {
            (Network::None | Network::Gateway(_), true) => Inet::Own,
            (Network::None, false) => Inet::Refused,
            (Network::Gateway(_), false) => Inet::OnBehalf,
        },
        ipc: surroundings.namespaces,
        memory_files: plan.exec == Exec::Open,
        watch,
        times: protected.is_some_and(Protected::watches_times),
        trace: plan.trace,
    }
}

/// The rights of the plan, and those on what the plan asks us to make.
fn places(plan: &Plan) -> Vec<Place> {
    let mut all = plan.rights.clone();
    let mut add = |path: std::path::PathBuf, rights: Rights| all.push(Place { path, rights });
    let see = Rights::LIST | Rights::READ | Rights::MODIFY;
    for op in &plan.mounts {
        match op {
            MountOp::Proc { dest } => add(dest.clone(), see),
            MountOp::Dev { dest } => {
                add(dest.clone(), see);
                add(dest.join("shm"), Rights::WRITE | Rights::REMOVE);
                add(dest.join("pts"), Rights::CONTROL);
                add(dest.join("tty"), Rights::CONTROL);
            }
            MountOp::Bind { .. }
            | MountOp::Tmpfs { .. }
            | MountOp::Dir { .. }
            | MountOp::Symlink { .. }
            | MountOp::File { .. } => {}
        }
    }
    all
}

/// The mounts keep files from being cut short if everything that is not read-only may be written to as a whole; else,
/// as where things may only be removed, Landlock has to. So it does where descriptors are handed in: what they lead to
/// is mounted otherwise.
fn cutting(plan: &Plan) -> Cutting {
    if !plan.pass_fds.is_empty() {
        return Cutting::Refused;
    }
    let may_be_written = |path: &Path| {
        let above = plan.rights.iter().filter(|place| within(path, &place.path));
        let rights = above.fold(Rights::NONE, |all, place| all | place.rights);
        rights.contains(Rights::WRITE) || rights.contains(Rights::MODIFY)
    };
    let whole = plan.mounts.iter().all(|op| match op {
        MountOp::Bind { dest, access: Access::ReadWrite | Access::Copied, .. } => may_be_written(dest),
        MountOp::Tmpfs { dest, .. } => may_be_written(dest),
        MountOp::Bind { access: Access::ReadOnly, .. }
        | MountOp::Dir { .. }
        | MountOp::Symlink { .. }
        | MountOp::File { .. }
        | MountOp::Proc { .. }
        | MountOp::Dev { .. } => true,
    });
    if whole { Cutting::LeftToMounts } else { Cutting::Refused }
}

/// What the newborn child needs; it shares this memory until `execve`.
struct Birth<'s> {
    stage: &'s Stage,
    stdio: [RawFd; 3],
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    listener_line: Option<&'s OwnedFd>,
    watching: &'s [Instruction],
    failure: Option<(Step, i32)>,
}

/// Entry point of the child: system calls only, no allocation, no lock.
extern "C" fn be_born(birth: *mut c_void) -> c_int {
    // SAFETY: `start` passes a pointer to a `Birth` that outlives this child's use of the shared memory, and is
    // suspended meanwhile, so that this is the only reference.
    let birth = unsafe { &mut *birth.cast::<Birth<'_>>() };
    let (step, error) = birth.become_command();
    birth.failure = Some((step, number(&error)));
    process::leave(keeper::FAILED)
}

impl Birth<'_> {
    /// Returns only if something failed.
    fn become_command(&self) -> (Step, io::Error) {
        match self.arrange() {
            Ok(()) => {}
            Err(failed) => return failed,
        }
        // SAFETY: all three are NUL-terminated or null-terminated and live until the call succeeds.
        unsafe { libc::execve(self.stage.program.as_ptr(), self.argv.as_ptr(), self.env.as_ptr()) };
        (Step::Exec, io::Error::last_os_error())
    }

    fn arrange(&self) -> Result<(), (Step, io::Error)> {
        let stdio = |error| (Step::Stdio, error);
        if self.stage.terminal {
            terminal::come_to_the_front(self.stdio[0]).map_err(|error| (Step::Terminal, error))?;
        } else {
            process::new_session().map_err(|error| (Step::Fork, error))?;
        }
        for (to, from) in self.stdio.iter().enumerate() {
            fd::dup_onto(*from, to as RawFd).map_err(stdio)?;
        }
        fd::close_on_exec_from(3).map_err(stdio)?;
        for extra in &self.stage.pass {
            fd::keep_on_exec(*extra).map_err(stdio)?;
        }
        limits::apply(&self.stage.limits).map_err(|(_, error)| (Step::Limits, error))?;
        signal::set_default(libc::SIGPIPE);
        signal::set_mask(&self.stage.mask).map_err(|error| (Step::Fork, error))?;
        if self.stage.behalf.is_some() && self.stage.surroundings.landlock >= landlock::TCP {
            landlock::refuse_tcp().map_err(|error| (Step::Landlock, error))?;
        }
        let broker = |error| (Step::Broker, error);
        match self.listener_line {
            Some(line) => {
                let listener = seccomp::install_watched(self.watching).map_err(broker)?;
                socket::send(line.as_fd(), b"w", Some(listener.as_raw_fd())).map_err(broker)
            }
            None if self.watching.is_empty() => Ok(()),
            None => seccomp::install(self.watching).map_err(broker),
        }
    }
}
