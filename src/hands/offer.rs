//! Which operations an agent is offered, and how each is described to a model.

use crate::capability::Capability;
use crate::policy::Policy;
use serde_json::{Value, json};

/// One operation as a client of the Model Context Protocol sees it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tool {
    /// The name it is called by.
    pub name: &'static str,
    /// A name for people.
    pub title: &'static str,
    /// What it does, for a model.
    pub description: &'static str,
    /// The arguments, a JSON Schema.
    pub input_schema: Value,
    /// The answer when it was done, a JSON Schema.
    pub output_schema: Value,
    /// Hints about its effects.
    pub annotations: Annotations,
    /// What it takes: one of these is held when it is offered, and the fitting one is decided on at every call.
    pub capabilities: &'static [Capability],
}

/// Hints about what an operation does, as the protocol has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: bool,
    /// What it changes may be lost.
    pub destructive: bool,
    /// Done twice it changes no more than done once.
    pub idempotent: bool,
    /// It reaches beyond this machine.
    pub open_world: bool,
}

impl Tool {
    /// As an entry of `tools/list`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": {
                "readOnlyHint": self.annotations.read_only,
                "destructiveHint": self.annotations.destructive,
                "idempotentHint": self.annotations.idempotent,
                "openWorldHint": self.annotations.open_world,
            },
        })
    }
}

/// The operations an agent holds a capability for, in a stable order.
#[must_use]
pub fn offered(policy: &Policy) -> Vec<Tool> {
    let _ = policy;
    Vec::new()
}
