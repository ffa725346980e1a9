//! Cursor: `preToolUse` for every tool, and one event more for shell text, servers' tools and files that are read, in
//! which arguments cannot be changed. A command that was led through the fence is seen again there.

use super::{reason, served, spelled, string};
use crate::hook::call::{Call, absolute, directory, event, input, text};
use crate::hook::judge::Verdict;
use crate::mcp::protocol::Json;
use std::borrow::Cow;
use std::path::PathBuf;

const EVENTS: [&str; 4] = ["preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile"];

pub(super) fn read<'j>(asked: &'j Json<'j>) -> Result<Call<'j>, String> {
    let event = event(asked, "hook_event_name", &EVENTS)?;
    let (cwd, roots) = (directory(asked, "cwd")?, roots(asked)?);
    let within = |root: &&PathBuf| cwd.as_ref().is_some_and(|cwd| cwd.starts_with(root));
    let dir = roots.iter().find(within).or(roots.first()).cloned().or_else(|| cwd.clone());
    let (tool, input) = match event {
        "beforeShellExecution" => ("Shell", picked(asked, &["command", "cwd"])),
        "beforeReadFile" => ("Read", picked(asked, &["file_path"])),
        _ => (text(asked, "tool_name")?, input(asked)?),
    };
    let served = match event {
        "beforeMCPExecution" => vec![tool.strip_prefix("MCP:").unwrap_or(tool)],
        _ => tool.strip_prefix("MCP:").map_or_else(|| served(tool), |tool| vec![tool]),
    };
    Ok(Call {
        tool: tool.into(),
        served: served.into_iter().map(Into::into).collect(),
        input,
        dir,
        changeable: event == "preToolUse",
    })
}

fn roots(asked: &Json<'_>) -> Result<Vec<PathBuf>, String> {
    let roots = asked.get("workspace_roots").and_then(Json::items).unwrap_or_default();
    roots.iter().map(|root| absolute(root.text().unwrap_or_default())).collect()
}

/// The arguments that stand in the event itself.
fn picked<'j>(asked: &'j Json<'j>, keys: &[&'static str]) -> Json<'j> {
    let pairs = keys.iter().filter_map(|key| Some((Cow::Borrowed(*key), asked.get(key)?.clone())));
    Json::Map(pairs.collect())
}

pub(super) fn say(verdict: &Verdict<'_>, ask: bool) -> String {
    match verdict {
        Verdict::Silent => "{}".to_owned(),
        Verdict::Rewrite(input) => {
            let permission = if ask { "ask" } else { "allow" };
            format!("{{\"permission\":\"{permission}\",\"updated_input\":{}}}", spelled(input))
        }
        Verdict::Deny(denial) => {
            let why = string(&reason(denial));
            format!("{{\"permission\":\"deny\",\"user_message\":{why},\"agent_message\":{why}}}")
        }
    }
}
