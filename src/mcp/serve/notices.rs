//! What a client is told without asking: that a call was denied, and that the list of tools is another.
//!
//! Answers for which notices a client wants, in either era. Invariant: a client of the new era is told only what it
//! asked to be told.

use crate::mcp::protocol::{Id, SUBSCRIPTION_ID, notification_line};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much a client wants to hear, from everything to the worst only.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
/// How loud the notice of a denial is.
const DENIAL: usize = 3;
/// The most subscriptions of one client.
const MOST: usize = 64;
const CHANGED: &str = "notifications/tools/list_changed";

/// What a client wants to be told.
#[derive(Debug)]
pub(super) struct Notices {
    level: AtomicUsize,
    introduced: AtomicBool,
    subscriptions: Mutex<Vec<(String, String)>>,
}

/// From how loud on a client wants to hear of one call; none for not at all.
pub(super) type Hears = Option<usize>;

/// The number of a level.
pub(super) fn level(name: &str) -> Option<usize> {
    LEVELS.iter().position(|level| *level == name)
}

impl Notices {
    pub(super) fn new() -> Self {
        // A client that says nothing hears what matters.
        Self {
            level: AtomicUsize::new(1),
            introduced: AtomicBool::new(false),
            subscriptions: Mutex::default(),
        }
    }

    fn subscriptions(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client of the old era has finished its handshake.
    pub(super) fn introduce(&self) {
        self.introduced.store(true, Ordering::Relaxed);
    }

    /// A client of the old era says how much it wants to hear.
    pub(super) fn set_level(&self, level: usize) {
        self.level.store(level, Ordering::Relaxed);
    }

    /// From how loud on a client of the old era wants to hear.
    pub(super) fn level(&self) -> Hears {
        Some(self.level.load(Ordering::Relaxed))
    }

    /// Notes a wish to hear of changes, and answers with the line that agrees to it; none when there are too many.
    pub(super) fn subscribe(&self, id: Id<'_>, wanted: bool) -> Option<String> {
        let mut subscriptions = self.subscriptions();
        if subscriptions.len() >= MOST || subscriptions.iter().any(|(key, _)| *key == id.key()) {
            return None;
        }
        subscriptions.push((id.key(), if wanted { id.spelled().to_owned() } else { String::new() }));
        let agreed = if wanted { json!({ "toolsListChanged": true }) } else { json!({}) };
        let params = json!({ "notifications": agreed, "_meta": { SUBSCRIPTION_ID: spelled(id.spelled()) } });
        Some(notification_line("notifications/subscriptions/acknowledged", Some(params)))
    }

    /// Takes a wish back.
    pub(super) fn unsubscribe(&self, id: Id<'_>) {
        self.subscriptions().retain(|(key, _)| *key != id.key());
    }

    /// The notices that the list of tools is another now.
    pub(super) fn list_changed(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.introduced.load(Ordering::Relaxed) {
            lines.push(notification_line(CHANGED, None));
        }
        for (_, id) in self.subscriptions().iter().filter(|(_, id)| !id.is_empty()) {
            let params = json!({ "_meta": { SUBSCRIPTION_ID: spelled(id) } });
            lines.push(notification_line(CHANGED, Some(params)));
        }
        lines
    }
}

/// An identifier as a value.
fn spelled(id: &str) -> Value {
    serde_json::from_str(id).unwrap_or_else(|_| json!(id))
}

/// The notice that something was denied, for a client that wants to hear of it.
pub(super) fn guardrail(call: &str, tool: &str, denial: &Value, hears: Hears) -> Option<String> {
    if hears? > DENIAL {
        return None;
    }
    let data = json!({ "event": "denied", "call": spelled(call), "tool": tool, "denial": denial });
    let params = json!({ "level": LEVELS[DENIAL], "logger": "sbx/guardrail", "data": data });
    Some(notification_line("notifications/message", Some(params)))
}
