//! From the server to the client: answers to what was asked, and nothing else.

use super::{Ended, Gate, Passage, is_blank, locked, one_line};
use crate::mcp::flight::{Asked, Page};
use crate::mcp::listing;
use crate::mcp::pins::{Pins, keep};
use crate::mcp::protocol::{
    Fault, INTERNAL_ERROR, Id, Json, Kind, Message, SUBSCRIPTION_ID, error_line, guess_id, lookalike, raw,
    without_like,
};
use crate::mcp::results::{answer_line, attach};
use crate::mcp::rules::Rules;
use std::time::Instant;

const INSTRUCTIONS: &str = "instructions";

/// What a server tells models about itself.
enum Told {
    /// A text, or nothing.
    Plain(Option<String>),
    /// Something that some client could make a text of.
    Odd,
}

impl Told {
    fn read(answer: &Json<'_>) -> Self {
        let result = answer.get("result");
        let members = result.and_then(Json::members).unwrap_or_default();
        match result.and_then(|result| result.get(INSTRUCTIONS)) {
            _ if lookalike(members, INSTRUCTIONS).is_some() => Self::Odd,
            None | Some(Json::Null) => Self::Plain(None),
            Some(Json::Text(text)) => Self::Plain(Some(text.clone().into_owned())),
            Some(_) => Self::Odd,
        }
    }
}

impl Gate {
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
        let told = self.refuse_line("server", fault, head);
        let id = guess_id(head, tail);
        let request = id.as_deref().and_then(Id::read).and_then(|id| locked(&self.flight).end(id));
        match request {
            Some(request) => {
                let text = format!("the server's answer was refused by sbx: {fault}");
                Passage::Instead(error_line(Some(&request.id), INTERNAL_ERROR, &text, None))
            }
            None if !told => Passage::Dropped,
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
        if let Some(Asked::Subscription { acknowledged, .. }) = request.map(|request| &mut request.kind) {
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
            Asked::Tools(asked) => match result {
                None => Passage::AsIs,
                Some(_) => self.listing(message, id, asked),
            },
            Asked::Introduction => match result {
                Some(result) => self.introduction(message, id, result),
                None => Passage::AsIs,
            },
            Asked::Call { tool, refused } => {
                let is_error = result.is_none_or(|result| raw(result, "isError") == Some("true"));
                let attached =
                    result.filter(|_| !refused.is_empty()).and_then(|result| attach(result, &refused));
                let passage = match attached {
                    Some(result) => Passage::Instead(answer_line(id, &result)),
                    None => Passage::AsIs,
                };
                let (id, took) = (id.spelled().to_owned(), request.since.elapsed());
                locked(&self.ended).push(Ended { id, tool, at: Instant::now(), took, is_error, refused });
                passage
            }
        }
    }

    fn listing(&self, message: &Message<'_>, id: Id<'_>, asked: Page) -> Passage {
        let rules = self.rules();
        let shown = message.tree().map(|tree| {
            let mut seen = locked(&self.seen);
            listing::filtered(&tree, &rules, &mut seen, asked)
        });
        match shown {
            Ok(Some(listing)) => {
                listing.remarks.iter().for_each(|remark| self.teller.tell(remark));
                if let Some(pins) = listing.first_sight {
                    self.keep_pins(&rules, &Pins { package: self.package.clone(), ..pins });
                }
                Passage::Instead(answer_line(id, &listing.result))
            }
            Ok(None) => self.unreadable(id, &Fault::NotMessage("a list of tools has `tools`"), message.line),
            Err(fault) => self.unreadable(id, &fault, message.line),
        }
    }

    fn keep_pins(&self, rules: &Rules, pins: &Pins) {
        let Some(pinned) = &rules.pins else { return };
        match keep(&pinned.file, &self.server, pins) {
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
            Ok(tree) => Told::read(&tree),
            Err(fault) => return self.unreadable(id, &fault, message.line),
        };
        let known = match told {
            Told::Plain(told) => locked(&self.seen).knows(pinned, told),
            Told::Odd => false,
        };
        if known {
            return Passage::AsIs;
        }
        self.teller.tell("the server's instructions are not the pinned ones; they were taken out");
        match without_like(result, INSTRUCTIONS) {
            Some(result) => Passage::Instead(answer_line(id, &result)),
            None => Passage::Dropped,
        }
    }
}
