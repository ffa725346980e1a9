//! Gemini CLI, `BeforeTool`. Arguments are merged into those of the call; without a decision its own rules go on.

use super::{reason, served_by_one, spelled, string};
use crate::hook::call::{Call, directory, event, input, text};
use crate::hook::judge::Verdict;
use crate::mcp::protocol::Json;

pub(super) fn read<'j>(asked: &'j Json<'j>) -> Result<Call<'j>, String> {
    event(asked, "hook_event_name", &["BeforeTool"])?;
    let tool = text(asked, "tool_name")?;
    let told = asked.get("mcp_context").and_then(|context| context.get("tool_name")).and_then(Json::text);
    Ok(Call {
        tool: tool.into(),
        served: told
            .map_or_else(|| served_by_one(tool), |told| vec![told])
            .into_iter()
            .map(Into::into)
            .collect(),
        input: input(asked)?,
        dir: directory(asked, "cwd")?,
        changeable: true,
    })
}

pub(super) fn say(verdict: &Verdict<'_>) -> String {
    match verdict {
        Verdict::Silent => "{}".to_owned(),
        Verdict::Rewrite(input) => {
            format!("{{\"hookSpecificOutput\":{{\"tool_input\":{}}}}}", spelled(input))
        }
        Verdict::Deny(denial) => format!("{{\"decision\":\"deny\",\"reason\":{}}}", string(&reason(denial))),
    }
}
