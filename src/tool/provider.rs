//! What an agent's `net.get` becomes on the provider's side.

use crate::capability::{Capability, Host, HostPattern};
use crate::policy::{PlacedScope, Policy};
use crate::profile::{Narrowing, ProviderTool, provider_tools};

/// One provider tool, and whether and how the agent may be given it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// Whose tool.
    pub provider: &'static str,
    /// Its name there.
    pub tool: &'static str,
    /// Whether the agent may be given it.
    pub offered: bool,
    /// The domains it is narrowed to; none when every domain is allowed or none applies.
    pub allowed_domains: Option<Vec<String>>,
    /// Why, or what the narrowing cannot express.
    pub notes: Vec<String>,
}

/// Every known provider tool, decided for a policy.
#[must_use]
pub fn offers(policy: &Policy) -> Vec<Offer> {
    provider_tools().map(|tool| offer(policy, &tool)).collect()
}

fn offer(policy: &Policy, tool: &ProviderTool) -> Offer {
    let mut offer = Offer {
        provider: tool.provider,
        tool: tool.tool,
        offered: false,
        allowed_domains: None,
        notes: vec![tool.why.to_owned()],
    };
    match tool.narrowing {
        Narrowing::Explicit => {
            offer.offered = policy.sections().provider_tools.iter().any(|named| named == tool.tool);
            if !offer.offered {
                offer.notes.push(format!(
                    "nothing can narrow it: name `{}` under `provider_tools` to offer it",
                    tool.tool
                ));
            }
        }
        Narrowing::NetGet => narrow(policy, &mut offer),
    }
    offer
}

fn narrow(policy: &Policy, offer: &mut Offer) {
    let mut domains: Vec<String> = Vec::new();
    let mut everywhere = false;
    for (pattern, port) in hosts(policy) {
        match (pattern, port) {
            (HostPattern::Any, None | Some(443 | 80)) => everywhere = true,
            (_, Some(port)) if !matches!(port, 443 | 80) => {
                offer.notes.push(format!("{pattern}:{port} is left out: providers do not narrow by port"));
            }
            (HostPattern::Exact(Host::Name(name)) | HostPattern::Outside(Host::Name(name)), _) => {
                offer.notes.push(format!("{name}: the provider may include its sub-domains"));
                domains.push(name.to_string());
            }
            (HostPattern::Below(name), _) => domains.push(name.to_string()),
            (HostPattern::Exact(Host::Ip(_)) | HostPattern::Outside(Host::Ip(_)) | HostPattern::Any, _) => {
                offer.notes.push(format!("{pattern} is left out: it is not a domain"));
            }
        }
    }
    domains.dedup();
    offer.offered = everywhere || !domains.is_empty();
    offer.allowed_domains = (offer.offered && !everywhere).then_some(domains);
    if !offer.offered {
        offer.notes.push(format!("{} holds no net.get on a domain", policy.agent()));
    }
}

fn hosts(policy: &Policy) -> impl Iterator<Item = (&HostPattern, Option<u16>)> {
    policy.held(Capability::NetGet).flat_map(|grant| match &grant.scope {
        PlacedScope::Net { hosts } => {
            hosts.iter().map(|(pattern, port)| (pattern, *port)).collect::<Vec<_>>()
        }
        PlacedScope::Records { .. }
        | PlacedScope::Agent { .. }
        | PlacedScope::Fs { .. }
        | PlacedScope::Exec { .. }
        | PlacedScope::Eval => Vec::new(),
    })
}
