//! `sbx exec`, `eval` and `shell`: run something behind an agent's fence.

use super::fence::{Who, explain};
use super::{CliError, Exit, Ui};
use crate::audit::Sink;
use crate::decide::{Decision, Request};
use crate::plan::Invocation;
use crate::run::{
    Agent, ClosedCall, Ran, Refusal, Setting, audit, barred_root, bound_refusals, closed_calls, denied,
    is_traced, judge, kept, outcome_json, outcome_status, refused, run,
};
use clap::{Args, Subcommand};
use sbx_platform::plan::Stdio;
use sbx_platform::report::Step;
use sbx_platform::{End, Handed};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;

/// What launches.
#[derive(Debug, Subcommand)]
pub(super) enum Launch {
    /// Run a command behind an agent's fence.
    Exec(Exec),
    /// Run shell text behind an agent's fence.
    Eval(Eval),
    /// Open a shell behind an agent's fence.
    Shell(Shell),
}

impl Launch {
    pub(super) fn run(self, ui: &Ui) -> Exit {
        match self {
            Self::Exec(command) => command.run(ui),
            Self::Eval(command) => command.run(ui),
            Self::Shell(command) => command.run(ui),
        }
    }
}

/// Who runs it, where and how.
#[derive(Debug, Default, Args)]
pub(super) struct Fence {
    #[command(flatten)]
    pub(super) who: Who,
    /// What `$PROJECT` means, whatever the working directory is.
    #[arg(long, value_name = "DIR")]
    pub(super) project: Option<PathBuf>,
    /// Write the exact outcome as one JSON line to this descriptor.
    #[arg(long, value_name = "N")]
    status_fd: Option<RawFd>,
    /// Hand this descriptor to the command too; may be repeated.
    #[arg(long, value_name = "N")]
    pass_fd: Vec<RawFd>,
    /// Say what the fence refused, and the smallest grants that would allow it. Slows the command down.
    #[arg(long)]
    pub(super) explain: bool,
    /// Give the command a private terminal, for programs that are talked to.
    #[arg(long, short)]
    pub(super) tty: bool,
}

/// What to run.
#[derive(Debug, Args)]
pub(super) struct Exec {
    #[command(flatten)]
    pub(super) fence: Fence,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(super) argv: Vec<OsString>,
}

/// What to evaluate.
#[derive(Debug, Args)]
pub(super) struct Eval {
    #[command(flatten)]
    pub(super) fence: Fence,
    /// The shell text.
    pub(super) text: String,
}

/// Where to open a shell.
#[derive(Debug, Args)]
pub(super) struct Shell {
    #[command(flatten)]
    pub(super) fence: Fence,
}

/// The error of a file that the kernel cannot execute.
const ENOEXEC: i32 = 8;

/// Refusals that are told when a command failed and nobody asked.
const HINTED: usize = 3;

/// What is known all the same where a command was not followed.
const UNFOLLOWED: &str = if cfg!(target_os = "macos") {
    "processes are not followed here: only refusals are known, from the system's log"
} else {
    "this system lets no process be followed: only refused changes are known"
};

/// Opens an interactive shell, whichever there is.
const INTERACTIVE: &str = "if [ -x /bin/bash ]; then exec /bin/bash -i; else exec /bin/sh -i; fi";

impl Exec {
    fn run(self, ui: &Ui) -> Exit {
        let argv = self.argv;
        let stdio = self.fence.stdio(ui);
        self.fence.run(ui, |_| Ok(Request::exec(argv)), stdio)
    }
}

impl Eval {
    fn run(self, ui: &Ui) -> Exit {
        let text = self.text;
        let stdio = self.fence.stdio(ui);
        self.fence.run(ui, |_| Request::eval(text).map_err(|error| CliError::from_error(&error)), stdio)
    }
}

impl Shell {
    fn run(self, ui: &Ui) -> Exit {
        let interactive = io::stdin().is_terminal();
        let stdio = if interactive { Stdio::Pty } else { Stdio::Inherit };
        let text = if interactive { INTERACTIVE } else { "exec /bin/sh" };
        self.fence.run(ui, |_| Request::eval(text).map_err(|error| CliError::from_error(&error)), stdio)
    }
}

impl Fence {
    /// The caller's terminal is relayed by pipes; a private one is made on wish. JSON answers carry the output.
    fn stdio(&self, ui: &Ui) -> Stdio {
        if ui.json {
            Stdio::Capture
        } else if self.tty && io::stdin().is_terminal() {
            Stdio::Pty
        } else {
            Stdio::Inherit
        }
    }

    fn run(self, ui: &Ui, ask: impl FnOnce(&Agent) -> Result<Request, CliError>, stdio: Stdio) -> Exit {
        match self.attempt(ui, ask, stdio) {
            Ok(status) => Exit::Status(status),
            Err(error) => {
                ui.remark(error.to_string());
                let body = json!({ "status": 125, "error": error.to_string() });
                // It may be the descriptor or standard output itself that is the matter.
                let _ = self.write_status(&body);
                if ui.json {
                    let _ = ui.answer_json(&body);
                }
                Exit::Status(125)
            }
        }
    }

    fn attempt(
        &self,
        ui: &Ui,
        ask: impl FnOnce(&Agent) -> Result<Request, CliError>,
        stdio: Stdio,
    ) -> Result<u8, CliError> {
        // The program ends with the launch; taking all this apart first would only delay its end.
        let setting =
            ManuallyDrop::new(Setting::in_project(self.project.as_deref(), self.who.dir.as_deref())?);
        let agent = ManuallyDrop::new(setting.agent(&self.who.agent)?);
        let backend = self.who.backend(&setting)?;
        let accepted = self.who.accepted()?;
        self.check_descriptors()?;
        let request = ask(&agent)?.in_dir(self.who.directory(&setting));
        let log = audit(&setting);
        let permit = match judge(&agent.policy, &setting.facts.cwd, &request)? {
            Decision::Allow(permit) => permit,
            Decision::Deny(denial) => {
                // A refusal stands whether or not it can be recorded.
                if let Err(error) = log.record(denied(&denial)) {
                    ui.remark(format!("sbx: {error}"));
                }
                if ui.json {
                    ui.answer_json(&denial.to_json())?
                } else {
                    ui.remark(denial.to_string())
                };
                self.tell(ui, &json!({ "status": 126, "denial": denial.to_json() }));
                return Ok(126);
            }
        };
        let invocation = Invocation::new(sbx_platform::ids())
            .stdio(stdio)
            .pass_fds(self.pass_fd.clone())
            .accepting(accepted)
            .tracing(self.explain);
        // Whoever builds the fence is forked before the first event; where another backend is tried after it, the keeper
        // closes what it does not know.
        log.stay_open();
        let sink: Arc<dyn Sink> = log.clone();
        let ran = run(&permit, &invocation, backend, &sink);
        if let Some(failure) = log.failure() {
            ui.remark(format!("sbx: {failure}; allowed by `audit: {{on_failure: open}}`"));
        }
        match ran {
            Ok(ran) => {
                let mut denials = refused(&permit, &ran.outcome.acts);
                // One remark tells of all of it.
                denials.retain(|denial| !ran.led_out.iter().any(|dir| denial.is_within(dir)));
                denials.retain(|denial| self.explain || !denial.is_usual);
                let more = bound_refusals(&mut denials);
                denials.extend(ran.refused.iter().cloned().map(Refusal::from));
                // Of a command that failed all refusals are told.
                let content = ran.outcome.end == End::Exited(0) && !self.explain;
                let kept = if content { kept(&permit, &ran.outcome.acts) } else { Vec::new() };
                let barred = if content { None } else { barred_root(&permit, &ran.outcome.acts) };
                self.report(ui, &ran, (&denials, more), &[kept, Vec::from_iter(barred)].concat())
            }
            Err(error) => {
                ui.remark(explain(&error).to_string());
                let body = json!({ "status": error.exit_status(), "error": error.to_string() });
                self.tell(ui, &body);
                if ui.json {
                    ui.answer_json(&body)?;
                }
                Ok(error.exit_status())
            }
        }
    }

    /// A directory handed in would lead out of everything that is shown.
    fn check_descriptors(&self) -> Result<(), CliError> {
        for fd in self.pass_fd.iter().chain(&self.status_fd) {
            let not_open = |_| CliError::new(format!("descriptor {fd} is not open"));
            let handed = Handed::take(*fd).map_err(not_open)?;
            if handed.is_path || handed.file.metadata().is_ok_and(|meta| meta.is_dir()) {
                return Err(CliError::new(format!("descriptor {fd} is a directory or a mere path"))
                    .hint("grant the place instead: what is below it is then shown"));
            }
            if self.status_fd == Some(*fd) && !handed.is_writable {
                return Err(CliError::new(format!("descriptor {fd} cannot be written to"))
                    .hint("open it for writing: `--status-fd 3 3>file`"));
            }
        }
        Ok(())
    }

    /// Of what was refused, the first ones and how many more there were.
    fn report(
        &self,
        ui: &Ui,
        ran: &Ran,
        (refused, more): (&[Refusal], usize),
        kept: &[String],
    ) -> Result<u8, CliError> {
        let status = outcome_status(&ran.outcome);
        let mut body = outcome_json(&ran.outcome);
        body["remarks"] = json!([&ran.remarks, kept].concat());
        body["warnings"] = json!(ran.warnings);
        // What is told only of a command that failed is known only in part where nobody followed it.
        if self.explain || status != 0 {
            body["refused"] = refused.iter().map(Refusal::to_json).collect();
            body["refused_more"] = json!(more);
            body["closed_calls"] = closed_calls(&ran.outcome.acts).iter().map(ClosedCall::to_json).collect();
        }
        self.tell(ui, &body);
        if ui.json {
            body["stdout"] = json!(String::from_utf8_lossy(&ran.outcome.stdout));
            body["stderr"] = json!(String::from_utf8_lossy(&ran.outcome.stderr));
            ui.answer_json(&body)?;
            return Ok(status);
        }
        ran.outcome.lost.iter().for_each(|lost| ui.remark(format!("sbx: {lost}")));
        ran.warnings.iter().for_each(|warning| ui.remark(format!("sbx: {warning}")));
        kept.iter().for_each(|line| ui.remark(format!("sbx: {line}")));
        // Without --explain only what is known anyway is told, and only when the command failed.
        let told = match (self.explain, status) {
            (true, _) => refused.len(),
            (false, 0) => 0,
            (false, _) => HINTED,
        };
        if self.explain && !is_traced(&ran.outcome.acts) && !matches!(ran.outcome.end, End::Setup(_)) {
            ui.remark(format!("sbx: {UNFOLLOWED}"));
        }
        for denial in refused.iter().take(told) {
            ui.remark(format!("sbx: refused: {denial}"));
        }
        let more = more + refused.len().saturating_sub(told);
        if told > 0 && more > 0 {
            let where_told = if self.explain { "" } else { "; --explain tells more" };
            ui.remark(format!("sbx: and {more} more refused{where_told}"));
        }
        for call in closed_calls(&ran.outcome.acts).iter().filter(|call| status != 0 || !call.is_usual) {
            ui.remark(format!("sbx: refused: {call}"));
        }
        if !matches!(ran.outcome.end, End::Exited(0) | End::Limit(_)) {
            let reached = ran.outcome.reached.iter();
            reached.for_each(|limit| ui.remark(format!("sbx: the {} limit was reached", limit.name())));
        }
        match &ran.outcome.end {
            End::Exited(0) => {}
            End::Exited(_) => ran.remarks.iter().for_each(|remark| ui.remark(format!("sbx: {remark}"))),
            End::Signaled(_) => {}
            End::Limit(limit) => {
                ui.remark(format!("sbx: the {} limit was reached; everything was ended", limit.name()))
            }
            End::Setup(failure) if (failure.step, failure.errno) == (Step::Exec, ENOEXEC) => ui.remark(format!(
                "error: {} is neither a program for this machine nor a script\n  hint: a script names its interpreter in the first line: `#!/bin/sh`",
                failure.object
            )),
            End::Setup(failure) => {
                ui.remark(format!("error: the fence could not be built\n  caused by: {failure}"))
            }
        }
        Ok(status)
    }

    /// Writes one line to the status descriptor; that it could not be is said.
    fn tell(&self, ui: &Ui, body: &Value) {
        if let Err(error) = self.write_status(body) {
            ui.remark(format!("sbx: the outcome cannot be written to the status descriptor: {error}"));
        }
    }

    fn write_status(&self, body: &Value) -> io::Result<()> {
        let Some(fd) = self.status_fd else { return Ok(()) };
        (&Handed::take(fd)?.file).write_all(format!("{body}\n").as_bytes())
    }
}
