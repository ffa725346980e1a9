//! What happened, as values: every decision, launch, limit, connection and call, and the log that keeps them.
//!
//! Answers for the shape of an event, for where events go, and for the log being whole: see [`Log`] and
//! [`verify`]. It leaves deciding and doing to others.
//! Invariant: an event never reaches a file with a secret's value in it; [`redact()`] stands before the log.

mod brief;
mod chain;
mod digest;
mod head;
mod kept;
mod log;
mod rate;
mod read;
mod recover;
mod redact;
mod rotate;
mod stats;
mod time;
mod turn;
mod verify;

pub use brief::{Brief, Field};
pub use chain::{Entry, Fault, Link};
pub use head::Head;
pub use log::{Log, new_session};
pub use rate::Rate;
pub use read::{Filter, entries, follow};
pub use redact::{REDACTED, redact};
pub use stats::{AgentStats, Stats};
pub use time::{format_time, parse_time};
pub use verify::{Finding, Verdict, verify};

use serde_json::{Map, Value};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What sort of thing: `decision`, `launch`, `end`, `limit`, `name`, `connection`, `request`, `tool`, `mcp` …
    pub kind: &'static str,
    /// Whose authority it was done under.
    pub agent: String,
    /// What belongs to this sort: what was asked, the answer, bytes, durations in milliseconds.
    ///
    /// A yes or no is `decision`, `"allow"` or `"deny"`; arguments of a command are an array.
    pub body: Map<String, Value>,
}

impl Event {
    /// An event; anything but an object as its body is an empty body.
    #[must_use]
    pub fn new(kind: &'static str, agent: impl Into<String>, body: Value) -> Self {
        let body = match body {
            Value::Object(body) => body,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Map::new()
            }
        };
        Self { kind, agent: agent.into(), body }
    }
}

/// Where events go. Shared by threads; the order of one thread's events is kept.
pub trait Sink: Send + Sync + std::fmt::Debug {
    /// Keeps the event.
    ///
    /// # Errors
    /// When it could not be kept although the configuration wants it kept: what it tells of must not happen.
    fn record(&self, event: Event) -> std::io::Result<()>;

    /// Keeps the event, so that what it tells of may happen; whatever else there is to do is left to
    /// [`Sink::finish`]. Others wait for that, so it must follow at once.
    ///
    /// # Errors
    /// As for [`Sink::record`].
    fn record_first(&self, event: Brief<'_>) -> std::io::Result<()> {
        self.record(event.event())
    }

    /// Does what keeping an event has left to be done, if anything, or sees to it that it is done soon.
    ///
    /// # Errors
    /// When that cannot be done; the event is kept all the same.
    fn finish(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Expects more than one event: files may stay open in between. Only for a process that starts others by `execve`, or
    /// forks before the first event: what is merely forked would hold them too.
    fn stay_open(&self) {}

    /// Hears of an event as it happens, before it waits to be kept; what is added to it is kept with it.
    fn hear(&self, _event: &mut Event) {}

    /// Keeps events in their order.
    ///
    /// # Errors
    /// As for [`Sink::record`]; a log keeps all of them or none.
    fn record_all(&self, events: Vec<Event>) -> std::io::Result<()> {
        events.into_iter().try_for_each(|event| self.record(event))
    }
}

/// Forgets every event.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn record(&self, _event: Event) -> std::io::Result<()> {
        Ok(())
    }
}
