//! Grants written back as YAML.

use crate::capability::{ScopeValue, Spec};
use std::fmt::Write;

/// One grant as a list entry in flow style: `records.read` or `net.get: {hosts: [a.com]}`.
#[must_use]
pub(crate) fn entry(spec: &Spec) -> String {
    if spec.scope.is_bare() {
        return spec.capability.name().to_owned();
    }
    let mut text = format!("{}: {{", spec.capability);
    for (index, (key, value)) in spec.scope.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let _ = write!(text, "{separator}{}: ", key.name());
        match value {
            ScopeValue::Text(item) => text.push_str(&scalar(item)),
            ScopeValue::List(items) => {
                let items: Vec<String> = items.iter().map(|item| scalar(item)).collect();
                let _ = write!(text, "[{}]", items.join(", "));
            }
        }
    }
    text.push('}');
    text
}

/// A block list under `capabilities:`, with the file's own line ends.
pub(super) fn block_lines(entries: &[String], newline: &str) -> String {
    if entries.is_empty() {
        return "capabilities: []".to_owned();
    }
    entries.iter().fold(String::from("capabilities:"), |text, entry| format!("{text}{newline}  - {entry}"))
}

/// A new agent's record.
pub(crate) fn record(id: &str, description: Option<&str>, root: Option<&str>, specs: &[Spec]) -> String {
    let mut text = format!("---\nid: {}\nclass: agent\n", scalar(&format!("agents/{id}")));
    if let Some(description) = description {
        let _ = writeln!(text, "description: {}", quoted(description));
    }
    if let Some(root) = root {
        let _ = writeln!(text, "sandbox: {{root: {}}}", scalar(root));
    }
    let _ =
        writeln!(text, "{}\n---\n# {id}", block_lines(&specs.iter().map(entry).collect::<Vec<_>>(), "\n"));
    text
}

/// A string that any YAML reader takes for this string; quoted unless it is plainly a word or path.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./~-$".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || "/~$_".contains(c));
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "~"
    );
    if starts && !word && text.chars().all(plain) { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
