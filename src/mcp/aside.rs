//! What is said beside the stream, on stderr.
//!
//! Answers for nobody waiting for a client that does not read it. It leaves what is said to others.
//! Invariant: saying something never waits; what waits to be written is bounded, and what is left out is counted.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How much waits to be written at most.
const MOST: usize = 256 << 10;

/// A way out that is written by a thread of its own, which is started when there is something to say.
#[derive(Clone)]
pub struct Aside(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// Where to, until the thread has it.
    to: Mutex<Option<Box<dyn Write + Send>>>,
}

impl std::fmt::Debug for Aside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Aside").field(&self.0.waiting).finish()
    }
}

#[derive(Debug, Default)]
struct Waiting {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Bytes for which there was no room since the last piece.
    left_out: usize,
    /// Whether a piece was taken and is not written yet.
    writing: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.left_out == 0 && !self.writing
    }

    /// What is to be written next.
    fn take(&mut self) -> Option<Vec<u8>> {
        let piece = self.pieces.pop_front().or_else(|| {
            let left_out = std::mem::take(&mut self.left_out);
            let note = || format!("sbx: {left_out} bytes were left out here, for nobody read them\n");
            (left_out > 0).then(|| note().into_bytes())
        })?;
        self.bytes = self.bytes.saturating_sub(piece.len());
        self.writing = true;
        Some(piece)
    }
}

impl Aside {
    /// What is said from now on is written to `to`.
    #[must_use]
    pub fn new(to: impl Write + Send + 'static) -> Self {
        let to: Box<dyn Write + Send> = Box::new(to);
        let waiting = Mutex::new(Waiting::default());
        Self(Arc::new(Shared { waiting, changed: Condvar::new(), to: Mutex::new(Some(to)) }))
    }

    /// Says something now or as soon as somebody reads it, or leaves it out.
    pub fn say(&self, piece: Vec<u8>) {
        let mut waiting = self.0.lock();
        // Once something was left out, all is until that is told: what is read stands in its order.
        if waiting.left_out > 0 || waiting.bytes + piece.len() > MOST {
            waiting.left_out += piece.len();
        } else {
            waiting.bytes += piece.len();
            waiting.pieces.push_back(piece);
        }
        drop(waiting);
        self.0.changed.notify_all();
        if let Some(to) = self.0.to.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let own = Arc::clone(&self.0);
            std::thread::spawn(move || own.write_on(to));
        }
    }

    /// Waits until all that was said is written, but no longer than `most`.
    pub fn finish(&self, most: Duration) {
        let waiting = self.0.lock();
        let _ = self.0.changed.wait_timeout_while(waiting, most, |waiting| !waiting.is_empty());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_on(&self, mut to: impl Write) {
        loop {
            let mut waiting = self.lock();
            let piece = loop {
                match waiting.take() {
                    Some(piece) => break piece,
                    None => waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(waiting);
            // Nobody is left to tell when it is closed.
            let _ = to.write_all(&piece).and_then(|()| to.flush());
            self.lock().writing = false;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Instant;

    #[test]
    fn nobody_waits_for_one_who_does_not_read_and_what_is_left_out_is_counted() {
        let (mut from, to) = std::io::pipe().unwrap();
        let aside = Aside::new(to);
        let begun = Instant::now();
        let piece = || [b"x".repeat(99), b"\n".to_vec()].concat();
        (0..20_000).for_each(|_| aside.say(piece()));
        aside.finish(Duration::from_millis(50));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let (mut text, mut part) = (Vec::new(), [0; 4096]);
        while !text.ends_with(b"nobody read them\n") {
            let length = from.read(&mut part).unwrap();
            text.extend_from_slice(&part[..length]);
        }
        aside.say(b"later\n".to_vec());
        aside.finish(Duration::from_secs(20));
        let mut later = [0; 6];
        from.read_exact(&mut later).unwrap();
        assert_eq!(&later, b"later\n");
        let text = String::from_utf8(text).unwrap();
        let (said, note) = text.trim_end().rsplit_once('\n').unwrap();
        let left_out: usize = note.split(' ').nth(1).unwrap().parse().unwrap();
        assert_eq!(said.len() + 1 + left_out, 2_000_000, "every byte is written or counted: {note}");
    }
}
