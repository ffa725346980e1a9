//! Which permissions callers keep back from what they make.
//!
//! Answers for remembering masks, since asking the kernel for one takes longer than making a file. It leaves taking
//! them on to [`super::perform`].
//! Invariant: a mask is remembered only while nobody may be about to change it to another.

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
    mask: u32,
}

impl Masks {
    /// A caller is heard of: what it was let go for is done.
    pub(super) fn heard_of(&mut self, caller: &Caller) {
        if !self.changing.is_empty() {
            self.changing.retain(|changing| changing.thread != caller.thread());
        }
    }

    /// The caller is about to be let go, to change its mask to this one.
    pub(super) fn let_change(&mut self, caller: &Caller, mask: u64, proc: BorrowedFd<'_>) {
        self.known.clear();
        if self.changing.len() >= MOST {
            self.changing.retain(|one| mask_of(&Caller::of(one.thread), proc).is_ok());
        }
        let mask = u32::try_from(mask & PERMISSIONS).unwrap_or(0);
        self.changing.push(Changing { thread: caller.thread(), mask });
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
        // Looked at before the caller's own: whose mask it is too is not to be seen.
        let sure = self.are_done(|thread| mask_of(&Caller::of(thread), proc).ok());
        let mask = mask_of(caller, proc)?;
        if sure {
            if self.known.len() == MOST {
                self.known.remove(0);
            }
            self.known.push(Known { thread, mask, since: now });
        }
        Ok(mask)
    }

    /// Whether everybody who was let go has the mask it wanted, so that it changes nothing any more. Whoever is gone
    /// changes nothing either.
    fn are_done(&mut self, mask_of: impl Fn(u32) -> Option<u32>) -> bool {
        let mut done = true;
        self.changing.retain(|one| match mask_of(one.thread) {
            Some(mask) => {
                done &= mask == one.mask;
                true
            }
            None => false,
        });
        done
    }
}

fn mask_of(caller: &Caller, proc: BorrowedFd<'_>) -> io::Result<u32> {
    let mask = caller.status(proc, "Umask")?;
    u32::from_str_radix(&mask, 8).map_err(|_| errno(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about_to(changes: &[(u32, u32)]) -> Masks {
        let changing = |(thread, mask): &(u32, u32)| Changing { thread: *thread, mask: *mask };
        Masks { changing: changes.iter().map(changing).collect(), ..Masks::default() }
    }

    #[test]
    fn masks_are_sure_when_all_who_change_one_have_what_they_want() {
        assert!(about_to(&[]).are_done(|_| None));
        assert!(about_to(&[(9, 0o77), (8, 0o22)]).are_done(|thread| Some(if thread == 9 {
            0o77
        } else {
            0o22
        })));
        assert!(!about_to(&[(9, 0o77)]).are_done(|_| Some(0o22)), "not changed yet");
        assert!(!about_to(&[(9, 0o77), (8, 0o22)]).are_done(|_| Some(0o22)), "one of them not");
        let mut gone = about_to(&[(9, 0o77)]);
        assert!(gone.are_done(|_| None) && gone.changing.is_empty(), "nobody is left to change it");
    }

    #[test]
    fn whoever_is_heard_of_has_changed_it() {
        let mut masks = about_to(&[(9, 0o77), (8, 0o22)]);
        masks.heard_of(&Caller::of(9));
        assert!(masks.are_done(|_| Some(0o22)));
    }
}
