//! `sbx report`: every agent's authority, what happened, and what changed; as a page, as text or as JSON.

use super::agents::untrusted_too;
use super::audit::READING;
use super::tree::{drawn, tree_json};
use super::{CliError, Exit, Ui};
use crate::audit::{entries, format_time, parse_time};
use crate::capability::Risk;
use crate::manifest::{AgentSource, list};
use crate::report::{Activity, Change, Difference, Page, Shown, compare, render_page};
use crate::run::{Agent, Setting, SettingError};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::SystemTime;

/// What to show, and where.
#[derive(Debug, Args)]
pub(super) struct Report {
    /// Write one page that needs nothing else to this file, sbx-report.html when none is named; `-` is stdout.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "sbx-report.html")]
    html: Option<PathBuf>,
    /// Only these agents; may be repeated.
    #[arg(long, short)]
    agent: Vec<String>,
    /// What happened from then on: a date, a date and time in UTC, or how long ago (12h, 30d).
    #[arg(long, value_name = "TIME", default_value = "30d")]
    since: String,
    /// Also compare two versions of a record: two files, or two agents.
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"])]
    diff: Option<Vec<String>>,
}

/// A record that was found, and what came of loading it.
type Loaded = (AgentSource, Result<Agent, SettingError>);

impl Report {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let now = SystemTime::now();
        let since = parse_time(&self.since, now).ok_or_else(|| {
            CliError::new(format!("`{}` is not a time", self.since))
                .hint("a date (2026-01-31), a date and time in UTC, or how long ago (12h, 30d)")
        })?;
        let loaded = self.agents(&setting)?;
        let difference = self.diff.as_deref().map(|pair| difference(&setting, pair)).transpose()?;
        let mut activity = Activity::between(since, now);
        let wanted: Vec<&str> = loaded.iter().filter_map(|(found, _)| found.name()).collect();
        let add = &mut |entry: crate::audit::Entry| {
            if self.agent.is_empty() || wanted.contains(&entry.agent.as_str()) {
                activity.add(&entry);
            }
            Ok(())
        };
        let damaged = ui.during(READING, || entries(&setting.facts.state_dir, add))?;
        let agents: Vec<Shown<'_>> = loaded.iter().map(shown).collect();
        let now = format_time(now);
        let page = Page {
            agents: &agents,
            activity: &activity,
            damaged,
            difference: difference.as_ref(),
            now: &now,
        };
        match &self.html {
            Some(file) if file.as_os_str() == "-" => ui.answer(render_page(&page).trim_end())?,
            Some(file) => {
                let file = setting.facts.cwd.join(file);
                std::fs::write(&file, render_page(&page)).map_err(|error| {
                    CliError::new(format!("cannot write {}", file.display())).because(&error)
                })?;
                ui.remark(format!("wrote {}", file.display()));
            }
            None if ui.json => ui.answer_json(&to_json(&page))?,
            None => ui.answer(text(ui, &page).trim_end())?,
        }
        Ok(Exit::Fine)
    }

    fn agents(&self, setting: &Setting) -> Result<Vec<Loaded>, CliError> {
        let found: Vec<AgentSource> = match self.agent.as_slice() {
            [] => list(&setting.facts),
            names => names.iter().map(|name| untrusted_too(setting, name)).collect::<Result<_, _>>()?,
        };
        Ok(found.into_iter().map(|found| (found.clone(), setting.load(found))).collect())
    }
}

fn shown((found, agent): &Loaded) -> Shown<'_> {
    let description = agent.as_ref().ok().and_then(|agent| agent.manifest.description());
    Shown {
        name: found.name().unwrap_or("?").to_owned(),
        from: found.shelf.name(),
        trusted: found.trusted,
        description: description.unwrap_or_default().to_owned(),
        file: found.source.name().to_owned(),
        policy: agent.as_ref().map(|agent| &agent.policy).map_err(ToString::to_string),
    }
}

fn difference(setting: &Setting, pair: &[String]) -> Result<Difference, CliError> {
    let load =
        |name: &String| -> Result<Agent, CliError> { Ok(setting.load(untrusted_too(setting, name)?)?) };
    match pair {
        [old, new] => {
            let (before, after) = (load(old)?, load(new)?);
            let names = (before.manifest.source().name(), after.manifest.source().name());
            Ok(compare((names.0, &before.policy), (names.1, &after.policy)))
        }
        _ => Err(CliError::new("--diff takes two records")),
    }
}

fn text(ui: &Ui, page: &Page<'_>) -> String {
    let mut text = String::new();
    for shown in page.agents {
        let state = if shown.trusted { "" } else { "  (not trusted)" };
        let _ = writeln!(text, "{}  {}{state}", ui.bold(&shown.name), ui.dim(&shown.file));
        match &shown.policy {
            Ok(policy) => text.push_str(&drawn(ui, policy)),
            Err(error) => text.push_str(&format!("{error}\n")),
        }
        text.push('\n');
    }
    if let Some(difference) = page.difference {
        changed(ui, difference, &mut text);
    }
    if page.damaged > 0 {
        let _ = writeln!(
            text,
            "{} lines of the log are not as they were written; see `sbx audit verify`",
            page.damaged
        );
    }
    let stats = &page.activity.stats;
    let sum = |count: fn(&crate::audit::AgentStats) -> u64| stats.agents.values().map(count).sum::<u64>();
    let _ = writeln!(
        text,
        "{} launches and {} refusals since {}",
        sum(|agent| agent.launches),
        sum(|agent| agent.denied),
        page.activity.since()
    );
    for refusal in page.activity.refusals.iter().take(10) {
        let _ = writeln!(text, "  {}  {}  {}", ui.dim(&refusal.time), refusal.agent, refusal.message);
    }
    text
}

fn changed(ui: &Ui, difference: &Difference, text: &mut String) {
    let _ = writeln!(
        text,
        "{} to {}: {}, {} grants as before",
        difference.old,
        difference.new,
        ui.bold(difference.direction.name()),
        difference.kept
    );
    let mut lines = |sign: &str, changes: &[Change]| {
        for change in changes {
            let risk = change.risk.map_or("", Risk::name);
            let word = format!("{risk:<6}");
            let word = change.risk.map_or_else(|| word.clone(), |risk| ui.by_risk(risk, &word));
            let covered = if change.covered { "  (held by another grant of the other version)" } else { "" };
            let _ = writeln!(text, "  {sign} {word}  {}{covered}", change.text);
        }
    };
    lines("+", &difference.added);
    lines("-", &difference.removed);
    text.push('\n');
}

fn to_json(page: &Page<'_>) -> Value {
    let agent = |shown: &Shown<'_>| {
        let (tree, error) = match &shown.policy {
            Ok(policy) => (tree_json(policy), Value::Null),
            Err(error) => (json!([]), json!(error)),
        };
        let stats = page.activity.of(&shown.name);
        json!({
            "name": shown.name, "from": shown.from, "trusted": shown.trusted,
            "description": shown.description, "file": shown.file, "error": error, "tree": tree,
            "launches": stats.map_or(0, |stats| stats.launches), "denied": stats.map_or(0, |stats| stats.denied),
        })
    };
    json!({
        "time": page.now, "agents": page.agents.iter().map(agent).collect::<Vec<_>>(),
        "activity": page.activity.to_json(), "damaged": page.damaged,
        "difference": page.difference.map(Difference::to_json),
    })
}
