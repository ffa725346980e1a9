//! Sessions: tools that are left running, a private directory, and tools of the session's own, for as long as the
//! session lasts.
//!
//! [`Session`] is one inside a program; [`supervise`] serves one to others over a socket, and [`Client`] is how they
//! reach it. No daemon: the first client starts the supervisor, which ends with its session.
//! Invariant: when a session ends, however it ends, nothing of it is left running.

mod client;
mod place;
mod processes;
mod ring;
mod serve;
mod wire;

pub use client::{Client, Lease};
pub use place::{SessionDir, SessionError, SessionPlace, is_session_id, sessions, sweep};
pub use processes::{Ending, MOST_ALIVE, Processes, Status};
pub use ring::RING;
pub use serve::{IDLE, supervise};
pub use wire::{Answer, Ask, StartAsk};

use crate::audit::Sink;
use crate::decide::{Decision, Denial, DenialCode, decide};
use crate::run::launch::start;
use crate::run::tools::{Caller, Stop, prepare};
use crate::run::tools::{not_started, record};
use crate::tool::{Given, Tool, ToolCode};
use place::Taken;
use sbx_platform::Pipe;
use std::path::Path;
use std::sync::Arc;

/// A session inside this program.
#[derive(Debug)]
pub struct Session {
    id: String,
    processes: Processes,
    dir: Option<SessionDir>,
    audit: Arc<dyn Sink>,
    /// Where the directory is remembered, so that it goes even when this program is killed.
    memory: Memory,
}

/// Whether a session remembers its directory itself.
#[derive(Debug)]
enum Memory {
    /// Somebody else does, or nobody.
    Others,
    /// It does, from when there is one.
    Own(Option<Taken>),
}

impl Session {
    /// A session in which nothing runs yet.
    #[must_use]
    pub fn new(id: &str, audit: Arc<dyn Sink>) -> Self {
        let memory = Memory::Others;
        Self { id: id.to_owned(), processes: Processes::default(), dir: None, audit, memory }
    }

    /// The same for a program that nobody supervises: what it leaves when it is killed is removed by the next one.
    #[must_use]
    pub fn alone(id: &str, audit: Arc<dyn Sink>) -> Self {
        Self { memory: Memory::Own(None), ..Self::new(id, audit) }
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its private directory, made when it is first asked for and removed with the session.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn dir(&mut self) -> std::io::Result<&Path> {
        let dir = match self.dir.take() {
            Some(dir) => dir,
            None => self.make_dir()?,
        };
        Ok(self.dir.insert(dir).path())
    }

    fn make_dir(&mut self) -> std::io::Result<SessionDir> {
        let dir = SessionDir::make()?;
        if let Memory::Own(taken) = &mut self.memory {
            // Without a place for state the directory is only removed when the session ends as it should.
            *taken = SessionPlace::open(&self.id).and_then(SessionPlace::take).ok().flatten();
            taken.iter().try_for_each(|taken| taken.remember(dir.path()))?;
        }
        Ok(dir)
    }

    /// Starts a tool that is left running. While it runs, starting it again only says so.
    ///
    /// # Errors
    /// A denial, a limit, or why it could not be started.
    pub fn start(&mut self, tool: &Tool, given: &Given, caller: &Caller<'_>) -> Result<Status, Stop> {
        let started = self.try_start(tool, given, caller);
        let told = started.as_ref().map(|_| crate::run::tools::Report::default()).map_err(Clone::clone);
        record(tool, "start", given, &told, caller);
        started
    }

    fn try_start(&mut self, tool: &Tool, given: &Given, caller: &Caller<'_>) -> Result<Status, Stop> {
        if !tool.persistent {
            return Err(Stop::failed(ToolCode::WrongKind, &tool.name, "it is not left running: run it"));
        }
        if let Some(status) = self.processes.running(&tool.name) {
            return Ok(status);
        }
        if self.processes.alive() >= MOST_ALIVE {
            let message = format!("{MOST_ALIVE} tools run in this session already");
            let mut denial =
                Denial::of_tool(DenialCode::LimitExceeded, caller.policy.agent(), &tool.name, message);
            denial.hint = Some("stop one first".to_owned());
            return Err(Stop::Denied(Box::new(denial)));
        }
        let dir = match (caller.session_dir, tool.wants_session_dir()) {
            (None, true) => {
                let made = self.dir().map(Path::to_path_buf);
                Some(made.map_err(|error| {
                    Stop::failed(ToolCode::NotStarted, &tool.name, format!("no session directory: {error}"))
                })?)
            }
            (given, _) => given.map(Path::to_path_buf),
        };
        let caller = Caller { session: Some(&self.id), session_dir: dir.as_deref(), ..*caller };
        let prepared = prepare(tool, given, &caller)?;
        let permit = match decide(&prepared.policy, &prepared.request) {
            Decision::Allow(permit) => permit,
            Decision::Deny(denial) => return Err(Stop::Denied(denial)),
        };
        let pipes = [Pipe::New, Pipe::New, Pipe::New];
        let started = start(&permit, &prepared.invocation, caller.backend, caller.host, pipes, caller.audit)
            .map_err(|error| not_started(tool, &error))?;
        let agent = caller.policy.agent();
        let taken = self.processes.take_on(&tool.name, started, agent, Arc::clone(&self.audit));
        taken.map_err(|error| Stop::failed(ToolCode::NotStarted, &tool.name, error))
    }

    /// What is known of a tool that was started.
    ///
    /// # Errors
    /// When none of that name was.
    pub fn status(&self, name: &str) -> Result<Status, Stop> {
        self.processes.status(name).ok_or_else(|| nothing(name))
    }

    /// Everything that was started and is known.
    #[must_use]
    pub fn all(&self) -> Vec<Status> {
        self.processes.all()
    }

    /// Ends a tool and forgets it.
    ///
    /// # Errors
    /// When none of that name was started.
    pub fn stop(&mut self, name: &str) -> Result<Status, Stop> {
        self.let_go(name).map(Ending::wait)
    }

    /// Has a tool end and forgets it, for whoever must not be held up while it ends.
    ///
    /// # Errors
    /// When none of that name was started.
    pub fn let_go(&mut self, name: &str) -> Result<Ending, Stop> {
        self.processes.let_go(name).ok_or_else(|| nothing(name))
    }

    /// Ends everything that runs, and takes the session's directory away.
    pub fn close(&mut self) {
        self.processes.stop_all();
        drop(self.dir.take());
        if let Memory::Own(taken) = &mut self.memory {
            drop(taken.take());
        }
    }
}

fn nothing(name: &str) -> Stop {
    Stop::failed(ToolCode::NoSuchProcess, name, "nothing of this name was started in the session")
}
