//! `grant` and `revoke` on the text of a record: what is meant.
//!
//! How the text changes is `splice`'s matter. Invariant: the new text is read back, and holds
//! exactly the grants that were meant; anything else is refused.

use super::expand::{expand, implied};
use super::grants::WrittenGrant;
use super::reroot::reroot;
use super::splice::{Entry, Splice};
use super::subtract::{Rest, subtract};
use super::{Facts, Manifest, expand_root};
use crate::capability::{ScopeKey, Spec};
use crate::text::Source;
use sbx_platform::path::within;

/// An edit of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The whole new text; none when nothing changes.
    pub text: Option<String>,
    /// Whether shorthands were spelled out.
    pub dissolved: bool,
}

/// Why a record was not edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The record cannot be read, so it cannot be edited.
    #[error("the record has errors; `sbx agents lint` shows them")]
    Broken,
    /// What is to be revoked is not written, though it may be part of something wider.
    #[error("{0} is not granted in these words, so it cannot be revoked")]
    NotHeld(String),
    /// The text defies editing.
    #[error("the record's `capabilities` cannot be edited in place; write it as a list, one grant a line")]
    Unusual,
    /// The text of `env` defies editing.
    #[error("the record's `env` cannot be edited in place; write it as a list of names")]
    UnusualEnv,
}

/// Adds a grant.
///
/// # Errors
/// When the record is broken or written in a way that cannot be edited.
pub fn grant(source: &Source, spec: &Spec, facts: &Facts) -> Result<Change, EditError> {
    let manifest = readable(source, facts)?;
    if expand(&manifest).iter().any(|held| held.spec == *spec) {
        return Ok(Change { text: None, dissolved: false });
    }
    let written = written_specs(&manifest, facts);
    let implied = implied_specs(&manifest, &written);
    let written = written.into_iter().map(Some).collect();
    // One without a root was meant for the one that goes with `sandbox: P`.
    let added = match spec.scope.text(ScopeKey::In) {
        None => with_root(&manifest, spec, facts),
        Some(_) => spec.clone(),
    };
    Plan { implied, written, added: Some(added) }.apply(&manifest, facts)
}

/// The record under another name: a copy must not pass for the agent it was copied from.
///
/// # Errors
/// When the record is broken.
pub fn renamed(source: &Source, id: &str, facts: &Facts) -> Result<String, EditError> {
    let manifest = readable(source, facts)?;
    let mut text = source.text().to_owned();
    if let Some(written) = manifest.root.get("id") {
        text.replace_range(written.span.start..written.span.end, &format!("agents/{id}"));
    }
    let renamed = readable(&Source::new(source.name(), text.as_str()), facts)?;
    let named = manifest.root.get("id").is_none() || renamed.id() == id;
    if named { Ok(text) } else { Err(EditError::Unusual) }
}

/// Takes a grant, or items of one, away.
///
/// # Errors
/// When nothing of it is written, or the record cannot be edited.
pub fn revoke(source: &Source, spec: &Spec, facts: &Facts) -> Result<Change, EditError> {
    let manifest = readable(source, facts)?;
    let written = written_specs(&manifest, facts);
    let implied = implied_specs(&manifest, &written);
    // A grant written exactly so goes as a whole, and items are taken wherever else they stand.
    let rest = |held: &Spec| if held == spec { Rest::None } else { subtract(held, spec, facts) };
    if written.iter().chain(&implied).all(|held| rest(held) == Rest::All) {
        return Err(EditError::NotHeld(spec.to_string()));
    }
    let left = |held: &Spec| match rest(held) {
        Rest::All => Some(held.clone()),
        Rest::Some(narrowed) => Some(narrowed),
        Rest::None => None,
    };
    let plan = Plan {
        implied: implied.iter().filter_map(left).collect(),
        written: written.iter().map(left).collect(),
        added: None,
    };
    plan.apply(&manifest, facts)
}

pub(super) fn readable(source: &Source, facts: &Facts) -> Result<Manifest, EditError> {
    Manifest::parse(source.clone(), facts).0.ok_or(EditError::Broken)
}

/// Every written grant, with the root it hoisted from a `sandbox: P` that is about to go.
fn written_specs(manifest: &Manifest, facts: &Facts) -> Vec<Spec> {
    manifest
        .capabilities()
        .unwrap_or_default()
        .iter()
        .map(|grant| with_root(manifest, &grant.spec, facts))
        .collect()
}

/// What shorthands stand for, as far as it is not written anyway.
fn implied_specs(manifest: &Manifest, written: &[Spec]) -> Vec<Spec> {
    implied(manifest).into_iter().map(|grant| grant.spec).filter(|spec| !written.contains(spec)).collect()
}

fn with_root(manifest: &Manifest, spec: &Spec, facts: &Facts) -> Spec {
    let spec = spec.clone();
    let Some(sandbox) = manifest.sandbox.as_ref().filter(|sandbox| sandbox.grants) else { return spec };
    if !spec.capability.family().is_rooted() {
        return spec;
    }
    let own = spec.scope.text(ScopeKey::In).and_then(|own| expand_root(own, facts).ok()?.path);
    let scope = match (&own, &sandbox.root.path) {
        (Some(own), Some(root)) if !within(own, root) => reroot(&spec.scope, own, root, facts),
        (Some(_), _) => return spec,
        (None, _) => spec.scope.clone(),
    };
    Spec { scope: scope.with_text(ScopeKey::In, sandbox.root.written.clone()), ..spec }
}

/// What the record is to grant, in the order in which it will be written.
struct Plan {
    /// From shorthands, spelled out.
    implied: Vec<Spec>,
    /// What becomes of each written grant; none removes it.
    written: Vec<Option<Spec>>,
    /// What is new.
    added: Option<Spec>,
}

impl Plan {
    fn apply(&self, manifest: &Manifest, facts: &Facts) -> Result<Change, EditError> {
        let dissolved = uses_shorthand(manifest);
        let splice = Splice {
            manifest,
            before: &self.implied,
            entries: self.entries(manifest),
            left: &self.written,
            after: self.added.as_ref(),
        };
        let candidates = [splice.in_place(), Some(splice.anew())];
        let text = candidates.into_iter().flatten().find(|text| self.is_meant_by(text, manifest, facts));
        Ok(Change { text: Some(text.ok_or(EditError::Unusual)?), dissolved })
    }

    /// What becomes of each entry of the list; those that hold no grant stay as they are.
    fn entries(&self, manifest: &Manifest) -> Vec<Entry> {
        let grants = manifest.capabilities().unwrap_or_default();
        let fate = |(grant, spec): (&WrittenGrant, &Option<Spec>)| match spec {
            None => (grant.span, Entry::Removed),
            Some(spec) if *spec == grant.spec => (grant.span, Entry::Kept),
            Some(spec) => (grant.span, Entry::Replaced(spec.clone())),
        };
        let fates: Vec<_> = grants.iter().zip(&self.written).map(fate).collect();
        Splice::items(manifest)
            .iter()
            .map(|item| {
                let own =
                    fates.iter().find(|(span, _)| span.start >= item.span.start && span.end <= item.span.end);
                own.map_or(Entry::Kept, |(_, entry)| entry.clone())
            })
            .collect()
    }

    fn is_meant_by(&self, text: &str, manifest: &Manifest, facts: &Facts) -> bool {
        let (read, _) = Manifest::parse(Source::new(manifest.source().name(), text), facts);
        let Some(read) = read else { return false };
        let mut got: Vec<Spec> = expand(&read).into_iter().map(|grant| grant.spec).collect();
        let mut wanted: Vec<Spec> =
            self.implied.iter().chain(self.written.iter().flatten()).chain(&self.added).cloned().collect();
        got.sort_unstable();
        wanted.sort_unstable();
        wanted.dedup();
        got == wanted && read.body() == manifest.body() && read.sections() == manifest.sections()
    }
}

/// Whether the record grants something that is not an entry of `capabilities`.
fn uses_shorthand(manifest: &Manifest) -> bool {
    !implied(manifest).is_empty()
        || manifest.access.is_some()
        || manifest.sandbox.as_ref().is_some_and(|s| s.grants)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(text: &str) -> String {
        let spec = Spec::parse("records.delete").unwrap();
        let change = grant(&Source::new("a.yml", text), &spec, &Facts::new("/home/u")).unwrap();
        change.text.unwrap()
    }

    #[test]
    fn a_list_that_is_null_in_any_spelling_can_be_granted_to() {
        for null in ["", " ~", " null"] {
            let text = format!("capabilities:{null}\nid: a\n");
            assert_eq!(granted(&text), "capabilities:\n  - records.delete\nid: a\n");
        }
    }

    #[test]
    fn a_program_below_a_clamped_root_does_not_become_another_one() {
        let text = "sandbox: /w\naccess: r\ncapabilities:\n  - proc.exec: {in: /, cmds: [./t]}\n";
        assert!(granted(text).contains("- proc.exec: {in: /w, cmds: [/t]}"));
    }
}
