//! Lists of tools: what the client is shown of them, and whether they are what was pinned.
//!
//! Invariant: a tool that may not be called, or is not as it was pinned, is on no page.

use super::pins::{Pins, pinned_part};
use super::protocol::{Json, line_of};
use super::rules::Rules;
use crate::decide::{Denial, DenialCode};
use crate::tool::GET_POLICY;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where sbx shows the policy in a list.
const POLICY_KEY: &str = "sbx/policy";

/// What was seen of the server's tools.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Whether a client has finished the handshake of the old era.
    pub(super) introduced: bool,
    /// What the server told of itself, as long as nothing is pinned.
    pub(super) instructions: Option<String>,
    /// The definitions, as they were last listed.
    definitions: BTreeMap<String, Value>,
    /// Pins taken at first sight, until the whole list was seen.
    first: Option<Pins>,
    /// Pins that hold.
    pins: Option<Pins>,
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
    pub(super) fn new(rules: &Rules) -> Self {
        let mut seen = Self::default();
        seen.repin(rules);
        seen
    }

    /// Takes the pins of other rules.
    pub(super) fn repin(&mut self, rules: &Rules) {
        match &rules.pins {
            None => (self.first, self.pins) = (None, None),
            Some(pinned) => match &pinned.pins {
                Some(pins) => (self.first, self.pins) = (None, Some(pins.clone())),
                // Nothing was ever seen of this server: the first list counts.
                None if self.pins.is_none() => self.first = Some(Pins::default()),
                None => {}
            },
        }
    }

    /// Whether a tool is what was pinned.
    pub(super) fn check(&self, rules: &Rules, tool: &str) -> Result<(), Box<Denial>> {
        if rules.pins.is_none() {
            return Ok(());
        }
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
        let Some(pins) = self.pins.as_ref().or(self.first.as_ref()) else { return Ok(()) };
        let differences = pins.differences(tool, definition);
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
pub(super) fn filtered(message: &Json<'_>, rules: &Rules, seen: &mut Seen, first: bool) -> Option<Listing> {
    let members = message.get("result")?.members()?;
    let tools = message.get("result")?.get("tools")?.items()?;
    let last = !matches!(message.get("result")?.get("nextCursor"), Some(Json::Text(_)));
    let mut remarks = Vec::new();
    let mut shown = Vec::new();
    for tool in tools {
        let Some(name) = tool.get("name").and_then(Json::text) else { continue };
        if rules.pins.is_some() {
            let definition = pinned_part(&tool.to_value());
            if let Some(first) = &mut seen.first {
                first.tools.entry(name.to_owned()).or_insert_with(|| definition.clone());
            }
            seen.definitions.insert(name.to_owned(), definition);
        }
        if name == GET_POLICY || !rules.allowlist.shows(name) {
            continue;
        }
        match seen.check(rules, name) {
            Ok(()) => shown.push(tool),
            Err(denial) => remarks.push(format!("{} is blocked: {}", name, denial.message)),
        }
    }
    let first_sight = if last { seen.first.take() } else { None }
        .map(|pins| Pins { instructions: seen.instructions.take(), ..pins });
    if let Some(pins) = &first_sight {
        seen.pins = Some(pins.clone());
    }
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

/// A map's text without one of its members.
pub(super) fn without(map: &str, key: &str) -> Option<String> {
    let tree = Json::read(map).ok()?;
    let kept = tree.members()?.iter().filter(|(name, _)| name != key).cloned().collect();
    let mut out = String::new();
    Json::Map(kept).write(&mut out);
    Some(out)
}
