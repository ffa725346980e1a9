//! `sbx check`: one question on the command line, or many as JSON lines.

use super::ui::quiet_pipe;
use super::{CliError, Exit, Ui, authority};
use crate::audit::Sink;
use crate::capability::{Capability, Family, Target};
use crate::decide::{Decision, Request, decide};
use crate::manifest::spec_from_json;
use crate::policy::{Grant, Policy, Proposal};
use crate::run::{Setting, allowed, audit, denied};
use clap::Args;
use sbx_platform::path::{normalize, resolve};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// The longest request line that is read.
const MAX_LINE: u64 = 1 << 20;

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
    /// Record the answer in the audit log.
    #[arg(long, conflicts_with = "batch")]
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
        if self.batch {
            return batch(&agent.policy);
        }
        let request = self.request(&agent.policy)?;
        let decision = decide(&agent.policy, &request);
        if self.audit {
            let event = match &decision {
                Decision::Allow(permit) => allowed(permit),
                Decision::Deny(denial) => denied(denial),
            };
            let log = audit(&setting);
            log.record(event)?;
            if let Some(failure) = log.failure() {
                ui.remark(format!("sbx: {failure}"));
            }
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
fn live(path: &Path) -> PathBuf {
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

fn to_json(decision: &Decision<'_>) -> Value {
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

/// Answers every line; a bad one is answered with its error, and the rest go on.
fn batch(policy: &Policy) -> Result<Exit, CliError> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let permitted = permitted(policy);
    let mut exit = Exit::Fine;
    let mut line = Vec::new();
    for number in 1usize.. {
        line.clear();
        let read = input.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let (answer, outcome) = answer_line(policy, &permitted, &line, number);
        exit = worse(exit, outcome);
        if writeln!(output, "{answer}").is_err() {
            return Ok(exit);
        }
        if read as u64 > MAX_LINE {
            quiet_pipe(output.flush())?;
            return Err(CliError::new(format!("line {number} is longer than {MAX_LINE} bytes")));
        }
        // A harness that asks one question at a time waits for its answer.
        if input.buffer().is_empty() {
            quiet_pipe(output.flush())?;
        }
    }
    quiet_pipe(output.flush())?;
    Ok(exit)
}

/// The answers to what each grant allows, prepared once.
fn permitted(policy: &Policy) -> Vec<String> {
    let answer =
        |grant: &Grant| json!({ "decision": "allow", "grant": grant.spec.to_string(), "place": grant.place });
    policy.grants().iter().map(|grant| answer(grant).to_string()).collect()
}

fn answer_line<'a>(
    policy: &Policy,
    permitted: &'a [String],
    line: &[u8],
    number: usize,
) -> (Cow<'a, str>, Exit) {
    let bad = |message: String| {
        let error = json!({ "code": "bad_request", "message": message, "line": number });
        (json!({ "decision": "error", "error": error }).to_string().into(), Exit::BadInput)
    };
    if line.len() as u64 > MAX_LINE {
        return bad("the line is too long".to_owned());
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return bad(format!("not JSON: {error}")),
    };
    match Request::from_json(&value, policy.facts(), live) {
        Err(error) => bad(error.to_string()),
        Ok(request) => match decide(policy, &request) {
            Decision::Allow(permit) => (permitted[permit.grant_id().index()].as_str().into(), Exit::Fine),
            decision @ Decision::Deny(_) => (to_json(&decision).to_string().into(), Exit::Denied),
        },
    }
}

fn worse(a: Exit, b: Exit) -> Exit {
    match (a, b) {
        (Exit::BadInput, _) | (_, Exit::BadInput) => Exit::BadInput,
        (Exit::Denied, _) | (_, Exit::Denied) => Exit::Denied,
        _ => Exit::Fine,
    }
}
