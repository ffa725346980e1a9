//! Lists of tools: what the client is shown of them, and whether they are what was pinned.
//!
//! Invariant: a tool that may not be called, or is not as it was pinned, is on no page.

use super::definitions::{Definitions, MOST, MOST_BYTES};
use super::flight::Page;
use super::pins::{Pins, pinned_part};
use super::protocol::{Json, line_of};
use super::rules::{Pinned, Rules};
use crate::capability::{is_cut_by_some, likened};
use crate::decide::{Denial, DenialCode};
use crate::tool::GET_POLICY;
use serde_json::{Value, json};

/// Where sbx shows the policy in a list.
const POLICY_KEY: &str = "sbx/policy";

/// What was seen of the server's tools.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Whether a client has finished the handshake of the old era.
    pub(super) introduced: bool,
    /// The definitions, as they were last listed.
    definitions: Definitions,
    /// What was seen first; it counts as long as the lock file says nothing of this server.
    first: Pins,
    /// What that takes.
    first_bytes: usize,
    /// Whether the first list was seen to its end, so that nothing more is taken at first sight.
    whole: bool,
    /// The page with which the list that was begun without a cursor goes on.
    next: Option<Page>,
    /// Whether it was said that the first list was not seen to its end.
    warned: bool,
}

/// A page as the client sees it.
#[derive(Debug)]
pub(super) struct Listing {
    /// The result's text.
    pub(super) result: String,
    /// What is worth telling.
    pub(super) remarks: Vec<String>,
    /// Pins to be kept, when this was the end of the first sight.
    pub(super) first_sight: Option<Pins>,
}

impl Seen {
    /// The pins that hold: those of the rules, or what was seen first.
    fn pins<'p>(&'p self, pinned: &'p Pinned) -> &'p Pins {
        pinned.pins.as_ref().unwrap_or(&self.first)
    }

    /// Takes a definition at first sight, if there is room for it.
    fn take_at_first(&mut self, tool: &str, definition: Value, bytes: usize) {
        let full = self.first.tools.len() >= MOST || self.first_bytes + bytes > MOST_BYTES;
        if !full && !self.first.tools.contains_key(tool) {
            self.first_bytes += bytes;
            self.first.tools.insert(tool.to_owned(), definition);
        }
    }

    /// Whether what the server tells of itself is what was pinned; at first sight it is.
    pub(super) fn knows(&mut self, pinned: &Pinned, told: Option<String>) -> bool {
        if pinned.pins.is_none() && !self.whole {
            self.first.instructions = told;
            return true;
        }
        told.is_none() || told == self.pins(pinned).instructions
    }

    /// What to say once when tools are called of which nothing can be pinned, because nobody reads the list to its end.
    pub(super) fn unfinished(&mut self, rules: &Rules) -> Option<String> {
        let pinned =
            rules.pins.as_ref().filter(|pinned| pinned.pins.is_none() && !self.whole && !self.warned)?;
        self.warned = true;
        Some(format!(
            "warning: the list of tools was not read to its end, so nothing is pinned in {} yet; `sbx mcp pin` reads all of it",
            pinned.file.display()
        ))
    }

    /// Whether a page belongs to the list that was begun without a cursor; what follows it is remembered.
    fn goes_on(&mut self, asked: Page, next: Option<&str>) -> bool {
        let own = asked == Page::First || self.next == Some(asked);
        if own {
            self.next = next.map(Page::after);
        }
        own
    }

    /// Whether a tool is what was pinned.
    pub(super) fn check(&self, rules: &Rules, tool: &str) -> Result<(), Box<Denial>> {
        let Some(pinned) = &rules.pins else { return Ok(()) };
        let deny = |message: String, hint: &str| {
            let agent = rules.policy.agent();
            let mut denial = Denial::of_tool(DenialCode::ToolNotAllowed, agent, tool, message);
            denial.hint = Some(hint.to_owned());
            Err(Box::new(denial))
        };
        let Some(definition) = self.definitions.get(tool) else {
            return deny(
                format!("the definition of {tool} has not been seen, so it cannot be compared with its pin"),
                "list the tools first",
            );
        };
        let differences = self.pins(pinned).differences(tool, definition);
        if differences.is_empty() {
            return Ok(());
        }
        deny(
            format!("the definition of {tool} is not the pinned one: {}", differences.join("; ")),
            "look at the difference, then pin it anew: sbx mcp pin",
        )
    }
}

/// A page of tools without those that may not be called; none when it is no page of tools.
pub(super) fn filtered(message: &Json<'_>, rules: &Rules, seen: &mut Seen, asked: Page) -> Option<Listing> {
    let members = message.get("result")?.members()?;
    let tools = message.get("result")?.get("tools")?.items()?;
    let next = message.get("result")?.get("nextCursor").and_then(Json::text);
    let first = asked == Page::First;
    // Whoever began in the middle has not seen all of the list at its end.
    let last = seen.goes_on(asked, next) && next.is_none();
    let mut remarks = Vec::new();
    let mut shown = Vec::new();
    if first {
        seen.definitions.begin_list();
    }
    for tool in tools {
        let Some(name) = tool.get("name").and_then(Json::text) else { continue };
        if let Some(pinned) = &rules.pins {
            let definition = pinned_part(&tool.to_exact_value());
            let at_first = pinned.pins.is_none() && !seen.whole;
            let kept = at_first.then(|| definition.clone());
            // What there is no room for was not seen, and cannot be called.
            let put = seen.definitions.put(name, definition);
            if let (Some(bytes), Some(definition)) = (put, kept) {
                seen.take_at_first(name, definition, bytes);
            }
        }
        // What could be taken for the policy's own tool, or for another's, is never to be called.
        if likened(name) == GET_POLICY || is_cut_by_some(name) || !rules.allowlist.shows(name) {
            continue;
        }
        match seen.check(rules, name) {
            Ok(()) => shown.push(tool),
            Err(denial) => remarks.push(format!("{} is blocked: {}", name, denial.message)),
        }
    }
    let at_first = rules.pins.as_ref().is_some_and(|pinned| pinned.pins.is_none()) && !seen.whole;
    seen.whole |= at_first && last;
    let first_sight = (at_first && last).then(|| seen.first.clone());
    Some(Listing { result: page(members, &shown, rules, first), remarks, first_sight })
}

fn page(
    members: &[(std::borrow::Cow<'_, str>, Json<'_>)],
    shown: &[&Json<'_>],
    rules: &Rules,
    first: bool,
) -> String {
    let mut out = String::from("{");
    for (key, value) in members.iter().filter(|(key, _)| key != "_meta") {
        Json::Text(key.clone()).write(&mut out);
        out.push(':');
        if key == "tools" {
            out.push('[');
            for tool in shown {
                tool.write(&mut out);
                out.push(',');
            }
            if first {
                out.push_str(line_of(&get_policy()).trim_end());
            } else if !shown.is_empty() {
                out.pop();
            }
            out.push(']');
        } else {
            value.write(&mut out);
        }
        out.push(',');
    }
    out.push_str("\"_meta\":{");
    let meta = members.iter().find(|(key, _)| key == "_meta").and_then(|(_, meta)| meta.members());
    for (key, value) in meta.unwrap_or_default().iter().filter(|(key, _)| key != POLICY_KEY) {
        Json::Text(key.clone()).write(&mut out);
        out.push(':');
        value.write(&mut out);
        out.push(',');
    }
    let policy = line_of(&rules.allowlist.to_json());
    out.push_str(&format!("\"{POLICY_KEY}\":{}}}}}", policy.trim_end()));
    out
}

/// The tool that shows the policy.
pub(super) fn get_policy() -> Value {
    json!({
        "name": GET_POLICY,
        "description": "Shows which tools and arguments sbx allows here. Read-only: nothing can be changed through it.",
        "inputSchema": { "type": "object", "properties": {}, "additionalProperties": false },
        "annotations": { "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false },
    })
}
