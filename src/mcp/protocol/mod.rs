//! MCP on a stream: lines, JSON with one possible reading, JSON-RPC messages, both protocol eras.
//!
//! Answers for what a line is and what it can mean. It leaves to others which calls are allowed.
//! Invariant: what this layer accepts, every JSON reader understands in the same way.

mod answer;
mod json;
mod line;
mod message;
mod tree;

pub use answer::{
    Era, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, SUBSCRIPTION_ID,
    UNSUPPORTED_VERSION, VERSION_KEY, error_line, line_of, notification_line, result_line,
};
pub use json::Fault;
pub use line::{Line, LineReader};
pub use message::{Id, Kind, Message, guess_id};
pub use tree::{Json, lookalike, raw, with_member, without_like};
