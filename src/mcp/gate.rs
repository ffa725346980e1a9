//! The gate in the stream: what passes, what is answered here, what is dropped.
//!
//! Answers for every line in both directions, without reading or writing any stream itself.
//! Invariant: a call reaches the server only as it was judged, in the one spelling; everything else passes byte for
//! byte or not at all.

use super::flight::{Asked, Flight, FlightError};
use super::listing::{self, Seen};
use super::protocol::{
    Era, Fault, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Id, Json, Kind, Message, SUBSCRIPTION_ID,
    error_line, fold, guess_id, line_of, lookalike, raw, result_line, with_member,
};
use super::rules::Rules;
use crate::audit::{Event, Sink};
use crate::decide::{Denial, DenialCode};
use crate::tool::{GET_POLICY, body};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The methods that are policed, or that tell something the gate must know.
const CALL: &str = "tools/call";
const LIST: &str = "tools/list";
/// Where sbx tells of a denial in a result.
const DENIAL_KEY: &str = "sbx/denial";
/// Where sbx tells what was refused to the server while it worked.
const REFUSED_KEY: &str = "sbx/refused";

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
    teller: Arc<dyn Teller>,
    server: String,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panicking thread left is still whole: every change is one assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    /// A gate with its first rules.
    pub fn new(rules: Rules, server: &str, audit: Arc<dyn Sink>, teller: Arc<dyn Teller>) -> Self {
        let seen = Seen::new(&rules);
        Self {
            rules: RwLock::new(Arc::new(rules)),
            flight: Mutex::new(Flight::new()),
            seen: Mutex::new(seen),
            audit,
            teller,
            server: server.to_owned(),
        }
    }

    /// The rules now.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Judges by other rules from now on.
    pub fn swap(&self, rules: Rules) {
        locked(&self.seen).repin(&rules);
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    fn record(&self, body: Value) -> std::io::Result<()> {
        let mut event = Event::new("mcp", self.rules().policy.agent(), body);
        event.body.insert("server".to_owned(), json!(self.server));
        self.audit.record(event)
    }

    /// A line that is not a message, or not one message to every reader.
    fn refuse_line(&self, direction: &str, fault: &Fault, line: &[u8]) {
        let start = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        let kept = self.record(json!({
            "decision": "deny", "direction": direction, "fault": fault.name(), "message": fault.to_string(),
            "line": start, "bytes": line.len(),
        }));
        if let Err(error) = kept {
            self.teller.tell(&format!("cannot record a refused line: {error}"));
        }
    }

    /// What becomes of a line from the client.
    pub fn from_client(&self, line: &[u8]) -> Passage {
        if is_blank(line) {
            return Passage::Dropped;
        }
        let message = match Message::read(line) {
            Ok(message) => message,
            Err(fault) => return self.refuse_from_client(&fault, line),
        };
        let passage = match &message.kind {
            Kind::Answer { .. } => Ok(Passage::AsIs),
            Kind::Notification { method, params } => self.notification(method, *params),
            Kind::Request { id, method, params } => self.request(&message, *id, method, *params),
        };
        match passage {
            Ok(Passage::AsIs) if message.separators => Passage::Instead(one_line(message.line)),
            Ok(passage) => passage,
            Err(fault) => self.refuse_from_client(&fault, line),
        }
    }

    /// Refuses a line from the client, and says so under its identifier if that can be made out.
    pub fn refuse_from_client(&self, fault: &Fault, line: &[u8]) -> Passage {
        self.refuse_line("client", fault, line);
        let id = guess_id(line, &[]);
        Passage::Back(error_line(id.as_deref(), fault.code(), &format!("refused by sbx: {fault}"), None))
    }

    fn notification(&self, method: &str, params: Option<&str>) -> Result<Passage, Fault> {
        if is_policed(method) {
            return Err(Fault::NotMessage("a call is a request, with an `id`"));
        }
        if method == "notifications/initialized" {
            locked(&self.seen).introduced = true;
        }
        if method != "notifications/cancelled" {
            return Ok(Passage::AsIs);
        }
        let id = params.and_then(|params| raw(params, "requestId")).and_then(Id::read);
        let mut flight = locked(&self.flight);
        match id.and_then(|id| flight.get(id)) {
            Some(request) => {
                request.cancelled = true;
                Ok(Passage::AsIs)
            }
            // Answered already, by the server or by the gate: there is nothing to cancel.
            None => Ok(Passage::Dropped),
        }
    }

    fn request(
        &self,
        message: &Message<'_>,
        id: Id<'_>,
        method: &str,
        params: Option<&str>,
    ) -> Result<Passage, Fault> {
        if is_policed(method) && method != CALL {
            return Err(Fault::NotMessage("some readers would take this method for tools/call"));
        }
        let kind = match method {
            CALL => return self.call(message, id, params),
            LIST => Asked::Tools { first: params.and_then(|params| raw(params, "cursor")).is_none() },
            "initialize" | "server/discover" => Asked::Introduction,
            "subscriptions/listen" => Asked::Subscription { acknowledged: false },
            _ => Asked::Other,
        };
        Ok(self.begin(id, kind).err().unwrap_or(Passage::AsIs))
    }

    fn begin(&self, id: Id<'_>, kind: Asked) -> Result<(), Passage> {
        locked(&self.flight).begin(id, kind).map_err(|error| {
            let code = match error {
                FlightError::Taken => INVALID_REQUEST,
                FlightError::Full => INTERNAL_ERROR,
            };
            Passage::Back(error_line(Some(id.spelled()), code, &format!("refused by sbx: {error}"), None))
        })
    }

    /// A call: taken apart, judged, and sent on in its one spelling.
    fn call(&self, message: &Message<'_>, id: Id<'_>, params: Option<&str>) -> Result<Passage, Fault> {
        let era = Era::of(params);
        let tree = message.tree()?;
        let call = Call::read(&tree)?;
        let Some(call) = call else {
            let text = "refused by sbx: a call has `name` and, if any, `arguments`";
            return Ok(Passage::Back(error_line(Some(id.spelled()), INVALID_PARAMS, text, None)));
        };
        let rules = self.rules();
        if call.tool == GET_POLICY {
            return Ok(Passage::Back(result_line(id, &era.result(policy_result(&rules)))));
        }
        let (action, judged) = match self.judge(&rules, &call) {
            Ok(action) => (action, None),
            Err(denial) => (None, Some(denial)),
        };
        let mut event = json!({
            "decision": if judged.is_some() { "deny" } else { "allow" },
            "call": id.spelled(), "tool": call.tool, "action": action, "retry": call.retry,
        });
        if let Some(denial) = &judged {
            event["denial"] = denial.to_json();
        }
        if let Err(error) = self.record(event) {
            let text = format!("refused by sbx: the call cannot be recorded: {error}");
            return Ok(Passage::Back(error_line(Some(id.spelled()), INTERNAL_ERROR, &text, None)));
        }
        if let Some(denial) = judged {
            return Ok(Passage::Back(result_line(id, &era.result(denial_result(&denial)))));
        }
        let kind = Asked::Call { tool: call.tool.to_owned(), refused: Vec::new() };
        if let Err(back) = self.begin(id, kind) {
            return Ok(back);
        }
        Ok(Passage::Instead(spelled(&tree, id)))
    }

    /// Every layer that can say no before the server sees the call; what the call's action is.
    fn judge<'c>(&self, rules: &Rules, call: &'c Call<'c>) -> Result<Option<&'c str>, Box<Denial>> {
        let agent = rules.policy.agent();
        let invalid =
            |message: String| Box::new(Denial::of_tool(DenialCode::InvalidParams, agent, call.tool, message));
        let list = &rules.allowlist;
        let action = match list.action_argument(call.tool) {
            None => None,
            Some(argument) => call.action(argument).map_err(invalid)?,
        };
        if !list.allows(call.tool, action) {
            return Err(Box::new(list.denial(agent, call.tool, action)));
        }
        locked(&self.seen).check(rules, call.tool)?;
        if let Some(arguments) = call.arguments {
            rules.judge_arguments(call.tool, arguments)?;
        }
        Ok(action)
    }

    /// What becomes of a line from the server.
    pub fn from_server(&self, line: &[u8]) -> Passage {
        if is_blank(line) {
            return Passage::Dropped;
        }
        let message = match Message::read(line) {
            Ok(message) => message,
            Err(fault) => return self.refuse_from_server(&fault, line, &[]),
        };
        let passage = match &message.kind {
            Kind::Request { .. } => Passage::AsIs,
            Kind::Notification { method, params } => {
                if method == "notifications/subscriptions/acknowledged" {
                    self.acknowledged(*params);
                }
                Passage::AsIs
            }
            Kind::Answer { id: None, .. } => Passage::AsIs,
            Kind::Answer { id: Some(id), result } => self.answer(&message, *id, *result),
        };
        match passage {
            Passage::AsIs if message.separators => Passage::Instead(one_line(message.line)),
            passage => passage,
        }
    }

    /// A line of the server's that is no message: not passed on, but nobody is left waiting for it.
    pub fn refuse_from_server(&self, fault: &Fault, head: &[u8], tail: &[u8]) -> Passage {
        self.refuse_line("server", fault, head);
        let id = guess_id(head, tail);
        let request = id.as_deref().and_then(Id::read).and_then(|id| locked(&self.flight).end(id));
        match request {
            Some(request) => {
                let text = format!("the server's answer was refused by sbx: {fault}");
                Passage::Instead(error_line(Some(&request.id), INTERNAL_ERROR, &text, None))
            }
            None => {
                let start = String::from_utf8_lossy(&head[..head.len().min(80)]).into_owned();
                self.teller.tell(&format!("dropped a line of the server's output ({fault}): {start}"));
                Passage::Dropped
            }
        }
    }

    fn acknowledged(&self, params: Option<&str>) {
        let id = params.and_then(|params| raw(params, "_meta")).and_then(|meta| raw(meta, SUBSCRIPTION_ID));
        let mut flight = locked(&self.flight);
        let request = id.and_then(Id::read).and_then(|id| flight.get(id));
        if let Some(Asked::Subscription { acknowledged }) = request.map(|request| &mut request.kind) {
            *acknowledged = true;
        }
    }

    fn answer(&self, message: &Message<'_>, id: Id<'_>, result: Option<&str>) -> Passage {
        let Some(request) = locked(&self.flight).end(id) else {
            self.refuse_line(
                "server",
                &Fault::NotMessage("nobody asked for this answer"),
                message.line.as_bytes(),
            );
            return Passage::Dropped;
        };
        // What is written here bears the identifier as the client spelled it.
        let id = Id::read(&request.id).unwrap_or(id);
        match request.kind {
            Asked::Other | Asked::Subscription { .. } => Passage::AsIs,
            Asked::Tools { first } => match result {
                None => Passage::AsIs,
                Some(_) => self.listing(message, id, first),
            },
            Asked::Introduction => match result {
                Some(result) => self.introduction(message, id, result),
                None => Passage::AsIs,
            },
            Asked::Call { tool, refused } => {
                let milliseconds = u64::try_from(request.since.elapsed().as_millis()).unwrap_or(u64::MAX);
                let event = json!({
                    "answered": id.spelled(), "tool": tool, "duration_ms": milliseconds,
                    "is_error": result.and_then(|result| raw(result, "isError")) == Some("true") || result.is_none(),
                    "refused": refused,
                });
                if let Err(error) = self.record(event) {
                    self.teller.tell(&format!("cannot record the end of a call: {error}"));
                }
                match result.filter(|_| !refused.is_empty()).and_then(|result| attach(result, &refused)) {
                    Some(result) => Passage::Instead(answer_line(id, &result)),
                    None => Passage::AsIs,
                }
            }
        }
    }

    fn listing(&self, message: &Message<'_>, id: Id<'_>, first: bool) -> Passage {
        let rules = self.rules();
        let shown = message.tree().map(|tree| {
            let mut seen = locked(&self.seen);
            listing::filtered(&tree, &rules, &mut seen, first)
        });
        match shown {
            Ok(Some(listing)) => {
                listing.remarks.iter().for_each(|remark| self.teller.tell(remark));
                if let Some(pins) = &listing.first_sight {
                    self.keep_pins(&rules, pins);
                }
                Passage::Instead(answer_line(id, &listing.result))
            }
            Ok(None) => self.unreadable(id, &Fault::NotMessage("a list of tools has `tools`"), message.line),
            Err(fault) => self.unreadable(id, &fault, message.line),
        }
    }

    fn keep_pins(&self, rules: &Rules, pins: &super::pins::Pins) {
        let Some(pinned) = &rules.pins else { return };
        match super::pins::keep(&pinned.file, &self.server, pins) {
            Ok(()) => self.teller.tell(&format!(
                "{} tools seen for the first time are pinned in {}",
                pins.tools.len(),
                pinned.file.display()
            )),
            Err(error) => self.teller.tell(&format!("cannot write {}: {error}", pinned.file.display())),
        }
    }

    /// An answer that should have been policed and cannot be.
    fn unreadable(&self, id: Id<'_>, fault: &Fault, line: &str) -> Passage {
        self.refuse_line("server", fault, line.as_bytes());
        let text = format!("the server's answer was refused by sbx: {fault}");
        Passage::Instead(error_line(Some(id.spelled()), INTERNAL_ERROR, &text, None))
    }

    /// The server says who it is; instructions that are not the pinned ones are taken out.
    fn introduction(&self, message: &Message<'_>, id: Id<'_>, result: &str) -> Passage {
        let rules = self.rules();
        let Some(pinned) = &rules.pins else { return Passage::AsIs };
        let told = match message.tree() {
            Ok(tree) => tree
                .get("result")
                .and_then(|result| result.get("instructions"))
                .and_then(Json::text)
                .map(str::to_owned),
            Err(fault) => return self.unreadable(id, &fault, message.line),
        };
        let Some(pins) = &pinned.pins else {
            locked(&self.seen).instructions = told;
            return Passage::AsIs;
        };
        if told.is_none() || told == pins.instructions {
            return Passage::AsIs;
        }
        self.teller.tell("the server's instructions are not the pinned ones; they were taken out");
        match listing::without(result, "instructions") {
            Some(result) => Passage::Instead(answer_line(id, &result)),
            None => Passage::Dropped,
        }
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

    /// Attaches something that was refused to the server to the calls under way.
    pub fn note_refusal(&self, refusal: &Value) -> Vec<Value> {
        locked(&self.flight).refused(refusal)
    }
}

/// The parts of a call.
struct Call<'c> {
    tool: &'c str,
    arguments: Option<&'c Json<'c>>,
    retry: bool,
}

impl<'c> Call<'c> {
    /// Takes a call apart; none when it is not one that a server could answer.
    fn read(tree: &'c Json<'c>) -> Result<Option<Self>, Fault> {
        let Some(params) = tree.get("params") else { return Ok(None) };
        let Some(members) = params.members() else { return Ok(None) };
        for key in ["name", "arguments", "_meta", "task"] {
            if let Some(other) = lookalike(members, key) {
                return Err(Fault::Lookalike(other.to_owned()));
            }
        }
        let arguments = match params.get("arguments") {
            None | Some(Json::Null) => None,
            Some(arguments @ Json::Map(_)) => Some(arguments),
            Some(_) => return Ok(None),
        };
        let retry = params.get("requestState").is_some() || params.get("inputResponses").is_some();
        Ok(params.get("name").and_then(Json::text).map(|tool| Self { tool, arguments, retry }))
    }

    fn action(&self, argument: &str) -> Result<Option<&'c str>, String> {
        let Some(members) = self.arguments.and_then(Json::members) else { return Ok(None) };
        if let Some(other) = lookalike(members, argument) {
            return Err(format!("some readers take `{other}` for `{argument}`"));
        }
        match self.arguments.and_then(|arguments| arguments.get(argument)) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Text(action)) => Ok(Some(action)),
            Some(_) => Err(format!("`{argument}` names the action and is not a string")),
        }
    }
}

pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

/// Whether a method is the policed one, or some reader could take it for that.
fn is_policed(method: &str) -> bool {
    fold(method.trim()) == CALL
}

/// A message's line without anything that ends a line for some readers; it stands in strings only.
fn one_line(line: &str) -> String {
    let mut line =
        line.replace('\u{85}', "\\u0085").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    line.push('\n');
    line
}

/// A message in its one spelling, but for its identifier, which stays as it was.
fn spelled(tree: &Json<'_>, id: Id<'_>) -> String {
    let mut line = String::with_capacity(256);
    line.push('{');
    for (index, (key, value)) in tree.members().unwrap_or_default().iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        Json::Text(key.clone()).write(&mut line);
        line.push(':');
        if key == "id" { line.push_str(id.spelled()) } else { value.write(&mut line) }
    }
    line.push_str("}\n");
    line
}

fn answer_line(id: Id<'_>, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n", id.spelled())
}

/// A result with what was refused to the server meanwhile in its `_meta`.
fn attach(result: &str, refused: &[Value]) -> Option<String> {
    let refused = line_of(&json!(refused));
    let meta = raw(result, "_meta").filter(|meta| meta.starts_with('{')).unwrap_or("{}");
    with_member(result, "_meta", &with_member(meta, REFUSED_KEY, refused.trim_end())?)
}

fn policy_result(rules: &Rules) -> Value {
    let policy = rules.to_json();
    json!({
        "content": [{ "type": "text", "text": format!("{policy:#}") }],
        "structuredContent": policy,
        "isError": false,
    })
}

/// A denial as the result of a call: text for the model, the whole object for machines.
#[must_use]
pub fn denial_result(denial: &Denial) -> Value {
    json!({
        "content": [{ "type": "text", "text": body(denial).to_string() }],
        "isError": true,
        "_meta": { DENIAL_KEY: denial.to_json() },
    })
}
