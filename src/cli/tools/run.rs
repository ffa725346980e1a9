//! `sbx tools run`.

use super::{Call, Loaded};
use crate::cli::{CliError, Exit, Ui};
use crate::hands::Context;
use crate::run::session::{Client, Lease, SessionDir, sweep};
use crate::run::tools::{Caller, Own, Report, Stop, run_tool};
use crate::run::{Live, denied};
use crate::tool::{Action, Tool};
use clap::Args;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// What to run.
#[derive(Debug, Args)]
pub(in crate::cli) struct Run {
    #[command(flatten)]
    call: Call,
    /// In this session: with its tools and its directory.
    #[arg(long)]
    session: Option<String>,
}

/// The directory a run works with: the session's, or one for this run alone.
enum Directory {
    None,
    Own(SessionDir),
    Leased(Lease),
}

impl Directory {
    fn path(&self) -> Option<&Path> {
        match self {
            Self::None => None,
            Self::Own(dir) => Some(dir.path()),
            Self::Leased(lease) => Some(&lease.dir),
        }
    }
}

impl Run {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let loaded = Loaded::new(ui, &self.call.who.agent, self.session.as_deref())?;
        let policy = &loaded.agent.policy;
        let given = self.call.given()?;
        let backend = self.call.who.backend(&loaded.setting)?;
        let accepted = self.call.who.accepted()?;
        let tool = match loaded.catalogue.tools().find(policy.agent(), &self.call.tool) {
            Ok(tool) => tool,
            Err(denial) => {
                let _ = loaded.log.record(denied(&denial));
                return stopped(ui, &Stop::Denied(denial));
            }
        };
        let directory = match &self.session {
            Some(id) => match Client::ensure(id, policy.agent(), None)?.lease()? {
                Ok(lease) => Directory::Leased(lease),
                Err(answer) => return Err(CliError::new(answer.text)),
            },
            None if tool.wants_session_dir() => Directory::Own(SessionDir::make()?),
            None => Directory::None,
        };
        let cwd = self.call.who.directory(&loaded.setting);
        let hands =
            own(tool, &loaded).map(|hands| hands.at(&cwd).backend(backend).accepting(accepted.clone()));
        let caller = Caller {
            policy,
            cwd: &cwd,
            session: self.session.as_deref(),
            session_dir: directory.path(),
            backend,
            accepted: &accepted,
            audit: &loaded.log,
            host: &Live,
            own: hands.as_ref().map(|hands| -> &dyn Own { hands }),
            cancel: None,
        };
        let ran = run_tool(tool, &given, &caller);
        drop((hands, directory));
        sweep();
        match ran {
            Ok(report) => {
                told(ui, &report)?;
                Ok(Exit::Fine)
            }
            Err(stop) => stopped(ui, &stop),
        }
    }
}

/// The agent's hands, narrowed to a tool that is one of their operations.
fn own(tool: &Tool, loaded: &Loaded) -> Option<Context> {
    matches!(tool.action, Action::Internal(_)).then(|| {
        let narrowed = loaded.agent.policy.narrowed(&tool.narrowing());
        Context::new(narrowed, &loaded.setting, Arc::clone(&loaded.log))
    })
}

fn told(ui: &Ui, report: &Report) -> Result<(), CliError> {
    if ui.json {
        return ui.answer_json(&report.to_json());
    }
    match &report.value {
        Value::Null => {}
        Value::String(text) => ui.answer(text)?,
        Value::Array(lines) if lines.iter().all(Value::is_string) => {
            for line in lines.iter().filter_map(Value::as_str) {
                ui.answer(line)?;
            }
        }
        other => ui.answer_json(other)?,
    }
    if !report.stderr.trim().is_empty() {
        ui.remark(&report.stderr);
    }
    for (cut, what) in [(report.stdout_truncated, "output"), (report.stderr_truncated, "error output")] {
        if cut {
            ui.remark(format!("sbx: its {what} was longer than is kept, and was cut"));
        }
    }
    Ok(())
}

/// Says why there is no value, with what was printed until then.
pub(super) fn stopped(ui: &Ui, stop: &Stop) -> Result<Exit, CliError> {
    if ui.json {
        ui.answer_json(&stop.to_json())?;
        return Ok(Exit::Denied);
    }
    if let Stop::Failed(failure) = stop
        && let Some(report) = &failure.report
    {
        if !report.stdout.trim().is_empty() {
            ui.answer(report.stdout.trim_end())?;
        }
        if !report.stderr.trim().is_empty() {
            ui.remark(&report.stderr);
        }
    }
    ui.remark(stop.to_string());
    Ok(Exit::Denied)
}
