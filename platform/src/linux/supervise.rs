//! The supervisor: waits, relays, forwards signals, keeps time and counts output.
//!
//! Answers for the end of a launch, however it comes. It leaves the fence to the backends.
//! Invariant: when it returns, no process of the launch is left.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use libc::{c_int, pid_t};

use crate::error::PlatformError;
use crate::linux::message::{MESSAGE_MAX, Message};
use crate::linux::net::{Arriving, GO, Kit, kit};
use crate::linux::relay::{self, OUTPUT_DEFAULT, Relay};
use crate::linux::spawn::Ties;
use crate::linux::spent;
use crate::linux::sys::{fd, memory, process, signal, socket};
use crate::plan::{Network, Plan, Stdio};
use crate::report::{Act, End, Limit, Lost, SetupFailure, Step};
use crate::signals::{GRACE, Wish, wish};
use crate::terminal::{self, Raw};

/// How long output still in the pipes may take to be written after everything was ended.
const DRAIN: Duration = Duration::from_secs(2);

/// After this time a command is one that takes its time, and what only starting needed is given back.
const SETTLED: Duration = Duration::from_millis(250);

/// How often the processor time of the whole tree is added up, where it is limited.
const COUNTING: Duration = Duration::from_millis(100);

/// How often is looked whether we are in front of the user's terminal again.
const BEHIND: Duration = Duration::from_millis(300);

/// A started inner process.
#[derive(Debug)]
pub(crate) struct Started {
    /// The process to wait for; when it is gone, all are.
    pub(crate) pidfd: OwnedFd,
    /// Its number here.
    pub(crate) pid: pid_t,
    /// The line to its keeper.
    pub(crate) line: OwnedFd,
    /// The sockets of its network, if they are here already.
    pub(crate) kit: Option<Kit>,
    /// What failed if it ends without a word.
    pub(crate) unsaid: Unsaid,
}

/// The step that failed, and with what.
pub(crate) type Unsaid = (Step, &'static str);

/// The stage that is ours from its first instruction on.
pub(crate) const OWN_STAGE: Unsaid = (Step::Stage, "inner stage");

/// How it ended, and what was collected.
#[derive(Debug)]
pub(crate) struct Finished {
    /// How it ended.
    pub(crate) end: End,
    /// Collected standard output and error.
    pub(crate) collected: Vec<Vec<u8>>,
    /// Files that were asked for.
    pub(crate) acts: Vec<Act>,
    /// Limits that were reached, whether or not everything was ended for it.
    pub(crate) reached: Vec<Limit>,
    /// Output that could not be written.
    pub(crate) lost: Vec<Lost>,
}

/// Acts that are remembered.
const ACTS_MAX: usize = 1 << 17;
/// Refusals that are kept, when each is told as it happens.
const REFUSALS_MAX: usize = 256;

/// Whoever attends a launch; an error of theirs ends it.
pub(crate) trait Attendant {
    /// The fence is nearly built, and the command starts when this has returned.
    fn begun(&mut self) -> Result<(), PlatformError>;

    /// Takes the sockets of the launch's network.
    fn open(&mut self, kit: Kit) -> Result<(), PlatformError>;

    /// The command gets under way: there is time for what can wait.
    fn under_way(&mut self);
}

/// One launch under way, to be waited for.
pub(crate) struct Watch<'p> {
    plan: &'p Plan,
    started: Started,
    signals: &'p signal::Collected,
    ties: &'p Ties,
    relays: Vec<Relay>,
    arriving: Arriving,
    attendant: &'p mut dyn Attendant,
    told: bool,
    awaits_doors: bool,
    given_up: Option<PlatformError>,
    raw: Option<Raw>,
    master: Option<OwnedFd>,
    deadline: Option<Instant>,
    kill_at: Option<Instant>,
    settled_at: Option<Instant>,
    /// When to look at the processor time of the whole tree again.
    count_at: Option<Instant>,
    written: u64,
    end: Option<End>,
    limit: Option<Limit>,
    failure: Option<SetupFailure>,
    starting: bool,
    acts: Vec<Act>,
}

/// Begins to watch over what was started. The attendant is told when the view stands, so that both have a processor to
/// themselves; but at once of a network, which takes longer to serve than the view to build.
pub(crate) fn begin<'p>(
    plan: &'p Plan,
    started: Started,
    signals: &'p signal::Collected,
    ties: &'p Ties,
    relays: Vec<Relay>,
    attendant: &'p mut dyn Attendant,
) -> Watch<'p> {
    let deadline = plan.limits.wall.map(|wall| Instant::now() + wall);
    let mut watch = Watch {
        plan,
        started,
        signals,
        ties,
        relays,
        arriving: Arriving::default(),
        attendant,
        told: false,
        awaits_doors: matches!(plan.network, Network::Gateway(_)),
        given_up: None,
        raw: None,
        master: None,
        deadline,
        kill_at: None,
        settled_at: Some(Instant::now() + SETTLED),
        count_at: plan.limits.cpu.map(|_| Instant::now() + COUNTING),
        written: 0,
        end: None,
        limit: None,
        failure: None,
        starting: false,
        acts: Vec::new(),
    };
    if watch.awaits_doors {
        watch.tell();
    }
    watch
}

impl Watch<'_> {
    /// Waits for the end. The hang-up of a leash ends the launch too.
    pub(crate) fn wait(mut self) -> Result<Finished, PlatformError> {
        let outcome = self.run();
        if outcome.is_err() {
            self.kill();
        }
        let last = process::reap_counting(self.started.pid);
        self.relays.iter().for_each(Relay::give_back);
        let program = || self.plan.program.display().to_string();
        outcome.map_err(|error| PlatformError::on("wait for", program(), error))?;
        if let Some(error) = self.given_up.take() {
            return Err(error);
        }
        self.drain();
        Ok(self.finish(last.ok()))
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            let mut set = vec![
                readable(self.started.pidfd.as_raw_fd()),
                readable(if self.awaits_word() { self.started.line.as_raw_fd() } else { -1 }),
                readable(self.signals.raw()),
                readable(self.ties.leash.as_ref().map_or(-1, AsRawFd::as_raw_fd)),
            ];
            set.extend(self.relays.iter().map(Relay::wants));
            fd::poll(&mut set, self.patience())?;
            if set[1].revents != 0 {
                self.listen()?;
            }
            if set[2].revents != 0 {
                self.forward();
            }
            if set[3].revents & (libc::POLLHUP | libc::POLLERR) != 0 {
                self.kill();
            }
            for (at, ready) in set[4..].iter().enumerate() {
                if ready.revents != 0 {
                    self.relay(at);
                }
            }
            self.keep_time();
            if set[0].revents != 0 {
                while self.listen()? {}
                return Ok(());
            }
        }
    }

    /// Only that the view stands, what comes of a terminal, the sockets of a network and what is asked for are waited for
    /// on the line; all else there is read at the end, which saves waking up.
    fn awaits_word(&self) -> bool {
        let terminal = self.plan.stdio == Stdio::Pty;
        let awaits = terminal || !self.told || self.awaits_doors || self.plan.trace || self.ties.tell();
        awaits && self.failure.is_none()
    }

    /// Milliseconds until the next thing that happens by itself.
    fn patience(&self) -> c_int {
        let behind = self.relays.iter().any(Relay::is_behind).then(|| Instant::now() + BEHIND);
        let all = [self.deadline, self.kill_at, self.settled_at, self.count_at, behind];
        milliseconds(all.into_iter().flatten().min())
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        if self.deadline.is_some_and(|at| at <= now) {
            self.deadline = None;
            self.stop(Limit::Wall);
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.kill();
        }
        if self.settled_at.is_some_and(|at| at <= now) {
            self.settled_at = None;
            memory::give_back_code();
        }
        if self.count_at.is_some_and(|at| at <= now) {
            self.count();
        }
    }

    /// Ends everything when the whole tree has used its processor time; the kernel itself knows only each process's.
    fn count(&mut self) {
        self.count_at = Some(Instant::now() + COUNTING);
        if self.plan.limits.cpu.is_some_and(|most| spent::by_tree(self.started.pid) >= most) {
            self.count_at = None;
            self.stop(Limit::Cpu);
        }
    }

    /// Takes one message off the line; whether there was one.
    fn listen(&mut self) -> io::Result<bool> {
        let mut buffer = [0; MESSAGE_MAX];
        let flags = libc::MSG_DONTWAIT;
        let (length, extra) = match socket::receive_many(self.started.line.as_fd(), &mut buffer, flags) {
            Ok((0, _)) => return Ok(false),
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // Told once of a stage that left without reading everything; what it said is still to come.
            Err(error) if error.raw_os_error() == Some(libc::ECONNRESET) => return Ok(true),
            Err(error) => return Err(error),
        };
        if buffer[0] == kit::MARK {
            if let Some(kit) = self.arriving.add(&buffer[..length], extra) {
                self.open_doors(kit);
            }
            return Ok(true);
        }
        match Message::decode(&buffer[..length]) {
            Some(Message::Ended(status)) => self.end = Some(self.meaning(status)),
            Some(Message::Failed(failure)) => self.failure = Some(failure),
            Some(Message::Terminal) => self.attach(extra.into_iter().next())?,
            Some(Message::Asked(act)) => {
                self.ties.failed(&act, self.plan.trace);
                // What is told each time is kept once, and only refusals; where all is told, that is seen to already.
                let each_time = self.ties.tell();
                let most = if each_time { REFUSALS_MAX } else { ACTS_MAX };
                let kept = !each_time || !self.plan.trace || act.is_refused();
                if kept && self.acts.len() < most && !(each_time && self.acts.contains(&act)) {
                    self.acts.push(act);
                }
            }
            Some(Message::Standing) => self.tell(),
            Some(Message::Starting) => self.starting = true,
            Some(Message::Stopped) => self.rest(signal::stop_group),
            None => {}
        }
        Ok(true)
    }

    /// Tells the attendant of the launch, once, and lets the stage go on or ends everything.
    fn tell(&mut self) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        match (self.attendant.begun(), self.started.kit.take()) {
            (Err(error), _) => self.give_up(error),
            (Ok(()), Some(kit)) => self.open_doors(kit),
            (Ok(()), None) => self.let_go(),
        }
    }

    /// Hands the sockets over and lets the stage go on, or ends everything.
    fn open_doors(&mut self, kit: Kit) {
        self.awaits_doors = false;
        match self.attendant.open(kit) {
            Ok(()) => self.let_go(),
            Err(error) => self.give_up(error),
        }
    }

    /// Lets the command start, once it is told of, its network is served and its terminal has a size.
    fn let_go(&mut self) {
        if !self.told || self.awaits_doors || self.plan.stdio == Stdio::Pty && self.master.is_none() {
            return;
        }
        let _ = socket::send(self.started.line.as_fd(), GO, None);
        self.attendant.under_way();
    }

    /// Ends everything before the command has started.
    fn give_up(&mut self, error: PlatformError) {
        self.given_up = Some(error);
        self.kill();
    }

    fn meaning(&self, status: c_int) -> End {
        if libc::WIFEXITED(status) {
            return End::Exited(libc::WEXITSTATUS(status));
        }
        match libc::WTERMSIG(status) {
            libc::SIGXCPU if self.plan.limits.cpu.is_some() => End::Limit(Limit::Cpu),
            libc::SIGXFSZ if self.plan.limits.file_size.is_some() => End::Limit(Limit::FileSize),
            number => End::Signaled(number),
        }
    }

    /// Relays the private terminal whose master side has come over the line.
    fn attach(&mut self, master: Option<OwnedFd>) -> io::Result<()> {
        let master = master.ok_or_else(|| io::Error::from_raw_os_error(libc::EPROTO))?;
        terminal::copy_size(0, master.as_raw_fd());
        self.master = Some(fd::dup_above(master.as_raw_fd(), 3)?);
        self.relays.extend(relay::terminal(master)?);
        self.raw = Raw::enter(0);
        self.let_go();
        Ok(())
    }

    fn forward(&mut self) {
        while let Some(number) = self.signals.next() {
            match wish(number) {
                Wish::Resize => {
                    if let Some(master) = &self.master {
                        terminal::copy_size(0, master.as_raw_fd());
                    }
                    self.pass_on(number);
                }
                // From its own terminal the command stops by itself, and that is told.
                Wish::Suspend if self.master.is_some() && !self.plan.trace => self.pass_on(number),
                Wish::Suspend => self.suspend(),
                Wish::End => {
                    self.pass_on(number);
                    self.kill_at.get_or_insert_with(|| Instant::now() + GRACE);
                }
                Wish::Other => self.pass_on(number),
            }
        }
    }

    fn pass_on(&self, number: c_int) {
        let word = [b'S', u8::try_from(number).unwrap_or(0)];
        let _ = socket::send(self.started.line.as_fd(), &word, None);
    }

    /// Stops the command and ourselves; goes on when continued.
    fn suspend(&self) {
        self.pass_on(libc::SIGSTOP);
        self.rest(signal::stop_self);
    }

    /// Stops as the command has stopped, with the user's terminal as it was; both go on when we are continued.
    fn rest(&self, stop: fn()) {
        if let Some(raw) = &self.raw {
            raw.give_back();
        }
        stop();
        if let Some(raw) = &self.raw {
            raw.again();
        }
        if let Some(master) = &self.master {
            terminal::copy_size(0, master.as_raw_fd());
        }
        self.pass_on(libc::SIGCONT);
    }

    fn relay(&mut self, at: usize) {
        let moved = self.relays[at].step();
        if moved == 0 || !self.relays[at].is_output() {
            return;
        }
        self.written += moved as u64;
        let limit = match (self.plan.limits.output, self.plan.stdio) {
            (Some(limit), _) => limit,
            (None, Stdio::Capture) => OUTPUT_DEFAULT,
            (None, Stdio::Inherit | Stdio::Pty) => return,
        };
        if self.written > limit {
            let surplus = usize::try_from(self.written - limit).unwrap_or(usize::MAX);
            self.relays[at].cut(surplus.min(moved));
            self.relays.iter_mut().filter(|relay| relay.is_output()).for_each(Relay::read_no_more);
            self.stop(Limit::Output);
        }
    }

    fn stop(&mut self, limit: Limit) {
        self.limit.get_or_insert(limit);
        self.kill();
    }

    fn kill(&self) {
        let _ = process::send(self.started.pidfd.as_fd(), libc::SIGKILL);
    }

    /// Writes out what is left in the pipes: for as long as somebody is there to read it, if the command has ended by
    /// itself; else for a bounded time.
    fn drain(&mut self) {
        self.raw = None;
        let mut until = self.drained_until();
        while self.relays.iter().any(|relay| relay.is_output() && relay.is_open()) {
            let next = [until, self.deadline].into_iter().flatten().min();
            let mut set = vec![
                readable(self.signals.raw()),
                readable(self.ties.leash.as_ref().map_or(-1, AsRawFd::as_raw_fd)),
            ];
            let output = self.relays.iter();
            set.extend(output.map(|relay| if relay.is_output() { relay.wants() } else { idle() }));
            if fd::poll(&mut set, milliseconds(next)).is_err() {
                return;
            }
            let let_go = set[1].revents & (libc::POLLHUP | libc::POLLERR) != 0;
            if let_go || set[0].revents != 0 && self.is_asked_to_end() {
                until = Some(Instant::now());
            }
            for (at, ready) in set[2..].iter().enumerate() {
                if ready.revents != 0 {
                    self.relay(at);
                }
            }
            let now = Instant::now();
            if self.deadline.is_some_and(|at| at <= now) {
                self.limit.get_or_insert(Limit::Wall);
                return;
            }
            if until.is_some_and(|at| at <= now) {
                return;
            }
        }
    }

    /// Until when output is written after the end; `None` if nobody is in a hurry.
    fn drained_until(&self) -> Option<Instant> {
        let by_itself = self.end.is_some() && self.limit.is_none() && self.kill_at.is_none();
        if by_itself { None } else { Some(Instant::now() + DRAIN) }
    }

    /// Takes the signals that have come after the end; whether one of them asks to end.
    fn is_asked_to_end(&self) -> bool {
        let mut asked = false;
        while let Some(number) = self.signals.next() {
            match wish(number) {
                Wish::End => asked = true,
                Wish::Suspend => self.rest(signal::stop_self),
                Wish::Resize | Wish::Other => {}
            }
        }
        asked
    }

    fn finish(self, last: Option<(c_int, Duration)>) -> Finished {
        let used = last.map(|(_, used)| used).unwrap_or_default();
        let spent = self.plan.limits.cpu.is_some_and(|most| used >= most);
        let reached = spent.then_some(Limit::Cpu).into_iter().collect();
        let last = last.map(|(status, _)| status);
        let (step, object) = self.started.unsaid;
        let end = match (self.failure, self.limit, self.end) {
            (Some(failure), _, _) => End::Setup(failure),
            (None, Some(limit), _) => End::Limit(limit),
            (None, None, Some(end)) => end,
            (None, None, None) => match last {
                Some(status) if libc::WIFSIGNALED(status) => End::Signaled(libc::WTERMSIG(status)),
                // Once the command may have run, nothing that follows is a reason to try another backend.
                _ if self.starting => End::Signaled(libc::SIGKILL),
                _ => End::Setup(SetupFailure { step, object: object.to_owned(), errno: libc::ECHILD }),
            },
        };
        let lost = self.relays.iter().filter_map(Relay::lost).collect();
        let collected = self.relays.into_iter().filter_map(Relay::collected).collect();
        Finished { end, collected, acts: self.acts, reached, lost }
    }
}

/// Milliseconds until then; -1 for no end.
fn milliseconds(until: Option<Instant>) -> c_int {
    until.map_or(-1, |at| {
        let left = at.saturating_duration_since(Instant::now()).as_millis() + 1;
        c_int::try_from(left).unwrap_or(c_int::MAX)
    })
}

fn readable(fd: i32) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

fn idle() -> libc::pollfd {
    libc::pollfd { fd: -1, events: 0, revents: 0 }
}
