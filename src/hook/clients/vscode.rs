//! VS Code, `PreToolUse`. It runs hooks for every tool, whatever their matcher says, and writes some keys in two ways.

use super::{pre_tool_use, reason, served, served_by_one};
use crate::hook::call::{Call, directory, event, input, text};
use crate::hook::judge::Verdict;
use crate::mcp::protocol::Json;

pub(super) fn read<'j>(asked: &'j Json<'j>) -> Result<Call<'j>, String> {
    let key = ["hook_event_name", "hookEventName"].into_iter().find(|key| asked.get(key).is_some());
    event(asked, key.unwrap_or("hook_event_name"), &["PreToolUse"])?;
    let tool = text(asked, "tool_name")?;
    Ok(Call {
        tool: tool.into(),
        served: served(tool).or_else(|| served_by_one(tool)).map(Into::into),
        input: input(asked)?,
        dir: directory(asked, "cwd")?,
        changeable: true,
    })
}

pub(super) fn say(verdict: &Verdict<'_>, ask: bool) -> String {
    match verdict {
        Verdict::Silent => String::new(),
        Verdict::Rewrite(input) => pre_tool_use(if ask { "ask" } else { "allow" }, None, Some(input)),
        Verdict::Deny(denial) => pre_tool_use("deny", Some(&reason(denial)), None),
    }
}
