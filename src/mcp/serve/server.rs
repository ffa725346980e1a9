//! One server: what becomes of every line a client writes.
//!
//! Answers for lines without reading or writing any stream itself: a line is answered at once, becomes a call to be
//! carried out, or needs no answer. It leaves the streams to [`life`](super::life).
//! Invariant: what is refused by any layer is told to the client and to the log alike.

use super::calls::{Calls, Underway};
use super::notices::{self, Hears, Notices};
use super::offer::Reply;
use super::requests::{self, Refusal};
use super::scene::{Means, Scene};
use super::{answer, sets};
use crate::audit::Event;
use crate::decide::{Denial, DenialCode};
use crate::mcp::gate::{Teller, is_blank};
use crate::mcp::protocol::{
    Era, Fault, INVALID_REQUEST, Id, Json, Kind, Message, error_line, guess_id, lookalike, result_line,
};
use serde_json::{Map, Value, json};
use std::sync::{Arc, PoisonError, RwLock};

/// The most of a refused line that is recorded.
const SHOWN: usize = 200;
/// The longest identifier, name or token that is told back.
const LONGEST: usize = 1024;

/// A server of one agent.
#[derive(Debug)]
pub struct Server {
    scene: RwLock<Arc<Scene>>,
    means: Means,
    teller: Arc<dyn Teller>,
    pub(super) calls: Calls,
    pub(super) notices: Notices,
}

/// What becomes of a line.
#[derive(Debug)]
#[must_use]
pub enum Handled {
    /// It needs no answer.
    Nothing,
    /// These lines answer it.
    Answer(String),
    /// It is a call, to be carried out.
    Call(Job),
}

/// A call to be carried out.
#[derive(Debug)]
pub struct Job {
    server: Arc<Server>,
    call: Arc<Underway>,
    name: String,
    arguments: Map<String, Value>,
    era: Era,
    hears: Hears,
    /// Bytes of the line it came on.
    pub(super) bytes: usize,
}

impl Server {
    /// A server with its first scene.
    #[must_use]
    pub fn new(scene: Scene, means: Means, teller: Arc<dyn Teller>) -> Arc<Self> {
        let (calls, notices) = (Calls::default(), Notices::new());
        Arc::new(Self { scene: RwLock::new(Arc::new(scene)), means, teller, calls, notices })
    }

    /// The agent as it stands now.
    #[must_use]
    pub fn scene(&self) -> Arc<Scene> {
        Arc::clone(&self.scene.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Judges by another scene from now on; whether its list of tools is another too.
    pub fn swap(&self, scene: Scene) -> bool {
        let listed = |scene: &Scene| -> Vec<Value> {
            sets::shown(scene).iter().map(super::offer::Offer::listed).collect()
        };
        let scene = Arc::new(scene);
        let before = std::mem::replace(
            &mut *self.scene.write().unwrap_or_else(PoisonError::into_inner),
            Arc::clone(&scene),
        );
        listed(&before) != listed(&scene)
    }

    /// What calls are carried out with.
    #[must_use]
    pub fn means(&self) -> &Means {
        &self.means
    }

    fn record(&self, mut body: Value) {
        body["server"] = json!("sbx");
        let event = Event::new("mcp", self.scene().agent(), body);
        // What runs is recorded before it runs; this only tells of the call.
        if let Err(error) = self.means.audit.record(event) {
            self.teller.tell(&format!("a call cannot be recorded: {error}"));
        }
    }

    /// What becomes of a line.
    pub fn handle(self: &Arc<Self>, line: &[u8]) -> Handled {
        if is_blank(line) {
            return Handled::Nothing;
        }
        let handled = Message::read(line).and_then(|message| {
            let tree = message.tree()?;
            let params = tree.get("params");
            match &message.kind {
                Kind::Answer { .. } => Ok(Handled::Nothing),
                Kind::Notification { method, .. } => {
                    self.notified(method, params);
                    Ok(Handled::Nothing)
                }
                Kind::Request { id, method, .. } => self.asked(*id, method, params, line.len()),
            }
        });
        handled.unwrap_or_else(|fault| self.refuse(&fault, line))
    }

    /// Refuses a line that is no message, or not one message to every reader.
    pub fn refuse(&self, fault: &Fault, line: &[u8]) -> Handled {
        let start = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned();
        self.record(json!({
            "decision": "deny", "direction": "client", "fault": fault.name(), "message": fault.to_string(),
            "line": start, "bytes": line.len(),
        }));
        let id = guess_id(line, &[]).filter(|id| id.len() <= LONGEST);
        Handled::Answer(error_line(id.as_deref(), fault.code(), &fault.to_string(), None))
    }

    fn notified(&self, method: &str, params: Option<&Json<'_>>) {
        match method {
            "notifications/initialized" => self.notices.introduce(),
            "notifications/cancelled" => {
                let mut spelled = String::new();
                if let Some(id) = params.and_then(|params| params.get("requestId")) {
                    id.write(&mut spelled);
                }
                if let Some(id) = Id::read(&spelled) {
                    self.calls.cancel(id);
                    self.notices.unsubscribe(id);
                }
            }
            // What a client tells and nobody knows is nobody's business.
            _ => {}
        }
    }

    fn asked(
        self: &Arc<Self>,
        id: Id<'_>,
        method: &str,
        params: Option<&Json<'_>>,
        bytes: usize,
    ) -> Result<Handled, Fault> {
        if id.spelled().len() > LONGEST {
            return Err(Fault::NotMessage("`id` is longer than anything a client needs"));
        }
        let answered = requests::era(params).and_then(|era| {
            if method == "tools/call" {
                return self.call(id, params, era, bytes);
            }
            let result = self.answered(id, method, params, era)?;
            Ok(Ok(result.map_or(Handled::Nothing, Handled::Answer)))
        });
        match answered {
            Ok(handled) => handled,
            Err(refusal) => {
                let line =
                    error_line(Some(id.spelled()), refusal.code, &refusal.message, refusal.data.clone());
                Ok(Handled::Answer(line))
            }
        }
    }

    /// The lines that answer a request that is no call.
    fn answered(
        &self,
        id: Id<'_>,
        method: &str,
        params: Option<&Json<'_>>,
        era: Era,
    ) -> Result<Option<String>, Refusal> {
        let scene = self.scene();
        let result = match (era, method) {
            (_, "tools/list") => requests::list(params, &scene, era)?,
            (Era::Legacy, "initialize") => requests::initialize(params, &scene),
            (Era::Legacy, "ping") => json!({}),
            (Era::Legacy, "logging/setLevel") => {
                let level = params.and_then(|params| params.get("level")).and_then(Json::text);
                let level = level.and_then(notices::level);
                self.notices.set_level(level.ok_or_else(|| Refusal::params("`level` is not a level"))?);
                json!({})
            }
            (Era::Modern, "server/discover") => requests::discover(&scene),
            (Era::Modern, "subscriptions/listen") => {
                let wanted = params.and_then(|params| params.get("notifications"));
                let Some(wanted) = wanted.filter(|wanted| wanted.members().is_some()) else {
                    return Err(Refusal::params("`notifications` says what to listen for"));
                };
                let tools = wanted.get("toolsListChanged") == Some(&Json::Bool(true));
                let line = self.notices.subscribe(id, tools);
                return line.map(Some).ok_or_else(|| Refusal::params("there are too many subscriptions"));
            }
            (Era::Legacy, "server/discover" | "subscriptions/listen") => {
                return Err(Refusal::params("a request of this era names its version in _meta"));
            }
            _ => return Err(Refusal::method(method)),
        };
        Ok(Some(result_line(id, &requests::finished(era, result))))
    }

    /// Takes a call on.
    fn call(
        self: &Arc<Self>,
        id: Id<'_>,
        params: Option<&Json<'_>>,
        era: Era,
        bytes: usize,
    ) -> Result<Result<Handled, Fault>, Refusal> {
        let members = params.and_then(Json::members).unwrap_or_default();
        for key in ["name", "arguments", "_meta"] {
            if let Some(other) = lookalike(members, key) {
                return Ok(Err(Fault::Lookalike(other.to_owned())));
            }
        }
        let get = |key: &str| params.and_then(|params| params.get(key));
        let Some(name) = get("name").and_then(Json::text).filter(|name| name.len() <= LONGEST) else {
            return Err(Refusal::params("a call has the `name` of a tool"));
        };
        let arguments = match get("arguments") {
            None | Some(Json::Null) => Map::new(),
            Some(arguments @ Json::Map(_)) => match arguments.to_value() {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            },
            Some(_) => return Err(Refusal::params("`arguments` is not an object")),
        };
        let token = get("_meta").and_then(|meta| meta.get("progressToken"));
        let token = token.filter(|token| match token {
            Json::Text(token) => token.len() <= LONGEST,
            Json::Number(token) => token.len() <= LONGEST,
            Json::Null | Json::Bool(_) | Json::List(_) | Json::Map(_) => false,
        });
        let token = token.map(Json::to_value);
        let hears = if era == Era::Modern { requests::hears(params) } else { self.notices.level() };
        let Some(call) = self.calls.begin(id, token) else {
            let message = "a request with this identifier is under way".to_owned();
            return Err(Refusal { code: INVALID_REQUEST, message, data: None });
        };
        let (server, name) = (Arc::clone(self), name.to_owned());
        Ok(Ok(Handled::Call(Job { server, call, name, arguments, era, hears, bytes })))
    }
}

impl Job {
    /// Whether it is answered without starting anything.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        sets::is_quick(&self.name)
    }

    /// Carries the call out; what is to be told of it goes to `send`, line by line, the answer last.
    pub fn run(self, send: &dyn Fn(&str)) {
        let scene = self.server.scene();
        let reply = if self.call.cancel.is_cancelled() {
            Reply::failed("it was cancelled before it began")
        } else {
            self.call.tell_progress(send);
            self.judged(&scene)
        };
        self.tell(&reply, send);
    }

    /// Every layer in turn.
    fn judged(&self, scene: &Scene) -> Reply {
        match self.listed(scene) {
            Err(denial) => Reply::Denied(denial),
            Ok(()) => sets::carry_out(&sets::Call {
                name: &self.name,
                arguments: &self.arguments,
                scene,
                means: &self.server.means,
                cancel: &self.call.cancel,
            }),
        }
    }

    /// The allowlist, and the rules for arguments.
    fn listed(&self, scene: &Scene) -> Result<(), Box<Denial>> {
        let (list, agent) = (&scene.rules.allowlist, scene.agent());
        let action = match list
            .action_argument(&self.name)
            .and_then(|name| Some((name, self.arguments.get(name)?)))
        {
            None | Some((_, Value::Null)) => None,
            Some((_, Value::String(action))) => Some(action.as_str()),
            Some((name, _)) => {
                let message = format!("`{name}` names the action and is not a string");
                return Err(Box::new(Denial::of_tool(DenialCode::InvalidParams, agent, &self.name, message)));
            }
        };
        if !list.allows(&self.name, action) {
            return Err(Box::new(list.denial(agent, &self.name, action)));
        }
        let text = Value::Object(self.arguments.clone()).to_string();
        match Json::read(&text) {
            Ok(arguments) => scene.rules.judge_arguments(&self.name, &arguments),
            Err(fault) => {
                let message = fault.to_string();
                Err(Box::new(Denial::of_tool(DenialCode::InvalidParams, agent, &self.name, message)))
            }
        }
    }

    /// Records the call, tells what was refused, and answers.
    fn tell(&self, reply: &Reply, send: &dyn Fn(&str)) {
        let milliseconds = u64::try_from(self.call.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut body = json!({
            "call": self.call.id, "tool": self.name, "decision": "allow", "duration_ms": milliseconds,
            "is_error": !matches!(reply, Reply::Done { .. }), "cancelled": self.call.cancel.is_cancelled(),
        });
        let denials: Vec<Value> = match reply {
            Reply::Denied(denial) => {
                body["decision"] = json!("deny");
                body["denial"] = denial.to_json();
                vec![denial.to_json()]
            }
            Reply::Done { value, .. } | Reply::Failed { value, .. } => {
                value["refused"].as_array().cloned().unwrap_or_default()
            }
        };
        self.server.record(body);
        let result = requests::finished(self.era, answer::result(reply));
        self.server.calls.end(&self.call, || {
            for denial in &denials {
                if let Some(line) = notices::guardrail(&self.call.id, &self.name, denial, self.hears) {
                    send(&line);
                }
            }
            if let Some(id) = Id::read(&self.call.id) {
                send(&result_line(id, &result));
            }
        });
    }
}
