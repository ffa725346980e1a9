//! Keeps events beside what they tell of, so that no connection waits for a disk.
//!
//! Answers for the thread that hands events to the sink, several at a time. It leaves which events there are to the
//! report.
//! Invariant: an event that was taken is kept when [`Keeping::end`] returns, or [`Keeping::is_behind`] says that one was not.

use super::bounds;
use crate::audit::{Event, Sink};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Where events are handed over.
#[derive(Debug)]
pub(super) struct Keeping {
    sink: Arc<dyn Sink>,
    /// Set by the first event: most launches tell of nothing. None where events are kept in place.
    writer: OnceLock<Option<Writer>>,
    unkept: Arc<AtomicBool>,
}

/// The way to the thread that keeps events; nothing instead of an event ends it.
#[derive(Debug)]
struct Writer {
    events: SyncSender<Option<Box<Event>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Keeping {
    /// Events are kept by whoever tells of them.
    pub(super) fn in_place(sink: Arc<dyn Sink>) -> Self {
        Self { sink, writer: OnceLock::from(None), unkept: Arc::default() }
    }

    /// Events are kept by a thread of their own, which begins with the first.
    pub(super) fn apart(sink: Arc<dyn Sink>) -> Self {
        Self { sink, writer: OnceLock::new(), unkept: Arc::default() }
    }

    /// Takes an event.
    pub(super) fn keep(&self, mut event: Event) {
        self.sink.hear(&mut event);
        // Where no thread can be had, whoever tells waits for the disk.
        let begin = || Writer::begin(self.sink.clone(), self.unkept.clone()).ok();
        let kept = match self.writer.get_or_init(begin) {
            Some(writer) => writer.take(Some(Box::new(event))),
            None => self.sink.record(event).is_ok(),
        };
        if !kept {
            self.unkept.store(true, Ordering::Relaxed);
        }
    }

    /// Returns when all that was taken is kept.
    pub(super) fn end(&self) {
        // Where none was taken no thread is begun any more.
        if let Some(writer) = self.writer.get_or_init(|| None) {
            writer.take(None);
            writer.join();
        }
    }

    /// Whether an event could not be kept although it should have been.
    pub(super) fn is_behind(&self) -> bool {
        self.unkept.load(Ordering::Relaxed)
    }
}

impl Writer {
    fn begin(sink: Arc<dyn Sink>, unkept: Arc<AtomicBool>) -> io::Result<Self> {
        let (events, taken) = sync_channel(bounds::EVENTS_WAITING);
        let keep = move || {
            while let Some((events, more)) = crowd(&taken) {
                if sink.record_all(events).is_err() {
                    unkept.store(true, Ordering::Relaxed);
                }
                if !more {
                    return;
                }
            }
        };
        let thread = Builder::new().name("sbx-audit".to_owned()).spawn(keep)?;
        Ok(Self { events, thread: Mutex::new(Some(thread)) })
    }

    /// Hands an event over; whether it was taken. When the disk is slower than what happens, what happens waits.
    fn take(&self, event: Option<Box<Event>>) -> bool {
        let hurry = event.is_none();
        match self.events.try_send(event) {
            Ok(()) if hurry => self.hurry(),
            Ok(()) => {}
            Err(TrySendError::Disconnected(_)) => return false,
            Err(TrySendError::Full(event)) => {
                self.hurry();
                return self.events.send(event).is_ok();
            }
        }
        true
    }

    /// Ends the pause in which others are waited for.
    fn hurry(&self) {
        if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            thread.thread().unpark();
        }
    }

    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = thread.map(JoinHandle::join);
    }
}

/// The next events, and whether more are to come; nothing when there are none any more.
fn crowd(taken: &Receiver<Option<Box<Event>>>) -> Option<(Vec<Event>, bool)> {
    let mut events = vec![*taken.recv().ok()??];
    // Connections come in crowds. Until the pause is over nobody has to wake this thread.
    std::thread::park_timeout(bounds::EVENTS_TOGETHER);
    while events.len() < bounds::EVENTS_WAITING {
        match taken.try_recv() {
            Ok(Some(event)) => events.push(*event),
            Ok(None) => return Some((events, false)),
            Err(_) => break,
        }
    }
    Some((events, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Default)]
    struct Seen(Mutex<Vec<Event>>);

    impl Sink for Seen {
        fn record(&self, event: Event) -> io::Result<()> {
            self.0.lock().unwrap().push(event);
            Ok(())
        }
    }

    #[test]
    fn all_that_was_taken_is_kept_in_order_when_the_end_returns() {
        let sink = Arc::new(Seen::default());
        let keeping = Keeping::apart(sink.clone());
        let most = 3 * bounds::EVENTS_WAITING;
        (0..most).for_each(|number| keeping.keep(Event::new("name", "a", json!({ "number": number }))));
        keeping.end();
        let events = std::mem::take(&mut *sink.0.lock().unwrap());
        assert_eq!(events.len(), most);
        assert!(events.iter().enumerate().all(|(at, event)| event.body["number"] == json!(at)));
        assert!(!keeping.is_behind());
    }

    #[test]
    fn nothing_to_keep_takes_no_thread() {
        let keeping = Keeping::apart(Arc::new(Seen::default()));
        assert!(keeping.writer.get().is_none());
        keeping.end();
        assert!(keeping.writer.get().is_some_and(Option::is_none));
    }

    #[test]
    fn what_the_sink_refuses_is_noticed() {
        #[derive(Debug)]
        struct Full;
        impl Sink for Full {
            fn record(&self, _: Event) -> io::Result<()> {
                Err(io::ErrorKind::StorageFull.into())
            }
        }
        for keeping in [Keeping::apart(Arc::new(Full)), Keeping::in_place(Arc::new(Full))] {
            keeping.keep(Event::new("name", "a", json!({})));
            keeping.end();
            assert!(keeping.is_behind());
        }
    }
}
