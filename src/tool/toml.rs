//! TOML as the same tree that YAML becomes.
//!
//! The only file that names the TOML crate. Invariant: depth is bounded before the crate sees the text.

use crate::manifest::{Node, NodeKind};
use crate::text::{Code, Problem, Span};
use toml_span::value::{Value, ValueInner};

/// How deep brackets may nest, and how many parts a dotted key may have.
const MAX_DEPTH: usize = 32;

/// Reads a TOML document.
pub(super) fn parse(text: &str) -> Result<Node, Box<Problem>> {
    if let Some(at) = too_deep(text) {
        let problem = Problem::error(Code::BadTool, "this is nested too deeply for a definition");
        return Err(Box::new(problem.at(Span::new(at, at + 1))));
    }
    let value = toml_span::parse(text).map_err(|error| {
        let start = floor(text, error.span.start);
        let end = floor(text, error.span.end).max(start);
        Box::new(
            Problem::error(Code::BadTool, format!("this is not valid TOML: {error}"))
                .at(Span::new(start, end)),
        )
    })?;
    Ok(node(text, value))
}

/// The byte at or before `at` where a character starts.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Where nesting gets too deep; quoted text is passed over line by line, which errs on the strict side.
fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut dots, mut quote) = (0usize, 0usize, None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('\n', _) => (dots, quote) = (0, None),
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth = depth.saturating_sub(1),
            ('.', None) => dots += 1,
            _ => {}
        }
        if depth > MAX_DEPTH || dots > MAX_DEPTH {
            return Some(at);
        }
    }
    None
}

fn node(text: &str, mut value: Value<'_>) -> Node {
    let span = Span::new(floor(text, value.span.start), floor(text, value.span.end));
    let kind = match value.take() {
        ValueInner::String(text) => NodeKind::Text(text.into_owned()),
        ValueInner::Integer(number) => NodeKind::Number(number.to_string()),
        ValueInner::Float(number) => NodeKind::Number(number.to_string()),
        ValueInner::Boolean(truth) => NodeKind::Bool(truth),
        ValueInner::Array(items) => NodeKind::List(items.into_iter().map(|item| node(text, item)).collect()),
        ValueInner::Table(table) => NodeKind::Map(
            table
                .into_iter()
                .map(|(key, value)| {
                    let span = Span::new(floor(text, key.span.start), floor(text, key.span.end));
                    (Node { kind: NodeKind::Text(key.name.into_owned()), span }, node(text, value))
                })
                .collect(),
        ),
    };
    Node { kind, span }
}
