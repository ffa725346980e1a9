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

/// The tool's name in `mcp__SERVER__TOOL`.
fn served(tool: &str) -> Option<&str> {
    tool.strip_prefix("mcp__")?.split_once("__").map(|(_, tool)| tool)
}

/// The tool's name in `mcp_SERVER_TOOL`, for servers without a `_` in their names.
fn served_by_one(tool: &str) -> Option<&str> {
    tool.strip_prefix("mcp_")?.split_once('_').map(|(_, tool)| tool)
}
