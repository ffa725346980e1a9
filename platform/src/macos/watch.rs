//! Waiting for a command: its end, its limits, signals to the launcher, and the word of `sandbox-exec` itself.
//!
//! Answers for telling how a launch ended and for ending it in time. It leaves finding processes to [`super::tree`].
//! Invariant: when a launch is over, everything of it that can be found is gone.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::backend::Enforcement;
use crate::caught::Caught;
use crate::macos::log::Log;
use crate::macos::prepare::{Prepared, SANDBOX_EXEC};
use crate::macos::stdio::Relays;
use crate::macos::tree::Tree;
use crate::plan::Limits;
use crate::report::{End, Limit, Outcome, SetupFailure, Step};
use crate::signals::{FORWARDED, GRACE, Wish, minded, wish};
use crate::terminal::{Raw, copy_size};

/// What it returns when a profile cannot be put in force: as a rule because one is already.
const NESTED: i32 = 71;
/// What it returns when it cannot read a profile.
const UNREADABLE: i32 = 65;
/// How often a launch is looked at.
const TICK: Duration = Duration::from_millis(20);
/// How many ticks pass between looks at the whole tree.
const TREE_TICKS: u32 = 5;

/// Whoever waits in front of a launch, attended to: their signals, and their terminal where it is in raw mode.
#[derive(Debug, Default)]
pub(super) struct User {
    signals: Option<Caught>,
    raw: Option<Raw>,
}

impl User {
    /// Collects signals from now on; with a private terminal, makes the user's raw.
    pub(super) fn attend(terminal: bool) -> io::Result<Self> {
        let raw = terminal.then(|| Raw::enter(0)).flatten();
        Ok(Self { signals: Some(Caught::take(&minded(&FORWARDED))?), raw })
    }
}

/// A launch being waited for.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) limits: Limits,
    pub(super) tree: Tree,
    pub(super) hold: OwnedFd,
    pub(super) terminal: Option<File>,
    pub(super) user: User,
    pub(super) child: std::process::Child,
    pub(super) begun: Instant,
    /// When a command that was asked to end is killed.
    pub(super) kill_at: Option<Instant>,
}

impl Watch {
    /// Waits, and ends everything that can be found.
    pub(super) fn until_the_end(
        mut self,
        prepared: &Prepared,
        relays: Relays,
        log: Option<Log>,
        enforcement: Enforcement,
    ) -> Outcome {
        let mut ticks = 0_u32;
        let cut_short = loop {
            match has_ended(self.tree.leader()) {
                Ok(false) => {}
                Ok(true) => break None,
                Err(error) => break Some(setup(Step::Helper, SANDBOX_EXEC, &error)),
            }
            self.forward();
            if let Some(end) = self.over(&relays, ticks) {
                break Some(end);
            }
            ticks = ticks.wrapping_add(1);
        };
        // Before the leader is reaped, so that its number and its group cannot be another's.
        self.tree.kill();
        let status = self.child.wait();
        let end = match (cut_short, status) {
            (Some(end), _) => end,
            (None, Ok(status)) => ended(status, prepared),
            (None, Err(error)) => setup(Step::Helper, SANDBOX_EXEC, &error),
        };
        self.terminal = None;
        let acts = log.map(|log| log.finish(&prepared.surroundings.tag)).unwrap_or_default();
        let (stdout, stderr) = relays.finish();
        let reached = if let End::Limit(limit) = end { vec![limit] } else { Vec::new() };
        let lost = Vec::new();
        Outcome { end, duration: self.begun.elapsed(), enforcement, stdout, stderr, acts, reached, lost }
    }

    /// Waits a tick; why the launch must end, if it must.
    fn over(&mut self, relays: &Relays, ticks: u32) -> Option<End> {
        if let_go(&self.hold) {
            return Some(End::Signaled(libc::SIGKILL));
        }
        if self.kill_at.is_some_and(|at| at <= Instant::now()) {
            return Some(End::Signaled(libc::SIGKILL));
        }
        if self.limits.wall.is_some_and(|wall| self.begun.elapsed() >= wall) {
            return Some(End::Limit(Limit::Wall));
        }
        if self.limits.output.is_some_and(|most| relays.written.load(Ordering::Relaxed) > most) {
            return Some(End::Limit(Limit::Output));
        }
        if ticks.is_multiple_of(TREE_TICKS) {
            self.tree.look();
            if self.limits.pids.is_some_and(|most| self.tree.count() > most) {
                return Some(End::Limit(Limit::Pids));
            }
            if self.limits.memory.is_some_and(|most| self.tree.memory() > most) {
                return Some(End::Limit(Limit::Memory));
            }
        }
        None
    }

    fn forward(&mut self) {
        while let Some(number) = self.user.signals.as_ref().and_then(Caught::next) {
            match wish(number) {
                Wish::Resize => {
                    if let Some(terminal) = &self.terminal {
                        copy_size(0, terminal.as_raw_fd());
                    }
                    self.tree.signal(number);
                }
                Wish::Suspend => self.suspend(),
                Wish::End => {
                    self.tree.signal(number);
                    self.kill_at.get_or_insert_with(|| Instant::now() + GRACE);
                }
                Wish::Other => self.tree.signal(number),
            }
        }
    }

    /// Stops the command and ourselves; goes on when continued.
    fn suspend(&self) {
        self.tree.signal(libc::SIGSTOP);
        if let Some(raw) = &self.user.raw {
            raw.give_back();
        }
        // SAFETY: takes two integers; stops this process, and nothing else is concerned.
        unsafe { libc::kill(std::process::id().cast_signed(), libc::SIGSTOP) };
        if let Some(raw) = &self.user.raw {
            raw.again();
        }
        self.tree.signal(libc::SIGCONT);
    }
}

/// Whether a child has ended; it is not reaped.
fn has_ended(child: libc::pid_t) -> io::Result<bool> {
    let id = libc::id_t::try_from(child).map_err(|_| io::ErrorKind::NotFound)?;
    // SAFETY: an all-zero `siginfo_t` is a valid value of that plain C structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is writable.
    if unsafe { libc::waitid(libc::P_PID, id, &raw mut info, options) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled the part about a child, or left it zero.
    Ok(unsafe { info.si_pid() } == child)
}

/// Waits a tick for the other end of the leash to be let go.
fn let_go(hold: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: hold.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let tick = libc::c_int::try_from(TICK.as_millis()).unwrap_or(20);
    // SAFETY: one valid `pollfd`.
    let ready = unsafe { libc::poll(&raw mut poll, 1, tick) };
    ready > 0 && poll.revents & (libc::POLLHUP | libc::POLLIN) != 0
}

fn ended(status: ExitStatus, prepared: &Prepared) -> End {
    match (status.code(), status.signal()) {
        (Some(code @ (NESTED | UNREADABLE)), _) => refused(code, prepared).unwrap_or(End::Exited(code)),
        (Some(code), _) => End::Exited(code),
        (None, Some(libc::SIGXCPU)) => End::Limit(Limit::Cpu),
        (None, Some(libc::SIGXFSZ)) => End::Limit(Limit::FileSize),
        (None, number) => End::Signaled(number.unwrap_or(libc::SIGKILL)),
    }
}

/// Whether a status was `sandbox-exec`'s own, found out by asking it once more.
fn refused(code: i32, prepared: &Prepared) -> Option<End> {
    let silent = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?.code()
    };
    if code == NESTED {
        let mut bare = Command::new(SANDBOX_EXEC);
        bare.args(["-p", "(version 1)(allow default)", "/usr/bin/true"]).env_clear();
        let object = "sandbox-exec: another Seatbelt profile is already in force, and they do not nest";
        let denied = io::Error::from_raw_os_error(libc::EPERM);
        return (silent(&mut bare) == Some(NESTED)).then(|| setup(Step::Helper, object, &denied));
    }
    let invalid = io::Error::from_raw_os_error(libc::EINVAL);
    let again = silent(&mut prepared.command(Path::new("/usr/bin/true")));
    (again == Some(UNREADABLE))
        .then(|| setup(Step::Helper, "sandbox-exec: the profile is not understood", &invalid))
}

fn setup(step: Step, object: &str, error: &io::Error) -> End {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    End::Setup(SetupFailure { step, object: object.to_owned(), errno })
}
