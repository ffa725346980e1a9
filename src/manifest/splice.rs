//! How a record's text changes: entry by entry where they stand, or the list written anew.
//!
//! Comments, key order and the Markdown body stay byte for byte. Nothing here is trusted to be
//! right: `edit` reads the result back.

use super::Manifest;
use super::render::{block_lines, entry};
use super::yaml::{Node, NodeKind};
use crate::capability::Spec;
use crate::text::{Source, Span};
use std::ops::Range;

/// What becomes of an entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Kept,
    Replaced(Spec),
    Removed,
}

/// A change of `capabilities`, in which shorthands go.
pub(super) struct Splice<'a> {
    pub(super) manifest: &'a Manifest,
    /// Written before the list's own entries.
    pub(super) before: &'a [Spec],
    /// What becomes of each entry.
    pub(super) entries: Vec<Entry>,
    /// What is left of the list's grants.
    pub(super) left: &'a [Option<Spec>],
    /// Written after them.
    pub(super) after: Option<&'a Spec>,
}

/// Replacements of byte ranges, applied last first so that offsets stay right.
struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    fn apply(mut self, source: &Source) -> String {
        self.0.sort_by_key(|(range, _)| (range.start, range.end));
        let mut text = source.text().to_owned();
        for (range, with) in self.0.into_iter().rev() {
            text.replace_range(range, &with);
        }
        text
    }
}

impl<'a> Splice<'a> {
    /// The entries of the list, whatever they hold.
    pub(super) fn items(manifest: &Manifest) -> &[Node] {
        let value = pair(manifest).map(|(_, value)| value);
        value.and_then(Node::list).unwrap_or_default()
    }

    fn source(&self) -> &'a Source {
        self.manifest.source()
    }

    fn newline(&self) -> &'static str {
        if self.source().text().contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// Changes the list where it stands; none when it has no entry to stand by, or is written unusually.
    pub(super) fn in_place(&self) -> Option<String> {
        let (_, value) = pair(self.manifest)?;
        let items = value.list().filter(|items| !items.is_empty())?;
        if self.entries.iter().all(|entry| *entry == Entry::Removed)
            && self.before.is_empty()
            && self.after.is_none()
        {
            return None;
        }
        let mut edits = Edits(self.dropped_shorthands(None));
        if self.source().slice(value.span).starts_with('[') {
            self.flow(value, items, &mut edits)?;
        } else {
            self.block(items, &mut edits)?;
        }
        Some(edits.apply(self.source()))
    }

    fn block(&self, items: &[Node], edits: &mut Edits) -> Option<()> {
        let (first, last) = (items.first()?, items.last()?);
        let indent = self.indent_of(first)?;
        let newline = self.newline();
        let start = self.source().line_at(first.span.start).1;
        for spec in self.before {
            edits.0.push((start..start, format!("{indent}- {}{newline}", entry(spec))));
        }
        for (item, fate) in items.iter().zip(&self.entries) {
            match fate {
                Entry::Kept => {}
                Entry::Replaced(spec) => edits.0.push((item.span.start..item.span.end, entry(spec))),
                Entry::Removed => edits.0.push((self.whole_lines(item.span), String::new())),
            }
        }
        if let Some(spec) = self.after {
            let end = self.line_end(last.span.end);
            edits.0.push((end..end, format!("{newline}{indent}- {}", entry(spec))));
        }
        Some(())
    }

    /// A flow list can be added to and its entries replaced; removing is left to writing it anew.
    fn flow(&self, value: &Node, items: &[Node], edits: &mut Edits) -> Option<()> {
        if self.entries.contains(&Entry::Removed) || !self.before.is_empty() {
            return None;
        }
        for (item, fate) in items.iter().zip(&self.entries) {
            if let Entry::Replaced(spec) = fate {
                edits.0.push((item.span.start..item.span.end, flow_entry(spec)));
            }
        }
        if let Some(spec) = self.after {
            let inner = self.source().slice(Span::new(value.span.start + 1, value.span.end - 1)).trim_end();
            let separator = if inner.ends_with(',') { " " } else { ", " };
            let at = value.span.start + 1 + inner.len();
            edits.0.push((at..at, format!("{separator}{}", flow_entry(spec))));
        }
        Some(())
    }

    /// Writes the list anew, one entry a line; entries that hold no grant keep their words.
    pub(super) fn anew(&self) -> String {
        let source = self.source();
        let items = Self::items(self.manifest);
        let mut lines: Vec<String> = self.before.iter().map(entry).collect();
        for (item, fate) in items.iter().zip(&self.entries) {
            match fate {
                Entry::Kept => lines.push(source.slice(item.span).to_owned()),
                Entry::Replaced(spec) => lines.push(entry(spec)),
                Entry::Removed => {}
            }
        }
        // A list written as one string has no entries of its own.
        if items.is_empty() {
            lines.extend(self.left.iter().flatten().map(entry));
        }
        lines.extend(self.after.map(entry));
        let list = block_lines(&lines, self.newline());
        self.place(&list)
    }

    /// Puts the list in the place of the old one, of the last shorthand, or at the end.
    fn place(&self, list: &str) -> String {
        let source = self.source();
        if let Some((key, value)) = pair(self.manifest) {
            let mut edits = Edits(self.dropped_shorthands(None));
            let unwritten = value.span.start >= value.span.end;
            let end = if unwritten { self.after_colon(key) } else { value.span.end };
            edits.0.push((key.span.start..end, list.to_owned()));
            return edits.apply(source);
        }
        let shorthand = self.shorthands().next_back();
        let mut edits = Edits(self.dropped_shorthands(shorthand));
        match shorthand {
            Some(span) => edits.0.push((span.start..span.end, list.to_owned())),
            None => {
                let end = self.manifest.front.yaml.end;
                let starts_line = end == 0 || source.text()[..end].ends_with('\n');
                let lead = if starts_line { "" } else { self.newline() };
                edits.0.push((end..end, format!("{lead}{list}{}", self.newline())));
            }
        }
        edits.apply(source)
    }

    /// Where the shorthands stand that are spelled out.
    fn shorthands(&self) -> impl DoubleEndedIterator<Item = Span> {
        let pairs = self.manifest.root.map().unwrap_or_default().iter();
        pairs
            .filter(|(key, value)| match key.text() {
                Some("access") => true,
                Some("sandbox") => matches!(value.kind, NodeKind::Text(_)),
                _ => false,
            })
            .map(|(key, value)| key.span.to(value.span))
    }

    fn dropped_shorthands(&self, but: Option<Span>) -> Vec<(Range<usize>, String)> {
        self.shorthands()
            .filter(|span| Some(*span) != but)
            .map(|span| (self.whole_lines(span), String::new()))
            .collect()
    }

    /// What stands before the dash of a block list's entry.
    fn indent_of(&self, item: &Node) -> Option<String> {
        let (line, start) = self.source().line_at(item.span.start);
        let before = line.get(..item.span.start - start)?;
        let dash = before.rfind('-')?;
        before[..dash].trim().is_empty().then(|| before[..dash].to_owned())
    }

    /// The end of the line at an offset, its line end not included.
    fn line_end(&self, offset: usize) -> usize {
        let (line, start) = self.source().line_at(offset);
        start + line.len()
    }

    /// The lines something stands on, with the end of the last.
    fn whole_lines(&self, span: Span) -> Range<usize> {
        let start = self.source().line_at(span.start).1;
        let end = self.line_end(span.end);
        let newline = self.source().text()[end..].find('\n').map_or(0, |at| at + 1);
        start..end + newline
    }

    /// One past the colon of a key without a value.
    fn after_colon(&self, key: &Node) -> usize {
        let rest = &self.source().text()[key.span.end..];
        key.span.end + rest.find(':').map_or(0, |at| at + 1)
    }
}

fn pair(manifest: &Manifest) -> Option<&(Node, Node)> {
    manifest.root.map()?.iter().find(|(key, _)| key.text() == Some("capabilities"))
}

fn flow_entry(spec: &Spec) -> String {
    if spec.scope.is_bare() { entry(spec) } else { format!("{{{}}}", entry(spec)) }
}
