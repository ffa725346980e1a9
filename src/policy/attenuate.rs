//! `covers(parent, child)`: whether one authority includes another.
//!
//! Serves `agent.grant`, tool requirements, MCP `requires` and skills alike.
//! Invariant: whatever `decide` allows under the child, it allows under the parent.

use super::grant::{Command, Grant, PlacedScope};
use super::resolve::Policy;
use crate::capability::{Capability, CommandPattern, Spec, Token};
use crate::manifest::PathEntry;
use crate::profile::strictest;
use sbx_platform::path::within;
use std::path::{Path, PathBuf};

/// Whether a policy covers a requirement.
///
/// A requirement without a root takes the root of the grant that would hold it. One that cannot be
/// placed is not covered.
///
/// ```
/// use sbx::{Facts, Policy, covers};
/// use sbx::capability::Spec;
/// let held = Spec::parse("net.get{hosts=[*.github.com]}")?;
/// let policy = Policy::from_specs("scout", &[held], &Facts::new("/home/u")).unwrap();
/// assert!(covers(&policy, &Spec::parse("net.get{hosts=[github.com]}")?));
/// assert!(!covers(&policy, &Spec::parse("net.get{hosts=[github.io]}")?));
/// # Ok::<(), sbx::capability::SpecError>(())
/// ```
#[must_use]
pub fn covers(policy: &Policy, requirement: &Spec) -> bool {
    let mut roots: Vec<Option<&Path>> =
        policy.held(requirement.capability).map(|grant| grant.root.as_deref()).collect();
    roots.dedup();
    roots.iter().any(|root| {
        // A root of its own that lies outside the grant's is more than is held, not less.
        let held = |child: &Grant| !child.clamped && covers_grant(policy, child);
        policy.place_requirement(requirement, *root).is_ok_and(|child| held(&child))
    })
}

/// Whether a policy covers a grant that is already placed.
#[must_use]
pub fn covers_grant(policy: &Policy, child: &Grant) -> bool {
    let capability = child.capability();
    if !policy.holds(capability) {
        return false;
    }
    if child.is_inert() {
        return true;
    }
    let any = |fits: &dyn Fn(&Grant) -> bool| policy.held(capability).any(fits);
    match &child.scope {
        PlacedScope::Fs { paths } => {
            regions(child, paths.as_deref()).iter().all(|region| any(&|parent| covers_region(parent, region)))
        }
        PlacedScope::Net { hosts } => hosts.iter().all(|(pattern, port)| {
            any(&|parent| match &parent.scope {
                PlacedScope::Net { hosts } => hosts.iter().any(|(held, held_port)| {
                    held.covers(pattern) && (held_port.is_none() || held_port == port)
                }),
                _ => false,
            })
        }),
        PlacedScope::Exec { cmds: None, patterns: None } => {
            any(&|parent| covers_root(parent, child) && runs_all(parent))
        }
        PlacedScope::Exec { cmds, patterns } => {
            let cmds = cmds.iter().flatten();
            let patterns = patterns.iter().flatten();
            cmds.clone()
                .all(|command| any(&|parent| covers_root(parent, child) && covers_command(parent, command)))
                && patterns
                    .clone()
                    .all(|item| any(&|parent| covers_root(parent, child) && covers_pattern(parent, item)))
        }
        PlacedScope::Eval => any(&|parent| covers_root(parent, child)),
        PlacedScope::Records { classes, paths } => any(&|parent| match &parent.scope {
            PlacedScope::Records { classes: held, paths: held_paths } => {
                includes(held.as_deref(), classes.as_deref(), |a, b| a == b)
                    && includes(held_paths.as_deref(), paths.as_deref(), PathEntry::covers)
            }
            _ => false,
        }),
        PlacedScope::Agent { ids, paths } => any(&|parent| match &parent.scope {
            PlacedScope::Agent { ids: held, paths: held_paths } => {
                includes(held.as_deref(), ids.as_deref(), |a, b| a == b)
                    && includes(held_paths.as_deref(), paths.as_deref(), PathEntry::covers)
            }
            _ => false,
        }),
    }
}

/// Whether a key that narrows the parent narrows the child at least as much.
fn includes<T>(parent: Option<&[T]>, child: Option<&[T]>, covers: impl Fn(&T, &T) -> bool) -> bool {
    match (parent, child) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(parent), Some(child)) => child.iter().all(|item| parent.iter().any(|held| covers(held, item))),
    }
}

/// A part of the file system: an entry, and the directory all of it lies below.
struct Region {
    base: PathBuf,
    entry: PathEntry,
    /// The path as the grant names it, when it names one without a wildcard.
    named: Option<PathBuf>,
}

/// What an fs grant covers; entries that a clamp left outside the root cover nothing.
fn regions(grant: &Grant, paths: Option<&[PathEntry]>) -> Vec<Region> {
    let Some(root) = &grant.root else { return Vec::new() };
    let whole = PathEntry { base: root.clone(), glob: None };
    let Some(entries) = paths else {
        return vec![Region { base: root.clone(), entry: whole, named: None }];
    };
    let region = |entry: &PathEntry| {
        let named = entry.glob.is_none().then(|| entry.base.clone());
        if within(&entry.base, root) {
            Some(Region { base: entry.base.clone(), entry: entry.clone(), named })
        } else if within(root, &entry.base) {
            let entry = if entry.glob.is_none() { whole.clone() } else { entry.clone() };
            Some(Region { base: root.clone(), entry, named })
        } else {
            None
        }
    };
    entries.iter().filter_map(region).collect()
}

fn covers_region(parent: &Grant, region: &Region) -> bool {
    let PlacedScope::Fs { paths } = &parent.scope else { return false };
    if let Some(protected) = opened_by(parent.capability(), region)
        && !parent.names_path(protected, &region.base)
    {
        return false;
    }
    parent.root.as_deref().is_some_and(|root| within(&region.base, root))
        && paths.as_ref().is_none_or(|entries| entries.iter().any(|entry| entry.covers(&region.entry)))
}

/// The protected path that a region opens by naming it: a wider parent does not hold that.
fn opened_by(capability: Capability, region: &Region) -> Option<&Path> {
    let changes = matches!(capability, Capability::FsWrite | Capability::FsDelete);
    let named = region.named.as_deref().filter(|_| changes)?;
    let (_, protected) = strictest(&region.base)?;
    within(named, protected).then_some(protected)
}

fn covers_root(parent: &Grant, child: &Grant) -> bool {
    match (&parent.root, &child.root) {
        (Some(parent), Some(child)) => within(child, parent),
        _ => false,
    }
}

/// Whether a proc.exec grant lets every command run.
fn runs_all(parent: &Grant) -> bool {
    let star = |pattern: &CommandPattern| pattern.program().is_none();
    parent.is_open_exec() || exec_patterns(parent).any(|(_, pattern)| star(pattern))
}

fn covers_command(parent: &Grant, command: &Command) -> bool {
    let PlacedScope::Exec { cmds, .. } = &parent.scope else { return false };
    let whole = |(file, pattern): &(Option<PathBuf>, CommandPattern)| match command {
        Command::Name(name) => {
            pattern.is_whole_program() && file.is_none() && pattern.matches_program(name.as_bytes())
        }
        Command::File(path) => pattern.is_whole_program() && file.as_ref() == Some(path),
    };
    runs_all(parent) || cmds.iter().flatten().any(|held| held == command) || exec_patterns(parent).any(whole)
}

fn covers_pattern(parent: &Grant, (file, pattern): &(Option<PathBuf>, CommandPattern)) -> bool {
    let program = match (file, pattern.program()) {
        (Some(file), _) => Some(Command::File(file.clone())),
        (None, Some(Token::Literal(name))) => Some(Command::Name(name.to_string())),
        (None, Some(Token::Glob(_)) | None) => None,
    };
    program.is_some_and(|program| covers_command(parent, &program))
        || runs_all(parent)
        || exec_patterns(parent).any(|(held_file, held)| {
            held_file == file && (file.is_none() || held.program().is_some()) && held.covers(pattern)
        })
}

fn exec_patterns(grant: &Grant) -> impl Iterator<Item = &(Option<PathBuf>, CommandPattern)> {
    match &grant.scope {
        PlacedScope::Exec { patterns: Some(patterns), .. } => patterns.iter(),
        _ => [].iter(),
    }
}

/// The first of several grants that is not covered.
#[must_use]
pub(crate) fn first_uncovered<'a>(policy: &Policy, children: &'a [Grant]) -> Option<&'a Grant> {
    children.iter().find(|child| !covers_grant(policy, child))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Facts;

    fn holds(held: &str, wanted: &str) -> bool {
        let held = Spec::parse(held).unwrap();
        let policy = Policy::from_specs("a", &[held], &Facts::new("/home/u")).unwrap();
        covers(&policy, &Spec::parse(wanted).unwrap())
    }

    #[test]
    fn a_requirement_with_a_wider_root_is_not_covered() {
        assert!(!holds("fs.read{in=/w}", "fs.read{in=/}") && !holds("proc.eval{in=/w}", "proc.eval{in=/v}"));
        assert!(holds("fs.read{in=/w}", "fs.read{in=/w/a}") && holds("fs.read{in=/w}", "fs.read"));
    }

    #[test]
    fn a_grant_that_opens_nothing_protected_is_covered_by_itself() {
        assert!(holds("fs.write{in=/w/.git/hooks}", "fs.write{in=/w/.git/hooks}"));
        assert!(holds("fs.write{in=/w}", "fs.write{in=/w/.git/hooks}"));
    }

    #[test]
    fn only_a_grant_that_names_a_protected_path_covers_one_that_does() {
        let hooks = "fs.write{in=/w,paths=[.git/hooks]}";
        assert!(holds(hooks, hooks) && holds(hooks, "fs.write{in=/w/.git,paths=[hooks/pre-commit]}"));
        assert!(!holds("fs.write{in=/w}", hooks) && !holds("fs.write{in=/w,paths=[.git]}", hooks));
        assert!(!holds("fs.write{in=/w,paths=[.vscode]}", "fs.write{in=/w,paths=[.vscode/.bashrc]}"));
    }
}
