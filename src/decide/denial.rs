//! A denial: what was asked, why not, and the smallest grant that would change that.

use super::{Request, Subject};
use crate::capability::Spec;
use crate::text::{Place, codes, shell_quoted};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;
use std::path::Path;

codes! {
    /// Why the answer is no.
    DenialCode {
        CapabilityAbsent "capability_absent" "the agent does not hold the capability",
        ScopeViolation "scope_violation" "the capability is held, but not for this",
        SelfModification "self_modification" "an agent may not change its own authority or delete itself",
        ExceedsGrantorAuthority "exceeds_grantor_authority" "an agent may not give what it does not hold",
        UnknownTool "unknown_tool" "there is no such tool, or it is disabled",
        ToolNotAllowed "tool_not_allowed" "the tool is not on the allowlist",
        InvalidParams "invalid_params" "a parameter is missing, unknown or out of its range",
        RiskDenied "risk_denied" "the shell text looks destructive",
        CommandNotUnderstood "command_not_understood" "the shell text cannot be read with certainty",
        LimitExceeded "limit_exceeded" "a resource limit was reached",
    }
}

/// The held grant that comes closest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NearestGrant {
    /// As written.
    pub spec: Spec,
    /// Where.
    pub place: Option<Place>,
    /// Why it does not allow the request.
    pub reason: String,
}

/// Why a request is not allowed. A value, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denial {
    /// Why.
    pub code: DenialCode,
    /// Who asked.
    pub agent: String,
    /// With which tool.
    pub tool: Option<String>,
    /// What was asked, for machines.
    pub request: Value,
    /// What was asked and why not, for people.
    pub message: String,
    /// The held grant that comes closest.
    pub nearest: Option<NearestGrant>,
    /// The smallest grant that would allow it; none where none would.
    pub suggested_grant: Option<Spec>,
    /// What else would help.
    pub hint: Option<String>,
    /// What the risk layer found, alternatives included, when that is the reason.
    pub assessment: Option<Box<Value>>,
}

impl Denial {
    /// A denial of a tool call that never became a request.
    #[must_use]
    pub fn of_tool(code: DenialCode, agent: &str, tool: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            agent: agent.to_owned(),
            tool: Some(tool.to_owned()),
            request: json!({ "tool": tool }),
            message: message.into(),
            nearest: None,
            suggested_grant: None,
            hint: None,
            assessment: None,
        }
    }

    pub(super) fn of(code: DenialCode, agent: &str, request: &Request, message: String) -> Self {
        Self {
            code,
            agent: agent.to_owned(),
            tool: request.tool().map(str::to_owned),
            request: describe(request),
            message,
            nearest: None,
            suggested_grant: None,
            hint: None,
            assessment: None,
        }
    }

    /// The denial of shell text for what was found in it.
    #[must_use]
    pub fn of_risk(
        code: DenialCode,
        agent: &str,
        request: &Request,
        reason: &str,
        assessment: Value,
    ) -> Self {
        let mut denial = Self::of(code, agent, request, reason.to_owned());
        let first = &assessment["alternatives"][0]["command"];
        denial.hint = first.as_str().map(|command| format!("safer: {command}"));
        denial.assessment = Some(Box::new(assessment));
        denial
    }

    /// The same denial, of a request made by a named tool.
    #[must_use]
    pub fn by(mut self, tool: &str) -> Self {
        self.tool = Some(tool.to_owned());
        self
    }

    /// The same object in library, `--json`, MCP results and audit.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let nearest = self.nearest.as_ref().map(|nearest| {
            json!({ "grant": nearest.spec.to_string(), "place": nearest.place, "reason": nearest.reason })
        });
        let mut body = json!({
            "is_error": true,
            "code": self.code.name(),
            "agent": self.agent,
            "tool": self.tool,
            "request": self.request,
            "message": self.message,
            "nearest_grant": nearest,
            "suggested_grant": self.suggested_grant.as_ref().map(Spec::to_string),
            "hint": self.hint,
        });
        if let Some(assessment) = &self.assessment {
            body["assessment"] = (**assessment).clone();
        }
        body
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, one_line(&self.message))?;
        if let Some(nearest) = &self.nearest {
            write!(f, "\n  nearest grant: {}", one_line(&nearest.spec.to_string()))?;
            if let Some(place) = &nearest.place {
                write!(f, " at {}:{}", one_line(&place.file), place.line)?;
            }
            write!(f, "\n  why not: {}", one_line(&nearest.reason))?;
        }
        if let Some(spec) = &self.suggested_grant {
            let command = grant_command(&self.agent, &spec.to_string());
            write!(f, "\n  smallest grant: {}", one_line(&command))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {}", one_line(hint))?;
        }
        Ok(())
    }
}

/// Text that stays on its line: names of files are an agent's to choose, and must not look like lines of sbx.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    Cow::Owned(line)
}

/// The command that gives an agent a grant.
#[must_use]
pub fn grant_command(agent: &str, spec: &str) -> String {
    format!("sbx agents grant {agent} {}", shell_quoted(spec))
}

/// A request as JSON; the keys are those of `sbx check`.
fn describe(request: &Request) -> Value {
    let capability = request.capability().name();
    match request.subject() {
        Subject::Record { id, class } => json!({ "capability": capability, "id": id, "class": class }),
        Subject::Agent { id, proposal } => {
            let granted: Option<Vec<String>> =
                proposal.as_ref().map(|proposal| proposal.grants.iter().map(Spec::to_string).collect());
            json!({ "capability": capability, "id": id, "granted": granted })
        }
        Subject::Path { asked, target } => json!({
            "capability": capability,
            "path": asked.to_string_lossy(),
            "target": (asked != target).then(|| target.to_string_lossy()),
        }),
        Subject::Host { target, address, refused_method } => json!({
            "capability": capability,
            "host": target.as_ref().ok().map(ToString::to_string),
            "address": address,
            "method": refused_method,
        }),
        Subject::Command { argv, cwd, .. } => json!({
            "capability": capability,
            "argv": argv.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>(),
            "cwd": shown(cwd.as_deref()),
        }),
        Subject::Shell { text, arguments, cwd } => {
            let mut body = json!({ "capability": capability, "cmd": text, "cwd": shown(cwd.as_deref()) });
            if let Some(arguments) = arguments {
                body["arguments"] = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
            }
            body
        }
    }
}

/// A path for machines: JSON is text, and a path need not be.
fn shown(path: Option<&Path>) -> Option<Cow<'_, str>> {
    path.map(Path::to_string_lossy)
}
