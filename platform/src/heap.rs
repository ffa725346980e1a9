//! Memory for a program that mostly starts something else and waits.
//!
//! Answers for small pieces, which are most: a few sizes, a list of free pieces for each, nothing given back. It
//! leaves large pieces to `dlmalloc`. Slabs come from the kernel with all their pages: asking for each page when it is
//! first touched takes three times as long.
//! Invariant: a piece is on at most one list, and only while nobody uses it.
//!
//! A launch makes some thousand small pieces and frees nearly all at once; keeping them apart by size makes that
//! a handful of instructions each.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use dlmalloc::GlobalDlmalloc;

/// Pieces are multiples of this, and aligned to it.
const GRAIN: usize = 16;
/// The largest piece kept here.
const SMALL: usize = 512;
/// Taken from the kernel at once.
const SLAB: usize = 64 << 10;

/// The allocator.
pub struct Heap {
    taken: AtomicBool,
    lists: UnsafeCell<Lists>,
}

impl std::fmt::Debug for Heap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Heap")
    }
}

struct Lists {
    /// The first free piece of each size; each begins with the address of the next.
    free: [*mut u8; SMALL / GRAIN],
    /// What is left of the slab that is being cut up.
    rest: *mut u8,
    left: usize,
}

// SAFETY: `lists` is reached only between `take` and `give`, by one thread at a time.
unsafe impl Sync for Heap {}

impl Heap {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        let lists = Lists { free: [null_mut(); SMALL / GRAIN], rest: null_mut(), left: 0 };
        Self { taken: AtomicBool::new(false), lists: UnsafeCell::new(lists) }
    }

    /// Runs `act` while no other thread does.
    fn alone<T>(&self, act: impl FnOnce(&mut Lists) -> T) -> T {
        let mut tries = 0u32;
        while self.taken.swap(true, Ordering::Acquire) {
            tries += 1;
            if tries.is_multiple_of(64) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        // SAFETY: the flag was free and is ours, so this is the only reference.
        let lists = unsafe { &mut *self.lists.get() };
        let result = act(lists);
        self.taken.store(false, Ordering::Release);
        result
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

/// Which list a piece belongs to, if it is small.
const fn list_of(layout: Layout) -> Option<usize> {
    if layout.size() <= SMALL && layout.align() <= GRAIN {
        Some(layout.size().saturating_sub(1) / GRAIN)
    } else {
        None
    }
}

impl Lists {
    fn take(&mut self, list: usize) -> *mut u8 {
        let first = self.free[list];
        if first.is_null() {
            return self.cut((list + 1) * GRAIN);
        }
        // SAFETY: a piece on a list is at least as large as a pointer, aligned for one, and `give` wrote it.
        self.free[list] = unsafe { first.cast::<*mut u8>().read() };
        first
    }

    fn give(&mut self, list: usize, piece: *mut u8) {
        // SAFETY: whoever gives a piece uses it no longer, and it is large enough and aligned for a pointer.
        unsafe { piece.cast::<*mut u8>().write(self.free[list]) };
        self.free[list] = piece;
    }

    /// A new piece off the slab; what is left of a slab that is too short is lost.
    fn cut(&mut self, size: usize) -> *mut u8 {
        if self.left < size {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
            // SAFETY: a new mapping at an address of the kernel's choice, which touches nothing that exists.
            let rest = unsafe { libc::mmap(null_mut(), SLAB, rights, kind, -1, 0) };
            if rest == libc::MAP_FAILED {
                return null_mut();
            }
            (self.rest, self.left) = (rest.cast(), SLAB);
        }
        let piece = self.rest;
        // SAFETY: `size` bytes are left, so the end is still within the slab or one past it.
        self.rest = unsafe { piece.add(size) };
        self.left -= size;
        piece
    }
}

// SAFETY: small pieces come from slabs that are never given back, each piece to one user at a time, aligned to
// `GRAIN`; everything else is what dlmalloc promises. Which of the two a piece is follows from its layout alone.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match list_of(layout) {
            Some(list) => self.alone(|lists| lists.take(list)),
            // SAFETY: the caller's promise is passed on.
            None => unsafe { GlobalDlmalloc.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        match list_of(layout) {
            Some(list) => self.alone(|lists| lists.give(list, piece)),
            // SAFETY: it came from there, as its layout says.
            None => unsafe { GlobalDlmalloc.dealloc(piece, layout) },
        }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size is not 0 and does not overflow when rounded up.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (list_of(layout), list_of(wanted)) {
            (Some(old), Some(new)) if old == new => piece,
            // SAFETY: it came from there and stays there.
            (None, None) => unsafe { GlobalDlmalloc.realloc(piece, layout, size) },
            _ => {
                // SAFETY: the new layout is not empty.
                let moved = unsafe { self.alloc(wanted) };
                if !moved.is_null() {
                    // SAFETY: both are as long as the shorter of the two, and are different pieces.
                    unsafe { piece.copy_to_nonoverlapping(moved, layout.size().min(size)) };
                    // SAFETY: the piece came from here and is used no longer.
                    unsafe { self.dealloc(piece, layout) };
                }
                moved
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills, moves and frees pieces of many sizes, and looks whether any of them touched another.
    fn churn(heap: &Heap, seed: u64) {
        let mut state = seed | 1;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        };
        let mut held: Vec<(*mut u8, Layout, u8)> = Vec::new();
        let check = |(piece, layout, mark): &(*mut u8, Layout, u8)| {
            // SAFETY: the piece is held and all of it was written.
            let bytes = unsafe { std::slice::from_raw_parts(*piece, layout.size()) };
            assert!(bytes.iter().all(|byte| byte == mark));
        };
        for step in 0..20_000_usize {
            let mark = (step % 251) as u8;
            if held.len() > 100 || (!held.is_empty() && random(3) == 0) {
                let (piece, layout, old) = held.swap_remove(random(held.len()));
                check(&(piece, layout, old));
                if random(2) == 0 {
                    let size = 1 + random(1500);
                    // SAFETY: the piece is ours, the size is not 0.
                    let piece = unsafe { heap.realloc(piece, layout, size) };
                    let layout = Layout::from_size_align(size, layout.align()).unwrap();
                    // SAFETY: the piece is that long.
                    unsafe { piece.write_bytes(mark, size) };
                    held.push((piece, layout, mark));
                } else {
                    // SAFETY: the piece is ours and goes.
                    unsafe { heap.dealloc(piece, layout) };
                }
                continue;
            }
            let layout = Layout::from_size_align(1 + random(1200), 1 << random(7)).unwrap();
            // SAFETY: the layout is not empty.
            let piece = unsafe { heap.alloc(layout) };
            assert_eq!(piece.addr() % layout.align(), 0);
            // SAFETY: the piece is that long.
            unsafe { piece.write_bytes(mark, layout.size()) };
            held.push((piece, layout, mark));
        }
        for (piece, layout, mark) in held {
            check(&(piece, layout, mark));
            // SAFETY: the piece is ours and goes.
            unsafe { heap.dealloc(piece, layout) };
        }
    }

    #[test]
    fn pieces_never_overlap_whoever_asks_for_them() {
        let heap = Heap::new();
        std::thread::scope(|scope| {
            for seed in 1..5 {
                let heap = &heap;
                scope.spawn(move || churn(heap, seed * 0x9e37_79b9));
            }
        });
    }
}
