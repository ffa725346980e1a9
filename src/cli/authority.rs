//! Grants as people read them: highest risk first, with root and place.

use super::Ui;
use crate::capability::Risk;
use crate::policy::{Grant, Policy};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::path::Path;

/// Grants with the most consequential first.
pub(super) fn by_risk(policy: &Policy) -> Vec<&Grant> {
    let mut grants: Vec<&Grant> = policy.grants().iter().collect();
    grants.sort_by_key(|grant| (Reverse(grant.capability().risk()), grant.capability().name()));
    grants
}

/// One grant on one line: risk, spec, where it holds, where it is written.
pub(super) fn line(ui: &Ui, grant: &Grant) -> String {
    let risk = grant.capability().risk();
    let mut text = format!("{}  {}", ui.by_risk(risk, &format!("{:<6}", risk.name())), grant.spec);
    if let Some(root) = &grant.root {
        text.push_str(&format!("  in {}", root.display()));
    }
    if grant.clamped {
        text.push_str("  (clamped)");
    }
    if grant.is_inert() {
        text.push_str("  (inert: no root)");
    }
    if let Some(place) = &grant.place {
        text.push_str(&format!("  {}", ui.dim(&format!("{}:{}", place.file, place.line))));
    }
    text
}

/// All grants, for people.
pub(super) fn lines(ui: &Ui, policy: &Policy) -> String {
    let grants = by_risk(policy);
    if grants.is_empty() {
        return "no authority".to_owned();
    }
    grants.into_iter().map(|grant| line(ui, grant)).collect::<Vec<_>>().join("\n")
}

/// One grant, for machines.
pub(super) fn to_json(grant: &Grant) -> Value {
    json!({
        "capability": grant.capability().name(),
        "grant": grant.spec.to_string(),
        "risk": grant.capability().risk().name(),
        "root": grant.root.as_deref().map(Path::to_string_lossy),
        "inert": grant.is_inert(),
        "clamped": grant.clamped,
        "origin": grant.origin.name(),
        "place": grant.place,
    })
}

/// The highest risk held.
pub(super) fn highest(policy: &Policy) -> Option<Risk> {
    policy.grants().iter().map(|grant| grant.capability().risk()).max()
}
