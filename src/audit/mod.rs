//! What happened, as values: every decision, launch, limit, connection and call.
//!
//! Answers for the shape of an event and for where events go. It leaves deciding and doing to others.
//! Invariant: an event never carries a secret's value; whoever makes one redacts first.

use serde_json::{Map, Value};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What sort of thing: `decision`, `launch`, `limit`, `name`, `connection`, `request`, `tool`, `mcp` …
    pub kind: &'static str,
    /// Whose authority it was done under.
    pub agent: String,
    /// What belongs to this sort: what was asked, the answer, bytes, durations in milliseconds.
    pub body: Map<String, Value>,
}

/// Where events go. Shared by threads; the order of one thread's events is kept.
pub trait Sink: Send + Sync + std::fmt::Debug {
    /// Keeps the event.
    ///
    /// # Errors
    /// When it could not be kept; what is done then is for the configuration to say.
    fn record(&self, event: Event) -> std::io::Result<()>;
}

/// Forgets every event.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn record(&self, _event: Event) -> std::io::Result<()> {
        Ok(())
    }
}
