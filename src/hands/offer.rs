//! Which operations an agent is offered, and how each is described to a model.

use super::Reply;
use super::arguments::Arguments;
use super::cancel::Cancel;
use super::context::Context;
use super::table::TABLE;
use crate::capability::{Capability, Family};
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
    /// What it takes: one of these is held when it is offered, and the fitting ones are decided on at every call.
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

/// What a row of the table does.
pub(super) type Doing = fn(&Arguments<'_>, &Context, &Cancel) -> Result<Value, Reply>;

/// One row of the table.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) annotations: Annotations,
    pub(super) capabilities: &'static [Capability],
    /// Whether all of them are needed, or one is enough for some calls.
    pub(super) needs: Needs,
    /// Properties of the arguments, and which of them are required.
    pub(super) input: fn() -> Value,
    pub(super) required: &'static [&'static str],
    /// Properties of the answer; those that are always there come first.
    pub(super) output: fn() -> Value,
    pub(super) told: &'static [&'static str],
    pub(super) doing: Doing,
}

/// How many of its capabilities an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    All,
    Any,
    /// None: it tells of the agent itself.
    Nothing,
}

impl Row {
    fn is_held(&self, policy: &Policy) -> bool {
        let held = |capability: &Capability| policy.holds(*capability);
        let of_records = self.capabilities.iter().any(|capability| capability.family() == Family::Records);
        if of_records && policy.facts().records_dir.is_none() {
            return false;
        }
        match self.needs {
            Needs::All => self.capabilities.iter().all(held),
            Needs::Any => self.capabilities.iter().any(held),
            Needs::Nothing => true,
        }
    }

    fn tool(&self) -> Tool {
        let object = |properties: Value, required: &[&str], closed: bool| {
            json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": !closed,
            })
        };
        Tool {
            name: self.name,
            title: self.title,
            description: self.description,
            input_schema: object((self.input)(), self.required, true),
            output_schema: object((self.output)(), self.told, false),
            annotations: self.annotations,
            capabilities: self.capabilities,
        }
    }

    /// Reads the arguments and does it.
    pub(super) fn run(&self, arguments: &Value, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
        let properties = (self.input)();
        let keys: Vec<&str> =
            properties.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        (self.doing)(&Arguments::of(arguments, &keys)?, context, cancel)
    }
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

/// The row of a name.
pub(super) fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}

/// Every operation there is.
#[must_use]
pub fn all() -> Vec<Tool> {
    TABLE.iter().map(Row::tool).collect()
}

/// The operations an agent holds the capabilities for, in a stable order; those on records only where some are kept.
#[must_use]
pub fn offered(policy: &Policy) -> Vec<Tool> {
    TABLE.iter().filter(|row| row.is_held(policy)).map(Row::tool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;
    use crate::capability::Spec;

    fn names(specs: &[&str]) -> Vec<&'static str> {
        let held: Vec<Spec> = specs.iter().map(|spec| Spec::parse(spec).unwrap()).collect();
        let policy = Policy::from_specs("a", &held, &Facts::new("/home/u")).unwrap();
        offered(&policy).into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn nothing_is_offered_that_is_not_held() {
        assert_eq!(names(&[]), ["agents_capabilities"]);
        let reading = names(&["fs.read{in=/w}"]);
        assert!(reading.contains(&"read_file") && reading.contains(&"search"));
        assert!(!reading.contains(&"edit_file") && !reading.contains(&"delete_file"));
        assert!(names(&["fs.read{in=/w}", "fs.write{in=/w}"]).contains(&"edit_file"));
        assert!(!names(&["fs.write{in=/w}"]).contains(&"delete_file"));
        // Nobody has said where records are kept.
        assert_eq!(names(&["records.read"]), ["agents_capabilities"]);
    }

    #[test]
    fn every_schema_names_what_it_requires() {
        for tool in all() {
            for schema in [&tool.input_schema, &tool.output_schema] {
                let properties = schema["properties"].as_object().unwrap();
                for key in schema["required"].as_array().unwrap() {
                    assert!(properties.contains_key(key.as_str().unwrap()), "{}: {key}", tool.name);
                }
            }
        }
    }
}
