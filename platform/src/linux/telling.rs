//! What is asked for, told to the supervisor.
//!
//! Answers for telling each thing once, and not too many of them; to one who wants to know when it happened, each
//! time, and not too often. It decides nothing: what is told here is for explaining and learning.
//! Invariant: a bounded number or rate of messages, and none that waits when nobody listens all the time.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::linux::message::Message;
use crate::linux::sys::socket;
use crate::report::{Act, Verb};

/// Things of a kind that are told of at most when someone listens all the time.
const MOST: usize = 1 << 16;
/// How many of a kind are told of at most when they are only read at the end: they must fit into the line.
const FEW: usize = 64;

/// Refusals that are told within a [`SPELL`], when they are told each time.
const OFTEN: usize = 64;
/// The same where everything that fails is told: programs look for many files that do not exist.
const OFTEN_OF_ALL: usize = 4096;
const SPELL: Duration = Duration::from_secs(1);

/// Who listens, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Somebody reads of refusals at the end.
    Later,
    /// Somebody is told of each refusal when it happens.
    Now,
    /// Somebody is told of everything.
    All,
    /// Somebody is told of everything, and of what failed each time.
    AllNow,
}

/// Tells of acts.
#[derive(Debug)]
pub(crate) struct Telling<'k> {
    line: BorrowedFd<'k>,
    audience: Audience,
    told: HashSet<Act>,
    counts: HashMap<Verb, usize>,
    /// Since when refusals are counted, and how many there were.
    spell: (Instant, usize),
}

impl<'k> Telling<'k> {
    pub(crate) fn new(line: BorrowedFd<'k>, audience: Audience) -> Self {
        Self { line, audience, told: HashSet::new(), counts: HashMap::new(), spell: (Instant::now(), 0) }
    }

    /// Whether everything is to be told.
    pub(crate) fn tells_all(&self) -> bool {
        matches!(self.audience, Audience::All | Audience::AllNow)
    }

    /// How often an act is told in a [`SPELL`], if each time it happens.
    fn each_time(&self, act: &Act) -> Option<usize> {
        match self.audience {
            Audience::Now => act.is_refused().then_some(OFTEN),
            Audience::AllNow => (act.error != 0).then_some(OFTEN_OF_ALL),
            Audience::Later | Audience::All => None,
        }
    }

    /// Tells of an act, unless it was told before. That there was more than could be told is told too, of what
    /// somebody should look at afterwards.
    pub(crate) fn tell(&mut self, act: Act) {
        if let Some(often) = self.each_time(&act) {
            return self.tell_again(act, often);
        }
        let most = if self.tells_all() { MOST } else { FEW };
        let count = self.counts.entry(act.verb).or_default();
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

    /// Tells of an act whether or not it was told before, unless there were too many just now.
    fn tell_again(&mut self, act: Act, often: usize) {
        if self.spell.0.elapsed() >= SPELL {
            self.spell = (Instant::now(), 0);
        }
        self.spell.1 += 1;
        if self.spell.1 <= often {
            let _ = socket::send(self.line, &Message::Asked(act).encode(), None);
        }
    }
}
