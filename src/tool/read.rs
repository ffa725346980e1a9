//! Reads definitions: TOML files, `tools` of a record, maps of commands.
//!
//! Answers for the forms a definition can have and for naming what is wrong by its dotted path. It leaves the
//! keys of one definition to `fields`.
//! Invariant: a definition with a fault yields no tool, and costs no other.

use super::definition::{Layer, Tool};
use super::fields::{Document, read_tool};
use super::problem::{Fault, ToolCode};
use super::toml;
use crate::manifest::{Node, NodeKind, parse_yaml, split};
use crate::text::{Source, Span};

/// What was read from one text.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Definitions {
    /// The tools that are whole.
    pub tools: Vec<Tool>,
    /// What is wrong with the others.
    pub faults: Vec<Fault>,
}

/// Reads a file of definitions: one tool in TOML, or in YAML or JSON one tool, a map of tools, or a record.
#[must_use]
pub fn read_definitions(source: &Source, layer: Layer) -> Definitions {
    let file = source.name();
    let (tree, document) = if file.ends_with(".toml") {
        (toml::parse(source.text()), Document::Toml)
    } else {
        let front = split(source);
        let tree = front.and_then(|front| parse_yaml(source.slice(front.yaml), front.yaml.start));
        (tree, Document::Yaml)
    };
    match tree {
        Ok(tree) => read_tree(&tree, document, layer, source),
        Err(problem) => {
            let span = problem.span.unwrap_or_default();
            let fault = Fault::bad("", span, problem.message);
            Definitions { tools: Vec::new(), faults: vec![fault] }
        }
    }
}

/// Reads the `tools` section of a record.
#[must_use]
pub fn read_section(section: &Node, source: &Source) -> Definitions {
    let mut found = Definitions::default();
    read_map(section, Document::Yaml, Layer::Record, source, None, "", &mut found);
    found
}

/// Reads one definition with a name, as it stands in a map.
#[must_use]
pub fn read_command(name: &str, spec: &Node, layer: Layer, source: &Source) -> Definitions {
    let mut found = Definitions::default();
    add(read_tool(Some((name, spec.span)), spec, Document::Yaml, layer, source, None), "", &mut found);
    found
}

fn read_tree(tree: &Node, document: Document, layer: Layer, source: &Source) -> Definitions {
    let mut found = Definitions::default();
    let single = tree.get("name").is_some() || document == Document::Toml;
    if let Some(section) = tree.get("tools").filter(|section| section.map().is_some()) {
        read_map(section, document, layer, source, None, "tools.", &mut found);
    } else if let Some(allow) = tree.get("allow") {
        read_allow(allow, document, layer, source, "allow.", &mut found);
    } else if single {
        add(read_tool(None, tree, document, layer, source, None), "", &mut found);
    } else {
        read_map(tree, document, layer, source, None, "", &mut found);
    }
    found
}

/// `{commands: {…}, net: […]}`, where `exec` is another word for `commands`.
fn read_allow(
    allow: &Node,
    document: Document,
    layer: Layer,
    source: &Source,
    path: &str,
    found: &mut Definitions,
) {
    let net = allow.get("net");
    for (key, value) in allow.map().unwrap_or_default() {
        match key.text().unwrap_or_default() {
            word @ ("commands" | "exec") => {
                read_map(value, document, layer, source, net, &format!("{path}{word}."), found);
            }
            "net" => {}
            other => {
                let message = format!("`allow` has no key `{other}`; it takes commands, exec and net");
                found.faults.push(Fault::bad(format!("{path}{other}"), key.span, message));
            }
        }
    }
}

/// A map from names to commands.
fn read_map(
    map: &Node,
    document: Document,
    layer: Layer,
    source: &Source,
    net: Option<&Node>,
    path: &str,
    found: &mut Definitions,
) {
    let pairs = match &map.kind {
        NodeKind::Map(pairs) => pairs.as_slice(),
        NodeKind::Null => &[],
        NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) | NodeKind::List(_) => {
            let message = format!("tools are a map from names to commands, not {}", map.describe());
            found.faults.push(Fault::bad(path.trim_end_matches('.'), map.span, message));
            return;
        }
    };
    for (key, spec) in pairs {
        let Some(name) = key.text() else {
            found.faults.push(Fault::bad(path.trim_end_matches('.'), key.span, "a tool's name is a string"));
            continue;
        };
        let nested = spec.map().is_some_and(|inner| {
            !inner.is_empty() && !inner.iter().any(|(key, _)| key.text().is_some_and(is_spec_key))
        });
        match name {
            "allow" if spec.map().is_some() && nested_allow(spec) => {
                read_allow(spec, document, layer, source, &format!("{path}allow."), found);
            }
            "commands" | "exec" if nested && net.is_none() => {
                read_map(spec, document, layer, source, map.get("net"), &format!("{path}{name}."), found);
            }
            "net" if spec.list().is_some() => {}
            _ => {
                let named = Some((name, key.span));
                add(read_tool(named, spec, document, layer, source, net), &format!("{path}{name}."), found);
            }
        }
    }
}

fn nested_allow(spec: &Node) -> bool {
    spec.get("commands").or(spec.get("exec")).is_some()
}

/// Keys that make a map a definition.
fn is_spec_key(key: &str) -> bool {
    matches!(
        key,
        "run" | "kind" | "binary" | "args" | "api" | "persistent" | "params" | "allowed_subcommands"
    )
}

fn add(read: Result<Tool, Vec<Fault>>, path: &str, found: &mut Definitions) {
    match read {
        Ok(tool) if found.tools.iter().any(|known| known.name == tool.name) => {
            let message = format!("the tool `{}` is defined twice here", tool.name);
            found.faults.push(Fault::bad(path.trim_end_matches('.'), Span::default(), message));
        }
        Ok(tool) => found.tools.push(tool),
        Err(faults) => found.faults.extend(faults.into_iter().map(|mut fault| {
            fault.field = match (fault.code, path) {
                (_, "") => fault.field,
                (ToolCode::MissingRun, _) => path.trim_end_matches('.').to_owned(),
                _ => format!("{path}{}", fault.field).trim_end_matches('.').to_owned(),
            };
            fault
        })),
    }
}
