//! The files of a log: the one that is written to, and the full ones before it.
//!
//! Answers for names, for closing a full file and for dropping the oldest. The chain goes on across files.
//! Invariant: a file is dropped only after a line of the log says so.

use super::head::Head;
use super::recover::Position;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Where the files of a log are.
#[derive(Clone, Debug)]
pub(super) struct Files {
    dir: PathBuf,
}

impl Files {
    pub(super) fn in_dir(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file that is written to.
    pub(super) fn current(&self) -> PathBuf {
        self.dir.join("audit.jsonl")
    }

    /// Where the log ended, and what writers lock.
    pub(super) fn head(&self) -> PathBuf {
        self.dir.join("audit.head")
    }

    /// A full file.
    pub(super) fn full(&self, number: u64) -> PathBuf {
        self.dir.join(format!("audit.{number:06}.jsonl"))
    }

    /// The numbers of the full files that are there, oldest first.
    pub(super) fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("audit.")?.strip_suffix(".jsonl"));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Whether nothing was ever written here.
    pub(super) fn is_new(&self) -> io::Result<bool> {
        let empty = std::fs::metadata(self.current()).map_or(true, |meta| meta.len() == 0);
        Ok(empty && self.numbers()?.is_empty())
    }

    /// Closes the current file, which is then full.
    pub(super) fn rotate(&self, head: &Head, current: &File) -> io::Result<Position> {
        current.sync_data()?;
        let full = self.full(head.file);
        if full.exists() {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        std::fs::rename(self.current(), full)?;
        Ok(Position::begin(Head { file: head.file + 1, size: 0, link: head.link }))
    }

    /// What the first line of a new file says.
    pub(super) fn rotation(&self, number: u64, dropped: Option<u64>) -> Map<String, Value> {
        let before = self.full(number.saturating_sub(1));
        let kept = self.numbers().unwrap_or_default().into_iter().find(|kept| Some(*kept) > dropped);
        let body = json!({
            "file": number,
            "after": before.file_name().map(|name| name.to_string_lossy()),
            "oldest": kept.unwrap_or(number),
        });
        body.as_object().cloned().unwrap_or_default()
    }

    /// The numbers of the files that are too old, oldest first.
    pub(super) fn to_drop(&self, keep: u64) -> Vec<u64> {
        let mut numbers = self.numbers().unwrap_or_default();
        let kept = usize::try_from(keep).unwrap_or(usize::MAX);
        numbers.truncate(numbers.len().saturating_sub(kept));
        numbers
    }

    pub(super) fn remove(&self, numbers: &[u64]) {
        for number in numbers {
            // One that stays is dropped next time.
            let _ = std::fs::remove_file(self.full(*number));
        }
    }
}
