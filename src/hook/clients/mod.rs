//! The clients, one file a contract: how each tells of a call, and how it wants its answer.

mod cursor;
mod gemini;
mod pre_tool_use;

use super::call::Call;
use super::judge::Verdict;
use crate::decide::Denial;
use crate::mcp::protocol::Json;
use serde_json::Value;
use std::fmt;

/// A client that asks hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Cursor.
    Cursor,
    /// VS Code.
    Vscode,
    /// Gemini CLI.
    Gemini,
}

impl Client {
    /// Every client.
    pub const ALL: [Self; 5] = [Self::ClaudeCode, Self::Codex, Self::Cursor, Self::Vscode, Self::Gemini];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Gemini => "gemini",
        }
    }

    /// The client of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.name() == name)
    }

    /// Whether its hooks can have the user asked.
    #[must_use]
    pub const fn asks(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::Cursor | Self::Vscode)
    }

    /// Reads what it tells of a call.
    pub(super) fn read<'j>(self, asked: &'j Json<'j>) -> Result<Call<'j>, String> {
        match self {
            Self::ClaudeCode | Self::Codex => pre_tool_use::read(asked),
            Self::Cursor => cursor::read(asked),
            Self::Vscode => pre_tool_use::read_of_vscode(asked),
            Self::Gemini => gemini::read(asked),
        }
    }

    /// What it is told.
    pub(super) fn say(self, verdict: &Verdict<'_>, ask: bool) -> String {
        match self {
            Self::ClaudeCode | Self::Vscode => pre_tool_use::say(verdict, ask),
            Self::Codex => pre_tool_use::say(verdict, false),
            Self::Cursor => cursor::say(verdict, ask),
            Self::Gemini => gemini::say(verdict),
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a call is not made, for a model and its user.
fn reason(denial: &Denial) -> String {
    format!("blocked by sbx: {denial}")
}

/// A JSON string.
fn string(text: &str) -> String {
    Value::from(text).to_string()
}

fn spelled(input: &Json<'_>) -> String {
    let mut out = String::new();
    input.write(&mut out);
    out
}

/// What the tool could be called in `mcp__SERVER__TOOL`.
fn served(tool: &str) -> Vec<&str> {
    tool.strip_prefix("mcp__").map(|rest| after_each(rest, "__")).unwrap_or_default()
}

/// What the tool could be called in `mcp_SERVER_TOOL`.
fn served_by_one(tool: &str) -> Vec<&str> {
    tool.strip_prefix("mcp_").map(|rest| after_each(rest, "_")).unwrap_or_default()
}

/// Everything that stands after a separator: which of them parts the server from its tool is not said.
fn after_each<'t>(rest: &'t str, separator: &str) -> Vec<&'t str> {
    let places = rest.char_indices().skip(1).filter(|(at, _)| rest[*at..].starts_with(separator));
    places.map(|(at, _)| &rest[at + separator.len()..]).filter(|tool| !tool.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_tool_is_whatever_its_name_could_mean() {
        assert_eq!(served("mcp__notes__read"), ["read"]);
        assert_eq!(served("mcp__my__notes__read"), ["notes__read", "read"]);
        assert_eq!(served("mcp__a___b"), ["_b", "b"]);
        assert_eq!(served_by_one("mcp_my_srv_write_file"), ["srv_write_file", "write_file", "file"]);
        for none in ["mcp__notes", "mcp__", "mcp__a__", "Bash", "mcp____x"] {
            assert!(served(none).iter().all(|tool| *tool == "x"), "{none}");
        }
    }
}
