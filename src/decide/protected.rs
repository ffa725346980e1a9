//! Protected paths: what no wider grant opens.

use crate::capability::Capability;
use crate::policy::{Grant, Policy};
use crate::profile::{Opening, strictest};
use sbx_platform::fold::within_folded;
use sbx_platform::path::within;
use std::path::Path;

/// Why a path may not be changed although a grant covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection<'a> {
    /// The protected part of the path.
    pub path: &'a Path,
    /// Who may open it.
    pub opening: Opening,
    /// What it could do.
    pub why: &'static str,
}

/// What protects a path from being changed, or from being read; nothing for most.
#[must_use]
pub fn protection<'a>(policy: &Policy, capability: Capability, target: &'a Path) -> Option<Protection<'a>> {
    if capability == Capability::FsRead {
        return log(policy, target);
    }
    own_files(policy, target).or_else(|| {
        let (protected, path) = strictest(target)?;
        Some(Protection { path, opening: protected.opening, why: protected.why })
    })
}

const LOG: &str = "sbx's audit log, which is hidden from every agent";

/// sbx's own configuration and the agent's record: never, whatever is granted, and in whatever letters, as the kernel
/// holds it. Reading is not held so, because no call that reads is watched.
fn own_files<'a>(policy: &Policy, target: &'a Path) -> Option<Protection<'a>> {
    let never = |why| Protection { path: target, opening: Opening::Never, why };
    let is = |path: &Path, file: &Path| within_folded(path, file) && within_folded(file, path);
    let facts = policy.facts();
    if within_folded(target, &facts.config_dir) {
        Some(never("sbx's configuration, tools and agents"))
    } else if policy.record().is_some_and(|record| is(target, record)) {
        Some(never("the agent's own record"))
    } else if policy.lock_file().is_some_and(|lock| is(target, lock)) {
        Some(never("the lock file of its MCP servers"))
    } else if policy.listed_programs().iter().any(|listed| is(target, listed)) {
        Some(never("a program that the record lists: to change it would be to run another"))
    } else {
        within_folded(target, &facts.state_dir).then(|| never(LOG))
    }
}

/// What every agent did is nothing for an agent to read.
fn log<'a>(policy: &Policy, target: &'a Path) -> Option<Protection<'a>> {
    within(target, &policy.facts().state_dir).then_some(Protection {
        path: target,
        opening: Opening::Never,
        why: LOG,
    })
}

impl Protection<'_> {
    /// Whether a grant that covers the path opens it by naming it.
    #[must_use]
    pub fn opened_by(&self, grant: &Grant, target: &Path) -> bool {
        self.opening == Opening::Named && grant.names_path(self.path, target)
    }
}

#[cfg(test)]
mod tests {
    use crate::capability::{Capability, Spec};
    use crate::{Facts, Policy, Request, decide};

    #[test]
    fn naming_a_protected_path_does_not_open_another_below_it() {
        let held = Spec::parse("fs.write{in=/w,paths=[.vscode]}").unwrap();
        let policy = Policy::from_specs("a", &[held], &Facts::new("/home/u")).unwrap();
        let may = |path| decide(&policy, &Request::path(Capability::FsWrite, path)).is_allowed();
        assert!(may("/w/.vscode/tasks.json"));
        assert!(!may("/w/.vscode/.sbx/agents/evil.md") && !may("/w/.vscode/.bashrc"));
    }

    #[test]
    fn own_files_are_kept_in_any_letters() {
        let held = Spec::parse("fs.write{in=/home/u}").unwrap();
        let policy = Policy::from_specs("a", &[held], &Facts::new("/home/u")).unwrap();
        let may = |path| decide(&policy, &Request::path(Capability::FsWrite, path)).is_allowed();
        assert!(may("/home/u/.config/other") && may("/home/u/Notes"));
        for path in ["/home/u/.config/sbx/x", "/home/u/.Config/SBX/x", "/home/u/.LOCAL/state/sbx/audit.jsonl"]
        {
            assert!(!may(path), "{path}");
        }
    }

    #[test]
    fn the_audit_log_is_hidden_whatever_is_granted() {
        let specs =
            ["fs.read{in=/home/u}", "fs.read{in=/home/u/.local/state/sbx,paths=[.]}", "fs.write{in=/home/u}"];
        let held: Vec<Spec> = specs.iter().map(|spec| Spec::parse(spec).unwrap()).collect();
        let policy = Policy::from_specs("a", &held, &Facts::new("/home/u")).unwrap();
        for (capability, path, allowed) in [
            (Capability::FsRead, "/home/u/.local/state/sbx/audit.jsonl", false),
            (Capability::FsRead, "/home/u/.local/state/sbx", false),
            (Capability::FsWrite, "/home/u/.local/state/sbx/audit.jsonl", false),
            (Capability::FsRead, "/home/u/.local/state/other", true),
        ] {
            let request = Request::path(capability, path);
            let decision = decide(&policy, &request);
            assert_eq!(decision.is_allowed(), allowed, "{path}");
            assert!(decision.denial().is_none_or(|denial| denial.suggested_grant.is_none()));
        }
    }
}
