//! `sbx schema`: JSON Schemas of what sbx reads and writes, made from the tables in the code.

use super::{CliError, Exit, Ui, answers, risk};
use crate::capability::{CATALOG, Entry, ValueKind};
use crate::decide::{DenialCode, REQUEST_KEYS};
use crate::manifest::{AUDIT_KEYS, BACKENDS, CONFIG_KEYS, LIMIT_KEYS, MCP_KEYS, RISK_KEYS};
use crate::profile::tool_names;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

/// Which schema.
#[derive(Debug, Args)]
pub(super) struct Schema {
    /// What it describes.
    #[arg(value_enum)]
    what: What,
}

/// What a schema can be of.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum What {
    /// The catalogue itself: every capability with its risk and scope keys.
    Capabilities,
    /// An agent's record (its front matter).
    Record,
    /// The configuration, config.yml.
    Config,
    /// A denial.
    Denial,
    /// A request of `sbx check --batch`.
    CheckRequest,
    /// An answer of `sbx check`.
    CheckResponse,
    /// How a fenced command ended: `sbx exec --json`, and each line of `--status-fd`.
    Outcome,
    /// An answer of `sbx agents list`.
    Agents,
    /// An answer of `sbx agents show`.
    Agent,
    /// An answer of `sbx agents capabilities`.
    Grants,
    /// An answer of `sbx agents lint`.
    Problems,
    /// An answer of `sbx explain`.
    Explanation,
    /// An answer of `sbx risk check` and `sbx risk explain`.
    RiskAssessment,
    /// An answer of `sbx risk suggest`.
    RiskSuggestions,
    /// An answer of `sbx risk rules`.
    RiskRules,
    /// An answer of `sbx why`.
    Why,
    /// An answer of `sbx doctor`.
    Doctor,
    /// An answer of `sbx audit show`.
    AuditEvents,
    /// An answer of `sbx audit stats`.
    AuditStats,
    /// An answer of `sbx audit verify`.
    AuditVerdict,
    /// An answer of `sbx learn`.
    Learn,
    /// An answer of `sbx report`.
    Report,
    /// An answer of `sbx skills list`.
    Skills,
    /// An answer of `sbx skills check`.
    SkillCheck,
    /// An answer of `sbx provider-tools`.
    ProviderTools,
    /// An answer of `sbx mcp pin`.
    McpPins,
    /// An answer of `sbx mcp install`.
    McpInstall,
    /// An answer of `sbx hook install`.
    HookInstall,
    /// An answer of `sbx tools list`; that of `show` is one of its rows.
    Tools,
    /// An answer of `sbx tools validate`.
    ToolProblems,
    /// An answer of `sbx tools run`: what came out, or why nothing did.
    ToolRun,
    /// An answer of `sbx tools start`, `stop` and `status` about one tool.
    ToolStatus,
    /// An answer of `sbx tools status` about a session.
    ToolSession,
    /// An answer of `sbx fs`, `sbx http` and `sbx records`: what was done, the denial, or why it failed.
    Operation,
}

impl Schema {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        ui.answer_json(&schema(self.what))?;
        Ok(Exit::Fine)
    }
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema, or for the catalogue the catalogue.
#[must_use]
pub(super) fn schema(what: What) -> Value {
    match what {
        What::Capabilities => CATALOG.iter().map(catalogue_row).collect(),
        What::Record => record(),
        What::Config => config(),
        What::Denial => titled("sbx denial", denial()),
        What::CheckRequest => check_request(),
        What::CheckResponse => check_response(),
        What::Outcome => titled("sbx outcome", answers::outcome(denial())),
        What::Agents => titled("sbx agents", answers::agents()),
        What::Agent => titled("sbx agent", answers::agent()),
        What::Grants => titled("sbx grants", answers::grants()),
        What::Problems => titled("sbx problems", answers::problems()),
        What::Explanation => titled("sbx explanation", answers::explanation()),
        What::RiskAssessment => titled("sbx risk assessment", risk::assessment_schema()),
        What::RiskSuggestions => titled("sbx risk suggestions", risk::suggestions_schema()),
        What::RiskRules => titled("sbx risk rules", risk::rules_schema()),
        What::Why => titled("sbx why", answers::why(denial())),
        What::Doctor => titled("sbx doctor", answers::doctor()),
        What::AuditEvents => titled("sbx audit events", answers::audit_events()),
        What::AuditStats => titled("sbx audit statistics", answers::audit_stats()),
        What::AuditVerdict => titled("sbx audit verdict", answers::audit_verdict()),
        What::Learn => titled("sbx learn", answers::learn()),
        What::Report => titled("sbx report", answers::report()),
        What::Skills => titled("sbx skills", answers::skills()),
        What::SkillCheck => titled("sbx skill check", answers::skill_check()),
        What::ProviderTools => titled("sbx provider tools", answers::provider_tools()),
        What::McpPins => titled("sbx mcp pins", answers::mcp_pins()),
        What::McpInstall => titled("sbx mcp install", answers::mcp_install()),
        What::HookInstall => titled("sbx hook install", answers::hook_install()),
        What::Tools => titled("sbx tools", answers::tools()),
        What::ToolProblems => titled("sbx tool problems", answers::tool_problems()),
        What::ToolRun => titled("sbx tool run", answers::tool_run(denial())),
        What::ToolStatus => titled("sbx tool status", answers::tool_status(denial())),
        What::ToolSession => titled("sbx tool session", answers::tool_session()),
        What::Operation => titled("sbx operation", answers::operation(denial())),
    }
}

fn titled(title: &str, mut schema: Value) -> Value {
    schema["$schema"] = json!(DIALECT);
    schema["title"] = json!(title);
    schema
}

fn catalogue_row(entry: &Entry) -> Value {
    let keys: Map<String, Value> = entry
        .keys
        .iter()
        .map(|key| {
            let kind = match key.kind() {
                ValueKind::Text => "string",
                ValueKind::List => "list",
            };
            (key.name().to_owned(), json!(kind))
        })
        .collect();
    json!({
        "capability": entry.name, "risk": entry.risk.name(), "summary": entry.summary, "scope": keys,
        "bare": if entry.family.is_external() { "nothing" } else { "everything" },
    })
}

pub(super) fn strings() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

/// A grant: a name or compact spec, or a map with one capability and its scope.
fn grant() -> Value {
    let scoped = CATALOG.iter().map(|entry| {
        let keys: Map<String, Value> = entry
            .keys
            .iter()
            .map(|key| {
                let value = match key.kind() {
                    ValueKind::Text => json!({ "type": "string" }),
                    ValueKind::List => strings(),
                };
                (key.name().to_owned(), value)
            })
            .collect();
        let scope = json!({ "type": ["object", "null"], "properties": keys, "additionalProperties": false });
        (entry.name.to_owned(), scope)
    });
    let names: Vec<String> = CATALOG.iter().map(|entry| entry.name.replace('.', "\\.")).collect();
    json!({
        "oneOf": [
            { "type": "string", "pattern": format!("^\\s*({})\\s*(\\{{.*\\}}\\s*)?$", names.join("|")) },
            {
                "type": "object", "minProperties": 1, "maxProperties": 1,
                "properties": Value::Object(scoped.collect()), "additionalProperties": false,
            },
        ],
    })
}

fn limits() -> Value {
    let keys: Map<String, Value> = LIMIT_KEYS
        .iter()
        .map(|key| ((*key).to_owned(), json!({ "type": ["string", "integer", "number"] })))
        .collect();
    json!({ "type": ["object", "null"], "properties": keys, "additionalProperties": false })
}

fn keyed(keys: &[&str]) -> Value {
    let keys: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), json!(true))).collect();
    json!({ "type": ["object", "null"], "properties": keys, "additionalProperties": false })
}

/// `risk`: which findings deny.
fn risk_section() -> Value {
    let severity = json!({ "type": "string", "pattern": "^(?i:info|low|medium|high|critical)$" });
    let groups = json!({
        "type": ["object", "null"], "properties": { "enable": strings(), "disable": strings() }, "additionalProperties": false,
    });
    let property = |key: &str| match key {
        "deny_at" | "min_severity" => severity.clone(),
        "deny" | "ignore" => strings(),
        "groups" => groups.clone(),
        _ => json!({ "type": "boolean" }),
    };
    let keys: Map<String, Value> = RISK_KEYS.iter().map(|key| ((*key).to_owned(), property(key))).collect();
    json!({ "type": ["object", "null"], "properties": keys, "additionalProperties": false })
}

fn record() -> Value {
    let inject = json!({
        "type": ["object", "null"],
        "properties": { "inject": {
            "type": "object",
            "properties": { "host": { "type": "string" }, "header": { "type": "string" } },
            "required": ["host", "header"], "additionalProperties": false,
        } },
        "additionalProperties": false,
    });
    titled(
        "sbx agent record",
        json!({
            "type": "object",
            "properties": {
                "id": { "type": "string" },
                "class": { "const": "agent" },
                "description": { "type": "string" },
                "sandbox": { "oneOf": [
                    { "type": "string" },
                    { "type": "object", "properties": { "root": { "type": "string" } },
                      "required": ["root"], "additionalProperties": false },
                ] },
                "access": { "type": "string", "pattern": "^\\s*([rR]|[wW]|[rR][wW])\\s*$" },
                "capabilities": { "oneOf": [
                    { "type": "null" }, { "type": "string" }, { "type": "array", "items": grant() },
                ] },
                "tools": { "type": ["object", "null"] },
                "mcp": keyed(MCP_KEYS),
                "risk": risk_section(),
                "limits": limits(),
                "env": { "oneOf": [
                    { "type": "null" },
                    { "type": "array", "items": { "oneOf": [
                        { "type": "string" },
                        { "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": inject },
                    ] } },
                    { "type": "object", "additionalProperties": inject },
                ] },
                "listen": { "type": "array", "items": { "type": "integer", "minimum": 1, "maximum": 65535 } },
                "accept_degraded": strings(),
                "provider_tools": strings(),
            },
        }),
    )
}

fn config() -> Value {
    let property = |key: &str| match key {
        "limits" => limits(),
        "accept_degraded" => strings(),
        "builtin_tools" => json!({ "type": "array", "items": { "enum": tool_names().collect::<Vec<_>>() } }),
        "audit" => keyed(AUDIT_KEYS),
        "backend" => json!({ "enum": BACKENDS }),
        _ => json!({ "type": "string" }),
    };
    let keys: Map<String, Value> = CONFIG_KEYS.iter().map(|key| ((*key).to_owned(), property(key))).collect();
    titled(
        "sbx configuration",
        json!({ "type": "object", "properties": keys, "additionalProperties": false }),
    )
}

pub(super) fn place() -> Value {
    json!({
        "type": ["object", "null"],
        "properties": {
            "file": { "type": "string" }, "line": { "type": "integer" }, "column": { "type": "integer" },
        },
        "required": ["file", "line", "column"],
    })
}

fn denial() -> Value {
    let codes: Vec<&str> = DenialCode::ALL.iter().map(|code| code.name()).collect();
    json!({
        "type": "object",
        "properties": {
            "is_error": { "const": true },
            "code": { "enum": codes },
            "agent": { "type": "string" },
            "tool": { "type": ["string", "null"] },
            "request": { "type": "object" },
            "message": { "type": "string" },
            "nearest_grant": {
                "type": ["object", "null"],
                "properties": { "grant": { "type": "string" }, "place": place(), "reason": { "type": "string" } },
            },
            "suggested_grant": { "type": ["string", "null"] },
            "hint": { "type": ["string", "null"] },
            "assessment": risk::assessment_schema(),
        },
        "required": ["is_error", "code", "agent", "request", "message"],
    })
}

fn check_request() -> Value {
    let names: Vec<&str> = CATALOG.iter().map(|entry| entry.name).collect();
    let property = |key: &str| match key {
        "cap" | "capability" => json!({ "enum": names }),
        "argv" | "keys" => strings(),
        "granted" => json!({ "type": ["array", "null"], "items": grant() }),
        "port" => json!({ "type": ["integer", "null"], "minimum": 1, "maximum": 65535 }),
        _ => json!({ "type": ["string", "null"] }),
    };
    let keys: Map<String, Value> =
        REQUEST_KEYS.iter().map(|key| ((*key).to_owned(), property(key))).collect();
    titled(
        "sbx check request",
        json!({ "type": "object", "properties": keys, "additionalProperties": false }),
    )
}

fn check_response() -> Value {
    let mut denied = denial();
    denied["properties"]["decision"] = json!({ "const": "deny" });
    let error = json!({
        "type": "object",
        "properties": {
            "decision": { "const": "error" },
            "error": { "type": "object", "required": ["code", "message", "line"] },
        },
        "required": ["decision", "error"],
    });
    let allowed = json!({
        "type": "object",
        "properties": { "decision": { "const": "allow" }, "grant": { "type": "string" }, "place": place() },
        "required": ["decision", "grant"],
    });
    titled("sbx check response", json!({ "oneOf": [allowed, denied, error] }))
}
