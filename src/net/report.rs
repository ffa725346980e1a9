//! What happened at the gateway: events for the audit, and refusals to be told at the end.
//!
//! Answers for bounding both: refusals and names come as often as a program likes, while what is allowed is bounded by
//! what is served, and always told. It leaves keeping events to the sink.
//! Invariant: no event carries a body, a header's value or more of a target than its path.

use super::bounds;
use super::keeping::Keeping;
use crate::audit::{Event, Rate, Sink};
use crate::capability::Target;
use crate::decide::Denial;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where the gateway tells what happens; shared by everything it serves.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    agent: Arc<str>,
    keeping: Arc<Keeping>,
    kept: Arc<Mutex<Kept>>,
    /// Whether the launch is over.
    ending: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Kept {
    refusals: Vec<Denial>,
    names: Rate,
    refused: Rate,
}

/// What sort of thing is told.
#[derive(Clone, Copy, Debug)]
enum Sort {
    /// Something that was let through.
    Done,
    /// A question for a name.
    Name,
    /// A refusal of anything else.
    Refused,
}

/// The end of a request that was answered to its end.
pub(crate) const ANSWERED: &str = "answered";

/// Why nothing new is begun when an event could not be kept.
pub(crate) const UNKEPT: &str = "what happens cannot be recorded";

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

impl Passed {
    /// What passed since a time before.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
            took: self.took.saturating_sub(before.took),
        }
    }
}

impl Report {
    /// Events are kept where they are told.
    pub(crate) fn new(agent: &str, sink: Arc<dyn Sink>) -> Self {
        Self::to(agent, Keeping::in_place(sink))
    }

    /// Events are kept by a thread of their own, so that no connection waits for a disk; it ends with
    /// [`Report::end`].
    pub(crate) fn apart(agent: &str, sink: Arc<dyn Sink>) -> Self {
        Self::to(agent, Keeping::apart(sink))
    }

    fn to(agent: &str, keeping: Keeping) -> Self {
        let rate = || Rate::new(bounds::EVENTS_AT_ONCE, bounds::EVENTS_PER_SECOND);
        let kept = Kept { refusals: Vec::new(), names: rate(), refused: rate() };
        Self {
            agent: agent.into(),
            keeping: Arc::new(keeping),
            kept: Arc::new(Mutex::new(kept)),
            ending: Arc::default(),
        }
    }

    /// Says that the launch is over: what breaks off from now on does so for that.
    pub(crate) fn ending(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Why something ended that did not end by itself.
    pub(crate) fn cut(&self) -> &'static str {
        if self.ending.load(Ordering::Relaxed) { "ended with the launch" } else { "broken off" }
    }

    /// Returns when all events are kept; what was left out to the last is told before.
    pub(crate) fn end(&self) {
        let (names, refused) = {
            let kept = self.kept();
            (kept.names.left_out(), kept.refused.left_out())
        };
        for (kind, left_out) in [("name", names), ("connection", refused)] {
            if left_out > 0 {
                self.keeping.keep(Event::new(kind, &*self.agent, json!({ "left_out": left_out })));
            }
        }
        self.keeping.end();
    }

    /// Whether an event could not be kept although it should have been: nothing new is begun then.
    pub(crate) fn is_unkept(&self) -> bool {
        self.keeping.is_behind()
    }

    /// A name was asked for.
    pub(crate) fn name(&self, name: &str, kind: &str, decision: Asked, took: Duration) {
        let (decision, answer) = match decision {
            Asked::Allowed(answer) => ("allow", answer),
            Asked::Denied(answer) => ("deny", answer),
        };
        let mut body = json!({ "decision": decision, "name": name, "type": kind, "answer": answer });
        body["duration_ms"] = milliseconds(took);
        self.tell(Sort::Name, "name", body);
    }

    /// A connection or request was refused.
    pub(crate) fn refused(&self, kind: &'static str, denial: &Denial) {
        self.remember(denial);
        let sort = if kind == "name" { Sort::Name } else { Sort::Refused };
        self.tell(sort, kind, json!({ "decision": "deny", "denial": denial.to_json() }));
    }

    /// A connection was refused because it needs all verbs; these are the ones that are missing.
    pub(crate) fn refused_whole(&self, missing: &[Denial]) {
        missing.iter().for_each(|denial| self.remember(denial));
        if let Some(first) = missing.first() {
            let body = json!({ "decision": "deny", "needs": "all", "denial": first.to_json() });
            self.tell(Sort::Refused, "connection", body);
        }
    }

    fn remember(&self, denial: &Denial) {
        let mut kept = self.kept();
        let seen = kept.refusals.iter().any(|seen| seen.message == denial.message);
        if !seen && kept.refusals.len() < bounds::REFUSALS {
            kept.refusals.push(denial.clone());
        }
    }

    /// A connection or request was refused for how it was made, whatever is granted.
    pub(crate) fn malformed(&self, kind: &'static str, target: Option<&Target>, why: &str) {
        let target = target.map(ToString::to_string);
        let body = json!({ "decision": "deny", "target": target, "malformed": why });
        self.tell(Sort::Refused, kind, body);
    }

    /// A connection ended.
    pub(crate) fn connection(&self, target: &Target, how: &str, passed: Passed, end: &str) {
        let mut body = json!({ "decision": "allow", "target": target.to_string(), "how": how, "end": end });
        add_passed(&mut body, passed);
        self.tell(Sort::Done, "connection", body);
    }

    /// A request ended; without a status when there was no answer.
    pub(crate) fn request(
        &self,
        target: &Target,
        (method, path): (&str, &str),
        (status, end): (Option<u16>, &str),
        passed: Passed,
    ) {
        let path: String = path.split('?').next().unwrap_or_default().chars().take(512).collect();
        let mut body = json!({
            "decision": "allow", "target": target.to_string(), "method": method, "path": path, "status": status,
        });
        if end != ANSWERED {
            body["end"] = json!(end);
        }
        add_passed(&mut body, passed);
        self.tell(Sort::Done, "request", body);
    }

    /// The refusals so far, each once.
    pub(crate) fn refusals(&self) -> Vec<Denial> {
        self.kept().refusals.clone()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event, unless it is of a sort of which too many came at once; those are counted.
    fn tell(&self, sort: Sort, kind: &'static str, body: Value) {
        let left_out = match sort {
            Sort::Done => Some(0),
            Sort::Name => self.kept().names.admit(),
            Sort::Refused => self.kept().refused.admit(),
        };
        let Some(left_out) = left_out else { return };
        let mut event = Event::new(kind, &*self.agent, body);
        if left_out > 0 {
            event.body.insert("left_out_before".to_owned(), json!(left_out));
        }
        self.keeping.keep(event);
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
    use std::time::Instant;

    #[derive(Debug, Default)]
    struct Seen(Mutex<Vec<Event>>);

    impl Sink for Seen {
        fn record(&self, event: Event) -> std::io::Result<()> {
            self.0.lock().unwrap().push(event);
            Ok(())
        }
    }

    #[test]
    fn a_flood_is_counted_and_hides_nothing_else() {
        let sink = Arc::new(Seen::default());
        let report = Report::new("a", sink.clone());
        let begun = Instant::now();
        for number in 0..10_000 {
            report.name(&format!("n{number}.example"), "A", Asked::Denied("prohibited"), Duration::ZERO);
        }
        // On a slow machine more of them are within what is kept of a second.
        let most = u64::from(bounds::EVENTS_AT_ONCE)
            + u64::from(bounds::EVENTS_PER_SECOND) * (begun.elapsed().as_secs() + 1);
        let target = Target::parse("a.example:443").unwrap();
        report.request(&target, ("GET", "/x?y"), (Some(200), ANSWERED), Passed::default());
        report.malformed("connection", Some(&target), "odd");
        report.end();
        let events = std::mem::take(&mut *sink.0.lock().unwrap());
        let [request, odd, left_out] = &events[events.len() - 3..] else { panic!("{events:?}") };
        assert_eq!((request.kind, &request.body["path"]), ("request", &json!("/x")));
        assert_eq!((odd.kind, &odd.body["malformed"]), ("connection", &json!("odd")));
        let named = events.len() - 3;
        assert!(named as u64 <= most, "{named} of {most}");
        let before =
            events.iter().filter_map(|event| event.body.get("left_out_before")?.as_u64()).sum::<u64>();
        assert_eq!(left_out.body["left_out"].as_u64().unwrap() + before + named as u64, 10_000);
    }

    #[test]
    fn what_breaks_off_is_told_with_its_cause() {
        let report = Report::new("a", Arc::new(Seen::default()));
        assert_eq!(report.cut(), "broken off");
        report.ending();
        assert_eq!(report.cut(), "ended with the launch");
    }
}
