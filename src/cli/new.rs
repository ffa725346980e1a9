//! `sbx agents new`: a wizard on a terminal, flags in scripts.

use super::{CliError, Exit, Ui};
use crate::capability::{CATALOG, Entry, Risk, Scope, ScopeKey, ScopeValue, Spec, ValueKind};
use crate::doctor::examine;
use crate::manifest::{Facts, create_file, find, normalize_id, parse_spec, renamed, render_record};
use crate::run::Setting;
use crate::text::{Severity, Source, render_all};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// What the new agent is to be.
#[derive(Debug, Args)]
pub(super) struct New {
    /// The agent's name.
    name: String,
    /// A grant in compact form; may be repeated.
    #[arg(long = "grant", value_name = "SPEC")]
    grants: Vec<String>,
    /// The agent's own root: no grant reaches outside it.
    #[arg(long, value_name = "DIR")]
    root: Option<String>,
    /// What the agent is for.
    #[arg(long)]
    description: Option<String>,
    /// Start from another agent's record.
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["grants", "root", "description"])]
    from: Option<String>,
    /// Write it into this project's `.sbx/agents` instead of your own.
    #[arg(long)]
    project: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

impl New {
    pub(super) fn run(self, ui: &Ui, setting: &Setting) -> Result<Exit, CliError> {
        let path = file_for(&self.name, &setting.facts, self.project)?;
        let Some(text) = self.text(ui, setting)? else {
            ui.remark("nothing was written");
            return Ok(Exit::Denied);
        };
        let source = Source::new(path.display().to_string(), text.as_str());
        let problems = examine(source.clone(), &setting.config, &setting.facts);
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(CliError::new(format!(
                "the record would have errors\n{}",
                render_all(&problems, &source)
            )));
        }
        if ui.can_ask() && !self.yes {
            ui.remark(format!("{}:\n\n{text}", path.display()));
            if !problems.is_empty() {
                ui.remark(render_all(&problems, &source));
            }
            if !ui.confirm("Write it?", false)? {
                ui.remark("nothing was written");
                return Ok(Exit::Denied);
            }
        }
        create_file(&path, &text)
            .map_err(|error| CliError::new(format!("cannot write {}: {error}", path.display())))?;
        if ui.json {
            ui.answer_json(&json!({ "file": path.to_string_lossy() }))?;
        } else {
            ui.answer(format!("wrote {}", path.display()))?;
        }
        if self.project {
            ui.remark(format!(
                "a project's record is used once trusted: sbx agents trust {}",
                path.display()
            ));
        }
        Ok(Exit::Fine)
    }

    fn text(&self, ui: &Ui, setting: &Setting) -> Result<Option<String>, CliError> {
        if let Some(other) = &self.from {
            let found = find(other, &setting.facts)?;
            let text = renamed(&found.source, normalize_id(&self.name), &setting.facts_for(&found));
            return Ok(Some(text.map_err(|error| CliError::from_error(&error))?));
        }
        let facts = &setting.facts;
        let specs: Result<Vec<Spec>, _> = self.grants.iter().map(|text| parse_spec(text, facts)).collect();
        let mut specs = specs.map_err(|error| CliError::new(error.to_string()))?;
        let (mut root, mut description) = (self.root.clone(), self.description.clone());
        let silent = specs.is_empty() && root.is_none() && description.is_none();
        if silent && ui.can_ask() {
            description = ui.ask("What is it for? ")?.filter(|text| !text.is_empty());
            root = ui.ask("Root that no grant leaves (empty for none): ")?.filter(|text| !text.is_empty());
            while let Some(spec) = pick_grant(ui, facts)? {
                specs.push(spec);
            }
        } else if silent && !self.yes {
            return Err(CliError::new("there is no terminal to ask on, and nothing was given to write")
                .hint(
                    "give --grant, --root, --description or --from; --yes writes a record without authority",
                ));
        }
        let id = normalize_id(&self.name);
        Ok(Some(render_record(id, description.as_deref(), root.as_deref(), &specs)))
    }
}

/// Where the record of a new agent goes: to the user's own, or to those of the project.
pub(super) fn file_for(name: &str, facts: &Facts, project: bool) -> Result<PathBuf, CliError> {
    let id = normalize_id(name);
    let plain = !id.is_empty()
        && id.len() <= 64
        && !id.starts_with('.')
        && id.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if !plain {
        return Err(CliError::new(format!("`{name}` is not a name for an agent"))
            .hint("letters, digits, `.`, `_` and `-`, not starting with a dot"));
    }
    let dir = if project {
        let project = facts.project.as_ref().ok_or_else(|| CliError::new("there is no project here"))?;
        project.join(".sbx/agents")
    } else {
        facts.config_dir.join("agents")
    };
    let path = dir.join(format!("{id}.md"));
    if path.exists() {
        return Err(CliError::new(format!("{} exists already", path.display()))
            .hint("change it with `sbx agents grant`"));
    }
    Ok(path)
}

/// Asks for one grant, from low to high risk; none when the user has had enough.
pub(super) fn pick_grant(ui: &Ui, facts: &Facts) -> Result<Option<Spec>, CliError> {
    if !ui.can_ask() {
        return Err(
            CliError::new("there is no terminal to pick a grant on").hint("give the grant in compact form")
        );
    }
    let mut entries: Vec<&Entry> = CATALOG.iter().collect();
    entries.sort_by_key(|entry| (entry.risk, entry.name));
    for (number, entry) in entries.iter().enumerate() {
        let risk = ui.by_risk(entry.risk, &format!("{:<6}", entry.risk.name()));
        ui.remark(format!("{:>3}  {risk}  {:<15} {}", number + 1, entry.name, entry.summary));
    }
    loop {
        let Some(line) =
            ui.ask("Grant which (number or name, empty to end)? ")?.filter(|line| !line.is_empty())
        else {
            return Ok(None);
        };
        let by_number =
            line.parse::<usize>().ok().and_then(|number| entries.get(number.checked_sub(1)?)).copied();
        match by_number.or_else(|| entries.iter().find(|entry| entry.name == line).copied()) {
            Some(entry) => match ask_scope(ui, entry, facts)? {
                Some(spec) => return Ok(Some(spec)),
                None => continue,
            },
            None => ui.remark("that is none of them"),
        }
    }
}

/// Asks for each scope key; a scope that is wrong is explained and asked for again.
fn ask_scope(ui: &Ui, entry: &Entry, facts: &Facts) -> Result<Option<Spec>, CliError> {
    let mut scope = Scope::bare();
    for key in entry.keys {
        let question = match (key, key.kind()) {
            (ScopeKey::In, _) => "  in (root; empty for the agent's own): ".to_owned(),
            (key, ValueKind::List) => {
                format!("  {} (separated by blanks or commas; empty for no limit): ", key.name())
            }
            (key, ValueKind::Text) => format!("  {} (empty for no limit): ", key.name()),
        };
        let Some(line) = ui.ask(&question)?.filter(|line| !line.is_empty()) else { continue };
        scope = match key.kind() {
            ValueKind::Text => scope.with_text(*key, line),
            ValueKind::List if *key == ScopeKey::Patterns => {
                scope.with_list(*key, line.split(',').map(str::trim).filter(|item| !item.is_empty()))
            }
            ValueKind::List => {
                let items = line.split([' ', ',']).filter(|item| !item.is_empty()).map(str::to_owned);
                scope.with(*key, ScopeValue::List(items.collect()))
            }
        };
    }
    let spec = Spec { capability: entry.capability, scope };
    match parse_spec(&spec.to_string(), facts) {
        Ok(spec) => {
            if entry.risk == Risk::High && spec.scope.is_bare() && entry.family.is_external() {
                ui.remark("  (without a scope it allows nothing until a root or hosts are set)");
            }
            Ok(Some(spec))
        }
        Err(error) => {
            ui.remark(error.to_string());
            Ok(None)
        }
    }
}
