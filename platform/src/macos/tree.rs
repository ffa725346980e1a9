//! The processes of a launch, found by looking: macOS has no namespace that would hold them together.
//!
//! Answers for finding children of children, what they use, and ending them. A process is known by its number
//! and its time of birth, so that a number used again is never hit.
//! Invariant: only processes that were seen to descend from the launch are signalled.

use std::collections::BTreeMap;

use libc::{c_int, pid_t};

use crate::macos::processes::{Birth, birth, children, footprint, members};

/// Rounds of looking and killing before giving up.
const ROUNDS: usize = 50;

/// Everything that was seen to descend from one process.
#[derive(Debug)]
pub(super) struct Tree {
    leader: pid_t,
    known: BTreeMap<pid_t, Birth>,
}

impl Tree {
    /// The tree below a process that was just started as the leader of its own session.
    pub(super) fn of(leader: pid_t) -> Self {
        let mut tree = Self { leader, known: BTreeMap::new() };
        tree.known.extend(birth(leader).map(|birth| (leader, birth)));
        tree
    }

    /// Forgets what is gone, before its number can stand for a stranger, and looks again.
    pub(super) fn look(&mut self) {
        self.forget();
        let mut pending: Vec<pid_t> = self.known.keys().copied().collect();
        for member in members(self.leader) {
            pending.push(member);
            self.known.extend(birth(member).map(|birth| (member, birth)));
        }
        while let Some(pid) = pending.pop() {
            for child in children(pid) {
                if !self.known.contains_key(&child) {
                    pending.push(child);
                }
                self.known.extend(birth(child).map(|birth| (child, birth)));
            }
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.known.retain(|pid, born| birth(*pid) == Some(*born));
    }

    /// The process that leads the session.
    pub(super) fn leader(&self) -> pid_t {
        self.leader
    }

    /// How many processes there are.
    pub(super) fn count(&self) -> u64 {
        self.known.len() as u64
    }

    /// Bytes of memory they use together.
    pub(super) fn memory(&self) -> u64 {
        self.known.keys().map(|pid| footprint(*pid)).fold(0, u64::saturating_add)
    }

    /// Passes a signal to the leader's group.
    pub(super) fn signal(&self, number: c_int) {
        // SAFETY: takes two integers; the group is that of a child that is not reaped yet.
        unsafe { libc::killpg(self.leader, number) };
    }

    /// Ends everything that can be found, until a look finds nothing.
    pub(super) fn kill(&mut self) {
        for _ in 0..ROUNDS {
            self.look();
            self.signal(libc::SIGKILL);
            for pid in self.known.keys().filter(|pid| **pid != self.leader) {
                // SAFETY: takes two integers; the process was seen to be of this launch a moment ago.
                unsafe { libc::kill(*pid, libc::SIGKILL) };
            }
            if self.known.keys().all(|pid| *pid == self.leader) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}
