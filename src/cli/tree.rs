//! The tree of authority on a terminal.

use super::Ui;
use crate::policy::Policy;
use crate::report::{Node, authority};
use serde_json::Value;

/// The whole tree, one line a node.
pub(super) fn drawn(ui: &Ui, policy: &Policy) -> String {
    let mut text = String::new();
    draw(ui, &authority(policy), "", true, &mut text);
    text
}

/// The same for machines.
pub(super) fn tree_json(policy: &Policy) -> Value {
    authority(policy).iter().map(Node::to_json).collect()
}

/// Lists of words are drawn in lines of about this length.
const LINE: usize = 72;

fn draw(ui: &Ui, nodes: &[Node], before: &str, branches: bool, text: &mut String) {
    let words;
    let nodes = if branches || !nodes.iter().all(is_word) {
        nodes
    } else {
        words = in_lines(nodes);
        &words
    };
    for (at, node) in nodes.iter().enumerate() {
        let last = at + 1 == nodes.len();
        let (corner, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        text.push_str(&ui.dim(&format!("{before}{corner}")));
        text.push_str(&one(ui, node, branches));
        text.push('\n');
        draw(ui, &node.children, &format!("{before}{below}"), false, text);
    }
}

fn is_word(node: &Node) -> bool {
    node.detail.is_empty() && node.risk.is_none() && node.place.is_none() && node.children.is_empty()
}

fn in_lines(words: &[Node]) -> Vec<Node> {
    let mut lines: Vec<Node> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.label.chars().count() + word.label.chars().count() < LINE => {
                line.label.push_str(", ");
                line.label.push_str(&word.label);
            }
            _ => lines.push(word.clone()),
        }
    }
    lines
}

fn one(ui: &Ui, node: &Node, is_branch: bool) -> String {
    let label = match node.risk {
        Some(risk) if is_branch => ui.by_risk(risk, &node.label),
        _ => node.label.clone(),
    };
    let mut line = label;
    if !node.detail.is_empty() {
        line.push_str(&format!("  {}", ui.dim(&node.detail)));
    }
    if let Some(risk) = node.risk {
        line.push_str(&format!("  {}", ui.by_risk(risk, risk.name())));
    }
    for mark in &node.marks {
        line.push_str(&format!("  ({mark})"));
    }
    if let Some(place) = &node.place {
        line.push_str(&format!("  {}", ui.dim(&format!("{}:{}", place.file, place.line))));
    }
    line
}
