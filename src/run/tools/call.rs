//! A call of a tool: checked, decided, narrowed, run.
//!
//! Order: is it offered, do the values fit, does the agent hold it, does the narrowed authority hold it,
//! does its shell text look destructive.
//! Invariant: every way to a process goes through [`prepare`].

use super::output::{Report, Stop};
use super::own::{self, Own};
use crate::audit::{Event, Sink};
use crate::capability::Capability;
use crate::decide::{Decision, Request, decide};
use crate::plan::{Host, Invocation, Private};
use crate::policy::Policy;
use crate::run::cancel::Cancel;
use crate::run::launch::{RunError, run_until};
use crate::run::risk::risk_denial;
use crate::tool::{Bound, CallFault, Given, Surroundings, Tool, ToolCode};
use sbx_platform::Backend;
use sbx_platform::path::{resolve, within};
use sbx_platform::plan::Stdio;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who calls, from where and how.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The agent.
    pub policy: &'a Policy,
    /// Where the call is made.
    pub cwd: &'a Path,
    /// The session it is made in.
    pub session: Option<&'a str>,
    /// That session's private directory.
    pub session_dir: Option<&'a Path>,
    /// How the fence is built; none for the strongest that works.
    pub backend: Option<Backend>,
    /// Guarantees the caller can do without.
    pub accepted: &'a [String],
    /// Where events go.
    pub audit: &'a Arc<dyn Sink>,
    /// The machine and the caller's environment.
    pub host: &'a dyn Host,
    /// What carries out sbx's own operations; none where only commands are called.
    pub own: Option<&'a dyn Own>,
    /// By which the caller ends the call early; none when it never does.
    pub cancel: Option<&'a Cancel>,
}

impl std::fmt::Debug for Caller<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller")
            .field("agent", &self.policy.agent())
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// A call that may be run: the narrowed authority, and what is asked of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Prepared {
    /// What is left of the agent's authority.
    pub policy: Policy,
    /// What is asked.
    pub request: Request,
    /// How it is run.
    pub invocation: Invocation,
}

/// What a call came to before anything runs.
enum Ready {
    Command(Box<Prepared>),
    Internal(Bound),
}

/// Checks a call of a tool that is a command, and narrows the agent's authority to it.
///
/// # Errors
/// A denial, or that the tool is one of sbx's own operations.
pub fn prepare(tool: &Tool, given: &Given, caller: &Caller<'_>) -> Result<Prepared, Stop> {
    match ready(tool, given, caller)? {
        Ready::Command(prepared) => Ok(*prepared),
        Ready::Internal(_) => {
            Err(Stop::failed(ToolCode::WrongKind, &tool.name, "it is one of sbx's own operations"))
        }
    }
}

fn ready(tool: &Tool, given: &Given, caller: &Caller<'_>) -> Result<Ready, Stop> {
    let policy = caller.policy;
    if let Some(denial) = tool.withheld(policy) {
        return Err(Stop::Denied(Box::new(denial)));
    }
    let session_dir = caller.session_dir.map(|dir| resolve(dir).unwrap_or_else(|_| dir.to_path_buf()));
    let refuse = |fault: &CallFault| Stop::Denied(Box::new(tool.refuse(policy.agent(), fault)));
    let follow = |path: &Path| resolve(path).unwrap_or_else(|_| path.to_path_buf());
    let around = |cwd| Surroundings {
        facts: policy.facts(),
        session_dir: session_dir.as_deref(),
        cwd,
        resolve: &follow,
    };
    let own = tool.cwd(&around(caller.cwd)).map_err(|fault| refuse(&fault))?.map(|dir| follow(&dir));
    let private = session_dir.clone().map(|dir| {
        let cwd = own.clone().filter(|own| within(own, &dir));
        Private { dir, cwd }
    });
    let inside = private.as_ref().is_some_and(|private| private.cwd.is_some());
    let cwd = own.unwrap_or_else(|| place(policy, &follow(caller.cwd)));
    let bound = tool.bind(given, &around(&cwd)).map_err(|fault| refuse(&fault))?;
    let asked = bound.request(&tool.name);
    let Some(request) =
        asked.map_err(|error| Stop::failed(ToolCode::EmptyCommand, &tool.name, error.to_string()))?
    else {
        return Ok(Ready::Internal(bound));
    };
    // In the session's own directory no root is asked for: it is scratch, not a granted place.
    let request = if inside { request } else { request.in_dir(&cwd) };
    let narrowed = policy.narrowed(&tool.narrowing());
    for policy in [policy, &narrowed] {
        if let Decision::Deny(denial) = decide(policy, &request) {
            return Err(Stop::Denied(denial));
        }
    }
    let risky = risk_denial(policy, &cwd, &request)
        .map_err(|error| Stop::failed(ToolCode::NotStarted, &tool.name, error.to_string()))?;
    if let Some(denial) = risky {
        return Err(Stop::Denied(Box::new(denial)));
    }
    let invocation = Invocation::new(sbx_platform::ids())
        .stdio(if tool.persistent { Stdio::Inherit } else { Stdio::Capture })
        .accepting(caller.accepted.to_vec())
        .private(private);
    Ok(Ready::Command(Box::new(Prepared { policy: narrowed, request, invocation })))
}

/// Where a tool without a directory of its own runs: where it is called if the agent may run things there, else
/// in the first root where it may.
#[must_use]
pub fn place(policy: &Policy, cwd: &Path) -> PathBuf {
    let roots = || {
        let grants = policy.held(Capability::ProcExec).chain(policy.held(Capability::ProcEval));
        grants.filter_map(|grant| grant.root.as_deref())
    };
    if roots().any(|root| within(cwd, root)) {
        return cwd.to_path_buf();
    }
    roots().next().unwrap_or(cwd).to_path_buf()
}

/// Runs a tool and waits for its end.
///
/// # Errors
/// A denial, or how it failed with what it printed.
pub fn run_tool(tool: &Tool, given: &Given, caller: &Caller<'_>) -> Result<Report, Stop> {
    if tool.persistent {
        return Err(Stop::failed(ToolCode::WrongKind, &tool.name, "it is left running: start it"));
    }
    let called = match ready(tool, given, caller) {
        Ok(Ready::Command(prepared)) => run_command(tool, &prepared, caller),
        Ok(Ready::Internal(bound)) => own::run(tool, &bound, caller),
        Err(stop) => Err(stop),
    };
    record(tool, "run", given, &called, caller);
    called
}

fn run_command(tool: &Tool, prepared: &Prepared, caller: &Caller<'_>) -> Result<Report, Stop> {
    let permit = match decide(&prepared.policy, &prepared.request) {
        Decision::Allow(permit) => permit,
        Decision::Deny(denial) => return Err(Stop::Denied(denial)),
    };
    let (backend, audit, host) = (caller.backend, caller.audit, caller.host);
    let ran = run_until(&permit, &prepared.invocation, backend, audit, host, caller.cancel)
        .map_err(|error| not_started(tool, &error))?;
    Report::of(tool, &ran.outcome).evaluate(tool, &ran.outcome.end)
}

pub(in crate::run) fn not_started(tool: &Tool, error: &RunError) -> Stop {
    Stop::failed(ToolCode::NotStarted, &tool.name, error.to_string())
}

/// Tells of a call. What was about to run was recorded before it ran; a summary that is lost loses no launch.
pub(in crate::run) fn record(
    tool: &Tool,
    act: &str,
    given: &Given,
    called: &Result<Report, Stop>,
    caller: &Caller<'_>,
) {
    let mut body = json!({
        "act": act, "tool": tool.name, "layer": tool.layer.name(), "session": caller.session,
        "values": given.values, "args": given.args, "cwd": caller.cwd.to_string_lossy(),
    });
    match called {
        Ok(report) => {
            body["status"] = json!("success");
            body["exit_code"] = json!(report.exit_code);
            body["stdout_bytes"] = json!(report.stdout.len());
            body["stderr_bytes"] = json!(report.stderr.len());
            body["duration_ms"] = json!(report.duration_ms);
        }
        Err(Stop::Denied(denial)) => {
            body["status"] = json!("error");
            body["decision"] = json!("deny");
            body["error"] = json!(denial.code.name());
        }
        Err(Stop::Failed(failure)) => {
            body["status"] = json!(if failure.code == ToolCode::LimitExceeded { "timeout" } else { "error" });
            body["error"] = json!(failure.code.name());
            body["duration_ms"] = json!(failure.report.as_ref().map(|report| report.duration_ms));
            body["exit_code"] = json!(failure.report.as_ref().and_then(|report| report.exit_code));
        }
    }
    let _ = caller.audit.record(Event::new("tool", caller.policy.agent(), body));
}
