//! `sbx tools start`, `status`, `stop`, `add`, and the supervisor they talk to.

use super::Call;
use crate::cli::{CliError, Exit, Ui};
use crate::manifest::{duration, read_source};
use crate::run::Setting;
use crate::run::session::{Answer, Ask, Client, IDLE, SessionError, StartAsk, sessions, supervise};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// What to start.
#[derive(Debug, Args)]
pub(in crate::cli) struct Start {
    #[command(flatten)]
    call: Call,
    /// In which session; it is begun when there is none.
    #[arg(long)]
    session: String,
    /// How long a session that is begun lives when nobody asks anything of it, like `30m`.
    #[arg(long, value_name = "TIME", value_parser = time)]
    idle: Option<Duration>,
}

/// What to say.
#[derive(Debug, Args)]
pub(in crate::cli) struct Status {
    /// The tool; all when left out.
    tool: Option<String>,
    /// Of which session.
    #[arg(long)]
    session: Option<String>,
}

/// What to end.
#[derive(Debug, Args)]
pub(in crate::cli) struct Stop {
    /// The tool.
    #[arg(required_unless_present = "all")]
    tool: Option<String>,
    /// Of which session.
    #[arg(long)]
    session: String,
    /// Everything, and the session with it.
    #[arg(long, conflicts_with = "tool")]
    all: bool,
}

/// What to add.
#[derive(Debug, Args)]
pub(in crate::cli) struct Add {
    /// A file of definitions: TOML, YAML or JSON.
    file: PathBuf,
    /// To which session; it is begun when there is none.
    #[arg(long)]
    session: String,
    /// An agent's name, or the path of a record.
    #[arg(long, short)]
    agent: String,
}

/// What to supervise.
#[derive(Debug, Args)]
pub(in crate::cli) struct Supervise {
    /// Which session.
    #[arg(long)]
    session: String,
    /// How long it lives when nobody asks anything of it.
    #[arg(long, value_parser = time)]
    idle: Option<Duration>,
}

fn time(text: &str) -> Result<Duration, String> {
    duration(text).ok_or_else(|| "a time is like `90s`, `30m` or `2h`".to_owned())
}

impl Start {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let given = self.call.given()?;
        let backend = self.call.who.backend(&setting)?;
        let agent = setting.agent(&self.call.who.agent)?;
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let ask = StartAsk {
            tool: self.call.tool.clone(),
            values: given.values,
            args: given.args,
            record: record_path(&setting, &self.call.who.agent),
            cwd: self.call.who.directory(&setting),
            variables: variables.collect(),
            backend: backend.map(|backend| backend.name().to_owned()),
            accepted: self.call.who.accepted()?,
        };
        let client = Client::ensure(&self.session, agent.policy.agent(), self.idle)?;
        let answer = client.ask(Ask::Start(Box::new(ask)))?;
        show(ui, answer, |ui, body| ui.answer(summary(body)))
    }
}

/// A record given by its path is found by its path again.
fn record_path(setting: &Setting, given: &str) -> Option<PathBuf> {
    let is_path = given.contains('/') || given.ends_with(".md");
    Some(setting.facts.cwd.join(given)).filter(|path| is_path && path.is_file())
}

impl Status {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let Some(session) = self.session else {
            let alive = sessions()?;
            if ui.json {
                ui.answer_json(&json!(alive))?;
            } else {
                alive.iter().try_for_each(|id| ui.answer(id))?;
            }
            return Ok(Exit::Fine);
        };
        let one = self.tool.is_some();
        let answer = ask(&session, Ask::Status { tool: self.tool })?;
        show(ui, answer, |ui, body| {
            if one {
                return full(ui, body);
            }
            body["processes"].as_array().into_iter().flatten().try_for_each(|body| ui.answer(summary(body)))
        })
    }
}

impl Stop {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let asked = match self.tool {
            Some(tool) => Ask::Stop { tool },
            None => Ask::Close,
        };
        let answer = ask(&self.session, asked)?;
        show(ui, answer, |ui, body| match body["name"].as_str() {
            Some(_) => full(ui, body),
            None => ui.answer(format!("the session {} has ended", self.session)),
        })
    }
}

impl Add {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let agent = setting.agent(&self.agent)?;
        let source =
            read_source(&setting.facts.cwd.join(&self.file)).map_err(|error| CliError::from_error(&error))?;
        let client = Client::ensure(&self.session, agent.policy.agent(), None)?;
        let answer =
            client.ask(Ask::Add { file: source.name().to_owned(), text: source.text().to_owned() })?;
        show(ui, answer, |ui, body| {
            let names: Vec<&str> =
                body["added"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            ui.answer(names.join("\n"))
        })
    }
}

impl Supervise {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let ui = *ui;
        sbx_platform::own::let_go_of_inherited();
        supervise(&self.session, self.idle.unwrap_or(IDLE), move || drop(ui.answer("ready")))?;
        Ok(Exit::Fine)
    }
}

/// Asks a session that must be there.
fn ask(session: &str, ask: Ask) -> Result<Answer, CliError> {
    match Client::existing(session, None)? {
        Some(client) => Ok(client.ask(ask)?),
        None => Err(SessionError::None(session.to_owned()).into()),
    }
}

fn show(
    ui: &Ui,
    answer: Answer,
    text: impl FnOnce(&Ui, &Value) -> Result<(), CliError>,
) -> Result<Exit, CliError> {
    // What there is to say beside an answer that is fine.
    if answer.ok && !answer.text.is_empty() {
        ui.remark(&answer.text);
    }
    match (answer.ok, ui.json) {
        (true, true) => ui.answer_json(&answer.body)?,
        (true, false) => text(ui, &answer.body)?,
        (false, true) => ui.answer_json(&answer.body)?,
        (false, false) => ui.remark(&answer.text),
    }
    Ok(if answer.ok { Exit::Fine } else { Exit::Denied })
}

/// One process on one line.
fn summary(body: &Value) -> String {
    let state = match (body["running"].as_bool(), body["exit_code"].as_i64(), body["end"].as_str()) {
        (Some(true), _, _) => "running".to_owned(),
        (_, Some(code), _) => format!("ended with {code}"),
        (_, _, Some(end)) => format!("ended: {end}"),
        _ => "ended".to_owned(),
    };
    let seconds = body["uptime_ms"].as_u64().unwrap_or_default() / 1000;
    format!("{:<20} {state}  pid {}  {seconds}s", body["name"].as_str().unwrap_or_default(), body["pid"])
}

/// One process with the last it printed.
fn full(ui: &Ui, body: &Value) -> Result<(), CliError> {
    ui.answer(summary(body))?;
    for stream in ["stdout", "stderr"] {
        let text = body[stream].as_str().unwrap_or_default().trim_end();
        if !text.is_empty() {
            ui.answer(format!("{stream}:\n{text}"))?;
        }
    }
    Ok(())
}
