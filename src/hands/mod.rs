//! The agent's hands: files, search, HTTP, records and other agents, each an operation of sbx itself.
//!
//! Answers for what may be done by name without running a program: which operations an agent is offered, and carrying
//! one out. File operations run in a helper behind the agent's own fence, so that a mistake of the matcher still meets
//! the kernel; requests to hosts go through the gateway's own code. It leaves showing answers to `mcp` and `cli`.
//! Invariant: every operation is decided, recorded and bounded, whoever asks for it.
//!
//! ```no_run
//! use sbx::hands::{Cancel, Context, Reply, call, offered};
//! use sbx::run::{Setting, audit};
//!
//! let setting = Setting::from_env()?;
//! let agent = setting.agent("scout")?;
//! let context = Context::new(agent.policy, &setting, audit(&setting));
//! for tool in offered(context.policy()) {
//!     assert!(!tool.name.is_empty());
//! }
//! let arguments = serde_json::json!({ "path": "README.md" });
//! match call("read_file", &arguments, &context, &Cancel::new()) {
//!     Reply::Done(value) => assert_eq!(value["encoding"], "utf-8"),
//!     Reply::Denied(denial) => assert!(!denial.message.is_empty()),
//!     Reply::Failed(fault) => assert!(!fault.message.is_empty()),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agents;
mod arguments;
mod cancel;
mod context;
mod fault;
mod files;
mod helper;
mod http;
mod judge;
mod keep;
mod named;
mod offer;
mod reach;
mod record;
mod records;
mod schemas;
mod search;
mod table;

pub use cancel::Cancel;
pub use context::Context;
pub use fault::{Fault, FaultCode};
pub use helper::{read_tasks, serve};
pub use offer::{Annotations, Tool, all, offered};

use crate::audit::Event;
use crate::decide::{Denial, DenialCode};
use crate::run::denied;
use serde_json::{Value, json};
use std::time::Instant;

/// What an operation came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It was done; the value fits the tool's output schema.
    Done(Value),
    /// It is not allowed. Recorded already.
    Denied(Box<Denial>),
    /// It is allowed and could not be done.
    Failed(Fault),
}

impl Reply {
    /// The structured answer: the value, the denial object, or the fault; the last two say `is_error`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Done(value) => value.clone(),
            Self::Denied(denial) => denial.to_json(),
            Self::Failed(fault) => fault.to_json(),
        }
    }

    /// Whether it was done.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

impl From<Fault> for Reply {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

/// Carries out an operation and waits for its end. Any thread may call, any number at a time.
///
/// Arguments that do not fit the tool's input schema are a fault, `invalid_arguments`. What is not [`offered`] is
/// denied: by the capability that is missing, or as `unknown_tool` where there is no such operation at all.
#[must_use]
pub fn call(name: &str, arguments: &Value, context: &Context, cancel: &Cancel) -> Reply {
    let agent = context.policy().agent();
    let Some(row) = offer::find(name) else {
        let denial =
            Denial::of_tool(DenialCode::UnknownTool, agent, name, format!("there is no operation {name}"));
        let _ = context.audit().record(denied(&denial));
        return Reply::Denied(Box::new(denial));
    };
    let begun = Instant::now();
    let reply = match row.run(arguments, context, cancel) {
        Ok(value) => Reply::Done(value),
        Err(reply) => reply,
    };
    // What was allowed was recorded before it was done; how it went is told now, and its loss undoes nothing.
    let _ = context.audit().record(Event::new("tool", agent, told(row.name, arguments, &reply, begun)));
    reply
}

/// A call and how it went, without content.
fn told(name: &str, arguments: &Value, reply: &Reply, begun: Instant) -> Value {
    let values: serde_json::Map<String, Value> =
        ["path", "path_base64", "url", "method", "id", "class", "glob", "grants"]
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), arguments.get(key)?.clone())))
            .collect();
    let duration = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut body =
        json!({ "act": "call", "tool": name, "layer": "hands", "values": values, "duration_ms": duration });
    match reply {
        Reply::Done(_) => body["status"] = json!("success"),
        Reply::Denied(denial) => {
            body["status"] = json!("error");
            body["decision"] = json!("deny");
            body["error"] = json!(denial.code.name());
        }
        Reply::Failed(fault) => {
            body["status"] = json!("error");
            body["error"] = json!(fault.code.name());
        }
    }
    body
}
