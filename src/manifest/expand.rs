//! Shorthands: what `sandbox: P`, `access: rw` and silence stand for.

use super::Manifest;
use super::grants::{WrittenGrant, WrittenIn};
use crate::capability::{Capability, Scope, ScopeKey, Spec};
use crate::text::Span;
use std::collections::HashSet;

/// Every grant the record makes, shorthands spelled out, each only once.
#[must_use]
pub fn expand(manifest: &Manifest) -> Vec<WrittenGrant> {
    let written = manifest.capabilities().unwrap_or_default().iter().cloned();
    // Written entries come last but win: their place is the one to show.
    let grants: Vec<WrittenGrant> = written.chain(implied(manifest)).collect();
    let mut seen = HashSet::with_capacity(grants.len());
    let first: Vec<bool> = grants.iter().map(|grant| seen.insert(&grant.spec)).collect();
    grants.into_iter().zip(first).filter_map(|(grant, first)| first.then_some(grant)).collect()
}

/// What the record grants without writing it out.
pub(super) fn implied(manifest: &Manifest) -> Vec<WrittenGrant> {
    let bare = |capability| Spec { capability, scope: Scope::bare() };
    let mut grants = Vec::new();
    if let Some(access) = &manifest.access {
        let held = [
            (access.read, Capability::RecordsRead),
            (access.write, Capability::RecordsCreate),
            (access.write, Capability::RecordsUpdate),
        ];
        for (_, capability) in held.into_iter().filter(|(held, _)| *held) {
            grants.push(Manifest::implied(bare(capability), access.span, WrittenIn::Access));
        }
    }
    if let Some(sandbox) = manifest.sandbox.as_ref().filter(|sandbox| sandbox.grants) {
        for capability in [Capability::FsRead, Capability::FsWrite, Capability::ProcExec] {
            let scope = Scope::bare().with_text(ScopeKey::In, sandbox.root.written.clone());
            grants.push(Manifest::implied(Spec { capability, scope }, sandbox.span, WrittenIn::Sandbox));
        }
    }
    if manifest.is_silent() {
        let start = manifest.front.yaml.start;
        let span = manifest.sandbox.as_ref().map_or(Span::new(start, start), |sandbox| sandbox.span);
        grants.push(Manifest::implied(bare(Capability::RecordsRead), span, WrittenIn::Default));
    }
    grants
}
