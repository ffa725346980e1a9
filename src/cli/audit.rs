//! `sbx audit`: what happened, in order, in numbers, and whether the log is whole.

use super::{CliError, Exit, Ui};
use crate::audit::{Entry, Filter, Link, Stats, entries, follow, format_time, parse_time, verify};
use crate::capability::Risk;
use crate::run::Setting;
use crate::text::shell_quoted;
use clap::{Args, Subcommand};
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::time::{Duration, SystemTime};

/// What is said while the log is read, which grows with time.
pub(super) const READING: &str = "reading the log …";
/// How often `--follow` looks for more.
const PAUSE: Duration = Duration::from_millis(200);

/// What to do with the log.
#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// Show what happened, oldest first.
    Show(Show),
    /// Count what happened.
    Stats(Wanted),
    /// Find out whether any line was changed, removed, moved, added or cut off.
    Verify(Verify),
}

/// Which events.
#[derive(Debug, Args)]
pub(super) struct Wanted {
    /// Only of this agent.
    #[arg(long, short)]
    agent: Option<String>,
    /// Only of this kind, such as launch, end, decision, limit, connection, tool; may be repeated.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,
    /// Only of this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only from then on: a date, a date and time in UTC, or how long ago (15m, 2h, 7d).
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only before then.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only what was refused.
    #[arg(long)]
    denied: bool,
}

/// What to show.
#[derive(Debug, Args)]
pub(super) struct Show {
    #[command(flatten)]
    wanted: Wanted,
    /// At most this many, the last ones.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    last: usize,
    /// All of them.
    #[arg(long, conflicts_with = "last")]
    all: bool,
    /// Go on with what happens from now on.
    #[arg(long, short)]
    follow: bool,
}

/// What to hold the log against.
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// A head that an earlier `verify` printed and that was kept elsewhere: the log must still contain it.
    #[arg(long, value_name = "HEAD")]
    head: Option<Link>,
}

impl Audit {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        match self {
            Self::Show(command) => command.run(ui),
            Self::Stats(command) => stats(ui, &command),
            Self::Verify(command) => command.run(ui),
        }
    }
}

impl Wanted {
    fn filter(&self) -> Result<Filter, CliError> {
        let moment = |text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => match parse_time(text, SystemTime::now()) {
                Some(moment) => Ok(Some(format_time(moment))),
                None => Err(CliError::new(format!("`{text}` is not a time"))
                    .hint("a date (2026-01-31), a date and time in UTC, or how long ago (15m, 2h, 7d)")),
            },
        };
        Ok(Filter {
            agent: self.agent.clone(),
            kinds: self.kind.clone(),
            session: self.session.clone(),
            since: moment(&self.since)?,
            until: moment(&self.until)?,
            denied: self.denied,
        })
    }
}

impl Show {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let dir = &setting.facts.state_dir;
        let filter = self.wanted.filter()?;
        let most = if self.all { usize::MAX } else { self.last };
        let mut kept: VecDeque<Entry> = VecDeque::new();
        let mut last = 0;
        let keep = &mut |entry: Entry| {
            last = entry.seq;
            if filter.wants(&entry) {
                kept.push_back(entry);
                if kept.len() > most {
                    kept.pop_front();
                }
            }
            Ok(())
        };
        let damaged = ui.during(READING, || entries(dir, keep))?;
        warn_of_damage(ui, damaged);
        if ui.json && !self.follow {
            ui.answer_json(&kept.iter().map(Entry::to_json).collect())?;
            return Ok(Exit::Fine);
        }
        let print =
            |entry: &Entry| ui.answer_on(if ui.json { entry.to_json().to_string() } else { line(ui, entry) });
        let shown = kept.iter().try_for_each(print).and_then(|()| {
            if !self.follow {
                return Ok(());
            }
            follow(dir, PAUSE, last, &mut |entry| if filter.wants(&entry) { print(&entry) } else { Ok(()) })
        });
        match shown {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(Exit::Fine),
        }
    }
}

fn warn_of_damage(ui: &Ui, damaged: u64) {
    if damaged > 0 {
        ui.remark(format!("sbx: {damaged} lines are not as they were written; see `sbx audit verify`"));
    }
}

/// One line for people.
fn line(ui: &Ui, entry: &Entry) -> String {
    let kind = format!("{:<10}", entry.kind);
    let kind = if entry.is_denial() { ui.by_risk(Risk::High, &kind) } else { kind };
    let agent = if entry.agent.is_empty() { "-" } else { &entry.agent };
    format!("{}  {:<12} {kind} {}", ui.dim(&entry.time), agent, summary(entry))
}

fn summary(entry: &Entry) -> String {
    let text = |name: &str| entry.body.get(name).and_then(Value::as_str);
    let denial = || entry.body.get("denial")?.get("message")?.as_str();
    match entry.kind.as_str() {
        "launch" => text("cmd").map_or_else(|| words(entry.body.get("argv")), str::to_owned),
        "end" => ended(entry),
        "decision" if entry.is_denial() => denial().unwrap_or("denied").to_owned(),
        "decision" => format!("allowed: {}", text("request").unwrap_or_default()),
        _ => pairs(entry),
    }
}

fn words(argv: Option<&Value>) -> String {
    let items = argv.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let quoted = |word: &str| {
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+[]".contains(c);
        if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { shell_quoted(word) }
    };
    items.map(quoted).collect::<Vec<_>>().join(" ")
}

fn ended(entry: &Entry) -> String {
    let number = |name: &str| entry.body.get(name).and_then(Value::as_u64);
    let text = |name: &str| entry.body.get(name).and_then(Value::as_str);
    let mut out = format!("status {}", number("status").unwrap_or_default());
    if let Some(error) = text("error").or_else(|| text("setup")) {
        let _ = write!(out, ": {error}");
    }
    if let Some(limit) = text("limit") {
        let _ = write!(out, ", {limit} limit");
    }
    if let (Some(duration), Some(backend)) = (number("duration_ms"), text("backend")) {
        let _ = write!(out, " after {duration} ms, {backend}");
    }
    let missing = words(entry.body.get("missing"));
    if !missing.is_empty() {
        let _ = write!(out, ", without {missing}");
    }
    out
}

/// What an event of another kind holds, briefly.
fn pairs(entry: &Entry) -> String {
    let shown = entry.body.iter().filter_map(|(key, value)| match value {
        Value::Null | Value::Object(_) => None,
        Value::String(text) => Some(format!("{key}={text}")),
        Value::Array(_) => Some(format!("{key}={}", words(Some(value)))),
        Value::Bool(_) | Value::Number(_) => Some(format!("{key}={value}")),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn stats(ui: &Ui, wanted: &Wanted) -> Result<Exit, CliError> {
    let setting = Setting::from_env()?;
    let filter = wanted.filter()?;
    let mut stats = Stats::default();
    let count = &mut |entry: Entry| -> io::Result<()> {
        if filter.wants(&entry) {
            stats.add(&entry);
        }
        Ok(())
    };
    let damaged = ui.during(READING, || entries(&setting.facts.state_dir, count))?;
    if ui.json {
        ui.answer_json(&stats.to_json(damaged))?;
        return Ok(Exit::Fine);
    }
    warn_of_damage(ui, damaged);
    let (Some(first), Some(last)) = (&stats.first, &stats.last) else {
        ui.answer("nothing was recorded")?;
        return Ok(Exit::Fine);
    };
    let mut text =
        format!("{} events, {} sessions, {first} to {last}\n\n", stats.events, stats.sessions.len());
    let _ = writeln!(
        text,
        "{:<16} {:>8} {:>8} {:>8} {:>8} {:>12}",
        "agent", "launches", "failed", "denied", "limits", "seconds"
    );
    for (name, agent) in &stats.agents {
        let denied = format!("{:>8}", agent.denied);
        let denied = if agent.denied > 0 { ui.by_risk(Risk::High, &denied) } else { denied };
        let _ = writeln!(
            text,
            "{name:<16} {:>8} {:>8} {denied} {:>8} {:>12}",
            agent.launches,
            agent.failed,
            agent.limits,
            format!("{}.{:03}", agent.duration_ms / 1000, agent.duration_ms % 1000)
        );
    }
    let counts = |counts: &std::collections::BTreeMap<String, u64>| {
        counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    let _ = write!(text, "\nkinds: {}", counts(&stats.kinds));
    if !stats.denials.is_empty() {
        let _ = write!(text, "\nrefused: {}", counts(&stats.denials));
    }
    ui.answer(text)?;
    Ok(Exit::Fine)
}

impl Verify {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let verdict = ui.during(READING, || verify(&setting.facts.state_dir, self.head))?;
        let exit = if verdict.problems.is_empty() { Exit::Fine } else { Exit::Denied };
        if ui.json {
            ui.answer_json(&verdict.to_json())?;
            return Ok(exit);
        }
        let place = |file: &std::path::Path, line: usize| match line {
            0 => file.display().to_string(),
            line => format!("{}:{line}", file.display()),
        };
        for finding in &verdict.problems {
            let code = ui.by_risk(Risk::High, finding.code);
            ui.answer(format!("{code}: {}\n  at {}", finding.message, place(&finding.file, finding.line)))?;
        }
        for finding in &verdict.notes {
            ui.answer(format!("note: {}\n  at {}", finding.message, place(&finding.file, finding.line)))?;
        }
        match (verdict.end, verdict.problems.len()) {
            (None, 0) => ui.answer("nothing was recorded")?,
            (Some(end), 0) => {
                ui.answer(format!("whole: {} lines in {} files\nhead: {end}", verdict.lines, verdict.files))?
            }
            (_, 1) => ui.answer("the log is not whole: 1 problem")?,
            (_, many) => ui.answer(format!("the log is not whole: {many} problems"))?,
        }
        Ok(exit)
    }
}
