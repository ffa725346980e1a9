//! The log on disk: lines are appended by many writers at once, and none is lost unnoticed.
//!
//! Answers for one event reaching the file whole, in order and sealed; or for saying that it did not. It leaves
//! what a crash left behind to [`super::recover`] and old files to [`super::rotate`].
//! Invariant: a line is written before the head that tells of it, both under one lock.

use super::chain::{Content, Link, seal};
use super::head::Head;
use super::recover::{Position, recover};
use super::rotate::Files;
use super::{Event, Sink, format_time, redact};
use crate::manifest::{AuditSettings, OnFailure};
use serde_json::{Map, Value};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// How long a writer waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest pause between two looks at the lock.
const PAUSE: Duration = Duration::from_millis(4);

/// The log of one user, and the session that is writing to it.
#[derive(Debug)]
pub struct Log {
    files: Files,
    session: String,
    settings: AuditSettings,
    /// The first failure that was let pass because the configuration says so.
    failure: Mutex<Option<String>>,
}

impl Log {
    /// The log below a state directory. Nothing is touched before the first event.
    #[must_use]
    pub fn new(state_dir: &Path, session: impl Into<String>, settings: AuditSettings) -> Self {
        Self { files: Files::in_dir(state_dir), session: session.into(), settings, failure: Mutex::new(None) }
    }

    /// The file that is written to.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.files.current()
    }

    /// The session that events are recorded under.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The first failure that was let pass because the configuration says `on_failure: open`.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().ok().and_then(|failure| failure.clone())
    }

    fn append(&self, events: &[Event]) -> io::Result<()> {
        let turn = Turn::take(&self.files)?;
        let mut file = open_log(&self.files.current())?;
        let mut position = recover(&self.files, turn.head(&self.files)?, &file)?;
        if position.head.size >= self.settings.max_size && position.repair.is_none() {
            // A log that cannot be rotated is still a log.
            if let Ok(next) = self.files.rotate(&position.head, &file) {
                file = open_log(&self.files.current())?;
                position = next;
            }
        }
        let dropped = if position.begins { self.files.to_drop(self.settings.keep) } else { Vec::new() };
        let (text, link) = self.lines(events, &position, dropped.last().copied());
        let before = position.head.size;
        let size = before + text.len() as u64;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| turn.write_head(Head { size, link, ..position.head }));
        if let Err(error) = written {
            // Half a line is no line; where it cannot be taken back, the next writer marks it.
            let _ = file.set_len(before);
            return Err(error);
        }
        self.files.remove(&dropped);
        Ok(())
    }

    /// What is to be written: what was found broken, that a new file begins, and the events.
    fn lines(&self, events: &[Event], position: &Position, dropped: Option<u64>) -> (String, Link) {
        let time = format_time(SystemTime::now());
        let mut text = String::with_capacity(1024);
        let mut link = position.head.link;
        let mut add = |agent: &str, kind: &str, body: &Map<String, Value>| {
            let (line, next) = seal(Content { time: &time, session: &self.session, agent, kind, body }, link);
            text.push_str(&line);
            link = next;
        };
        if let Some(repair) = &position.repair {
            add("", "repair", repair);
        }
        if position.begins {
            add("", "rotation", &self.files.rotation(position.head.file, dropped));
        }
        for event in events {
            add(&event.agent, event.kind, &event.body);
        }
        let text = if position.cut { format!("\n{text}") } else { text };
        (text, link)
    }
}

impl Sink for Log {
    fn record(&self, event: Event) -> io::Result<()> {
        self.record_all(vec![event])
    }

    /// All under one turn: what they cost together is little more than what one does.
    fn record_all(&self, events: Vec<Event>) -> io::Result<()> {
        let events: Vec<Event> = events.into_iter().map(redact).collect();
        let written = self.append(&events);
        match (written, self.settings.on_failure) {
            (Err(error), OnFailure::Open) => {
                if let Ok(mut failure) = self.failure.lock() {
                    failure.get_or_insert_with(|| self.explained(&error).to_string());
                }
                Ok(())
            }
            (Err(error), OnFailure::Closed) => Err(self.explained(&error)),
            (Ok(()), OnFailure::Open | OnFailure::Closed) => Ok(()),
        }
    }
}

impl Log {
    fn explained(&self, error: &io::Error) -> io::Error {
        let message = format!("cannot write to the audit log {}: {error}", self.path().display());
        io::Error::new(error.kind(), message)
    }
}

/// A name for a session that nobody named.
#[must_use]
pub fn new_session() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

fn open_log(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a plain file")) }
}

/// One writer's turn: the head, locked until dropped.
#[derive(Debug)]
pub(super) struct Turn(File);

impl Turn {
    /// Waits for the turn, but not for ever.
    pub(super) fn take(files: &Files) -> io::Result<Self> {
        let path = files.head();
        let open =
            || OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let begun = Instant::now();
        loop {
            let head = match open() {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    DirBuilder::new().recursive(true).mode(0o700).create(files.dir())?;
                    open()?
                }
                other => other?,
            };
            wait(begun, || head.try_lock())?;
            // Whoever removed the file meanwhile left us with a lock that holds nobody up.
            let (own, there) = (head.metadata()?, std::fs::metadata(&path));
            if there.is_ok_and(|there| there.ino() == own.ino() && there.dev() == own.dev()) {
                return Ok(Self(head));
            }
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::new(ErrorKind::TimedOut, "its head is replaced again and again"));
            }
        }
    }

    /// The head as it was left; none when there should be one and it cannot be read.
    fn head(&self, files: &Files) -> io::Result<Option<Head>> {
        let head = read_head(&self.0)?;
        if head.is_none() && self.0.metadata()?.len() == 0 && files.is_new()? {
            // Written first, so that a crash after the first line is not taken for a lost head.
            self.write_head(Head::START)?;
            return Ok(Some(Head::START));
        }
        Ok(head)
    }

    fn write_head(&self, head: Head) -> io::Result<()> {
        self.0.write_all_at(&head.to_bytes(), 0)
    }
}

/// The head in an open file; none when it is not one.
pub(super) fn read_head(file: &File) -> io::Result<Option<Head>> {
    let mut bytes = [0; 512];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(Head::read(&bytes[..read]))
}

/// Tries for a lock until it is had or patience ends.
pub(super) fn wait(begun: Instant, lock: impl Fn() -> Result<(), TryLockError>) -> io::Result<()> {
    let mut pause = Duration::from_micros(50);
    loop {
        match lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() > PATIENCE => {
                let message = format!("another writer has held it for {} seconds", PATIENCE.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, message));
            }
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE);
            }
        }
    }
}
