//! `sbx learn`: watch a command, and propose the smallest record it can do its work with.

use super::edit::grant_all;
use super::fence::explain;
use super::new::file_for;
use super::{CliError, Exit, Ui};
use crate::audit::Sink;
use crate::capability::{Risk, Spec};
use crate::decide::grant_command;
use crate::learn::{Learned, Proposed, learn, record_text};
use crate::manifest::create_file;
use crate::policy::Policy;
use crate::run::{
    Agent, Allowed, Live, ObserveError, Rehearsed, Setting, audit, exit_status, is_traced, observe,
};
use crate::text::shell_quoted;
use clap::Args;
use sbx_platform::End;
use sbx_platform::path::resolve;
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to watch, and what may really happen meanwhile.
#[derive(Debug, Args)]
pub(super) struct Learn {
    /// Compare with an agent that is there: show what it lacks, and with --write give it that.
    #[arg(long, short)]
    agent: Option<String>,
    /// The name of the new agent; else that of the command.
    #[arg(long, value_name = "NAME", conflicts_with = "agent")]
    id: Option<String>,
    /// Where to run the command.
    #[arg(long = "in", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Let it really write there; elsewhere its changes are kept apart and gone at the end. May be repeated.
    #[arg(long, value_name = "PATH")]
    allow: Vec<PathBuf>,
    /// Let it really reach this host, to get, post and put; may be repeated.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    allow_net: Vec<String>,
    /// Let it really reach every public host.
    #[arg(long)]
    net: bool,
    /// Write the new record, or add to the agent's.
    #[arg(long)]
    write: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    argv: Vec<OsString>,
}

impl Learn {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let cwd = std::env::current_dir()?;
        let dir = self.dir.as_ref().map_or_else(|| cwd.clone(), |dir| cwd.join(dir));
        let dir = resolve(&dir).unwrap_or(dir);
        let setting = Setting::at(&dir)?;
        let agent = self.agent.as_deref().map(|name| setting.agent(name)).transpose()?;
        let id = self.id.clone().unwrap_or_else(|| name_of(&self.argv));
        // What cannot be written is said before anything is run.
        let file =
            (self.write && agent.is_none()).then(|| file_for(&id, &setting.facts, false)).transpose()?;
        let rehearsed = self.rehearse(ui, &setting, &dir)?;
        if !is_traced(&rehearsed.observed.acts) {
            let unseen = CliError::new("nothing could be seen: this system lets no process be followed");
            let hint = "see `sysctl kernel.yama.ptrace_scope`; it must be below 2";
            return Err(if cfg!(target_os = "linux") { unseen.hint(hint) } else { unseen });
        }
        let learned =
            ui.during("sorting what was seen …", || learn(&rehearsed.observed, &setting.facts, &Live));
        let record = record_text(&id, &shown(&self.argv), &learned);
        let missing: Vec<&Proposed> = match &agent {
            Some(agent) => learned.missing(&agent.policy).collect(),
            None => learned.grants.iter().collect(),
        };
        let variables = agent.as_ref().map_or_else(Vec::new, |agent| lacking_env(&agent.policy, &learned));
        if ui.json {
            let mut body = learned.to_json(agent.as_ref().map(|agent| &agent.policy));
            body["status"] = json!(exit_status(&rehearsed.outcome.end));
            body["copied"] = json!(rehearsed.copied);
            body["record"] = json!(record);
            body["file"] = json!(file.as_deref().map(Path::to_string_lossy));
            body["commands"] =
                agent.as_ref().map_or(json!([]), |agent| json!(commands(agent, &missing, &variables)));
            ui.answer_json(&body)?;
        } else {
            match &agent {
                None => ui.answer(record.trim_end())?,
                Some(agent) => difference(ui, agent, &learned, &missing, &variables)?,
            }
            remarks(ui, &learned, &rehearsed);
        }
        self.keep(ui, &setting, file.as_deref(), &record, (&missing, variables))?;
        Ok(if matches!(rehearsed.outcome.end, End::Exited(0)) { Exit::Fine } else { Exit::Denied })
    }

    fn rehearse(&self, ui: &Ui, setting: &Setting, dir: &Path) -> Result<Rehearsed, CliError> {
        let places =
            self.allow.iter().map(|place| dir.join(place)).map(|place| resolve(&place).unwrap_or(place));
        let every = self.net.then(|| "*".to_owned());
        let allowed = Allowed::new(places.collect(), self.allow_net.iter().cloned().chain(every).collect());
        let log = audit(setting);
        let sink: Arc<dyn Sink> = log.clone();
        // stdout is for the answer, so that the command's own output is about it.
        let mut captured: Vec<u8> = Vec::new();
        let mut stderr = io::stderr();
        let out: &mut (dyn Write + Send) = if ui.json { &mut captured } else { &mut stderr };
        // While the command runs the terminal is its own.
        observe(setting, self.argv.clone(), dir, &allowed, &sink, out).map_err(|error| match &error {
            ObserveError::Run(error) => explain(error),
            ObserveError::Denied(denial) => CliError::new(denial.to_string()),
            _ => CliError::from_error(&error),
        })
    }

    /// Writes what was learned, if that was asked for.
    fn keep(
        &self,
        ui: &Ui,
        setting: &Setting,
        file: Option<&Path>,
        record: &str,
        (missing, variables): (&[&Proposed], Vec<String>),
    ) -> Result<(), CliError> {
        if let Some(file) = file {
            create_file(file, record)
                .map_err(|error| CliError::new(format!("cannot write {}: {error}", file.display())))?;
            ui.remark(format!("wrote {}", file.display()));
        } else if let Some(agent) = self.agent.as_deref().filter(|_| self.write) {
            let specs: Vec<Spec> = missing.iter().map(|grant| grant.spec.clone()).collect();
            grant_all(ui, setting, agent, specs, variables)?;
        }
        Ok(())
    }
}

/// A name for the agent of a command.
fn name_of(argv: &[OsString]) -> String {
    let name = argv.first().map(|word| Path::new(word).file_name().unwrap_or_default().to_string_lossy());
    let plain: String = name
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '-' })
        .collect();
    let plain = plain.trim_start_matches('-');
    if plain.is_empty() { "learned".to_owned() } else { plain.to_owned() }
}

fn shown(argv: &[OsString]) -> String {
    let word = |word: &OsString| {
        let text = word.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
        if !text.is_empty() && text.chars().all(plain) { text.into_owned() } else { shell_quoted(&text) }
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The commands that give an agent what it lacks.
fn commands(agent: &Agent, missing: &[&Proposed], variables: &[String]) -> Vec<String> {
    let agent = agent.policy.agent();
    let grants = missing.iter().map(|grant| grant_command(agent, &grant.spec.to_string()));
    let passing = variables.iter().map(|name| format!("sbx agents grant {agent} --env {name}"));
    grants.chain(passing).collect()
}

/// The variables that are needed and not passed in.
fn lacking_env(policy: &Policy, learned: &Learned) -> Vec<String> {
    let passed = |name: &&String| policy.sections().env.iter().any(|rule| rule.name == **name);
    learned.env.iter().filter(|name| !passed(name)).cloned().collect()
}

/// What an agent lacks, and what of it is held.
fn difference(
    ui: &Ui,
    agent: &Agent,
    learned: &Learned,
    missing: &[&Proposed],
    variables: &[String],
) -> Result<(), CliError> {
    for grant in &learned.grants {
        let lacks = missing.contains(&grant);
        let risk = grant.spec.capability.risk();
        let word = ui.by_risk(risk, &format!("{:<6}", Risk::name(risk)));
        let why = if lacks { &grant.why } else { "held already" };
        ui.answer(format!("{} {word}  {}  {}", if lacks { "+" } else { "=" }, grant.spec, ui.dim(why)))?;
    }
    if !variables.is_empty() {
        ui.answer(format!("+ env: [{}]", variables.join(", ")))?;
    }
    for command in commands(agent, missing, variables) {
        ui.answer(format!("  {command}"))?;
    }
    Ok(())
}

fn remarks(ui: &Ui, learned: &Learned, rehearsed: &Rehearsed) {
    for called in &learned.called_out {
        let word = ui.by_risk(Risk::High, "not proposed");
        ui.remark(format!("sbx: {word}: {} {}: {}", called.verb, called.path.display(), called.what));
    }
    learned.notes.iter().for_each(|note| ui.remark(format!("sbx: {note}")));
    if !rehearsed.copied {
        let why = rehearsed.uncopied.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        ui.remark(format!(
            "sbx: changes cannot be kept apart here{why}, so that nothing could be written; see --allow"
        ));
    }
    match &rehearsed.outcome.end {
        End::Exited(0) => {}
        End::Setup(failure) => {
            ui.remark(format!("error: the fence could not be built\n  caused by: {failure}"))
        }
        end => ui.remark(format!(
            "sbx: the command failed (status {}), so that more may be needed than was seen",
            exit_status(end)
        )),
    }
}
