//! `sbx mcp serve`: an agent's tools, served over the Model Context Protocol.

use super::MOST;
use super::remarks::Remarks;
use crate::cli::fence::Who;
use crate::cli::{CliError, Exit, Ui};
use crate::mcp::serve::Serve as Server;
use crate::run::{Setting, audit};
use clap::Args;
use std::sync::Arc;

/// Whose tools, and how.
#[derive(Debug, Args)]
pub(in crate::cli) struct Serve {
    #[command(flatten)]
    who: Who,
    /// The longest message that is taken, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = MOST)]
    max_message: usize,
}

impl Serve {
    pub(super) fn run(self, ui: &Ui) -> Exit {
        let remarks = Arc::new(Remarks::new(*ui));
        let status = self.attempt(&remarks).unwrap_or_else(|error| {
            remarks.declined(&error);
            125
        });
        remarks.finish();
        Exit::Status(status)
    }

    fn attempt(self, remarks: &Arc<Remarks>) -> Result<u8, CliError> {
        let setting = Setting::from_env()?;
        // Told at once, with what to do about it; later only what has changed is.
        setting.agent(&self.who.agent)?;
        let log = audit(&setting);
        let server = Server {
            backend: self.who.backend(&setting)?,
            accepted: self.who.accepted()?,
            cwd: self.who.directory(&setting),
            agent: self.who.agent,
            most: self.max_message.max(4096),
            setting,
        };
        server.run(log, remarks.clone()).map_err(|error| CliError::from_error(&error))
    }
}
