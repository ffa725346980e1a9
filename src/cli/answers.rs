//! Schemas of what commands answer with `--json`.

use super::schema::{place, strings};
use crate::capability::{CATALOG, Risk};
use crate::hands::{self, FaultCode};
use crate::text::Code;
use crate::tool::ToolCode;
use serde_json::{Map, Value, json};

/// An object with these properties, all of them there.
fn object<const N: usize>(properties: [(&str, Value); N]) -> Value {
    let required: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let required = json!(required);
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn text_or_null() -> Value {
    json!({ "type": ["string", "null"] })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn risk() -> Value {
    json!({ "enum": [Risk::Low.name(), Risk::Medium.name(), Risk::High.name(), null] })
}

fn grant() -> Value {
    let names: Vec<&str> = CATALOG.iter().map(|entry| entry.name).collect();
    object([
        ("capability", json!({ "enum": names })),
        ("grant", text()),
        ("risk", risk()),
        ("root", text_or_null()),
        ("inert", flag()),
        ("clamped", flag()),
        ("origin", json!({ "enum": ["capabilities", "access", "sandbox", "default"] })),
        ("place", place()),
    ])
}

fn problem() -> Value {
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    object([
        ("code", json!({ "enum": codes })),
        ("severity", json!({ "enum": ["note", "warning", "error"] })),
        ("message", text()),
        ("place", place()),
        ("help", text_or_null()),
        ("suggest", text_or_null()),
        ("key", text_or_null()),
        ("capabilities", strings()),
    ])
}

pub(super) fn grants() -> Value {
    list(grant())
}

pub(super) fn problems() -> Value {
    list(object([("file", text()), ("problems", list(problem()))]))
}

pub(super) fn agents() -> Value {
    list(object([
        ("name", text()),
        ("from", json!({ "enum": ["path", "user", "built-in", "project"] })),
        ("trusted", flag()),
        ("highest_risk", risk()),
        ("description", text()),
        ("file", text()),
    ]))
}

pub(super) fn agent() -> Value {
    object([
        ("id", text()),
        ("description", text_or_null()),
        ("from", text()),
        ("file", text()),
        ("root", text_or_null()),
        ("grants", grants()),
        ("limits", json!({ "type": "object", "additionalProperties": text() })),
        ("env", strings()),
        ("listen", list(json!({ "type": "integer" }))),
        ("accept_degraded", strings()),
        ("provider_tools", strings()),
        ("problems", list(problem())),
        ("body", text()),
    ])
}

pub(super) fn explanation() -> Value {
    let level = object([
        ("level", json!({ "enum": ["config", "project", "agent"] })),
        ("root", text()),
        ("place", place()),
        ("narrowed_to", text_or_null()),
    ]);
    let mut schema = object([
        ("agent", text()),
        ("file", text()),
        ("levels", list(level)),
        ("root", text_or_null()),
        ("grants", grants()),
        ("hash", json!({ "type": "string", "pattern": "^sha256:[0-9a-f]{64}$" })),
    ]);
    // Only with --tree.
    schema["properties"]["tree"] = json!({ "type": "array", "items": { "$ref": "#/$defs/node" } });
    // What a command would be launched with.
    let launch = object([
        ("agent", text()),
        ("grant", text()),
        ("plan", strings()),
        ("backend", text()),
        ("told", text()),
        ("remarks", strings()),
    ]);
    json!({ "anyOf": [schema, launch], "$defs": { "node": node() } })
}

/// A node of the tree of authority.
fn node() -> Value {
    object([
        ("label", text()),
        ("detail", text()),
        ("risk", risk()),
        ("marks", strings()),
        ("place", place()),
        ("children", json!({ "type": "array", "items": { "$ref": "#/$defs/node" } })),
    ])
}

pub(super) fn learn() -> Value {
    let names: Vec<&str> = CATALOG.iter().map(|entry| entry.name).collect();
    let grant = object([
        ("grant", text()),
        ("capability", json!({ "enum": names })),
        ("risk", risk()),
        ("why", text()),
        ("held", json!({ "type": ["boolean", "null"] })),
    ]);
    let called = object([
        ("verb", json!({ "enum": ["read", "write", "delete", "run"] })),
        ("path", text()),
        ("what", text()),
    ]);
    object([
        ("grants", list(grant)),
        ("env", strings()),
        ("called_out", list(called)),
        ("notes", strings()),
        ("status", json!({ "type": "integer" })),
        ("copied", flag()),
        ("record", text()),
        ("file", text_or_null()),
        ("commands", strings()),
    ])
}

pub(super) fn report() -> Value {
    let count = || json!({ "type": "integer", "minimum": 0 });
    let agent = object([
        ("name", text()),
        ("from", json!({ "enum": ["path", "user", "built-in", "project"] })),
        ("trusted", flag()),
        ("description", text()),
        ("file", text()),
        ("error", text_or_null()),
        ("tree", json!({ "type": "array", "items": { "$ref": "#/$defs/node" } })),
        ("launches", count()),
        ("denied", count()),
    ]);
    let slot = object([("begins", text()), ("launches", count()), ("denied", count()), ("other", count())]);
    let refusal = object([
        ("time", text()),
        ("agent", text()),
        ("kind", text()),
        ("message", text()),
        ("suggested_grant", text_or_null()),
    ]);
    let change = object([("text", text()), ("risk", risk()), ("covered", flag()), ("widens", flag())]);
    let difference = object([
        ("old", text()),
        ("new", text()),
        ("direction", json!({ "enum": ["same", "wider", "narrower", "wider and narrower"] })),
        ("added", list(change.clone())),
        ("removed", list(change)),
        ("kept", count()),
    ]);
    let mut schema = object([
        ("time", text()),
        ("agents", list(agent)),
        ("activity", object([("since", text()), ("slots", list(slot)), ("refusals", list(refusal))])),
        ("damaged", count()),
        ("difference", json!({ "oneOf": [{ "type": "null" }, difference] })),
    ]);
    schema["$defs"] = json!({ "node": node() });
    schema
}

pub(super) fn why(denial: Value) -> Value {
    let decided = json!({ "oneOf": [
        object([("decision", json!({ "const": "allow" })), ("grant", text()), ("place", place())]),
        object([("decision", json!({ "const": "deny" })), ("denial", denial)]),
    ] });
    let number = || json!({ "type": ["integer", "null"] });
    let tried = json!({ "oneOf": [
        object([("verdict", json!({ "const": "untried" })), ("why", text())]),
        object([
            ("verdict", json!({ "enum": ["agree", "expected", "differ"] })),
            ("why", text_or_null()),
            ("act", text()),
            ("object", text()),
            ("done", flag()),
            ("error", number()),
            ("by_proxy", json!({ "type": ["boolean", "null"] })),
            ("backend", text()),
            ("landlock", number()),
            ("missing", strings()),
        ]),
    ] });
    object([
        ("request", text()),
        ("decided", decided),
        ("tried", tried),
        ("file", text()),
        ("authority", text()),
        ("version", text()),
        ("system", text()),
        ("machine", text()),
    ])
}

pub(super) fn doctor() -> Value {
    let level = || json!({ "enum": ["fine", "note", "warning", "error"] });
    let guarantee = object([
        ("guarantee", text()),
        ("state", json!({ "enum": ["held", "given", "missing", "broken"] })),
        ("tried", text_or_null()),
    ]);
    let backend = object([
        ("backend", text()),
        ("works", flag()),
        ("failure", text_or_null()),
        ("network", json!({ "enum": ["redirected", "per-port", "on-behalf", null] })),
        ("guarantees", list(guarantee)),
    ]);
    let finding = object([
        ("area", text()),
        ("code", text()),
        ("level", level()),
        ("message", text()),
        ("fix", strings()),
        ("place", place()),
    ]);
    object([
        ("level", level()),
        ("kernel", text()),
        ("landlock", json!({ "type": "integer" })),
        ("container", text_or_null()),
        ("wsl", json!({ "type": ["integer", "null"] })),
        ("backends", list(backend)),
        ("findings", list(finding)),
        ("fixed", strings()),
    ])
}

pub(super) fn audit_events() -> Value {
    list(object([
        ("seq", json!({ "type": "integer" })),
        ("time", text()),
        ("session", text()),
        ("agent", text()),
        ("kind", text()),
        ("body", json!({ "type": "object" })),
        ("hash", json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })),
    ]))
}

pub(super) fn audit_stats() -> Value {
    let number = || json!({ "type": "integer" });
    let counts = || json!({ "type": "object", "additionalProperties": { "type": "integer" } });
    let agent = object([
        ("agent", text()),
        ("events", number()),
        ("launches", number()),
        ("failed", number()),
        ("denied", number()),
        ("limits", number()),
        ("duration_ms", number()),
        ("last", text()),
    ]);
    object([
        ("events", number()),
        ("damaged", number()),
        ("first", text_or_null()),
        ("last", text_or_null()),
        ("sessions", number()),
        ("kinds", counts()),
        ("agents", list(agent)),
        ("denials", counts()),
    ])
}

pub(super) fn audit_verdict() -> Value {
    let finding = || {
        list(object([
            ("code", text()),
            ("file", text()),
            ("line", json!({ "type": "integer" })),
            ("message", text()),
        ]))
    };
    object([
        ("whole", flag()),
        ("files", json!({ "type": "integer" })),
        ("lines", json!({ "type": "integer" })),
        ("seq", json!({ "type": ["integer", "null"] })),
        ("head", text_or_null()),
        ("problems", finding()),
        ("notes", finding()),
    ])
}

pub(super) fn skills() -> Value {
    list(object([("name", text()), ("description", text())]))
}

pub(super) fn skill_check() -> Value {
    object([
        ("skill", text()),
        ("requires", strings()),
        ("unknown_tools", strings()),
        ("missing", list(object([("requirement", text()), ("reason", text())]))),
        ("usable", flag()),
    ])
}

pub(super) fn provider_tools() -> Value {
    let domains = json!({ "type": ["array", "null"], "items": { "type": "string" } });
    list(object([
        ("provider", text()),
        ("tool", text()),
        ("offered", flag()),
        ("allowed_domains", domains),
        ("notes", strings()),
    ]))
}

/// What ran, with what held; or why nothing ran.
pub(super) fn outcome(denial: Value) -> Value {
    let number = json!({ "type": ["integer", "null"] });
    let mut refusal = denial.clone();
    refusal["properties"]["call"] = text_or_null();
    refusal["properties"]["errno"] = number.clone();
    refusal["properties"]["command"] = text_or_null();
    let closed = object([("call", text()), ("errno", json!({ "type": "integer" })), ("why", text())]);
    let ran = json!({
        "type": "object",
        "properties": {
            "status": { "type": "integer" }, "exit": number, "signal": number, "limit": text_or_null(),
            "setup": text_or_null(), "duration_ms": { "type": "integer" }, "backend": text(),
            "guarantees": strings(), "missing": strings(), "reached": strings(), "lost": strings(), "remarks": strings(), "warnings": strings(),
            "stdout": text(), "stderr": text(), "refused": list(refusal),
            "refused_more": { "type": "integer" }, "closed_calls": list(closed),
        },
        "required": ["status", "exit", "signal", "limit", "setup", "duration_ms", "backend", "guarantees", "missing", "reached"],
        "additionalProperties": false,
    });
    let refused = object([("status", json!({ "type": "integer" })), ("error", text())]);
    let denied = object([("status", json!({ "const": 126 })), ("denial", denial.clone())]);
    json!({ "anyOf": [ran, refused, denied, denial] })
}

fn tool_fault_code() -> Value {
    let codes: Vec<&str> = ToolCode::ALL.iter().map(|code| code.name()).collect();
    json!({ "enum": codes })
}

fn number_or_null() -> Value {
    json!({ "type": ["number", "null"] })
}

pub(super) fn tools() -> Value {
    let reason = object([("code", text()), ("message", text())]);
    let constraints = object([
        ("timeout_seconds", number_or_null()),
        ("max_stdout_bytes", json!({ "type": "integer" })),
        ("max_stderr_bytes", json!({ "type": "integer" })),
        ("cwd", text_or_null()),
    ]);
    list(object([
        ("agent", text()),
        ("name", text()),
        ("description", text_or_null()),
        ("kind", json!({ "enum": ["argv", "free", "shell", "internal", "off"] })),
        ("command", text()),
        ("persistent", flag()),
        ("read_only", flag()),
        ("enabled", flag()),
        ("requires", strings()),
        ("hosts", strings()),
        ("env", strings()),
        ("risk", risk()),
        ("offered", flag()),
        ("reason", json!({ "anyOf": [{ "type": "null" }, reason] })),
        ("output", json!({ "enum": ["text", "json", "lines"] })),
        ("constraints", constraints),
        ("input_schema", json!({ "type": "object" })),
        ("layer", json!({ "enum": ["builtin", "user", "record", "session"] })),
        ("place", place()),
    ]))
}

pub(super) fn tool_problems() -> Value {
    let problem = object([
        ("code", tool_fault_code()),
        ("field", text()),
        ("message", text()),
        ("place", place()),
        ("help", text_or_null()),
    ]);
    list(object([("file", text()), ("tools", strings()), ("problems", list(problem))]))
}

/// A tool that failed, with what it printed if it ran.
fn tool_failure() -> Value {
    json!({
        "type": "object",
        "properties": {
            "is_error": { "const": true }, "code": tool_fault_code(), "tool": text(), "message": text(),
            "value": true, "stdout": text(), "stderr": text(), "stdout_truncated": flag(), "stderr_truncated": flag(),
            "exit_code": { "type": ["integer", "null"] }, "duration_ms": { "type": "integer" },
            "encoding": { "enum": ["utf-8", "base64", null] },
        },
        "required": ["is_error", "code", "tool", "message"],
        "additionalProperties": false,
    })
}

pub(super) fn tool_run(denial: Value) -> Value {
    let done = object([
        ("value", json!(true)),
        ("stdout", text()),
        ("stderr", text()),
        ("stdout_truncated", flag()),
        ("stderr_truncated", flag()),
        ("exit_code", json!({ "type": ["integer", "null"] })),
        ("duration_ms", json!({ "type": "integer" })),
        ("encoding", json!({ "enum": ["utf-8", "base64", null] })),
    ]);
    json!({ "anyOf": [done, tool_failure(), denial] })
}

fn tool_process() -> Value {
    object([
        ("name", text()),
        ("pid", json!({ "type": "integer" })),
        ("running", flag()),
        ("exit_code", json!({ "type": ["integer", "null"] })),
        ("end", text_or_null()),
        ("uptime_ms", json!({ "type": "integer" })),
        ("stdout", text()),
        ("stderr", text()),
    ])
}

pub(super) fn tool_status(denial: Value) -> Value {
    json!({ "anyOf": [tool_process(), tool_failure(), denial] })
}

pub(super) fn tool_session() -> Value {
    object([("session", text()), ("agent", text_or_null()), ("processes", list(tool_process()))])
}

/// What `sbx mcp pin` answers.
pub(super) fn mcp_pins() -> Value {
    let tool = object([
        ("name", text()),
        ("change", json!({ "enum": ["new", "same", "changed", "gone"] })),
        ("differences", strings()),
    ]);
    object([
        ("file", text()),
        ("server", text()),
        ("written", flag()),
        ("package", text_or_null()),
        ("version", text_or_null()),
        ("tools", list(tool)),
    ])
}

/// What `sbx mcp install` answers.
pub(super) fn mcp_install() -> Value {
    client_file("servers")
}

pub(super) fn hook_install() -> Value {
    client_file("hooks")
}

/// What became of a client's file, and of what is listed in it.
fn client_file(what: &'static str) -> Value {
    let entry = object([
        ("name", text()),
        ("change", json!({ "enum": ["added", "changed", "same", "removed", "skipped"] })),
        ("why", text_or_null()),
    ]);
    object([
        ("client", text()),
        ("file", text()),
        ("written", flag()),
        ("backup", text_or_null()),
        (what, list(entry)),
        ("text", text_or_null()),
    ])
}

/// Any operation's answer, the denial or the fault.
pub(super) fn operation(denial: Value) -> Value {
    let codes: Vec<&str> = FaultCode::ALL.iter().map(|code| code.name()).collect();
    let fault = object([
        ("is_error", json!({ "const": true })),
        ("code", json!({ "enum": codes })),
        ("message", text()),
        ("hint", text_or_null()),
    ]);
    let done = hands::all().into_iter().map(|tool| tool.output_schema);
    json!({ "anyOf": done.chain([denial, fault]).collect::<Vec<_>>() })
}
