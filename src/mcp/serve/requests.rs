//! Requests beside calls: who the server is, which tools there are, how much is to be told. In both eras.

use super::scene::Scene;
use super::{notices, sets};
use crate::mcp::protocol::{Era, INVALID_PARAMS, Json, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, VERSION_KEY};
use serde_json::{Value, json};

/// The version of the new era.
pub(super) const MODERN: &str = "2026-07-28";
/// The versions of the old era, the newest first.
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
const LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
/// Tools on one page.
const PAGE: usize = 50;
/// How a cursor begins; after it stands the last name of the page before.
const CURSOR: &str = "after:";

/// A request that is not carried out, as JSON-RPC tells it.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

impl Refusal {
    pub(super) fn params(message: impl Into<String>) -> Self {
        Self { code: INVALID_PARAMS, message: message.into(), data: None }
    }

    pub(super) fn method(method: &str) -> Self {
        Self { code: METHOD_NOT_FOUND, message: format!("there is no method {method}"), data: None }
    }
}

/// The era of a request, and whether its version is spoken here.
pub(super) fn era(params: Option<&Json<'_>>) -> Result<Era, Refusal> {
    let meta = params.and_then(|params| params.get("_meta"));
    let Some(version) = meta.and_then(|meta| meta.get(VERSION_KEY)) else { return Ok(Era::Legacy) };
    let Some(version) = version.text() else {
        return Err(Refusal::params(format!("{VERSION_KEY} is not a string")));
    };
    if version != MODERN {
        let data = json!({ "supported": supported(), "requested": version });
        let message = format!("protocol version {version} is not spoken here");
        return Err(Refusal { code: UNSUPPORTED_VERSION, message, data: Some(data) });
    }
    match meta.and_then(|meta| meta.get(CAPABILITIES_KEY)) {
        Some(Json::Map(_)) => Ok(Era::Modern),
        _ => Err(Refusal::params(format!("_meta lacks {CAPABILITIES_KEY}"))),
    }
}

/// From how loud on a client of the new era wants to hear of a request.
pub(super) fn hears(params: Option<&Json<'_>>) -> notices::Hears {
    let level = params.and_then(|params| params.get("_meta")).and_then(|meta| meta.get(LEVEL_KEY));
    level.and_then(Json::text).and_then(notices::level)
}

fn supported() -> Vec<&'static str> {
    std::iter::once(MODERN).chain(LEGACY).collect()
}

fn about() -> Value {
    json!({ "name": "sbx", "title": "sbx", "version": env!("CARGO_PKG_VERSION") })
}

fn instructions(scene: &Scene) -> String {
    format!(
        "Every tool here acts with the authority of the agent `{}` and with nothing more: what its record does not \
         grant is denied, and the kernel holds to that too. A denied call is told as an error with the smallest grant \
         that would allow it; ask the user for that grant instead of trying other ways. list_capabilities shows every \
         tool with what it needs, check_command says beforehand whether shell text may run.",
        scene.agent()
    )
}

/// The handshake of the old era: the client's version where it is spoken, else the newest that is.
pub(super) fn initialize(params: Option<&Json<'_>>, scene: &Scene) -> Value {
    let asked = params.and_then(|params| params.get("protocolVersion")).and_then(Json::text);
    let version = LEGACY.into_iter().find(|version| asked == Some(version)).unwrap_or(LEGACY[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": { "listChanged": true }, "logging": {} },
        "serverInfo": about(),
        "instructions": instructions(scene),
    })
}

/// Who the server is, in the new era.
pub(super) fn discover(scene: &Scene) -> Value {
    json!({
        "supportedVersions": supported(),
        "capabilities": { "tools": { "listChanged": true }, "logging": {} },
        "instructions": instructions(scene),
        "ttlMs": 0,
        "cacheScope": "private",
    })
}

/// A page of the tools that are shown, by name.
pub(super) fn list(params: Option<&Json<'_>>, scene: &Scene, era: Era) -> Result<Value, Refusal> {
    let after = match params.and_then(|params| params.get("cursor")) {
        None | Some(Json::Null) => None,
        Some(Json::Text(cursor)) => match cursor.strip_prefix(CURSOR) {
            Some(name) => Some(name.to_owned()),
            None => return Err(Refusal::params("the cursor is not one of this server's")),
        },
        Some(_) => return Err(Refusal::params("`cursor` is not a string")),
    };
    let mut shown = sets::shown(scene);
    shown.retain(|offer| after.as_ref().is_none_or(|after| offer.name > *after));
    let last = shown.len() <= PAGE;
    shown.truncate(PAGE);
    let tools: Vec<Value> = shown.iter().map(|offer| offer.listed()).collect();
    let mut result = json!({ "tools": tools });
    if let Some(offer) = shown.last().filter(|_| !last) {
        result["nextCursor"] = json!(format!("{CURSOR}{}", offer.name));
    }
    if era == Era::Modern {
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    Ok(result)
}

/// A result as its era wants it.
pub(super) fn finished(era: Era, result: Value) -> Value {
    let mut result = era.result(result);
    if era == Era::Modern {
        result["_meta"][SERVER_KEY] = about();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn era_of(params: &str) -> Result<Era, i64> {
        era(Some(&Json::read(params).unwrap())).map_err(|refusal| refusal.code)
    }

    #[test]
    fn every_request_of_the_new_era_says_so() {
        assert_eq!(era_of("{}"), Ok(Era::Legacy));
        assert_eq!(era_of(r#"{"_meta":{"progressToken":1}}"#), Ok(Era::Legacy));
        let with = |version: &str, rest: &str| {
            era_of(&format!(r#"{{"_meta":{{"{VERSION_KEY}":{version}{rest}}}}}"#))
        };
        let capabilities = format!(r#","{CAPABILITIES_KEY}":{{}}"#);
        assert_eq!(with("\"2026-07-28\"", &capabilities), Ok(Era::Modern));
        assert_eq!(with("\"2026-07-28\"", ""), Err(INVALID_PARAMS));
        assert_eq!(with("7", &capabilities), Err(INVALID_PARAMS));
        assert_eq!(with("\"2027-01-01\"", &capabilities), Err(UNSUPPORTED_VERSION));
    }
}
