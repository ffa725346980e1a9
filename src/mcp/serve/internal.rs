//! Named tools that stand for one of sbx's own operations: their values are checked as any tool's, and the agent's
//! hands carry them out, in the helper behind the fence.

use super::offer::Reply;
use super::sets::Call;
use crate::decide::Denial;
use crate::hands;
use crate::tool::{Api, Bound, Given, Surroundings, Tool};
use sbx_platform::path::resolve;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

pub(super) fn run(tool: &Tool, given: &Given, call: &Call<'_>) -> Result<Reply, Box<Denial>> {
    let scene = call.scene;
    if let Some(denial) = tool.withheld(scene.policy()) {
        return Err(Box::new(denial));
    }
    let session_dir =
        match tool.wants_session_dir().then(|| call.means.session().dir().map(Path::to_path_buf)) {
            None => None,
            Some(Ok(dir)) => Some(dir),
            Some(Err(error)) => return Ok(Reply::failed(format!("no session directory: {error}"))),
        };
    let follow = |path: &Path| resolve(path).unwrap_or_else(|_| path.to_path_buf());
    let around = Surroundings {
        facts: scene.policy().facts(),
        session_dir: session_dir.as_deref(),
        cwd: &scene.cwd,
        resolve: &follow,
    };
    let bound = tool.bind(given, &around).map_err(|fault| Box::new(tool.refuse(scene.agent(), &fault)))?;
    let Bound::Internal(api, values) = bound else { return Ok(Reply::failed("it is a command")) };
    let begun = Instant::now();
    let (name, arguments) = operation(api, &values, tool.constraints.max_stdout);
    match hands::call(name, &arguments, scene.hands(call.means), call.cancel) {
        hands::Reply::Done(answer) => Ok(told(api, &answer, begun)),
        hands::Reply::Denied(mut denial) => {
            denial.tool = Some(tool.name.clone());
            Err(denial)
        }
        hands::Reply::Failed(fault) => Ok(Reply::Failed { text: fault.to_string(), value: fault.to_json() }),
    }
}

/// The operation that a tool stands for, with its values.
fn operation(
    api: Api,
    values: &std::collections::BTreeMap<String, String>,
    most: u64,
) -> (&'static str, Value) {
    let (path, content) = (values.get("path"), values.get("content"));
    match api {
        Api::FsRead => ("read_file", json!({ "path": path, "length": most })),
        Api::FsList => ("list_dir", json!({ "path": path })),
        Api::FsWrite => ("write_file", json!({ "path": path, "content": content })),
        Api::FsDelete => ("delete_file", json!({ "path": path })),
    }
}

/// The answer in the form that named tools have.
fn told(api: Api, answer: &Value, begun: Instant) -> Reply {
    let names =
        || answer["entries"].as_array().into_iter().flatten().map(|entry| entry["name"].clone()).collect();
    let (value, cut) = match api {
        Api::FsRead => (answer["content"].clone(), answer["whole"] == false),
        Api::FsList => (names(), answer["truncated"] == true),
        Api::FsWrite | Api::FsDelete => (Value::Null, false),
    };
    let text = value.as_str().map(str::to_owned);
    let value = json!({
        "value": value, "encoding": answer["encoding"], "stderr": "", "stdout_truncated": cut,
        "stderr_truncated": false, "exit_code": 0,
        "duration_ms": u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
    Reply::Done { text, value }
}
