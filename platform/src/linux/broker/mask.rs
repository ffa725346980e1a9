//! Which permissions callers keep back from what they make.
//!
//! Answers for remembering masks, since asking the kernel for one takes longer than making a file. It leaves taking
//! them on to [`super::perform`].
//! Invariant: a mask is remembered only while no thread of the same process may be about to change it.

use std::io;
use std::os::fd::BorrowedFd;

use super::caller::Caller;
use crate::linux::sys::errno;

/// Masks remembered at once, and threads about to change theirs.
const MOST: usize = 64;

/// Masks of callers, as far as they are sure.
#[derive(Debug, Default)]
pub(super) struct Masks {
    known: Vec<(u32, u32)>,
    /// Threads that were let go to change their mask and have not been heard of since, with their process.
    changing: Vec<(u32, String)>,
}

impl Masks {
    /// A caller is heard of: what it was let go for is done.
    pub(super) fn heard_of(&mut self, caller: &Caller) {
        if !self.changing.is_empty() {
            self.changing.retain(|(thread, _)| *thread != caller.thread());
        }
    }

    /// The caller is about to be let go, to change the mask of its process.
    pub(super) fn let_change(&mut self, caller: &Caller, proc: BorrowedFd<'_>) -> io::Result<()> {
        self.known.clear();
        if self.changing.len() >= MOST {
            self.changing.retain(|(thread, _)| Caller::of(*thread).status(proc, "Tgid").is_ok());
        }
        self.changing.push((caller.thread(), caller.status(proc, "Tgid")?));
        Ok(())
    }

    /// The caller's mask.
    pub(super) fn of(&mut self, caller: &Caller, proc: BorrowedFd<'_>) -> io::Result<u32> {
        let thread = caller.thread();
        if let Some((_, mask)) = self.known.iter().find(|(known, _)| *known == thread) {
            return Ok(*mask);
        }
        let text = caller.status(proc, "Umask")?;
        let mask = u32::from_str_radix(&text, 8).map_err(|_| errno(libc::EIO))?;
        if self.is_sure(caller, proc)? {
            if self.known.len() == MOST {
                self.known.remove(0);
            }
            self.known.push((thread, mask));
        }
        Ok(mask)
    }

    fn is_sure(&self, caller: &Caller, proc: BorrowedFd<'_>) -> io::Result<bool> {
        if self.changing.is_empty() {
            return Ok(true);
        }
        let own = caller.status(proc, "Tgid")?;
        Ok(self.changing.iter().all(|(_, process)| *process != own))
    }
}
