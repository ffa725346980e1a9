//! The log on disk: lines are appended by many writers at once, and none is lost unnoticed.
//!
//! Answers for one event reaching the file whole, in order and sealed; or for saying that it did not. It leaves
//! what a crash left behind to [`super::recover`] and old files to [`super::rotate`].
//! Invariant: a line is written before the head that tells of it, both in one turn.

use super::chain::{Body, Content, Link, seal};
use super::head::Head;
use super::kept::{Kept, Opened, Shared};
use super::recover::{Position, recover};
use super::rotate::Files;
use super::turn::Turn;
use super::{Brief, Event, Sink, format_time, redact};
use crate::manifest::{AuditSettings, OnFailure};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

/// The log of one user, and the session that is writing to it.
#[derive(Debug)]
pub struct Log {
    files: Files,
    session: String,
    settings: AuditSettings,
    /// Whether files stay open from one event to the next.
    stays_open: AtomicBool,
    /// What is left open.
    kept: Shared,
    /// How many lines were written.
    sealed: AtomicU64,
    /// The first failure that was let pass because the configuration says so.
    failure: Mutex<Option<String>>,
}

/// What is to be written.
#[derive(Clone, Copy, Debug)]
enum Told<'a> {
    /// Events without secrets.
    Events(&'a [Event]),
    /// One that has none.
    Brief(&'a Brief<'a>),
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
            kept: Shared::default(),
            sealed: AtomicU64::new(0),
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

    /// Writes events, all or none; where files stay open, the head may be owed to [`Sink::finish`].
    fn append(&self, told: Told<'_>, owing: bool) -> io::Result<()> {
        // One at a time within this process, too: all of it holds the same lock.
        let mut kept = self.kept.lock();
        if let Some(mut last) = kept.last.take()
            && let Some(head) = last.go_on(&self.files, self.settings.max_size)?
        {
            let now = self.write(told, &Position::at(head), &mut last.file.file, None)?;
            last.owe(now, head.size);
            if !owing {
                last.settle().inspect_err(|_| take_back(&last.file.file, head.size))?;
            }
            kept.last = Some(last);
        } else {
            let now = self.append_anew(told)?;
            kept.last = self.stays_open.load(Ordering::Relaxed).then_some(now);
        }
        if owing {
            kept.note_first();
        }
        Ok(())
    }

    fn append_anew(&self, told: Told<'_>) -> io::Result<Kept> {
        let turn = Turn::take(&self.files)?;
        let mut file = Opened::open(&self.files.current())?;
        let mut position = recover(&self.files, turn.head(&self.files)?, &file.file, file.size)?;
        if position.head.size >= self.settings.max_size && position.repair.is_none() {
            // A log that cannot be rotated is still a log.
            if let Ok(next) = self.files.rotate(&position.head, &file.file) {
                file = Opened::open(&self.files.current())?;
                position = next;
            }
        }
        let dropped = if position.begins { self.files.to_drop(self.settings.keep) } else { Vec::new() };
        let head = self.write(told, &position, &mut file.file, dropped.last().copied())?;
        turn.write_head(head).inspect_err(|_| take_back(&file.file, position.head.size))?;
        self.files.remove(&dropped);
        turn.release()?;
        Ok(Kept::settled(turn, file, head))
    }

    /// Writes lines; the head that is to tell of them.
    fn write(
        &self,
        told: Told<'_>,
        position: &Position,
        file: &mut File,
        dropped: Option<u64>,
    ) -> io::Result<Head> {
        let (text, link) = self.lines(told, position, dropped);
        let before = position.head.size;
        file.write_all(&text).inspect_err(|_| take_back(file, before))?;
        Ok(Head { size: before + text.len() as u64, link, ..position.head })
    }

    /// What is to be written: what was found broken, that a new file begins, and the events.
    fn lines(&self, told: Told<'_>, position: &Position, dropped: Option<u64>) -> (Vec<u8>, Link) {
        let time = format_time(SystemTime::now());
        let mut text = Vec::with_capacity(1024);
        let mut link = position.head.link;
        if position.cut {
            text.push(b'\n');
        }
        let mut sealed = self.sealed.load(Ordering::Relaxed);
        let mut add = |agent: &str, kind: &str, body: Body<'_>| {
            let content = Content { time: &time, session: &self.session, agent, kind, body };
            link = seal(&mut text, content, link, sealed);
            sealed += 1;
        };
        if let Some(repair) = &position.repair {
            add("", "repair", Body::Map(repair));
        }
        if position.begins {
            let body = self.files.rotation(position.head.file, dropped);
            add("", "rotation", Body::Map(&body));
        }
        match told {
            Told::Events(events) => {
                events.iter().for_each(|event| add(&event.agent, event.kind, Body::Map(&event.body)));
            }
            Told::Brief(brief) => add(brief.agent, brief.kind, Body::Brief(brief)),
        }
        self.sealed.store(sealed, Ordering::Relaxed);
        (text, link)
    }

    /// What comes of having tried to write, by the configuration.
    fn judged(&self, written: io::Result<()>) -> io::Result<()> {
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

    fn explained(&self, error: &io::Error) -> io::Error {
        let message = format!("cannot write to the audit log {}: {error}", self.path().display());
        io::Error::new(error.kind(), message)
    }
}

/// Half a line is no line; where it cannot be taken back, the next writer marks it.
fn take_back(file: &File, size: u64) {
    let _ = file.set_len(size);
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
        self.judged(self.append(Told::Events(&events), false))
    }

    fn record_first(&self, event: Brief<'_>) -> io::Result<()> {
        self.judged(if event.is_plain() {
            self.append(Told::Brief(&event), true)
        } else {
            self.append(Told::Events(&[redact(event.event())]), true)
        })
    }

    fn finish(&self) -> io::Result<()> {
        self.judged(self.kept.end_turn())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.kept.close();
    }
}

/// A name for a session that nobody named.
#[must_use]
pub fn new_session() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}
