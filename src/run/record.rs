//! Launches and decisions as events of the audit log.
//!
//! Answers for the log of this user and for what a launch, its end and a refusal look like in it. It leaves
//! writing to [`audit`](crate::audit).
//! Invariant: nothing is launched whose launch could not be recorded, unless the configuration says so.

use super::launch::outcome_json;
use super::setting::Setting;
use crate::audit::{Event, Log, new_session};
use crate::decide::{Denial, Permit, Subject};
use crate::policy::{Policy, fingerprint};
use sbx_platform::report::{Act, Verb};
use sbx_platform::{Backend, End, Outcome};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

/// The variable by which a caller groups what it asks for.
const SESSION: &str = "SBX_SESSION";
/// The most refused changes that are told of one launch.
const MOST: usize = 20;

/// The audit log of this user; whoever does something on an agent's behalf records it there.
#[must_use]
pub fn audit(setting: &Setting) -> Arc<Log> {
    // A launch hides the directory from its command, for which it must be there before the first event is.
    if !setting.facts.state_dir.is_dir() {
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&setting.facts.state_dir);
    }
    Arc::new(Log::new(&setting.facts.state_dir, session(), setting.config.audit))
}

/// The caller's name for this session, when it is one; else a new one.
fn session() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let named = std::env::var(SESSION).ok();
    named.filter(|name| (1..=64).contains(&name.len()) && name.chars().all(plain)).unwrap_or_else(new_session)
}

/// A refusal.
#[must_use]
pub fn denied(denial: &Denial) -> Event {
    Event::new("decision", &denial.agent, json!({ "decision": "deny", "denial": denial.to_json() }))
}

/// A yes that was asked for by itself.
#[must_use]
pub fn allowed(permit: &Permit<'_>) -> Event {
    let body = json!({
        "decision": "allow",
        "request": permit.request().to_string(),
        "grant": permit.grant().spec.to_string(),
    });
    Event::new("decision", permit.policy().agent(), body)
}

/// What is about to be run, under a name that its end repeats.
pub(super) fn launch(permit: &Permit<'_>, id: &str, backend: Option<Backend>) -> Event {
    let mut body = json!({ "launch": id });
    match permit.request().subject() {
        Subject::Command { argv, cwd, .. } => {
            body["argv"] = argv.iter().map(|argument| argument.to_string_lossy()).collect();
            body["cwd"] = json!(cwd.as_deref().map(Path::to_string_lossy));
        }
        Subject::Shell { text, arguments, cwd } => {
            body["cmd"] = json!(text);
            body["arguments"] =
                arguments.iter().flatten().map(|argument| argument.to_string_lossy()).collect();
            body["cwd"] = json!(cwd.as_deref().map(Path::to_string_lossy));
        }
        Subject::Agent { .. } | Subject::Record { .. } | Subject::Path { .. } | Subject::Host { .. } => {}
    }
    body["grant"] = json!(permit.grant().spec.to_string());
    body["authority"] = json!(fingerprint(permit.policy()));
    body["backend"] = json!(backend.map_or("auto", Backend::name));
    Event::new("launch", permit.policy().agent(), body)
}

/// That sbx itself is about to work behind an agent's fence, under a name that its end repeats.
pub(super) fn helper(policy: &Policy, id: &str, argv: &[OsString], backend: Option<Backend>) -> Event {
    let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
    let body = json!({
        "launch": id,
        "argv": words,
        "helper": true,
        "authority": fingerprint(policy),
        "backend": backend.map_or("auto", Backend::name),
    });
    Event::new("launch", policy.agent(), body)
}

/// How it ended, what held, and which changes were refused.
pub(super) fn ended(agent: &str, id: &str, outcome: &Outcome) -> Vec<Event> {
    let mut body = outcome_json(outcome);
    body["launch"] = json!(id);
    let refused = outcome.acts.iter().filter_map(refused_act);
    body["refused"] = refused.take(MOST).collect();
    let limit = match &outcome.end {
        End::Limit(limit) => Some(Event::new("limit", agent, json!({ "launch": id, "limit": limit.name() }))),
        End::Exited(_) | End::Signaled(_) | End::Setup(_) => None,
    };
    limit.into_iter().chain([Event::new("end", agent, body)]).collect()
}

/// A launch that came to nothing.
pub(super) fn failed(agent: &str, id: &str, status: u8, error: &str) -> Event {
    Event::new("end", agent, json!({ "launch": id, "status": status, "error": error }))
}

fn refused_act(act: &Act) -> Option<Value> {
    let verb = match act.verb {
        _ if !act.is_refused() => return None,
        Verb::Write => "write",
        Verb::Remove => "remove",
        Verb::Read | Verb::Look | Verb::Run | Verb::Made | Verb::Obeyed => return None,
        Verb::Connect | Verb::Listen | Verb::Resolve | Verb::Call => return None,
    };
    Some(json!({ "verb": verb, "path": act.path.to_string_lossy() }))
}
