//! Changes of protected paths that were refused: what a command may not say itself, and what it may take for done.
//!
//! Answers for finding them among what was refused. Why a launch failed is for [`super::explain`] to tell.
//! Invariant: only what a grant would allow if it were not protected is told of; what is not granted at all is not.

use crate::capability::Capability;
use crate::decide::{Permit, one_line, protection};
use sbx_platform::path::resolve;
use sbx_platform::report::{Act, Verb};

/// So many are told one by one.
const MOST: usize = 3;
/// Where a project begins, as the broker knows it.
const MARK: &str = ".git";

/// A line for each of the first protected paths that were to be changed and were not, and one for how many more.
#[must_use]
pub fn kept(permit: &Permit<'_>, acts: &[Act]) -> Vec<String> {
    let mut found = marks(permit, acts);
    for act in acts.iter().filter(|act| act.is_refused()) {
        if let Some(line) = line(permit, act)
            && !found.contains(&line)
        {
            found.push(line);
        }
    }
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    found.extend((more > 0).then(|| format!("and {more} more protected paths stayed as they were")));
    found
}

/// What marks a project, a `.git` that holds nothing protected or is a file, and was to be taken away: a line for each of
/// the first ones. `decide` does not know of it, since who made it is not in the path, and no grant opens it.
pub(super) fn marks(permit: &Permit<'_>, acts: &[Act]) -> Vec<String> {
    let refused = acts.iter().filter(|act| act.is_refused() && act.verb == Verb::Remove);
    let mut found: Vec<String> = Vec::new();
    for path in refused.map(|act| &act.path).filter(|path| path.ends_with(MARK)) {
        let held = permit.policy().held(Capability::FsDelete).any(|grant| grant.allows_path(path));
        let line = format!(
            "{} marks a project and stays: with it gone, the next launch would take what lies around for the project",
            one_line(&path.display().to_string())
        );
        if held && found.len() < MOST && !found.contains(&line) {
            found.push(line);
        }
    }
    found
}

fn line(permit: &Permit<'_>, act: &Act) -> Option<String> {
    let capability = match act.verb {
        Verb::Write => Capability::FsWrite,
        Verb::Remove => Capability::FsDelete,
        Verb::Read
        | Verb::Look
        | Verb::Run
        | Verb::Made
        | Verb::Obeyed
        | Verb::Connect
        | Verb::Listen
        | Verb::Resolve
        | Verb::Call => return None,
    };
    let target = resolve(&act.path).unwrap_or_else(|_| act.path.clone());
    let guard = protection(permit.policy(), capability, &target)?;
    let granted = permit.policy().held(capability).any(|grant| grant.allows_path(&target));
    granted.then(|| format!("{} is protected ({}) and stayed as it was", target.display(), guard.why))
}
