//! The log as a process that writes more than once leaves it: open, and for a moment still in its turn.
//!
//! Answers for when a turn ends. It leaves what is written to [`super::log`], and the lock to [`super::turn`].
//! Invariant: a turn that is left open is ended by this process, by [`LOOK`] after it began or soon after, and at once
//! when somebody else was waiting as it began; no more than [`MOST_OWED`] is written in one.
//!
//! To take a turn, to see that the files are the same, to write the head and to give the turn back takes longer than all
//! else that recording an event does. Where one event follows the other, one turn serves several. A turn is not ended by
//! a deadline of whoever waits for the next event: to set a clock for so short a time takes as long again.

use super::head::Head;
use super::rotate::Files;
use super::turn::{Turn, id};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Events that follow one another within this time are written in one turn.
const SOON: Duration = Duration::from_millis(2);
/// How often it is looked for a turn that was left open, while there are any.
const LOOK: Duration = Duration::from_millis(2);
/// A turn is not left open any more after this time, though nobody came to look.
const LATE: Duration = Duration::from_millis(4);
/// Bytes that the head does not tell of yet, at most.
const MOST_OWED: u64 = 1 << 20;

/// The log as this process left it: open, and with the head it wrote or owes.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) turn: Turn,
    pub(super) file: Opened,
    pub(super) head: Head,
    /// Set while the head is still to be written, in the turn that goes on until then.
    owes: Option<Owed>,
}

/// A turn that goes on.
#[derive(Clone, Copy, Debug)]
struct Owed {
    since: Instant,
    /// Where the head that was written last says that the log ends.
    size: u64,
    /// Whether the turn may be left open; not known before it is asked.
    open: Option<bool>,
}

/// The file that is written to, and what was seen when it was opened under the lock.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    /// The device and number of the file.
    id: (u64, u64),
    pub(super) size: u64,
}

impl Opened {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let meta = file.metadata()?;
        if meta.is_file() {
            Ok(Self { file, id: id(&meta), size: meta.len() })
        } else {
            Err(io::Error::other("it is not a plain file"))
        }
    }
}

impl Kept {
    /// A log whose head is written, and nobody's turn.
    pub(super) const fn settled(turn: Turn, file: Opened, head: Head) -> Self {
        Self { turn, file, head, owes: None }
    }

    /// Writes the head if it is owed, and gives others their turn.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        if self.owes.is_none() {
            return Ok(());
        }
        self.turn.write_head(self.head)?;
        self.owes = None;
        self.turn.release()
    }

    /// Where the log goes on: in the turn that was left open, or in another. None when it must be looked at, because it
    /// is full, or somebody else rotated, repaired or replaced something.
    pub(super) fn go_on(&mut self, files: &Files, most: u64) -> io::Result<Option<Head>> {
        if self.owes.is_some() && self.head.size < most {
            return Ok(Some(self.head));
        }
        self.settle()?;
        if self.turn.again(files)? { self.position(files, most) } else { Ok(None) }
    }

    /// Remembers the head that is to tell of what was written behind `size`.
    pub(super) fn owe(&mut self, head: Head, size: u64) {
        self.head = head;
        self.owes.get_or_insert_with(|| Owed { since: Instant::now(), size, open: None });
    }

    /// Where the log goes on, when it is as this process or another left it; none when it must be looked at.
    fn position(&self, files: &Files, most: u64) -> io::Result<Option<Head>> {
        // What stands there under that name is either the open file, or not what is to be written to.
        let there = std::fs::metadata(files.current()).ok().filter(|there| id(there) == self.file.id);
        let Some(size) = there.map(|there| there.len()) else { return Ok(None) };
        // Where nobody has added anything since, the end is the one that this process knows.
        let head = if size == self.head.size { Some(self.head) } else { self.turn.read()? };
        Ok(head.filter(|head| head.size == size && head.file == self.head.file && size < most))
    }

    /// Whether the turn is to go on because another event is likely to follow soon and nobody waits.
    fn stays(&mut self, likely: bool) -> bool {
        let Some(owed) = &mut self.owes else { return false };
        let turn = &self.turn;
        likely
            && self.head.size - owed.size < MOST_OWED
            && owed.since.elapsed() < LATE
            && *owed.open.get_or_insert_with(|| !turn.is_awaited())
    }
}

/// What a process keeps of the log, shared with the thread that ends turns.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(super) struct State {
    /// What is left open.
    pub(super) last: Option<Kept>,
    /// When an event was last recorded before what it tells of happened.
    recorded: Option<Instant>,
    /// Whether that was soon after another.
    brisk: bool,
    /// Who ends turns that are left open; none before the first of them.
    closer: Option<Thread>,
    /// Whether it waits to be woken.
    asleep: bool,
    /// Whether there is nothing more to wait for.
    over: bool,
    /// Why a turn could not be ended, until somebody asks.
    failure: Option<io::Error>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.0)
    }

    /// Ends the turn, unless another event is likely to follow soon and nobody waits: then it is ended soon.
    pub(super) fn end_turn(&self) -> io::Result<()> {
        let mut state = self.lock();
        let brisk = state.brisk;
        if state.last.as_mut().is_some_and(|last| last.stays(brisk)) && self.is_watched(&mut state) {
            return state.failure.take().map_or(Ok(()), Err);
        }
        state.settle()
    }

    /// Sees to it that somebody ends the turn; whether somebody will.
    fn is_watched(&self, state: &mut State) -> bool {
        if state.closer.is_none() {
            let shared = Arc::downgrade(&self.0);
            let begun = thread::Builder::new().name("audit".to_owned()).spawn(move || end_turns(&shared));
            state.closer = begun.ok().map(|begun| begun.thread().clone());
        } else if std::mem::take(&mut state.asleep)
            && let Some(closer) = &state.closer
        {
            closer.unpark();
        }
        state.closer.is_some()
    }

    /// Ends the turn and whatever waits for one.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        let _ = state.settle();
        state.over = true;
        if let Some(closer) = &state.closer {
            closer.unpark();
        }
    }
}

impl State {
    /// Remembers that an event was recorded before what it tells of.
    pub(super) fn note_first(&mut self) {
        let now = Instant::now();
        let last = self.recorded.replace(now);
        self.brisk = last.is_some_and(|last| now.duration_since(last) < SOON);
    }

    /// Writes the head if it is owed, and gives others their turn.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        let settled = self.last.as_mut().map_or(Ok(()), Kept::settle);
        if settled.is_err() {
            // The lines stand; whoever writes next takes them over, and nobody waits for this process.
            self.last = None;
        }
        settled
    }
}

/// Ends turns that are left open, and sleeps when there are none any more.
fn end_turns(shared: &Weak<Mutex<State>>) {
    let mut seen = None;
    loop {
        thread::sleep(LOOK);
        let Some(shared) = shared.upgrade() else { return };
        let mut state = locked(&shared);
        if state.over {
            return;
        }
        if let Err(error) = state.settle() {
            state.failure.get_or_insert(error);
        }
        state.asleep = state.recorded == seen;
        seen = state.recorded;
        let asleep = state.asleep;
        drop(state);
        drop(shared);
        if asleep {
            thread::park();
        }
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
