//! Searches, which read a place and all below it.

use crate::capability::{Capability, Scope, ScopeKey, Spec};
use crate::decide::{Denial, DenialCode, Request, Subject};
use crate::policy::{Policy, covers};
use sbx_platform::path::within;
use std::path::Path;

/// Whether an agent may read all below the place that a search starts at; a file is that file alone.
pub(super) fn readable(policy: &Policy, tool: &str, request: &Request) -> Result<(), Box<Denial>> {
    let Subject::Path { target, .. } = request.subject() else { return Ok(()) };
    if request.capability() != Capability::FsRead
        || std::fs::metadata(target).is_ok_and(|meta| !meta.is_dir())
    {
        return Ok(());
    }
    let refuse = |message: String| {
        Box::new(Denial::of_tool(DenialCode::ScopeViolation, policy.agent(), tool, message))
    };
    if within(&policy.facts().state_dir, target) {
        let log = policy.facts().state_dir.display();
        let mut denial = refuse(format!(
            "{tool} would read all below {}, sbx's own log in {log} included",
            target.display()
        ));
        denial.hint = Some("search a directory that does not hold it".to_owned());
        return Err(denial);
    }
    let all = everything(target);
    if covers(policy, &all) {
        return Ok(());
    }
    let agent = policy.agent();
    let mut denial = refuse(format!(
        "{tool} reads all below {}, and {agent} may read only a part of that",
        target.display()
    ));
    denial.hint =
        Some("search a directory that may be read as a whole, or run the search as a command".to_owned());
    denial.suggested_grant = Some(all);
    Err(denial)
}

fn everything(place: &Path) -> Spec {
    let scope = Scope::bare().with_text(ScopeKey::In, place.display().to_string());
    Spec { capability: Capability::FsRead, scope }
}
