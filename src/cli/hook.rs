//! `sbx hook`: answers clients that ask before a tool runs.

use super::client_file::ClientFile;
use super::{CliError, Exit, Ui};
use crate::hook::install::{self, install};
use crate::hook::{Answer, Client, MOST, Options, answer};
use crate::manifest::Shelf;
use crate::profile::{HookClient, hook_clients};
use crate::run::Setting;
use clap::{Args, Subcommand};
use std::io::Read;

/// Which client asks.
#[derive(Debug, Subcommand)]
pub(super) enum Hook {
    /// Answer Claude Code: one call on stdin, the answer on stdout.
    ClaudeCode(Asked),
    /// Answer Codex: one call on stdin, the answer on stdout.
    Codex(Asked),
    /// Answer Cursor: one call on stdin, the answer on stdout.
    Cursor(Asked),
    /// Answer VS Code: one call on stdin, the answer on stdout.
    Vscode(Asked),
    /// Answer Gemini CLI: one call on stdin, the answer on stdout.
    Gemini(Asked),
    /// Put the hook into a client's settings, or take it out again.
    Install(Install),
}

/// For whom a client is answered.
#[derive(Debug, Default, Args)]
pub(super) struct Asked {
    /// An agent's name, or the path of a record.
    #[arg(long, short)]
    pub(super) agent: String,
    /// Let a tool pass that sbx does not know; `*` for all of those. May be repeated.
    #[arg(long, value_name = "TOOL")]
    pub(super) pass: Vec<String>,
    /// Have the user asked before a command runs that was led through the fence, where the client can do that.
    #[arg(long)]
    pub(super) ask: bool,
}

impl Hook {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        Ok(match self {
            Self::ClaudeCode(asked) => asked.run(ui, Client::ClaudeCode),
            Self::Codex(asked) => asked.run(ui, Client::Codex),
            Self::Cursor(asked) => asked.run(ui, Client::Cursor),
            Self::Vscode(asked) => asked.run(ui, Client::Vscode),
            Self::Gemini(asked) => asked.run(ui, Client::Gemini),
            Self::Install(command) => return command.run(ui),
        })
    }
}

impl Asked {
    fn run(self, ui: &Ui, client: Client) -> Exit {
        block_on_panic(*ui);
        let answer = self.attempt(client).unwrap_or_else(|error| Answer::block(error.to_string()));
        if !answer.stderr.is_empty() {
            ui.remark(&answer.stderr);
        }
        // What cannot be told is not allowed.
        match answer.stdout.is_empty().then_some(()).map_or_else(|| ui.answer_raw(&answer.stdout), Ok) {
            Ok(()) => Exit::Status(answer.status),
            Err(_) => Exit::Status(2),
        }
    }

    fn attempt(self, client: Client) -> Result<Answer, CliError> {
        let mut asked = Vec::new();
        std::io::stdin().lock().take(MOST as u64 + 1).read_to_end(&mut asked)?;
        let program = std::env::current_exe()?;
        let options = Options { agent: self.agent, pass: self.pass, ask: self.ask, program };
        Ok(answer(client, &asked, &options))
    }
}

/// Some clients let a call run when the hook dies by a signal, and that is how a panic ends.
#[expect(clippy::exit, reason = "there is nothing to return to, and only this status blocks the call")]
fn block_on_panic(ui: Ui) {
    std::panic::set_hook(Box::new(move |info| {
        ui.remark(format!("blocked by sbx: this is a bug: {info}"));
        std::process::exit(2);
    }));
}

/// Into which client.
#[derive(Debug, Args)]
pub(super) struct Install {
    /// The client: claude-code, codex, cursor, vscode or gemini.
    #[arg(long, value_name = "NAME")]
    client: String,
    /// The agent whose authority the client's tools get; needed but for --uninstall.
    #[arg(long, short)]
    agent: Option<String>,
    /// Let a tool pass that sbx does not know; `*` for all of those. May be repeated.
    #[arg(long, value_name = "TOOL")]
    pass: Vec<String>,
    /// Have the user asked before a command runs that was led through the fence, where the client can do that.
    #[arg(long)]
    ask: bool,
    /// Take the hook out again.
    #[arg(long, conflicts_with_all = ["agent", "pass", "ask"])]
    uninstall: bool,
    #[command(flatten)]
    file: ClientFile,
}

impl Install {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let (client, place) = self.client()?;
        let hook = if self.uninstall { None } else { Some(self.hook(client, &setting)?) };
        let file = self.file.path(place.file, &setting.facts)?;
        let events: Vec<&str> = place.events.split(' ').collect();
        self.file
            .edit(ui, client.name(), &file, "hooks", |text| install(text, client, &events, hook.as_ref()))?;
        if hook.is_some() && !ui.json {
            cautions(client).iter().for_each(|line| ui.remark(format!("note: {line}")));
        }
        Ok(Exit::Fine)
    }

    fn client(&self) -> Result<(Client, HookClient), CliError> {
        let client = Client::from_name(&self.client).ok_or_else(|| {
            let names = Client::ALL.map(Client::name);
            CliError::new(format!("there is no client `{}`", self.client))
                .hint(format!("they are {}", names.join(", ")))
        })?;
        let place = hook_clients()
            .find(|place| place.name == client.name() && place.project == self.file.project)
            .ok_or_else(|| CliError::new(format!("{client} has no such file")))?;
        Ok((client, place))
    }

    fn hook(&self, client: Client, setting: &Setting) -> Result<install::Hook, CliError> {
        let agent = self.agent.clone().ok_or_else(|| {
            CliError::new("a hook needs an agent whose authority the client's tools get")
                .hint("add --agent NAME")
        })?;
        if self.ask && !client.asks() {
            return Err(
                CliError::new(format!("{client} cannot ask the user by a hook")).hint("leave out --ask")
            );
        }
        // A hook that names an agent there is none of would block everything.
        let found = setting.agent(&agent)?.found;
        // A client runs hooks wherever it likes.
        let agent = match found.path.filter(|_| found.shelf == Shelf::Path) {
            Some(path) => path.to_str().map(str::to_owned).ok_or_else(|| {
                CliError::new("the record's path is not UTF-8 text, which a client's file holds")
            })?,
            None => agent,
        };
        let program = std::env::current_exe()?.display().to_string();
        let mut options = vec!["--agent".to_owned(), agent];
        options.extend(self.pass.iter().flat_map(|tool| ["--pass".to_owned(), tool.clone()]));
        options.extend(self.ask.then(|| "--ask".to_owned()));
        Ok(install::Hook { program, options })
    }
}

/// What the user must know about a client's hooks.
fn cautions(client: Client) -> &'static [&'static str] {
    match client {
        Client::ClaudeCode | Client::Cursor => &[],
        Client::Codex => &[
            "Codex runs a hook once you have trusted it: it asks at its next start",
            "Codex lets a call run when a hook does not start or takes too long; `sbx doctor` looks for that",
        ],
        Client::Vscode => {
            &["VS Code lets a call run when a hook does not start; `sbx doctor` looks for that"]
        }
        Client::Gemini => &["Gemini lets a call run when a hook does not start; `sbx doctor` looks for that"],
    }
}
