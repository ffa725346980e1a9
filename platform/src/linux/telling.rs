//! What is asked for, told to the supervisor.
//!
//! Answers for telling each thing once, and not too many of them. It decides nothing: what is told here is for
//! explaining and learning afterwards.
//! Invariant: a bounded number of messages, and none that waits when nobody listens all the time.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use crate::linux::message::Message;
use crate::linux::sys::socket;
use crate::report::{Act, Verb};

/// Things of a kind that are told of at most when someone listens all the time.
const MOST: usize = 1 << 16;
/// How many of a kind are told of at most when they are only read at the end: they must fit into the line.
const FEW: usize = 64;

/// Tells of acts.
#[derive(Debug)]
pub(crate) struct Telling<'k> {
    line: BorrowedFd<'k>,
    /// Whether everything is told, or refusals only.
    all: bool,
    told: HashSet<Act>,
    counts: HashMap<Verb, usize>,
}

impl<'k> Telling<'k> {
    pub(crate) fn new(line: BorrowedFd<'k>, all: bool) -> Self {
        Self { line, all, told: HashSet::new(), counts: HashMap::new() }
    }

    /// Whether everything is to be told.
    pub(crate) fn tells_all(&self) -> bool {
        self.all
    }

    /// Tells of an act, unless it was told before. That there was more than could be told is told too, of what
    /// somebody should look at afterwards.
    pub(crate) fn tell(&mut self, act: Act) {
        let count = self.counts.entry(act.verb).or_default();
        let most = if self.all { MOST } else { FEW };
        if *count > most || self.told.contains(&act) {
            return;
        }
        *count += 1;
        if *count <= most {
            let _ = socket::send(self.line, &Message::Asked(act.clone()).encode(), None);
            self.told.insert(act);
        } else if matches!(act.verb, Verb::Made | Verb::Obeyed) {
            let more = Act { path: PathBuf::new(), ..act };
            let _ = socket::send(self.line, &Message::Asked(more).encode(), None);
        }
    }
}
