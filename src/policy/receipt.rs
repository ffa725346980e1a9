//! The narrowing chain as a receipt, and a stable hash of what is left.

use super::grant::{Grant, PlacedScope};
use super::resolve::Policy;
use crate::capability::{Scope, ScopeKey, ScopeValue, Spec};
use sha2::{Digest, Sha256};

/// Effective authority, one canonical line a grant: written roots replaced by what they came to.
#[must_use]
pub fn receipt_lines(policy: &Policy) -> Vec<String> {
    let mut lines: Vec<String> = policy.grants().iter().map(receipt_of).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// What one grant comes to: the same text for the same authority.
#[must_use]
pub fn receipt_of(grant: &Grant) -> String {
    let spec = effective(grant, grant.root.as_deref().map(|root| root.display().to_string()));
    if grant.is_inert() { format!("{spec} (inert)") } else { spec.to_string() }
}

fn effective(grant: &Grant, root: Option<String>) -> Spec {
    let spec = &grant.spec;
    let scope = spec.scope.iter().filter(|(key, _)| *key != ScopeKey::In).fold(
        Scope::bare(),
        |scope, (key, value)| match value {
            ScopeValue::List(items) => {
                let mut items = items.clone();
                items.sort_unstable();
                items.dedup();
                scope.with(key, ScopeValue::List(items))
            }
            ScopeValue::Text(text) => scope.with_text(key, text.clone()),
        },
    );
    // Hosts as they are matched: `B.example.` and `b.example` are one.
    let scope = match &grant.scope {
        PlacedScope::Net { hosts } => {
            let port = |port: Option<u16>| port.map_or_else(String::new, |port| format!(":{port}"));
            let mut hosts: Vec<String> =
                hosts.iter().map(|(pattern, at)| format!("{pattern}{}", port(*at))).collect();
            hosts.sort_unstable();
            hosts.dedup();
            scope.with(ScopeKey::Hosts, ScopeValue::List(hosts))
        }
        _ => scope,
    };
    let scope = root.into_iter().fold(scope, |scope, root| scope.with_text(ScopeKey::In, root));
    Spec { capability: spec.capability, scope }
}

/// A hash of the effective authority: the same authority has the same hash, however it is written.
#[must_use]
pub fn fingerprint(policy: &Policy) -> String {
    let mut hash = Sha256::new();
    hash.update(b"sbx authority 1\n");
    hash.update(policy.agent().as_bytes());
    for line in receipt_lines(policy) {
        hash.update(b"\n");
        hash.update(line.as_bytes());
    }
    let mut text = String::from("sha256:");
    let digits = hash.finalize().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    text.extend(digits.filter_map(|digit| char::from_digit(digit.into(), 16)));
    text
}
