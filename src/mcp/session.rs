//! One wrapped server from its start to its end.
//!
//! Answers for the order of things: rules, requirements, pins, the decision, the launch, the streams, the end.
//! Invariant: a server is started only by a permit, and everything it does is recorded under its name.

use super::aside::Aside;
use super::attaching::Attaching;
use super::deciding::remark;
use super::gate::{Gate, Teller};
use super::resolve::Resolved;
use super::rules::{Origin, Rules, chain};
use super::stderr::pass_on;
use super::watch::Watch;
use super::wrap::{Out, PARTING, WrapError, carry, farewell};
use crate::audit::{Event, Rate, Sink};
use crate::decide::{Decision, Denial, DenialCode, Permit, Request, decide};
use crate::plan::Invocation;
use crate::policy::Policy;
use crate::profile::mcp_state;
use crate::run::{Live, RunError, Started, denial_of, denied, end_events, exit_status, start};
use crate::tool::unmet;
use sbx_platform::report::Act;
use sbx_platform::{Backend, End, Outcome, Pipe, Signals};
use serde_json::json;
use std::ffi::OsString;
use std::sync::Arc;

/// Refusals of the kernel that are recorded at once; more are counted.
const REFUSED_AT_ONCE: u32 = 500;
/// Refusals of the kernel that are recorded a second after that.
const REFUSED_A_SECOND: u32 = 50;

/// What is to be wrapped, and how.
#[derive(Debug)]
pub struct Session {
    /// Where rules come from.
    pub origin: Origin,
    /// The command as it was typed.
    pub command: Vec<OsString>,
    /// What it comes to.
    pub resolved: Resolved,
    /// Behind which backend.
    pub backend: Option<Backend>,
    /// Guarantees that are done without.
    pub accepted: Vec<String>,
    /// The longest line that is taken.
    pub most: usize,
    /// Whether the server is followed, so that what it was not shown and may not run is told too.
    pub explain: bool,
}

/// Why a server was not wrapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Record, allowlist or pins are not right.
    #[error("{0}")]
    Rules(String),
    /// The agent may not run it.
    #[error("{0}")]
    Denied(Box<Denial>),
    /// Another version is pinned.
    #[error("{package} {pinned} is pinned, and {found} was found")]
    Version {
        /// Which package.
        package: String,
        /// The pinned version.
        pinned: String,
        /// The version that would run.
        found: String,
    },
    /// The command or the fence cannot be had.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The streams failed.
    #[error(transparent)]
    Wrap(#[from] WrapError),
    /// What cannot be recorded is not run.
    #[error("the launch cannot be recorded, so nothing was run")]
    Audit(#[source] std::io::Error),
}

impl SessionError {
    /// The status a shell would see.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Denied(_) => 126,
            Self::Run(error) => error.exit_status(),
            Self::Rules(_) | Self::Version { .. } | Self::Wrap(_) | Self::Audit(_) => 125,
        }
    }
}

impl Session {
    /// Runs the server until it or the client ends; the status a shell would see.
    ///
    /// # Errors
    /// When nothing was run.
    pub fn run(
        &self,
        log: Arc<dyn Sink>,
        teller: Arc<dyn Teller>,
        aside: &Aside,
    ) -> Result<u8, SessionError> {
        // Before any thread is started, so that the signals come to us and to nobody else; a remark starts one.
        let signals = Signals::collect().map_err(WrapError::from)?;
        let (rules, watch) = Watch::load(self.origin.clone()).map_err(SessionError::Rules)?;
        self.check(&rules)?;
        teller.tell(&rules.allowlist.summary());
        if let Some((package, version)) = &self.resolved.package {
            teller.tell(&format!("{package} {version}"));
        }
        self.state_hint(&rules).into_iter().for_each(|hint| teller.tell(&hint));
        let open = rules.deciding.iter().filter_map(|file| remark(file, &rules.policy));
        let found = rules.pins.iter().filter_map(|pinned| pinned.remark.clone());
        open.chain(found).for_each(|remark| teller.tell(&remark));
        let agent = rules.policy.agent().to_owned();
        let out = Out::to_client().map_err(WrapError::from)?;
        let attaching = Arc::new(Attaching::new(Arc::clone(&log)));
        let told_of: Arc<dyn Sink> = attaching.clone();
        let Started { mut child, network, id, .. } = self.launch(&rules, [Pipe::New; 3], &told_of)?;
        let stderr = child.stderr.take().map(|from| pass_on(from, aside.clone(), Arc::clone(&teller)));
        if let Some(told) = child.told() {
            let (policy, requests, log) = (rules.policy.clone(), self.requests(), told_of);
            std::thread::spawn(move || note_refusals(told, &policy, &requests, log.as_ref()));
        }
        log.stay_open();
        let gate = Gate::new(rules, &self.origin.server, Arc::clone(&log), Arc::clone(&teller));
        let gate = Arc::new(gate.running(self.resolved.package.clone()));
        attaching.attach(Arc::clone(&gate));
        let (gated, tells) = (Arc::clone(&gate), Arc::clone(&teller));
        let ended = carry(child, signals, gated, watch, tells, out.clone(), self.most);
        let why = match &ended {
            Ok(carried) => {
                carried.hear_out();
                told(&carried.outcome)
            }
            Err(error) => error.to_string(),
        };
        // What happened is kept before anybody is told of it who may not listen.
        gate.settle();
        let outcome = ended.as_ref().map(|carried| &carried.outcome);
        self.record_end(&agent, &id, outcome.map_err(|error| chain(error)), log.as_ref());
        drop(network);
        farewell(&gate, &out, &why);
        if let Some(all_said) = stderr {
            let _ = all_said.recv_timeout(PARTING);
        }
        let outcome = ended?.outcome;
        if !matches!(outcome.end, End::Exited(0)) {
            teller.tell(&why);
        }
        Ok(exit_status(&outcome.end))
    }

    /// Records how a launched server ended, or why that is not known.
    pub fn record_end(&self, agent: &str, id: &str, ended: Result<&Outcome, String>, log: &dyn Sink) {
        for mut event in end_events(agent, id, ended) {
            event.body.insert("server".to_owned(), json!(self.origin.server));
            // What has run has run, whether or not that can be told.
            let _ = log.record(event);
        }
    }

    /// Starts the server behind its fence.
    ///
    /// # Errors
    /// When the agent may not run it, or it cannot be run.
    pub fn launch(
        &self,
        rules: &Rules,
        stdio: [Pipe; 3],
        log: &Arc<dyn Sink>,
    ) -> Result<Started, SessionError> {
        let entry = self.resolved.entry.as_ref();
        let (typed, resolved) = self.requests();
        let permit = self.permit(rules, &typed, resolved.as_ref())?;
        let event = json!({
            "server": self.origin.server,
            "argv": self.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>(),
            "runs": entry.map(|entry| entry.argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>()),
            "package": self.resolved.package.as_ref().map(|(name, version)| format!("{name} {version}")),
            "cwd": self.origin.cwd.to_string_lossy(),
            "grant": permit.grant().spec.to_string(),
        });
        log.record(Event::new("mcp", rules.policy.agent(), event)).map_err(SessionError::Audit)?;
        let invocation = Invocation::new(sbx_platform::ids())
            .accepting(self.accepted.clone())
            .entry(self.resolved.entry.clone())
            .telling()
            .tracing(self.explain)
            .protecting(rules.deciding.clone());
        Ok(start(&permit, &invocation, self.backend, &Live, stdio, log)?)
    }

    /// The command as it was typed, and what it comes to.
    fn requests(&self) -> (Request, Option<Request>) {
        let mut typed = self.command.clone();
        // A name means a file of the search path inside; another file is decided on as that file.
        if let (Some(first), Some(file)) = (typed.first_mut(), &self.resolved.file) {
            *first = file.clone().into();
        }
        let of = |argv: Vec<OsString>| Request::exec(argv).in_dir(&self.origin.cwd);
        (of(typed), self.resolved.entry.as_ref().map(|entry| of(entry.argv.clone())))
    }

    /// The permit for the command as typed, or for what it comes to.
    fn permit<'r>(
        &self,
        rules: &'r Rules,
        typed: &'r Request,
        resolved: Option<&'r Request>,
    ) -> Result<Permit<'r>, SessionError> {
        let denial = match decide(&rules.policy, typed) {
            Decision::Allow(permit) => return Ok(permit),
            Decision::Deny(denial) => denial,
        };
        let second = resolved.and_then(|request| decide(&rules.policy, request).permit());
        second.ok_or(SessionError::Denied(denial))
    }

    /// What must hold before anything is started.
    ///
    /// # Errors
    /// When the agent lacks a requirement, or another version is pinned.
    pub fn check(&self, rules: &Rules) -> Result<(), SessionError> {
        let requires = rules.policy.sections().mcp.as_ref().map(|section| section.requires.as_slice());
        if let Some(unmet) = unmet(&rules.policy, requires.unwrap_or_default()).into_iter().next() {
            let (agent, message) = (rules.policy.agent(), format!("{}: {}", unmet.requirement, unmet.reason));
            let denial = Denial::of_tool(DenialCode::CapabilityAbsent, agent, &self.origin.server, message);
            return Err(SessionError::Denied(Box::new(denial)));
        }
        let pins = rules.pins.as_ref().and_then(|pinned| pinned.pins.as_ref());
        let found = self.resolved.package.as_ref();
        let Some((package, pinned)) = pins.and_then(|pins| pins.other_package(found)) else { return Ok(()) };
        let found = match found {
            None => "no version".to_owned(),
            Some((name, version)) if name == package => version.clone(),
            Some((name, version)) => format!("{name} {version}"),
        };
        Err(SessionError::Version { package: package.clone(), pinned: pinned.clone(), found })
    }

    /// What to do about a server that would keep its state where nothing can be kept.
    fn state_hint(&self, rules: &Rules) -> Option<String> {
        let (variable, what) = mcp_state(&self.origin.known_as)?;
        let passed = rules.policy.sections().env.iter().any(|rule| rule.name == variable);
        let advice = match (passed, std::env::var_os(variable)) {
            (true, Some(_)) => return None,
            (true, None) => format!("set {variable} to a file that the agent may write"),
            (false, _) => {
                format!(
                    "set {variable} to a file that the agent may write, and add `env: [{variable}]` to the record"
                )
            }
        };
        Some(format!("{what} cannot be kept in the server's own package: {advice}"))
    }
}

/// Records what the kernel refused, as the denials it comes to.
fn note_refusals(
    told: impl Iterator<Item = Act>,
    policy: &Policy,
    (typed, resolved): &(Request, Option<Request>),
    log: &dyn Sink,
) {
    let second = || decide(policy, resolved.as_ref()?).permit();
    let Some(permit) = decide(policy, typed).permit().or_else(second) else { return };
    let mut rate = Rate::new(REFUSED_AT_ONCE, REFUSED_A_SECOND);
    for act in told {
        let Some(denial) = denial_of(&permit, &act) else { continue };
        // A server can ask for the same as often as it likes.
        let Some(left_out) = rate.admit() else { continue };
        let mut event = denied(&denial);
        event.body.insert("call".to_owned(), act.call.into());
        if left_out > 0 {
            event.body.insert("left_out_before".to_owned(), left_out.into());
        }
        // It was refused, whether or not this can be told.
        let _ = log.record(event);
    }
}

/// How a server ended, for people and for clients that still wait.
fn told(outcome: &Outcome) -> String {
    match &outcome.end {
        End::Exited(code) => format!("the server ended with status {code}"),
        End::Signaled(number) => format!("the server was ended by signal {number}"),
        End::Limit(limit) => format!("the server reached its {} limit", limit.name()),
        End::Setup(failure) => format!("the fence could not be built: {failure}"),
    }
}
