//! Tools that are left running, with the last of what they print.
//!
//! Invariant: at most [`MOST_ALIVE`] run, memory is bounded whatever they print, and dropping this ends them all.

use super::ring::Ring;
use crate::audit::Sink;
use crate::run::launch::{Started, record_end};
use crate::run::network::Network;
use sbx_platform::{Child, End, Leash, Outcome, PlatformError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many tools may run in one session.
pub const MOST_ALIVE: usize = 16;
/// How long an end is waited for that was asked for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a start is watched for a fence that cannot be built.
const FIRST_LOOK: Duration = Duration::from_millis(60);

/// How a process ended.
#[derive(Clone, Debug)]
struct Ended {
    end: Result<End, String>,
    at: Instant,
}

/// What threads share about one process.
#[derive(Debug, Default)]
struct Shared {
    stdout: Mutex<Ring>,
    stderr: Mutex<Ring>,
    ended: Mutex<Option<Ended>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Process {
    pid: u32,
    begun: Instant,
    leash: Option<Leash>,
    shared: Arc<Shared>,
    waiter: Option<JoinHandle<()>>,
}

/// The processes of a session, by tool.
#[derive(Debug, Default)]
pub struct Processes {
    by_name: BTreeMap<String, Process>,
}

/// A process that was let go of.
#[derive(Debug)]
pub struct Ending {
    name: String,
    process: Process,
}

impl Ending {
    /// Waits for its end; how it was.
    #[must_use]
    pub fn wait(self) -> Status {
        self.process.wait(PATIENCE);
        self.process.status(&self.name)
    }
}

/// What is known of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Which tool.
    pub name: String,
    /// The number of the process that holds it.
    pub pid: u32,
    /// Whether it runs.
    pub running: bool,
    /// What it returned.
    pub exit_code: Option<i32>,
    /// How else it ended.
    pub end: Option<String>,
    /// How long it has been running, or ran.
    pub uptime_ms: u64,
    /// The last of its standard output.
    pub stdout: String,
    /// The last of its standard error.
    pub stderr: String,
}

impl Status {
    /// The same for machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name, "pid": self.pid, "running": self.running, "exit_code": self.exit_code,
            "end": self.end, "uptime_ms": self.uptime_ms, "stdout": self.stdout, "stderr": self.stderr,
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    fn is_running(&self) -> bool {
        lock(&self.shared.ended).is_none()
    }

    fn wait(&self, patience: Duration) -> Option<Ended> {
        let until = Instant::now() + patience;
        let mut ended = lock(&self.shared.ended);
        while ended.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.changed.wait_timeout(ended, left);
            ended = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        ended.clone()
    }

    fn status(&self, name: &str) -> Status {
        let ended = lock(&self.shared.ended).clone();
        let uptime = ended.as_ref().map_or_else(Instant::now, |ended| ended.at).duration_since(self.begun);
        let (exit_code, end) = match ended.as_ref().map(|ended| &ended.end) {
            None => (None, None),
            Some(Ok(End::Exited(code))) => (Some(*code), None),
            Some(Ok(End::Signaled(number))) => (None, Some(format!("signal {number}"))),
            Some(Ok(End::Limit(limit))) => (None, Some(format!("the {} limit", limit.name()))),
            Some(Ok(End::Setup(failure))) => (None, Some(failure.to_string())),
            Some(Err(error)) => (None, Some(error.clone())),
        };
        Status {
            name: name.to_owned(),
            pid: self.pid,
            running: ended.is_none(),
            exit_code,
            end,
            uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            stdout: lock(&self.shared.stdout).text(),
            stderr: lock(&self.shared.stderr).text(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.leash.take());
        if let Some(waiter) = self.waiter.take() {
            // The waiter ends when nothing of the launch is left.
            let _ = waiter.join();
        }
    }
}

impl Processes {
    /// A process that runs under this name.
    #[must_use]
    pub fn running(&self, name: &str) -> Option<Status> {
        self.by_name.get(name).filter(|process| process.is_running()).map(|process| process.status(name))
    }

    /// How many run.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.by_name.values().filter(|process| process.is_running()).count()
    }

    /// Takes a process on and reads what it prints from now on. An older one of that name, which has ended, is
    /// forgotten, and so are all that have ended when there are many.
    ///
    /// # Errors
    /// When its fence could not be built.
    pub fn take_on(
        &mut self,
        name: &str,
        started: Started,
        agent: &str,
        audit: Arc<dyn Sink>,
    ) -> Result<Status, String> {
        if self.by_name.len() >= 2 * MOST_ALIVE {
            self.by_name.retain(|_, process| process.is_running());
        }
        let Started { mut child, network, id } = started;
        let shared = Arc::new(Shared::default());
        let readers: Vec<JoinHandle<()>> =
            [child.stdout.take().map(|file| (file, false)), child.stderr.take().map(|file| (file, true))]
                .into_iter()
                .flatten()
                .map(|(file, error)| spawn_reader(file, error, Arc::clone(&shared)))
                .collect();
        drop(child.stdin.take());
        let (pid, leash) = (child.id(), child.leash());
        let waiter =
            spawn_waiter(child, network, readers, Arc::clone(&shared), (agent.to_owned(), id, audit));
        let process = Process { pid, begun: Instant::now(), leash, shared, waiter: Some(waiter) };
        if let Some(Ended { end: Err(error), .. }) = process.wait(FIRST_LOOK) {
            return Err(error);
        }
        if let Some(Ended { end: Ok(End::Setup(failure)), .. }) = process.wait(Duration::ZERO) {
            return Err(failure.to_string());
        }
        let status = process.status(name);
        self.by_name.insert(name.to_owned(), process);
        Ok(status)
    }

    /// What is known of a process, running or not.
    #[must_use]
    pub fn status(&self, name: &str) -> Option<Status> {
        self.by_name.get(name).map(|process| process.status(name))
    }

    /// All processes that are known.
    #[must_use]
    pub fn all(&self) -> Vec<Status> {
        self.by_name.iter().map(|(name, process)| process.status(name)).collect()
    }

    /// Has a process end with everything it started, and forgets it; whoever wants to know waits for it.
    pub fn let_go(&mut self, name: &str) -> Option<Ending> {
        let mut process = self.by_name.remove(name)?;
        drop(process.leash.take());
        Some(Ending { name: name.to_owned(), process })
    }

    /// Ends everything.
    pub fn stop_all(&mut self) {
        // All are let go of before any is waited for.
        for process in self.by_name.values_mut() {
            drop(process.leash.take());
        }
        self.by_name.clear();
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.stop_all();
    }
}

fn spawn_reader(mut file: File, error: bool, shared: Arc<Shared>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 16 << 10];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => {
                    let ring = if error { &shared.stderr } else { &shared.stdout };
                    lock(ring).push(&buffer[..length]);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    })
}

fn spawn_waiter(
    child: Child,
    network: Option<Network>,
    readers: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
    (agent, id, audit): (String, String, Arc<dyn Sink>),
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let outcome: Result<Outcome, PlatformError> = child.wait();
        drop(network);
        // Nothing of the launch is left, so that both pipes have ended or are about to.
        readers.into_iter().for_each(|reader| drop(reader.join()));
        let _ = record_end(&agent, &id, &outcome, &*audit);
        let end = outcome.map(|outcome| outcome.end).map_err(|error| error.to_string());
        *lock(&shared.ended) = Some(Ended { end, at: Instant::now() });
        shared.changed.notify_all();
    })
}
