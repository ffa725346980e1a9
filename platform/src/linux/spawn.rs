//! Launching from a large or many-threaded program, through a process of its own.
//!
//! Answers for starting our own program again as a launcher, handing it the plan, and getting the outcome back.
//! The new process shares memory until `execve`, so its cost does not grow with the parent.
//! Invariant: the launcher ends, and the launch with it, when the parent lets go of it or dies.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use libc::{c_char, c_int, c_void, pid_t};

use crate::backend::Backend;
use crate::door::Porter;
use crate::error::PlatformError;
use crate::linux::message::Message;
use crate::linux::net;
use crate::linux::sys::{check_int, fd, number, process, signal, socket};
use crate::plan::{Network, Pipe, Plan};
use crate::report::{Act, Outcome};
use crate::text::{self, escape, unescape};

/// The word by which our own program knows that it is the launcher.
pub(crate) const LAUNCH: &str = "__launch";
/// Descriptors of the launcher: the plan, the leash and the way back.
pub(crate) const PLAN: RawFd = 3;
pub(crate) const LEASH: RawFd = 4;
pub(crate) const STATUS: RawFd = 5;
/// Where refused changes are told as they happen, and the word that says it is there.
pub(crate) const TOLD: RawFd = 7;
pub(crate) const TELLING: &str = "telling";
/// The line on which the sockets of a network come out, and the word that says it is there.
pub(crate) const DOORS: RawFd = 6;
pub(crate) const WITH_DOORS: &str = "doors";
const STACK: usize = 64 << 10;

/// A launch under way in a process of its own.
#[derive(Debug)]
pub struct Child {
    /// To the command's standard input, if a pipe was asked for.
    pub stdin: Option<File>,
    /// From its standard output.
    pub stdout: Option<File>,
    /// From its standard error.
    pub stderr: Option<File>,
    told: Option<Told>,
    pid: pid_t,
    pidfd: OwnedFd,
    leash: Option<OwnedFd>,
    status: File,
    program: String,
    reaped: bool,
}

/// Refused changes, as they happen.
#[derive(Debug)]
pub struct Told(BufReader<File>);

impl Iterator for Told {
    type Item = Act;

    /// Waits for the next one; none when the launch is over.
    fn next(&mut self) -> Option<Act> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            // What did not fit into the pipe whole is no message.
            let bytes = unescape(line.trim_end_matches('\n'));
            if let Some(Message::Asked(act)) = bytes.and_then(|bytes| Message::decode(bytes.as_bytes())) {
                return Some(act);
            }
        }
    }
}

/// What connects a launcher with whoever started it.
#[derive(Debug, Default)]
pub(crate) struct Ties {
    /// When its other end is let go of, the launch ends.
    pub(crate) leash: Option<OwnedFd>,
    told: Option<OwnedFd>,
}

impl Ties {
    /// Those of a launcher; a reader who is slow misses something and holds nobody up.
    pub(crate) fn new(leash: OwnedFd, told: Option<OwnedFd>) -> io::Result<Self> {
        told.iter().try_for_each(|told| fd::set_nonblocking(told.as_raw_fd()))?;
        Ok(Self { leash: Some(leash), told })
    }

    /// Whether refused changes are to be told at once.
    pub(crate) fn tell(&self) -> bool {
        self.told.is_some()
    }

    /// Tells of what was refused; of a launch that is followed, of all that failed.
    pub(crate) fn failed(&self, act: &Act, followed: bool) {
        let worth = act.is_refused() || followed && act.error != 0;
        let Some(told) = self.told.as_ref().filter(|_| worth) else { return };
        let mut line = String::new();
        escape(OsStr::from_bytes(&Message::Asked(act.clone()).encode()), &mut line);
        line.push('\n');
        let _ = fd::write(told.as_raw_fd(), line.as_bytes());
    }
}

/// What a launch hangs on; dropping it ends the launch at once.
#[derive(Debug)]
pub struct Leash(#[expect(dead_code, reason = "held, so that the launcher sees it let go")] OwnedFd);

impl Child {
    /// The launcher's process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Passes a signal on to the command.
    ///
    /// # Errors
    /// When the launcher is gone already.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        process::send(self.pidfd.as_fd(), number)
    }

    /// Ends everything at once.
    pub fn kill(&mut self) {
        self.leash = None;
    }

    /// Hands out the leash: letting go of it ends everything, while another thread waits.
    pub fn leash(&mut self) -> Option<Leash> {
        self.leash.take().map(Leash)
    }

    /// Refused changes as they happen, if the plan has them told.
    pub fn told(&mut self) -> Option<Told> {
        self.told.take()
    }

    /// Whether the launch ends within some time, so that [`Child::wait`] will not take long.
    #[must_use]
    pub fn ends_within(&self, time: std::time::Duration) -> bool {
        fd::readable_within(self.status.as_raw_fd(), time)
    }

    /// Waits until nothing of the launch is left.
    ///
    /// # Errors
    /// When the launcher itself failed, or died without a word.
    pub fn wait(mut self) -> Result<Outcome, PlatformError> {
        drop(self.stdin.take());
        let mut text = String::new();
        let read = self.status.read_to_string(&mut text);
        let _ = process::reap(self.pid, 0);
        self.reaped = true;
        read.map_err(|error| PlatformError::on("hear from the launcher of", self.program.as_str(), error))?;
        Outcome::from_text(&text).unwrap_or_else(|| {
            let gone = io::Error::from_raw_os_error(libc::ECHILD);
            Err(PlatformError::on("hear from the launcher of", self.program.as_str(), gone))
        })
    }
}

impl Drop for Child {
    /// Ends everything; a launch nobody waits for is a launch nobody wants.
    fn drop(&mut self) {
        self.leash = None;
        if !self.reaped {
            let _ = process::reap(self.pid, 0);
        }
    }
}

/// Starts `plan` behind `backend` in a launcher process and returns at once.
///
/// The calling program must call [`crate::take_over`] first thing in `main`.
pub(crate) fn spawn(
    plan: &Plan,
    backend: Option<Backend>,
    pipes: [Pipe; 3],
    porter: Option<&mut dyn Porter>,
) -> Result<Child, PlatformError> {
    let program = || plan.program.display().to_string();
    let wrap = |error| PlatformError::on("start a launcher for", program(), error);
    let Some(porter) = porter.filter(|_| matches!(plan.network, Network::Gateway(_))) else {
        return begin(plan, backend, pipes, None).map_err(wrap);
    };
    let (ours, theirs) = socket::pair().map_err(wrap)?;
    let child = begin(plan, backend, pipes, Some(theirs)).map_err(wrap)?;
    net::receive_for(porter, &ours)
        .map_err(|error| PlatformError::on("serve the network of", program(), error))?;
    Ok(child)
}

fn begin(
    plan: &Plan,
    backend: Option<Backend>,
    pipes: [Pipe; 3],
    doors: Option<OwnedFd>,
) -> io::Result<Child> {
    let (plan_read, plan_write) = fd::pipe()?;
    let (leash_read, leash_write) = fd::pipe()?;
    let (status_read, status_write) = fd::pipe()?;
    let mut ours: [Option<File>; 3] = [None, None, None];
    let mut theirs = Vec::new();
    for (at, pipe) in pipes.into_iter().enumerate() {
        if pipe == Pipe::Inherit {
            continue;
        }
        let (read, write) = fd::pipe()?;
        let (own, other) = if at == 0 { (write, read) } else { (read, write) };
        ours[at] = Some(own.into());
        theirs.push((other, at as RawFd));
    }
    theirs.extend([(plan_read, PLAN), (leash_read, LEASH), (status_write, STATUS)]);
    let name = backend.map_or("auto", Backend::name);
    let mut words = ["sbx", LAUNCH, name].map(OsString::from).to_vec();
    if let Some(doors) = doors {
        theirs.push((doors, DOORS));
        words.push(WITH_DOORS.into());
    }
    let mut told = None;
    if plan.tells {
        let (read, write) = fd::pipe()?;
        theirs.push((write, TOLD));
        words.push(TELLING.into());
        told = Some(Told(BufReader::new(read.into())));
    }
    let pid = run_own(&words, &theirs, &plan.pass_fds)?;
    drop(theirs);
    let pidfd = process::pidfd_open(pid)?;
    File::from(plan_write).write_all(text::write(plan).as_bytes())?;
    let [stdin, stdout, stderr] = ours;
    let program = plan.program.display().to_string();
    let leash = Some(leash_write);
    let status = status_read.into();
    Ok(Child { stdin, stdout, stderr, told, pid, pidfd, leash, status, program, reaped: false })
}

/// What the newborn process needs; it shares this memory until `execve`.
struct Birth {
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    moves: Vec<(RawFd, RawFd)>,
    keep: Vec<RawFd>,
    mask: libc::sigset_t,
    failure: c_int,
}

/// Starts our own program with these words and descriptors.
fn run_own(words: &[OsString], fds: &[(OwnedFd, RawFd)], keep: &[RawFd]) -> io::Result<pid_t> {
    let argv: Vec<CString> = words.iter().filter_map(|word| CString::new(word.as_bytes()).ok()).collect();
    let environment = crate::linux::environment();
    let high: Vec<(OwnedFd, RawFd)> = fds
        .iter()
        .map(|(from, to)| Ok((fd::dup_above(from.as_raw_fd(), 16)?, *to)))
        .collect::<io::Result<_>>()?;
    let every: Vec<c_int> = (1..=31).collect();
    let held = signal::Held::take(&signal::set_of(&every))?;
    let pointers =
        |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
    let mut birth = Birth {
        argv: pointers(&argv),
        env: pointers(&environment),
        moves: high.iter().map(|(from, to)| (from.as_raw_fd(), *to)).collect(),
        keep: keep.to_vec(),
        // Whoever collects wishes to end does so for itself, not for what it starts.
        mask: signal::without(held.before(), &[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]),
        failure: 0,
    };
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: this thread is suspended until the child has left this memory by `execve` or exit; the child has a
    // stack of its own, makes system calls only, and all signals are blocked, so that no handler runs in it.
    let pid = check_int(unsafe { libc::clone(be_born, top.cast(), flags, (&raw mut birth).cast()) })?;
    drop(held);
    if birth.failure != 0 {
        let _ = process::reap(pid, 0);
        return Err(io::Error::from_raw_os_error(birth.failure));
    }
    Ok(pid)
}

/// Entry point of the child: system calls only, no allocation, no lock.
extern "C" fn be_born(birth: *mut c_void) -> c_int {
    // SAFETY: `run_own` passes a pointer to a `Birth` that outlives this child's use of the shared memory, and is
    // suspended meanwhile, so that this is the only reference.
    let birth = unsafe { &mut *birth.cast::<Birth>() };
    let arrange = || {
        birth.moves.iter().try_for_each(|(from, to)| fd::dup_onto(*from, *to))?;
        let next = birth.moves.iter().map(|(_, to)| to + 1).max().unwrap_or(STATUS + 1);
        fd::close_on_exec_from(next)?;
        birth.keep.iter().try_for_each(|number| fd::keep_on_exec(*number))?;
        signal::set_mask(&birth.mask)
    };
    if let Err(error) = arrange() {
        birth.failure = number(&error);
        process::leave(1);
    }
    // SAFETY: both vectors are null-terminated and live until the call succeeds.
    unsafe { libc::execve(c"/proc/self/exe".as_ptr(), birth.argv.as_ptr(), birth.env.as_ptr()) };
    birth.failure = number(&io::Error::last_os_error());
    process::leave(1)
}
