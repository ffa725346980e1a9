//! A call, taken apart and put together again.
//!
//! Invariant: a call that readers could take apart in two ways is not taken apart at all.

use super::protocol::{Fault, Id, Json, lookalike};

/// The parts of a call.
pub(super) struct Call<'c> {
    pub(super) tool: &'c str,
    pub(super) arguments: Option<&'c Json<'c>>,
    /// Whether the server asked for more, and this is the same call again.
    pub(super) retry: bool,
}

impl<'c> Call<'c> {
    /// Takes a call apart; none when it is not one that a server could answer.
    pub(super) fn read(tree: &'c Json<'c>) -> Result<Option<Self>, Fault> {
        let Some(params) = tree.get("params") else { return Ok(None) };
        let Some(members) = params.members() else { return Ok(None) };
        for key in ["name", "arguments", "_meta", "task"] {
            if let Some(other) = lookalike(members, key) {
                return Err(Fault::Lookalike(other.to_owned()));
            }
        }
        let arguments = match params.get("arguments") {
            None | Some(Json::Null) => None,
            Some(arguments @ Json::Map(_)) => Some(arguments),
            Some(_) => return Ok(None),
        };
        let retry = params.get("requestState").is_some() || params.get("inputResponses").is_some();
        Ok(params.get("name").and_then(Json::text).map(|tool| Self { tool, arguments, retry }))
    }
}

/// The action that a call's arguments name by one of them.
pub(crate) fn action<'c>(arguments: Option<&'c Json<'c>>, argument: &str) -> Result<Option<&'c str>, String> {
    let Some(members) = arguments.and_then(Json::members) else { return Ok(None) };
    if let Some(other) = lookalike(members, argument) {
        return Err(format!("some readers take `{other}` for `{argument}`"));
    }
    match arguments.and_then(|arguments| arguments.get(argument)) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Text(action)) => Ok(Some(action)),
        Some(_) => Err(format!("`{argument}` names the action and is not a string")),
    }
}

/// A message in its one spelling, but for its identifier, which stays as it was.
pub(super) fn spelled(tree: &Json<'_>, id: Id<'_>) -> String {
    let mut line = String::with_capacity(256);
    line.push('{');
    for (index, (key, value)) in tree.members().unwrap_or_default().iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        Json::Text(key.clone()).write(&mut line);
        line.push(':');
        if key == "id" { line.push_str(id.spelled()) } else { value.write(&mut line) }
    }
    line.push_str("}\n");
    line
}
