//! Calls under way: by which identifier each is cancelled, and how long each has been going on.
//!
//! Invariant: an identifier is under way once, in whatever spelling; nothing is told of a call after its answer.

use crate::mcp::protocol::{Id, notification_line};
use crate::run::Cancel;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a client that wants to know is told that a call goes on.
const EVERY: Duration = Duration::from_secs(1);

/// The calls under way.
#[derive(Debug, Default)]
pub(super) struct Calls {
    by_key: Mutex<HashMap<String, Arc<Underway>>>,
    /// Calls whose last word is not said yet; an identifier is free a little sooner.
    open: Mutex<usize>,
    fewer: Condvar,
}

/// One call under way.
#[derive(Debug)]
pub(super) struct Underway {
    /// Its identifier as it was spelled.
    pub(super) id: String,
    /// By which it is ended early.
    pub(super) cancel: Cancel,
    /// When it came.
    pub(super) since: Instant,
    key: String,
    token: Option<Value>,
    told: Mutex<Told>,
}

/// What was told of a call so far.
#[derive(Debug, Default)]
struct Told {
    answered: bool,
    progress: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is one assignment, so that what a panicking thread left is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Calls {
    /// Remembers a call; none when its identifier is in use.
    pub(super) fn begin(&self, id: Id<'_>, token: Option<Value>) -> Option<Arc<Underway>> {
        let mut calls = locked(&self.by_key);
        let key = id.key();
        if calls.contains_key(&key) {
            return None;
        }
        let call = Arc::new(Underway {
            id: id.spelled().to_owned(),
            cancel: Cancel::default(),
            since: Instant::now(),
            key: key.clone(),
            token,
            told: Mutex::default(),
        });
        calls.insert(key, Arc::clone(&call));
        *locked(&self.open) += 1;
        Some(call)
    }

    /// Ends a call early; one that is not under way has been answered, and there is nothing to do.
    pub(super) fn cancel(&self, id: Id<'_>) {
        let call = locked(&self.by_key).get(&id.key()).cloned();
        if let Some(call) = call {
            call.cancel.cancel();
        }
    }

    /// Ends all calls early.
    pub(super) fn cancel_all(&self) {
        let all: Vec<Arc<Underway>> = locked(&self.by_key).values().cloned().collect();
        all.iter().for_each(|call| call.cancel.cancel());
    }

    /// Forgets a call, and says its last word unless it was cancelled.
    pub(super) fn end(&self, call: &Underway, answer: impl FnOnce()) {
        let mut told = locked(&call.told);
        told.answered = true;
        // Whoever has read the answer may use the identifier again.
        locked(&self.by_key).remove(&call.key);
        if !call.cancel.is_cancelled() {
            answer();
        }
        drop(told);
        *locked(&self.open) -= 1;
        self.fewer.notify_all();
    }

    /// Waits until no call is under way; whether that came in time.
    pub(super) fn ended_within(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut open = locked(&self.open);
        while *open > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            open = self.fewer.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Tells of every call that goes on, to clients that want to know.
    pub(super) fn tell_progress(&self, send: &dyn Fn(&str)) {
        let all: Vec<Arc<Underway>> = locked(&self.by_key).values().cloned().collect();
        all.iter().for_each(|call| call.tell_progress(send));
    }
}

impl Underway {
    /// Tells that the call goes on: at first that it began, then how long it has been running.
    pub(super) fn tell_progress(&self, send: &dyn Fn(&str)) {
        let Some(token) = &self.token else { return };
        let mut told = locked(&self.told);
        let due = EVERY.saturating_mul(u32::try_from(told.progress).unwrap_or(u32::MAX));
        if told.answered || self.since.elapsed() < due || self.cancel.is_cancelled() {
            return;
        }
        let message = match told.progress {
            0 => "begun".to_owned(),
            seconds => format!("running for {seconds} s"),
        };
        let params = json!({ "progressToken": token, "progress": told.progress, "message": message });
        told.progress = self.since.elapsed().as_secs().max(told.progress) + 1;
        send(&notification_line("notifications/progress", Some(params)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id<'_> {
        Id::read(text).unwrap()
    }

    #[test]
    fn an_identifier_is_under_way_once() {
        let calls = Calls::default();
        let call = calls.begin(id("1"), None).unwrap();
        assert!(calls.begin(id("1.0"), None).is_none());
        assert!(calls.begin(id("\"1\""), None).is_some());
        let mut answered = false;
        calls.end(&call, || answered = true);
        assert!(answered && calls.begin(id("1"), None).is_some());
    }

    #[test]
    fn what_was_cancelled_is_not_answered() {
        let calls = Calls::default();
        let call = calls.begin(id("7"), Some(json!("t"))).unwrap();
        calls.cancel(id("8"));
        assert!(!call.cancel.is_cancelled());
        calls.cancel(id("7"));
        calls.tell_progress(&|line| unreachable!("{line}"));
        calls.end(&call, || unreachable!("it was cancelled"));
        assert!(calls.ended_within(Duration::ZERO));
    }

    #[test]
    fn progress_is_told_before_the_answer_only() {
        let calls = Calls::default();
        let call = calls.begin(id("7"), Some(json!("t"))).unwrap();
        let lines = Mutex::new(Vec::new());
        let send = |line: &str| locked(&lines).push(line.to_owned());
        calls.tell_progress(&send);
        calls.tell_progress(&send);
        calls.end(&call, || ());
        call.tell_progress(&send);
        let lines = locked(&lines);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(r#""progressToken":"t""#) && lines[0].contains(r#""progress":0"#));
    }
}
