//! What was learned as a record.

use super::Learned;
use crate::capability::Risk;
use crate::manifest::render_entry;
use std::fmt::Write;

/// The text of a record that holds what was learned.
#[must_use]
pub fn record_text(id: &str, command: &str, learned: &Learned) -> String {
    let description = serde_json::Value::from(format!("learned from `{command}`"));
    let mut text = format!("---\nid: agents/{id}\nclass: agent\ndescription: {description}\n");
    if learned.grants.is_empty() {
        text.push_str("capabilities: []\n");
    } else {
        text.push_str("capabilities:\n");
    }
    for grant in &learned.grants {
        let risk = Risk::name(grant.spec.capability.risk());
        // A path could hold the end of a line, which would end the comment.
        let why: String = grant.why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = writeln!(text, "  # {risk}: {why}\n  - {}", render_entry(&grant.spec));
    }
    if !learned.env.is_empty() {
        let _ = writeln!(text, "env: [{}]", learned.env.join(", "));
    }
    text.push_str("---\n");
    text
}
