//! What is wrong, or worth a second look, in records and on the machine. Warns, never blocks.
//!
//! Answers for facts about this machine, backends really tried, records, own files; each finding with its fix. It
//! leaves printing to `cli`. Invariant: examining changes nothing; only [`fix`] does, and only to less.

mod clients;
mod files;
mod finding;
mod ground;
mod host;
mod network;
mod record;
mod tools;
mod trial;

pub use clients::{Registered, What, Whose, clients};
pub use files::{files, fix};
pub use finding::{Finding, Level};
pub use host::{BwrapFacts, HostFacts};
pub use record::examine;
pub use tools::tools;
pub use trial::{BackendReport, Fares, try_backend};

use crate::manifest::{Shelf, list, unreadable};
use crate::run::Setting;
use sbx_platform::door::Way;
use sbx_platform::{Backend, Guarantee};
use serde_json::{Value, json};
use std::path::Path;

/// Everything the doctor has to say.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The machine.
    pub host: HostFacts,
    /// The Landlock level.
    pub landlock: u32,
    /// Every backend, tried, strongest first.
    pub backends: Vec<BackendReport>,
    /// All findings, area by area.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Puts together what was found.
    #[must_use]
    pub fn of(host: HostFacts, landlock: u32, backends: Vec<BackendReport>, program: &Path) -> Self {
        let works =
            |backend| backends.iter().any(|tried| tried.backend == backend && tried.failure.is_none());
        let mut findings = if cfg!(target_os = "macos") {
            macos(&host)
        } else {
            host.findings(landlock, works(Backend::Native), program)
        };
        findings.extend(host.bwrap_version());
        findings.extend(judge(&backends, host.cgroup2));
        Self { host, landlock, backends, findings }
    }

    /// Adds what was found about records and own files.
    #[must_use]
    pub fn and(mut self, more: Vec<Finding>) -> Self {
        self.findings.extend(more);
        self
    }

    /// The worst level.
    #[must_use]
    pub fn worst(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Fine)
    }

    /// For machines.
    #[must_use]
    pub fn to_json(&self, fixed: &[String]) -> Value {
        json!({
            "level": self.worst().name(),
            "kernel": self.host.release, "landlock": self.landlock,
            "container": self.host.container, "wsl": self.host.wsl,
            "backends": self.backends.iter().map(BackendReport::to_json).collect::<Vec<_>>(),
            "findings": self.findings.iter().map(Finding::to_json).collect::<Vec<_>>(),
            "fixed": fixed,
        })
    }
}

/// What the backends come to.
fn judge(backends: &[BackendReport], cgroup2: bool) -> Vec<Finding> {
    let finding = |code, level, message: String| Finding::new("backends", code, level, message);
    let mut found = Vec::new();
    for tried in backends {
        for broken in tried.with(Fares::Broken) {
            let message = format!(
                "{} promises {broken}, and the attack went through: {}",
                tried.backend,
                broken.meaning().trim()
            );
            found.push(
                finding("broken", Level::Error, message)
                    .fix("this is a bug in sbx: report it with `sbx doctor --json`"),
            );
        }
    }
    let Some(strongest) = backends.iter().find(|tried| tried.failure.is_none()) else {
        let message = "no backend works: nothing can be run behind a fence here".to_owned();
        found.push(finding("no-backend", Level::Error, message));
        return found;
    };
    found.push(finding("strongest", Level::Fine, format!("`auto` uses {}", strongest.backend)));
    for (backend, way) in backends.iter().filter_map(|tried| Some((tried.backend, tried.network?))) {
        let level = if way == Way::Redirected { Level::Fine } else { Level::Note };
        found.push(finding("network", level, format!("network of {backend}: {}", network::sentence(way))));
    }
    let missing = strongest.with(Fares::Missing).filter(|guarantee| !guarantee.only_opens());
    let missing: Vec<&str> = missing.map(Guarantee::name).collect();
    let limits = missing.iter().filter(|name| name.ends_with("-limit")).count();
    if limits > 0 {
        let why = if cgroup2 {
            "no control group is delegated to this user"
        } else {
            "there are no control groups of version 2"
        };
        let message =
            format!("{why}: limits on memory and processes hold for each process, not for the whole tree");
        found.push(
            finding("cgroup-delegation", Level::Note, message)
                .fix("systemd-run --user --scope -p Delegate=yes sbx exec …")
                .fix(
                    "or accept it in a record that sets limits: accept_degraded: [memory-limit, pids-limit]",
                ),
        );
    }
    if missing.len() > limits {
        let lacking: Vec<&str> = missing.into_iter().filter(|name| !name.ends_with("-limit")).collect();
        let message = format!(
            "{} lacks {}; launches are refused unless the record accepts that",
            strongest.backend,
            lacking.join(", ")
        );
        found.push(
            finding("degraded", Level::Warning, message)
                .fix(format!("accept_degraded: [{}]", lacking.join(", "))),
        );
    }
    found
}

/// What there is to say of a Mac: its one mechanism, and who has a network behind it.
fn macos(host: &HostFacts) -> Vec<Finding> {
    let finding = |code, level, message| Finding::new("host", code, level, message);
    if !host.sandbox_exec {
        let message = "there is no /usr/bin/sandbox-exec: nothing can be fenced";
        return vec![finding("sandbox-exec", Level::Error, message)];
    }
    let proxied = "hosts are reached through a proxy that is told of in HTTP_PROXY and HTTPS_PROXY: a program that \
                   knows nothing of proxies (ssh, dig, database clients) has no network";
    vec![
        finding("sandbox-exec", Level::Fine, "/usr/bin/sandbox-exec is there"),
        finding("proxy-only", Level::Note, proxied)
            .fix("run such a program on Linux, or give the agent a tool that speaks HTTP"),
    ]
}

/// What is wrong with the records of this user and this project.
#[must_use]
pub fn records(setting: &Setting) -> Vec<Finding> {
    let mut findings = Vec::new();
    for error in unreadable(&setting.facts) {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let message = format!("{error}{cause}");
        findings.push(
            Finding::new("records", "unreadable", Level::Error, message)
                .fix("make it readable, or take it away: until then nobody is called by its name"),
        );
    }
    for agent in list(&setting.facts) {
        let facts = setting.facts_for(&agent);
        if !agent.trusted {
            let message = format!(
                "{} is a project's record that you have not trusted in its present form",
                agent.source.name()
            );
            findings.push(
                Finding::new("records", "untrusted", Level::Note, message)
                    .fix(format!("sbx agents trust {}", agent.source.name())),
            );
        }
        for problem in examine(agent.source.clone(), &setting.config, &facts) {
            // What ships with sbx is as it is meant to be, and worth knowing all the same.
            let shipped = agent.shelf == Shelf::Builtin;
            let level = if shipped { Level::Note } else { problem.severity.into() };
            let mut finding = Finding::new("records", problem.code.name(), level, problem.message.clone());
            finding.fix.extend(problem.suggest.iter().map(|word| format!("did you mean `{word}`?")));
            finding.fix.extend(problem.help.clone());
            finding.place = problem.place(&agent.source);
            findings.push(finding);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_told_who_has_a_network_or_that_nothing_can_be_fenced() {
        let codes = |host: &HostFacts| macos(host).iter().map(|found| found.code).collect::<Vec<_>>();
        let mut host = HostFacts::default();
        assert_eq!(codes(&host), ["sandbox-exec"]);
        host.sandbox_exec = true;
        assert_eq!(codes(&host), ["sandbox-exec", "proxy-only"]);
    }
}
