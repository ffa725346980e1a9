//! Lines that sbx writes itself, and the two eras they must fit.

use super::message::Id;
use super::tree::raw;
use serde_json::{Value, json};

/// Not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but not a message.
pub const INVALID_REQUEST: i64 = -32600;
/// A method nobody has.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// A method with the wrong parameters, or an unknown tool.
pub const INVALID_PARAMS: i64 = -32602;
/// It is our fault.
pub const INTERNAL_ERROR: i64 = -32603;
/// A protocol version that is not spoken.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// Where a message of the modern era says its version.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// Where a notification says to which subscription it belongs.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// How a request opens, and so what its answer must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25: a handshake, and results without a type.
    Legacy,
    /// From 2026-07-28: every request names its version, and every result its type.
    Modern,
}

impl Era {
    /// The era of a request, by its parameters.
    #[must_use]
    pub fn of(params: Option<&str>) -> Self {
        let version = params.and_then(|params| raw(params, "_meta")).and_then(|meta| raw(meta, VERSION_KEY));
        if version.is_some() { Self::Modern } else { Self::Legacy }
    }

    /// A result as this era wants it.
    #[must_use]
    pub fn result(self, mut result: Value) -> Value {
        if self == Self::Modern && result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        result
    }
}

/// A value on one line, with its end, and nothing in between that any reader takes for one.
#[must_use]
pub fn line_of(value: &Value) -> String {
    let mut line = value.to_string();
    if line.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
        // Outside of strings there are no such characters.
        line =
            line.replace('\u{85}', "\\u0085").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    }
    line.push('\n');
    line
}

/// An answer with a result; the identifier is spelled as it was.
#[must_use]
pub fn result_line(id: Id<'_>, result: &Value) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{}}}\n", id.spelled(), line_of(result).trim_end())
}

/// An answer with an error; without an identifier when none could be made out.
#[must_use]
pub fn error_line(id: Option<&str>, code: i64, message: &str, data: Option<Value>) -> String {
    let mut error = json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data;
    }
    let id = id.unwrap_or("null");
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{}}}\n", line_of(&error).trim_end())
}

/// A notification.
#[must_use]
pub fn notification_line(method: &str, params: Option<Value>) -> String {
    let mut message = json!({ "jsonrpc": "2.0", "method": method });
    if let Some(params) = params {
        message["params"] = params;
    }
    line_of(&message)
}
