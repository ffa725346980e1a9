//! Adding names to `env` in the text of a record.
//!
//! Answers for where they are written: beside the names that are there, or in a section of their own. Invariant: the new
//! text is read back, and differs in those names only; anything else is refused.

use super::edit::{Change, EditError, readable};
use super::expand::expand;
use super::sections::EnvRule;
use super::yaml::{Node, NodeKind};
use super::{Facts, Manifest};
use crate::capability::Spec;
use crate::text::Source;

/// Passes variables of the caller's in, beside those that are passed in already.
///
/// # Errors
/// When the record is broken or written in a way that cannot be edited.
pub fn pass(source: &Source, names: &[String], facts: &Facts) -> Result<Change, EditError> {
    let manifest = readable(source, facts)?;
    let held = |name: &&String| manifest.sections().env.iter().any(|rule| rule.name == **name);
    let lacking: Vec<&str> = names.iter().filter(|name| !held(name)).map(String::as_str).collect();
    if lacking.is_empty() {
        return Ok(Change { text: None, dissolved: false });
    }
    let text = written(&manifest, &lacking).filter(|text| is_meant_by(text, &manifest, &lacking, facts));
    Ok(Change { text: Some(text.ok_or(EditError::UnusualEnv)?), dissolved: false })
}

/// The text with the names; none where it is not clear where they go.
fn written(manifest: &Manifest, names: &[&str]) -> Option<String> {
    let text = manifest.source().text();
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let pairs = manifest.root.map().unwrap_or_default();
    let Some((key, value)) = pairs.iter().find(|(key, _)| key.text() == Some("env")) else {
        let end = manifest.front.yaml.end;
        let lead = if end == 0 || text[..end].ends_with('\n') { "" } else { newline };
        return Some(inserted(text, end, &format!("{lead}env: [{}]{newline}", names.join(", "))));
    };
    let flow = text.get(value.span.start..value.span.end)?.starts_with(['[', '{']);
    match &value.kind {
        NodeKind::Null => {
            let at = key.span.end + text[key.span.end..].find(':')? + 1;
            let list = format!(" [{}]", names.join(", "));
            Some(format!("{}{list}{}", &text[..at], &text[at.max(value.span.end)..]))
        }
        NodeKind::List(_) if flow => in_flow(text, value, names, ""),
        NodeKind::Map(_) if flow => in_flow(text, value, names, ": ~"),
        NodeKind::List(items) => {
            let (first, last) = (items.first()?, items.last()?);
            in_lines(manifest, (first.span.start, last.span.end), names, |name| format!("- {name}"))
        }
        NodeKind::Map(pairs) => {
            let (first, last) = (pairs.first()?, pairs.last()?);
            let end = last.0.span.end.max(last.1.span.end);
            in_lines(manifest, (first.0.span.start, end), names, |name| format!("{name}:"))
        }
        NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) => None,
    }
}

fn inserted(text: &str, at: usize, more: &str) -> String {
    format!("{}{more}{}", &text[..at], &text[at..])
}

/// Before the bracket that closes a list or a map.
fn in_flow(text: &str, value: &Node, names: &[&str], after: &str) -> Option<String> {
    let inner = text.get(value.span.start + 1..value.span.end - 1)?.trim_end();
    let separator = match inner.trim_start() {
        "" => "",
        filled if filled.ends_with(',') => " ",
        _ => ", ",
    };
    let more: Vec<String> = names.iter().map(|name| format!("{name}{after}")).collect();
    Some(inserted(text, value.span.start + 1 + inner.len(), &format!("{separator}{}", more.join(", "))))
}

/// On lines of their own after the last, as far to the right as the first.
fn in_lines(
    manifest: &Manifest,
    (first, last): (usize, usize),
    names: &[&str],
    line: impl Fn(&str) -> String,
) -> Option<String> {
    let (source, text) = (manifest.source(), manifest.source().text());
    let (before, start) = source.line_at(first);
    let indent: String = before.chars().take_while(|c| c.is_whitespace()).collect();
    let lead = before.get(indent.len()..first - start)?.trim();
    if !matches!(lead, "" | "-") {
        return None;
    }
    let (ending, start) = source.line_at(last);
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let more: String = names.iter().map(|name| format!("{newline}{indent}{}", line(name))).collect();
    Some(inserted(text, start + ending.len(), &more))
}

fn is_meant_by(text: &str, manifest: &Manifest, names: &[&str], facts: &Facts) -> bool {
    let (read, _) = Manifest::parse(Source::new(manifest.source().name(), text), facts);
    let Some(read) = read else { return false };
    let specs =
        |manifest: &Manifest| -> Vec<Spec> { expand(manifest).into_iter().map(|one| one.spec).collect() };
    let mut wanted = manifest.sections().clone();
    let rule = |name: &&str| EnvRule { name: (*name).to_owned(), inject: None };
    wanted.env.extend(names.iter().map(rule));
    specs(&read) == specs(manifest) && read.body() == manifest.body() && *read.sections() == wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(text: &str) -> Result<Option<String>, EditError> {
        let names = ["PATH".to_owned(), "TERM".to_owned()];
        let name = if text.starts_with("---") { "a.md" } else { "a.yml" };
        pass(&Source::new(name, text), &names, &Facts::new("/home/u")).map(|change| change.text)
    }

    #[test]
    fn names_are_written_beside_those_that_are_there() {
        for (before, after) in [
            ("id: a\n", "id: a\nenv: [PATH, TERM]\n"),
            ("id: a", "id: a\nenv: [PATH, TERM]\n"),
            ("---\nid: a\n---\nbody\n", "---\nid: a\nenv: [PATH, TERM]\n---\nbody\n"),
            ("env:\nid: a\n", "env: [PATH, TERM]\nid: a\n"),
            ("env: ~\nid: a\n", "env: [PATH, TERM]\nid: a\n"),
            ("env: []\n", "env: [PATH, TERM]\n"),
            ("env: [A] # why\nid: a\n", "env: [A, PATH, TERM] # why\nid: a\n"),
            ("env: [A, TERM]\n", "env: [A, TERM, PATH]\n"),
            ("env:\n  - A # why\nid: a\n", "env:\n  - A # why\n  - PATH\n  - TERM\nid: a\n"),
            ("env:\r\n- A\r\nid: a\r\n", "env:\r\n- A\r\n- PATH\r\n- TERM\r\nid: a\r\n"),
            ("env: {A: ~}\n", "env: {A: ~, PATH: ~, TERM: ~}\n"),
            ("env:\n  A:\n  B: ~\nid: a\n", "env:\n  A:\n  B: ~\n  PATH:\n  TERM:\nid: a\n"),
            (
                "env:\n  A:\n    inject: {host: h.example, header: X}\nid: a\n",
                "env:\n  A:\n    inject: {host: h.example, header: X}\n  PATH:\n  TERM:\nid: a\n",
            ),
        ] {
            assert_eq!(passed(before).unwrap().unwrap_or_default(), after, "{before}");
        }
    }

    #[test]
    fn what_is_there_is_left_and_what_is_broken_is_not_edited() {
        assert_eq!(passed("env: [TERM, PATH]\n"), Ok(None));
        assert_eq!(passed("env: {PATH: {inject: {host: h.example, header: X}}, TERM: ~}\n"), Ok(None));
        assert_eq!(passed("env: PATH\n"), Err(EditError::Broken));
    }
}
