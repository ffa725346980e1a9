//! Requests under way: which answer belongs to which question.
//!
//! Answers for remembering every request a client made until it is answered. It leaves what is done with an answer
//! to [`gate`](super::gate).
//! Invariant: an identifier is under way once, in whatever spelling; the table is bounded.

use super::protocol::Id;
use serde_json::Value;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

/// More requests at a time than any client makes.
const MOST: usize = 4096;
/// More refusals than one call needs to be understood.
const MOST_REFUSALS: usize = 32;

/// What is under way.
#[derive(Debug)]
pub(super) struct Flight {
    requests: HashMap<String, Underway>,
}

/// One request under way.
#[derive(Debug)]
pub(super) struct Underway {
    /// Its identifier as it was spelled.
    pub(super) id: String,
    /// What it is.
    pub(super) kind: Asked,
    /// When it was sent.
    pub(super) since: Instant,
    /// Whether the client has lost interest; the answer may come all the same.
    pub(super) cancelled: bool,
}

/// What was asked.
#[derive(Debug)]
pub(super) enum Asked {
    /// A page of tools.
    Tools(Page),
    /// A call, and what was refused while it was under way.
    Call {
        /// The tool's name.
        tool: String,
        /// What was refused to the server meanwhile.
        refused: Vec<Value>,
    },
    /// Who the server is, in either era.
    Introduction,
    /// Being told of changes; whether the server has agreed.
    Subscription {
        /// Whether changes of the list of tools are among them.
        tools: bool,
        /// Whether it was acknowledged.
        acknowledged: bool,
    },
    /// Something that is nobody's business.
    Other,
}

/// Which page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// No cursor was given.
    First,
    /// What follows this cursor; long ones are not worth remembering.
    After(u64),
}

impl Page {
    /// The page that follows a cursor.
    pub(super) fn after(cursor: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        cursor.hash(&mut hasher);
        Self::After(hasher.finish())
    }
}

/// Why a request cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlightError {
    /// Its identifier is in use.
    #[error("a request with this identifier is under way")]
    Taken,
    /// There are too many.
    #[error("there are too many requests under way")]
    Full,
}

impl Flight {
    pub(super) fn new() -> Self {
        Self { requests: HashMap::new() }
    }

    /// Remembers a request that is about to be sent.
    pub(super) fn begin(&mut self, id: Id<'_>, kind: Asked) -> Result<(), FlightError> {
        if self.requests.len() >= MOST {
            // Answers to what was cancelled may never come.
            self.requests.retain(|_, request| !request.cancelled);
        }
        if self.requests.len() >= MOST {
            return Err(FlightError::Full);
        }
        let key = id.key();
        if self.requests.contains_key(&key) {
            return Err(FlightError::Taken);
        }
        let id = id.spelled().to_owned();
        self.requests.insert(key, Underway { id, kind, since: Instant::now(), cancelled: false });
        Ok(())
    }

    /// The request that an answer is to; it is not under way any more.
    pub(super) fn end(&mut self, id: Id<'_>) -> Option<Underway> {
        self.requests.remove(&id.key())
    }

    /// A request that goes on.
    pub(super) fn get(&mut self, id: Id<'_>) -> Option<&mut Underway> {
        self.requests.get_mut(&id.key())
    }

    /// Everything that will not be answered any more, the oldest first.
    pub(super) fn abandon(&mut self) -> Vec<Underway> {
        let mut left: Vec<Underway> = self.requests.drain().map(|(_, request)| request).collect();
        left.sort_by_key(|request| request.since);
        left.retain(|request| !request.cancelled);
        left
    }

    /// Identifiers of acknowledged subscriptions to changes of the list of tools.
    pub(super) fn subscriptions(&self) -> Vec<String> {
        let told = |request: &&Underway| {
            let wanted = matches!(request.kind, Asked::Subscription { tools: true, acknowledged: true });
            wanted && !request.cancelled
        };
        self.requests.values().filter(told).map(|request| request.id.clone()).collect()
    }

    /// Attaches a refusal to the calls under way, and names them.
    pub(super) fn refused(&mut self, refusal: &Value) -> Vec<Value> {
        let mut calls = Vec::new();
        for request in self.requests.values_mut() {
            if let Asked::Call { tool, refused } = &mut request.kind {
                calls.push(serde_json::json!({ "id": request.id, "tool": tool }));
                add_refusal(refused, refusal);
            }
        }
        calls
    }
}

/// Adds a refusal to those of a call, each once and not too many.
pub(super) fn add_refusal(refused: &mut Vec<Value>, refusal: &Value) {
    if refused.len() < MOST_REFUSALS && !refused.contains(refusal) {
        refused.push(refusal.clone());
    }
}
