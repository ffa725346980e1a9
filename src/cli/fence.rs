//! Options of everything that launches: for whom, where, behind what.

use super::CliError;
use crate::run::{RunError, Setting};
use clap::Args;
use sbx_platform::path::resolve;
use sbx_platform::{Backend, Guarantee, PlatformError};
use std::path::PathBuf;

/// For whom something is launched, where, and behind what.
#[derive(Debug, Default, Args)]
pub(super) struct Who {
    /// An agent's name, or the path of a record.
    #[arg(long, short)]
    pub(super) agent: String,
    /// The working directory, within the agent's root.
    #[arg(long = "in", value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// How the fence is built: auto, native, bwrap or landlock; on macOS auto or seatbelt.
    #[arg(long, value_name = "NAME")]
    pub(super) backend: Option<String>,
    /// Do without a guarantee, by name; may be repeated.
    #[arg(long = "allow-degraded", value_name = "NAME", value_delimiter = ',')]
    pub(super) allow_degraded: Vec<String>,
}

impl Who {
    /// The working directory, links followed.
    pub(super) fn directory(&self, setting: &Setting) -> PathBuf {
        let cwd = &setting.facts.cwd;
        let dir = self.dir.as_ref().map_or_else(|| cwd.clone(), |dir| cwd.join(dir));
        resolve(&dir).unwrap_or(dir)
    }

    pub(super) fn backend(&self, setting: &Setting) -> Result<Option<Backend>, CliError> {
        let name = self.backend.as_deref().or(setting.config.backend.as_deref()).unwrap_or("auto");
        if name == "auto" {
            return Ok(None);
        }
        Backend::from_name(name).map(Some).ok_or_else(|| {
            CliError::new(format!("there is no backend `{name}` on this system")).hint(format!(
                "auto, {}; `auto` takes the strongest that works",
                Backend::ALL.map(Backend::name).join(" or ").replacen(
                    " or ",
                    ", ",
                    Backend::ALL.len().saturating_sub(2)
                )
            ))
        })
    }

    pub(super) fn accepted(&self) -> Result<Vec<String>, CliError> {
        let unknown = self.allow_degraded.iter().find(|name| Guarantee::from_name(name).is_none());
        match unknown {
            None => Ok(self.allow_degraded.clone()),
            Some(name) => {
                let names: Vec<&str> = Guarantee::ALL.iter().map(|guarantee| guarantee.name()).collect();
                Err(CliError::new(format!("there is no guarantee `{name}`"))
                    .hint(format!("they are {}", names.join(", "))))
            }
        }
    }
}

/// Errors with what to do about them.
pub(super) fn explain(error: &RunError) -> CliError {
    let cli = CliError::from_error(error);
    match error {
        RunError::Platform(PlatformError::Missing { missing, .. }) => {
            let names: Vec<&str> = missing.iter().map(|guarantee| guarantee.name()).collect();
            let told = missing
                .iter()
                .fold(cli, |cli, guarantee| cli.hint(format!("{guarantee}: {}", guarantee.meaning().trim())));
            told.hint(format!(
                "to do without: --allow-degraded={}, or `accept_degraded: [{}]` in the record",
                names.join(","),
                names.join(", ")
            ))
        }
        RunError::Audit(_) => cli.hint(
            "make room or set its permissions right; to run without a record: `audit: {on_failure: open}` in config.yml",
        ),
        RunError::Platform(PlatformError::NoBackend { .. }) => {
            cli.hint("user namespaces, bubblewrap or Landlock would each do")
        }
        _ => cli,
    }
}
