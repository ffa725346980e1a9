//! Named tools, each as a tool of this server: its parameters are the schema, its definition says the rest.

use super::answer::{MOST_STREAM, bounded};
use super::arguments::Arguments;
use super::offer::{Hints, Offer, Reply};
use super::scene::Scene;
use super::sets::Call;
use crate::capability::Risk;
use crate::decide::{Denial, DenialCode};
use crate::run::tools::{Report, Stop, run_tool};
use crate::tool::{Action, Api, Given, Net, Tool};
use serde_json::{Value, json};

/// The longest name that clients take.
const LONGEST: usize = 128;

/// Every named tool that is called and waited for; `taken` are the names of sbx's own.
pub(super) fn offers(scene: &Scene, taken: &[String]) -> Vec<Offer> {
    let tools = scene.tools.iter().filter(|tool| tool.enabled && !tool.persistent);
    tools.map(|tool| Offer { withheld: withheld(tool, scene, taken), ..offer(tool) }).collect()
}

fn withheld(tool: &Tool, scene: &Scene, taken: &[String]) -> Option<Box<Denial>> {
    let no = |message: String| {
        Some(Box::new(Denial::of_tool(DenialCode::UnknownTool, scene.agent(), &tool.name, message)))
    };
    if taken.contains(&tool.name) {
        return no(format!("`{}` is the name of one of sbx's own tools; call it something else", tool.name));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if tool.name.len() > LONGEST || !tool.name.bytes().all(plain) {
        return no(format!("clients take names of up to {LONGEST} letters, digits, `_`, `-` and `.` only"));
    }
    tool.withheld(scene.policy()).map(Box::new)
}

/// A named tool as it is told of, whether or not it is offered.
pub(super) fn offer(tool: &Tool) -> Offer {
    let about = tool.description.clone().unwrap_or_else(|| format!("Runs `{}`.", tool.command_line()));
    let output = json!({
        "type": "object",
        "properties": {
            "value": {}, "stderr": { "type": "string" }, "exit_code": { "type": ["integer", "null"] },
            "stdout_truncated": { "type": "boolean" }, "stderr_truncated": { "type": "boolean" },
            "duration_ms": { "type": "integer" }, "encoding": { "enum": ["utf-8", "base64", null] },
        },
        "required": ["value", "exit_code"],
    });
    let source = tool.place.as_ref().map(|place| format!("{}:{}", place.file, place.line));
    Offer {
        title: None,
        hints: hints(tool),
        requires: tool.needs().iter().map(ToString::to_string).collect(),
        risk: tool.risk(),
        timeout: tool.timeout(),
        hosts: match &tool.net {
            Net::None => Vec::new(),
            Net::Hosts(hosts) => hosts.clone(),
            Net::Verbs(specs) => specs.iter().map(ToString::to_string).collect(),
        },
        env: tool.env.clone(),
        source: source.unwrap_or_else(|| tool.layer.name().to_owned()),
        ..Offer::looking(&tool.name, "", &about, tool.input_schema()).answering(output)
    }
}

/// What a tool's risk and needs say of its effects.
fn hints(tool: &Tool) -> Hints {
    let read_only = tool.read_only || matches!(tool.action, Action::Internal(api) if !api.changes());
    Hints {
        read_only,
        destructive: !read_only && tool.risk() == Risk::High,
        idempotent: read_only || matches!(tool.action, Action::Internal(Api::FsWrite)),
        open_world: tool.net != Net::None
            || matches!(tool.action, Action::Internal(api) if api.reaches_out()),
    }
}

/// What a caller gives a tool, from the arguments of a call.
pub(super) fn given(tool: &Tool, arguments: &Arguments<'_>, values: &str) -> Result<Given, Box<Denial>> {
    match tool.action {
        Action::Free { .. } => Ok(Given { values: serde_json::Map::new(), args: arguments.words("args")? }),
        Action::Template { .. } | Action::Shell(_) | Action::Internal(_) | Action::Off => {
            Ok(Given { values: arguments.map(values)?, args: Vec::new() })
        }
    }
}

pub(super) fn call(call: &Call<'_>) -> Reply {
    run(call).unwrap_or_else(Reply::Denied)
}

fn run(call: &Call<'_>) -> Result<Reply, Box<Denial>> {
    let scene = call.scene;
    let tool = scene.tools.find(scene.agent(), call.name)?;
    let given = if matches!(tool.action, Action::Free { .. }) {
        let arguments = Arguments::read(scene.agent(), call.name, call.arguments, &["args"])?;
        given(tool, &arguments, "")?
    } else {
        Given { values: call.arguments.clone(), args: Vec::new() }
    };
    let dir = match tool.wants_session_dir() {
        false => None,
        true => match call.means.session().dir() {
            Ok(dir) => Some(dir.to_path_buf()),
            Err(error) => return Ok(Reply::failed(format!("no session directory: {error}"))),
        },
    };
    let caller = call.means.caller(scene, dir.as_deref(), call.cancel);
    match run_tool(tool, &given, &caller) {
        Ok(report) => Ok(told(report)),
        Err(stop) => stopped(stop),
    }
}

fn told(report: Report) -> Reply {
    let text = match &report.value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    let mut value = report.to_json();
    // What was printed is the value already.
    if let Some(value) = value.as_object_mut() {
        value.remove("stdout");
    }
    let text = text.or_else(|| Some(format!("{:#}", report.value)));
    Reply::Done { text, value }
}

/// A call that came to nothing, with what was printed until then.
pub(super) fn stopped(stop: Stop) -> Result<Reply, Box<Denial>> {
    let mut value = stop.to_json();
    let failure = match &stop {
        Stop::Denied(_) => None,
        Stop::Failed(failure) => Some(failure),
    };
    let mut text = stop.to_string();
    if let Some(report) = failure.and_then(|failure| failure.report.as_ref()) {
        for (name, printed) in [("stdout", &report.stdout), ("stderr", &report.stderr)] {
            let (kept, cut) = bounded(printed, MOST_STREAM);
            if !kept.trim().is_empty() {
                text.push_str(&format!("\n[{name}]\n{kept}"));
            }
            value[name] = json!(kept);
            if cut {
                value[format!("{name}_truncated")] = json!(true);
            }
        }
    }
    match stop {
        Stop::Denied(denial) => Err(denial),
        Stop::Failed(_) => Ok(Reply::Failed { text, value }),
    }
}
