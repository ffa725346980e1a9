//! `sbx agents`: the shelf of records.

use super::{CliError, Exit, Ui, authority, edit, new};
use crate::doctor::examine;
use crate::manifest::{AgentSource, FindError, Shelf, TrustStore, find, list, open_record, unreadable};
use crate::policy::Policy;
use crate::report::besides;
use crate::run::Setting;
use crate::text::{Severity, render_all};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The `agents` commands.
#[derive(Debug, Subcommand)]
pub(super) enum Agents {
    /// List every agent that can be called by name.
    List,
    /// Show an agent's record and what becomes of it.
    Show(Named),
    /// Show the grants an agent holds, highest risk first.
    #[command(alias = "caps")]
    Capabilities(Named),
    /// Write a new agent's record.
    New(new::New),
    /// Look for problems in records.
    Lint(Lint),
    /// Give an agent a grant.
    Grant(edit::Grant),
    /// Take a grant, or items of one, away from an agent.
    Revoke(edit::Revoke),
    /// Trust a project's record as it is now.
    Trust(Trust),
}

/// An agent by name or path.
#[derive(Debug, Args)]
pub(super) struct Named {
    /// An agent's name, or the path of a record.
    agent: String,
}

/// What to lint.
#[derive(Debug, Args)]
pub(super) struct Lint {
    /// Names or paths; all agents when none is given.
    agents: Vec<String>,
}

/// What to trust.
#[derive(Debug, Args)]
pub(super) struct Trust {
    /// The record's file.
    file: PathBuf,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

impl Agents {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let listing = matches!(self, Self::List);
        let setting = if listing { Setting::anywhere() } else { Setting::from_env() }?;
        match self {
            Self::List => list_all(ui, &setting),
            Self::Show(named) => show(ui, &setting, &named.agent),
            Self::Capabilities(named) => capabilities(ui, &setting, &named.agent),
            Self::New(command) => command.run(ui, &setting),
            Self::Lint(command) => lint(ui, &setting, &command.agents),
            Self::Grant(command) => command.run(ui, &setting),
            Self::Revoke(command) => command.run(ui, &setting),
            Self::Trust(command) => trust(ui, &setting, &command),
        }
    }
}

fn list_all(ui: &Ui, setting: &Setting) -> Result<Exit, CliError> {
    let mut rows = Vec::new();
    for found in list(&setting.facts) {
        let name = found.name().unwrap_or("?").to_owned();
        let (shelf, trusted, file) = (found.shelf, found.trusted, found.source.name().to_owned());
        let agent = setting.load(found);
        let (risk, description) = match &agent {
            Ok(agent) => {
                let risk = authority::highest(&agent.policy);
                (risk, agent.manifest.description().unwrap_or_default().to_owned())
            }
            Err(_) => (None, "(the record has errors)".to_owned()),
        };
        rows.push((name, shelf, trusted, risk, description, file));
    }
    if ui.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, shelf, trusted, risk, description, file)| {
                json!({
                    "name": name, "from": shelf.name(), "trusted": trusted,
                    "highest_risk": risk.map(|risk| risk.name()), "description": description, "file": file,
                })
            })
            .collect();
        ui.answer_json(&json!(rows))?;
        return Ok(Exit::Fine);
    }
    let width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    for (name, shelf, trusted, risk, description, _) in rows {
        let risk = risk.map_or_else(
            || format!("{:<6}", "none"),
            |risk| ui.by_risk(risk, &format!("{:<6}", risk.name())),
        );
        let state = if trusted { "" } else { "  (not trusted)" };
        ui.answer(format!("{name:<width$}  {:<8}  {risk}  {description}{state}", shelf.name()))?;
    }
    Ok(Exit::Fine)
}

fn show(ui: &Ui, setting: &Setting, name: &str) -> Result<Exit, CliError> {
    let agent = setting.agent(name)?;
    let sections = agent.manifest.sections();
    if ui.json {
        let grants: Vec<_> = authority::by_risk(&agent.policy).into_iter().map(authority::to_json).collect();
        let problems: Vec<_> =
            agent.problems.iter().map(|problem| problem.to_json(agent.manifest.source())).collect();
        ui.answer_json(&json!({
            "id": agent.manifest.id(),
            "description": agent.manifest.description(),
            "from": agent.found.shelf.name(),
            "file": agent.manifest.source().name(),
            "root": agent.policy.chain().root().map(Path::to_string_lossy),
            "grants": grants,
            "limits": agent.policy.limits().entries().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "env": sections.env.iter().map(|rule| &rule.name).collect::<Vec<_>>(),
            "listen": sections.listen,
            "accept_degraded": agent.policy.accept_degraded(),
            "provider_tools": sections.provider_tools,
            "problems": problems,
            "body": agent.manifest.body(),
        }))?;
        return Ok(Exit::Fine);
    }
    ui.answer(format!(
        "{}  ({}, {})",
        ui.bold(agent.manifest.id()),
        agent.found.shelf.name(),
        agent.manifest.source().name()
    ))?;
    if let Some(description) = agent.manifest.description() {
        ui.answer(description)?;
    }
    ui.answer(format!("\n{}", authority::lines(ui, &agent.policy)))?;
    let besides = besides_grants(&agent.policy);
    if !besides.is_empty() {
        ui.answer(format!("\n{}", besides.join("\n")))?;
    }
    if !agent.manifest.body().trim().is_empty() {
        ui.answer(format!("\n{}", agent.manifest.body().trim()))?;
    }
    remark_problems(ui, &agent);
    Ok(Exit::Fine)
}

/// What a record asks for that is no grant, one line each.
fn besides_grants(policy: &Policy) -> Vec<String> {
    besides(policy).into_iter().map(|(what, items)| format!("{what}: {}", items.join(", "))).collect()
}

fn remark_problems(ui: &Ui, agent: &crate::run::Agent) {
    let worth: Vec<_> =
        agent.problems.iter().filter(|problem| problem.severity > Severity::Note).cloned().collect();
    if !worth.is_empty() {
        ui.remark(render_all(&worth, agent.manifest.source()));
    }
}

fn capabilities(ui: &Ui, setting: &Setting, name: &str) -> Result<Exit, CliError> {
    let agent = setting.agent(name)?;
    if ui.json {
        let grants: Vec<_> = authority::by_risk(&agent.policy).into_iter().map(authority::to_json).collect();
        ui.answer_json(&json!(grants))?;
    } else {
        ui.answer(authority::lines(ui, &agent.policy))?;
        remark_problems(ui, &agent);
    }
    Ok(Exit::Fine)
}

fn lint(ui: &Ui, setting: &Setting, names: &[String]) -> Result<Exit, CliError> {
    let found: Vec<AgentSource> = match names {
        [] => list(&setting.facts),
        names => names.iter().map(|name| untrusted_too(setting, name)).collect::<Result<_, _>>()?,
    };
    let (mut worst, mut reports) = (None, Vec::new());
    // Asked about none by name, all are meant, and those too that cannot be read.
    for error in if names.is_empty() { unreadable(&setting.facts) } else { Vec::new() } {
        ui.remark(CliError::from_error(&error).to_string());
        worst = Some(Severity::Error);
    }
    for found in found {
        let facts = setting.facts_for(&found);
        let problems = examine(found.source.clone(), &setting.config, &facts);
        worst = worst.max(problems.iter().map(|problem| problem.severity).max());
        if ui.json {
            let problems: Vec<_> = problems.iter().map(|problem| problem.to_json(&found.source)).collect();
            reports.push(json!({ "file": found.source.name(), "problems": problems }));
        } else if problems.is_empty() {
            ui.answer(format!("{}: fine", found.source.name()))?;
        } else {
            ui.answer(render_all(&problems, &found.source))?;
        }
    }
    if ui.json {
        ui.answer_json(&json!(reports))?;
    }
    Ok(match worst {
        None | Some(Severity::Note) => Exit::Fine,
        Some(Severity::Warning) => Exit::Denied,
        Some(Severity::Error) => Exit::BadInput,
    })
}

/// Linting reads a record without using it, so an untrusted one may be linted.
pub(super) fn untrusted_too(setting: &Setting, name: &str) -> Result<AgentSource, CliError> {
    match find(name, &setting.facts) {
        Err(FindError::Untrusted { path }) => Ok(open_record(&path, &setting.facts)?),
        other => Ok(other?),
    }
}

fn trust(ui: &Ui, setting: &Setting, command: &Trust) -> Result<Exit, CliError> {
    let path = setting.facts.cwd.join(&command.file);
    let found = open_record(&path, &setting.facts)?;
    let Some(real) = found.path.clone().filter(|_| found.shelf == Shelf::Project) else {
        return Err(CliError::new(format!(
            "{} is not a project's record and needs no trust",
            path.display()
        ))
        .hint("a project's records lie in its `.sbx/agents` directory"));
    };
    let text = found.source.text().to_owned();
    if found.trusted {
        ui.answer(format!("{} is already trusted as it is", real.display()))?;
        return Ok(Exit::Fine);
    }
    let agent = setting.load(found)?;
    ui.remark(format!("{} would hold:\n{}", agent.manifest.id(), authority::lines(ui, &agent.policy)));
    for line in besides_grants(&agent.policy) {
        ui.remark(line);
    }
    remark_problems(ui, &agent);
    if !ui.confirm("Trust it as it is now?", command.yes)? {
        ui.remark("nothing was changed");
        return Ok(Exit::Denied);
    }
    TrustStore::in_dir(&setting.facts.config_dir)
        .trust(&real, &text)
        .map_err(|error| CliError::from_error(&error))?;
    ui.answer(format!("trusted {}", real.display()))?;
    Ok(Exit::Fine)
}
