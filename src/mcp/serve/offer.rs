//! A tool as a client is told of it, and what a call of it came to: one shape for every set of tools.

use crate::capability::Risk;
use crate::decide::Denial;
use serde_json::{Value, json};
use std::time::Duration;

/// A tool, offered or withheld.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Offer {
    /// The name it is called by.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does, for a model.
    pub description: String,
    /// Its arguments, a JSON Schema.
    pub input: Value,
    /// What it answers when it was done, a JSON Schema.
    pub output: Option<Value>,
    /// Hints about its effects.
    pub hints: Hints,
    /// What the agent must hold, as grants would be written.
    pub requires: Vec<String>,
    /// How much harm it could do.
    pub risk: Risk,
    /// How long a call may take; none when nothing bounds it but the record.
    pub timeout: Option<Duration>,
    /// Hosts it declares to reach.
    pub hosts: Vec<String>,
    /// Variables of the environment it is passed.
    pub env: Vec<String>,
    /// Where it comes from: sbx itself, or the file and line of its definition.
    pub source: String,
    /// Why it is not offered; none when it is.
    pub withheld: Option<Box<Denial>>,
}

/// Hints about what a tool does, as the protocol has them. Clients do not trust them, and neither does sbx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// What it changes may be lost.
    pub destructive: bool,
    /// Done twice it changes no more than done once.
    pub idempotent: bool,
    /// It reaches beyond this machine.
    pub open_world: bool,
}

impl Hints {
    /// Only looks.
    pub const LOOKS: Self = Self { read_only: true, destructive: false, idempotent: true, open_world: false };
    /// May do anything the record grants.
    pub const ACTS: Self = Self { read_only: false, destructive: true, idempotent: false, open_world: true };

    pub(super) fn to_json(self) -> Value {
        json!({
            "readOnlyHint": self.read_only, "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent, "openWorldHint": self.open_world,
        })
    }
}

impl Offer {
    /// A tool of sbx's own that only looks.
    #[must_use]
    pub fn looking(name: &str, title: &str, description: &str, input: Value) -> Self {
        Self {
            name: name.to_owned(),
            title: Some(title.to_owned()),
            description: description.to_owned(),
            input,
            output: None,
            hints: Hints::LOOKS,
            requires: Vec::new(),
            risk: Risk::Low,
            timeout: None,
            hosts: Vec::new(),
            env: Vec::new(),
            source: "sbx".to_owned(),
            withheld: None,
        }
    }

    /// The same with what it answers.
    #[must_use]
    pub fn answering(mut self, output: Value) -> Self {
        self.output = Some(output);
        self
    }

    /// As an entry of `tools/list`.
    #[must_use]
    pub fn listed(&self) -> Value {
        let mut entry = json!({
            "name": self.name, "description": self.description, "inputSchema": self.input,
            "annotations": self.hints.to_json(),
        });
        if let Some(title) = &self.title {
            entry["title"] = json!(title);
            entry["annotations"]["title"] = json!(title);
        }
        if let Some(output) = &self.output {
            entry["outputSchema"] = or_error(output);
        }
        entry
    }
}

/// A call may also be denied or fail, which is told in the same place.
fn or_error(done: &Value) -> Value {
    let error = json!({
        "type": "object",
        "properties": { "is_error": { "const": true }, "code": { "type": "string" }, "message": { "type": "string" } },
        "required": ["is_error", "message"],
    });
    json!({ "type": "object", "anyOf": [done, error] })
}

/// What a call came to.
#[derive(Clone, Debug)]
pub enum Reply {
    /// It was done.
    Done {
        /// For a model to read; none for the value as JSON.
        text: Option<String>,
        /// For machines; fits what the tool answers.
        value: Value,
    },
    /// It was done and did not come to a good end: what it printed is told all the same.
    Failed {
        /// For a model to read.
        text: String,
        /// For machines.
        value: Value,
    },
    /// It is not allowed.
    Denied(Box<Denial>),
}

impl Reply {
    /// A value that is its own text.
    #[must_use]
    pub const fn value(value: Value) -> Self {
        Self::Done { text: None, value }
    }

    /// A failure without anything to show for it.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Failed {
            value: json!({ "is_error": true, "code": "failed", "message": message }),
            text: message,
        }
    }
}
