//! Tools that are operations of sbx itself: files, decided like any other request.
//!
//! Invariant: what is opened is what was decided on; no link is followed, and nothing waits for a pipe.

use super::call::Caller;
use super::output::{Report, Stop};
use crate::decide::{Decision, Request, decide};
use crate::tool::{Api, Bound, MOST_OUTPUT, Tool, ToolCode};
use sbx_platform::path::resolve;
use sbx_platform::walk::{Dir, Kind, Purpose};
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
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
    if api == Api::FsList {
        let mut names = Vec::new();
        Dir::at(target)?.names(|name| {
            names.push(name.to_string_lossy().into_owned());
            true
        })?;
        names.sort();
        return Ok(names.join("\n"));
    }
    let bad = || io::Error::new(io::ErrorKind::InvalidInput, "not the path of a file");
    let (parent, name) = (target.parent().ok_or_else(bad)?, target.file_name().ok_or_else(bad)?);
    let parent = Dir::at(parent)?;
    match api {
        Api::FsRead => {
            let mut text = Vec::new();
            regular(parent.open(name, Purpose::Read)?)?.take(MOST_OUTPUT).read_to_end(&mut text)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        Api::FsWrite => {
            let there = parent.open(name, Purpose::Write);
            let file = match there {
                Err(error) if error.kind() == io::ErrorKind::NotFound => parent.open(name, Purpose::Make)?,
                there => there?,
            };
            // Nothing is cut off before it is certain what this is.
            let mut file = regular(file)?;
            file.set_len(0)?;
            file.write_all(content.as_bytes())?;
            Ok(String::new())
        }
        Api::FsDelete => parent.remove(name, Kind::File).map(|()| String::new()),
        Api::FsList => Ok(String::new()),
    }
}

fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_appears_after_the_decision_leads_nowhere() {
        let dir = std::fs::canonicalize(std::env::temp_dir()).unwrap();
        let dir = dir.join(format!("sbx-internal-{}", std::process::id()));
        let (place, outside) = (dir.join("place"), dir.join("outside"));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("there"), "kept").unwrap();
        std::os::unix::fs::symlink(outside.join("new"), place.join("file")).unwrap();
        std::os::unix::fs::symlink(&outside, place.join("way")).unwrap();
        for path in [place.join("file"), place.join("way/new"), place.join("way/there")] {
            assert!(carry_out(Api::FsWrite, &path, "text").is_err(), "{}", path.display());
        }
        assert!(carry_out(Api::FsRead, &place.join("way/there"), "").is_err());
        assert!(carry_out(Api::FsDelete, &place.join("way/there"), "").is_err());
        let left: Vec<_> =
            std::fs::read_dir(&outside).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["there"]);
        assert_eq!(std::fs::read_to_string(outside.join("there")).unwrap(), "kept");
        carry_out(Api::FsWrite, &place.join("own"), "text").unwrap();
        assert_eq!(carry_out(Api::FsRead, &place.join("own"), "").unwrap(), "text");
        assert_eq!(carry_out(Api::FsList, &place, "").unwrap(), "file\nown\nway");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
