//! The machine's configuration, `~/.config/sbx/config.yml`.

use super::sections::{self, Sections};
use super::yaml::{self, Node};
use super::{Facts, RootText, expand_root};
use crate::text::{Code, Problem, Severity, Source, Span};

/// What the user of this machine decided for all agents.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The outermost root: no agent reaches outside it.
    pub sandbox: Option<(RootText, Span)>,
    /// Where records are kept.
    pub records: Option<RootText>,
    /// Which backend to use, when not the strongest.
    pub backend: Option<String>,
    /// Guarantees the user can do without, for every agent.
    pub accept_degraded: Vec<String>,
    /// Limits for agents that set none.
    pub limits: sections::Limits,
    /// The text it was read from.
    pub source: Option<Source>,
}

/// The keys a configuration takes.
pub(crate) const KEYS: &[&str] = &["sandbox", "records", "backend", "accept_degraded", "limits"];
/// What `backend` may be.
pub(crate) const BACKENDS: &[&str] = &["auto", "native", "bwrap", "landlock", "seatbelt"];

impl Config {
    /// Reads a configuration; there is none when anything in it is wrong, because it only narrows.
    #[must_use]
    pub fn parse(source: Source, facts: &Facts) -> (Option<Self>, Vec<Problem>) {
        let mut problems = Vec::new();
        let config = Self::read(source, facts, &mut problems);
        let broken = problems.iter().any(|problem| problem.severity == Severity::Error);
        (config.filter(|_| !broken), problems)
    }

    fn read(source: Source, facts: &Facts, problems: &mut Vec<Problem>) -> Option<Self> {
        let text = source.text();
        let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let root = yaml::parse(&text[start..], start).map_err(|problem| problems.push(*problem)).ok()?;
        sections::check_keys("config", KEYS, &root, problems);
        let mut sections = Sections::default();
        for name in ["accept_degraded", "limits"] {
            if let Some(node) = root.get(name) {
                sections.read(name, node, problems);
            }
        }
        Some(Self {
            sandbox: place("sandbox", &root, facts, problems),
            records: place("records", &root, facts, problems).map(|(root, _)| root),
            backend: backend(&root, problems),
            accept_degraded: sections.accept_degraded,
            limits: sections.limits,
            source: Some(source),
        })
    }
}

fn place(key: &str, root: &Node, facts: &Facts, problems: &mut Vec<Problem>) -> Option<(RootText, Span)> {
    let node = root.get(key)?;
    let placed = match node.text() {
        Some(text) => expand_root(text, facts),
        None => Err(Problem::error(Code::BadSection, format!("`{key}` is a path, not {}", node.describe()))),
    };
    match placed {
        Ok(root) => Some((root, node.span)),
        Err(problem) => {
            let problem = Problem { severity: Severity::Error, code: Code::BadSection, ..problem };
            problems.push(problem.at(node.span).key(key));
            None
        }
    }
}

fn backend(root: &Node, problems: &mut Vec<Problem>) -> Option<String> {
    let node = root.get("backend")?;
    let name = node.text().filter(|name| BACKENDS.contains(name));
    if name.is_none() {
        let problem =
            Problem::error(Code::BadSection, format!("`backend` is one of {}", BACKENDS.join(", ")));
        problems.push(problem.at(node.span).key("backend"));
    }
    name.map(str::to_owned)
}
