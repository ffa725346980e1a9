//! `sbx explain`: the narrowing chain as a receipt, and what a command would be launched with.

use super::fence::Who;
use super::tree::{drawn, tree_json};
use super::{CliError, Exit, Ui, authority};
use crate::decide::{Decision, Request};
use crate::plan::Invocation;
use crate::policy::{LevelName, fingerprint};
use crate::run::{Agent, Live, Setting, judge, planned};
use clap::Args;
use sbx_platform::Backend;
use serde_json::json;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

/// Whose authority to explain.
#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    who: Who,
    /// Draw what it can read, write, delete, run and reach as a tree.
    #[arg(long, conflicts_with = "argv")]
    tree: bool,
    /// A command: show the plan it would be launched with, and what the backend would be told. Nothing is run.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    argv: Vec<OsString>,
}

impl Explain {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let agent = setting.agent(&self.who.agent)?;
        if !self.argv.is_empty() {
            return self.launch(ui, &setting, &agent);
        }
        let (policy, chain) = (&agent.policy, agent.policy.chain());
        if ui.json {
            let levels: Vec<_> = chain
                .levels()
                .iter()
                .map(|level| {
                    let clamped = chain.clamps().iter().find(|clamp| clamp.asked == *level);
                    json!({
                        "level": level_key(level.name), "root": level.root.to_string_lossy(), "place": level.place,
                        "narrowed_to": clamped.map(|clamp| clamp.narrowed_to.to_string_lossy()),
                    })
                })
                .collect();
            let grants: Vec<_> = authority::by_risk(policy).into_iter().map(authority::to_json).collect();
            let mut body = json!({
                "agent": policy.agent(), "file": agent.manifest.source().name(), "levels": levels,
                "root": chain.root().map(Path::to_string_lossy), "grants": grants, "hash": fingerprint(policy),
            });
            if self.tree {
                body["tree"] = tree_json(policy);
            }
            ui.answer_json(&body)?;
            return Ok(Exit::Fine);
        }
        let mut text = format!("{}  {}\n\nchain\n", ui.bold(policy.agent()), agent.manifest.source().name());
        for name in [LevelName::Config, LevelName::Project, LevelName::Agent] {
            let level = chain.levels().iter().find(|level| level.name == name);
            let shown =
                level.map_or_else(|| "names no root".to_owned(), |level| level.root.display().to_string());
            let place = level.and_then(|level| level.place.as_ref());
            let place = place.map_or_else(String::new, |place| {
                format!("  {}", ui.dim(&format!("{}:{}", place.file, place.line)))
            });
            let _ = writeln!(text, "  {:<18} {shown}{place}", name.to_string());
            if let Some(clamp) = chain.clamps().iter().find(|clamp| clamp.asked.name == name) {
                let _ = writeln!(
                    text,
                    "  {:<18} outside the level above: narrowed to {}",
                    "",
                    clamp.narrowed_to.display()
                );
            }
        }
        let root = chain.root().map_or_else(
            || "none; each grant needs its own `in`".to_owned(),
            |root| root.display().to_string(),
        );
        let _ = writeln!(text, "  {:<18} {root}", "root");
        let _ = write!(text, "\nauthority\n");
        let shown = if self.tree { drawn(ui, policy) } else { authority::lines(ui, policy) };
        for line in shown.lines() {
            let _ = writeln!(text, "  {line}");
        }
        let _ = write!(text, "\nhash  {}", fingerprint(policy));
        ui.answer(text)?;
        Ok(Exit::Fine)
    }
}

impl Explain {
    /// The plan of a command that would be allowed, and what the backend would be told.
    fn launch(self, ui: &Ui, setting: &Setting, agent: &Agent) -> Result<Exit, CliError> {
        let request = Request::exec(self.argv.clone()).in_dir(self.who.directory(setting));
        let permit = match judge(&agent.policy, &setting.facts.cwd, &request)? {
            Decision::Allow(permit) => permit,
            Decision::Deny(denial) => {
                match ui.json {
                    true => ui.answer_json(&denial.to_json())?,
                    false => ui.answer(denial.to_string())?,
                }
                return Ok(Exit::Denied);
            }
        };
        let invocation = Invocation::new(sbx_platform::ids()).accepting(self.who.accepted()?);
        let lowered = planned(&permit, &invocation, &Live).map_err(|error| CliError::from_error(&error))?;
        let backend = self.who.backend(setting)?.unwrap_or(Backend::ALL[0]);
        let told =
            sbx_platform::explain(&lowered.plan, backend).map_err(|error| CliError::from_error(&error))?;
        let plan = sbx_platform::text::write(&lowered.plan);
        if ui.json {
            let lines: Vec<&str> = plan.lines().collect();
            ui.answer_json(&json!({
                "agent": agent.policy.agent(), "grant": permit.grant().spec.to_string(), "plan": lines,
                "backend": backend.name(), "told": told, "remarks": lowered.remarks,
            }))?;
            return Ok(Exit::Fine);
        }
        let mut text = format!("{}  {}\n\nplan\n", ui.bold(agent.policy.agent()), permit.grant().spec);
        for line in plan.lines() {
            let _ = writeln!(text, "  {line}");
        }
        let _ = write!(text, "\nbackend {backend}");
        for line in told.lines() {
            let _ = write!(text, "\n  {line}");
        }
        for remark in &lowered.remarks {
            let _ = write!(text, "\n\n{remark}");
        }
        ui.answer(text)?;
        Ok(Exit::Fine)
    }
}

fn level_key(name: LevelName) -> &'static str {
    match name {
        LevelName::Config => "config",
        LevelName::Project => "project",
        LevelName::Agent => "agent",
        LevelName::Grant => "grant",
    }
}
