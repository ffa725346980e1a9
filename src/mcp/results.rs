//! Results that the gate makes or adds to.

use super::protocol::{Id, line_of, raw, with_member};
use super::rules::Rules;
use crate::decide::Denial;
use crate::tool::body;
use serde_json::{Value, json};

/// Where sbx tells of a denial in a result.
const DENIAL_KEY: &str = "sbx/denial";
/// Where sbx tells what was refused to the server while it worked.
const REFUSED_KEY: &str = "sbx/refused";

/// An answer under the identifier as the client spelled it.
pub(super) fn answer_line(id: Id<'_>, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n", id.spelled())
}

/// A result with what was refused to the server meanwhile in its `_meta`.
pub(super) fn attach(result: &str, refused: &[Value]) -> Option<String> {
    let refused = line_of(&json!(refused));
    let meta = raw(result, "_meta").filter(|meta| meta.starts_with('{')).unwrap_or("{}");
    with_member(result, "_meta", &with_member(meta, REFUSED_KEY, refused.trim_end())?)
}

/// What is active, as the result of a call.
pub(super) fn policy_result(rules: &Rules) -> Value {
    let policy = rules.to_json();
    json!({
        "content": [{ "type": "text", "text": format!("{policy:#}") }],
        "structuredContent": policy,
        "isError": false,
    })
}

/// A denial as the result of a call: text for the model, the whole object for machines.
#[must_use]
pub fn denial_result(denial: &Denial) -> Value {
    json!({
        "content": [{ "type": "text", "text": body(denial).to_string() }],
        "isError": true,
        "_meta": { DENIAL_KEY: denial.to_json() },
    })
}
