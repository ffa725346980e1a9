//! What one agent may reach, asked anew for every name, connection and request.
//!
//! Answers for putting questions to [`decide`]. It leaves every answer to it.
//! Invariant: nothing is let through that a call of `decide` did not allow.

use super::bounds;
use super::names::Found;
use crate::capability::{Capability, Host, HostPattern, Target};
use crate::decide::{Decision, Denial, Request, decide};
use crate::policy::{PlacedScope, Policy};
use crate::profile::verb_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The verbs of the network.
const VERBS: [Capability; 4] =
    [Capability::NetGet, Capability::NetPost, Capability::NetPut, Capability::NetDelete];

/// What git sends to fetch.
const FETCHED_BY_GIT: &[u8] = b"application/x-git-upload-pack-request";

/// Whether and how a host's port may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// All four verbs: bytes may pass untouched.
    Whole,
    /// Some verbs: every request is judged.
    Part,
}

/// How hosts' ports are held, by where they were found to lead.
type Held = HashMap<(Target, Option<IpAddr>), Hold>;

/// The authority of one launch.
#[derive(Clone, Debug)]
pub(crate) struct Authority {
    policy: Arc<Policy>,
    patterns: Arc<[(HostPattern, Option<u16>)]>,
    held: Arc<Mutex<Held>>,
}

impl Authority {
    /// What a policy says of the network.
    pub(crate) fn new(policy: &Policy) -> Self {
        let mut patterns: Vec<(HostPattern, Option<u16>)> = Vec::new();
        for grant in policy.grants() {
            if let PlacedScope::Net { hosts } = &grant.scope {
                patterns.extend(hosts.iter().cloned());
            }
        }
        patterns.sort();
        patterns.dedup();
        Self { policy: Arc::new(policy.clone()), patterns: patterns.into(), held: Arc::default() }
    }

    /// Whose authority it is.
    pub(crate) fn agent(&self) -> &str {
        self.policy.agent()
    }

    /// Whether any grant is about a host, on whatever port.
    pub(crate) fn knows(&self, host: &Host) -> bool {
        self.patterns.iter().any(|(pattern, _)| pattern.matches(host))
    }

    /// Whether a grant names this very host.
    pub(crate) fn names(&self, host: &Host) -> bool {
        self.patterns.iter().any(|(pattern, _)| pattern.names(host))
    }

    /// How a host's port is held; when it is not, why. The policy of a launch does not change, so an answer once given
    /// stands.
    pub(crate) fn hold(&self, target: &Target, address: Option<IpAddr>) -> Result<Hold, Box<Denial>> {
        let known =
            self.held.lock().unwrap_or_else(PoisonError::into_inner).get(&(target.clone(), address)).copied();
        if let Some(hold) = known {
            return Ok(hold);
        }
        let hold = self.find_hold(target, address)?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= bounds::HOLDS {
            held.clear();
        }
        held.insert((target.clone(), address), hold);
        Ok(hold)
    }

    fn find_hold(&self, target: &Target, address: Option<IpAddr>) -> Result<Hold, Box<Denial>> {
        let mut held = 0;
        let mut first = None;
        for verb in VERBS {
            match self.may(verb, target, address) {
                Ok(()) => held += 1,
                Err(denial) => {
                    first.get_or_insert(denial);
                }
            }
        }
        match (held, first) {
            (4, _) | (_, None) => Ok(Hold::Whole),
            (0, Some(denial)) => Err(denial),
            (_, Some(_)) => Ok(Hold::Part),
        }
    }

    /// Whether every verb that is held of a host's port is held by a grant that names it, wherever it leads.
    pub(crate) fn is_held_by_name(&self, target: &Target) -> bool {
        let unknown = Found::unknown().judged();
        // What is missing for a public address is missing for any other.
        self.missing(target, None).len() == self.missing(target, unknown).len()
    }

    /// The addresses of those found that may be dialled; when none may, why.
    pub(crate) fn reachable(&self, target: &Target, found: &[Found]) -> Result<Vec<Found>, Box<Denial>> {
        let mut refused = None;
        let allowed: Vec<Found> = found
            .iter()
            .filter(|found| match self.hold(target, found.judged()) {
                Ok(_) => true,
                Err(denial) => {
                    refused.get_or_insert(denial);
                    false
                }
            })
            .copied()
            .collect();
        match refused {
            Some(denial) if allowed.is_empty() => Err(denial),
            _ => Ok(allowed),
        }
    }

    /// Whether a request may be made.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        target: &Target,
        address: Option<IpAddr>,
    ) -> Result<(), Box<Denial>> {
        self.ask(Request::http(method, path, Ok(target.clone())), address)
    }

    /// Whether what a request carries may be sent with it. Some servers do not read a body with these methods, and take
    /// what is in it for the next request, which nobody judged; and a body that git would not send is no reading.
    pub(crate) fn carried(
        &self,
        (method, path): (&str, &str),
        content_types: &mut dyn Iterator<Item = &[u8]>,
        target: &Target,
        address: Option<IpAddr>,
    ) -> Result<(), Box<Denial>> {
        if matches!(method, "GET" | "HEAD" | "OPTIONS") {
            return self.whole(target, address);
        }
        let reads = verb_of(method, path) == Some(Capability::NetGet);
        // Of several, servers take one or another.
        let fetches = content_types.next() == Some(FETCHED_BY_GIT) && content_types.next().is_none();
        if reads && !fetches {
            return self.ask(Request::net(method, Ok(target.clone())), address);
        }
        Ok(())
    }

    /// Whether a connection may turn into one that carries anything both ways: reading alone is not enough.
    pub(crate) fn upgrade(&self, target: &Target, address: Option<IpAddr>) -> Result<(), Box<Denial>> {
        self.may(Capability::NetGet, target, address)?;
        self.may(Capability::NetPost, target, address)
    }

    /// Every verb that is not held, with why.
    pub(crate) fn missing(&self, target: &Target, address: Option<IpAddr>) -> Vec<Denial> {
        VERBS.iter().filter_map(|verb| self.may(*verb, target, address).err()).map(|denial| *denial).collect()
    }

    /// Why not all four verbs are held.
    pub(crate) fn whole(&self, target: &Target, address: Option<IpAddr>) -> Result<(), Box<Denial>> {
        VERBS.iter().try_for_each(|verb| self.may(*verb, target, address))
    }

    fn may(&self, verb: Capability, target: &Target, address: Option<IpAddr>) -> Result<(), Box<Denial>> {
        self.ask(Request::target(verb, Ok(target.clone())), address)
    }

    fn ask(&self, request: Request, address: Option<IpAddr>) -> Result<(), Box<Denial>> {
        let request = match address {
            Some(address) => request.resolved_to(address),
            None => request,
        };
        match decide(&self.policy, &request) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(denial) => Err(denial),
        }
    }
}
