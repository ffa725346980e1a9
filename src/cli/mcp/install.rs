//! `sbx mcp install`: puts sbx into a client's list of servers.

use crate::cli::client_file::ClientFile;
use crate::cli::{CliError, Exit, Ui};
use crate::manifest::Shelf;
use crate::mcp::install::{Change, Shape, entry, install};
use crate::profile::{McpClient, mcp_clients};
use crate::run::Setting;
use clap::Args;
use std::ffi::OsString;

/// Into which client, and what.
#[derive(Debug, Args)]
pub(in crate::cli) struct Install {
    /// The client: claude-code, claude-desktop, codex, cursor, vscode or gemini.
    #[arg(long, value_name = "NAME")]
    client: String,
    /// The agent whose authority servers get; needed but for --unwrap.
    #[arg(long, short)]
    agent: Option<String>,
    #[command(flatten)]
    file: ClientFile,
    /// What the client calls the server; with --wrap-existing or --unwrap, only that one.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Put sbx before the servers that are there.
    #[arg(long, conflicts_with = "command")]
    wrap_existing: bool,
    /// Take sbx away again.
    #[arg(long, conflicts_with_all = ["command", "wrap_existing"])]
    unwrap: bool,
    /// The server and its arguments; without it, sbx's own server.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Install {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let client = self.client()?;
        let file = self.file.path(client.file, &setting.facts)?;
        let change = self.change(&setting)?;
        // VS Code and Claude Code want to be told how a server is talked to; others know.
        let typed = matches!(client.name, "claude-code" | "cursor" | "vscode");
        // Claude Code keeps servers of single projects in the user's file.
        let local = client.name == "claude-code";
        let shape = Shape { key: client.key, toml: client.toml, typed, local };
        self.file.edit(ui, client.name, &file, "servers", |text| install(text, shape, &change))?;
        Ok(Exit::Fine)
    }

    fn client(&self) -> Result<McpClient, CliError> {
        let known = mcp_clients().any(|client| client.name == self.client);
        let mut own = mcp_clients().filter(|client| client.name == self.client);
        own.find(|client| client.project == self.file.project).ok_or_else(|| {
            if known {
                return CliError::new(format!("{} has no list of servers for a project", self.client));
            }
            let mut names: Vec<&str> = mcp_clients().map(|client| client.name).collect();
            names.dedup();
            CliError::new(format!("there is no client `{}`", self.client))
                .hint(format!("they are {}", names.join(", ")))
        })
    }

    fn change(&self, setting: &Setting) -> Result<Change, CliError> {
        if self.unwrap {
            return Ok(Change::Unwrap { only: self.name.clone() });
        }
        let named = self.agent.clone().ok_or_else(|| {
            CliError::new("a server needs an agent whose authority it gets").hint("add --agent NAME")
        })?;
        // A list that names an agent there is none of would fail only when the client starts.
        let found = setting.agent(&named)?.found;
        // A client starts servers wherever it likes.
        let agent = match found.path.filter(|_| found.shelf == Shelf::Path) {
            Some(path) => path.to_str().map(str::to_owned).ok_or_else(|| not_text("the record's path"))?,
            None => named,
        };
        // A client starts servers with a search path of its own, and a program it does not find is not fenced.
        let program = std::env::current_exe()?;
        let command = program.display().to_string();
        if self.wrap_existing {
            return Ok(Change::Wrap { command, agent, only: self.name.clone() });
        }
        let words: Option<Vec<String>> =
            self.command.iter().map(|word| word.to_str().map(str::to_owned)).collect();
        let words = words.ok_or_else(|| not_text("a word of the command"))?;
        let own = words.is_empty().then(|| "sbx".to_owned());
        let name = self.name.clone().or(own).ok_or_else(|| {
            CliError::new("the server needs a name in the client's list").hint("add --name NAME")
        })?;
        if name.is_empty() || name.contains("__") {
            return Err(CliError::new(format!("`{name}` cannot be a server's name"))
                .hint("clients put `__` between the names of server and tool"));
        }
        let lead = match words.is_empty() {
            true => ["mcp", "serve", "--agent", &agent].map(str::to_owned).to_vec(),
            false => entry::before(&agent, &name),
        };
        let args = lead.into_iter().chain(words).collect();
        Ok(Change::Add { name: name.clone(), command, args })
    }
}

fn not_text(what: &str) -> CliError {
    CliError::new(format!("{what} is not UTF-8 text, which a client's file holds"))
}

#[cfg(test)]
mod tests {
    use crate::cli::mcp::Wrap;
    use crate::mcp::install::entry::VALUED;
    use clap::Args;

    #[test]
    fn every_option_of_wrap_with_a_value_is_known_to_have_one() {
        let wrap = Wrap::augment_args(clap::Command::new("wrap"));
        let valued = wrap.get_arguments().filter(|option| !option.is_positional());
        let valued = valued.filter(|option| option.get_action().takes_values());
        let mut named: Vec<String> = Vec::new();
        for option in valued {
            named.extend(option.get_long().map(|long| format!("--{long}")));
            named.extend(option.get_short().map(|short| format!("-{short}")));
        }
        named.sort();
        let mut known = VALUED.to_vec();
        known.sort_unstable();
        assert_eq!(named, known);
    }
}
