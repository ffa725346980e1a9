//! The section `mcp`, and the allowlist file of the same form.
//!
//! Invariant: all of it narrows, so whatever is wrong in it is an error, and nothing is guessed.

use super::sections::{bad, check_keys};
use super::yaml::{self, Node, NodeKind};
use super::{Facts, load, parse_spec};
use crate::capability::{Capability, Family, NameCase, Spec, ToolPattern, likened};
use crate::text::{Code, Problem, Severity, Source};
use std::fmt;

/// The keys of `mcp`.
pub(crate) const KEYS: &[&str] =
    &["allowed_tools", "case", "actions", "arguments", "pins", "preset", "requires"];
/// The keys of an allowlist file.
const FILE_KEYS: &[&str] = &["allowed_tools", "case", "actions"];

/// What `mcp` says.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Mcp {
    /// Which calls are allowed; none when the layer is off.
    pub allowed_tools: Option<Vec<ToolPattern>>,
    /// Whether names that differ by case are the same.
    pub case: NameCase,
    /// By tool, the argument that names the action.
    pub actions: Vec<(String, String)>,
    /// Which arguments are paths, URLs or commands.
    pub arguments: Vec<ArgumentRule>,
    /// The lock file with the tools' definitions.
    pub pins: Option<String>,
    /// The ready map that applies, by name.
    pub preset: Option<String>,
    /// What the agent must hold before a server is started for it.
    pub requires: Vec<Spec>,
}

/// An argument of a tool that is more than text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentRule {
    /// Which tool.
    pub tool: String,
    /// Which argument.
    pub argument: ArgumentPath,
    /// What the agent must be allowed to do with it: all of these.
    pub capabilities: Vec<Capability>,
}

impl ArgumentRule {
    /// Whether it speaks of a tool. A rule only narrows, so it does of whatever a server could take for its tool.
    #[must_use]
    pub fn is_about(&self, tool: &str) -> bool {
        likened(&self.tool) == likened(tool)
    }
}

/// The way to an argument: `path`, `options.file`, `files[]`, `edits[].path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentPath(pub Vec<Step>);

/// One step to an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(String),
    /// Every item of a list.
    Items,
}

impl ArgumentPath {
    /// Reads the way to an argument; none when it leads nowhere.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        for part in text.split('.') {
            let key = part.trim_end_matches("[]");
            if key.is_empty() || key.contains(['[', ']']) || key.chars().any(char::is_control) {
                return None;
            }
            steps.push(Step::Key(key.to_owned()));
            steps.extend((0..(part.len() - key.len()) / 2).map(|_| Step::Items));
        }
        Some(Self(steps))
    }
}

impl fmt::Display for ArgumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if index == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Items => f.write_str("[]")?,
            }
        }
        Ok(())
    }
}

impl Mcp {
    /// Reads the section of a record.
    pub(super) fn read(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let pairs = node.map().unwrap_or_default();
        let mut section = Self::read_pairs("mcp", pairs, problems);
        if pairs.is_empty() {
            // Present and empty denies all.
            section.allowed_tools.get_or_insert_default();
        }
        section
    }

    /// Reads an allowlist file, in which no list is an empty list.
    #[must_use]
    pub fn parse_allowlist(source: &Source) -> (Option<Self>, Vec<Problem>) {
        if source.text().len() > load::MAX_BYTES {
            return (None, vec![load::too_large(source.text().len() as u64)]);
        }
        let root = match yaml::parse(source.text(), 0) {
            Ok(root) => root,
            Err(problem) => return (None, vec![*problem]),
        };
        let mut problems = Vec::new();
        if root.map().is_none() && root.kind != NodeKind::Null {
            let problem = Problem::error(Code::Yaml, "an allowlist is a map with the key `allowed_tools`");
            return (None, vec![problem.at(root.span)]);
        }
        check_keys("allowlist", FILE_KEYS, &root, &mut problems);
        let mut list = Self::read_pairs("allowlist", root.map().unwrap_or_default(), &mut problems);
        list.allowed_tools.get_or_insert_default();
        let broken = problems.iter().any(|problem| problem.severity == Severity::Error);
        (Some(list).filter(|_| !broken), problems)
    }

    fn read_pairs(section: &str, pairs: &[(Node, Node)], problems: &mut Vec<Problem>) -> Self {
        let mut read = Self::default();
        for (key, value) in pairs {
            match key.text().unwrap_or_default() {
                "allowed_tools" => read.allowed_tools = Some(patterns(section, value, problems)),
                "case" => read.case = case(section, value, problems),
                "actions" => read.actions = actions(section, value, problems),
                "arguments" => read.arguments = arguments(section, value, problems),
                "pins" => read.pins = name(section, "pins", value, problems),
                "preset" => read.preset = name(section, "preset", value, problems),
                "requires" => read.requires = requires(section, value, problems),
                // Told of by whoever checked the keys.
                _ => {}
            }
        }
        read
    }
}

fn patterns(section: &str, node: &Node, problems: &mut Vec<Problem>) -> Vec<ToolPattern> {
    let items = match &node.kind {
        NodeKind::List(items) => items.as_slice(),
        NodeKind::Null => &[],
        NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) | NodeKind::Map(_) => {
            let message = format!("`allowed_tools` is {}, not a list", node.describe());
            problems.push(bad(section, message, node.span));
            &[]
        }
    };
    let mut read = |item: &Node| match item.text().map(ToolPattern::parse) {
        Some(Ok(pattern)) => Some(pattern),
        Some(Err(error)) => {
            let message = format!("`{}` allows nothing: {error}", item.text().unwrap_or_default());
            problems.push(bad(section, message, item.span).key("allowed_tools"));
            None
        }
        None => {
            let message = format!("an entry of `allowed_tools` is {}", item.describe());
            problems.push(bad(section, message, item.span).key("allowed_tools"));
            None
        }
    };
    items.iter().filter_map(&mut read).collect()
}

fn case(section: &str, node: &Node, problems: &mut Vec<Problem>) -> NameCase {
    match node.text() {
        Some("exact") => NameCase::Exact,
        Some("any") => NameCase::Any,
        _ => {
            problems.push(bad(section, "`case` is `any` or `exact`".to_owned(), node.span).key("case"));
            NameCase::Exact
        }
    }
}

fn map<'n>(section: &str, key: &str, node: &'n Node, problems: &mut Vec<Problem>) -> &'n [(Node, Node)] {
    if node.map().is_none() && node.kind != NodeKind::Null {
        let message = format!("`{key}` is {}, not a map by tool", node.describe());
        problems.push(bad(section, message, node.span).key(key));
    }
    node.map().unwrap_or_default()
}

fn actions(section: &str, node: &Node, problems: &mut Vec<Problem>) -> Vec<(String, String)> {
    let mut read = Vec::new();
    for (tool, argument) in map(section, "actions", node, problems) {
        match (tool.text(), argument.text()) {
            (Some(tool), Some(argument)) if !tool.is_empty() && !argument.is_empty() => {
                read.push((tool.to_owned(), argument.to_owned()));
            }
            _ => {
                let message = "`actions` says by tool which argument names the action".to_owned();
                problems.push(bad(section, message, argument.span).key("actions"));
            }
        }
    }
    read
}

fn arguments(section: &str, node: &Node, problems: &mut Vec<Problem>) -> Vec<ArgumentRule> {
    let mut read = Vec::new();
    for (tool, rules) in map(section, "arguments", node, problems) {
        for (argument, wanted) in map(section, "arguments", rules, problems) {
            let path = argument.text().and_then(ArgumentPath::parse);
            let capabilities = capabilities(wanted);
            match (tool.text(), path, capabilities) {
                (Some(tool), Some(argument), Some(capabilities)) => {
                    read.push(ArgumentRule { tool: tool.to_owned(), argument, capabilities });
                }
                _ => {
                    let message = "a rule is `argument: capability`, or a list of capabilities".to_owned();
                    let help =
                        "as in `read_file: {path: fs.read}`; fs, net and proc; `files[]` for each of a list";
                    problems.push(bad(section, message, wanted.span).key("arguments").help(help));
                }
            }
        }
    }
    read
}

/// What a rule asks for; only what is outside of sbx itself can be asked for.
fn capabilities(node: &Node) -> Option<Vec<Capability>> {
    let one = |node: &Node| {
        let capability = Capability::from_name(node.text()?)?;
        matches!(capability.family(), Family::Fs | Family::Net | Family::Proc).then_some(capability)
    };
    match node.list() {
        Some([]) => None,
        Some(items) => items.iter().map(one).collect(),
        None => Some(vec![one(node)?]),
    }
}

fn name(section: &str, key: &str, node: &Node, problems: &mut Vec<Problem>) -> Option<String> {
    let name = node.text().filter(|name| !name.is_empty()).map(str::to_owned);
    if name.is_none() {
        problems
            .push(bad(section, format!("`{key}` is {}, not a name", node.describe()), node.span).key(key));
    }
    name
}

fn requires(section: &str, node: &Node, problems: &mut Vec<Problem>) -> Vec<Spec> {
    let mut read = Vec::new();
    if node.list().is_none() && node.kind != NodeKind::Null {
        problems.push(bad(section, "`requires` is a list of grants".to_owned(), node.span).key("requires"));
    }
    for item in node.list().unwrap_or_default() {
        match item.text().map(|text| parse_spec(text, &Facts::new("/"))) {
            Some(Ok(spec)) => read.push(spec),
            _ => problems.push(
                bad(section, "`requires` holds a grant that is wrong".to_owned(), item.span).key("requires"),
            ),
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowlist(text: &str) -> Result<Mcp, Vec<Problem>> {
        let (list, problems) = Mcp::parse_allowlist(&Source::new("allow.yml", text));
        list.ok_or(problems)
    }

    #[test]
    fn no_list_is_an_empty_list() {
        for text in ["", "# nothing yet\n", "allowed_tools:\n", "allowed_tools: []\n", "case: exact\n"] {
            assert_eq!(allowlist(text).unwrap().allowed_tools, Some(Vec::new()), "{text}");
        }
    }

    #[test]
    fn whatever_is_wrong_refuses_the_whole_list() {
        for text in [
            "allowed_tools: [observe.*, missing_quote",
            "allowed_tools: observe.*",
            "allowed_tools: [\"!x\"]",
            "allowed_tools: [1]",
            "allowed_tools: [a]\nallowed_tools: [b]",
            "allowedtools: [a]",
            "invalid yaml",
            "- a",
            "allowed_tools: [a]\ncase: none",
            "allowed_tools: [a]\nactions: [a]",
        ] {
            assert!(allowlist(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_way_to_an_argument_prints_as_it_was_written() {
        for way in ["path", "options.file", "files[]", "edits[].path", "rows[][].x"] {
            assert_eq!(ArgumentPath::parse(way).unwrap().to_string(), way);
        }
        for odd in ["", ".", "a.", "[]", "a[0]", "a]["] {
            assert_eq!(ArgumentPath::parse(odd), None, "{odd}");
        }
    }
}
