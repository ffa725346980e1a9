//! `sbx tools validate`.

use crate::cli::{CliError, Exit, Ui};
use crate::manifest::{LoadError, read_source};
use crate::run::Setting;
use crate::text::{Problem, render_all};
use crate::tool::{Fault, Layer, read_definitions};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Which files.
#[derive(Debug, Args)]
pub(in crate::cli) struct Validate {
    /// Files of definitions: TOML, YAML, JSON, or records. The built-in ones and all of the user's when left out.
    files: Vec<PathBuf>,
}

impl Validate {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let (shipped, files) = match self.files.is_empty() {
            true => (setting.builtin_tools().collect(), setting.tool_files()),
            false => (Vec::new(), self.files),
        };
        let own = files.into_iter().map(|file| {
            let source = read_source(&setting.facts.cwd.join(&file))?;
            let read = read_definitions(&source, Layer::User);
            Ok((file, source, read))
        });
        let shipped = shipped.into_iter().map(|(source, read)| Ok((source.name().into(), source, read)));
        let mut rows: Vec<Value> = Vec::new();
        let mut sound = true;
        for file in shipped.chain(own) {
            let (file, source, read) = file.map_err(|error: LoadError| CliError::from_error(&error))?;
            sound &= read.faults.is_empty();
            let names: Vec<&str> = read.tools.iter().map(|tool| tool.name.as_str()).collect();
            let problems: Vec<Value> = read.faults.iter().map(|fault| fault.to_json(&source)).collect();
            rows.push(json!({ "file": file.to_string_lossy(), "tools": names, "problems": problems }));
            if ui.json {
                continue;
            }
            let problems: Vec<Problem> = read.faults.iter().map(Fault::to_problem).collect();
            if problems.is_empty() {
                ui.answer(format!("{}: {}", file.display(), names.join(", ")))?;
            } else {
                ui.answer(render_all(&problems, &source).trim_end())?;
            }
        }
        if ui.json {
            ui.answer_json(&json!(rows))?;
        }
        Ok(if sound { Exit::Fine } else { Exit::Denied })
    }
}
