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
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
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
    /// Whether files stay open from one event to the next.
    stays_open: AtomicBool,
    /// What is left open.
    kept: Mutex<Option<Kept>>,
    /// The first failure that was let pass because the configuration says so.
    failure: Mutex<Option<String>>,
}

/// The log as this process left it: open, and with the head it wrote.
#[derive(Debug)]
struct Kept {
    turn: Turn,
    file: Opened,
    head: Head,
}

/// The file that is written to, and what was seen when it was opened under the lock.
#[derive(Debug)]
struct Opened {
    file: File,
    /// The device and number of the file.
    id: (u64, u64),
    size: u64,
}

impl Log {
    /// The log below a state directory. Nothing is touched before the first event.
    #[must_use]
    pub fn new(state_dir: &Path, session: impl Into<String>, settings: AuditSettings) -> Self {
        Self {
            files: Files::in_dir(state_dir),
            session: session.into(),
            settings,
            stays_open: AtomicBool::new(false),
            kept: Mutex::new(None),
            failure: Mutex::new(None),
        }
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

    /// Writes events, all or none.
    fn append(&self, events: &[Event]) -> io::Result<()> {
        // One at a time within this process, too: all of it holds the same lock.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Where somebody else rotated, repaired or replaced something, all is looked at anew.
        if let Some(mut last) = kept.take()
            && last.turn.again(&self.files)?
            && let Some(head) = last.position(&self.files, self.settings.max_size)?
        {
            last.head = self.write(events, &Position::at(head), &last.turn, &mut last.file.file, None)?;
            last.turn.release()?;
            *kept = Some(last);
            return Ok(());
        }
        let now = self.append_anew(events)?;
        *kept = self.stays_open.load(Ordering::Relaxed).then_some(now);
        Ok(())
    }

    fn append_anew(&self, events: &[Event]) -> io::Result<Kept> {
        let turn = Turn::take(&self.files)?;
        let mut file = open_log(&self.files.current())?;
        let mut position = recover(&self.files, turn.head(&self.files)?, &file.file, file.size)?;
        if position.head.size >= self.settings.max_size && position.repair.is_none() {
            // A log that cannot be rotated is still a log.
            if let Ok(next) = self.files.rotate(&position.head, &file.file) {
                file = open_log(&self.files.current())?;
                position = next;
            }
        }
        let dropped = if position.begins { self.files.to_drop(self.settings.keep) } else { Vec::new() };
        let head = self.write(events, &position, &turn, &mut file.file, dropped.last().copied())?;
        self.files.remove(&dropped);
        turn.release()?;
        Ok(Kept { turn, file, head })
    }

    /// Writes lines and the head that tells of them.
    fn write(
        &self,
        events: &[Event],
        position: &Position,
        turn: &Turn,
        file: &mut File,
        dropped: Option<u64>,
    ) -> io::Result<Head> {
        let (text, link) = self.lines(events, position, dropped);
        let before = position.head.size;
        let head = Head { size: before + text.len() as u64, link, ..position.head };
        let written = file.write_all(text.as_bytes()).and_then(|()| turn.write_head(head));
        if let Err(error) = written {
            // Half a line is no line; where it cannot be taken back, the next writer marks it.
            let _ = file.set_len(before);
            return Err(error);
        }
        Ok(head)
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

impl Kept {
    /// Where the log goes on, when it is as this process or another left it; none when it must be looked at.
    fn position(&self, files: &Files, most: u64) -> io::Result<Option<Head>> {
        let Some(head) = self.turn.read_again(self.head)? else { return Ok(None) };
        // What stands there under that name is either the open file, or not what is to be written to.
        let there = std::fs::metadata(files.current());
        let same = there.is_ok_and(|there| id(&there) == self.file.id && there.len() == head.size);
        Ok((same && head.file == self.head.file && head.size < most).then_some(head))
    }
}

impl Sink for Log {
    fn record(&self, event: Event) -> io::Result<()> {
        self.record_all(vec![event])
    }

    fn stay_open(&self) {
        self.stays_open.store(true, Ordering::Relaxed);
    }

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

fn open_log(path: &Path) -> io::Result<Opened> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() {
        Ok(Opened { file, id: id(&meta), size: meta.len() })
    } else {
        Err(io::Error::other("it is not a plain file"))
    }
}

/// What tells one file from another.
fn id(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// One writer's turn: the head, locked until dropped or released.
#[derive(Debug)]
pub(super) struct Turn {
    file: File,
    /// The device and number of the file.
    id: (u64, u64),
}

impl Turn {
    /// Gives others their turn; the file stays open for the next.
    fn release(&self) -> io::Result<()> {
        self.file.unlock()
    }

    /// Waits for the next turn with the same file; false when another stands in its place.
    fn again(&self, files: &Files) -> io::Result<bool> {
        wait(Instant::now(), || self.file.try_lock())?;
        Ok(std::fs::metadata(files.head()).is_ok_and(|there| id(&there) == self.id))
    }

    /// The head as it is now, most often as it was left; none when it cannot be read.
    fn read_again(&self, last: Head) -> io::Result<Option<Head>> {
        let mut bytes = [0; 512];
        let read = self.file.read_at(&mut bytes, 0)?;
        if bytes[..read] == *last.to_bytes() {
            return Ok(Some(last));
        }
        Ok(Head::read(&bytes[..read]))
    }

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
            let own = id(&head.metadata()?);
            if std::fs::metadata(&path).is_ok_and(|there| id(&there) == own) {
                return Ok(Self { file: head, id: own });
            }
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::new(ErrorKind::TimedOut, "its head is replaced again and again"));
            }
        }
    }

    /// The head as it was left; none when there should be one and it cannot be read.
    fn head(&self, files: &Files) -> io::Result<Option<Head>> {
        let head = read_head(&self.file)?;
        if head.is_none() && self.file.metadata()?.len() == 0 && files.is_new()? {
            // Written first, so that a crash after the first line is not taken for a lost head.
            self.write_head(Head::START)?;
            return Ok(Some(Head::START));
        }
        Ok(head)
    }

    fn write_head(&self, head: Head) -> io::Result<()> {
        self.file.write_all_at(&head.to_bytes(), 0)
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
