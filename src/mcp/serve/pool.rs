//! Workers for calls: as many as are busy, up to a bound, behind a queue that is bounded too.
//!
//! Invariant: whoever hands in more than the queue takes waits, so that a client that asks without end is not read.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The most calls that wait.
const WAITING: usize = 1024;
/// The most bytes of calls that wait.
const WAITING_BYTES: usize = 64 << 20;

type Work = Box<dyn FnOnce() + Send>;

/// Workers and what they are to do.
#[derive(Clone)]
pub(super) struct Pool(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    more: Condvar,
    fewer: Condvar,
    most: usize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(usize, Work)>,
    bytes: usize,
    workers: usize,
    idle: usize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("most", &self.0.most).finish_non_exhaustive()
    }
}

impl Pool {
    /// Workers, none of which is there before there is work.
    pub(super) fn new(most: usize) -> Self {
        let (more, fewer) = (Condvar::new(), Condvar::new());
        Self(Arc::new(Inner { state: Mutex::default(), more, fewer, most }))
    }

    /// Hands in work of so many bytes; waits while too much waits already. Work that no worker can be had for is
    /// done by whoever hands it in.
    pub(super) fn submit(&self, bytes: usize, work: Work) {
        let mut state = self.0.state();
        while state.queue.len() >= WAITING || (!state.queue.is_empty() && state.bytes + bytes > WAITING_BYTES)
        {
            state = self.0.fewer.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.queue.push_back((bytes, work));
        state.bytes += bytes;
        if state.idle < state.queue.len() && state.workers < self.0.most {
            state.workers += 1;
            let inner = Arc::clone(&self.0);
            let begun = std::thread::Builder::new().name("call".to_owned()).spawn(move || inner.work());
            if begun.is_err() {
                state.workers -= 1;
                let own = if state.workers == 0 { state.queue.pop_back() } else { None };
                if let Some((bytes, work)) = own {
                    state.bytes -= bytes;
                    drop(state);
                    return work();
                }
            }
        }
        drop(state);
        self.0.more.notify_one();
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        loop {
            let mut state = self.state();
            while state.queue.is_empty() {
                state.idle += 1;
                state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
            let Some((bytes, work)) = state.queue.pop_front() else { continue };
            state.bytes -= bytes;
            drop(state);
            self.fewer.notify_one();
            work();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn everything_is_done_once_by_a_bounded_number() {
        let pool = Pool::new(4);
        let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (tell, told) = channel();
        for number in 0..3000 {
            let (busy, most, tell) = (Arc::clone(&busy), Arc::clone(&most), tell.clone());
            pool.submit(
                100_000,
                Box::new(move || {
                    most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    busy.fetch_sub(1, Ordering::SeqCst);
                    tell.send(number).unwrap();
                }),
            );
        }
        drop(tell);
        let mut done: Vec<usize> = told.iter().take(3000).collect();
        done.sort_unstable();
        assert_eq!(done, (0..3000).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= 4);
    }
}
