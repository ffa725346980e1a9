//! `sbx why`: what is decided, what the kernel says, and whether the two agree.

use super::check::{Check, event, tell_failure};
use super::{CliError, Exit, Ui, authority};
use crate::audit::Sink;
use crate::capability::Risk;
use crate::decide::{Decision, Request, decide};
use crate::policy::fingerprint;
use crate::run::{Attempt, Setting, Trial, Verdict, audit, try_out};
use clap::Args;
use sbx_platform::Backend;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// What to ask and to try.
///
/// sbx why --agent scout fs.write notes.txt
/// sbx why --agent scout proc.exec -- git log
/// sbx why --agent fetcher net.get example.org
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Why {
    /// An agent's name, or the path of a record.
    #[arg(long, short)]
    agent: String,
    /// Which backend to try it with: auto, native, bwrap or landlock.
    #[arg(long, value_name = "NAME", default_value = "auto")]
    backend: String,
    /// Record what is decided in the audit log.
    #[arg(long)]
    audit: bool,
    /// Where a command would run.
    #[arg(long = "in", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// What is to be done, such as fs.read.
    capability: String,
    /// On what: a path, a host, a command with its arguments, shell text.
    object: Vec<OsString>,
}

impl Why {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let agent = setting.agent(&self.agent)?;
        let backend = match self.backend.as_str() {
            "auto" => None,
            name => Some(
                Backend::from_name(name)
                    .ok_or_else(|| CliError::new(format!("there is no backend `{name}` on this system")))?,
            ),
        };
        let question = Check {
            agent: self.agent,
            batch: false,
            audit: false,
            class: None,
            dir: self.dir,
            capability: Some(self.capability),
            object: self.object,
        };
        let request = question.request(&agent.policy)?;
        let decision = decide(&agent.policy, &request);
        if self.audit {
            let log = audit(&setting);
            log.record(event(&decision))?;
            tell_failure(ui, Some(&log));
        }
        let trial = try_out(&agent.policy, &request, backend);
        let report =
            report(&request, &decision, &trial, &fingerprint(&agent.policy), agent.manifest.source().name());
        if ui.json {
            ui.answer_json(&report)?;
        } else {
            show(ui, &request, &decision, &trial)?;
        }
        if let Trial::Tried(attempt) = &trial
            && attempt.verdict == Verdict::Differ
        {
            if !ui.json {
                let text = format!("{report:#}\n{:#?}", attempt.plan);
                ui.remark(format!("this is a bug in sbx; what is needed to find it:\n{text}"));
            }
            return Ok(Exit::Status(125));
        }
        Ok(if decision.is_allowed() { Exit::Fine } else { Exit::Denied })
    }
}

fn show(ui: &Ui, request: &Request, decision: &Decision<'_>, trial: &Trial) -> Result<(), CliError> {
    match decision {
        Decision::Allow(permit) => {
            ui.answer(format!("decided  allowed: {request}\n  by {}", authority::line(ui, permit.grant())))?;
        }
        Decision::Deny(denial) => ui.answer(format!("decided  {denial}"))?,
    }
    match trial {
        Trial::Untried(why) => ui.answer(format!("tried    not: {why}")),
        Trial::Tried(attempt) => {
            ui.answer(format!(
                "tried    {} behind {}: {}",
                attempt.act.name,
                attempt.enforcement.backend,
                said(attempt)
            ))?;
            ui.answer(match &attempt.verdict {
                Verdict::Agree => ui.by_risk(Risk::Low, "they agree"),
                Verdict::Expected(why) => format!("they differ, as they should: {why}"),
                Verdict::Differ => ui.by_risk(Risk::High, "THEY DIFFER"),
            })
        }
    }
}

fn said(attempt: &Attempt) -> String {
    let said = |error: Option<i32>| {
        error.map_or_else(
            || "done".to_owned(),
            |error| format!("refused, {}", io::Error::from_raw_os_error(error)),
        )
    };
    match &attempt.by_proxy {
        Some(by_proxy) if by_proxy.error.is_some() != attempt.error.is_some() => {
            format!("{}; through the proxy: {}", said(attempt.error), said(by_proxy.error))
        }
        _ => said(attempt.error),
    }
}

/// Everything that matters, for machines and for a report.
fn report(request: &Request, decision: &Decision<'_>, trial: &Trial, authority: &str, file: &str) -> Value {
    let decided = match decision {
        Decision::Allow(permit) => json!({
            "decision": "allow", "grant": permit.grant().spec.to_string(), "place": permit.grant().place,
        }),
        Decision::Deny(denial) => json!({ "decision": "deny", "denial": denial.to_json() }),
    };
    let tried = match trial {
        Trial::Untried(why) => json!({ "verdict": "untried", "why": why }),
        Trial::Tried(attempt) => json!({
            "verdict": attempt.verdict.name(),
            "why": match &attempt.verdict { Verdict::Expected(why) => Some(why), Verdict::Agree | Verdict::Differ => None },
            "act": attempt.act.name, "object": attempt.act.object.to_string_lossy(),
            "done": attempt.error.is_none(), "error": attempt.error,
            "by_proxy": attempt.by_proxy.as_ref().map(|tried| tried.error.is_none()),
            "backend": attempt.enforcement.backend.name(), "landlock": attempt.enforcement.landlock,
            "missing": attempt.enforcement.missing().map(|missing| missing.name()).collect::<Vec<_>>(),
        }),
    };
    json!({
        "request": request.to_string(), "decided": decided, "tried": tried, "file": file, "authority": authority,
        "version": env!("CARGO_PKG_VERSION"), "system": std::env::consts::OS, "machine": std::env::consts::ARCH,
    })
}
