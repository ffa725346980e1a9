//! `sbx explain`: the narrowing chain as a receipt.

use super::tree::{drawn, tree_json};
use super::{CliError, Exit, Ui, authority};
use crate::policy::{LevelName, fingerprint};
use crate::run::Setting;
use clap::Args;
use serde_json::json;
use std::fmt::Write;

/// Whose authority to explain.
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// An agent's name, or the path of a record.
    #[arg(long, short)]
    agent: String,
    /// Draw what it can read, write, delete, run and reach as a tree.
    #[arg(long)]
    tree: bool,
}

impl Explain {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let agent = setting.agent(&self.agent)?;
        let (policy, chain) = (&agent.policy, agent.policy.chain());
        if ui.json {
            let levels: Vec<_> = chain
                .levels()
                .iter()
                .map(|level| {
                    let clamped = chain.clamps().iter().find(|clamp| clamp.asked == *level);
                    json!({
                        "level": level_key(level.name), "root": level.root, "place": level.place,
                        "narrowed_to": clamped.map(|clamp| &clamp.narrowed_to),
                    })
                })
                .collect();
            let grants: Vec<_> = authority::by_risk(policy).into_iter().map(authority::to_json).collect();
            let mut body = json!({
                "agent": policy.agent(), "file": agent.manifest.source().name(), "levels": levels,
                "root": chain.root(), "grants": grants, "hash": fingerprint(policy),
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

fn level_key(name: LevelName) -> &'static str {
    match name {
        LevelName::Config => "config",
        LevelName::Project => "project",
        LevelName::Agent => "agent",
        LevelName::Grant => "grant",
    }
}
