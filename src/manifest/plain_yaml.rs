//! The YAML that sbx ships, read without a parser of YAML.
//!
//! Answers for block maps and lists, flow maps and lists on one line, and scalars on one line. Reading a hundred
//! kilobytes of rules takes longer than all else before a shell text is run, unless it is done like this.
//! Invariant: what it reads, the whole reader reads the same, but for places; what it does not know, it leaves to that.

use super::yaml::{Node, NodeKind, plain};
use crate::text::Span;

/// Reads a text; none for anything unusual. Nothing in it knows its place.
pub(crate) fn parse(text: &str) -> Option<Node> {
    if text.contains(|c: char| c.is_control() && c != '\n') {
        return None;
    }
    let mut lines = Vec::new();
    for line in text.lines() {
        let content = line.trim_start_matches(' ');
        if !content.is_empty() && !content.starts_with('#') {
            lines.push((line.len() - content.len(), content));
        }
    }
    let mut at = 0;
    let root = block(&lines, &mut at)?;
    (at == lines.len()).then_some(root)
}

type Lines<'t> = [(usize, &'t str)];

fn node(kind: NodeKind) -> Node {
    Node { kind, span: Span::default() }
}

/// The map or list whose first line is next.
fn block(lines: &Lines<'_>, at: &mut usize) -> Option<Node> {
    let (indent, first) = *lines.get(*at)?;
    if first.starts_with("- ") { list(lines, at, indent) } else { map(lines, at, indent, None) }
}

fn list(lines: &Lines<'_>, at: &mut usize, indent: usize) -> Option<Node> {
    let mut items = Vec::new();
    while let Some((_, content)) = lines.get(*at).filter(|(own, _)| *own == indent) {
        let item = content.strip_prefix("- ")?;
        *at += 1;
        items.push(match key(item) {
            // The first pair of a map stands beside the dash, the others below it.
            Some(pair) => map(lines, at, indent + 2, Some(pair))?,
            None => value(item)?,
        });
    }
    // Nothing stands between a list and what it is in.
    let after = lines.get(*at).map_or(0, |(own, _)| *own);
    (after < indent).then(|| node(NodeKind::List(items)))
}

fn map(lines: &Lines<'_>, at: &mut usize, indent: usize, first: Option<(&str, &str)>) -> Option<Node> {
    let mut pairs: Vec<(Node, Node)> = Vec::new();
    let mut next = first;
    loop {
        let (name, rest) = match next.take() {
            Some(pair) => pair,
            None => match lines.get(*at) {
                Some((own, content)) if *own == indent => {
                    *at += 1;
                    key(content)?
                }
                Some((own, _)) if *own > indent => return None,
                _ => return Some(node(NodeKind::Map(pairs))),
            },
        };
        let below = lines.get(*at).is_some_and(|(own, _)| *own > indent);
        let value = match rest {
            "" if below => block(lines, at)?,
            "" => return None,
            rest => value(rest)?,
        };
        let name = node(NodeKind::Text(name.to_owned()));
        if pairs.iter().any(|(known, _)| *known == name) {
            return None;
        }
        pairs.push((name, value));
    }
}

/// A plain key and what follows it on its line.
fn key(content: &str) -> Option<(&str, &str)> {
    let end = content.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))?;
    let (name, rest) = content.split_at(end);
    let rest = rest.strip_prefix(':')?;
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    let plain = starts && !matches!(name, "true" | "false" | "null");
    (plain && (rest.is_empty() || rest.starts_with(' '))).then(|| (name, rest.trim_start()))
}

/// A value that takes the rest of its line.
fn value(text: &str) -> Option<Node> {
    let mut flow = Flow { rest: text.trim_end() };
    match flow.rest.as_bytes().first()? {
        b'{' | b'[' | b'"' | b'\'' => {
            let value = flow.value()?;
            flow.rest.is_empty().then_some(value)
        }
        _ if flow.rest.contains(": ") || flow.rest.contains(" #") || flow.rest.ends_with(':') => None,
        _ => scalar(flow.rest),
    }
}

/// A plain scalar that starts as one may.
fn scalar(text: &str) -> Option<Node> {
    let dash = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    let starts = match text.strip_prefix('-') {
        Some(rest) => dash(rest) && !text.starts_with("---"),
        None => text.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '+')),
    };
    (starts && !text.starts_with("...")).then(|| node(plain(text)))
}

/// What is left of a flow map or list.
struct Flow<'t> {
    rest: &'t str,
}

impl<'t> Flow<'t> {
    fn take(&mut self, c: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(c)?;
        Some(())
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    fn value(&mut self) -> Option<Node> {
        match self.rest.as_bytes().first()? {
            b'{' => self.map(),
            b'[' => self.list(),
            b'"' => self.quoted(),
            b'\'' => {
                let (text, rest) = self.rest[1..].split_once('\'')?;
                self.rest = rest;
                // A doubled quote stands for one; none is shipped.
                (!rest.starts_with('\'')).then(|| node(NodeKind::Text(text.to_owned())))
            }
            _ => scalar(self.word()?),
        }
    }

    /// A plain word of a flow, without the blanks after it.
    fn word(&mut self) -> Option<&'t str> {
        let end = self.rest.find([',', ']', '}', '[', '{', '"', '\'', '#'])?;
        let (word, rest) = self.rest.split_at(end);
        let word = word.trim_end_matches(' ');
        self.rest = rest;
        (!word.contains(": ") && !word.ends_with(':') && rest.starts_with([',', ']', '}'])).then_some(word)
    }

    fn quoted(&mut self) -> Option<Node> {
        self.take('"')?;
        let mut text = String::new();
        loop {
            let end = self.rest.find(['"', '\\'])?;
            text.push_str(&self.rest[..end]);
            let escaped = self.rest[end..].starts_with('\\');
            self.rest = &self.rest[end + 1..];
            if !escaped {
                return Some(node(NodeKind::Text(text)));
            }
            text.push(match self.rest.chars().next()? {
                'n' => '\n',
                't' => '\t',
                c @ ('"' | '\\') => c,
                _ => return None,
            });
            self.rest = &self.rest[1..];
        }
    }

    fn list(&mut self) -> Option<Node> {
        self.take('[')?;
        let mut items = Vec::new();
        loop {
            self.blanks();
            if self.take(']').is_some() {
                return Some(node(NodeKind::List(items)));
            }
            items.push(self.value()?);
            self.blanks();
            if self.take(',').is_none() && !self.rest.starts_with(']') {
                return None;
            }
        }
    }

    fn map(&mut self) -> Option<Node> {
        self.take('{')?;
        let mut pairs: Vec<(Node, Node)> = Vec::new();
        loop {
            self.blanks();
            if self.take('}').is_some() {
                return Some(node(NodeKind::Map(pairs)));
            }
            let (name, rest) = key(self.rest)?;
            self.rest = rest;
            let name = node(NodeKind::Text(name.to_owned()));
            if pairs.iter().any(|(known, _)| *known == name) {
                return None;
            }
            pairs.push((name, self.value()?));
            self.blanks();
            if self.take(',').is_none() && !self.rest.starts_with('}') {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::yaml;
    use proptest::prelude::*;

    /// A tree without places.
    fn bare(node: Node) -> Node {
        let kind = match node.kind {
            NodeKind::List(items) => NodeKind::List(items.into_iter().map(bare).collect()),
            NodeKind::Map(pairs) => {
                NodeKind::Map(pairs.into_iter().map(|(key, value)| (bare(key), bare(value))).collect())
            }
            other => other,
        };
        Node { kind, span: Span::default() }
    }

    #[test]
    fn all_shipped_rules_are_read_and_read_the_same() {
        for (path, text) in crate::profile::RISK_RULES {
            let read = parse(text).unwrap_or_else(|| unreachable!("{path} is not plain"));
            assert_eq!(read, bare(yaml::parse(text, 0).unwrap()), "{path}");
        }
    }

    const PIECES: [&str; 38] = [
        "a: ", "b:", "c: x\n", "- ", "- a: 1\n", "\n", "  ", "    ", "{", "}", "[", "]", ", ", ",", ": ",
        ":", "\"", "'", "x y", "-n", "--", "---", "#", " # c\n", "1.5", "true", "null", "~", "\\\"", "\\n",
        "\\x", "&a ", "*a", "!t ", "|\n", "@", "é", "\t",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_read_the_whole_reader_reads_the_same(
            pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 1..14),
        ) {
            let text = pieces.concat();
            if let Some(read) = parse(&text) {
                let whole = yaml::parse(&text, 0).map(bare);
                prop_assert_eq!(Some(read), whole.ok(), "{:?}", text);
            }
        }
    }
}
