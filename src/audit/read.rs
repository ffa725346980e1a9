//! Reading the log: filters, from any moment on, and waiting for more.
//!
//! Answers for handing entries to whoever shows or counts them. It leaves judging them to [`super::verify`]:
//! a line that is not as it was written is handed over as damaged, never hidden.

use super::chain::{Entry, Fault};
use super::rotate::Files;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Which entries are wanted; what is absent does not narrow.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Done under this agent's authority.
    pub agent: Option<String>,
    /// Of one of these kinds; none means any.
    pub kinds: Vec<String>,
    /// Of this session.
    pub session: Option<String>,
    /// Not before this moment, as text.
    pub since: Option<String>,
    /// Before this moment, as text.
    pub until: Option<String>,
    /// Only refusals.
    pub denied: bool,
}

impl Filter {
    /// Whether an entry is wanted.
    #[must_use]
    pub fn wants(&self, entry: &Entry) -> bool {
        self.agent.as_ref().is_none_or(|agent| entry.agent == *agent)
            && (self.kinds.is_empty() || self.kinds.contains(&entry.kind))
            && self.session.as_ref().is_none_or(|session| entry.session == *session)
            && self.since.as_ref().is_none_or(|since| entry.time >= *since)
            && self.until.as_ref().is_none_or(|until| entry.time < *until)
            && (!self.denied || entry.is_denial())
    }
}

/// Reads the whole log, oldest first; answers with how many lines were damaged.
///
/// # Errors
/// When a file cannot be read, or `each` fails.
pub fn entries(state_dir: &Path, each: &mut dyn FnMut(Entry) -> io::Result<()>) -> io::Result<u64> {
    let files = Files::in_dir(state_dir);
    let numbers = match files.numbers() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        other => other?,
    };
    let mut damaged = 0;
    for path in numbers.into_iter().map(|number| files.full(number)).chain([files.current()]) {
        match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => damaged += lines(&mut BufReader::with_capacity(1 << 16, other?), each)?.1,
        }
    }
    Ok(damaged)
}

/// Hands over every whole line; answers with the bytes they took and how many were damaged.
fn lines(reader: &mut dyn BufRead, each: &mut dyn FnMut(Entry) -> io::Result<()>) -> io::Result<(u64, u64)> {
    let (mut taken, mut damaged) = (0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if read == 0 || line.pop_if(|last| *last == b'\n').is_none() {
            return Ok((taken, damaged));
        }
        taken += read as u64;
        match Entry::read(&line) {
            Ok(entry) => each(entry)?,
            Err(Fault::Changed { .. } | Fault::Foreign) => damaged += 1,
        }
    }
}

/// Hands over what is written after a line, until `each` fails. Looks again every `pause`.
///
/// # Errors
/// When the log cannot be read, or what `each` answers.
pub fn follow(
    state_dir: &Path,
    pause: Duration,
    after: u64,
    each: &mut dyn FnMut(Entry) -> io::Result<()>,
) -> io::Result<()> {
    // By number and not by place: what is written while others are read is not lost.
    let each: &mut dyn FnMut(Entry) -> io::Result<()> =
        &mut |entry| if entry.seq > after { each(entry) } else { Ok(()) };
    let path = Files::in_dir(state_dir).current();
    let mut open: Option<File> = None;
    let mut at = 0;
    let mut waiting = true;
    loop {
        if open.is_none() {
            match File::open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => at = 0,
                other => open = Some(other?),
            }
        }
        if let Some(file) = &mut open {
            file.seek(SeekFrom::Start(at))?;
            at += lines(&mut BufReader::new(&*file), each)?.0;
            // A full file is read to its end once more before the new one is begun.
            let own = file.metadata()?.ino();
            let there = std::fs::metadata(&path).map(|meta| meta.ino());
            if there.map_or(true, |there| there != own) {
                if waiting {
                    waiting = false;
                    continue;
                }
                (open, at, waiting) = (None, 0, true);
                continue;
            }
        }
        std::thread::sleep(pause);
    }
}
