//! An agent's record, read.

use super::frontmatter::{FrontMatter, split};
use super::grants::{self, WrittenGrant, WrittenIn};
use super::paths::{RootText, expand_root};
use super::sections::{SECTIONS, Sections};
use super::yaml::{self, Node, NodeKind};
use super::{Facts, load};
use crate::text::{Code, Problem, Severity, Source, Span, closest};

/// The level an agent's `sandbox` sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SandboxKey {
    pub(super) root: RootText,
    /// Whether it is written as a string, which also grants.
    pub(super) grants: bool,
    pub(super) span: Span,
}

/// The `access` shorthand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccessKey {
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) span: Span,
}

/// An agent's record as written: what it says, not yet what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub(super) source: Source,
    pub(super) front: FrontMatter,
    pub(super) root: Node,
    id: String,
    description: Option<String>,
    pub(super) sandbox: Option<SandboxKey>,
    pub(super) access: Option<AccessKey>,
    pub(super) capabilities: Option<Vec<WrittenGrant>>,
    sections: Sections,
}

impl Manifest {
    /// Reads a record. There is none when the text is unreadable or a part that narrows is broken.
    ///
    /// ```
    /// use sbx::{Facts, Manifest, Source};
    /// let text = "---\nid: scout\ncapabilities:\n  - fs.read: {in: ~/work}\n---\n# Scout\n";
    /// let (manifest, problems) = Manifest::parse(Source::new("scout.md", text), &Facts::new("/home/u"));
    /// assert!(problems.is_empty());
    /// assert_eq!(manifest.unwrap().id(), "scout");
    /// ```
    #[must_use]
    pub fn parse(source: Source, facts: &Facts) -> (Option<Self>, Vec<Problem>) {
        let mut problems = Vec::new();
        let manifest = Self::read(source, facts, &mut problems);
        let broken = problems.iter().any(|problem| problem.severity == Severity::Error);
        (manifest.filter(|_| !broken), problems)
    }

    fn read(source: Source, facts: &Facts, problems: &mut Vec<Problem>) -> Option<Self> {
        if source.text().len() > load::MAX_BYTES {
            problems.push(load::too_large(source.text().len() as u64));
            return None;
        }
        let front = split(&source).map_err(|problem| problems.push(*problem)).ok()?;
        let root = yaml::parse(source.slice(front.yaml), front.yaml.start);
        let root = root.map_err(|problem| problems.push(*problem)).ok()?;
        let Some(pairs) = root.map() else {
            problems.push(Problem::error(Code::Yaml, "a record is a map of keys").at(root.span));
            return None;
        };
        let mut manifest = Self {
            id: stem(source.name()),
            front,
            root: Node { kind: NodeKind::Null, span: root.span },
            description: None,
            sandbox: None,
            access: None,
            capabilities: None,
            sections: Sections::default(),
            source,
        };
        for (key, value) in pairs {
            manifest.key(key, value, facts, problems);
        }
        manifest.root = root;
        Some(manifest)
    }

    fn key(&mut self, key: &Node, value: &Node, facts: &Facts, problems: &mut Vec<Problem>) {
        let name = key.text().unwrap_or_default();
        match name {
            "id" => self.read_id(value, problems),
            "class" => check_class(value, problems),
            "description" => self.description = value.text().map(str::to_owned),
            "sandbox" => self.sandbox = sandbox(key, value, facts, problems),
            "access" => self.access = Some(access(key, value, problems)),
            "capabilities" => self.capabilities = Some(grants::parse(value, &self.source, facts, problems)),
            name if SECTIONS.iter().any(|(section, _)| *section == name) => {
                self.sections.read(name, value, problems)
            }
            name => problems.push(ignored(name, key.span)),
        }
    }

    fn read_id(&mut self, value: &Node, problems: &mut Vec<Problem>) {
        match value.text().map(normalize_id).filter(|id| is_agent_id(id)) {
            Some(id) => self.id = id.to_owned(),
            None => problems.push(
                Problem::error(Code::BadSection, "`id` is not an agent's name")
                    .at(value.span)
                    .help("letters, digits, `.`, `_`, `-` and `/`, not starting with a dot"),
            ),
        }
    }

    /// Who it is about, without the `agents/` prefix.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it says of itself.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The text it was read from.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The agent's own level of the hoist chain.
    #[must_use]
    pub fn sandbox(&self) -> Option<(&RootText, Span)> {
        self.sandbox.as_ref().map(|sandbox| (&sandbox.root, sandbox.span))
    }

    /// The entries of `capabilities`; none when the key is absent.
    #[must_use]
    pub fn capabilities(&self) -> Option<&[WrittenGrant]> {
        self.capabilities.as_deref()
    }

    /// The sections sbx owns.
    #[must_use]
    pub fn sections(&self) -> &Sections {
        &self.sections
    }

    /// The Markdown after the front matter.
    #[must_use]
    pub fn body(&self) -> &str {
        self.front.body.map_or("", |start| &self.source.text()[start..])
    }

    /// Whether a default applies: neither `capabilities` nor `access` is written.
    pub(super) fn is_silent(&self) -> bool {
        self.capabilities.is_none() && self.access.is_none()
    }

    /// A grant that stands for a part of the record.
    pub(super) fn implied(spec: crate::capability::Spec, span: Span, origin: WrittenIn) -> WrittenGrant {
        WrittenGrant { spec, span, origin }
    }
}

/// An agent's id without the `agents/` prefix: `scout` and `agents/scout` are the same agent.
#[must_use]
pub fn normalize_id(id: &str) -> &str {
    let id = id.trim().trim_matches('/');
    id.strip_prefix("agents/").unwrap_or(id).trim_matches('/')
}

/// How many bytes an agent's id may have.
pub(crate) const MAX_AGENT_ID: usize = 128;

/// Whether an id is one that an agent can have.
pub(crate) fn is_agent_id(id: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_alphanumeric() || "._-".contains(c))
    };
    id.len() <= MAX_AGENT_ID && id.split('/').all(part)
}

fn stem(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    if is_agent_id(stem) { stem.to_owned() } else { "agent".to_owned() }
}

fn check_class(value: &Node, problems: &mut Vec<Problem>) {
    if value.text() != Some("agent") {
        problems.push(
            Problem::error(Code::NotAgent, "the record's class is not `agent`")
                .at(value.span)
                .help("an agent's record says `class: agent`, or no class at all"),
        );
    }
}

/// A broken `sandbox` would let grants run wider than meant, so it is an error.
fn sandbox(key: &Node, value: &Node, facts: &Facts, problems: &mut Vec<Problem>) -> Option<SandboxKey> {
    let (text, grants) = match &value.kind {
        NodeKind::Text(text) => (Some(text.as_str()), true),
        NodeKind::Map(_) => {
            super::sections::check_keys("sandbox", &["root"], value, problems);
            (value.get("root").and_then(Node::text), false)
        }
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::List(_) => (None, false),
    };
    let root = text.map(|text| expand_root(text, facts)).transpose();
    match root {
        Ok(Some(root)) => Some(SandboxKey { root, grants, span: key.span.to(value.span) }),
        Ok(None) => {
            let problem = Problem::error(Code::BadSection, "`sandbox` is a path, or `{root: path}`");
            problems.push(problem.at(value.span).key("sandbox"));
            None
        }
        Err(problem) => {
            problems.push(
                Problem { severity: Severity::Error, code: Code::BadSection, ..problem }
                    .at(value.span)
                    .key("sandbox"),
            );
            None
        }
    }
}

fn access(key: &Node, value: &Node, problems: &mut Vec<Problem>) -> AccessKey {
    let mode = value.text().unwrap_or_default().trim().to_ascii_lowercase();
    let (read, write) = match mode.as_str() {
        "r" => (true, false),
        "w" => (false, true),
        "rw" => (true, true),
        _ => {
            problems.push(
                Problem::warning(Code::UnknownAccessMode, "`access` is r, w or rw; nothing is granted by it")
                    .at(value.span)
                    .key("access"),
            );
            (false, false)
        }
    };
    AccessKey { read, write, span: key.span.to(value.span) }
}

fn ignored(name: &str, span: Span) -> Problem {
    let known = ["id", "class", "description", "sandbox", "access", "capabilities"];
    let candidates = known.into_iter().chain(SECTIONS.iter().map(|(section, _)| *section));
    Problem::note(Code::IgnoredKey, format!("sbx does not read the key `{name}`"))
        .at(span)
        .key(name)
        .suggest(closest(name, candidates))
}
