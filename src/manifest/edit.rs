//! `grant` and `revoke` on the text of a record.
//!
//! Only what must change is touched: comments, key order and the Markdown body stay byte for byte.
//! Invariant: the new text is read back, and holds exactly the grants that were meant.

use super::expand::{expand, implied};
use super::grants::{WrittenGrant, WrittenIn};
use super::render::{block, entry};
use super::reroot::reroot;
use super::subtract::{Rest, subtract};
use super::yaml::{Node, NodeKind};
use super::{Facts, Manifest};
use crate::capability::{ScopeKey, Spec};
use crate::text::{Source, Span};

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
    /// What is to be revoked is not there.
    #[error("{0} is not granted, so it cannot be revoked")]
    NotHeld(String),
    /// What is to be revoked is only part of something wider.
    #[error("{revoked} is held through {wider}, which cannot be cut; revoke that and grant the rest")]
    Wider {
        /// What was to be revoked.
        revoked: String,
        /// The grant it is part of.
        wider: String,
    },
    /// The text defies editing.
    #[error("the record's `capabilities` cannot be edited in place; write it as a list, one grant a line")]
    Unusual,
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
    let mut wanted = spelled_out(&manifest, facts);
    wanted.push(spec.clone());
    let dissolves = uses_shorthand(&manifest);
    let text = if dissolves { None } else { append(&manifest, spec) };
    finish(&manifest, text, &wanted, dissolves, facts)
}

/// Takes a grant, or items of one, away.
///
/// # Errors
/// When nothing of it is held, or only as part of something wider.
pub fn revoke(source: &Source, spec: &Spec, facts: &Facts) -> Result<Change, EditError> {
    let manifest = readable(source, facts)?;
    let held = spelled_out(&manifest, facts);
    let rests = rests(&held, spec, facts);
    if rests.iter().all(|rest| *rest == Rest::All) {
        return Err(match held.iter().find(|held| held.capability == spec.capability) {
            Some(wider) => EditError::Wider { revoked: spec.to_string(), wider: wider.to_string() },
            None => EditError::NotHeld(spec.to_string()),
        });
    }
    let wanted: Vec<Spec> = held
        .iter()
        .zip(&rests)
        .filter_map(|(held, rest)| match rest {
            Rest::All => Some(held.clone()),
            Rest::Some(narrowed) => Some(narrowed.clone()),
            Rest::None => None,
        })
        .collect();
    let dissolves = uses_shorthand(&manifest);
    let text = if dissolves { None } else { cut(&manifest, &held, &rests) };
    finish(&manifest, text, &wanted, dissolves, facts)
}

/// A grant written exactly so goes as a whole; otherwise items are taken wherever they stand.
fn rests(held: &[Spec], spec: &Spec, facts: &Facts) -> Vec<Rest> {
    if held.contains(spec) {
        return held.iter().map(|held| if held == spec { Rest::None } else { Rest::All }).collect();
    }
    held.iter().map(|held| subtract(held, spec, facts)).collect()
}

fn readable(source: &Source, facts: &Facts) -> Result<Manifest, EditError> {
    Manifest::parse(source.clone(), facts).0.ok_or(EditError::Broken)
}

/// Whether the record grants something that is not an entry of `capabilities`.
fn uses_shorthand(manifest: &Manifest) -> bool {
    !implied(manifest).is_empty()
        || manifest.access.is_some()
        || manifest.sandbox.as_ref().is_some_and(|s| s.grants)
}

/// Every grant with the root it hoisted from a `sandbox: P` that is about to go.
fn spelled_out(manifest: &Manifest, facts: &Facts) -> Vec<Spec> {
    let shorthand = implied(manifest).into_iter();
    let written = manifest.capabilities().unwrap_or_default().iter().cloned();
    let mut specs: Vec<Spec> = Vec::new();
    for grant in shorthand.chain(written) {
        let spec = with_root(manifest, &grant, facts);
        if !specs.contains(&spec) {
            specs.push(spec);
        }
    }
    specs
}

fn with_root(manifest: &Manifest, grant: &WrittenGrant, facts: &Facts) -> Spec {
    let spec = grant.spec.clone();
    let Some(sandbox) = manifest.sandbox.as_ref().filter(|sandbox| sandbox.grants) else { return spec };
    if !spec.capability.family().is_rooted() || grant.origin != WrittenIn::Capabilities {
        return spec;
    }
    let own = spec.scope.text(ScopeKey::In).and_then(|own| super::expand_root(own, facts).ok()?.path);
    let scope = match (&own, &sandbox.root.path) {
        (Some(own), Some(root)) if !sbx_platform::path::within(own, root) => {
            reroot(&spec.scope, own, root, facts)
        }
        (Some(_), _) => return spec,
        (None, _) => spec.scope.clone(),
    };
    Spec { scope: scope.with_text(ScopeKey::In, sandbox.root.written.clone()), ..spec }
}

/// Uses the careful edit if it reads back as wanted, else writes the list anew.
fn finish(
    manifest: &Manifest,
    careful: Option<String>,
    wanted: &[Spec],
    dissolved: bool,
    facts: &Facts,
) -> Result<Change, EditError> {
    let name = manifest.source().name();
    let means = |text: &String| {
        let (read, _) = Manifest::parse(Source::new(name, text.as_str()), facts);
        read.is_some_and(|read| same_grants(&read, wanted) && read.body() == manifest.body())
    };
    let text = careful
        .filter(|text| means(text))
        .or_else(|| Some(rewritten(manifest, wanted)).filter(|text| means(text)));
    let text = text.ok_or(EditError::Unusual)?;
    Ok(Change { text: Some(text), dissolved })
}

fn same_grants(manifest: &Manifest, wanted: &[Spec]) -> bool {
    let mut read: Vec<Spec> = expand(manifest).into_iter().map(|grant| grant.spec).collect();
    let mut wanted = wanted.to_vec();
    read.sort_unstable();
    wanted.sort_unstable();
    wanted.dedup();
    read == wanted
}

fn newline(source: &Source) -> &'static str {
    if source.text().contains("\r\n") { "\r\n" } else { "\n" }
}

fn splice(source: &Source, span: Span, with: &str) -> String {
    let text = source.text();
    format!("{}{with}{}", &text[..span.start], &text[span.end..])
}

fn capabilities_node(manifest: &Manifest) -> Option<&(Node, Node)> {
    manifest.root.map()?.iter().find(|(key, _)| key.text() == Some("capabilities"))
}

/// Adds one entry to the list, in the list's own style.
fn append(manifest: &Manifest, spec: &Spec) -> Option<String> {
    let (_, value) = capabilities_node(manifest)?;
    let source = manifest.source();
    let items = value.list()?;
    if source.slice(value.span).starts_with('[') {
        let inner = source.slice(Span::new(value.span.start + 1, value.span.end - 1));
        let separator = if inner.trim().is_empty() || inner.trim_end().ends_with(',') { "" } else { ", " };
        let at = value.span.start + 1 + inner.trim_end().len();
        let item = if spec.scope.is_bare() { entry(spec) } else { format!("{{{}}}", entry(spec)) };
        return Some(splice(source, Span::new(at, at), &format!("{separator}{item}")));
    }
    let last = items.last()?;
    let indent = indent_of(source, last)?;
    let end = line_end(source, last.span.end);
    let text = format!("{}{indent}- {}", newline(source), entry(spec));
    Some(splice(source, Span::new(end, end), &text))
}

/// What stands before the dash of a block list's entry.
fn indent_of(source: &Source, item: &Node) -> Option<String> {
    let (line, start) = source.line_at(item.span.start);
    let before = line.get(..item.span.start - start)?;
    let dash = before.rfind('-')?;
    before[..dash].trim().is_empty().then(|| before[..dash].to_owned())
}

/// The end of the line at an offset, its line end not included.
fn line_end(source: &Source, offset: usize) -> usize {
    let (line, start) = source.line_at(offset);
    start + line.len()
}

/// Removes or replaces entries where they stand, last first so that offsets stay right.
///
/// An entry that is written twice goes twice; one that could not be read stays.
fn cut(manifest: &Manifest, held: &[Spec], rests: &[Rest]) -> Option<String> {
    let (_, value) = capabilities_node(manifest)?;
    let source = manifest.source();
    let grants = manifest.capabilities()?;
    let flow = source.slice(value.span).starts_with('[');
    if flow || rests.iter().all(|rest| *rest == Rest::None) {
        return None;
    }
    let rest_of = |item: &Node| {
        let grant = grants.iter().find(|grant| grant.span == item.span)?;
        rests.get(held.iter().position(|held| *held == grant.spec)?)
    };
    let mut text = source.text().to_owned();
    for item in value.list()?.iter().rev() {
        match rest_of(item) {
            Some(Rest::All) | None => {}
            Some(Rest::Some(narrowed)) => {
                text.replace_range(item.span.start..item.span.end, &entry(narrowed));
            }
            Some(Rest::None) => text.replace_range(whole_lines(source, item), ""),
        }
    }
    Some(text)
}

/// The lines an entry stands on, with the end of the last.
fn whole_lines(source: &Source, item: &Node) -> std::ops::Range<usize> {
    let (_, start) = source.line_at(item.span.start);
    let end = line_end(source, item.span.end);
    let rest = &source.text()[end..];
    let newline = rest.find('\n').map_or(0, |at| at + 1);
    start..end + newline
}

/// Writes the whole list anew and takes the shorthands out.
fn rewritten(manifest: &Manifest, wanted: &[Spec]) -> String {
    let source = manifest.source();
    let newline = newline(source);
    let list = block(wanted, newline);
    let mut text = source.text().to_owned();
    let mut placed = false;
    let pairs = manifest.root.map().unwrap_or_default();
    for (key, value) in pairs.iter().rev() {
        let name = key.text().unwrap_or_default();
        let dissolves = name == "access" || (name == "sandbox" && matches!(value.kind, NodeKind::Text(_)));
        let span = key.span.to(value.span);
        if name == "capabilities" {
            let unwritten = value.span.start >= value.span.end;
            let end = if unwritten { key.span.end + 1 } else { span.end };
            text.replace_range(key.span.start..end, &list);
            placed = true;
        } else if dissolves {
            let is_last_chance = !placed && !has_capabilities(pairs);
            if is_last_chance {
                text.replace_range(span.start..span.end, &list);
                placed = true;
            } else {
                text.replace_range(whole_lines(source, &Node { kind: NodeKind::Null, span }), "");
            }
        }
    }
    if placed { text } else { added_at_end(manifest, &text, &list, newline) }
}

fn has_capabilities(pairs: &[(Node, Node)]) -> bool {
    pairs.iter().any(|(key, _)| key.text() == Some("capabilities"))
}

/// Puts the list at the end of the front matter.
fn added_at_end(manifest: &Manifest, text: &str, list: &str, newline: &str) -> String {
    let end = manifest.front.yaml.end;
    let before = &text[..end];
    let lead = if before.is_empty() || before.ends_with('\n') { "" } else { newline };
    format!("{before}{lead}{list}{newline}{}", &text[end..])
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
    fn an_entry_written_twice_goes_twice_and_a_wrong_one_stays() {
        let text =
            "capabilities: # held\n  - records.read\n  - fs.raed\n  - records.delete\n  - records.read\n";
        let spec = Spec::parse("records.read").unwrap();
        let change = revoke(&Source::new("a.yml", text), &spec, &Facts::new("/home/u")).unwrap();
        assert_eq!(change.text.unwrap(), "capabilities: # held\n  - fs.raed\n  - records.delete\n");
    }

    #[test]
    fn a_program_below_a_clamped_root_does_not_become_another_one() {
        let text = "sandbox: /w\naccess: r\ncapabilities:\n  - proc.exec: {in: /, cmds: [./t]}\n";
        assert!(granted(text).contains("- proc.exec: {in: /w, cmds: [/t]}"));
    }
}
