//! The smallest grant that would allow a request.
//!
//! Invariant: granting what is suggested allows the request; where nothing would, nothing is offered.

use super::protected::protection;
use super::{Request, Subject};
use crate::capability::{Capability, Scope, ScopeKey, Spec, check_command, has_separator, is_literal};
use crate::manifest::is_agent_id;
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
        Subject::Command { argv, cwd, file } => {
            let program = argv.first()?.to_str()?;
            // A file is named in full: the grant's root need not be where the command runs.
            let named = if has_separator(program) { file.as_deref()?.to_str()? } else { program };
            let named = Some(named).filter(|named| check_command(named).is_ok())?;
            rooted(policy, capability, cwd.as_deref())?.with_list(ScopeKey::Cmds, [named])
        }
        Subject::Shell { cwd, .. } => rooted(policy, capability, cwd.as_deref())?,
        Subject::Record { id, class } => record_scope(capability, id.as_deref(), class.as_deref())?,
        Subject::Agent { id, .. } if !is_agent_id(id) => return None,
        Subject::Agent { id, .. } => Scope::bare().with_text(ScopeKey::Id, format!("agents/{id}")),
    };
    // A request can be about a thing that its capability is not about; nothing would allow that.
    let fits = scope.iter().all(|(key, _)| capability.keys().contains(&key));
    fits.then_some(Spec { capability, scope })
}

fn path_scope(policy: &Policy, capability: Capability, target: &Path) -> Option<Scope> {
    let guarded = protection(policy, capability, target);
    let never = guarded.is_some_and(|guarded| guarded.opening == Opening::Never);
    if never || outside(policy, target).is_some() {
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
        "" if guarded.is_none() => Some(scope),
        // Only a grant whose `paths` names it opens a protected path.
        "" => Some(scope.with_list(ScopeKey::Paths, ["."])),
        // A name with a wildcard in it cannot be written without also meaning others.
        rest if !is_literal(rest) || rest.chars().any(char::is_control) => None,
        rest if rest.starts_with(['~', '$']) => Some(scope.with_list(ScopeKey::Paths, [format!("./{rest}")])),
        rest => Some(scope.with_list(ScopeKey::Paths, [rest])),
    }
}

/// A root for a command: one that is known and contains the directory it runs in.
fn rooted(policy: &Policy, capability: Capability, cwd: Option<&Path>) -> Option<Scope> {
    if cwd.is_some_and(|cwd| outside(policy, cwd).is_some()) {
        return None;
    }
    let facts = policy.facts();
    let verbs = [capability, Capability::ProcExec, Capability::ProcEval];
    let held =
        || verbs.into_iter().flat_map(|verb| policy.held(verb)).filter_map(|grant| grant.root.as_deref());
    let known = policy.chain().root().or(facts.project.as_deref());
    let known = known.into_iter().chain(held()).find(|root| cwd.is_none_or(|cwd| within(cwd, root)));
    let root = known.or(cwd).unwrap_or(&facts.cwd);
    // All below it could be read: nobody is advised to open a whole home, or everything.
    if root == facts.home || root.parent().is_none() {
        return None;
    }
    Some(Scope::bare().with_text(ScopeKey::In, printable(root)?))
}

fn printable(path: &Path) -> Option<String> {
    path.to_str().filter(|text| !text.chars().any(char::is_control)).map(str::to_owned)
}

fn record_scope(capability: Capability, id: Option<&str>, class: Option<&str>) -> Option<Scope> {
    let climbs = |id: &str| id.split('/').any(|part| part == "..");
    if id.is_some_and(|id| id.is_empty() || climbs(id) || !is_literal(id)) {
        return None;
    }
    let takes = |key| capability.keys().contains(&key);
    let classes = class.filter(|_| takes(ScopeKey::Classes));
    let paths = id.filter(|_| takes(ScopeKey::Paths));
    let scope =
        classes.into_iter().fold(Scope::bare(), |scope, class| scope.with_list(ScopeKey::Classes, [class]));
    Some(paths.into_iter().fold(scope, |scope, id| scope.with_list(ScopeKey::Paths, [id])))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;

    fn suggested(request: &Request) -> Option<String> {
        let held = Spec::parse("fs.write{in=/w/.git/hooks}").unwrap();
        let policy = Policy::from_specs("a", &[held], &Facts::new("/home/u").at("/w")).unwrap();
        suggest(&policy, request).map(|spec| spec.to_string())
    }

    fn write(path: &str) -> Option<String> {
        suggested(&Request::path(Capability::FsWrite, path))
    }

    #[test]
    fn a_file_is_suggested_where_it_was_found() {
        let request = Request::exec(["./x"]).in_dir("/w/sub");
        assert_eq!(suggested(&request).unwrap(), "proc.exec{in=/w,cmds=[/w/sub/x]}");
        assert_eq!(suggested(&Request::exec(["./x"])), None);
    }

    #[test]
    fn a_command_is_suggested_where_others_may_run() {
        let held = Spec::parse("proc.exec{in=/w/sub,cmds=[rg]}").unwrap();
        let policy = Policy::from_specs("a", &[held], &Facts::new("/home/u")).unwrap();
        let suggested = |request: Request| suggest(&policy, &request).map(|spec| spec.to_string());
        assert_eq!(suggested(Request::exec(["jq"])).unwrap(), "proc.exec{in=/w/sub,cmds=[jq]}");
        assert_eq!(suggested(Request::exec(["jq"]).in_dir("/x")).unwrap(), "proc.exec{in=/x,cmds=[jq]}");
    }

    #[test]
    fn a_protected_root_is_named() {
        assert_eq!(write("/w/.git/hooks").unwrap(), "fs.write{in=/w/.git/hooks,paths=[.]}");
    }

    #[test]
    fn a_name_never_turns_into_a_pattern_or_a_home() {
        assert_eq!(write("/w/**"), None);
        assert_eq!(write("/w/~/x").unwrap(), "fs.write{in=/w,paths=[./~/x]}");
    }
}
