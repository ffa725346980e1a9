//! sbx's own files and the programs around it: permissions, the log, another `sbx` on the way.

use super::finding::{Finding, Level};
use crate::audit::verify;
use crate::manifest::{Facts, OnFailure};
use crate::run::Setting;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Findings about sbx's own files.
#[must_use]
pub fn files(setting: &Setting) -> Vec<Finding> {
    let mut found: Vec<Finding> = loose(&setting.facts)
        .into_iter()
        .map(|(path, mode)| {
            let message = format!("{} can be changed by other users", path.display());
            Finding::new("files", "permissions", Level::Warning, message)
                .fix(format!("chmod {mode:o} {}", path.display()))
                .fix("sbx doctor --fix does that")
        })
        .collect();
    found.extend(log(setting));
    found.extend(other_sbx());
    found
}

/// Takes away from others what they must not have; answers with what was done.
///
/// Only permissions are changed, and only to less: nothing that says what an agent may do is touched.
#[must_use]
pub fn fix(setting: &Setting) -> Vec<String> {
    let tighten =
        |(path, mode): (PathBuf, u32)| match fs::set_permissions(&path, Permissions::from_mode(mode)) {
            Ok(()) => format!("{} is now {mode:o}", path.display()),
            Err(error) => format!("{} stays as it is: {error}", path.display()),
        };
    loose(&setting.facts).into_iter().map(tighten).collect()
}

/// Own files that others can write to, with the mode they should have.
fn loose(facts: &Facts) -> Vec<(PathBuf, u32)> {
    const OTHERS: u32 = 0o022;
    let mut paths = vec![facts.config_dir.clone(), facts.state_dir.clone()];
    for dir in [
        &facts.config_dir,
        &facts.config_dir.join("agents"),
        &facts.config_dir.join("tools"),
        &facts.state_dir,
    ] {
        paths.extend(fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()));
    }
    paths.sort();
    paths.dedup();
    let loose = |path: PathBuf| {
        let meta = fs::symlink_metadata(&path).ok().filter(|meta| !meta.is_symlink())?;
        let mode = meta.permissions().mode() & 0o7777;
        (mode & OTHERS != 0).then_some((path, mode & !OTHERS))
    };
    paths.into_iter().filter_map(loose).collect()
}

fn log(setting: &Setting) -> Vec<Finding> {
    let mut found = Vec::new();
    if setting.config.audit.on_failure == OnFailure::Open {
        let message = "launches that cannot be recorded go on unrecorded: `audit: {on_failure: open}`";
        found.push(Finding::new("files", "audit-open", Level::Note, message));
    }
    match verify(&setting.facts.state_dir, None) {
        Err(error) => {
            let message =
                format!("the audit log in {} cannot be read: {error}", setting.facts.state_dir.display());
            found.push(Finding::new("files", "audit-unreadable", Level::Error, message));
        }
        Ok(verdict) if verdict.problems.is_empty() => {
            let message = match verdict.end {
                None => "nothing was recorded in the audit log yet".to_owned(),
                Some(_) => format!("the audit log is whole: {} lines", verdict.lines),
            };
            found.push(Finding::new("files", "audit", Level::Fine, message));
        }
        Ok(verdict) => {
            let first = &verdict.problems[0].message;
            let message = format!(
                "the audit log is not whole: {} problems, the first: {first}",
                verdict.problems.len()
            );
            found.push(Finding::new("files", "audit-broken", Level::Error, message).fix("sbx audit verify"));
        }
    }
    found
}

/// Another `sbx` that is found before this one: hooks and clients would start that.
fn other_sbx() -> Option<Finding> {
    let own = std::env::current_exe().and_then(fs::canonicalize).ok()?;
    let path = std::env::var_os("PATH")?;
    let is_program = |path: &Path| {
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let first = std::env::split_paths(&path).map(|dir| dir.join("sbx")).find(|path| is_program(path));
    match first {
        None => {
            let message =
                format!("sbx is not on PATH: clients that start it by name will not find {}", own.display());
            Some(Finding::new("files", "not-on-path", Level::Note, message))
        }
        Some(first) if fs::canonicalize(&first).ok().as_deref() != Some(&own) => {
            let message = format!(
                "another sbx comes first on PATH: {}, and this is {}",
                first.display(),
                own.display()
            );
            Some(
                Finding::new("files", "other-sbx", Level::Warning, message)
                    .fix("remove it, or put this one's directory first"),
            )
        }
        Some(_) => None,
    }
}
