//! Requirements: specs that must be covered before something is offered.

use crate::capability::Spec;
use crate::policy::{Policy, covers};

/// A requirement that is not covered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unmet {
    /// What is required.
    pub requirement: Spec,
    /// Why it is not covered.
    pub reason: String,
}

/// The requirements a policy does not cover.
#[must_use]
pub fn unmet(policy: &Policy, requirements: &[Spec]) -> Vec<Unmet> {
    requirements
        .iter()
        .filter(|requirement| !covers(policy, requirement))
        .map(|requirement| Unmet { requirement: requirement.clone(), reason: reason(policy, requirement) })
        .collect()
}

fn reason(policy: &Policy, requirement: &Spec) -> String {
    let held: Vec<String> = policy.held(requirement.capability).map(|grant| grant.spec.to_string()).collect();
    if held.is_empty() {
        format!("{} does not hold {}", policy.agent(), requirement.capability)
    } else {
        format!("{} holds only {}", policy.agent(), held.join(" and "))
    }
}
