//! From the client to the server: what is asked, and judging calls.

use super::{Gate, Passage, is_blank, locked, one_line};
use crate::audit::{Brief, Field};
use crate::capability::{is_cut_by_some, likened};
use crate::decide::{Denial, DenialCode};
use crate::mcp::call::{Call, action, spelled};
use crate::mcp::flight::{Asked, FlightError, Page};
use crate::mcp::protocol::{
    Era, Fault, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Id, Json, Kind, Message, error_line,
    guess_id, raw, result_line,
};
use crate::mcp::results::{denial_result, policy_result};
use crate::mcp::rules::Rules;
use crate::tool::GET_POLICY;
use serde_json::json;

const CALL: &str = "tools/call";
const LIST: &str = "tools/list";
/// The longest identifier; each is remembered until its request is answered, and many may never be.
const LONGEST_ID: usize = 1024;
/// The longest name of a tool, which is remembered as long.
const LONGEST_TOOL: usize = 4096;
/// The methods that are policed, or that tell something the gate must know.
const KNOWN: [&str; 7] = [
    CALL,
    LIST,
    "initialize",
    "server/discover",
    "subscriptions/listen",
    "notifications/initialized",
    "notifications/cancelled",
];

impl Gate {
    /// What becomes of a line from the client.
    pub fn from_client(&self, line: &[u8]) -> Passage {
        if is_blank(line) {
            return Passage::Dropped;
        }
        let message = match Message::read(line) {
            Ok(message) => message,
            Err(fault) => return self.refuse_from_client(&fault, line, &[]),
        };
        let passage = match &message.kind {
            Kind::Answer { .. } => Ok(Passage::AsIs),
            Kind::Request { method, .. } | Kind::Notification { method, .. } if is_disguised(method) => {
                Err(Fault::NotMessage("some readers would take this method for another"))
            }
            Kind::Notification { method, params } => self.notification(method, *params),
            Kind::Request { id, .. } if id.spelled().len() > LONGEST_ID => {
                Err(Fault::NotMessage("an `id` has at most 1024 bytes"))
            }
            Kind::Request { id, method, params } => self.request(&message, *id, method, *params),
        };
        match passage {
            Ok(Passage::AsIs) if message.separators => Passage::Instead(one_line(message.line)),
            Ok(passage) => passage,
            Err(fault) => self.refuse_from_client(&fault, line, &[]),
        }
    }

    /// Refuses a line from the client, of which the beginning and perhaps the end are known, and says so under its
    /// identifier if that can be made out.
    pub fn refuse_from_client(&self, fault: &Fault, head: &[u8], tail: &[u8]) -> Passage {
        self.refuse_line("client", fault, head);
        let id = guess_id(head, tail);
        Passage::Back(error_line(id.as_deref(), fault.code(), &format!("refused by sbx: {fault}"), None))
    }

    fn notification(&self, method: &str, params: Option<&str>) -> Result<Passage, Fault> {
        if method == CALL || method == LIST {
            return Err(Fault::NotMessage("this method is a request, with an `id`"));
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
        let kind = match method {
            CALL => return self.call(message, id, params),
            LIST => {
                let cursor =
                    params.and_then(|params| raw(params, "cursor")).filter(|cursor| *cursor != "null");
                Asked::Tools(cursor.map_or(Page::First, |cursor| {
                    let cursor = Json::read(cursor).ok();
                    Page::after(cursor.as_ref().and_then(Json::text).unwrap_or_default())
                }))
            }
            "initialize" | "server/discover" => Asked::Introduction,
            "subscriptions/listen" => {
                let wanted = params.and_then(|params| raw(params, "notifications"));
                let tools = wanted.and_then(|wanted| raw(wanted, "toolsListChanged")) == Some("true");
                Asked::Subscription { tools, acknowledged: false }
            }
            _ => Asked::Other,
        };
        Ok(self.begin(id, kind).err().unwrap_or(Passage::AsIs))
    }

    fn begin(&self, id: Id<'_>, kind: Asked) -> Result<(), Passage> {
        let begun = locked(&self.flight).begin(id, kind);
        begun.map_err(|error| {
            let code = match error {
                FlightError::Taken => INVALID_REQUEST,
                FlightError::Full => INTERNAL_ERROR,
            };
            self.turn_away(id, code, &error.to_string())
        })
    }

    /// The answer to a request that is not even judged.
    fn turn_away(&self, id: Id<'_>, code: i64, why: &str) -> Passage {
        self.note_refused(json!({
            "decision": "deny", "direction": "client", "call": id.spelled(), "message": why,
        }));
        Passage::Back(error_line(Some(id.spelled()), code, &format!("refused by sbx: {why}"), None))
    }

    /// A call: taken apart, judged, and sent on in its one spelling.
    fn call(&self, message: &Message<'_>, id: Id<'_>, params: Option<&str>) -> Result<Passage, Fault> {
        let era = || Era::of(params);
        let tree = message.tree()?;
        let Some(call) = Call::read(&tree)? else {
            return Ok(self.turn_away(id, INVALID_PARAMS, "a call has `name` and, if any, `arguments`"));
        };
        if call.tool.len() > LONGEST_TOOL {
            return Ok(self.turn_away(id, INVALID_PARAMS, "the name of a tool has at most 4096 bytes"));
        }
        let rules = self.rules();
        let event = |decision| {
            json!({
                "decision": decision, "call": id.spelled(), "tool": call.tool, "action": null,
                "retry": call.retry,
            })
        };
        if call.tool == GET_POLICY {
            let answer = || Passage::Back(result_line(id, &era().result(policy_result(&rules))));
            let recorded = self.record(event("allow"));
            return Ok(recorded.map_or_else(|error| unrecorded(id, &error), |()| answer()));
        }
        let action = match self.judge(&rules, &call) {
            Ok(action) => action,
            Err(denial) => {
                let mut event = event("deny");
                event["denial"] = denial.to_json();
                let answer = || Passage::Back(result_line(id, &era().result(denial_result(&denial))));
                return Ok(self.record(event).map_or_else(|error| unrecorded(id, &error), |()| answer()));
            }
        };
        // What is recorded as allowed is on its way: nothing can refuse it any more.
        let kind = Asked::Call { tool: call.tool.to_owned(), refused: Vec::new() };
        if let Err(back) = self.begin(id, kind) {
            return Ok(back);
        }
        // The rest of keeping it waits until it is on its way.
        let fields = [
            ("decision", Field::Text("allow")),
            ("call", Field::Text(id.spelled())),
            ("tool", Field::Text(call.tool)),
            ("action", action.into()),
            ("retry", Field::Flag(call.retry)),
            ("server", Field::Text(&self.server)),
        ];
        let event = Brief { kind: "mcp", agent: rules.policy.agent(), fields: &fields };
        if let Err(error) = self.audit.record_first(event) {
            locked(&self.flight).end(id);
            return Ok(unrecorded(id, &error));
        }
        Ok(Passage::Instead(spelled(&tree, id)))
    }

    /// Every layer that can say no before the server sees the call; what the call's action is.
    fn judge<'c>(&self, rules: &Rules, call: &'c Call<'c>) -> Result<Option<&'c str>, Box<Denial>> {
        let agent = rules.policy.agent();
        let invalid =
            |message: String| Box::new(Denial::of_tool(DenialCode::InvalidParams, agent, call.tool, message));
        if is_cut_by_some(call.tool) {
            return Err(invalid("some readers would take its name for another".to_owned()));
        }
        let list = &rules.allowlist;
        let action = match list.action_argument(call.tool) {
            None => None,
            Some(argument) => action(call.arguments, argument).map_err(invalid)?,
        };
        if !list.allows(call.tool, action) {
            return Err(Box::new(list.denial(agent, call.tool, action)));
        }
        {
            let mut seen = locked(&self.seen);
            seen.check(rules, call.tool)?;
            seen.unfinished(rules).into_iter().for_each(|warning| self.teller.tell(&warning));
        }
        if let Some(arguments) = call.arguments {
            rules.judge_arguments(call.tool, arguments)?;
        }
        Ok(action)
    }
}

fn unrecorded(id: Id<'_>, error: &std::io::Error) -> Passage {
    let text = format!("refused by sbx: the call cannot be recorded: {error}");
    Passage::Back(error_line(Some(id.spelled()), INTERNAL_ERROR, &text, None))
}

/// Whether some reader could take a method for one of those the gate knows, though it is not.
fn is_disguised(method: &str) -> bool {
    let taken_for = likened(method);
    KNOWN.iter().any(|known| *known == taken_for && *known != method)
}
