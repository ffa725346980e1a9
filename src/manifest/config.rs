//! The machine's configuration, `~/.config/sbx/config.yml`.

use super::sections::{self, Sections};
use super::yaml::{self, Node};
use super::{Facts, RootText, expand_root};
use crate::profile;
use crate::text::{Code, Problem, Severity, Source, Span, closest};

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
    /// How the audit log is kept.
    pub audit: AuditSettings,
    /// The proxy further out that the network of launches goes through.
    pub proxy: Option<Proxy>,
    /// The built-in tools that are wanted; none for all of them.
    pub builtin_tools: Option<Vec<String>>,
    /// The text it was read from.
    pub source: Option<Source>,
}

/// The keys a configuration takes.
pub(crate) const KEYS: &[&str] =
    &["sandbox", "records", "backend", "accept_degraded", "limits", "audit", "proxy", "builtin_tools"];
/// What `backend` may be.
pub(crate) const BACKENDS: &[&str] = &["auto", "native", "bwrap", "landlock", "seatbelt"];

/// The keys of `audit`.
pub(crate) const AUDIT_KEYS: &[&str] = &["on_failure", "max_size", "keep"];

/// How the audit log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditSettings {
    /// What becomes of a launch that cannot be recorded.
    pub on_failure: OnFailure,
    /// The size in bytes at which a new file is begun.
    pub max_size: u64,
    /// How many full files are kept.
    pub keep: u64,
}

/// What becomes of something that cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// It does not happen.
    Closed,
    /// It happens without a record.
    Open,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self { on_failure: OnFailure::Closed, max_size: 16 << 20, keep: 32 }
    }
}

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
            audit: audit(&root, problems),
            proxy: proxy(&root, problems),
            builtin_tools: builtin_tools(&root, problems),
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

/// A proxy that the caller's own network asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// The ones that `HTTPS_PROXY` and `http_proxy` name, with the exceptions of `NO_PROXY`.
    Environment,
    /// This one.
    Url(String),
}

fn proxy(root: &Node, problems: &mut Vec<Problem>) -> Option<Proxy> {
    let node = root.get("proxy")?;
    match node.text() {
        Some("environment") => Some(Proxy::Environment),
        Some(url) if url.starts_with("http://") => Some(Proxy::Url(url.to_owned())),
        Some(_) | None => {
            let problem = Problem::error(Code::BadSection, "`proxy` is `environment` or `http://host:port`");
            problems.push(problem.at(node.span).key("proxy"));
            None
        }
    }
}

/// Which built-in tools there are for all agents: present and empty, none.
fn builtin_tools(root: &Node, problems: &mut Vec<Problem>) -> Option<Vec<String>> {
    let node = root.get("builtin_tools")?;
    let mut bad = |span: Span, message: String, help: String| {
        problems.push(Problem::error(Code::BadSection, message).at(span).key("builtin_tools").help(help));
    };
    let known = || profile::tool_names().collect::<Vec<_>>().join(", ");
    let Some(items) = node.list() else {
        let message = format!("`builtin_tools` is a list of names, not {}", node.describe());
        bad(node.span, message, "write `[]` for none; without the key there are all".to_owned());
        return None;
    };
    let mut wanted = Vec::new();
    for item in items {
        match item.text().filter(|name| profile::tool_names().any(|known| known == *name)) {
            Some(name) => wanted.push(name.to_owned()),
            None => {
                let given = item.scalar().unwrap_or_else(|| item.describe());
                let help = closest(given, profile::tool_names()).map_or_else(
                    || format!("they are {}", known()),
                    |near| format!("did you mean `{near}`?"),
                );
                bad(item.span, format!("there is no built-in tool `{given}`"), help);
            }
        }
    }
    Some(wanted)
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

fn audit(root: &Node, problems: &mut Vec<Problem>) -> AuditSettings {
    let mut settings = AuditSettings::default();
    let Some(node) = root.get("audit") else { return settings };
    sections::check_keys("audit", AUDIT_KEYS, node, problems);
    for (key, value) in node.map().unwrap_or_default() {
        let name = key.text().unwrap_or_default();
        let text = value.scalar().unwrap_or_default();
        let read = match (name, text) {
            ("on_failure", text) => on_failure(text).map(|chosen| settings.on_failure = chosen),
            ("max_size", text) => sections::size(text).map(|size| settings.max_size = size),
            ("keep", text) => sections::count(text).map(|count| settings.keep = count),
            _ => Some(()),
        };
        if read.is_none() {
            let problem = Problem::error(Code::BadSection, format!("`{name}` does not take `{text}`"));
            let help = "on_failure is `closed` or `open`, max_size a size like `16M`, keep a number above 0";
            problems.push(problem.at(value.span).key("audit").help(help));
        }
    }
    settings
}

fn on_failure(text: &str) -> Option<OnFailure> {
    match text {
        "closed" => Some(OnFailure::Closed),
        "open" => Some(OnFailure::Open),
        _ => None,
    }
}
