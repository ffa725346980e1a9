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
use std::time::Duration;

/// How long an operation takes at most when nobody says.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn offers(scene: &Scene) -> Vec<Offer> {
    let offered: Vec<&str> = hands::offered(scene.policy()).iter().map(|tool| tool.name).collect();
    let offer = |tool: Tool| {
        let withheld =
            if offered.contains(&tool.name) { None } else { absent(scene, tool.name, tool.capabilities) };
        let hints = Hints {
            read_only: tool.annotations.read_only,
            destructive: tool.annotations.destructive,
            idempotent: tool.annotations.idempotent,
            open_world: tool.annotations.open_world,
        };
        Offer {
            hints,
            requires: tool.capabilities.iter().map(|takes| takes.name().to_owned()).collect(),
            risk: tool.capabilities.iter().map(|takes| Capability::risk(*takes)).max().unwrap_or(Risk::Low),
            timeout: Some(TIMEOUT),
            withheld,
            ..Offer::looking(tool.name, tool.title, tool.description, tool.input_schema)
                .answering(tool.output_schema)
        }
    };
    hands::all().into_iter().map(offer).collect()
}

pub(super) fn call(call: &Call<'_>) -> Reply {
    let arguments = Value::Object(call.arguments.clone());
    match hands::call(call.name, &arguments, call.scene.hands(call.means), call.cancel) {
        hands::Reply::Done(value) => Reply::Done { text: read(&value), value },
        hands::Reply::Denied(denial) => Reply::Denied(denial),
        hands::Reply::Failed(fault) => Reply::Failed { text: fault.to_string(), value: fault.to_json() },
    }
}

/// The content of a file that is text, which a model reads better as it is.
fn read(value: &Value) -> Option<String> {
    let content = value.get("content")?.as_str()?;
    (value["encoding"] == "utf-8").then(|| content.to_owned())
}
