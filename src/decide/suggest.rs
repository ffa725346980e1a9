//! The smallest grant that would allow a request.
//!
//! Invariant: granting what is suggested allows the request; where nothing would, nothing is offered.

use super::protected::protection;
use super::{Request, Subject};
use crate::capability::{Capability, Scope, ScopeKey, Spec, check_command};
use crate::policy::{Level, Policy};
use crate::profile::Opening;
use sbx_platform::path::within;
use std::path::{Path, PathBuf};

pub(super) fn suggest(policy: &Policy, request: &Request) -> Option<Spec> {
    let capability = request.capability();
    let scope = match request.subject() {
        Subject::Path { target, .. } => path_scope(policy, capability, target)?,
        Subject::Host { target: Ok(target), refused_method: None, .. } => {
            let port = target.port.filter(|port| !matches!(port, 80 | 443));
            let host = match port {
                Some(port) => format!("{}:{port}", target.host),
                None => target.host.to_string(),
            };
            Scope::bare().with_list(ScopeKey::Hosts, [host])
        }
        Subject::Host { .. } => return None,
        Subject::Command { argv, cwd, .. } => {
            let program = argv.first()?.to_str().filter(|program| check_command(program).is_ok())?;
            rooted(policy, cwd.as_deref())?.with_list(ScopeKey::Cmds, [program])
        }
        Subject::Shell { cwd, .. } => rooted(policy, cwd.as_deref())?,
        Subject::Record { id, class } => record_scope(capability, id.as_deref(), class.as_deref()),
        Subject::Agent { id, .. } => Scope::bare().with_text(ScopeKey::Id, format!("agents/{id}")),
    };
    Some(Spec { capability, scope })
}

fn path_scope(policy: &Policy, capability: Capability, target: &Path) -> Option<Scope> {
    let never = protection(policy, target).is_some_and(|guarded| guarded.opening == Opening::Never);
    if (never && capability != Capability::FsRead) || outside(policy, target).is_some() {
        return None;
    }
    let known = policy
        .held(capability)
        .filter_map(|grant| grant.root.as_deref())
        .chain(policy.chain().root())
        .chain(policy.facts().project.as_deref())
        .find(|root| within(target, root));
    let root = known.or_else(|| target.parent()).unwrap_or(target);
    let scope = Scope::bare().with_text(ScopeKey::In, printable(root)?);
    match target.strip_prefix(root).ok()?.to_str()? {
        "" => Some(scope),
        rest if rest.chars().any(char::is_control) => None,
        rest => Some(scope.with_list(ScopeKey::Paths, [rest])),
    }
}

/// A root for a command: one that is known and contains the directory it runs in.
fn rooted(policy: &Policy, cwd: Option<&Path>) -> Option<Scope> {
    if cwd.is_some_and(|cwd| outside(policy, cwd).is_some()) {
        return None;
    }
    let facts = policy.facts();
    let known = policy.chain().root().or(facts.project.as_deref());
    let root = known.filter(|root| cwd.is_none_or(|cwd| within(cwd, root))).or(cwd).unwrap_or(&facts.cwd);
    Some(Scope::bare().with_text(ScopeKey::In, printable(root)?))
}

fn printable(path: &Path) -> Option<String> {
    path.to_str().filter(|text| !text.chars().any(char::is_control)).map(str::to_owned)
}

fn record_scope(capability: Capability, id: Option<&str>, class: Option<&str>) -> Scope {
    let takes = |key| capability.keys().contains(&key);
    let classes = class.filter(|_| takes(ScopeKey::Classes));
    let paths = id.filter(|_| takes(ScopeKey::Paths));
    let scope =
        classes.into_iter().fold(Scope::bare(), |scope, class| scope.with_list(ScopeKey::Classes, [class]));
    paths.into_iter().fold(scope, |scope, id| scope.with_list(ScopeKey::Paths, [id]))
}

/// The level that keeps every grant away from a path.
fn outside<'a>(policy: &'a Policy, path: &Path) -> Option<&'a Level> {
    let chain = policy.chain();
    chain.root().filter(|root| !within(path, root)).and_then(|_| chain.set_by())
}

/// What to widen first when no grant could reach that far.
pub(super) fn ceiling_hint(policy: &Policy, request: &Request) -> Option<String> {
    let path: &PathBuf = match request.subject() {
        Subject::Path { target, .. } => target,
        Subject::Command { cwd: Some(cwd), .. } | Subject::Shell { cwd: Some(cwd), .. } => cwd,
        Subject::Command { .. }
        | Subject::Shell { .. }
        | Subject::Record { .. }
        | Subject::Agent { .. }
        | Subject::Host { .. } => return None,
    };
    let level = outside(policy, path)?;
    let place =
        level.place.as_ref().map_or_else(String::new, |place| format!(" ({}:{})", place.file, place.line));
    Some(format!(
        "no grant reaches {}: the {}{place} keeps the agent below {}",
        path.display(),
        level.name,
        level.root.display()
    ))
}
