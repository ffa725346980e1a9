//! `PreToolUse`, the contract that Claude Code made and others took over.
//!
//! Codex reads the answer strictly: a yes is valid only with other arguments, a no only with a reason, and a question
//! never; an answer that is not valid lets the call run. VS Code runs hooks for every tool, whatever their matcher says,
//! and writes some keys in two ways. Silence leaves the call to the user's own rules.

use super::{reason, served, served_by_one, spelled, string};
use crate::hook::call::{Call, directory, event, input, text};
use crate::hook::judge::Verdict;
use crate::mcp::protocol::Json;

/// A call as Claude Code and Codex tell of it.
pub(super) fn read<'j>(asked: &'j Json<'j>) -> Result<Call<'j>, String> {
    call(asked, "hook_event_name", served)
}

/// A call as VS Code tells of it.
pub(super) fn read_of_vscode<'j>(asked: &'j Json<'j>) -> Result<Call<'j>, String> {
    let key = ["hook_event_name", "hookEventName"].into_iter().find(|key| asked.get(key).is_some());
    call(asked, key.unwrap_or("hook_event_name"), |tool| {
        Some(served(tool)).filter(|readings| !readings.is_empty()).unwrap_or_else(|| served_by_one(tool))
    })
}

fn call<'j>(
    asked: &'j Json<'j>,
    key: &str,
    served: impl Fn(&'j str) -> Vec<&'j str>,
) -> Result<Call<'j>, String> {
    event(asked, key, &["PreToolUse"])?;
    let tool = text(asked, "tool_name")?;
    Ok(Call {
        tool: tool.into(),
        served: served(tool).into_iter().map(Into::into).collect(),
        input: input(asked)?,
        dir: directory(asked, "cwd")?,
        changeable: true,
    })
}

/// The answer; the user is asked about a changed call where that is wanted.
pub(super) fn say(verdict: &Verdict<'_>, ask: bool) -> String {
    match verdict {
        Verdict::Silent => String::new(),
        Verdict::Rewrite(input) => answer(if ask { "ask" } else { "allow" }, None, Some(input)),
        Verdict::Deny(denial) => answer("deny", Some(&reason(denial)), None),
    }
}

fn answer(decision: &str, reason: Option<&str>, input: Option<&Json<'_>>) -> String {
    let reason =
        reason.map_or_else(String::new, |why| format!(",\"permissionDecisionReason\":{}", string(why)));
    let input = input.map_or_else(String::new, |input| format!(",\"updatedInput\":{}", spelled(input)));
    format!(
        "{{\"hookSpecificOutput\":{{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"{decision}\"{reason}{input}}}}}"
    )
}
