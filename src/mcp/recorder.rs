//! The audit log off the path of calls: events are kept in order by a thread of their own.
//!
//! Answers for a call not waiting for the disk. It leaves writing to the log.
//! Invariant: once an event could not be kept, no further one is accepted; the queue is bounded.

use super::gate::Gate;
use crate::audit::{Event, Sink};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// Events that wait for the disk at most.
const QUEUE: usize = 256;

/// Hands events to a thread that keeps them.
#[derive(Debug)]
pub struct Recorder {
    queue: Mutex<Option<SyncSender<Event>>>,
    failure: Arc<Mutex<Option<String>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Recorder {
    /// Starts the thread that hands events on to `log`.
    #[must_use]
    pub fn start(log: Arc<dyn Sink>) -> Self {
        let (queue, events) = sync_channel::<Event>(QUEUE);
        let failure = Arc::new(Mutex::new(None));
        let told = Arc::clone(&failure);
        let thread = std::thread::spawn(move || {
            for event in events {
                if let Err(error) = log.record(event) {
                    told.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.to_string());
                }
            }
        });
        Self { queue: Mutex::new(Some(queue)), failure, thread: Mutex::new(Some(thread)) }
    }

    /// Waits until everything is kept; nothing is accepted afterwards.
    pub fn finish(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Sink for Recorder {
    fn record(&self, event: Event) -> io::Result<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(failure) = failure {
            return Err(io::Error::other(failure));
        }
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = queue.as_ref().map(|queue| queue.send(event));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(io::Error::other("the audit log is closed")),
        }
    }
}

/// Hands events on, and tells the gate of what was refused to its server.
#[derive(Debug)]
pub(super) struct Attaching {
    log: Arc<dyn Sink>,
    gate: OnceLock<Arc<Gate>>,
}

impl Attaching {
    pub(super) fn new(log: Arc<dyn Sink>) -> Self {
        Self { log, gate: OnceLock::new() }
    }

    /// From now on, what is refused belongs to the calls of this gate.
    pub(super) fn attach(&self, gate: Arc<Gate>) {
        let _ = self.gate.set(gate);
    }
}

impl Sink for Attaching {
    fn record(&self, mut event: Event) -> io::Result<()> {
        let denied = event.body.get("decision").is_some_and(|decision| decision == "deny");
        if let Some(gate) = self.gate.get().filter(|_| denied) {
            let mut refusal = event.body.clone();
            refusal.insert("kind".to_owned(), event.kind.into());
            let calls = gate.note_refusal(&refusal.into());
            event.body.insert("calls".to_owned(), calls.into());
        }
        self.log.record(event)
    }
}
