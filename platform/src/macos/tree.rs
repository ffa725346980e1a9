//! The processes of a launch, found by looking: macOS has no namespace that would hold them together.
//!
//! Answers for finding children of children, what they use, and ending them. A process is known by its number
//! and its time of birth, so that a number used again is never hit.
//! Invariant: only processes that were seen to descend from the launch are signalled.

use std::collections::BTreeMap;

use libc::{c_int, c_void, pid_t};

/// The most children of one process that are looked at.
const MOST: usize = 4096;
/// Rounds of looking and killing before giving up.
const ROUNDS: usize = 50;

/// When a process was born, to the microsecond.
type Birth = (u64, u64);

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

    /// Looks again, and forgets what is gone.
    pub(super) fn look(&mut self) {
        let mut pending: Vec<pid_t> = self.known.keys().copied().collect();
        pending.extend(listed(|buffer, size| {
            // SAFETY: `buffer` is writable for `size` bytes.
            unsafe { libc::proc_listpids(PROC_PGRP_ONLY, self.leader.unsigned_abs(), buffer, size) }
        }));
        while let Some(pid) = pending.pop() {
            for child in children(pid) {
                if !self.known.contains_key(&child) {
                    pending.push(child);
                }
                self.known.extend(birth(child).map(|birth| (child, birth)));
            }
        }
        self.known.retain(|pid, born| birth(*pid) == Some(*born));
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
        // SAFETY: takes two integers; the group is that of a child that is not waited for yet.
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

/// Asks for processes of one group only.
const PROC_PGRP_ONLY: u32 = 2;

fn children(pid: pid_t) -> Vec<pid_t> {
    listed(|buffer, size| {
        // SAFETY: `buffer` is writable for `size` bytes.
        unsafe { libc::proc_listchildpids(pid, buffer, size) }
    })
}

/// The numbers that a call writes into a buffer. Calls differ in whether they answer in bytes or in numbers, so
/// what was not written stays zero and is left out.
fn listed(call: impl Fn(*mut c_void, c_int) -> c_int) -> Vec<pid_t> {
    let mut pids: Vec<pid_t> = vec![0; MOST];
    let size = c_int::try_from(size_of_val(pids.as_slice())).unwrap_or(c_int::MAX);
    if call(pids.as_mut_ptr().cast(), size) <= 0 {
        return Vec::new();
    }
    pids.retain(|pid| *pid > 1);
    pids
}

/// When a process was born; none when it is gone or only waits to be reaped.
fn birth(pid: pid_t) -> Option<Birth> {
    // SAFETY: an all-zero `proc_bsdinfo` is a valid value of that plain C structure.
    let mut info: libc::proc_bsdinfo = unsafe { std::mem::zeroed() };
    let size = c_int::try_from(size_of_val(&info)).ok()?;
    // SAFETY: `info` is writable for `size` bytes.
    let read =
        unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, (&raw mut info).cast::<c_void>(), size) };
    let dead = info.pbi_status == libc::SZOMB;
    (read == size && !dead).then_some((info.pbi_start_tvsec, info.pbi_start_tvusec))
}

fn footprint(pid: pid_t) -> u64 {
    // SAFETY: an all-zero `rusage_info_v2` is a valid value of that plain C structure.
    let mut usage: libc::rusage_info_v2 = unsafe { std::mem::zeroed() };
    // SAFETY: the flavour names the structure that the pointer leads to.
    let read = unsafe { libc::proc_pid_rusage(pid, libc::RUSAGE_INFO_V2, (&raw mut usage).cast()) };
    if read == 0 { usage.ri_phys_footprint } else { 0 }
}
