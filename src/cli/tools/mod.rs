//! `sbx tools`: named commands with checked values, run or left running behind an agent's fence.

mod list;
mod run;
mod session;
mod validate;

use super::fence::Who;
use super::{CliError, Exit, Ui};
use crate::audit::Sink;
use crate::run::session::{Ask, Client, SessionError};
use crate::run::tools::Catalogue;
use crate::run::{Agent, Setting, audit};
use crate::text::Source;
use crate::tool::{Given, Layer, read_definitions};
use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The `tools` commands.
#[derive(Debug, Subcommand)]
pub(super) enum Tools {
    /// List the tools of an agent, or of all: what each needs, its risk, its file, and why it is not offered.
    List(list::List),
    /// Show one tool: its command, values, bounds and needs.
    Show(list::Show),
    /// Check files of definitions, or all of the user's.
    Validate(validate::Validate),
    /// Run a tool and print what comes out of it.
    Run(run::Run),
    /// Start a tool that is left running, in a session.
    Start(session::Start),
    /// Say what runs in a session, with the last it printed; without a session, which there are.
    Status(session::Status),
    /// End a tool of a session, or the session.
    Stop(session::Stop),
    /// Add a file of tools to a session.
    Add(session::Add),
    /// Supervise a session; started by `sbx tools start` itself.
    #[command(hide = true)]
    Supervise(session::Supervise),
}

impl Tools {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        match self {
            Self::List(command) => command.run(ui),
            Self::Show(command) => command.run(ui),
            Self::Validate(command) => command.run(ui),
            Self::Run(command) => command.run(ui),
            Self::Start(command) => command.run(ui),
            Self::Status(command) => command.run(ui),
            Self::Stop(command) => command.run(ui),
            Self::Add(command) => command.run(ui),
            Self::Supervise(command) => command.run(ui),
        }
    }
}

/// Which tool, for whom, with which values.
#[derive(Debug, Args)]
struct Call {
    /// The tool.
    tool: String,
    /// Its values, as NAME=VALUE.
    #[arg(value_name = "NAME=VALUE")]
    values: Vec<String>,
    /// Its values as a JSON object.
    #[arg(long, value_name = "JSON")]
    values_json: Option<String>,
    #[command(flatten)]
    who: Who,
    /// Arguments, for a tool that takes them freely.
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

impl Call {
    fn given(&self) -> Result<Given, CliError> {
        let mut values = match &self.values_json {
            None => Map::new(),
            Some(text) => match serde_json::from_str(text) {
                Ok(Value::Object(values)) => values,
                Ok(_) => return Err(CliError::new("--values-json is not a JSON object")),
                Err(error) => return Err(CliError::new("--values-json is not JSON").because(&error)),
            },
        };
        for pair in &self.values {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(CliError::new(format!("`{pair}` is not NAME=VALUE"))
                    .hint("arguments of a tool that takes them freely come after `--`"));
            };
            values.insert(name.to_owned(), Value::String(value.to_owned()));
        }
        Ok(Given { values, args: self.args.clone() })
    }
}

/// What every command about one agent's tools needs.
struct Loaded {
    setting: Setting,
    agent: Agent,
    catalogue: Catalogue,
    log: Arc<dyn Sink>,
}

impl Loaded {
    /// Loads an agent and its tools, and those of a session if it lives; says what is wrong with files.
    fn new(ui: &Ui, agent: &str, session: Option<&str>) -> Result<Self, CliError> {
        let setting = Setting::from_env()?;
        let agent = setting.agent(agent)?;
        let (mut catalogue, changes) = Catalogue::open(&setting, &agent.policy);
        for change in changes {
            ui.remark(format!("warning: {}: {}", change.file.display(), change.message));
        }
        if let Some(id) = session
            && let Some(client) = Client::existing(id, Some(agent.policy.agent()))?
        {
            let answer = client.ask(Ask::Added)?;
            if !answer.ok {
                return Err(CliError::new(answer.text));
            }
            for (file, text) in
                serde_json::from_value::<Vec<(String, String)>>(answer.body).unwrap_or_default()
            {
                let read = read_definitions(&Source::new(file, text), Layer::Session);
                read.tools.into_iter().for_each(|tool| catalogue.add(tool));
            }
        }
        let log: Arc<dyn Sink> = audit(&setting);
        Ok(Self { setting, agent, catalogue, log })
    }
}

impl From<SessionError> for CliError {
    fn from(error: SessionError) -> Self {
        let hint = match &error {
            SessionError::Runtime(_) => Some("unset XDG_RUNTIME_DIR, or set it to a directory of your own"),
            SessionError::None(_) => Some("`sbx tools status` shows every session"),
            _ => None,
        };
        let error = Self::from_error(&error);
        hint.into_iter().fold(error, Self::hint)
    }
}
