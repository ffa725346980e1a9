//! `sbx check`: one question on the command line; many are left to [`batch`](super::batch).

use super::batch::batch;
use super::{CliError, Exit, Ui, authority};
use crate::audit::{Event, Log, Sink};
use crate::capability::{Capability, Family, Target};
use crate::decide::{Decision, Request, decide};
use crate::manifest::spec_from_json;
use crate::policy::{Policy, Proposal};
use crate::run::{Setting, allowed, audit, denied};
use clap::Args;
use sbx_platform::path::{normalize, resolve};
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// What to ask.
///
/// sbx check --agent scout fs.read src/main.rs
/// sbx check --agent scout net.get https://api.github.com/
/// sbx check --agent scout proc.exec -- git log -1
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Check {
    /// An agent's name, or the path of a record.
    #[arg(long, short)]
    pub(super) agent: String,
    /// Read requests from stdin, one JSON object a line, and answer each with one line.
    #[arg(long, conflicts_with_all = ["capability", "object"])]
    pub(super) batch: bool,
    /// Record every answer in the audit log, before it is given.
    #[arg(long)]
    pub(super) audit: bool,
    /// The record's class, for records.*.
    #[arg(long)]
    pub(super) class: Option<String>,
    /// Where a command would run.
    #[arg(long = "in", value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// What is to be done, such as fs.read.
    #[arg(required_unless_present = "batch")]
    pub(super) capability: Option<String>,
    /// On what: a path, URL or host, a command with its arguments, shell text, or an id and grants.
    pub(super) object: Vec<OsString>,
}

impl Check {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let agent = setting.agent(&self.agent)?;
        let log = self.audit.then(|| audit(&setting));
        if self.batch {
            let exit = batch(&agent.policy, log.as_deref());
            tell_failure(ui, log.as_deref());
            return exit;
        }
        let request = self.request(&agent.policy)?;
        let decision = decide(&agent.policy, &request);
        if let Some(log) = &log {
            log.record(event(&decision))?;
            tell_failure(ui, Some(log));
        }
        if ui.json {
            ui.answer_json(&to_json(&decision))?;
        } else {
            match &decision {
                Decision::Allow(permit) => {
                    ui.answer(format!("allowed: {request}\n  by {}", authority::line(ui, permit.grant())))?
                }
                Decision::Deny(denial) => ui.answer(denial.to_string())?,
            }
        }
        Ok(if decision.is_allowed() { Exit::Fine } else { Exit::Denied })
    }

    pub(super) fn request(&self, policy: &Policy) -> Result<Request, CliError> {
        let name = self.capability.as_deref().unwrap_or_default();
        let capability = Capability::from_name(name).ok_or_else(|| {
            let error = CliError::new(format!("there is no capability `{name}`"));
            match Capability::closest_name(name) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("`sbx schema capabilities` lists all seventeen"),
            }
        })?;
        let cwd = match &self.dir {
            Some(dir) => live(&home_expanded(dir.as_os_str(), policy)),
            None => live(&policy.facts().cwd),
        };
        if capability == Capability::ProcExec {
            return match self.object.as_slice() {
                [] => Err(CliError::new("proc.exec needs a command")
                    .hint("sbx check --agent A proc.exec -- git log")),
                argv => Ok(Request::exec(argv).in_dir(cwd)),
            };
        }
        let texts: Option<Vec<&str>> = self.object.iter().map(|object| object.to_str()).collect();
        match (capability.family(), self.object.as_slice(), texts.as_deref()) {
            (Family::Fs, [path], _) => {
                let asked = home_expanded(path, policy);
                Ok(Request::resolved_path(capability, normalize(&asked), live(&asked)))
            }
            (Family::Net, _, Some([target])) if target.contains("://") => {
                Ok(Request::target(capability, Target::from_url(target)))
            }
            (Family::Net, _, Some([target])) => Ok(Request::host(capability, target)),
            (Family::Proc, _, Some([text])) => {
                Ok(Request::eval(*text).map_err(|error| CliError::from_error(&error))?.in_dir(cwd))
            }
            (Family::Records, [] | [_], Some(id)) => {
                Ok(Request::record(capability, id.first().copied(), self.class.as_deref()))
            }
            (Family::Agent, _, Some([id, grants @ ..])) => {
                let request = Request::agent(capability, id);
                if grants.is_empty() {
                    return Ok(request);
                }
                let specs: Result<Vec<_>, _> =
                    grants.iter().map(|grant| spec_from_json(&json!(grant), policy.facts())).collect();
                let specs = specs.map_err(|error| CliError::new(error.to_string()))?;
                Ok(request.proposing(Proposal::new(specs)))
            }
            _ => Err(CliError::new(format!("{capability} is asked about one object")).hint(
                "sbx check --agent A fs.read PATH | net.get URL | proc.exec -- COMMAND | proc.eval 'TEXT'",
            )),
        }
    }
}

/// What a path is once links are followed; one that cannot be examined is taken as written.
pub(super) fn live(path: &Path) -> PathBuf {
    resolve(path).unwrap_or_else(|_| normalize(path))
}

pub(super) fn home_expanded(path: &OsStr, policy: &Policy) -> PathBuf {
    let facts = policy.facts();
    match path.to_str().and_then(|text| text.strip_prefix("~/")) {
        Some(rest) => facts.home.join(rest),
        None if path == "~" => facts.home.clone(),
        None => facts.cwd.join(path),
    }
}

/// A decision as it is recorded.
pub(super) fn event(decision: &Decision<'_>) -> Event {
    match decision {
        Decision::Allow(permit) => allowed(permit),
        Decision::Deny(denial) => denied(denial),
    }
}

/// Tells what could not be recorded and was let pass because the configuration says so.
pub(super) fn tell_failure(ui: &Ui, log: Option<&Log>) {
    if let Some(failure) = log.and_then(Log::failure) {
        ui.remark(format!("sbx: {failure}"));
    }
}

pub(super) fn to_json(decision: &Decision<'_>) -> Value {
    match decision {
        Decision::Allow(permit) => json!({
            "decision": "allow",
            "grant": permit.grant().spec.to_string(),
            "place": permit.grant().place,
        }),
        Decision::Deny(denial) => {
            let mut body = denial.to_json();
            body["decision"] = json!("deny");
            body
        }
    }
}
