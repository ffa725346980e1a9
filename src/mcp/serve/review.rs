//! `list_capabilities`: every tool with what it declares, for a review before anything is called.

use super::arguments::Arguments;
use super::offer::{Offer, Reply};
use super::scene::Scene;
use super::sets::{Call, all};
use serde_json::{Value, json};

/// Its name.
pub(super) const NAME: &str = "list_capabilities";

pub(super) fn offers(_scene: &Scene) -> Vec<Offer> {
    let about = "Lists every tool of this server with the authority it declares, its risk, its time-out, what it is \
                 exposed to and, where it is not offered, why and which grant would change that.";
    let input = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let (text, list) =
        (json!({ "type": "string" }), json!({ "type": "array", "items": { "type": "string" } }));
    let exposure = json!({
        "type": "object",
        "properties": { "annotations": { "type": "object" }, "hosts": list, "env": list, "arguments": list },
        "required": ["annotations", "hosts", "env", "arguments"],
    });
    let tool = json!({
        "type": "object",
        "properties": {
            "name": text, "requires": list, "risk": { "enum": ["low", "medium", "high"] },
            "timeout_seconds": { "type": ["number", "null"] }, "exposure": exposure, "offered": { "type": "boolean" },
            "reason": { "type": ["object", "null"] }, "source": text,
        },
        "required": ["name", "requires", "risk", "timeout_seconds", "exposure", "offered", "reason", "source"],
    });
    let output = json!({
        "type": "object",
        "properties": {
            "agent": text, "limit_seconds": { "type": ["number", "null"] }, "tools": { "type": "array", "items": tool },
        },
        "required": ["agent", "tools"],
    });
    vec![Offer::looking(NAME, "List capabilities", about, input).answering(output)]
}

pub(super) fn call(call: &Call<'_>) -> Reply {
    let scene = call.scene;
    if let Err(denial) = Arguments::read(scene.agent(), NAME, call.arguments, &[]) {
        return Reply::Denied(denial);
    }
    let tools: Vec<Value> = all(scene).iter().map(|offer| row(offer, scene)).collect();
    let limit = scene.policy().limits().wall.map(|wall| wall.as_secs_f64());
    Reply::value(json!({ "agent": scene.agent(), "limit_seconds": limit, "tools": tools }))
}

fn row(offer: &Offer, scene: &Scene) -> Value {
    let listed = scene.rules.allowlist.shows(&offer.name);
    let kept_out =
        (!listed).then(|| Box::new(scene.rules.allowlist.denial(scene.agent(), &offer.name, None)));
    let reason = offer.withheld.as_ref().or(kept_out.as_ref());
    json!({
        "name": offer.name,
        "requires": offer.requires,
        "risk": offer.risk.name(),
        "timeout_seconds": offer.timeout.map(|time| time.as_secs_f64()),
        "exposure": {
            "annotations": offer.hints.to_json(), "hosts": offer.hosts, "env": offer.env,
            "arguments": offer.input["properties"].as_object().into_iter().flatten().map(|(name, _)| name).collect::<Vec<_>>(),
        },
        "offered": reason.is_none(),
        "reason": reason.map(|denial| json!({
            "code": denial.code.name(), "message": denial.message,
            "suggested_grant": denial.suggested_grant.as_ref().map(ToString::to_string),
        })),
        "source": offer.source,
    })
}
