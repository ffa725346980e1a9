//! From what a command did to the smallest readable record that lets it do so again.
//!
//! Answers for generalising: files into places, programs into commands, requests into hosts; for leaving out what
//! every fenced process sees anyway; and for calling out what is never proposed. Pure: what was observed is handed
//! in, what exists is asked of a [`Host`]. It leaves watching to `run` and printing to `cli`.
//! Invariant: nothing that is secret or protected is ever proposed.

mod files;
mod hosts;
#[cfg(test)]
mod machine;
mod programs;
mod record;
mod world;

pub use hosts::HostSeen;
pub use record::record_text;

use crate::capability::{Risk, Spec};
use crate::manifest::Facts;
use crate::plan::Host;
use crate::policy::{Policy, covers};
use sbx_platform::report::Act;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::path::PathBuf;
use world::World;

/// What was seen of a command.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Observed {
    /// What it and everything it started asked of files and programs, with the answers.
    pub acts: Vec<Act>,
    /// What it asked of the network.
    pub hosts: Vec<HostSeen>,
    /// Whether it did its work: what it was refused it can do without.
    pub succeeded: bool,
}

impl Observed {
    /// What was seen.
    #[must_use]
    pub fn new(acts: Vec<Act>, hosts: Vec<HostSeen>, succeeded: bool) -> Self {
        Self { acts, hosts, succeeded }
    }
}

/// A grant that is proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proposed {
    /// The grant.
    pub spec: Spec,
    /// What it is needed for.
    pub why: String,
}

/// Something that was asked for and is not proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CalledOut {
    /// What was asked: `read`, `write`, `delete` or `run`.
    pub verb: &'static str,
    /// Of which path.
    pub path: PathBuf,
    /// What is there, or why it is kept.
    pub what: String,
}

/// What was learned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Learned {
    /// The grants, riskiest first.
    pub grants: Vec<Proposed>,
    /// Variables of the environment that are needed.
    pub env: Vec<String>,
    /// What was asked for and must be looked at by a person.
    pub called_out: Vec<CalledOut>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// Generalises what was seen.
#[must_use]
pub fn learn(observed: &Observed, facts: &Facts, host: &dyn Host) -> Learned {
    let world = World::new(facts, host);
    let mut learned = Learned::default();
    programs::learn(&world, &observed.acts, &mut learned);
    files::learn(&world, &observed.acts, &mut learned);
    hosts::learn(observed, &mut learned);
    learned.grants.sort_by_key(|grant| Reverse(grant.spec.capability.risk()));
    learned
}

impl Learned {
    fn propose(&mut self, spec: Spec, why: impl Into<String>) {
        self.grants.push(Proposed { spec, why: why.into() });
    }

    fn call_out(&mut self, verb: &'static str, path: PathBuf, what: impl Into<String>) {
        let found = CalledOut { verb, path, what: what.into() };
        if !self.called_out.contains(&found) {
            self.called_out.push(found);
        }
    }

    /// The grants that an agent does not hold yet.
    pub fn missing<'l>(&'l self, policy: &'l Policy) -> impl Iterator<Item = &'l Proposed> {
        self.grants.iter().filter(|grant| !covers(policy, &grant.spec))
    }

    /// For machines.
    #[must_use]
    pub fn to_json(&self, policy: Option<&Policy>) -> Value {
        let grant = |grant: &Proposed| {
            json!({
                "grant": grant.spec.to_string(), "capability": grant.spec.capability.name(),
                "risk": Risk::name(grant.spec.capability.risk()), "why": grant.why,
                "held": policy.map(|policy| covers(policy, &grant.spec)),
            })
        };
        let called = |called: &CalledOut| json!({ "verb": called.verb, "path": called.path.to_string_lossy(), "what": called.what });
        json!({
            "grants": self.grants.iter().map(grant).collect::<Vec<_>>(), "env": self.env,
            "called_out": self.called_out.iter().map(called).collect::<Vec<_>>(), "notes": self.notes,
        })
    }
}
