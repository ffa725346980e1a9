//! `sbx skills` and `sbx provider-tools`: what an agent may be offered.

use super::{CliError, Exit, Ui};
use crate::capability::Spec;
use crate::manifest::{Facts, read_source};
use crate::run::Setting;
use crate::text::render_all;
use crate::tool::{Skill, offers, unmet};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The `skills` commands.
#[derive(Debug, Subcommand)]
pub(super) enum Skills {
    /// List the skills an agent can use; those it cannot are left out.
    List(SkillList),
    /// Say what a skill requires, and what of it the agent lacks.
    Check(SkillCheck),
}

/// Which skills, for whom.
#[derive(Debug, Args)]
pub(super) struct SkillList {
    /// An agent's name, or the path of a record.
    #[arg(long, short)]
    agent: String,
    /// A directory of skills; the usual ones when left out.
    #[arg(long)]
    dir: Vec<PathBuf>,
}

/// Which skill, for whom.
#[derive(Debug, Args)]
pub(super) struct SkillCheck {
    /// A skill's name, or the path of its SKILL.md.
    skill: String,
    /// An agent's name, or the path of a record.
    #[arg(long, short)]
    agent: String,
    /// A directory of skills; the usual ones when left out.
    #[arg(long)]
    dir: Vec<PathBuf>,
}

/// For whom.
#[derive(Debug, Args)]
pub(super) struct ProviderTools {
    /// An agent's name, or the path of a record.
    #[arg(long, short)]
    agent: String,
    /// Only this provider's.
    #[arg(long)]
    provider: Option<String>,
    /// Also those that are not offered, with the reason.
    #[arg(long)]
    all: bool,
}

impl Skills {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        match self {
            Self::List(command) => command.run(ui, &setting),
            Self::Check(command) => command.run(ui, &setting),
        }
    }
}

/// Directories in which skills are kept: sbx's own, the user's, the project's.
fn skill_dirs(given: &[PathBuf], facts: &Facts) -> Vec<PathBuf> {
    if !given.is_empty() {
        return given.iter().map(|dir| facts.cwd.join(dir)).collect();
    }
    let project = facts.project.iter().map(|project| project.join(".claude/skills"));
    [facts.config_dir.join("skills"), facts.home.join(".claude/skills")].into_iter().chain(project).collect()
}

/// Every `NAME/SKILL.md` below the directories, by name.
fn skill_files(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = dirs
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path().join("SKILL.md")))
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    files
}

fn read_skill(file: &Path) -> Result<Skill, CliError> {
    let source = read_source(file).map_err(|error| CliError::from_error(&error))?;
    let (skill, problems) = Skill::parse(&source);
    skill.ok_or_else(|| CliError::new(format!("the skill has errors\n{}", render_all(&problems, &source))))
}

impl SkillList {
    fn run(self, ui: &Ui, setting: &Setting) -> Result<Exit, CliError> {
        let agent = setting.agent(&self.agent)?;
        let files = skill_files(&skill_dirs(&self.dir, &setting.facts));
        let usable: Vec<Skill> = files
            .iter()
            .filter_map(|file| match read_skill(file) {
                Ok(skill) => Some(skill),
                Err(error) => {
                    ui.remark(error.to_string());
                    None
                }
            })
            .filter(|skill| unmet(&agent.policy, &skill.requires).is_empty())
            .collect();
        if ui.json {
            let rows: Vec<_> = usable
                .iter()
                .map(|skill| json!({ "name": skill.name, "description": skill.description }))
                .collect();
            ui.answer_json(&json!(rows))?;
            return Ok(Exit::Fine);
        }
        for skill in usable {
            ui.answer(format!(
                "{:<24}  {}",
                skill.name,
                skill.description.lines().next().unwrap_or_default()
            ))?;
        }
        Ok(Exit::Fine)
    }
}

impl SkillCheck {
    fn run(self, ui: &Ui, setting: &Setting) -> Result<Exit, CliError> {
        let agent = setting.agent(&self.agent)?;
        let skill = self.find(&setting.facts)?;
        let missing = unmet(&agent.policy, &skill.requires);
        if ui.json {
            let lacking: Vec<_> = missing
                .iter()
                .map(|unmet| json!({ "requirement": unmet.requirement.to_string(), "reason": unmet.reason }))
                .collect();
            ui.answer_json(&json!({
                "skill": skill.name,
                "requires": skill.requires.iter().map(Spec::to_string).collect::<Vec<_>>(),
                "unknown_tools": skill.unknown,
                "missing": lacking,
                "usable": missing.is_empty(),
            }))?;
        } else {
            for requirement in &skill.requires {
                match missing.iter().find(|unmet| unmet.requirement == *requirement) {
                    Some(unmet) => ui.answer(format!("missing  {requirement}\n         {}", unmet.reason))?,
                    None => ui.answer(format!("held     {requirement}"))?,
                }
            }
            if missing.is_empty() {
                ui.answer(format!("{} can use {}", agent.policy.agent(), skill.name))?;
            } else {
                ui.answer(format!("{} cannot use {}", agent.policy.agent(), skill.name))?;
            }
            for token in &skill.unknown {
                ui.remark(format!("`{token}` stands for no capability that sbx knows; it is not checked"));
            }
        }
        Ok(if missing.is_empty() { Exit::Fine } else { Exit::Denied })
    }

    fn find(&self, facts: &Facts) -> Result<Skill, CliError> {
        if self.skill.ends_with(".md") {
            return read_skill(&facts.cwd.join(&self.skill));
        }
        let files = skill_files(&skill_dirs(&self.dir, facts));
        let named = |file: &&PathBuf| {
            file.parent().and_then(Path::file_name).is_some_and(|name| *name == *self.skill)
        };
        match files.iter().find(named) {
            Some(file) => read_skill(file),
            None => Err(CliError::new(format!("there is no skill `{}`", self.skill))
                .hint("name its SKILL.md, or give --dir")),
        }
    }
}

impl ProviderTools {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let agent = setting.agent(&self.agent)?;
        let mut known: Vec<&str> = offers(&agent.policy).iter().map(|offer| offer.provider).collect();
        known.dedup();
        if let Some(asked) = &self.provider
            && !known.contains(&asked.as_str())
        {
            return Err(CliError::new(format!("there is no provider `{asked}`"))
                .hint(format!("sbx knows {}", known.join(", "))));
        }
        let wanted = |provider: &str| self.provider.as_deref().is_none_or(|wanted| wanted == provider);
        let rows: Vec<_> = offers(&agent.policy)
            .into_iter()
            .filter(|offer| wanted(offer.provider) && (self.all || offer.offered))
            .collect();
        if ui.json {
            let rows: Vec<_> = rows
                .iter()
                .map(|offer| {
                    json!({
                        "provider": offer.provider, "tool": offer.tool, "offered": offer.offered,
                        "allowed_domains": offer.allowed_domains, "notes": offer.notes,
                    })
                })
                .collect();
            ui.answer_json(&json!(rows))?;
            return Ok(Exit::Fine);
        }
        for offer in rows {
            let domains = match (&offer.allowed_domains, offer.offered) {
                (Some(domains), _) => format!("only {}", domains.join(", ")),
                (None, true) => "unrestricted".to_owned(),
                (None, false) => "not offered".to_owned(),
            };
            ui.answer(format!("{:<10} {:<17} {domains}", offer.provider, offer.tool))?;
            for note in offer.notes {
                ui.answer(format!("  {}", ui.dim(&note)))?;
            }
        }
        Ok(Exit::Fine)
    }
}
