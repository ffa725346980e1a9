//! `sbx completions` and `sbx man`: both from the one definition of the command line.

use super::{CliError, Exit, Ui, definition};
use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// For which shell.
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut definition(), "sbx", &mut text);
        ui.answer(String::from_utf8_lossy(&text).trim_end())?;
        Ok(Exit::Fine)
    }
}

/// Which pages.
#[derive(Debug, Args)]
pub(super) struct Man {
    /// A command, such as `agents grant`; the whole program when left out.
    command: Vec<String>,
    /// Write every page into a directory instead.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let mut root = definition();
        root.build();
        if let Some(dir) = self.dir {
            std::fs::create_dir_all(&dir).and_then(|()| clap_mangen::generate_to(root, &dir)).map_err(
                |error| CliError::new(format!("cannot write the pages to {}", dir.display())).because(&error),
            )?;
            ui.answer(format!("wrote the pages to {}", dir.display()))?;
            return Ok(Exit::Fine);
        }
        let mut page = &root;
        for name in &self.command {
            page = page.find_subcommand(name).ok_or_else(|| {
                CliError::new(format!("there is no command `{name}`")).hint("`sbx --help` lists them")
            })?;
        }
        let mut text = Vec::new();
        clap_mangen::Man::new(page.clone()).render(&mut text)?;
        ui.answer(String::from_utf8_lossy(&text).trim_end())?;
        Ok(Exit::Fine)
    }
}
