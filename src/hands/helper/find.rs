//! Looking for files by name and for lines by pattern.
//!
//! Invariant: names, lines, files, time and what is remembered are all bounded, and what was left out is told.

use super::look::{directory, said};
use super::wire::{Place, Query, Seen};
use super::{Outcome, Stop};
use crate::capability::Glob;
use crate::hands::fault::{Fault, FaultCode};
use regex::bytes::{Regex, RegexBuilder};
use sbx_platform::walk::{Dir, Kind, Purpose};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The most entries that are looked at.
const MOST_ENTRIES: usize = 200_000;
/// The deepest directory that is entered.
const DEEPEST: usize = 64;
/// The largest file whose lines are looked at.
const LARGEST: u64 = 8 << 20;
/// How much of a line is told.
const LINE: usize = 400;
/// The size a pattern may grow to when it is compiled.
const PATTERN: usize = 4 << 20;
/// Where a file that is not text shows it.
const HEAD: usize = 8 << 10;

struct Search {
    glob: Option<Glob>,
    pattern: Option<Regex>,
    most: usize,
    until: Instant,
    looked_at: usize,
    skipped: usize,
    found: Vec<Value>,
    stopped: Option<&'static str>,
}

/// Searches below a directory.
pub(super) fn search(path: &Path, seen: Seen, query: &Query) -> Outcome {
    let dir = directory("search", path)?;
    let itself = dir.itself().map_err(|error| said("search", path, &error))?;
    if seen.there != Some(itself.identity) {
        return Err(Stop::Other);
    }
    let mut search = Search {
        glob: query.glob.as_deref().map(Glob::new),
        pattern: query.pattern.as_deref().map(|text| compiled(text, query.ignore_case)).transpose()?,
        most: query.most,
        until: Instant::now() + Duration::from_millis(query.millis),
        looked_at: 0,
        skipped: 0,
        found: Vec::new(),
        stopped: None,
    };
    // What cannot be listed at all is told; what cannot be listed further down is left out.
    let names = names(&dir).map_err(|error| said("search", path, &error))?;
    search.enter(&dir, names, &mut PathBuf::new(), 0);
    let value = json!({
        "matches": search.found,
        "truncated": search.stopped.is_some(),
        "stopped_by": search.stopped,
        "skipped": search.skipped,
    });
    Ok((value, Vec::new()))
}

fn compiled(text: &str, ignore_case: bool) -> Result<Regex, Fault> {
    let built = RegexBuilder::new(text).case_insensitive(ignore_case).size_limit(PATTERN).build();
    built.map_err(|error| {
        let why = error.to_string();
        let last = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
        Fault::new(FaultCode::InvalidArguments, format!("the pattern is not a regular expression: {last}"))
    })
}

fn names(dir: &Dir) -> std::io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    dir.names(|name| {
        names.push(name);
        names.len() < MOST_ENTRIES
    })?;
    names.sort();
    Ok(names)
}

impl Search {
    fn goes_on(&mut self) -> bool {
        self.stopped = self.stopped.or(if self.found.len() >= self.most {
            Some("results")
        } else if self.looked_at > MOST_ENTRIES {
            Some("entries")
        } else if Instant::now() >= self.until {
            Some("time")
        } else {
            None
        });
        self.stopped.is_none()
    }

    fn enter(&mut self, dir: &Dir, names: Vec<OsString>, below: &mut PathBuf, depth: usize) {
        for name in names {
            if !self.goes_on() {
                return;
            }
            self.looked_at += 1;
            below.push(&name);
            match dir.look(&name).map(|looked| (looked.kind, looked.size)) {
                Ok((Kind::Directory, _)) if depth < DEEPEST => {
                    self.note_name(below, Kind::Directory);
                    if let Ok(inner) = dir.child(&name)
                        && let Ok(names) = self::names(&inner)
                    {
                        self.enter(&inner, names, below, depth + 1);
                    }
                }
                Ok((Kind::File, size)) if self.pattern.is_some() => {
                    if self.is_meant(below) {
                        self.look_through(dir, &name, below, size);
                    }
                }
                Ok((kind, _)) => self.note_name(below, kind),
                Err(_) => self.skipped += 1,
            }
            below.pop();
        }
    }

    fn is_meant(&self, below: &Path) -> bool {
        self.glob.as_ref().is_none_or(|glob| glob.matches(below.as_os_str().as_bytes()))
    }

    /// Without a pattern for lines, names are what is looked for.
    fn note_name(&mut self, below: &Path, kind: Kind) {
        if self.pattern.is_none() && self.is_meant(below) {
            let kind = super::files::kind(kind);
            self.found.push(json!({ "path": Place(below.to_path_buf()), "kind": kind }));
        }
    }

    fn look_through(&mut self, dir: &Dir, name: &OsString, below: &Path, size: u64) {
        let Some(content) = content(dir, name, size) else {
            self.skipped += 1;
            return;
        };
        let Some(pattern) = self.pattern.clone() else { return };
        for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
            // One file can hold many lines.
            if number % 1024 == 1023 && !self.goes_on() {
                return;
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(at) = pattern.find(line) else { continue };
            if self.found.len() >= self.most {
                self.stopped = Some("results");
                return;
            }
            self.found.push(json!({
                "path": Place(below.to_path_buf()),
                "line": number + 1,
                "column": at.start() + 1,
                "text": shown(line, at.start()),
            }));
        }
    }
}

/// A regular file's content, if it is text and not too large.
fn content(dir: &Dir, name: &OsString, size: u64) -> Option<Vec<u8>> {
    if size > LARGEST {
        return None;
    }
    let file = dir.open(name, Purpose::Read).ok()?;
    if sbx_platform::walk::look(&file).ok()?.kind != Kind::File {
        return None;
    }
    let mut content = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut content).ok()?;
    let head = &content[..content.len().min(HEAD)];
    (content.len() as u64 <= LARGEST && !head.contains(&0)).then_some(content)
}

/// A line as far as it is told, around the match.
fn shown(line: &[u8], at: usize) -> String {
    let from = at.saturating_sub(LINE / 4).min(line.len());
    let from = if line.len() <= LINE { 0 } else { from };
    let to = line.len().min(from + LINE);
    let mut text = String::from_utf8_lossy(&line[from..to]).into_owned();
    if from > 0 {
        text.insert(0, '…');
    }
    if to < line.len() {
        text.push('…');
    }
    text
}
