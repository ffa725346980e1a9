//! `sbx mcp install`: puts sbx into a client's list of servers.

use crate::cli::{CliError, Exit, Ui};
use crate::manifest::{create_file, read_bounded, rewrite_bounded};
use crate::mcp::install::{Change, Installed, Outcome, Shape, install};
use crate::profile::{McpClient, mcp_clients};
use crate::run::Setting;
use clap::Args;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The largest file of a client; some keep their history in it.
const MOST: usize = 64 << 20;
/// Backups of one file at most.
const BACKUPS: usize = 1000;

/// Into which client, and what.
#[derive(Debug, Args)]
pub(in crate::cli) struct Install {
    /// The client: claude-code, claude-desktop, codex, cursor, vscode or gemini.
    #[arg(long, value_name = "NAME")]
    client: String,
    /// The agent whose authority servers get; needed but for --unwrap.
    #[arg(long, short)]
    agent: Option<String>,
    /// The project's list instead of the user's.
    #[arg(long)]
    project: bool,
    /// Another file than the client's own.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// What the client calls the server; with --wrap-existing or --unwrap, only that one.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Put sbx before the servers that are there.
    #[arg(long, conflicts_with = "command")]
    wrap_existing: bool,
    /// Take sbx away again.
    #[arg(long, conflicts_with_all = ["command", "wrap_existing"])]
    unwrap: bool,
    /// Print what the file would say, and change nothing.
    #[arg(long)]
    print: bool,
    /// Say what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// The server and its arguments; without it, sbx's own server.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Install {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let client = self.client()?;
        let file = self.file(client, &setting);
        let change = self.change(&setting)?;
        // VS Code and Claude Code want to be told how a server is talked to; others know.
        let typed = matches!(client.name, "claude-code" | "cursor" | "vscode");
        let shape = Shape { key: client.key, toml: client.toml, typed };
        let before = if file.exists() {
            read_bounded(&file, MOST).map_err(|error| CliError::from_error(&error))?.text().to_owned()
        } else {
            String::new()
        };
        let wrong = |error: String| {
            CliError::new(format!("{} cannot be edited: {error}", file.display()))
                .hint("put it right first; nothing was changed")
        };
        let installed = install(&before, shape, &change).map_err(wrong)?;
        let changed = installed.text != before;
        let keep = self.print || self.dry_run || !changed;
        let backup = if keep { None } else { write(&file, &before, &installed.text, shape, &change)? };
        self.answer(ui, client, &file, &before, &installed, backup.as_deref())?;
        Ok(Exit::Fine)
    }

    fn client(&self) -> Result<McpClient, CliError> {
        let known = mcp_clients().any(|client| client.name == self.client);
        let mut own = mcp_clients().filter(|client| client.name == self.client);
        own.find(|client| client.project == self.project).ok_or_else(|| {
            if known {
                return CliError::new(format!("{} has no list of servers for a project", self.client));
            }
            let mut names: Vec<&str> = mcp_clients().map(|client| client.name).collect();
            names.dedup();
            CliError::new(format!("there is no client `{}`", self.client))
                .hint(format!("they are {}", names.join(", ")))
        })
    }

    fn file(&self, client: McpClient, setting: &Setting) -> PathBuf {
        let facts = &setting.facts;
        match (&self.file, client.file.strip_prefix("~/")) {
            (Some(file), _) => facts.cwd.join(file),
            (None, Some(rest)) => facts.home.join(rest),
            (None, None) => facts.project.as_ref().unwrap_or(&facts.cwd).join(client.file),
        }
    }

    fn change(&self, setting: &Setting) -> Result<Change, CliError> {
        if self.unwrap {
            return Ok(Change::Unwrap { only: self.name.clone() });
        }
        let agent = self.agent.clone().ok_or_else(|| {
            CliError::new("a server needs an agent whose authority it gets").hint("add --agent NAME")
        })?;
        // A list that names an agent there is none of would fail only when the client starts.
        setting.agent(&agent)?;
        // A client starts servers with a search path of its own, and a program it does not find is not fenced.
        let program = std::env::current_exe()?;
        let command = program.display().to_string();
        if self.wrap_existing {
            return Ok(Change::Wrap { command, agent, only: self.name.clone() });
        }
        let words: Option<Vec<String>> =
            self.command.iter().map(|word| word.to_str().map(str::to_owned)).collect();
        let words = words.ok_or_else(|| CliError::new("a client's file holds only UTF-8 text"))?;
        let own = words.is_empty().then(|| "sbx".to_owned());
        let name = self.name.clone().or(own).ok_or_else(|| {
            CliError::new("the server needs a name in the client's list").hint("add --name NAME")
        })?;
        if name.is_empty() || name.contains("__") {
            return Err(CliError::new(format!("`{name}` cannot be a server's name"))
                .hint("clients put `__` between the names of server and tool"));
        }
        let lead: &[&str] = match words.is_empty() {
            true => &["mcp", "serve", "--agent", &agent],
            false => &["mcp", "wrap", "--agent", &agent, "--name", &name, "--"],
        };
        let args = lead.iter().map(|word| (*word).to_owned()).chain(words).collect();
        Ok(Change::Add { name: name.clone(), command, args })
    }

    fn answer(
        &self,
        ui: &Ui,
        client: McpClient,
        file: &Path,
        before: &str,
        installed: &Installed,
        backup: Option<&Path>,
    ) -> Result<(), CliError> {
        let written = !(self.print || self.dry_run) && installed.text != before;
        if ui.json {
            let servers: Vec<Value> = installed
                .servers
                .iter()
                .map(|(name, outcome)| json!({ "name": name, "change": outcome.name(), "why": why(outcome) }))
                .collect();
            return ui.answer_json(&json!({
                "client": client.name, "file": file, "written": written, "backup": backup, "servers": servers,
                "text": self.print.then_some(&installed.text),
            }));
        }
        if self.print {
            return ui.answer(installed.text.trim_end());
        }
        if self.dry_run {
            ui.answer(difference(before, &installed.text))?;
        }
        for (name, outcome) in &installed.servers {
            let why = why(outcome).map(|why| format!(": {why}")).unwrap_or_default();
            ui.remark(format!("{}: {}{why}", name, outcome.name()));
        }
        if installed.servers.is_empty() {
            ui.remark(format!("{} lists no servers", file.display()));
        }
        match (written, backup) {
            (true, Some(backup)) => {
                ui.remark(format!("{} written; before: {}", file.display(), backup.display()))
            }
            (true, None) => ui.remark(format!("{} written", file.display())),
            (false, _) => ui.remark(format!("{} is as it was", file.display())),
        }
        Ok(())
    }
}

fn why(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Skipped(why) => Some(why),
        Outcome::Added | Outcome::Changed | Outcome::Same => None,
    }
}

/// Writes the file, keeping a copy of what it was.
fn write(
    file: &Path,
    before: &str,
    after: &str,
    shape: Shape<'_>,
    change: &Change,
) -> Result<Option<PathBuf>, CliError> {
    let failed =
        |error: &std::io::Error| CliError::new(format!("cannot write {}", file.display())).because(error);
    if !file.exists() {
        create_file(file, after).map_err(|error| failed(&error))?;
        return Ok(None);
    }
    let backup = backup(file, before).map_err(|error| failed(&error))?;
    // Changed anew under the lock: the client may have written in the meantime.
    let again =
        |source: crate::Source| install(source.text(), shape, change).map(|installed| Some(installed.text));
    rewrite_bounded(file, MOST, again).map_err(|error| CliError::from_error(&error))?;
    Ok(Some(backup))
}

/// A copy beside the file; one that is there already is used when it says the same.
fn backup(file: &Path, text: &str) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let real = std::fs::canonicalize(file)?;
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    for number in 0..BACKUPS {
        let end = if number == 0 { String::new() } else { format!("-{number}") };
        let copy = real.with_file_name(format!("{name}.sbx-backup{end}"));
        match create_file(&copy, text) {
            Ok(()) => {
                let mode = std::fs::metadata(&real)?.permissions().mode() & 0o777;
                std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(mode))?;
                return Ok(copy);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if std::fs::read_to_string(&copy).is_ok_and(|kept| kept == text) {
                    return Ok(copy);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("there are too many backups"))
}

/// The lines that differ, between the ones that are the same.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest =
        old[same..].iter().rev().zip(new[same..].iter().rev()).take_while(|(old, new)| old == new).count();
    let taken = old[same..old.len() - rest].iter().map(|line| format!("-{line}"));
    let put = new[same..new.len() - rest].iter().map(|line| format!("+{line}"));
    taken.chain(put).collect::<Vec<_>>().join("\n")
}
