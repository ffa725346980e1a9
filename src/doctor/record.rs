//! Findings in one record.

use crate::capability::{Capability, Family, Host, HostPattern, ScopeKey, Target};
use crate::manifest::{Config, Facts, Manifest, WrittenIn};
use crate::policy::{Grant, PlacedScope, Policy};
use crate::profile::{Narrowing, PROTECTED, is_public_suffix, provider_tools};
use crate::text::{Code, Problem, Source, Span, closest};
use crate::tool::read_section;
use sbx_platform::path::within;
use std::path::Path;

/// Everything to say about a record: what is wrong with its text, what it resolves to, what it risks.
#[must_use]
pub fn examine(source: Source, config: &Config, facts: &Facts) -> Vec<Problem> {
    let (manifest, mut problems) = Manifest::parse(source, facts);
    let Some(manifest) = manifest else { return problems };
    let (policy, resolved) = Policy::resolve(&manifest, config, facts);
    problems.extend(resolved);
    for grant in policy.grants() {
        let span = span_of(&manifest, grant);
        problems.extend(escalation(grant, &policy, facts).map(|problem| problem.at(span)));
        problems.extend(protected(grant).map(|problem| problem.at(span)));
        problems.extend(without_port(grant).map(|problem| problem.at(span)));
    }
    problems.extend(unreached_secrets(&policy));
    problems.extend(unknown_provider_tools(&manifest));
    let tools = manifest.sections().tools.as_ref().map(|section| read_section(section, manifest.source()));
    problems.extend(tools.into_iter().flat_map(|read| read.faults).map(|fault| fault.to_problem()));
    problems
}

/// A name under `provider_tools` that opens nothing is a mistake worth hearing of.
fn unknown_provider_tools(manifest: &Manifest) -> impl Iterator<Item = Problem> {
    let names =
        || provider_tools().filter(|tool| tool.narrowing == Narrowing::Explicit).map(|tool| tool.tool);
    let named = &manifest.sections().provider_tools;
    named.iter().filter(move |name| !names().any(|tool| tool == *name)).map(move |name| {
        Problem::warning(Code::BadSection, format!("no provider has a tool `{name}` that must be named"))
            .key("provider_tools")
            .suggest(closest(name, names()))
            .help("`sbx provider-tools --all` lists them")
    })
}

fn span_of(manifest: &Manifest, grant: &Grant) -> Span {
    let written =
        manifest.capabilities().unwrap_or_default().iter().find(|written| written.spec == grant.spec);
    written
        .map_or_else(|| manifest.sandbox().map_or(Span::default(), |(_, span)| span), |written| written.span)
}

fn escalation(grant: &Grant, policy: &Policy, facts: &Facts) -> Option<Problem> {
    let (message, help) = match grant.capability().family() {
        Family::Records | Family::Agent => None,
        Family::Net => wide_hosts(grant),
        Family::Fs => wide_files(grant, facts),
        Family::Proc => wide_commands(grant, policy, facts),
    }?;
    Some(Problem::warning(Code::Escalation, message).capability(grant.capability().name()).help(help))
}

/// Places of the system whose files decide what programs and users may do.
const SYSTEM: &[&str] =
    &["/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/var/spool", "/Library", "/System"];

type Risk = Option<(String, &'static str)>;

fn wide_hosts(grant: &Grant) -> Risk {
    let PlacedScope::Net { hosts } = &grant.scope else { return None };
    let capability = grant.capability();
    hosts.iter().find_map(|(pattern, _)| match pattern {
        HostPattern::Any => Some((
            format!("{capability} reaches every public host"),
            "name the hosts; whatever the agent reads can be sent to any of them",
        )),
        HostPattern::Below(suffix) if is_public_suffix(suffix) => Some((
            format!("{capability} on `*.{suffix}` covers names that anyone can register"),
            "name the hosts",
        )),
        HostPattern::Below(_) | HostPattern::Exact(_) | HostPattern::Outside(_) => None,
    })
}

fn wide_files(grant: &Grant, facts: &Facts) -> Risk {
    let capability = grant.capability();
    let root = grant.root.as_deref()?;
    let PlacedScope::Fs { paths } = &grant.scope else { return None };
    let bases: Vec<&Path> = match paths {
        None => vec![root],
        Some(entries) => entries
            .iter()
            .map(|entry| if within(root, &entry.base) { root } else { entry.base.as_path() })
            .filter(|base| within(base, root))
            .collect(),
    };
    let kept = [Some(facts.config_dir.as_path()), Some(&facts.state_dir), facts.records_dir.as_deref()];
    bases.into_iter().find_map(|base| {
        if within(&facts.home, base) {
            let help = "name the directories below it that are needed";
            return Some((format!("{capability} covers the whole of {}", base.display()), help));
        }
        if capability != Capability::FsRead && SYSTEM.iter().any(|place| within(base, Path::new(place))) {
            let message = format!("{capability} on {} changes the system itself", base.display());
            return Some((message, "name the files that are needed"));
        }
        let inside = kept.into_iter().flatten().find(|dir| within(dir, base) || within(base, dir))?;
        (capability != Capability::FsRead).then(|| {
            let message = format!(
                "{capability} on {} reaches {}, where authority is written",
                base.display(),
                inside.display()
            );
            (message, "an agent that writes there can widen itself or others")
        })
    })
}

fn wide_commands(grant: &Grant, policy: &Policy, facts: &Facts) -> Risk {
    let capability = grant.capability();
    let scope = &grant.spec.scope;
    if scope.is_bare() {
        return Some((
            format!("{capability} is written without a scope"),
            "add `in`, and `cmds` or `patterns` for proc.exec",
        ));
    }
    if grant.root.as_deref().is_some_and(|root| within(&facts.home, root)) {
        return Some((
            format!("{capability} may work in the whole of {}", grant.root.as_deref()?.display()),
            "name the directory it works in",
        ));
    }
    if let PlacedScope::Exec { patterns, .. } = &grant.scope
        && patterns.iter().flatten().any(|(_, pattern)| pattern.program().is_none())
    {
        return Some((
            format!("{capability} has the pattern `*`, which is any program"),
            "name the programs; nothing else in `cmds` and `patterns` narrows it",
        ));
    }
    let lists = scope.list(ScopeKey::Cmds).is_some() || scope.list(ScopeKey::Patterns).is_some();
    let swallowed = lists
        && policy.held(Capability::ProcExec).any(|other| {
            other.origin == WrittenIn::Sandbox
                && other
                    .root
                    .as_deref()
                    .zip(grant.root.as_deref())
                    .is_some_and(|(outer, inner)| within(inner, outer))
        });
    swallowed.then(|| {
        (
            "the `sandbox` shorthand allows any command, so this list narrows nothing".to_owned(),
            "write `sandbox: {root: PATH}`, which sets the level and grants nothing",
        )
    })
}

/// A service of this machine that is granted without its port: connections are led out for named ports only.
fn without_port(grant: &Grant) -> Option<Problem> {
    let PlacedScope::Net { hosts } = &grant.scope else { return None };
    let own = |pattern: &HostPattern| match pattern {
        HostPattern::Exact(Host::Ip(ip)) => ip.is_loopback(),
        HostPattern::Exact(Host::Name(name)) => &**name == "localhost",
        HostPattern::Outside(_) | HostPattern::Below(_) | HostPattern::Any => false,
    };
    let (pattern, _) = hosts.iter().find(|(pattern, port)| port.is_none() && own(pattern))?;
    let message = format!("`{pattern}` without a port is reached through $SBX_PROXY only");
    Some(
        Problem::warning(Code::Inert, message)
            .capability(grant.capability().name())
            .help(format!("name the port of the service: `{pattern}:PORT`")),
    )
}

/// Secrets for hosts that nothing may be asked of.
fn unreached_secrets(policy: &Policy) -> Vec<Problem> {
    let reached = |host: &Host| {
        policy.grants().iter().any(|grant| match &grant.scope {
            PlacedScope::Net { hosts } => hosts.iter().any(|(pattern, _)| pattern.matches(host)),
            _ => false,
        })
    };
    let rules = policy.sections().env.iter();
    rules
        .filter_map(|rule| Some((rule, rule.inject.as_ref()?)))
        .filter(|(_, inject)| Target::parse(&inject.host).is_ok_and(|target| !reached(&target.host)))
        .map(|(rule, inject)| {
            let message = format!("{} is for {}, which no net.* grant reaches", rule.name, inject.host);
            Problem::warning(Code::Inert, message)
                .key("env")
                .help(format!("grant it: `net.get: {{hosts: [{}]}}`, or take the rule out", inject.host))
        })
        .collect()
}

/// A grant that opens a protected path by naming it.
fn protected(grant: &Grant) -> Option<Problem> {
    let PlacedScope::Fs { paths: Some(entries) } = &grant.scope else { return None };
    if grant.capability() == Capability::FsRead {
        return None;
    }
    entries.iter().filter(|entry| entry.glob.is_none()).find_map(|entry| {
        let protected = PROTECTED.iter().find(|protected| protected.find(&entry.base).is_some())?;
        let message = format!("{} opens {}: {}", grant.capability(), entry.base.display(), protected.why);
        Some(Problem::warning(Code::ProtectedPath, message).capability(grant.capability().name()))
    })
}
