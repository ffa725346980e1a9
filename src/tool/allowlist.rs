//! The third layer: may this tool, or this action of it, be called at all?
//!
//! Pure. Answers for names only; what a call does with its arguments is for [`decide`](crate::decide).
//! Invariant: the same call gets the same answer every time, and nothing here can widen anything.

use crate::capability::{NameCase, ToolPattern, likened};
use crate::decide::{Denial, DenialCode};
use crate::manifest::Mcp;
use serde_json::{Value, json};

/// The tool that shows the policy: read-only, and always callable.
pub const GET_POLICY: &str = "get_policy";

/// Which tools and actions may be called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowlist {
    patterns: Option<Vec<ToolPattern>>,
    case: NameCase,
    actions: Vec<(String, String)>,
}

impl Allowlist {
    /// The allowlist a section or a file says, and where actions are by a ready map when it does not say itself.
    #[must_use]
    pub fn new(section: &Mcp, ready: &[(String, String)]) -> Self {
        let actions = section.actions.iter().chain(ready).cloned().collect();
        Self { patterns: section.allowed_tools.clone(), case: section.case, actions }
    }

    /// Whether the layer is on.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.patterns.is_some()
    }

    /// The entries as written.
    #[must_use]
    pub fn entries(&self) -> Vec<String> {
        self.patterns.iter().flatten().map(ToString::to_string).collect()
    }

    /// The argument that names a tool's action, if its calls have actions.
    #[must_use]
    pub fn action_argument(&self, tool: &str) -> Option<&str> {
        let exact = self.actions.iter().find(|(name, _)| name == tool);
        // An action only narrows, so whatever a server could take for the tool has its actions.
        let alike = || self.actions.iter().find(|(name, _)| likened(name) == likened(tool));
        exact.or_else(alike).map(|(_, argument)| argument.as_str())
    }

    /// Whether a call may be made.
    #[must_use]
    pub fn allows(&self, tool: &str, action: Option<&str>) -> bool {
        let Some(patterns) = &self.patterns else { return true };
        tool == GET_POLICY || patterns.iter().any(|pattern| pattern.allows(tool, action, self.case))
    }

    /// Whether some call of a tool may be made; else it need not be shown.
    #[must_use]
    pub fn shows(&self, tool: &str) -> bool {
        let Some(patterns) = &self.patterns else { return true };
        let acts = self.action_argument(tool).is_some();
        tool == GET_POLICY || patterns.iter().any(|pattern| pattern.allows_some(tool, acts, self.case))
    }

    /// The no to a call.
    #[must_use]
    pub fn denial(&self, agent: &str, tool: &str, action: Option<&str>) -> Denial {
        let name = action.map_or_else(|| tool.to_owned(), |action| format!("{tool}.{action}"));
        let entries = self.entries();
        let allowed = if entries.is_empty() { "nothing".to_owned() } else { entries.join(", ") };
        let message = format!("{name} is not permitted. Allowed: {allowed}");
        let mut denial = Denial::of_tool(DenialCode::ToolNotAllowed, agent, tool, message);
        denial.request = json!({ "tool": tool, "action": action, "allowed_tools": entries });
        denial
    }

    /// How much is permitted, for the log.
    #[must_use]
    pub fn summary(&self) -> String {
        match &self.patterns {
            Some(patterns) => format!("{} tools/actions permitted", patterns.len()),
            None => "all tools/actions permitted (there is no allowlist)".to_owned(),
        }
    }

    /// What is active, for whoever asks.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let actions: serde_json::Map<String, Value> =
            self.actions.iter().rev().map(|(tool, argument)| (tool.clone(), json!(argument))).collect();
        json!({
            "allowlist_enabled": self.is_on(),
            "allowed_tools": self.patterns.as_ref().map(|_| self.entries()),
            "case": match self.case { NameCase::Any => "any", NameCase::Exact => "exact" },
            "actions": actions,
        })
    }
}

/// A denial as the short body that a tool's caller reads.
#[must_use]
pub fn body(denial: &Denial) -> Value {
    let mut body = json!({ "error": denial.code.name(), "message": denial.message, "tool": denial.tool });
    for key in ["action", "allowed_tools"] {
        if let Some(value) = denial.request.get(key) {
            body[key] = value.clone();
        }
    }
    let mut whole = denial.to_json();
    for key in ["nearest_grant", "suggested_grant", "hint"] {
        let value = whole[key].take();
        if !value.is_null() {
            body[key] = value;
        }
    }
    body
}
