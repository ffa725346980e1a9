//! A rule as data: what it looks for in a command, how bad that is, and what to do instead.
//!
//! Rules are read from YAML: shipped ones from `profiles/risk/`, users' own from their configuration. A rule
//! that does not catch its own examples, or catches what it says it does not, is a problem with a place.

use crate::manifest::{Node, NodeKind, Severity};
use crate::text::{Code, Problem, Span, closest};

/// What a rule's harm can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// One file, branch, table or process.
    Resource,
    /// All of a project.
    Project,
    /// All of a namespace, account or cluster.
    Namespace,
    /// The whole machine.
    Machine,
}

impl Scope {
    /// The name used in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resource => "RESOURCE",
            Self::Project => "PROJECT",
            Self::Namespace => "NAMESPACE",
            Self::Machine => "MACHINE",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Resource, Self::Project, Self::Namespace, Self::Machine]
            .into_iter()
            .find(|scope| scope.name().eq_ignore_ascii_case(name))
    }
}

/// Something safer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alternative {
    /// What to run.
    pub command: String,
    /// Why it is safer.
    pub explanation: Option<String>,
}

/// One rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rule {
    /// `group:name`, or another prefix within a group.
    pub id: String,
    /// The group it belongs to.
    pub group: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it means.
    pub description: String,
    /// What it can reach, and how.
    pub blast: Option<(Scope, String)>,
    /// Something safer.
    pub alternatives: Vec<Alternative>,
    /// Lines that it finds.
    pub matches: Vec<String>,
    /// Lines that look alike and are fine.
    pub no_matches: Vec<String>,
    /// Where it comes from.
    pub origin: Origin,
    pub(super) conditions: Vec<Condition>,
}

/// Who wrote a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It ships with sbx.
    Builtin,
    /// The user.
    User,
    /// The project.
    Project,
}

impl Origin {
    /// The name used in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// What a command must be; every key that is there must hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Condition {
    /// Names without directory; `*` is any run.
    pub(super) program: Vec<String>,
    /// Subcommands, words apart by blanks, `a|b` is either.
    pub(super) sub: Vec<String>,
    /// At least one of these options.
    pub(super) any: Vec<String>,
    /// All of these, each `a|b`.
    pub(super) all: Vec<String>,
    /// None of these.
    pub(super) none: Vec<String>,
    /// Some operand is like one of these.
    pub(super) arg: Vec<String>,
    /// No operand is like any of these.
    pub(super) no_arg: Vec<String>,
    /// The last operand is like one of these.
    pub(super) last: Vec<String>,
    /// Some word is like one of these.
    pub(super) word: Vec<String>,
    /// It runs text that one of these programs prints; `*` is any.
    pub(super) input: Vec<String>,
    /// It reads what one of these programs prints.
    pub(super) after: Vec<String>,
    /// The shell empties and writes such a file for it.
    pub(super) write: Vec<String>,
    /// The shell writes such a file for it, or adds to it.
    pub(super) file: Vec<String>,
    /// The shell reads such a file for it.
    pub(super) read: Vec<String>,
    /// A statement starts like this.
    pub(super) sql: Vec<String>,
    /// And has these words side by side.
    pub(super) has: Vec<String>,
    /// A statement that nothing narrows.
    pub(super) unnarrowed: bool,
    /// A word it is given, a line it reads or a string in either is one of these, in any case of letters.
    pub(super) says: Vec<String>,
    /// Some text it is given or reads contains one of these.
    pub(super) text: Vec<String>,
    /// A program in another language contains one of these.
    pub(super) code: Vec<String>,
    /// And a string like one of these.
    pub(super) literal: Vec<String>,
    /// One of these variables is set for it.
    pub(super) variable: Vec<String>,
    /// The whole text asked about, as a pattern.
    pub(super) line: Vec<String>,
    /// A function that starts itself.
    pub(super) fork_bomb: bool,
    /// It has no operand.
    pub(super) bare: bool,
    /// It prints nothing.
    pub(super) silent: bool,
    /// With `input`: it was fetched into a file first.
    pub(super) fetched: bool,
    /// What feeds it reads keys, passwords or the environment.
    pub(super) secret: bool,
    /// One of these starts it.
    pub(super) via: Vec<String>,
    /// Its program is not known before it runs.
    pub(super) dynamic: bool,
}

const FILE_KEYS: &[&str] = &["group", "rules"];
const RULE_KEYS: &[&str] = &["id", "severity", "about", "blast", "when", "instead", "match", "no_match"];
const CONDITION_KEYS: &[&str] = &[
    "program",
    "sub",
    "any",
    "all",
    "none",
    "arg",
    "no_arg",
    "last",
    "word",
    "input",
    "after",
    "write",
    "file",
    "read",
    "sql",
    "has",
    "unnarrowed",
    "says",
    "text",
    "code",
    "literal",
    "variable",
    "line",
    "fork_bomb",
    "bare",
    "silent",
    "fetched",
    "secret",
    "via",
    "dynamic",
];

/// Reads the rules of a file's top node.
pub(super) fn read(root: &Node, origin: Origin, problems: &mut Vec<Problem>) -> Vec<Rule> {
    check_keys("a rule file", FILE_KEYS, root, problems);
    let group = root.get("group").and_then(Node::text);
    if group.is_none() {
        problems.push(bad("a rule file names its `group`", root.span));
    }
    let Some(items) = root.get("rules").and_then(Node::list) else {
        problems.push(bad("a rule file has a list of `rules`", root.span));
        return Vec::new();
    };
    let read =
        |item: &Node| Reader { node: item, problems: &mut *problems }.rule(group.unwrap_or("custom"), origin);
    items.iter().filter_map(read).collect()
}

pub(super) fn bad(message: impl Into<String>, span: Span) -> Problem {
    Problem::error(Code::BadSection, message).at(span).key("risk")
}

pub(super) fn check_keys(what: &str, keys: &[&str], node: &Node, problems: &mut Vec<Problem>) {
    let Some(pairs) = node.map() else {
        problems.push(bad(format!("{what} is a map, not {}", node.describe()), node.span));
        return;
    };
    for (key, _) in pairs {
        let name = key.text().unwrap_or_default();
        if !keys.contains(&name) {
            let problem = Problem::error(Code::UnknownKey, format!("{what} has no key `{name}`"))
                .at(key.span)
                .key(name);
            problems.push(
                problem
                    .suggest(closest(name, keys.iter().copied()))
                    .help(format!("it takes {}", keys.join(", "))),
            );
        }
    }
}

struct Reader<'a> {
    node: &'a Node,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn rule(mut self, group: &str, origin: Origin) -> Option<Rule> {
        check_keys("a rule", RULE_KEYS, self.node, self.problems);
        let id = self.text("id")?;
        let valid = id.split_once(':').is_some_and(|(prefix, name)| is_name(prefix) && is_name(name));
        if !valid {
            self.problems.push(bad(format!("`{id}` is not written `group:name`"), self.node.span));
            return None;
        }
        let severity = self.text("severity")?;
        let Some(severity) = Severity::from_name(&severity) else {
            self.problems.push(bad(
                format!("`{severity}` is no severity: info, low, medium, high, critical"),
                self.node.span,
            ));
            return None;
        };
        let conditions = self.conditions()?;
        let description = self.text("about")?;
        let blast = self.blast();
        Some(Rule {
            group: group.to_owned(),
            severity,
            description,
            blast,
            alternatives: self.alternatives(),
            matches: self.texts(self.node, "match"),
            no_matches: self.texts(self.node, "no_match"),
            origin,
            conditions,
            id,
        })
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let text = self.node.get(key).and_then(Node::text).filter(|text| !text.is_empty()).map(str::to_owned);
        if text.is_none() {
            self.problems.push(bad(format!("a rule needs `{key}`, a text"), self.node.span));
        }
        text
    }

    fn texts(&mut self, node: &Node, key: &str) -> Vec<String> {
        let Some(value) = node.get(key) else { return Vec::new() };
        let scalar = |node: &Node| match &node.kind {
            NodeKind::Text(text) | NodeKind::Number(text) => Some(text.clone()),
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::List(_) | NodeKind::Map(_) => None,
        };
        let texts = match value.list() {
            Some(items) => items.iter().map(scalar).collect::<Option<Vec<String>>>(),
            None => scalar(value).map(|text| vec![text]),
        };
        let texts = texts.filter(|texts| !texts.is_empty() && texts.iter().all(|text| !text.is_empty()));
        texts.unwrap_or_else(|| {
            self.problems.push(bad(format!("`{key}` is a text or a list of texts"), value.span));
            Vec::new()
        })
    }

    fn flag(&mut self, node: &Node, key: &str) -> bool {
        match node.get(key).map(|value| &value.kind) {
            None => false,
            Some(NodeKind::Bool(value)) => *value,
            Some(_) => {
                self.problems.push(bad(format!("`{key}` is true or false"), node.span));
                false
            }
        }
    }

    fn blast(&mut self) -> Option<(Scope, String)> {
        let node = self.node.get("blast")?;
        let read = node.text().and_then(|text| text.split_once(": "));
        let read = read.and_then(|(scope, detail)| Some((Scope::from_name(scope)?, detail.to_owned())));
        if read.is_none() {
            self.problems.push(bad(
                "`blast` is written `\"resource|project|namespace|machine: what it reaches\"`",
                node.span,
            ));
        }
        read
    }

    fn alternatives(&mut self) -> Vec<Alternative> {
        let Some(node) = self.node.get("instead") else { return Vec::new() };
        let items = node.list().unwrap_or(std::slice::from_ref(node));
        let mut alternatives = Vec::new();
        for item in items {
            let command = item.text().or_else(|| item.get("run").and_then(Node::text));
            match command {
                Some(command) => alternatives.push(Alternative {
                    command: command.to_owned(),
                    explanation: item.get("why").and_then(Node::text).map(str::to_owned),
                }),
                None => self.problems.push(bad("`instead` is a command, or `{run: …, why: …}`", item.span)),
            }
        }
        alternatives
    }

    fn conditions(&mut self) -> Option<Vec<Condition>> {
        let Some(node) = self.node.get("when") else {
            self.problems.push(bad("a rule needs `when`", self.node.span));
            return None;
        };
        let items = node.list().unwrap_or(std::slice::from_ref(node));
        let conditions: Vec<Condition> = items.iter().map(|item| self.condition(item)).collect();
        if conditions.iter().any(Condition::is_empty) {
            self.problems.push(bad("`when` says nothing about the command", node.span));
            return None;
        }
        Some(conditions)
    }

    fn condition(&mut self, node: &Node) -> Condition {
        check_keys("`when`", CONDITION_KEYS, node, self.problems);
        Condition {
            program: self.texts(node, "program"),
            sub: self.texts(node, "sub"),
            any: self.texts(node, "any"),
            all: self.texts(node, "all"),
            none: self.texts(node, "none"),
            arg: self.texts(node, "arg"),
            no_arg: self.texts(node, "no_arg"),
            last: self.texts(node, "last"),
            word: self.texts(node, "word"),
            input: self.texts(node, "input"),
            after: self.texts(node, "after"),
            write: self.texts(node, "write"),
            file: self.texts(node, "file"),
            read: self.texts(node, "read"),
            sql: self.texts(node, "sql"),
            has: self.texts(node, "has"),
            unnarrowed: self.flag(node, "unnarrowed"),
            says: self.texts(node, "says"),
            text: self.texts(node, "text"),
            code: self.texts(node, "code"),
            literal: self.texts(node, "literal"),
            variable: self.texts(node, "variable"),
            line: self.texts(node, "line"),
            fork_bomb: self.flag(node, "fork_bomb"),
            bare: self.flag(node, "bare"),
            silent: self.flag(node, "silent"),
            fetched: self.flag(node, "fetched"),
            secret: self.flag(node, "secret"),
            via: self.texts(node, "via"),
            dynamic: self.flag(node, "dynamic"),
        }
    }
}

impl Condition {
    /// Whether it would hold for any command whatever.
    fn is_empty(&self) -> bool {
        let lists = [
            &self.program,
            &self.arg,
            &self.last,
            &self.word,
            &self.input,
            &self.after,
            &self.write,
            &self.file,
            &self.read,
            &self.sql,
            &self.says,
            &self.text,
            &self.code,
            &self.variable,
            &self.line,
        ];
        lists.iter().all(|list| list.is_empty()) && !self.fork_bomb && !self.dynamic
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}
