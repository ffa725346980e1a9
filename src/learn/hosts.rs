//! Requests into hosts.

use super::{Learned, Observed};
use crate::capability::{Capability, Scope, ScopeKey, Spec, Target};
use std::collections::BTreeMap;

/// Something that was asked of the network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct HostSeen {
    /// The host, with its port where that is known.
    pub target: String,
    /// Which verb was needed; none when only the name is known.
    pub capability: Option<Capability>,
    /// Whether it was let out.
    pub let_out: bool,
}

impl HostSeen {
    /// Something that was seen.
    #[must_use]
    pub fn new(target: impl Into<String>, capability: Option<Capability>, let_out: bool) -> Self {
        Self { target: target.into(), capability, let_out }
    }
}

pub(super) fn learn(observed: &Observed, learned: &mut Learned) {
    let seen = &observed.hosts;
    let mut verbs: BTreeMap<Capability, (Vec<String>, bool)> = BTreeMap::new();
    for host in seen {
        let Some(name) = name(&host.target) else { continue };
        if !host.let_out && observed.succeeded {
            let note = format!("{name} was asked for, not let out, and done without");
            if !learned.notes.contains(&note) {
                learned.notes.push(note);
            }
            continue;
        }
        let asked = seen.iter().any(|other| {
            other.capability.is_some() && self::name(&other.target).as_deref() == Some(name.as_str())
        });
        // A name of which more is known than that it was asked for.
        if host.capability.is_none() && asked {
            continue;
        }
        let (hosts, let_out) =
            verbs.entry(host.capability.unwrap_or(Capability::NetGet)).or_insert((Vec::new(), true));
        if !hosts.contains(&name) {
            hosts.push(name);
        }
        *let_out &= host.let_out;
    }
    for (capability, (mut hosts, let_out)) in verbs {
        hosts.sort_unstable();
        let count = hosts.len();
        let scope = Scope::bare().with_list(ScopeKey::Hosts, hosts);
        let hosts = if count == 1 { "1 host was asked" } else { &format!("{count} hosts were asked") };
        let why = match let_out {
            true => hosts.to_owned(),
            false => format!("{hosts} and not let out: what more it would have asked is not known"),
        };
        learned.propose(Spec { capability, scope }, why);
    }
}

/// A host as a grant names it; the usual ports go without saying.
fn name(target: &str) -> Option<String> {
    let target = Target::parse(target).ok()?;
    Some(match target.port {
        None | Some(80 | 443) => target.host.to_string(),
        Some(port) => format!("{}:{port}", target.host),
    })
}
