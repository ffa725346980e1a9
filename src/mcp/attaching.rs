//! Refusals of the fence and the gateway, and the calls they belong to.
//!
//! Answers for telling the gate of what was refused to its server, and the log of the calls that were under way.
//! What the gateway refuses is heard before it is refused, and belongs to the calls under way then. What the kernel
//! refuses is heard of a moment later, perhaps after the answer to its call.
//! Invariant: an event is handed on whether or not it belongs to a call.

use super::gate::Gate;
use crate::audit::{Event, Sink};
use std::io;
use std::sync::{Arc, OnceLock};

/// Where an event names the calls it belongs to.
const CALLS: &str = "calls";

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

    /// Adds the calls that a refusal belongs to; `late` when it is heard of only after it happened.
    fn add_calls(&self, event: &mut Event, late: bool) {
        let denied = event.body.get("decision").is_some_and(|decision| decision == "deny");
        let Some(gate) = self.gate.get().filter(|_| denied && !event.body.contains_key(CALLS)) else {
            return;
        };
        let mut refusal = event.body.clone();
        refusal.insert("kind".to_owned(), event.kind.into());
        let calls = gate.note_refusal(&refusal.into(), late);
        event.body.insert(CALLS.to_owned(), calls.into());
    }
}

impl Sink for Attaching {
    fn record(&self, mut event: Event) -> io::Result<()> {
        self.add_calls(&mut event, true);
        self.log.record(event)
    }

    fn record_all(&self, mut events: Vec<Event>) -> io::Result<()> {
        events.iter_mut().for_each(|event| self.add_calls(event, true));
        self.log.record_all(events)
    }

    fn hear(&self, event: &mut Event) {
        self.add_calls(event, false);
    }
}
