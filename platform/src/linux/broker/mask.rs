//! Which permissions callers keep back from what they make.
//!
//! Answers for remembering masks, since asking the kernel for one takes longer than making a file. It leaves taking
//! them on to [`super::perform`].
//! Invariant: a mask is remembered only while no thread of the same process may be about to change it to another.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::caller::Caller;
use crate::linux::sys::errno;

/// Masks remembered at once, and threads about to change theirs.
const MOST: usize = 64;
/// How long a mask is remembered: the numbers of threads do not come around in less.
const FRESH: Duration = Duration::from_secs(1);
/// What a mask can keep back.
const PERMISSIONS: u64 = 0o777;

/// Masks of callers, as far as they are sure.
#[derive(Debug, Default)]
pub(super) struct Masks {
    known: Vec<Known>,
    /// Threads that were let go to change their mask and have not been heard of since.
    changing: Vec<Changing>,
}

#[derive(Debug)]
struct Known {
    thread: u32,
    mask: u32,
    since: Instant,
}

#[derive(Debug)]
struct Changing {
    thread: u32,
    process: String,
    mask: u32,
}

impl Masks {
    /// A caller is heard of: what it was let go for is done.
    pub(super) fn heard_of(&mut self, caller: &Caller) {
        if !self.changing.is_empty() {
            self.changing.retain(|changing| changing.thread != caller.thread());
        }
    }

    /// The caller is about to be let go, to change the mask of its process to this one.
    pub(super) fn let_change(&mut self, caller: &Caller, mask: u64, proc: BorrowedFd<'_>) -> io::Result<()> {
        self.known.clear();
        if self.changing.len() >= MOST {
            self.changing.retain(|one| Caller::of(one.thread).status(proc, ["Tgid"]).is_ok());
        }
        let [process] = caller.status(proc, ["Tgid"])?;
        let mask = u32::try_from(mask & PERMISSIONS).unwrap_or(0);
        self.changing.push(Changing { thread: caller.thread(), process, mask });
        Ok(())
    }

    /// The caller's mask.
    pub(super) fn of(&mut self, caller: &Caller, proc: BorrowedFd<'_>) -> io::Result<u32> {
        let (thread, now) = (caller.thread(), Instant::now());
        if let Some(at) = self.known.iter().position(|known| known.thread == thread) {
            if now.duration_since(self.known[at].since) < FRESH {
                return Ok(self.known[at].mask);
            }
            self.known.swap_remove(at);
        }
        let [mask, process] = caller.status(proc, ["Umask", "Tgid"])?;
        let mask = u32::from_str_radix(&mask, 8).map_err(|_| errno(libc::EIO))?;
        if self.is_sure(&process, mask) {
            if self.known.len() == MOST {
                self.known.remove(0);
            }
            self.known.push(Known { thread, mask, since: now });
        }
        Ok(mask)
    }

    /// Whether a mask that was just looked at stays until somebody else asks to change it. A thread that has not been
    /// heard of may have changed it or not: where it is alone, and what it wants is what there is, that is the same.
    fn is_sure(&self, process: &str, mask: u32) -> bool {
        let mut about_to = self.changing.iter().filter(|changing| changing.process == process);
        match (about_to.next(), about_to.next()) {
            (None, _) => true,
            (Some(alone), None) => alone.mask == mask,
            (Some(_), Some(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about_to(changes: &[(u32, &str, u32)]) -> Masks {
        let changing = |(thread, process, mask): &(u32, &str, u32)| Changing {
            thread: *thread,
            process: (*process).to_owned(),
            mask: *mask,
        };
        Masks { changing: changes.iter().map(changing).collect(), ..Masks::default() }
    }

    #[test]
    fn a_mask_is_sure_when_it_is_what_the_only_one_who_changes_it_wants() {
        assert!(about_to(&[]).is_sure("7", 0o22));
        assert!(about_to(&[(9, "8", 0o77)]).is_sure("7", 0o22), "another process");
        assert!(about_to(&[(9, "7", 0o22)]).is_sure("7", 0o22));
        assert!(!about_to(&[(9, "7", 0o77)]).is_sure("7", 0o22), "not changed yet");
        assert!(!about_to(&[(9, "7", 0o22), (10, "7", 0o22)]).is_sure("7", 0o22), "two of them");
    }

    #[test]
    fn whoever_is_heard_of_has_changed_it() {
        let mut masks = about_to(&[(9, "7", 0o77), (10, "7", 0o22)]);
        masks.heard_of(&Caller::of(9));
        assert!(masks.is_sure("7", 0o22) && !masks.is_sure("7", 0o77));
    }
}
