//! The agent's hands as tools of this server: files, search, requests, records and other agents.
//!
//! Answers for showing them and for putting their answers into the one shape. Everything else is done by
//! [`hands`](crate::hands).

use super::offer::{Hints, Offer, Reply};
use super::scene::Scene;
use super::sets::{Call, absent};
use crate::capability::{Capability, Risk};
use crate::hands::{self, Tool};
use serde_json::Value;
use std::sync::LazyLock;
use std::time::Duration;

/// How long an operation takes at most when nobody says.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments that hold the content of a file or of a request.
const CONTENT: &[&str] = &["content", "body", "old_text", "new_text", "edits"];

/// The names, made once.
static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| hands::all().iter().map(|tool| tool.name).collect());

/// Whether a name is one of theirs.
pub(super) fn knows(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Whether an argument may be as long as a message.
pub(super) fn is_content(tool: &str, argument: &str) -> bool {
    knows(tool) && CONTENT.contains(&argument)
}

pub(super) fn offers(scene: &Scene) -> Vec<Offer> {
    let offered: Vec<&str> = hands::offered(scene.policy()).iter().map(|tool| tool.name).collect();
    let offer = |tool: Tool| {
        let withheld = match offered.contains(&tool.name) {
            true => None,
            // What is held and still not offered cannot be done here, and is not shown.
            false => Some(absent(scene, tool.name, tool.capabilities)?),
        };
        let hints = Hints {
            read_only: tool.annotations.read_only,
            destructive: tool.annotations.destructive,
            idempotent: tool.annotations.idempotent,
            open_world: tool.annotations.open_world,
        };
        Some(Offer {
            hints,
            requires: tool.capabilities.iter().map(|takes| takes.name().to_owned()).collect(),
            risk: tool.capabilities.iter().map(|takes| Capability::risk(*takes)).max().unwrap_or(Risk::Low),
            timeout: Some(TIMEOUT),
            withheld,
            ..Offer::looking(tool.name, tool.title, tool.description, tool.input_schema)
                .answering(tool.output_schema)
        })
    };
    hands::all().into_iter().filter_map(offer).collect()
}

pub(super) fn call(call: &Call<'_>) -> Reply {
    let arguments = Value::Object(call.arguments.clone());
    match hands::call(call.name, &arguments, call.scene.hands(call.means), call.cancel) {
        hands::Reply::Done(value) => Reply::Done { text: read(&value), value },
        hands::Reply::Denied(denial) => Reply::Denied(denial),
        hands::Reply::Failed(fault) => Reply::Failed { text: fault.to_string(), value: fault.to_json() },
    }
}

/// The content of a file or of an answer that is text, which a model reads better as it is.
fn read(value: &Value) -> Option<String> {
    if value["encoding"] != "utf-8" {
        return None;
    }
    match (value["content"].as_str(), value["body"].as_str()) {
        (Some(content), _) => Some(content.to_owned()),
        (None, Some(body)) => Some(format!("{} {}\n\n{body}", value["status"], value["url"].as_str()?)),
        (None, None) => None,
    }
}
