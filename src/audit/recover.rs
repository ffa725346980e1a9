//! Where to go on writing, whatever a crash, a full disk or someone's hand has left.
//!
//! Answers for telling apart what an interrupted writer leaves (a line the head does not tell of, half a line, half
//! a rotation) from what it cannot have left. The chain always goes on; what was found is a `repair` line in it.
//! Invariant: what a writer could not have left is never repaired away, only marked.

use super::chain::{Entry, Hex, Link, MAX_LINE};
use super::head::Head;
use super::rotate::Files;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The most bytes behind the head that are read as lines; a writer leaves three at most.
const MAX_TAIL: u64 = 4 << 20;

/// Where the next line goes.
#[derive(Clone, Debug)]
pub(super) struct Position {
    /// The end of the log as it is.
    pub(super) head: Head,
    /// Whether the end is in the middle of a line.
    pub(super) cut: bool,
    /// Whether a new file begins here.
    pub(super) begins: bool,
    /// What was found broken.
    pub(super) repair: Option<Map<String, Value>>,
}

impl Position {
    pub(super) const fn at(head: Head) -> Self {
        Self { head, cut: false, begins: false, repair: None }
    }

    pub(super) fn begin(head: Head) -> Self {
        Self { begins: true, ..Self::at(head) }
    }

    fn broken(head: Head, cut: bool, repair: Value) -> Self {
        Self { cut, repair: repair.as_object().cloned(), ..Self::at(head) }
    }
}

/// Finds out where the log ends, whose current file is of the size given.
pub(super) fn recover(files: &Files, head: Option<Head>, current: &File, size: u64) -> io::Result<Position> {
    let Some(head) = head else { return without_head(files, current, size) };
    if head.size == size {
        return Ok(Position::at(head));
    }
    let rotated = files.full(head.file).exists();
    let head = if rotated { Head { file: head.file + 1, size: 0, ..head } } else { head };
    if rotated && size == 0 {
        return Ok(Position::begin(head));
    }
    if size < head.size {
        let cut = size > 0 && byte_at(current, size - 1)? != b'\n';
        let found = json!({ "reason": "truncated", "size": head.size, "found": size });
        return Ok(Position::broken(Head { size, ..head }, cut, found));
    }
    behind(head, current, size)
}

/// Takes over lines that were written while the head was not; what is no line is marked.
fn behind(head: Head, current: &File, size: u64) -> io::Result<Position> {
    let most = size - head.size > MAX_TAIL;
    let tail = read(current, head.size, if most { head.size + MAX_TAIL } else { size })?;
    let (link, taken) = follow(&tail, head.link);
    let rest = &tail[taken..];
    if rest.is_empty() && !most {
        return Ok(Position::at(Head { size, link, ..head }));
    }
    // Only the end of line is missing: the line itself is whole.
    if let Some(entry) = Entry::read(rest).ok().filter(|entry| entry.follows(link)) {
        return Ok(Position { cut: true, ..Position::at(Head { size, link: entry.link(), ..head }) });
    }
    let reason = if rest.contains(&b'\n') || most { "foreign" } else { "torn" };
    let found =
        json!({ "reason": reason, "bytes": rest.len(), "sha256": Hex(&Sha256::digest(rest)).to_string() });
    let cut = byte_at(current, size - 1)? != b'\n';
    Ok(Position::broken(Head { size, link, ..head }, cut, found))
}

/// The chain along whole lines that follow `link`, and how many bytes they take.
fn follow(bytes: &[u8], mut link: Link) -> (Link, usize) {
    let mut taken = 0;
    while let Some(length) = bytes[taken..].iter().position(|byte| *byte == b'\n') {
        match Entry::read(&bytes[taken..taken + length]) {
            Ok(entry) if entry.follows(link) => link = entry.link(),
            _ => break,
        }
        taken += length + 1;
    }
    (link, taken)
}

/// The head is lost, so that lines cut off at the end would not be noticed; that much is said.
fn without_head(files: &Files, current: &File, size: u64) -> io::Result<Position> {
    let newest = files.numbers()?.last().copied().unwrap_or(0);
    let mut last = last_line(current, size)?;
    if last.is_none() && newest > 0 {
        let full = File::open(files.full(newest))?;
        last = last_line(&full, full.metadata()?.len())?;
    }
    let cut = size > 0 && byte_at(current, size - 1)? != b'\n';
    let head = Head { file: newest + 1, size, link: last.unwrap_or(Link::START) };
    Ok(Position::broken(head, cut, json!({ "reason": "headless" })))
}

/// The last whole line near the end of a file.
fn last_line(file: &File, size: u64) -> io::Result<Option<Link>> {
    let bytes = read(file, size.saturating_sub(2 * MAX_LINE as u64), size)?;
    let lines = bytes.split(|byte| *byte == b'\n').rev();
    Ok(lines.filter_map(|line| Entry::read(line).ok()).map(|entry| entry.link()).next())
}

fn byte_at(file: &File, at: u64) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    Ok(byte[0])
}

fn read(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(to - from).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length.min(MAX_TAIL as usize)];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}
