//! Refusals of the fence and the gateway, and the calls they belong to.
//!
//! Answers for telling the gate of what was refused to its server, and the log of the calls that were under way.
//! Invariant: an event is handed on whether or not it belongs to a call.

use super::gate::Gate;
use crate::audit::{Event, Sink};
use std::io;
use std::sync::{Arc, OnceLock};

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
