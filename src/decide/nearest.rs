//! Explains a no: the grant that comes closest, and why it is not enough.

use super::protected::protection;
use super::suggest::{ceiling_hint, suggest};
use super::{Denial, DenialCode, NearestGrant, Request, Subject};
use crate::capability::{Capability, HostPattern, ScopeKey, Target, classify};
use crate::policy::{Grant, Policy};
use crate::profile::Opening;
use sbx_platform::path::within;
use std::net::IpAddr;
use std::path::Path;

/// Builds the denial of a request that no grant allows.
pub(super) fn explain(policy: &Policy, request: &Request) -> Denial {
    let capability = request.capability();
    let held = policy.holds(capability);
    let code = if held { DenialCode::ScopeViolation } else { DenialCode::CapabilityAbsent };
    let mut denial = Denial::of(code, policy.agent(), request, message(policy, request, held));
    denial.nearest = nearest(policy, request).map(|grant| NearestGrant {
        spec: grant.spec.clone(),
        place: grant.place.clone(),
        reason: reason(policy, grant, request),
    });
    denial.suggested_grant = suggest(policy, request);
    denial.hint = hint(policy, request, denial.suggested_grant.is_some());
    denial
}

fn message(policy: &Policy, request: &Request, held: bool) -> String {
    let agent = policy.agent();
    match request.subject() {
        Subject::Host { refused_method: Some(method), .. } => {
            format!("no capability allows the method {method}")
        }
        Subject::Host { target: Err(error), .. } => {
            format!("{agent} asked for a host that is refused: {error}")
        }
        Subject::Command { argv, .. } if argv.is_empty() => format!("{agent} asked to run an empty command"),
        _ if held => format!("{agent} may not {request}"),
        _ => format!("{agent} may not {request}: it does not hold {}", request.capability()),
    }
}

/// The held grant of the same capability that is most like the request.
fn nearest<'a>(policy: &'a Policy, request: &Request) -> Option<&'a Grant> {
    let likeness = |grant: &&Grant| match request.subject() {
        Subject::Path { target, .. } => {
            grant.root.as_deref().map_or(0, |root| 1 + shared_components(root, target))
        }
        Subject::Command { argv, cwd, .. } => {
            let program = argv.first().and_then(|program| program.to_str()).unwrap_or_default();
            let items = [ScopeKey::Cmds, ScopeKey::Patterns];
            let mut entries = items.iter().filter_map(|key| grant.spec.scope.list(*key)).flatten();
            let names_it = entries.any(|entry| entry.split([' ', ':']).next() == Some(program));
            usize::from(names_it) * 2 + usize::from(grant.allows_cwd(cwd.as_deref()))
        }
        Subject::Host { target: Ok(target), .. } => {
            let name = target.host.to_string();
            let hosts = grant.spec.scope.list(ScopeKey::Hosts).unwrap_or_default();
            hosts.iter().map(|host| shared_labels(host, &name)).max().unwrap_or(0)
        }
        Subject::Host { target: Err(_), .. }
        | Subject::Shell { .. }
        | Subject::Record { .. }
        | Subject::Agent { .. } => 0,
    };
    // `max_by_key` keeps the last of equals; the first in the record reads better.
    let mut held: Vec<&Grant> = policy.held(request.capability()).collect();
    held.reverse();
    held.into_iter().max_by_key(likeness)
}

fn shared_components(a: &Path, b: &Path) -> usize {
    a.components().zip(b.components()).take_while(|(a, b)| a == b).count()
}

fn shared_labels(a: &str, b: &str) -> usize {
    a.rsplit('.').zip(b.rsplit('.')).take_while(|(a, b)| a == b).count()
}

/// Why the nearest grant does not allow the request.
fn reason(policy: &Policy, grant: &Grant, request: &Request) -> String {
    if grant.is_inert() {
        return match grant.spec.scope.text(ScopeKey::In) {
            Some(root) if root.starts_with("$PROJECT") => policy.facts().no_project(),
            _ => "it is inert: neither it nor the agent nor the configuration names a root".to_owned(),
        };
    }
    let root = grant.root.as_deref().unwrap_or(Path::new("/"));
    match request.subject() {
        Subject::Path { target, .. } => path_reason(policy, grant, root, request.capability(), target),
        Subject::Host { refused_method: Some(method), .. } => {
            format!("{method} is not one of the known methods")
        }
        Subject::Host { target: Err(error), .. } => error.to_string(),
        Subject::Host { target: Ok(target), address, .. } => host_reason(grant, target, *address),
        Subject::Command { cwd: Some(cwd), .. } | Subject::Shell { cwd: Some(cwd), .. }
            if !within(cwd, root) =>
        {
            format!("the working directory {} lies outside {}", cwd.display(), root.display())
        }
        Subject::Command { .. } => {
            format!("it allows {}", listed(grant, &[ScopeKey::Cmds, ScopeKey::Patterns]))
        }
        Subject::Shell { .. } => "it does not cover this".to_owned(),
        Subject::Record { class: None, .. } if grant.spec.scope.list(ScopeKey::Classes).is_some() => {
            "the record's class is not known".to_owned()
        }
        Subject::Record { .. } => {
            format!("it allows {}", listed(grant, &[ScopeKey::Classes, ScopeKey::Paths]))
        }
        Subject::Agent { .. } => {
            format!("it allows {}", listed(grant, &[ScopeKey::Id, ScopeKey::Ids, ScopeKey::Paths]))
        }
    }
}

fn path_reason(policy: &Policy, grant: &Grant, root: &Path, capability: Capability, target: &Path) -> String {
    if !within(target, root) {
        return format!("{} lies outside {}", target.display(), root.display());
    }
    let guarded = protection(policy, capability, target);
    match guarded.filter(|_| grant.allows_path(target)) {
        Some(guarded) if guarded.opening == Opening::Never => {
            format!("{} is never opened: {}", guarded.path.display(), guarded.why)
        }
        Some(guarded) => format!(
            "{} is protected ({}): only a grant whose `paths` names it opens it",
            guarded.path.display(),
            guarded.why
        ),
        None => format!("it allows {} below {}", listed(grant, &[ScopeKey::Paths]), root.display()),
    }
}

fn host_reason(grant: &Grant, target: &Target, address: Option<IpAddr>) -> String {
    if let Some(address) = address.filter(|address| classify(*address) == crate::capability::Address::Inside)
    {
        if address.is_unspecified() {
            return format!(
                "where {} leads is not known here, and only a grant that names the host reaches it all the same",
                target.host
            );
        }
        return format!("{} leads to {address}, which only a grant that names the host reaches", target.host);
    }
    let named = grant.spec.scope.list(ScopeKey::Hosts).unwrap_or_default().iter();
    let ports: Vec<String> = named
        .filter_map(|host| HostPattern::parse(host).ok())
        .filter(|(pattern, _)| pattern.matches(&target.host))
        .filter_map(|(_, port)| port.map(|port| port.to_string()))
        .collect();
    if !ports.is_empty() {
        return format!("it allows {} on port {} only", target.host, ports.join(", "));
    }
    if target.host.is_inside() {
        return format!("{} is local or private: `*` and `*.x` never reach it", target.host);
    }
    format!("it allows {}", listed(grant, &[ScopeKey::Hosts]))
}

/// The items of a grant, for people; few enough to read.
fn listed(grant: &Grant, keys: &[ScopeKey]) -> String {
    const SHOWN: usize = 8;
    let lists = keys.iter().filter_map(|key| grant.spec.scope.list(*key)).flatten().map(String::as_str);
    let texts = keys.iter().filter_map(|key| grant.spec.scope.text(*key));
    let items: Vec<&str> = lists.chain(texts).collect();
    match items.len() {
        0 => "nothing".to_owned(),
        count if count > SHOWN => format!("{} and {} more", items[..SHOWN].join(", "), count - SHOWN),
        _ => items.join(", "),
    }
}

fn hint(policy: &Policy, request: &Request, has_suggestion: bool) -> Option<String> {
    if let Some(hint) = ceiling_hint(policy, request) {
        return Some(hint);
    }
    match request.subject() {
        Subject::Path { asked, target } if asked != target => {
            Some("links are followed: the decision is about what the path leads to".to_owned())
        }
        Subject::Path { .. } if request.capability() == Capability::FsDelete && has_suggestion => {
            Some("renaming a file away, as editors do when they save, needs fs.delete too".to_owned())
        }
        _ => None,
    }
}
