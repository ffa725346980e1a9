//! Whether the log is whole: every line as it was written, none missing, none added, in order, to the end.
//!
//! Answers for finding what was done to a log, and for not taking the traces of a crash for it. Without a key held
//! elsewhere nothing can tell a log from one that was forged as a whole, head included; see the guide.
//! Invariant: the files are only read.

use super::chain::{Entry, Fault, Hex, Link, unhex};
use super::head::Head;
use super::rotate::Files;
use super::turn::{read_head, wait};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// How many files there are.
    pub files: usize,
    /// How many lines fit where they stand.
    pub lines: u64,
    /// Where the chain ends, to be kept elsewhere; none when nothing was recorded.
    pub end: Option<Link>,
    /// What cannot have come about by itself.
    pub problems: Vec<Finding>,
    /// What a crash leaves.
    pub notes: Vec<Finding>,
}

/// Something found at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What sort: `changed`, `removed`, `order`, `foreign`, `truncated`, `rechained`, `headless`, `torn`, `ahead` …
    pub code: &'static str,
    /// In which file.
    pub file: PathBuf,
    /// On which line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl Verdict {
    /// For machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let findings = |list: &[Finding]| -> Value {
            let one = |finding: &Finding| {
                json!({
                    "code": finding.code, "file": finding.file.to_string_lossy(),
                    "line": finding.line, "message": finding.message,
                })
            };
            list.iter().map(one).collect()
        };
        json!({
            "whole": self.problems.is_empty(), "files": self.files, "lines": self.lines,
            "seq": self.end.map(|end| end.seq), "head": self.end.map(|end| end.to_string()),
            "problems": findings(&self.problems), "notes": findings(&self.notes),
        })
    }
}

/// Reads the whole log below a state directory. `known` is a head that was kept elsewhere.
///
/// # Errors
/// When the files cannot be read.
pub fn verify(state_dir: &Path, known: Option<Link>) -> io::Result<Verdict> {
    let files = Files::in_dir(state_dir);
    let Some(snapshot) = Snapshot::take(&files)? else {
        let lost = known.map(|known| Finding {
            code: "truncated",
            file: files.current(),
            line: 0,
            message: format!("there is no log, but line {} was written once", known.seq),
        });
        return Ok(Verdict { problems: lost.into_iter().collect(), ..Verdict::default() });
    };
    let mut walk = Walk { head: snapshot.head, known, ..Walk::default() };
    walk.verdict.files = snapshot.files.len();
    walk.begin(&snapshot);
    for (path, file, size) in &snapshot.files {
        walk.file(path, file, *size)?;
    }
    Ok(walk.end(&files))
}

/// The log as it stood at one moment: writers go on behind it.
struct Snapshot {
    head: Option<Head>,
    /// The number of the oldest full file.
    oldest: Option<u64>,
    files: Vec<(PathBuf, File, u64)>,
}

impl Snapshot {
    fn take(files: &Files) -> io::Result<Option<Self>> {
        let lock = match File::open(files.head()) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            other => Some(other?),
        };
        if let Some(lock) = &lock {
            wait(Instant::now(), lock, File::try_lock_shared)?;
        }
        let numbers = match files.numbers() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mut opened = Vec::new();
        for path in numbers.iter().map(|number| files.full(*number)).chain([files.current()]) {
            match File::open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => {
                    let file = other?;
                    let size = file.metadata()?.len();
                    opened.push((path, file, size));
                }
            }
        }
        let head = lock.as_ref().map(read_head).transpose()?.flatten();
        let nothing =
            opened.iter().all(|(_, _, size)| *size == 0) && head.is_none_or(|head| head == Head::START);
        Ok((!nothing).then_some(Self { head, oldest: numbers.first().copied(), files: opened }))
    }
}

/// Along the lines.
#[derive(Default)]
struct Walk {
    head: Option<Head>,
    known: Option<Link>,
    /// The last line that was accepted as standing where it stands.
    last: Option<Link>,
    /// Bytes that are no line, until the next line says what they are.
    pending: Option<Pending>,
    /// The oldest full file that the log itself says it kept.
    kept_from: Option<u64>,
    begins_at: Option<u64>,
    verdict: Verdict,
}

/// Bytes that are no line.
struct Pending {
    path: PathBuf,
    number: usize,
    bytes: Vec<u8>,
    /// Whether the last of them was followed by an end of line.
    whole: bool,
}

impl Pending {
    fn at(path: &Path, number: usize) -> Self {
        Self { path: path.to_path_buf(), number, bytes: Vec::new(), whole: false }
    }
}

impl Walk {
    fn begin(&mut self, snapshot: &Snapshot) {
        // A first file with another number is checked against what the log says it dropped.
        let first = snapshot.oldest.or(self.head.map(|head| head.file)).unwrap_or(1);
        self.begins_at = (first > 1).then_some(first);
        self.last = (first == 1).then_some(Link::START);
    }

    fn file(&mut self, path: &Path, file: &File, size: u64) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(1 << 16, file.take(size));
        let mut line = Vec::new();
        for number in 1usize.. {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let whole = line.pop_if(|last| *last == b'\n').is_some();
            match Entry::read(&line) {
                Ok(entry) => {
                    self.entry(path, number, &entry);
                    if !whole && self.head.is_some_and(|head| head.link.seq >= entry.seq) {
                        let message = format!("the end of line {} was cut off", entry.seq);
                        self.problem("truncated", path, number, message);
                    }
                }
                Err(Fault::Changed { seq, hash }) if whole => {
                    self.problem("changed", path, number, format!("line {seq} is not as it was written"));
                    self.last = Some(Link { seq, hash });
                }
                _ => self.foreign(path, number, &line, whole),
            }
        }
        Ok(())
    }

    fn foreign(&mut self, path: &Path, number: usize, line: &[u8], whole: bool) {
        let pending = self.pending.get_or_insert_with(|| Pending::at(path, number));
        if pending.whole {
            pending.bytes.push(b'\n');
        }
        pending.bytes.extend_from_slice(line);
        pending.whole = whole;
    }

    fn entry(&mut self, path: &Path, number: usize, entry: &Entry) {
        let repair = (entry.kind == "repair").then(|| entry.body.get("reason")?.as_str()).flatten();
        self.settle(entry, repair);
        match (self.last, repair) {
            (Some(last), Some("truncated")) if last.seq < entry.seq => {
                let message = match entry.seq - 1 - last.seq {
                    0 => format!("the end of line {} was cut off", last.seq),
                    _ => format!(
                        "lines {} to {} were cut off before {}",
                        last.seq + 1,
                        entry.seq - 1,
                        entry.time
                    ),
                };
                self.problem("truncated", path, number, message);
            }
            (Some(last), _) if !entry.follows(last) => self.misplaced(path, number, entry, last),
            _ => self.verdict.lines += 1,
        }
        if repair == Some("headless") {
            let message =
                format!("the head was lost before {}: lines cut off then would not be noticed", entry.time);
            self.problem("headless", path, number, message);
        }
        if entry.kind == "rotation" {
            self.kept_from = entry.body.get("oldest").and_then(Value::as_u64).or(self.kept_from);
        }
        for (link, what) in
            [(self.head.map(|head| head.link), "the head"), (self.known, "the head kept elsewhere")]
        {
            if link.is_some_and(|link| link.seq == entry.seq && link.hash != entry.hash) {
                let message = format!(
                    "line {} is not the one that {what} tells of: the chain was made anew",
                    entry.seq
                );
                self.problem("rechained", path, number, message);
            }
        }
        self.last = Some(entry.link());
    }

    fn misplaced(&mut self, path: &Path, number: usize, entry: &Entry, last: Link) {
        let next = last.seq.saturating_add(1);
        if entry.seq > next {
            let missing = entry.seq - 1;
            let lines = if missing == next {
                format!("line {next} is")
            } else {
                format!("lines {next} to {missing} are")
            };
            self.problem("removed", path, number, format!("{lines} missing before line {}", entry.seq));
        } else if entry.seq < next {
            let message = format!("line {} stands after line {}", entry.seq, last.seq);
            self.problem("order", path, number, message);
        } else {
            let message = format!("line {} does not follow from the line before it", entry.seq);
            self.problem("rechained", path, number, message);
        }
    }

    /// Says what bytes before a line are: half a line that a writer marked, or something else.
    fn settle(&mut self, entry: &Entry, repair: Option<&str>) {
        let Some(Pending { path, number, bytes, .. }) = self.pending.take() else { return };
        let told = entry.body.get("sha256").and_then(Value::as_str).and_then(unhex);
        let fits = told == Some(Sha256::digest(&bytes).into());
        match repair {
            Some("torn") if fits => {
                let message = format!("half a line of {} bytes: a writer was interrupted", bytes.len());
                self.note("torn", &path, number, message);
            }
            // Its own line reports what was cut off.
            Some("truncated") => {}
            _ => {
                let message = format!("{} bytes that no writer of this log has written", bytes.len());
                self.problem("foreign", &path, number, message);
            }
        }
    }

    fn end(mut self, files: &Files) -> Verdict {
        let current = files.current();
        let reached = self.last.filter(|last| last.seq > 0);
        if let Some(Pending { path, number, bytes, whole }) = self.pending.take() {
            let expected = self.head.is_some_and(|head| reached.map_or(0, |end| end.seq) >= head.link.seq);
            if expected && !whole && !bytes.contains(&b'\n') {
                let message = format!(
                    "half a line of {} bytes: a writer was interrupted, the next goes on",
                    bytes.len()
                );
                self.note("torn", &path, number, message);
            } else {
                let message = format!("{} bytes that no writer of this log has written", bytes.len());
                self.problem("foreign", &path, number, message);
            }
        }
        match self.head {
            None => {
                let message = "there is no head: lines cut off at the end would not be noticed".to_owned();
                self.problem("headless", &files.head(), 0, message);
            }
            Some(head) => self.check_end(&current, reached, head.link, "the head"),
        }
        if let Some(known) = self.known {
            self.check_end(&current, reached, known, "the head kept elsewhere");
        }
        if let Some(first) = self.begins_at
            && self.kept_from.is_none_or(|kept| first > kept)
        {
            let message =
                format!("the files before number {first} are missing, and the log did not drop them");
            self.problem("removed", &files.full(first), 0, message);
        }
        self.verdict.end = reached;
        self.verdict
    }

    fn check_end(&mut self, current: &Path, reached: Option<Link>, wanted: Link, what: &str) {
        let end = reached.map_or(0, |end| end.seq);
        if end < wanted.seq {
            let lines = if end + 1 == wanted.seq {
                format!("line {end}", end = wanted.seq)
            } else {
                format!("lines {} to {}", end + 1, wanted.seq)
            };
            self.problem(
                "truncated",
                current,
                0,
                format!("{lines} cut off at the end: {what} tells of them"),
            );
        } else if end > wanted.seq && what == "the head" {
            let message = format!("{} lines behind the head: a writer was interrupted", end - wanted.seq);
            self.note("ahead", current, 0, message);
        }
    }

    fn problem(&mut self, code: &'static str, file: &Path, line: usize, message: String) {
        self.verdict.problems.push(Finding { code, file: file.to_path_buf(), line, message });
    }

    fn note(&mut self, code: &'static str, file: &Path, line: usize, message: String) {
        self.verdict.notes.push(Finding { code, file: file.to_path_buf(), line, message });
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.seq, Hex(&self.hash))
    }
}

impl std::str::FromStr for Link {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "a head is a number, a colon and 64 hexadecimal digits";
        let (seq, hash) = text.split_once(':').ok_or(FORM)?;
        Ok(Self { seq: seq.parse().map_err(|_| FORM)?, hash: unhex(hash).ok_or(FORM)? })
    }
}
