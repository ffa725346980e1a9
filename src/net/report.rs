//! What happened at the gateway: events for the audit, and refusals to be told at the end.
//!
//! Answers for bounding both. It leaves keeping events to the sink.
//! Invariant: no event carries a body, a header's value or more of a target than its path.

use super::bounds;
use crate::audit::{Event, Rate, Sink};
use crate::capability::Target;
use crate::decide::Denial;
use serde_json::{Map, Value, json};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// Where the gateway tells what happens; shared by everything it serves.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    agent: Arc<str>,
    sink: Arc<dyn Sink>,
    kept: Arc<Mutex<Kept>>,
    /// To the thread that keeps events, so that no connection waits for a disk; none ends it.
    writer: Arc<OnceLock<Writer>>,
    unkept: Arc<AtomicBool>,
}

/// The way to the thread that keeps events.
#[derive(Debug)]
struct Writer {
    events: SyncSender<Option<Event>>,
    thread: Thread,
}

#[derive(Debug)]
struct Kept {
    refusals: Vec<Denial>,
    /// How many events are told.
    rate: Rate,
}

/// What became of a question for a name, with the answer in a word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    Allowed(&'static str),
    Denied(&'static str),
}

/// How something ended that took time and carried bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    /// Bytes from inside.
    pub(crate) sent: u64,
    /// Bytes from outside.
    pub(crate) received: u64,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Report {
    pub(crate) fn new(agent: &str, sink: Arc<dyn Sink>) -> Self {
        let rate = Rate::new(bounds::EVENTS_AT_ONCE, bounds::EVENTS_PER_SECOND);
        let kept = Kept { refusals: Vec::new(), rate };
        Self {
            agent: agent.into(),
            sink,
            kept: Arc::new(Mutex::new(kept)),
            writer: Arc::default(),
            unkept: Arc::default(),
        }
    }

    /// Starts the thread that keeps events; it ends when told by [`Report::end`].
    pub(crate) fn begin(&self) -> io::Result<JoinHandle<()>> {
        let (send, receive) = sync_channel::<Option<Event>>(bounds::EVENTS_WAITING);
        let (sink, unkept) = (self.sink.clone(), self.unkept.clone());
        let keep = move || {
            let mut more = true;
            while more {
                let Ok(Some(first)) = receive.recv() else { return };
                // Connections come in crowds. Until the pause is over nobody has to wake this thread.
                std::thread::park_timeout(bounds::EVENTS_TOGETHER);
                let mut events = vec![first];
                while more && events.len() < bounds::EVENTS_WAITING {
                    match receive.try_recv() {
                        Ok(Some(event)) => events.push(event),
                        Ok(None) => more = false,
                        Err(_) => break,
                    }
                }
                if sink.record_all(events).is_err() {
                    unkept.store(true, Ordering::Relaxed);
                }
            }
        };
        let thread = std::thread::Builder::new().name("sbx-audit".to_owned()).spawn(keep)?;
        let _ = self.writer.set(Writer { events: send, thread: thread.thread().clone() });
        Ok(thread)
    }

    /// Ends the thread that keeps events, once it has kept all.
    pub(crate) fn end(&self) {
        if let Some(writer) = self.writer.get() {
            let _ = writer.events.send(None);
            writer.thread.unpark();
        }
    }

    /// Whether an event could not be kept although it should have been: nothing new is begun then.
    pub(crate) fn is_unkept(&self) -> bool {
        self.unkept.load(Ordering::Relaxed)
    }

    /// A name was asked for.
    pub(crate) fn name(&self, name: &str, decision: Asked, took: Duration) {
        let (decision, answer) = match decision {
            Asked::Allowed(answer) => ("allow", answer),
            Asked::Denied(answer) => ("deny", answer),
        };
        let mut body = json!({ "decision": decision, "name": name, "answer": answer });
        body["duration_ms"] = milliseconds(took);
        self.tell("name", body);
    }

    /// A connection or request was refused.
    pub(crate) fn refused(&self, kind: &'static str, denial: &Denial) {
        {
            let mut kept = self.kept();
            let seen = kept.refusals.iter().any(|seen| seen.message == denial.message);
            if !seen && kept.refusals.len() < bounds::REFUSALS {
                kept.refusals.push(denial.clone());
            }
        }
        self.tell(kind, json!({ "decision": "deny", "denial": denial.to_json() }));
    }

    /// A connection or request was refused for how it was made, whatever is granted.
    pub(crate) fn malformed(&self, kind: &'static str, target: Option<&Target>, why: &str) {
        let target = target.map(ToString::to_string);
        self.tell(kind, json!({ "decision": "deny", "target": target, "malformed": why }));
    }

    /// A connection ended.
    pub(crate) fn connection(&self, target: &Target, how: &str, passed: Passed, end: &str) {
        let mut body = json!({ "decision": "allow", "target": target.to_string(), "how": how, "end": end });
        add_passed(&mut body, passed);
        self.tell("connection", body);
    }

    /// A request was answered.
    pub(crate) fn request(&self, target: &Target, method: &str, path: &str, status: u16, passed: Passed) {
        let path: String = path.split('?').next().unwrap_or_default().chars().take(512).collect();
        let mut body = json!({
            "decision": "allow", "target": target.to_string(), "method": method, "path": path, "status": status,
        });
        add_passed(&mut body, passed);
        self.tell("request", body);
    }

    /// The refusals so far, each once.
    pub(crate) fn refusals(&self) -> Vec<Denial> {
        self.kept().refusals.clone()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event unless too many came at once; those are counted.
    fn tell(&self, kind: &'static str, body: Value) {
        let Some(left_out) = self.kept().rate.admit() else { return };
        let mut body = match body {
            Value::Object(body) => body,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Map::new()
            }
        };
        if left_out > 0 {
            body.insert("left_out_before".to_owned(), json!(left_out));
        }
        let mut event = Event { kind, agent: self.agent.to_string(), body };
        self.sink.hear(&mut event);
        let kept = match self.writer.get() {
            // When the disk is slower than what happens, what happens waits.
            Some(writer) => writer.events.send(Some(event)).is_ok(),
            None => self.sink.record(event).is_ok(),
        };
        if !kept {
            self.unkept.store(true, Ordering::Relaxed);
        }
    }
}

fn add_passed(body: &mut Value, passed: Passed) {
    body["sent"] = json!(passed.sent);
    body["received"] = json!(passed.received);
    body["duration_ms"] = milliseconds(passed.took);
}

fn milliseconds(took: Duration) -> Value {
    json!(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug, Default)]
    struct Count(AtomicUsize);

    impl Sink for Count {
        fn record(&self, _event: Event) -> std::io::Result<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn a_flood_is_counted_and_not_told_one_by_one() {
        let sink = Arc::new(Count::default());
        let report = Report::new("a", sink.clone());
        for number in 0..50_000 {
            report.name(&format!("n{number}.example"), Asked::Denied("prohibited"), Duration::ZERO);
        }
        assert!(sink.0.load(Ordering::Relaxed) < 2 * bounds::EVENTS_AT_ONCE as usize);
        assert!(report.kept().rate.left_out() > 0);
    }
}
