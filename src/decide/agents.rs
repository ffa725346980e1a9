//! Requests about other agents: oneself first, then held and in scope, then no more than one holds.

use super::judge::{No, find};
use super::{DenialCode, Request};
use crate::capability::Capability;
use crate::policy::{GrantId, Policy, Proposal, first_uncovered};

pub(super) fn judge_agent(
    policy: &Policy,
    request: &Request,
    id: &str,
    proposal: Option<&Proposal>,
) -> Result<GrantId, No> {
    let capability = request.capability();
    let writes_authority = proposal.is_some() || capability == Capability::AgentGrant;
    if id == policy.agent() && (writes_authority || capability == Capability::AgentDelete) {
        let what = if writes_authority { "change its own authority" } else { "delete itself" };
        let message = format!("{} may not {what}", policy.agent());
        return Err(No::because(DenialCode::SelfModification, policy, request, message));
    }
    let found = held_for(policy, capability, id).ok_or(No::NotHeld)?;
    let Some(proposal) = proposal else { return Ok(found) };
    if capability != Capability::AgentGrant && held_for(policy, Capability::AgentGrant, id).is_none() {
        return Err(authority_without_grant(policy, request, id));
    }
    attenuated(policy, request, proposal).map(|()| found)
}

fn held_for(policy: &Policy, capability: Capability, id: &str) -> Option<GrantId> {
    find(policy, capability, |grant| grant.allows_agent(id))
}

/// Authority written through `agent.create` or `agent.update` needs `agent.grant` too.
fn authority_without_grant(policy: &Policy, request: &Request, id: &str) -> No {
    let code = if policy.holds(Capability::AgentGrant) {
        DenialCode::ScopeViolation
    } else {
        DenialCode::CapabilityAbsent
    };
    let message = format!("writing authority into agents/{id} needs agent.grant on it");
    No::because(code, policy, request, message)
}

fn attenuated(policy: &Policy, request: &Request, proposal: &Proposal) -> Result<(), No> {
    let exceeds = |message| Err(No::because(DenialCode::ExceedsGrantorAuthority, policy, request, message));
    match policy.place_proposal(proposal) {
        Err(problems) => {
            let reason = problems.first().map_or_else(String::new, |problem| problem.message.clone());
            exceeds(format!("the proposed authority cannot be placed: {reason}"))
        }
        Ok(children) => match first_uncovered(policy, &children) {
            None => Ok(()),
            Some(child) => exceeds(format!("{} does not hold all of {}", policy.agent(), child.spec)),
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Facts, Manifest, Policy, Request, Source, decide};
    use serde_json::{Value, json};

    fn code(capabilities: &str, request: &Value) -> Option<&'static str> {
        let facts = Facts::new("/home/u");
        let record = format!("id: me\ncapabilities: [{capabilities}]\n");
        let (manifest, _) = Manifest::parse(Source::new("me.yml", record), &facts);
        let (policy, _) = Policy::resolve(&manifest.unwrap(), &Config::default(), &facts);
        let request = Request::from_json(request, &facts, std::path::Path::to_path_buf).unwrap();
        decide(&policy, &request).denial().map(|denial| denial.code.name())
    }

    #[test]
    fn writing_a_key_that_bears_authority_is_granting() {
        let update = |id: &str, key: &str| json!({ "cap": "agent.update", "id": id, "keys": [key] });
        assert_eq!(code("agent.update", &update("other", "description")), None);
        assert_eq!(code("agent.update", &update("other", "sandbox")), Some("capability_absent"));
        assert_eq!(code("agent.update, agent.grant", &update("other", "env")), None);
        assert_eq!(
            code("agent.update, agent.grant", &update("agents/me", "limits")),
            Some("self_modification")
        );
        assert_eq!(code("agent.update", &update("me", "description")), None);
    }
}
