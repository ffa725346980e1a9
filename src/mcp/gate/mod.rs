//! The gate in the stream: what passes, what is answered here, what is dropped.
//!
//! Answers for every line in both directions, without reading or writing any stream itself.
//! Invariant: a call reaches the server only as it was judged, in the one spelling; everything else passes byte for
//! byte or not at all.

mod inward;
mod outward;

use super::flight::{Flight, add_refusal};
use super::listing::Seen;
use super::protocol::{Fault, INTERNAL_ERROR, SUBSCRIPTION_ID, error_line, line_of};
use super::rules::Rules;
use crate::audit::{Event, Rate, Sink};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// After so many ends of calls it is looked whether some have waited long enough to be recorded.
const MANY_ENDED: usize = 32;
/// Ends of calls that wait to be recorded at most.
const MOST_ENDED: usize = 256;
/// How much later than it happened it is heard that the kernel refused something: so long a call is waited for.
const LATE: Duration = Duration::from_millis(20);
/// Refused lines that are told of at once; more are counted.
const REFUSED_AT_ONCE: u32 = 500;
/// Refused lines that are told of a second after that.
const REFUSED_A_SECOND: u32 = 50;

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Passage {
    /// It goes on as it is.
    AsIs,
    /// This goes on instead.
    Instead(String),
    /// It goes no further, and its sender gets this.
    Back(String),
    /// It goes no further.
    Dropped,
}

/// Where the gate tells what it did.
pub trait Teller: Send + Sync + std::fmt::Debug {
    /// One line for people.
    fn tell(&self, line: &str);
}

/// The gate of one server.
#[derive(Debug)]
pub struct Gate {
    rules: RwLock<Arc<Rules>>,
    flight: Mutex<Flight>,
    seen: Mutex<Seen>,
    audit: Arc<dyn Sink>,
    /// Ends of calls that are not in the log yet: they go there soon, many at a time.
    ended: Mutex<Vec<Ended>>,
    /// How many refused lines are told of: either side can make as many as it likes.
    refused: Mutex<Rate>,
    teller: Arc<dyn Teller>,
    server: String,
    /// The package that runs and its version, where one was resolved.
    package: Option<(String, String)>,
}

/// How a call ended.
#[derive(Debug)]
struct Ended {
    /// Its identifier as it was spelled.
    id: String,
    tool: String,
    /// When.
    at: Instant,
    took: Duration,
    is_error: bool,
    /// What was refused to the server meanwhile.
    refused: Vec<Value>,
}

impl Ended {
    fn body(self) -> Value {
        json!({
            "answered": self.id, "tool": self.tool,
            "duration_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "is_error": self.is_error, "refused": self.refused,
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panicking thread left is still whole: every change is one assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    /// A gate with its first rules.
    pub fn new(rules: Rules, server: &str, audit: Arc<dyn Sink>, teller: Arc<dyn Teller>) -> Self {
        Self {
            rules: RwLock::new(Arc::new(rules)),
            flight: Mutex::new(Flight::new()),
            seen: Mutex::new(Seen::default()),
            audit,
            ended: Mutex::new(Vec::new()),
            refused: Mutex::new(Rate::new(REFUSED_AT_ONCE, REFUSED_A_SECOND)),
            teller,
            server: server.to_owned(),
            package: None,
        }
    }

    /// The same gate, for a server out of a package: what is pinned at first sight is pinned with its version.
    #[must_use]
    pub fn running(mut self, package: Option<(String, String)>) -> Self {
        self.package = package;
        self
    }

    /// The rules now.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Judges by other rules from now on: all of them at once, for allowlist, arguments and pins are one value.
    pub fn swap(&self, mut rules: Rules) {
        let mut now = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        rules.hold_pins_of(&now);
        *now = Arc::new(rules);
    }

    fn event(&self, body: Value) -> Event {
        let mut event = Event::new("mcp", self.rules().policy.agent(), body);
        event.body.insert("server".to_owned(), json!(self.server));
        event
    }

    /// Keeps what has happened, or is not going to.
    fn record(&self, body: Value) -> std::io::Result<()> {
        self.audit.record(self.event(body))
    }

    /// Does the rest of keeping what is on its way now.
    pub(super) fn finish_record(&self) {
        if let Err(error) = self.audit.finish() {
            self.teller.tell(&format!("cannot finish the record of a call: {error}"));
        }
    }

    /// Keeps ends of calls when there are many: they were recorded before they were made, so that this may wait.
    pub(super) fn settle_many(&self) {
        let waiting = locked(&self.ended).len();
        if waiting >= MOST_ENDED {
            self.settle();
        } else if waiting > 0 && waiting.is_multiple_of(MANY_ENDED) {
            self.settle_old();
        }
    }

    /// Keeps the ends of calls that are not in the log yet.
    pub fn settle(&self) {
        let ended = std::mem::take(&mut *locked(&self.ended));
        self.keep_ends(ended);
    }

    /// Keeps the ends of calls to which nothing can belong any more.
    pub(super) fn settle_old(&self) {
        let old = {
            let mut ended = locked(&self.ended);
            let old = ended.iter().take_while(|end| end.at.elapsed() >= LATE).count();
            ended.drain(..old).collect()
        };
        self.keep_ends(old);
    }

    fn keep_ends(&self, ended: Vec<Ended>) {
        if ended.is_empty() {
            return;
        }
        let events = ended.into_iter().map(|end| self.event(end.body())).collect();
        if let Err(error) = self.audit.record_all(events) {
            self.teller.tell(&format!("cannot record the end of a call: {error}"));
        }
    }

    /// A line that is not a message, or not one message to every reader. Whether there is room to tell of it.
    fn refuse_line(&self, direction: &str, fault: &Fault, line: &[u8]) -> bool {
        let start = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        self.note_refused(json!({
            "decision": "deny", "direction": direction, "fault": fault.name(), "message": fault.to_string(),
            "line": start, "bytes": line.len(),
        }))
    }

    /// Records what was refused before anything was decided about it, unless there is too much of it.
    fn note_refused(&self, mut body: Value) -> bool {
        let Some(left_out) = locked(&self.refused).admit() else { return false };
        if left_out > 0 {
            body["left_out_before"] = json!(left_out);
        }
        if let Err(error) = self.record(body) {
            self.teller.tell(&format!("cannot record a refused line: {error}"));
        }
        true
    }

    /// Notices for the client that the list of tools is another now.
    pub fn list_changed(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if locked(&self.seen).introduced {
            lines.push(line_of(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })));
        }
        for id in locked(&self.flight).subscriptions() {
            lines.push(format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{{\"_meta\":{{\"{SUBSCRIPTION_ID}\":{id}}}}}}}\n"
            ));
        }
        lines
    }

    /// Errors for everything that will not be answered any more.
    pub fn farewell(&self, why: &str) -> Vec<String> {
        let left = locked(&self.flight).abandon();
        left.iter().map(|request| error_line(Some(&request.id), INTERNAL_ERROR, why, None)).collect()
    }

    /// Attaches something that was refused to the server to the calls under way, and names them. What is heard of
    /// late belongs to calls that have just ended too.
    pub fn note_refusal(&self, refusal: &Value, late: bool) -> Vec<Value> {
        let mut calls = locked(&self.flight).refused(refusal);
        if late {
            let mut ended = locked(&self.ended);
            for end in ended.iter_mut().rev().take_while(|end| end.at.elapsed() < LATE) {
                calls.push(json!({ "id": end.id, "tool": end.tool }));
                add_refusal(&mut end.refused, refusal);
            }
        }
        calls
    }
}

pub(in crate::mcp) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

/// A message's line without anything that ends a line for some readers; it stands in strings only.
fn one_line(line: &str) -> String {
    let mut line =
        line.replace('\u{85}', "\\u0085").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    line.push('\n');
    line
}
