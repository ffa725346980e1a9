//! Tools that are operations of sbx itself: files, decided like any other request.
//!
//! Invariant: what is opened is what was decided on; a link that appears in between is noticed.

use super::call::Caller;
use super::output::{Report, Stop};
use crate::decide::{Decision, Request, decide};
use crate::tool::{Api, Bound, MOST_OUTPUT, Tool, ToolCode};
use sbx_platform::path::resolve;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Carries an operation out.
pub(super) fn run(tool: &Tool, bound: &Bound, caller: &Caller<'_>) -> Result<Report, Stop> {
    let Bound::Internal(api, values) = bound else {
        return Err(Stop::failed(ToolCode::WrongKind, &tool.name, "it is a command"));
    };
    let begun = Instant::now();
    let asked = caller.cwd.join(values.get("path").map(String::as_str).unwrap_or_default());
    let failed = |error: io::Error| {
        Stop::failed(ToolCode::NotStarted, &tool.name, format!("{}: {error}", asked.display()))
    };
    let target = resolve(&asked).map_err(failed)?;
    let request = Request::resolved_path(api.capability(), asked.clone(), target.clone()).by_tool(&tool.name);
    if let Decision::Deny(denial) = decide(caller.policy, &request) {
        return Err(Stop::Denied(denial));
    }
    let content = values.get("content").map(String::as_str).unwrap_or_default();
    let text = carry_out(*api, &target, content).map_err(failed)?;
    let most = usize::try_from(tool.constraints.max_stdout).unwrap_or(usize::MAX);
    let cut = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= most).last();
    let stdout_truncated = text.len() > most;
    let stdout = if stdout_truncated { text[..cut.unwrap_or(0)].to_owned() } else { text };
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let value = match api {
        Api::FsList => stdout.lines().collect(),
        Api::FsRead => json!(stdout),
        Api::FsWrite | Api::FsDelete => json!(null),
    };
    Ok(Report { value, stdout, stdout_truncated, exit_code: Some(0), duration_ms, ..Report::default() })
}

fn carry_out(api: Api, target: &Path, content: &str) -> io::Result<String> {
    match api {
        Api::FsRead => {
            let file = File::open(target)?;
            same(&file, target)?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
            }
            let mut text = Vec::new();
            file.take(MOST_OUTPUT).read_to_end(&mut text)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        Api::FsList => {
            let file = File::open(target)?;
            same(&file, target)?;
            let mut names: Vec<String> = std::fs::read_dir(opened(&file, target))?
                .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
                .collect::<io::Result<_>>()?;
            names.sort();
            Ok(names.join("\n"))
        }
        Api::FsWrite => {
            let (parent, name) = parent_of(target)?;
            let path = opened(&parent, target.parent().unwrap_or(target)).join(name);
            // Nothing is cut off before it is certain which file this is.
            let file = File::options().write(true).create(true).truncate(false).open(&path)?;
            same(&file, target)?;
            file.set_len(0)?;
            let mut file = file;
            file.write_all(content.as_bytes())?;
            Ok(String::new())
        }
        Api::FsDelete => {
            let (parent, name) = parent_of(target)?;
            std::fs::remove_file(opened(&parent, target.parent().unwrap_or(target)).join(name))?;
            Ok(String::new())
        }
    }
}

/// The directory a file stands in, held open and known to be the one that was decided on.
fn parent_of(target: &Path) -> io::Result<(File, PathBuf)> {
    let bad = || io::Error::new(io::ErrorKind::InvalidInput, "not the path of a file");
    let (parent, name) = (target.parent().ok_or_else(bad)?, target.file_name().ok_or_else(bad)?);
    let held = File::open(parent)?;
    same(&held, parent)?;
    Ok((held, PathBuf::from(name)))
}

/// A path to what is held open, whatever has become of its name.
fn opened(file: &File, path: &Path) -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
    } else {
        path.to_path_buf()
    }
}

/// Whether what was opened is what was decided on.
fn same(file: &File, target: &Path) -> io::Result<()> {
    let is = if cfg!(target_os = "linux") {
        std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?
    } else {
        resolve(target)?
    };
    if is == target { Ok(()) } else { Err(io::Error::other("it became another file meanwhile")) }
}
