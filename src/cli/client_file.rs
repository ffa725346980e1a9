//! A client's file that is edited for it: read, changed, kept a copy of, written, told of.
//!
//! Answers for the file being as it was, or as it was meant to become, with a copy beside it. What is changed in it is
//! for [`mcp::install`](crate::mcp::install) and [`hook::install`](crate::hook::install) to say.

use super::{CliError, Ui};
use crate::manifest::{Facts, create_file, create_with, read_bounded, rewrite_bounded};
use crate::mcp::install::{Installed, Outcome};
use clap::Args;
use sbx_platform::path::within;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The largest file of a client; some keep their history in it.
const MOST: usize = 64 << 20;
/// Backups of one file at most.
const BACKUPS: usize = 1000;

/// Which file of a client, and whether it is written.
#[derive(Debug, Args)]
pub(super) struct ClientFile {
    /// The project's file instead of the user's.
    #[arg(long)]
    pub(super) project: bool,
    /// Another file than the client's own.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print what the file would say, and change nothing.
    #[arg(long)]
    print: bool,
    /// Say what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

impl ClientFile {
    /// The file: as given, or the client's own, below home or the project. One of the project's that leads out of it is
    /// refused: whoever made the project would choose what of the user's is edited.
    pub(super) fn path(&self, own: &str, facts: &Facts) -> Result<PathBuf, CliError> {
        if let Some(file) = &self.file {
            return Ok(facts.cwd.join(file));
        }
        let file = place(own, facts);
        let real = |path: &Path| sbx_platform::path::resolve(path).unwrap_or_else(|_| path.to_path_buf());
        let project = facts.project.as_ref().unwrap_or(&facts.cwd);
        if own.starts_with("~/") || within(&real(&file), &real(project)) {
            return Ok(file);
        }
        let message = format!("{} leads out of the project, to {}", file.display(), real(&file).display());
        Err(CliError::new(message).hint("name the file that is meant with --file"))
    }

    /// Changes the file and tells what became of what is listed in it under `what`.
    pub(super) fn edit(
        &self,
        ui: &Ui,
        client: &str,
        file: &Path,
        what: &str,
        change: impl Fn(&str) -> Result<Installed, String>,
    ) -> Result<(), CliError> {
        let before = if file.exists() { text(file)? } else { String::new() };
        let wrong = |error: String| {
            CliError::new(format!("{} cannot be edited: {error}", file.display()))
                .hint("put it right first; nothing was changed")
        };
        let installed = change(&before).map_err(wrong)?;
        let keep = self.print || self.dry_run || installed.text == before;
        let backup = if keep { None } else { write(file, &before, &installed.text, change)? };
        self.answer(ui, client, file, what, &before, &installed, backup.as_deref())
    }

    #[expect(clippy::too_many_arguments, reason = "all that is told, once")]
    fn answer(
        &self,
        ui: &Ui,
        client: &str,
        file: &Path,
        what: &str,
        before: &str,
        installed: &Installed,
        backup: Option<&Path>,
    ) -> Result<(), CliError> {
        let written = !(self.print || self.dry_run) && installed.text != before;
        if ui.json {
            let entry = |(name, outcome): &(String, Outcome)| json!({ "name": name, "change": outcome.name(), "why": why(outcome) });
            let entries: Vec<Value> = installed.entries.iter().map(entry).collect();
            return ui.answer_json(&json!({
                "client": client, "file": file.to_string_lossy(), "written": written,
                "backup": backup.map(Path::to_string_lossy), what: entries,
                "text": self.print.then_some(&installed.text),
            }));
        }
        if self.print {
            return ui.answer(installed.text.trim_end());
        }
        if self.dry_run {
            ui.answer(difference(before, &installed.text))?;
        }
        for (name, outcome) in &installed.entries {
            let why = why(outcome).map(|why| format!(": {why}")).unwrap_or_default();
            ui.remark(format!("{}: {}{why}", name, outcome.name()));
        }
        if installed.entries.is_empty() {
            ui.remark(format!("{} lists no {what}", file.display()));
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

/// A client's own file, below home or the project.
pub(super) fn place(own: &str, facts: &Facts) -> PathBuf {
    match own.strip_prefix("~/") {
        Some(rest) => facts.home.join(rest),
        None => facts.project.as_ref().unwrap_or(&facts.cwd).join(own),
    }
}

/// What a client's file says.
pub(super) fn text(file: &Path) -> Result<String, CliError> {
    let read = read_bounded(file, MOST).map_err(|error| CliError::from_error(&error))?;
    Ok(read.text().to_owned())
}

fn why(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Skipped(why) => Some(why),
        Outcome::Added | Outcome::Changed | Outcome::Same | Outcome::Removed => None,
    }
}

/// Writes the file, keeping a copy of what it was.
fn write(
    file: &Path,
    before: &str,
    after: &str,
    change: impl Fn(&str) -> Result<Installed, String>,
) -> Result<Option<PathBuf>, CliError> {
    let failed =
        |error: &std::io::Error| CliError::new(format!("cannot write {}", file.display())).because(error);
    if !file.exists() {
        create_file(file, after).map_err(|error| failed(&error))?;
        return Ok(None);
    }
    let backup = backup(file, before).map_err(|error| failed(&error))?;
    // Changed anew under the lock: the client may have written in the meantime.
    let again = |source: crate::Source| change(source.text()).map(|installed| Some(installed.text));
    rewrite_bounded(file, MOST, again).map_err(|error| CliError::from_error(&error))?;
    Ok(Some(backup))
}

/// A copy beside the file; one that is there already is used when it says the same.
fn backup(file: &Path, text: &str) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let real = std::fs::canonicalize(file)?;
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mode = std::fs::metadata(&real)?.permissions().mode() & 0o777;
    for number in 0..BACKUPS {
        let end = if number == 0 { String::new() } else { format!("-{number}") };
        let copy = real.with_file_name(format!("{name}.sbx-backup{end}"));
        // Nobody reads what the file does not show, not for a moment either.
        match create_with(&copy, text, mode) {
            Ok(()) => {
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
