//! A policy with less in it: what one tool of the agent needs, and nothing else that runs or reaches out.
//!
//! Answers for leaving out. It leaves what a tool needs to `tool`.
//! Invariant: whatever the narrowed policy allows, the whole one allows.

use super::attenuate::covers_grant;
use super::grant::{Grant, PlacedScope};
use super::resolve::{Policy, narrow_limits};
use crate::capability::{Capability, Family, HostPattern, Scope, ScopeKey, Spec};
use crate::manifest::{EnvRule, Limits};
use std::path::Path;

/// What of a policy is to be left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// Requirements of the families proc and net.
    pub needs: Vec<Spec>,
    /// Hosts, with whichever verbs are held for them.
    pub hosts: Vec<String>,
    /// Variables of the environment.
    pub env: Vec<String>,
    /// Variables that the agent's own record names for what is run.
    pub own_env: Vec<String>,
    /// Limits beside the agent's own; the tighter stands.
    pub limits: Limits,
    /// Whether ports stay published.
    pub listens: bool,
    /// Whether nothing may be changed: of files and hosts only reading is left.
    pub reads_only: bool,
}

const NET: [Capability; 4] =
    [Capability::NetGet, Capability::NetPost, Capability::NetPut, Capability::NetDelete];

/// Whether a capability is for changing files, or what hosts hold.
const fn changes(capability: Capability) -> bool {
    match capability {
        Capability::FsWrite
        | Capability::FsDelete
        | Capability::NetPost
        | Capability::NetPut
        | Capability::NetDelete
        | Capability::RecordsCreate
        | Capability::RecordsUpdate
        | Capability::RecordsDelete
        | Capability::AgentCreate
        | Capability::AgentUpdate
        | Capability::AgentDelete
        | Capability::AgentGrant => true,
        Capability::FsRead
        | Capability::NetGet
        | Capability::RecordsRead
        | Capability::ProcExec
        | Capability::ProcEval => false,
    }
}

impl Policy {
    /// The same authority, and one program more at a directory: for asking the kernel what it
    /// holds, never for doing something on the agent's behalf.
    pub(crate) fn for_trial(&self, at: &Path, program: &Path) -> Option<Self> {
        let scope = Scope::bare().with_text(ScopeKey::In, at.to_str()?);
        let scope = scope.with_list(ScopeKey::Cmds, [program.to_str()?]);
        let own =
            Self::from_specs(self.agent(), &[Spec { capability: Capability::ProcExec, scope }], self.facts());
        let grants = own.ok()?.grants().iter().chain(self.grants()).cloned().collect();
        Some(self.with_grants(grants, |sections| {
            // Where programs are looked for says which ones are listed.
            sections.env.retain(|rule| rule.name == "PATH" && rule.inject.is_none());
            sections.listen.clear();
        }))
    }

    /// The same authority over files, and of the rest only what is named and held.
    ///
    /// ```
    /// use sbx::capability::Spec;
    /// use sbx::policy::Narrowing;
    /// use sbx::{Facts, Policy, Request, decide};
    /// let held = Spec::parse("net.get{hosts=[a.example,b.example]}")?;
    /// let policy = Policy::from_specs("scout", &[held], &Facts::new("/home/u")).unwrap();
    /// let less = policy.narrowed(&Narrowing { hosts: vec!["a.example".into()], ..Narrowing::default() });
    /// assert!(decide(&less, &Request::url("GET", "https://a.example/")).is_allowed());
    /// assert!(!decide(&less, &Request::url("GET", "https://b.example/")).is_allowed());
    /// # Ok::<(), sbx::capability::SpecError>(())
    /// ```
    #[must_use]
    pub fn narrowed(&self, to: &Narrowing) -> Self {
        let left = |capability: Capability| !to.reads_only || !changes(capability);
        let files = |grant: &&Grant| grant.capability().family() == Family::Fs && left(grant.capability());
        let mut grants: Vec<Grant> = self.grants().iter().filter(files).cloned().collect();
        let named = to.needs.iter().filter(|spec| spec.capability.family() != Family::Fs).cloned();
        let reached = to.hosts.iter().flat_map(|host| {
            NET.map(|capability| Spec {
                capability,
                scope: Scope::bare().with_list(ScopeKey::Hosts, [host.as_str()]),
            })
        });
        for need in named.chain(reached).filter(|need| left(need.capability)) {
            grants.extend(self.held_parts(&need));
        }
        self.with_grants(grants, |sections| {
            sections.env.retain(|rule| rule.name == "PATH" || to.env.contains(&rule.name));
            for name in &to.own_env {
                if !sections.env.iter().any(|rule| rule.name == *name) {
                    sections.env.push(EnvRule { name: name.clone(), inject: None });
                }
            }
            if !to.listens {
                sections.listen.clear();
            }
        })
        .limited(|limits| narrow_limits(limits, &to.limits))
    }

    /// The same authority with limits beside its own; the tighter stands.
    #[must_use]
    pub fn within(&self, limits: &Limits) -> Self {
        self.clone().limited(|own| narrow_limits(own, limits))
    }

    /// A requirement below every root under which it is held.
    fn held_parts(&self, need: &Spec) -> Vec<Grant> {
        let mut roots: Vec<Option<&Path>> =
            self.held(need.capability).map(|grant| grant.root.as_deref()).collect();
        roots.sort();
        roots.dedup();
        let placed = roots.into_iter().filter_map(|root| self.place_requirement(need, root).ok());
        let held = placed.filter(|part| !part.is_inert() && !part.clamped && covers_grant(self, part));
        held.map(|part| self.no_further_inside(part)).collect()
    }

    /// A name that is held by a wildcard only leads nowhere that the wildcard does not: not inside.
    fn no_further_inside(&self, mut part: Grant) -> Grant {
        let capability = part.capability();
        if let PlacedScope::Net { hosts } = &mut part.scope {
            for (pattern, port) in hosts {
                let HostPattern::Exact(host) = pattern else { continue };
                let named = self.held(capability).any(|grant| match &grant.scope {
                    PlacedScope::Net { hosts } => {
                        let fits = |held: &Option<u16>| held.is_none() || held == port;
                        hosts.iter().any(|(held, held_port)| held.names(host) && fits(held_port))
                    }
                    _ => false,
                });
                if !named {
                    *pattern = HostPattern::Outside(host.clone());
                }
            }
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Facts;
    use crate::policy::covers;

    fn policy(specs: &[&str]) -> Policy {
        let specs: Vec<Spec> = specs.iter().map(|spec| Spec::parse(spec).unwrap()).collect();
        Policy::from_specs("a", &specs, &Facts::new("/home/u")).unwrap()
    }

    fn needs(spec: &str) -> Narrowing {
        Narrowing { needs: vec![Spec::parse(spec).unwrap()], ..Narrowing::default() }
    }

    fn left(policy: &Policy, spec: &str) -> bool {
        covers(policy, &Spec::parse(spec).unwrap())
    }

    #[test]
    fn what_is_not_held_is_not_left() {
        let agent = policy(&["proc.exec{in=/w,cmds=[git]}", "fs.read{in=/w}"]);
        let less = agent.narrowed(&needs("proc.exec{patterns=[rm *]}"));
        assert!(!left(&less, "proc.exec{in=/w,patterns=[rm x]}") && left(&less, "fs.read{in=/w}"));
        assert_eq!(less.grants().len(), 1);
    }

    #[test]
    fn a_tool_keeps_its_own_command_and_loses_the_others() {
        let agent = policy(&["proc.exec{in=/w}", "proc.exec{in=/v,cmds=[git]}", "proc.eval{in=/w}"]);
        let less = agent.narrowed(&needs("proc.exec{patterns=[git log *]}"));
        for dir in ["/w", "/v"] {
            assert!(left(&less, &format!("proc.exec{{in={dir},patterns=[git log -1]}}")));
            assert!(!left(&less, &format!("proc.exec{{in={dir},patterns=[git push]}}")));
        }
        assert!(!left(&less, "proc.exec{in=/,patterns=[git log]}"));
        assert!(!less.holds(Capability::ProcEval));
    }

    #[test]
    fn a_name_held_by_a_wildcard_leads_no_further_inside() {
        let agent = policy(&["net.get{hosts=[*.x.example,b.x.example:80]}"]);
        let hosts = ["a.x.example", "b.x.example:80", "b.x.example:81"].map(ToOwned::to_owned).to_vec();
        let less = agent.narrowed(&Narrowing { hosts, ..Narrowing::default() });
        let finds = |host: &str, port: u16, inside: bool| {
            let host = crate::capability::Host::parse(host).unwrap();
            less.index().find_host(Capability::NetGet, &host, Some(port), inside).is_some()
        };
        for (host, port, leads_inside) in
            [("a.x.example", 80, false), ("b.x.example", 80, true), ("b.x.example", 81, false)]
        {
            assert!(finds(host, port, false), "{host}:{port}");
            assert_eq!(finds(host, port, true), leads_inside, "{host}:{port}");
        }
        assert!(!finds("c.x.example", 80, false));
        // What was narrowed once can be narrowed again.
        let again = less.narrowed(&needs("net.get{hosts=[a.x.example]}"));
        assert!(left(&again, "net.get{hosts=[a.x.example]}"));
    }

    #[test]
    fn hosts_keep_the_verbs_that_are_held() {
        let agent = policy(&["net.get{hosts=[*.x.example]}", "net.post{hosts=[a.x.example]}"]);
        let less =
            agent.narrowed(&Narrowing { hosts: vec!["a.x.example".to_owned()], ..Narrowing::default() });
        for (spec, is_left) in [
            ("net.get{hosts=[a.x.example]}", true),
            ("net.post{hosts=[a.x.example]}", true),
            ("net.put{hosts=[a.x.example]}", false),
            ("net.get{hosts=[b.x.example]}", false),
        ] {
            assert_eq!(left(&less, spec), is_left, "{spec}");
        }
    }
}
