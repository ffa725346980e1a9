//! Codex, `PreToolUse`. The same words as Claude Code's, read strictly: a yes is valid only with other arguments, a no
//! only with a reason, and a question never; an answer that is not valid lets the call run.

use super::{pre_tool_use, reason, served};
use crate::hook::call::{Call, directory, event, input, text};
use crate::hook::judge::Verdict;
use crate::mcp::protocol::Json;

pub(super) fn read<'j>(asked: &'j Json<'j>) -> Result<Call<'j>, String> {
    event(asked, "hook_event_name", &["PreToolUse"])?;
    let tool = text(asked, "tool_name")?;
    Ok(Call {
        tool: tool.into(),
        served: served(tool).map(Into::into),
        input: input(asked)?,
        dir: directory(asked, "cwd")?,
        changeable: true,
    })
}

pub(super) fn say(verdict: &Verdict<'_>) -> String {
    match verdict {
        Verdict::Silent => String::new(),
        Verdict::Rewrite(input) => pre_tool_use("allow", None, Some(input)),
        Verdict::Deny(denial) => pre_tool_use("deny", Some(&reason(denial)), None),
    }
}
