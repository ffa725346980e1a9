//! YAML as a tree in which every value knows its place.
//!
//! The only file that names the YAML crate. Strict where YAML is surprising: anchors, aliases, tags,
//! merge keys, duplicate keys, complex keys and several documents are refused, nesting is bounded.
//! Invariant: work and depth are bounded by the size of the text, whatever it contains.

use crate::text::{Code, Problem, Span};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use std::collections::HashSet;

/// How deep lists and maps may nest; a record needs five levels.
const MAX_DEPTH: usize = 32;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Where it stands.
    pub span: Span,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as written.
    Number(String),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the text.
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// The string it is.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Text(text) => Some(text),
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Number(_)
            | NodeKind::List(_)
            | NodeKind::Map(_) => None,
        }
    }

    /// The string or number it is, as written.
    #[must_use]
    pub fn scalar(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Text(text) | NodeKind::Number(text) => Some(text),
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::List(_) | NodeKind::Map(_) => None,
        }
    }

    /// The items of the list it is.
    #[must_use]
    pub fn list(&self) -> Option<&[Self]> {
        match &self.kind {
            NodeKind::List(items) => Some(items),
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Number(_)
            | NodeKind::Text(_)
            | NodeKind::Map(_) => None,
        }
    }

    /// The pairs of the map it is.
    #[must_use]
    pub fn map(&self) -> Option<&[(Self, Self)]> {
        match &self.kind {
            NodeKind::Map(pairs) => Some(pairs),
            NodeKind::Null
            | NodeKind::Bool(_)
            | NodeKind::Number(_)
            | NodeKind::Text(_)
            | NodeKind::List(_) => None,
        }
    }

    /// The value of a key of the map it is.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.map()?.iter().find(|(name, _)| name.text() == Some(key)).map(|(_, value)| value)
    }

    /// What it is, for messages.
    #[must_use]
    pub fn describe(&self) -> &'static str {
        match self.kind {
            NodeKind::Null => "nothing",
            NodeKind::Bool(_) => "true or false (quote it if it is a string)",
            NodeKind::Number(_) => "a number (quote it if it is a string)",
            NodeKind::Text(_) => "a string",
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "a map",
        }
    }
}

/// Reads one YAML document; an empty one is an empty map.
///
/// `base` is where the text starts in its source, so that spans are the source's.
///
/// # Errors
/// The first thing that is not the YAML we take.
pub(crate) fn parse(text: &str, base: usize) -> Result<Node, Box<Problem>> {
    let mut reader =
        Reader { parser: Parser::new_from_str(text).keep_tags(true), offsets: Offsets::new(text, base) };
    reader.document().map_err(Box::new)
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    offsets: Offsets,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Problem> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, self.offsets.span(span))),
            Some(Err(error)) => Err(self.scan_error(&error)),
            None => Ok((Event::StreamEnd, self.offsets.end())),
        }
    }

    fn scan_error(&self, error: &ScanError) -> Problem {
        let at = self.offsets.byte(error.marker().index());
        Problem::error(Code::Yaml, format!("this is not valid YAML: {}", error.info()))
            .at(Span::new(at, at + 1))
    }

    fn document(&mut self) -> Result<Node, Problem> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(_) if root.is_some() => {
                    return Err(refused("there is more than one YAML document", span));
                }
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
                event => root = Some(self.node(event, span, 0)?),
            }
        }
        let empty =
            Node { kind: NodeKind::Map(Vec::new()), span: Span::new(self.offsets.base, self.offsets.base) };
        Ok(match root {
            Some(Node { kind: NodeKind::Null, .. }) | None => empty,
            Some(node) => node,
        })
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Problem> {
        if depth > MAX_DEPTH {
            return Err(refused("lists and maps are nested too deeply", span));
        }
        match event {
            Event::Alias(_) => Err(refused("aliases (`*name`) are not allowed", span)
                .help("a string that starts with `*` must be quoted")),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                Err(refused("anchors (`&name`) are not allowed", span))
            }
            Event::Scalar(.., Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => Err(refused("tags (`!name`) are not allowed", span)
                .help("a string that starts with `!` must be quoted")),
            Event::Scalar(text, style, ..) => {
                Ok(Node { kind: scalar(&text, style), span: self.offsets.trimmed(span) })
            }
            Event::SequenceStart(..) => self.list(span, depth),
            Event::MappingStart(..) => self.map(span, depth),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => Err(refused("this is not valid YAML", span)),
        }
    }

    fn list(&mut self, start: Span, depth: usize) -> Result<Node, Problem> {
        let mut items: Vec<Node> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                let span = self.offsets.closed(start, span, items.last().map(|item| item.span));
                return Ok(Node { kind: NodeKind::List(items), span });
            }
            items.push(self.node(event, span, depth + 1)?);
        }
    }

    fn map(&mut self, start: Span, depth: usize) -> Result<Node, Problem> {
        let mut pairs: Vec<(Node, Node)> = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                let span = self.offsets.closed(start, span, pairs.last().map(|(_, value)| value.span));
                return Ok(Node { kind: NodeKind::Map(pairs), span });
            }
            let key = self.node(event, span, depth + 1)?;
            let name = match &key.kind {
                NodeKind::Text(name) | NodeKind::Number(name) => name,
                NodeKind::Bool(_) | NodeKind::Null | NodeKind::List(_) | NodeKind::Map(_) => {
                    return Err(refused("a key must be a plain string", key.span));
                }
            };
            if name == "<<" {
                return Err(refused("merge keys (`<<`) are not allowed", key.span));
            }
            if is_repeated(name, &pairs, &mut seen) {
                return Err(refused(&format!("`{name}` is written twice"), key.span));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            pairs.push((key, value));
        }
    }
}

/// Whether a map has a key already. Most maps are small and looked through; a large one is hashed.
fn is_repeated(name: &str, pairs: &[(Node, Node)], seen: &mut HashSet<String>) -> bool {
    const SMALL: usize = 16;
    let known = |key: &Node| matches!(&key.kind, NodeKind::Text(key) | NodeKind::Number(key) if key == name);
    if pairs.len() < SMALL {
        return pairs.iter().any(|(key, _)| known(key));
    }
    if seen.is_empty() {
        seen.extend(pairs.iter().filter_map(|(key, _)| match &key.kind {
            NodeKind::Text(key) | NodeKind::Number(key) => Some(key.clone()),
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::List(_) | NodeKind::Map(_) => None,
        }));
    }
    !seen.insert(name.to_owned())
}

fn refused(message: &str, span: Span) -> Problem {
    Problem::error(Code::Yaml, message).at(span)
}

/// A plain scalar by the core schema; anything quoted is a string.
fn scalar(text: &str, style: ScalarStyle) -> NodeKind {
    if style == ScalarStyle::Plain { plain(text) } else { NodeKind::Text(text.to_owned()) }
}

/// What a scalar without quotes is.
pub(super) fn plain(text: &str) -> NodeKind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeKind::Null,
        "true" | "True" | "TRUE" => NodeKind::Bool(true),
        "false" | "False" | "FALSE" => NodeKind::Bool(false),
        text if is_number(text) => NodeKind::Number(text.to_owned()),
        text => NodeKind::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let radix = |prefix: &str, valid: fn(u8) -> bool| {
        text.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(valid))
    };
    starts
        && (text.parse::<f64>().is_ok()
            || radix("0x", |byte| byte.is_ascii_hexdigit())
            || radix("0o", |byte| (b'0'..=b'7').contains(&byte)))
        && text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Turns the parser's character positions into byte offsets of the source.
struct Offsets {
    base: usize,
    length: usize,
    /// Byte offset of each character; empty when every character is one byte.
    bytes: Vec<usize>,
    /// The text's bytes, to find where flow lists and maps end.
    text: Box<[u8]>,
}

impl Offsets {
    fn new(text: &str, base: usize) -> Self {
        let bytes =
            if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(at, _)| at).collect() };
        Self { base, length: text.len(), bytes, text: text.as_bytes().into() }
    }

    fn byte(&self, index: usize) -> usize {
        let offset =
            if self.bytes.is_empty() { index } else { self.bytes.get(index).copied().unwrap_or(self.length) };
        self.base + offset.min(self.length)
    }

    fn span(&self, span: saphyr_parser::Span) -> Span {
        Span::new(self.byte(span.start.index()), self.byte(span.end.index()))
    }

    /// The span without the blanks and comments that the parser counts in after a scalar.
    fn trimmed(&self, span: Span) -> Span {
        let text = &self.text[span.start - self.base..span.end - self.base];
        let length = match text.first() {
            Some(quote @ (b'"' | b'\'')) => after_quote(text, *quote),
            _ => text.trim_ascii_end().len(),
        };
        Span::new(span.start, span.start + length)
    }

    fn end(&self) -> Span {
        Span::new(self.base + self.length, self.base + self.length)
    }

    /// The span of a list or map: a flow one ends with its bracket, a block one with its last value.
    fn closed(&self, start: Span, end: Span, last: Option<Span>) -> Span {
        let flow = self.text.get(start.start - self.base).is_some_and(|byte| matches!(byte, b'[' | b'{'));
        let end = if flow { self.after_bracket(end.start) } else { last.map_or(start.end, |span| span.end) };
        Span::new(start.start, end.max(start.end))
    }

    /// One past the closing bracket at or after an offset.
    fn after_bracket(&self, offset: usize) -> usize {
        let from = offset - self.base;
        let close = self.text[from.min(self.length)..].iter().position(|byte| matches!(byte, b']' | b'}'));
        self.base + close.map_or(self.length, |found| from + found + 1)
    }
}

/// One past the quote that closes a quoted scalar.
fn after_quote(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' if quote == b'"' => at += 2,
            b'\'' if quote == b'\'' && text.get(at + 1) == Some(&b'\'') => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        parse(text, 0).unwrap_err().message
    }

    fn slice<'a>(text: &'a str, node: &Node) -> &'a str {
        &text[node.span.start..node.span.end]
    }

    #[test]
    fn every_value_keeps_its_place() {
        let text = "é: [a, \"b c\" , {d: 1}]\nlist:\n  - x: y\n  - z # note\nend: q\n";
        let root = parse(text, 0).unwrap();
        let flow = root.get("é").unwrap();
        assert_eq!(slice(text, flow), "[a, \"b c\" , {d: 1}]");
        assert_eq!(slice(text, &flow.list().unwrap()[1]), "\"b c\"");
        assert_eq!(slice(text, &flow.list().unwrap()[2]), "{d: 1}");
        let block = root.get("list").unwrap();
        assert_eq!(slice(text, &block.list().unwrap()[0]), "x: y");
        assert_eq!(slice(text, &block.list().unwrap()[1]), "z");
        assert_eq!(slice(text, root.get("end").unwrap()), "q");
    }

    #[test]
    fn a_comment_after_a_quoted_string_is_not_part_of_it() {
        let text = "a: \"x \\\" y\"   # note\nb: 'it''s' # note\n";
        let root = parse(text, 0).unwrap();
        assert_eq!(slice(text, root.get("a").unwrap()), "\"x \\\" y\"");
        assert_eq!(slice(text, root.get("b").unwrap()), "'it''s'");
    }

    #[test]
    fn carriage_returns_do_not_shift_places() {
        let text = "a: 1\r\nb: two\r\nc:\r\n  - three\r\n";
        let root = parse(text, 0).unwrap();
        assert_eq!(slice(text, root.get("b").unwrap()), "two");
        assert_eq!(slice(text, &root.get("c").unwrap().list().unwrap()[0]), "three");
    }

    #[test]
    fn what_surprises_is_refused() {
        assert!(code("a: &x 1\nb: *x\n").contains("anchors"));
        assert!(code("b: *x\n").contains("lias") || code("b: *x\n").contains("anchor"));
        assert!(code("a: !!str 1\n").contains("tags"));
        assert!(code("<<: {a: 1}\n").contains("merge"));
        assert!(code("a: 1\na: 2\n").contains("twice"));
        let many: String = (0..40).map(|number| format!("k{number}: v\n")).collect();
        assert!(code(&format!("{many}k3: v\n")).contains("twice"));
        assert!(code(&format!("{many}k39: v\n")).contains("twice"));
        assert!(code("a: 1\n---\nb: 2\n").contains("more than one"));
        assert!(code("[a]: 1\n").contains("key"));
        assert!(code("a: [1\n").contains("not valid"));
    }

    #[test]
    fn deep_nesting_is_refused_at_once() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(code(&deep).contains("nested") || code(&deep).contains("not valid"));
        assert!(code(&format!("a: {}", "{b: ".repeat(50_000))).contains("nested"));
    }

    #[test]
    fn numbers_and_words_are_told_apart() {
        let kind = |text: &str| parse(&format!("a: {text}\n"), 0).unwrap().get("a").unwrap().kind.clone();
        assert_eq!(kind("no"), NodeKind::Text("no".into()));
        assert_eq!(kind("7z"), NodeKind::Text("7z".into()));
        assert_eq!(kind("1e3"), NodeKind::Number("1e3".into()));
        assert_eq!(kind("0x1f"), NodeKind::Number("0x1f".into()));
        assert_eq!(kind("'42'"), NodeKind::Text("42".into()));
        assert_eq!(kind("10.0.0.1"), NodeKind::Text("10.0.0.1".into()));
        assert_eq!(kind(""), NodeKind::Null);
    }

    #[test]
    fn an_empty_document_is_an_empty_map() {
        assert_eq!(parse("# only a comment\n", 3).unwrap().map().unwrap().len(), 0);
    }
}
