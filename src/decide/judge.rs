//! The matcher: a policy, a request, an answer.

use super::agents::judge_agent;
use super::nearest::explain;
use super::protected::protection;
use super::{Decision, Denial, DenialCode, Permit, Request, Subject};
use crate::capability::{Address, Capability, Family, Target, classify};
use crate::policy::{CommandAsked, GrantId, Policy};
use std::net::IpAddr;
use std::path::Path;

/// Decides one request.
///
/// ```
/// use sbx::{Config, Facts, Manifest, Policy, Request, Source, decide};
/// use sbx::capability::Capability;
///
/// let facts = Facts::new("/home/u");
/// let record = "capabilities:\n  - fs.read: {in: ~/work, paths: [src]}\n";
/// let (manifest, _) = Manifest::parse(Source::new("scout.yml", record), &facts);
/// let (policy, _) = Policy::resolve(&manifest.unwrap(), &Config::default(), &facts);
///
/// assert!(decide(&policy, &Request::path(Capability::FsRead, "/home/u/work/src/main.rs")).is_allowed());
/// let request = Request::path(Capability::FsRead, "/home/u/.ssh/id_rsa");
/// let answer = decide(&policy, &request);
/// assert_eq!(answer.denial().unwrap().code.name(), "scope_violation");
/// ```
pub fn decide<'a>(policy: &'a Policy, request: &'a Request) -> Decision<'a> {
    match judge(policy, request) {
        Ok(id) => Decision::Allow(Permit::new(policy, id, request)),
        Err(no) => Decision::Deny(Box::new(no.into_denial(policy, request))),
    }
}

/// A no on its way to becoming a denial; building one is left until it is needed.
pub(super) enum No {
    /// The capability is not held, or no grant of it fits.
    NotHeld,
    /// Already explained.
    Explained(Box<Denial>),
}

impl No {
    fn into_denial(self, policy: &Policy, request: &Request) -> Denial {
        match self {
            Self::NotHeld => explain(policy, request),
            Self::Explained(denial) => *denial,
        }
    }

    pub(super) fn because(code: DenialCode, policy: &Policy, request: &Request, message: String) -> Self {
        Self::Explained(Box::new(Denial::of(code, policy.agent(), request, message)))
    }
}

fn judge(policy: &Policy, request: &Request) -> Result<GrantId, No> {
    let capability = request.capability;
    let found = match &request.subject {
        Subject::Agent { id, proposal } if capability.family() == Family::Agent => {
            return judge_agent(policy, request, id, proposal.as_ref());
        }
        Subject::Record { id, class } if capability.family() == Family::Records => {
            find(policy, capability, |grant| grant.allows_record(id.as_deref(), class.as_deref()))
        }
        Subject::Path { target, .. } if capability.family() == Family::Fs => {
            find_path(policy, capability, target)
        }
        Subject::Host { target: Ok(target), address, refused_method: None }
            if capability.family() == Family::Net =>
        {
            find_host(policy, capability, target, *address)
        }
        Subject::Command { argv, cwd, file } if capability == Capability::ProcExec => {
            let asked = CommandAsked { argv, file: file.as_deref() };
            policy.index().find_command(asked, |id| policy.grant(id).allows_cwd(cwd.as_deref()))
        }
        Subject::Shell { cwd, .. } if capability == Capability::ProcEval => {
            find(policy, capability, |grant| grant.allows_cwd(cwd.as_deref()))
        }
        Subject::Agent { .. }
        | Subject::Record { .. }
        | Subject::Path { .. }
        | Subject::Host { .. }
        | Subject::Command { .. }
        | Subject::Shell { .. } => None,
    };
    found.ok_or(No::NotHeld)
}

pub(super) fn find(
    policy: &Policy,
    capability: Capability,
    fits: impl Fn(&crate::policy::Grant) -> bool,
) -> Option<GrantId> {
    policy.index().held(capability).iter().copied().find(|id| fits(policy.grant(*id)))
}

fn find_path(policy: &Policy, capability: Capability, target: &Path) -> Option<GrantId> {
    let protection = protection(policy, capability, target);
    policy.index().find_path(capability, target, |id| {
        let grant = policy.grant(id);
        grant.allows_path(target) && protection.is_none_or(|protection| protection.opened_by(grant, target))
    })
}

fn find_host(
    policy: &Policy,
    capability: Capability,
    target: &Target,
    address: Option<IpAddr>,
) -> Option<GrantId> {
    let leads_inside = address.is_some_and(|address| classify(address) == Address::Inside);
    policy.index().find_host(capability, &target.host, target.port, leads_inside)
}
