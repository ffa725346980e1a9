//! Runs a permitted command behind the fence and says how it ended.

use super::cancel::Cancel;
use super::kept::marks;
use super::lacks::{Lacks, lacks};
use super::live::Live;
use super::network::Network;
use super::record;
use super::repositories::armed_repositories;
use crate::audit::{Event, Sink, new_session};
use crate::decide::{Denial, Permit};
use crate::net::Gateway;
use crate::plan::{Host, Invocation, LowerError, Lowered, Outlet, lower, lower_helper};
use crate::policy::Policy;
use sbx_platform::door::{Doors, Porter};
use sbx_platform::plan::Stdio;
use sbx_platform::report::{Limit, Step};
use sbx_platform::{Backend, Child, End, Outcome, Pipe, Plan, PlatformError};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A launch that ended, with what is worth saying about it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ran {
    /// How it ended, and what held.
    pub outcome: Outcome,
    /// Where the kernel held less than `decide` allows, or the like.
    pub remarks: Vec<String>,
    /// What the launch left behind that would run code outside the fence.
    pub warnings: Vec<String>,
    /// What was asked of the network and is not granted.
    pub refused: Vec<Denial>,
    /// Repositories of the working tree that a command which failed could not reach; there is a remark about each.
    pub led_out: Vec<PathBuf>,
}

/// Why nothing was run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The command cannot be carried out here.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The fence cannot be had here.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// A secret cannot be had.
    #[error("cannot read the secret for {name}")]
    Secret {
        /// The variable.
        name: String,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// The network cannot be served.
    #[error("cannot prepare the network")]
    Network(#[source] std::io::Error),
    /// The program's own file is not where it was.
    #[error("cannot find the file of sbx itself")]
    Own(#[source] std::io::Error),
    /// It could not be recorded, and what cannot be recorded is not run.
    #[error("the launch cannot be recorded, so nothing was run")]
    Audit(#[source] std::io::Error),
}

/// Runs a permitted command and waits until nothing of it is left. Its launch and its end are recorded.
///
/// # Errors
/// When the command or the fence cannot be had, or the launch cannot be recorded; nothing has run then.
pub fn run(
    permit: &Permit<'_>,
    invocation: &Invocation,
    backend: Option<Backend>,
    audit: &Arc<dyn Sink>,
) -> Result<Ran, RunError> {
    run_on(permit, invocation, backend, audit, &Live)
}

/// The same, with other answers about the machine: a caller's environment that is not this process's own.
///
/// # Errors
/// As for [`run`].
pub fn run_on(
    permit: &Permit<'_>,
    invocation: &Invocation,
    backend: Option<Backend>,
    audit: &Arc<dyn Sink>,
    host: &dyn Host,
) -> Result<Ran, RunError> {
    run_until(permit, invocation, backend, audit, host, None)
}

/// The same, ended early when someone wishes so. With such a wish, or in a program with threads, what is run must be
/// captured.
///
/// # Errors
/// As for [`run`].
pub fn run_until(
    permit: &Permit<'_>,
    invocation: &Invocation,
    backend: Option<Backend>,
    audit: &Arc<dyn Sink>,
    host: &dyn Host,
    cancel: Option<&Cancel>,
) -> Result<Ran, RunError> {
    let id = new_session();
    let agent = permit.policy().agent();
    let mut telling = Telling {
        tell: || audit.record(record::launch(permit, &id, backend)),
        told: None,
        network: Network::of(permit.policy(), audit)?,
    };
    let ran = carry_out(permit, invocation, backend, &mut telling, host, cancel);
    // What did not even begin is told of too.
    let told = telling.told.unwrap_or_else(|| (telling.tell)());
    told.map_err(RunError::Audit)?;
    let events = match &ran {
        Ok(ran) => record::ended(agent, &id, &ran.outcome),
        Err(error) => vec![record::failed(agent, &id, error.exit_status(), &error.to_string())],
    };
    let unrecorded = events.into_iter().find_map(|event| audit.record(event).err());
    ran.map(|ran| Ran {
        // What has run has run: its end is told without the log, and the next launch will not begin.
        warnings: ran.warnings.into_iter().chain(unrecorded.map(|error| error.to_string())).collect(),
        ..ran
    })
}

fn carry_out(
    permit: &Permit<'_>,
    invocation: &Invocation,
    backend: Option<Backend>,
    telling: &mut Telling<impl FnMut() -> io::Result<()>>,
    host: &dyn Host,
    cancel: Option<&Cancel>,
) -> Result<Ran, RunError> {
    let invocation = invocation.clone().outlet(telling.network.as_ref().map(Network::outlet));
    let lowered = lower(permit, &invocation, host)?;
    let captured = invocation.stdio == Stdio::Capture;
    let outcome = match cancel.filter(|_| captured) {
        Some(cancel) => apart(&lowered.plan, backend, telling, cancel)?,
        None => match sbx_platform::launch(&lowered.plan, backend, Some(telling)) {
            // A program with threads has a launcher build the fence; what is captured comes back with the outcome.
            Err(PlatformError::Threads { .. }) if captured => {
                apart(&lowered.plan, backend, telling, &Cancel::default())?
            }
            other => other?,
        },
    };
    let refused = telling.network.as_ref().map(Network::stop).unwrap_or_default();
    let warnings = armed_repositories(&outcome.acts);
    let failed = matches!(outcome.end, End::Exited(status) if status != 0);
    let lacks = if failed { lacks(permit, &outcome.acts) } else { Lacks::default() };
    let marks = if failed { marks(permit, &outcome.acts) } else { Vec::new() };
    let remarks = lowered.remarks.into_iter().chain(marks).chain(lacks.remarks).collect();
    Ok(Ran { outcome, remarks, warnings, refused, led_out: lacks.repositories })
}

/// What a permitted command would be launched with; nothing is prepared, and no secret is read.
///
/// # Errors
/// When the command cannot be carried out here.
pub fn planned(permit: &Permit<'_>, invocation: &Invocation, host: &dyn Host) -> Result<Lowered, LowerError> {
    let outlet = Gateway::is_needed(permit.policy()).then(Outlet::default);
    lower(permit, &invocation.clone().outlet(outlet), host)
}

/// Carries a plan out in a launcher of its own, which has nothing of this process's streams but the way to complain.
fn apart(
    plan: &Plan,
    backend: Option<Backend>,
    telling: &mut Telling<impl FnMut() -> io::Result<()>>,
    cancel: &Cancel,
) -> Result<Outcome, RunError> {
    telling.tell_once().map_err(RunError::Audit)?;
    let mut child = sbx_platform::spawn(plan, backend, [Pipe::New, Pipe::New, Pipe::Inherit], Some(telling))?;
    cancel.hold(child.leash());
    drop((child.stdin.take(), child.stdout.take()));
    let outcome = child.wait();
    cancel.release();
    Ok(outcome?)
}

/// Tells of a launch while its fence is being built, and serves its network.
struct Telling<T> {
    tell: T,
    /// What came of telling.
    told: Option<io::Result<()>>,
    network: Option<Network>,
}

impl<T: FnMut() -> io::Result<()>> Telling<T> {
    /// Tells of the launch; what came of it is kept for the caller.
    fn tell_once(&mut self) -> io::Result<()> {
        let told = (self.tell)();
        let answer = if told.is_ok() { Ok(()) } else { Err(io::ErrorKind::Other.into()) };
        self.told = Some(told);
        answer
    }
}

impl<T: FnMut() -> io::Result<()>> Porter for Telling<T> {
    fn begun(&mut self) -> io::Result<()> {
        self.tell_once()?;
        self.network.as_mut().map_or(Ok(()), Network::begun)
    }

    fn open(&mut self, doors: Doors) -> io::Result<()> {
        self.network.as_mut().map_or(Ok(()), |network| network.open(doors))
    }
}

/// A command that was started and left running.
#[derive(Debug)]
#[non_exhaustive]
pub struct Started {
    /// The command.
    pub child: Child,
    /// What serves its network; to be kept until the command has ended.
    pub network: Option<Network>,
    /// The name under which its launch is recorded.
    pub id: String,
}

/// Starts a permitted command in a launcher process of its own, with pipes, and returns at once.
///
/// Its launch is recorded, under the name that is returned; its end is for whoever waits for it to record.
///
/// # Errors
/// When the command cannot be carried out here, it cannot be recorded, or no launcher can be started.
pub fn start(
    permit: &Permit<'_>,
    invocation: &Invocation,
    backend: Option<Backend>,
    host: &dyn Host,
    stdio: [Pipe; 3],
    audit: &Arc<dyn Sink>,
) -> Result<Started, RunError> {
    let id = new_session();
    let mut network = Network::of(permit.policy(), audit)?;
    let invocation = invocation.clone().outlet(network.as_ref().map(Network::outlet));
    let lowered = lower(permit, &invocation, host)?;
    audit.record(record::launch(permit, &id, backend)).map_err(RunError::Audit)?;
    let porter = network.as_mut().map(|network| network as &mut dyn Porter);
    let child = sbx_platform::spawn(&lowered.plan, backend, stdio, porter);
    let child = begun(child, permit.policy().agent(), &id, audit.as_ref())?;
    Ok(Started { child, network, id })
}

/// A launch that was recorded and came to nothing has an end too.
fn begun(
    child: Result<Child, PlatformError>,
    agent: &str,
    id: &str,
    audit: &dyn Sink,
) -> Result<Child, RunError> {
    child.map_err(|error| {
        // Nothing has run, whether or not that can be told.
        let _ = audit.record(record::failed(agent, id, 125, &error.to_string()));
        error.into()
    })
}

/// Starts this very program behind the agent's file grants, to do what is decided outside, and returns at once.
///
/// Its launch is recorded as for [`start`].
///
/// # Errors
/// When the fence cannot be had, it cannot be recorded, or this program is not where it was.
pub fn start_helper(
    policy: &Policy,
    argv: Vec<OsString>,
    invocation: &Invocation,
    backend: Option<Backend>,
    audit: &Arc<dyn Sink>,
) -> Result<Started, RunError> {
    let program = std::env::current_exe().and_then(std::fs::canonicalize).map_err(RunError::Own)?;
    let id = new_session();
    let told = record::helper(policy, &id, &argv, backend);
    let lowered = lower_helper(policy, &program, argv, invocation, &Live)?;
    audit.record(told).map_err(RunError::Audit)?;
    let child = sbx_platform::spawn(&lowered.plan, backend, [Pipe::New; 3], None);
    let child = begun(child, policy.agent(), &id, audit.as_ref())?;
    Ok(Started { child, network: None, id })
}

/// Records how a started command ended.
///
/// # Errors
/// When it cannot be recorded.
pub fn record_end(
    agent: &str,
    id: &str,
    ended: &Result<Outcome, PlatformError>,
    audit: &dyn Sink,
) -> std::io::Result<()> {
    let events = end_events(agent, id, ended.as_ref().map_err(ToString::to_string));
    events.into_iter().try_for_each(|event| audit.record(event))
}

/// How a started command ended, or why that is not known, as events.
#[must_use]
pub fn end_events(agent: &str, id: &str, ended: Result<&Outcome, String>) -> Vec<Event> {
    match ended {
        Ok(outcome) => record::ended(agent, id, outcome),
        Err(error) => vec![record::failed(agent, id, 125, &error)],
    }
}

/// The status a shell would see: the command's own, 128+n for a signal, 124 for a time limit, 125 when the
/// fence failed, 126 and 127 when the program could not be executed or found.
#[must_use]
pub fn exit_status(end: &End) -> u8 {
    const ENOENT: i32 = 2;
    const ENOEXEC: i32 = 8;
    const EACCES: i32 = 13;
    match end {
        End::Exited(code) => u8::try_from(*code).unwrap_or(u8::MAX),
        End::Signaled(number) => u8::try_from(128 + number).unwrap_or(u8::MAX),
        End::Limit(Limit::Wall | Limit::Cpu) => 124,
        End::Limit(_) => 137,
        End::Setup(failure) => match (failure.step, failure.errno) {
            (Step::Exec, ENOENT) => 127,
            (Step::Exec, EACCES | ENOEXEC) => 126,
            _ => 125,
        },
    }
}

/// The status a shell would see of a launch: that of its end, or 125 where the command was content and what it wrote did
/// not arrive.
#[must_use]
pub fn outcome_status(outcome: &Outcome) -> u8 {
    match exit_status(&outcome.end) {
        0 if !outcome.lost.is_empty() => 125,
        status => status,
    }
}

impl RunError {
    /// The status a shell would see.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Lower(LowerError::NotFound { .. } | LowerError::NoFile(_) | LowerError::Nameless) => 127,
            Self::Lower(LowerError::NotExecutable(_)) => 126,
            Self::Lower(_)
            | Self::Platform(_)
            | Self::Secret { .. }
            | Self::Network(_)
            | Self::Own(_)
            | Self::Audit(_) => 125,
        }
    }
}

/// The outcome for machines.
#[must_use]
pub fn outcome_json(outcome: &Outcome) -> Value {
    let mut body = json!({
        "exit": null, "signal": null, "limit": null, "setup": null,
        "status": outcome_status(outcome),
        "duration_ms": u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
        "backend": outcome.enforcement.backend.name(),
        "guarantees": outcome.enforcement.given.iter().map(|given| given.name()).collect::<Vec<_>>(),
        "missing": outcome.enforcement.missing().map(|missing| missing.name()).collect::<Vec<_>>(),
        "reached": outcome.reached.iter().map(|limit| limit.name()).collect::<Vec<_>>(),
    });
    if !outcome.lost.is_empty() {
        body["lost"] = outcome.lost.iter().map(|lost| json!(lost.to_string())).collect();
    }
    match &outcome.end {
        End::Exited(code) => body["exit"] = json!(code),
        End::Signaled(number) => body["signal"] = json!(number),
        End::Limit(limit) => body["limit"] = json!(limit.name()),
        End::Setup(failure) => body["setup"] = json!(failure.to_string()),
    }
    body
}
