//! Helpers that are kept: started when first needed, used by one call at a time, ended with their owner.
//!
//! Invariant: a call that is given up, whether called off or too slow, ends the helper it used; nothing of it goes on.

use super::cancel::Cancel;
use super::fault::{Fault, FaultCode};
use super::helper::wire::{self, Answer, Task};
use super::helper::words;
use crate::audit::Sink;
use crate::plan::Invocation;
use crate::policy::Policy;
use crate::run::{RunError, Started, record_end, start_helper};
use sbx_platform::{Backend, Child, End, Outcome, PlatformError};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most helpers at one time; further calls wait for one.
const MOST: usize = 4;
/// How long one task may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a waiting call looks whether it was called off.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a helper that has nothing more to do may take to end.
const GOODBYE: Duration = Duration::from_millis(500);

/// Everything a helper is started with.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) backend: Option<Backend>,
    pub(super) accepted: Vec<String>,
    pub(super) audit: Arc<dyn Sink>,
}

/// The helpers of one agent.
#[derive(Debug, Default)]
pub(super) struct Keep {
    state: Mutex<State>,
    free: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Helper>,
    busy: usize,
}

/// Why there is no answer.
#[derive(Debug)]
enum Lost {
    /// The task never reached the helper.
    Unsent,
    /// The helper may have begun.
    Unanswered,
}

/// What an answer comes with.
type Heard = Result<(Answer, Vec<u8>), Lost>;

/// One helper process.
#[derive(Debug)]
struct Helper {
    child: Option<Child>,
    id: String,
    agent: String,
    audit: Arc<dyn Sink>,
    tasks: Sender<(Task, Vec<u8>)>,
    answers: Receiver<Heard>,
    /// Whether it was started for the call at hand, so that its view is as new as can be.
    fresh: bool,
}

/// Why a task has no answer.
#[derive(Debug)]
pub(super) enum Silence {
    /// It was certainly not begun, and another helper may do it.
    NotBegun,
    /// It may have been begun, and another helper may do it if it changes nothing.
    Unknown(Fault),
    /// It was given up, or there can be no helper.
    Final(Fault),
}

/// What came of asking a helper.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) answer: Answer,
    pub(super) body: Vec<u8>,
    /// Whether the helper's view was made for this call.
    pub(super) fresh: bool,
}

/// Whether a helper that was used before will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    Fresh,
}

impl Keep {
    /// Has a helper do a task.
    pub(super) fn ask(
        &self,
        task: &Task,
        body: &[u8],
        wanted: Wanted,
        policy: &Policy,
        making: &Making,
        cancel: &Cancel,
    ) -> Result<Told, Silence> {
        let waiting = Instant::now() + PATIENCE;
        let mut place = self.enter(waiting, cancel).map_err(Silence::Final)?;
        // One whose view is too old is ended here.
        let mut helper = match place.idle.take().filter(|_| wanted == Wanted::Any) {
            Some(helper) => helper,
            None => Helper::start(policy, making).map_err(Silence::Final)?,
        };
        let fresh = helper.fresh;
        let (answer, body) = helper.ask(task.clone(), body.to_vec(), cancel)?;
        helper.fresh = false;
        place.idle = Some(helper);
        Ok(Told { answer, body, fresh })
    }

    /// Waits for a place among those who are served.
    fn enter(&self, until: Instant, cancel: &Cancel) -> Result<Place<'_>, Fault> {
        let mut state = self.lock();
        loop {
            if cancel.is_cancelled() {
                return Err(cancelled());
            }
            if state.busy < MOST {
                state.busy += 1;
                let idle = state.idle.pop();
                return Ok(Place { keep: self, idle });
            }
            if Instant::now() >= until {
                return Err(Fault::new(FaultCode::TimedOut, "too many other operations are under way"));
            }
            let waited = self.free.wait_timeout(state, GLANCE).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among those who are served, with the helper that is to be kept afterwards.
struct Place<'k> {
    keep: &'k Keep,
    idle: Option<Helper>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.keep.lock();
        state.busy -= 1;
        state.idle.extend(self.idle.take());
        drop(state);
        self.keep.free.notify_one();
    }
}

fn cancelled() -> Fault {
    Fault::new(FaultCode::Cancelled, "the operation was called off")
}

impl Helper {
    fn start(policy: &Policy, making: &Making) -> Result<Self, Fault> {
        let invocation = Invocation::new(sbx_platform::ids()).accepting(making.accepted.clone());
        let started = start_helper(policy, words(), &invocation, making.backend, &making.audit);
        let Started { mut child, id, .. } = started.map_err(|error| not_started(&error))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        // Nobody reads what it might complain about.
        drop(child.stderr.take());
        let (Some(mut to), Some(mut from)) = pipes else {
            return Err(Fault::new(FaultCode::Failed, "the helper has no pipes"));
        };
        let (tasks, work) = channel::<(Task, Vec<u8>)>();
        let (tell, answers) = channel::<Heard>();
        let carry = move || {
            for (task, body) in work {
                let heard = match wire::write(&mut to, &task, &body) {
                    Err(_) => Err(Lost::Unsent),
                    Ok(()) => wire::read(&mut from).ok().flatten().ok_or(Lost::Unanswered),
                };
                if tell.send(heard).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("sbx-hands".to_owned())
            .spawn(carry)
            .map_err(|error| Fault::new(FaultCode::Failed, format!("no thread can be had: {error}")))?;
        let (agent, audit) = (policy.agent().to_owned(), making.audit.clone());
        let child = Some(child);
        Ok(Self { child, id, agent, audit, tasks, answers, fresh: true })
    }

    /// Sends a task and waits for its answer. After an error the helper is dropped, and so ended.
    fn ask(&mut self, task: Task, body: Vec<u8>, cancel: &Cancel) -> Result<(Answer, Vec<u8>), Silence> {
        let until = Instant::now() + PATIENCE;
        if self.tasks.send((task, body)).is_err() {
            return Err(self.silence(&Lost::Unsent));
        }
        loop {
            match self.answers.recv_timeout(GLANCE) {
                Ok(Ok(heard)) => return Ok(heard),
                Ok(Err(lost)) => return Err(self.silence(&lost)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.silence(&Lost::Unanswered)),
                Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => {
                    return Err(self.given_up(cancelled()));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                    let fault = Fault::new(FaultCode::TimedOut, "the operation took too long and was ended");
                    return Err(self.given_up(fault));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn given_up(&mut self, fault: Fault) -> Silence {
        if let Some(child) = &mut self.child {
            child.kill();
        }
        Silence::Final(fault)
    }

    /// What became of a helper that does not answer; a fence that could not be built says so only now.
    fn silence(&mut self, lost: &Lost) -> Silence {
        let fresh = self.fresh;
        match (self.end(), lost) {
            (Some(Err(error)), _) => Silence::Final(not_fenced(&error)),
            (Some(Ok(Outcome { end: End::Setup(failure), .. })), _) => {
                let message = format!("the fence could not be built: {failure}");
                Silence::Final(Fault::new(FaultCode::Failed, message))
            }
            (_, Lost::Unsent) if !fresh => Silence::NotBegun,
            _ => Silence::Unknown(
                Fault::new(FaultCode::Failed, "the helper ended before it answered")
                    .hint("what it was to change may or may not be changed; look before doing it again"),
            ),
        }
    }

    /// Ends the helper if it has not ended, and records how.
    fn end(&mut self) -> Option<Result<Outcome, PlatformError>> {
        let mut child = self.child.take()?;
        // With nobody to send tasks, the thread lets go of the pipes and the helper sees its end.
        let (nobody, _) = channel();
        self.tasks = nobody;
        if !child.ends_within(GOODBYE) {
            child.kill();
        }
        let ended = child.wait();
        // What has ended has ended, whether or not that can be recorded.
        let _ = record_end(&self.agent, &self.id, &ended, self.audit.as_ref());
        Some(ended)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.end();
    }
}

fn not_started(error: &RunError) -> Fault {
    match error {
        RunError::Platform(error) => not_fenced(error),
        other => {
            let cause =
                std::error::Error::source(other).map_or_else(String::new, |cause| format!(": {cause}"));
            Fault::new(FaultCode::Failed, format!("{other}{cause}"))
        }
    }
}

fn not_fenced(error: &PlatformError) -> Fault {
    let fault = Fault::new(FaultCode::Failed, error.to_string());
    match error {
        PlatformError::Missing { missing, .. } => {
            let names: Vec<&str> = missing.iter().map(|guarantee| guarantee.name()).collect();
            fault.hint(format!("to do without: `accept_degraded: [{}]` in the record", names.join(", ")))
        }
        _ => fault,
    }
}
