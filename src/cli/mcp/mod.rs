//! `sbx mcp`: an agent's tools as a server of the Model Context Protocol, and other servers behind a fence and a gate.

mod install;
mod pin;
mod remarks;
mod serve;

use super::fence::{Who, explain};
use super::{CliError, Exit, Ui};
use crate::audit::Sink;
use crate::mcp::{Origin, ResolveError, Resolved, Session, SessionError, World, recognise, resolve};
use crate::plan::search_path;
use crate::run::{Live, OwnPrograms, RunError, Setting, audit, denied};
use clap::{Args, Subcommand};
use remarks::Remarks;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is done with servers.
#[derive(Debug, Subcommand)]
pub(super) enum Mcp {
    /// Serve an agent's tools over standard input and output: every call is decided, fenced and recorded.
    Serve(serve::Serve),
    /// Run a server behind an agent's fence, and let only allowed calls through to it.
    Wrap(Wrap),
    /// Write down what a server's tools are; a tool that changes is blocked until it is pinned anew.
    Pin(pin::Pin),
    /// Put sbx into a client's list of servers, or before the servers that are there.
    Install(install::Install),
}

impl Mcp {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        match self {
            Self::Serve(command) => Ok(command.run(ui)),
            Self::Wrap(command) => Ok(command.run(ui)),
            Self::Pin(command) => command.run(ui),
            Self::Install(command) => command.run(ui),
        }
    }
}

/// The longest message that is taken, unless another is named.
const MOST: usize = 32 << 20;

/// Which server, for whom, by which rules.
#[derive(Debug, Args)]
pub(super) struct Server {
    #[command(flatten)]
    pub(super) who: Who,
    /// Allow only the tools of this file (`allowed_tools:`), in place of the record's.
    #[arg(long, value_name = "FILE")]
    allowlist: Option<PathBuf>,
    /// The lock file with the tools' definitions, in place of the record's.
    #[arg(long, value_name = "FILE")]
    pins: Option<PathBuf>,
    /// The ready map for the server's tools; `none` for no map.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// What the server is called in the lock file and in the log.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Run npx, uvx and the like inside the fence instead of what they would start.
    #[arg(long)]
    no_resolve: bool,
    /// Ask for the newest package again, in place of the one that was fetched before.
    #[arg(long)]
    refresh: bool,
    /// The longest message that is taken, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = MOST)]
    max_message: usize,
    /// The server and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What to wrap.
#[derive(Debug, Args)]
pub(super) struct Wrap {
    /// Follow the server, and tell what it was not shown or may not run with the calls it was for. Slows it down.
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    server: Server,
}

impl Wrap {
    fn run(self, ui: &Ui) -> Exit {
        let remarks = Arc::new(Remarks::new(*ui));
        let status = match self.attempt(ui, &remarks) {
            Ok(status) => status,
            Err((status, error)) => {
                remarks.declined(&error);
                status
            }
        };
        remarks.finish();
        Exit::Status(status)
    }

    fn attempt(self, ui: &Ui, remarks: &Arc<Remarks>) -> Result<u8, (u8, CliError)> {
        let failed = |error: CliError| (125, error);
        let setting = Setting::from_env().map_err(|error| failed(error.into()))?;
        let log = audit(&setting);
        let session = self.server.session(ui, &setting).map_err(failed)?;
        let session = Session { explain: self.explain, ..session };
        let status = session.run(log.clone(), remarks.clone(), remarks.aside());
        status.map_err(|error| (error.exit_status(), session_error(error, log.as_ref())))
    }
}

impl Server {
    /// Everything that is known before the server is started.
    pub(super) fn session(self, ui: &Ui, setting: &Setting) -> Result<Session, CliError> {
        let (backend, accepted) = (self.who.backend(setting)?, self.who.accepted()?);
        let cwd = self.who.directory(setting);
        // A package may have to be fetched first.
        let first = self.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let resolved = ui.during(&format!("preparing {first} …"), || self.resolved(setting, &cwd))?;
        let package = resolved.package_name().map(str::to_owned);
        let usual = package.clone().unwrap_or_else(|| name_of(&self.command));
        let server = self.name.clone().unwrap_or_else(|| usual.clone());
        let below = |file: PathBuf| setting.facts.cwd.join(file);
        let origin = Origin {
            setting: setting.clone(),
            agent: self.who.agent.clone(),
            allowlist: self.allowlist.map(below),
            pins: self.pins.map(below),
            preset: self.preset,
            server,
            usual,
            package,
            known_as: resolved.known_as.clone(),
            cwd,
        };
        Ok(Session {
            origin,
            command: self.command,
            resolved,
            backend,
            accepted,
            most: self.max_message.max(4096),
            explain: false,
        })
    }

    fn resolved(&self, setting: &Setting, cwd: &std::path::Path) -> Result<Resolved, CliError> {
        let agent = setting.agent(&self.who.agent)?;
        let own = OwnPrograms::of(&agent.policy, cwd).map_err(|error| CliError::from_error(&error))?;
        let world = World {
            home: setting.facts.home.clone(),
            state_dir: setting.facts.state_dir.clone(),
            cwd: cwd.to_path_buf(),
            search: search_path(&agent.policy, &Live),
            own,
            refresh: self.refresh,
        };
        if self.no_resolve {
            return Ok(recognise(&self.command, &world));
        }
        resolve(&self.command, &world).map_err(|error| {
            let cli = CliError::from_error(&error);
            match error {
                ResolveError::Launcher { .. } | ResolveError::Option { .. } => {
                    cli.hint("`--no-resolve` runs the command as it is, inside the fence")
                }
                ResolveError::Unopened { .. } => {
                    cli.hint("grant fs.read there, or keep the server outside of what the agent may reach")
                }
                ResolveError::NoTool { tool, .. } => {
                    cli.hint(format!("install {tool}, or name the server's program"))
                }
                _ => cli,
            }
        })
    }
}

/// What went wrong, with what to do about it; a denial is recorded.
pub(super) fn session_error(error: SessionError, log: &dyn Sink) -> CliError {
    match &error {
        SessionError::Run(error @ RunError::Platform(_)) => explain(error),
        SessionError::Denied(denial) => {
            // It is refused whether it could be recorded or not.
            let _ = log.record(denied(denial));
            CliError::from_error(&error)
        }
        SessionError::Version { .. } => {
            CliError::from_error(&error).hint("look at what changed, then pin it anew: sbx mcp pin")
        }
        SessionError::Rules(_) | SessionError::Run(_) | SessionError::Wrap(_) | SessionError::Audit(_) => {
            CliError::from_error(&error)
        }
    }
}

/// Programs of which many servers are made: the server is what they are told to run.
const INTERPRETERS: [&str; 9] = ["python", "node", "deno", "bun", "ruby", "perl", "bash", "sh", "java"];

/// What a server is called when nobody names it: its program, or what its interpreter is told to run.
fn name_of(command: &[OsString]) -> String {
    let base = |word: &OsString| {
        let name = Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_default()
    };
    let Some((program, words)) = command.split_first() else { return String::new() };
    let own = base(program);
    let plain = own.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    // A module, a script: the first word that is no option, whatever an option before it takes.
    let told = words.iter().map(base).find(|word| !word.is_empty() && !word.starts_with('-'));
    told.filter(|_| INTERPRETERS.contains(&plain)).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_one_interpreter_have_names_of_their_own() {
        for (line, name) in [
            ("/usr/bin/some-server --root x", "some-server"),
            ("python3 tools/srv.py", "srv.py"),
            ("python3.11 -m mcp_server_time", "mcp_server_time"),
            ("node --no-warnings dist/index.js", "index.js"),
            ("python3 -", "python3"),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(name_of(&words), name, "{line}");
        }
    }
}
