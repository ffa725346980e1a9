//! `sbx fs`: an agent's file operations, decided as always and done behind its fence.

use super::fence::Who;
use super::hand::{carry_out, text};
use super::{CliError, Exit, Ui};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is done with files.
#[derive(Debug, Subcommand)]
pub(super) enum Fs {
    /// Print a file, or a part of it.
    Read(ReadFile),
    /// Write a file from standard input.
    Write(WriteFile),
    /// Replace text that stands in a file exactly once.
    Edit(EditFile),
    /// Delete a file, a link or an empty directory.
    Delete(DeleteFile),
    /// List a directory.
    List(ListDir),
    /// Find files by a glob, or lines by a regular expression.
    Search(Search),
}

/// Which file, and which part of it.
#[derive(Debug, Args)]
pub(super) struct ReadFile {
    #[command(flatten)]
    who: Who,
    /// Some lines: the first, counted from 1, and how many.
    #[arg(long, value_name = "FIRST[:COUNT]", value_parser = range, conflicts_with = "bytes")]
    lines: Option<Range>,
    /// Some bytes: where from, and how many.
    #[arg(long, value_name = "FROM[:COUNT]", value_parser = range)]
    bytes: Option<Range>,
    /// The file.
    path: PathBuf,
}

/// Which file, and how.
#[derive(Debug, Args)]
pub(super) struct WriteFile {
    #[command(flatten)]
    who: Who,
    /// Refuse if something stands there.
    #[arg(long, conflicts_with = "old")]
    new: bool,
    /// Refuse if nothing stands there.
    #[arg(long)]
    old: bool,
    /// Make the directories above it that are missing.
    #[arg(long, short)]
    parents: bool,
    /// The file.
    path: PathBuf,
}

/// Which file, and what in it.
#[derive(Debug, Args)]
pub(super) struct EditFile {
    #[command(flatten)]
    who: Who,
    /// The text to replace.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    old: String,
    /// What takes its place.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    new: String,
    /// Replace every occurrence.
    #[arg(long)]
    all: bool,
    /// The file.
    path: PathBuf,
}

/// Which file.
#[derive(Debug, Args)]
pub(super) struct DeleteFile {
    #[command(flatten)]
    who: Who,
    /// Delete an empty directory.
    #[arg(long, short)]
    directory: bool,
    /// The file.
    path: PathBuf,
}

/// Which directory.
#[derive(Debug, Args)]
pub(super) struct ListDir {
    #[command(flatten)]
    who: Who,
    /// The most entries.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// The directory.
    #[arg(default_value = ".")]
    path: PathBuf,
}

/// What to look for, and where.
#[derive(Debug, Args)]
pub(super) struct Search {
    #[command(flatten)]
    who: Who,
    /// Only paths that match; a glob without `/` is a name anywhere below.
    #[arg(long, short, value_name = "GLOB")]
    glob: Option<String>,
    /// Upper and lower case are the same.
    #[arg(long, short)]
    ignore_case: bool,
    /// The most matches.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Where to look.
    #[arg(long, value_name = "DIR", default_value = ".")]
    below: PathBuf,
    /// A regular expression for lines; without it files are found by name.
    #[arg(allow_hyphen_values = true)]
    pattern: Option<String>,
}

/// Where from, and how many.
type Range = (u64, Option<u64>);

fn range(text: &str) -> Result<Range, String> {
    let number =
        |text: &str| text.parse::<u64>().map_err(|_| "not a number, or two with a colon between".to_owned());
    match text.split_once(':') {
        None => Ok((number(text)?, None)),
        Some((from, count)) => Ok((number(from)?, Some(number(count)?))),
    }
}

/// A path as an argument: text where it is, else its bytes.
fn with_path(mut arguments: Value, path: &Path) -> Value {
    match path.to_str() {
        Some(text) => arguments["path"] = json!(text),
        None => arguments["path_base64"] = json!(STANDARD.encode(path.as_os_str().as_bytes())),
    }
    arguments
}

impl Fs {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        match self {
            Self::Read(command) => command.run(ui),
            Self::Write(command) => command.run(ui),
            Self::Edit(command) => command.run(ui),
            Self::Delete(command) => command.run(ui),
            Self::List(command) => command.run(ui),
            Self::Search(command) => command.run(ui),
        }
    }
}

impl ReadFile {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let mut arguments = json!({});
        if let Some((first, count)) = self.lines {
            arguments["line"] = json!(first);
            arguments["lines"] = json!(count);
        }
        if let Some((from, count)) = self.bytes {
            arguments["offset"] = json!(from);
            arguments["length"] = json!(count);
        }
        let arguments = with_path(arguments, &self.path);
        carry_out(ui, &self.who, "read_file", &arguments, |value| {
            let content = text(value, "content");
            match text(value, "encoding") {
                "base64" => ui.content(&STANDARD.decode(content).unwrap_or_default()),
                _ => ui.content(content.as_bytes()),
            }
        })
    }
}

impl WriteFile {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let mut content = Vec::new();
        std::io::stdin()
            .lock()
            .take(MOST_INPUT)
            .read_to_end(&mut content)
            .map_err(|error| CliError::new("cannot read standard input").because(&error))?;
        let existing = match (self.new, self.old) {
            (true, _) => "new",
            (_, true) => "old",
            _ => "any",
        };
        let arguments = json!({
            "content": STANDARD.encode(&content), "encoding": "base64", "existing": existing, "parents": self.parents,
        });
        carry_out(ui, &self.who, "write_file", &with_path(arguments, &self.path), |value| {
            let verb = if value["created"] == json!(true) { "created" } else { "wrote" };
            ui.answer(format!("{verb} {}, {} bytes", text(value, "path"), value["bytes"]))
        })
    }
}

/// More than can be written, so that too much is told as such.
const MOST_INPUT: u64 = 32 << 20;

impl EditFile {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let arguments = json!({ "old_text": self.old, "new_text": self.new, "replace_all": self.all });
        carry_out(ui, &self.who, "edit_file", &with_path(arguments, &self.path), |value| {
            let count = &value["replacements"];
            let plural = if *count == json!(1) { "" } else { "s" };
            ui.answer(format!("changed {}, {count} replacement{plural}", text(value, "path")))
        })
    }
}

impl DeleteFile {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let arguments = with_path(json!({ "directory": self.directory }), &self.path);
        carry_out(ui, &self.who, "delete_file", &arguments, |value| {
            ui.answer(format!("deleted {}", text(value, "path")))
        })
    }
}

impl ListDir {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let arguments = with_path(json!({ "limit": self.limit }), &self.path);
        carry_out(ui, &self.who, "list_dir", &arguments, |value| {
            for entry in value["entries"].as_array().into_iter().flatten() {
                let size = entry["size"].as_u64().map_or_else(String::new, |size| size.to_string());
                ui.answer(format!("{:<9}  {size:>9}  {}", text(entry, "kind"), text(entry, "name")))?;
            }
            tell_truncated(ui, value);
            Ok(())
        })
    }
}

impl Search {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let arguments = json!({
            "glob": self.glob, "pattern": self.pattern, "ignore_case": self.ignore_case, "limit": self.limit,
        });
        carry_out(ui, &self.who, "search", &with_path(arguments, &self.below), |value| {
            for found in value["matches"].as_array().into_iter().flatten() {
                let path = text(found, "path");
                match found["line"].as_u64() {
                    Some(line) => ui.answer(format!("{path}:{line}: {}", text(found, "text")))?,
                    None => ui.answer(path)?,
                }
            }
            tell_truncated(ui, value);
            Ok(())
        })
    }
}

/// What was left out is said, beside the answer.
fn tell_truncated(ui: &Ui, value: &Value) {
    if value["truncated"] == json!(true) {
        ui.remark("sbx: there may be more; --limit takes more, a narrower question fewer");
    }
}
