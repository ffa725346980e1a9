//! Skills: what their `allowed-tools` require.

use crate::capability::{Capability, Scope, ScopeKey, Spec};
use crate::manifest::{FrontMatter, Node, parse_yaml, split};
use crate::text::{Code, Problem, Source, Span};

/// A skill and what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// What it says of itself.
    pub description: String,
    /// What its tools require.
    pub requires: Vec<Spec>,
    /// Tools that stand for no capability.
    pub unknown: Vec<String>,
}

impl Skill {
    /// Reads a `SKILL.md`; there is no skill when it is not valid.
    #[must_use]
    pub fn parse(source: &Source) -> (Option<Self>, Vec<Problem>) {
        let mut problems = Vec::new();
        let skill = read(source, &mut problems);
        (skill.filter(|_| problems.is_empty()), problems)
    }
}

fn read(source: &Source, problems: &mut Vec<Problem>) -> Option<Skill> {
    let front = split(source).map_err(|problem| problems.push(*problem)).ok()?;
    let root = parse_yaml(source.slice(front.yaml), front.yaml.start)
        .map_err(|problem| problems.push(*problem))
        .ok()?;
    let text = |key: &str| root.get(key).and_then(Node::text).unwrap_or_default().to_owned();
    let (name, description) = (text("name"), text("description"));
    check(source, front, &root, &name, &description, problems);
    let (requires, unknown) = match root.get("allowed-tools") {
        Some(node) => match node.list() {
            Some(items) => allowed_tools(&items.iter().filter_map(Node::text).collect::<Vec<_>>().join(" ")),
            None => allowed_tools(node.text().unwrap_or_default()),
        },
        None => (Vec::new(), Vec::new()),
    };
    Some(Skill { name, description, requires, unknown })
}

fn check(
    source: &Source,
    front: FrontMatter,
    root: &Node,
    name: &str,
    description: &str,
    problems: &mut Vec<Problem>,
) {
    let place =
        |key: &str| root.get(key).map_or(Span::new(front.yaml.start, front.yaml.start), |node| node.span);
    let mut bad = |key: &str, message: &str| {
        problems.push(Problem::error(Code::BadSection, message).at(place(key)).key(key));
    };
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if name.is_empty()
        || name.len() > 64
        || !plain
        || name.starts_with('-')
        || name.ends_with('-')
        || name.contains("--")
    {
        bad("name", "a skill's name is up to 64 of a-z, 0-9 and single hyphens inside");
    }
    if description.is_empty() || description.chars().count() > 1024 {
        bad("description", "a skill's description has 1 to 1024 characters");
    }
    if root.get("compatibility").and_then(Node::text).is_some_and(|text| text.chars().count() > 500) {
        bad("compatibility", "a skill's compatibility has at most 500 characters");
    }
    if front.body.is_none_or(|start| source.text()[start..].trim().is_empty()) {
        bad("body", "the skill says nothing after its front matter");
    }
}

/// What a list of tools requires, and the tools that stand for no capability.
#[must_use]
pub fn allowed_tools(text: &str) -> (Vec<Spec>, Vec<String>) {
    let mut requires: Vec<Spec> = Vec::new();
    let mut unknown = Vec::new();
    for token in tokens(text) {
        match requirement(token) {
            Some(spec) if requires.contains(&spec) => {}
            Some(spec) => requires.push(spec),
            None => unknown.push(token.to_owned()),
        }
    }
    (requires, unknown)
}

/// Splits at blanks and commas outside parentheses.
fn tokens(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let split = text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c.is_whitespace() || c == ',')
    });
    split.filter(|token| !token.is_empty()).collect()
}

fn requirement(token: &str) -> Option<Spec> {
    let (tool, argument) = match token.split_once('(') {
        Some((tool, rest)) => (tool, Some(rest.strip_suffix(')')?.trim())),
        None => (token, None),
    };
    let argument = argument.filter(|argument| !argument.is_empty());
    let spec = |capability, scope| Some(Spec { capability, scope });
    match tool {
        "Bash" => spec(Capability::ProcExec, command(argument)),
        "Read" | "Grep" | "Glob" | "LS" | "NotebookRead" => spec(Capability::FsRead, paths(argument)),
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => spec(Capability::FsWrite, paths(argument)),
        "WebFetch" => {
            let host = argument.map_or(Some("*"), |argument| argument.strip_prefix("domain:"))?;
            spec(Capability::NetGet, Scope::bare().with_list(ScopeKey::Hosts, [host.trim()]))
        }
        "WebSearch" => spec(Capability::NetGet, Scope::bare().with_list(ScopeKey::Hosts, ["*"])),
        _ => None,
    }
}

/// `x` is a program, `x:*` that program with anything, several words a command line.
fn command(argument: Option<&str>) -> Scope {
    let pattern = |pattern: &str| Scope::bare().with_list(ScopeKey::Patterns, [pattern]);
    match argument {
        None => pattern("*"),
        Some(line) => match line.strip_suffix(":*") {
            Some(prefix) if prefix.contains(char::is_whitespace) => pattern(&format!("{prefix} *")),
            Some(_) => pattern(line),
            None if line.contains(|c: char| c.is_whitespace() || c == '*') => pattern(line),
            None => Scope::bare().with_list(ScopeKey::Cmds, [line]),
        },
    }
}

fn paths(argument: Option<&str>) -> Scope {
    argument.into_iter().fold(Scope::bare(), |scope, path| scope.with_list(ScopeKey::Paths, [path]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requires(text: &str) -> Vec<String> {
        allowed_tools(text).0.iter().map(Spec::to_string).collect()
    }

    #[test]
    fn each_tool_has_its_requirement() {
        assert_eq!(requires("Bash(git:*) Bash(rg)"), ["proc.exec{patterns=[git:*]}", "proc.exec{cmds=[rg]}"]);
        assert_eq!(requires("Bash(git log:*)"), ["proc.exec{patterns=[git log *]}"]);
        assert_eq!(requires("Read, Grep, Glob"), ["fs.read"]);
        assert_eq!(requires("Read(src/**)"), ["fs.read{paths=[src/**]}"]);
        assert_eq!(requires("WebFetch(domain:github.com)"), ["net.get{hosts=[github.com]}"]);
        assert_eq!(requires("WebSearch"), ["net.get{hosts=[*]}"]);
        assert!(requires("").is_empty());
    }

    #[test]
    fn what_stands_for_nothing_is_named() {
        assert_eq!(allowed_tools("Read Frobnicate mcp__x__y").1, ["Frobnicate", "mcp__x__y"]);
    }

    #[test]
    fn a_skill_without_a_body_is_none() {
        let (skill, problems) = Skill::parse(&Source::new("SKILL.md", "---\nname: a\ndescription: b\n---\n"));
        assert!(skill.is_none());
        assert_eq!(problems[0].key.as_deref(), Some("body"));
    }
}
