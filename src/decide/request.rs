//! What is asked.

use crate::capability::{Capability, HostError, Method, Target};
use crate::manifest::normalize_id;
use crate::policy::Proposal;
use crate::profile::verb_of;
use sbx_platform::path::normalize;
use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A question for [`decide`](super::decide).
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) capability: Capability,
    pub(super) subject: Subject,
    pub(super) tool: Option<String>,
}

/// What a request is about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Subject {
    /// A record.
    Record {
        /// Its id.
        id: Option<String>,
        /// Its class.
        class: Option<String>,
    },
    /// Another agent.
    Agent {
        /// Which, without `agents/`.
        id: String,
        /// What it is to hold; none when no authority is written.
        proposal: Option<Proposal>,
    },
    /// A file or directory.
    Path {
        /// As asked for, made absolute.
        asked: PathBuf,
        /// What it is once links are followed.
        target: PathBuf,
    },
    /// A host.
    Host {
        /// Where to; or why that cannot be said.
        target: Result<Target, HostError>,
        /// The address it resolved to, once known.
        address: Option<IpAddr>,
        /// The method, when no verb allows it.
        refused_method: Option<String>,
    },
    /// A command.
    Command {
        /// The program and its arguments.
        argv: Vec<OsString>,
        /// Where it would run.
        cwd: Option<PathBuf>,
        /// The file that the program's name was found to be.
        file: Option<PathBuf>,
    },
    /// Shell text.
    Shell {
        /// The text.
        text: String,
        /// Its `$1`, `$2` and so on, for a plain `sh`; none for the user's own shell text.
        arguments: Option<Vec<OsString>>,
        /// Where it would run.
        cwd: Option<PathBuf>,
    },
}

/// Why something cannot be asked at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// There is no command.
    #[error("the command is empty")]
    EmptyCommand,
    /// It is not a request.
    #[error("{0}")]
    Shape(String),
    /// A key is not one of a request's.
    #[error("a request has no key `{0}`")]
    Key(String),
    /// A key is missing.
    #[error("the request lacks `{0}`")]
    Missing(&'static str),
    /// A value is of the wrong kind.
    #[error("`{0}` is not {1}")]
    Kind(&'static str, &'static str),
    /// There is no such capability.
    #[error("there is no capability `{name}`{}", suggestion.map(|s| format!("; did you mean `{s}`?")).unwrap_or_default())]
    Capability {
        /// What was written.
        name: String,
        /// What is near.
        suggestion: Option<&'static str>,
    },
    /// A grant in `granted` is wrong.
    #[error("`granted` holds a grant that is wrong: {}", .0.join("; "))]
    Grant(Vec<String>),
}

impl AskError {
    /// The stable name.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::EmptyCommand => "empty_command",
            Self::Shape(_)
            | Self::Key(_)
            | Self::Missing(_)
            | Self::Kind(..)
            | Self::Capability { .. }
            | Self::Grant(_) => "bad_request",
        }
    }

    pub(super) fn shape(message: &str) -> Self {
        Self::Shape(message.to_owned())
    }
}

impl Request {
    fn new(capability: Capability, subject: Subject) -> Self {
        Self { capability, subject, tool: None }
    }

    /// May a file be read, written or deleted? The path is taken as it stands, without links.
    #[must_use]
    pub fn path(capability: Capability, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_path_buf();
        Self::resolved_path(capability, path.clone(), path)
    }

    /// The same, with what the path turned out to be once links were followed.
    #[must_use]
    pub fn resolved_path(capability: Capability, asked: PathBuf, target: PathBuf) -> Self {
        // A `..` that is left would be compared as a name, and lead out of any root.
        let [asked, target] = [normalize(&asked), normalize(&target)];
        Self::new(capability, Subject::Path { asked, target })
    }

    /// May an HTTP method be used on a URL? A URL without a proper host is denied, not an error.
    #[must_use]
    pub fn url(method: &str, url: &str) -> Self {
        Self::http(method, path_of(url), Target::from_url(url))
    }

    /// May an HTTP method be used on a path of a host? Some paths say more of what is done than the method does.
    #[must_use]
    pub fn http(method: &str, path: &str, target: Result<Target, HostError>) -> Self {
        match verb_of(method, path) {
            None => Self::net(method, target),
            Some(verb) => Self::target(verb, target),
        }
    }

    /// May an HTTP method be used on a host?
    #[must_use]
    pub fn net(method: &str, target: Result<Target, HostError>) -> Self {
        let verb = Method::from_token(method);
        let capability = verb.map_or(Capability::NetGet, Method::capability);
        let refused_method = verb.is_none().then(|| method.to_owned());
        Self::new(capability, Subject::Host { target, address: None, refused_method })
    }

    /// May a verb be used on `host` or `host:port`?
    #[must_use]
    pub fn host(capability: Capability, host: &str) -> Self {
        Self::target(capability, Target::parse(host))
    }

    /// May a verb be used on a target?
    #[must_use]
    pub fn target(capability: Capability, target: Result<Target, HostError>) -> Self {
        Self::new(capability, Subject::Host { target, address: None, refused_method: None })
    }

    /// May a program be run?
    #[must_use]
    pub fn exec<A: Into<OsString>>(argv: impl IntoIterator<Item = A>) -> Self {
        let argv: Vec<OsString> = argv.into_iter().map(Into::into).collect();
        let file = argv.first().map(Path::new).filter(|program| program.is_absolute()).map(normalize);
        Self::new(Capability::ProcExec, Subject::Command { argv, cwd: None, file })
    }

    /// May shell text be run?
    ///
    /// # Errors
    /// When there is no text.
    pub fn eval(text: impl Into<String>) -> Result<Self, AskError> {
        let text = text.into();
        if text.trim().is_empty() {
            return Err(AskError::EmptyCommand);
        }
        Ok(Self::new(Capability::ProcEval, Subject::Shell { text, arguments: None, cwd: None }))
    }

    /// The same request, the text being run by a plain `sh` with positional parameters.
    #[must_use]
    pub fn with_arguments(mut self, values: Vec<OsString>) -> Self {
        if let Subject::Shell { arguments, .. } = &mut self.subject {
            *arguments = Some(values);
        }
        self
    }

    /// May a record be read, created, changed or deleted? An agent's record needs `agent.*`.
    #[must_use]
    pub fn record(capability: Capability, id: Option<&str>, class: Option<&str>) -> Self {
        let id = id.map(record_id);
        let id = id.as_deref();
        let about_agent = class == Some("agent") || id.is_some_and(|id| id.starts_with("agents/"));
        let as_agent = match capability {
            Capability::RecordsCreate => Some(Capability::AgentCreate),
            Capability::RecordsUpdate => Some(Capability::AgentUpdate),
            Capability::RecordsDelete => Some(Capability::AgentDelete),
            _ => None,
        };
        if let Some(capability) = as_agent.filter(|_| about_agent) {
            return Self::agent(capability, id.unwrap_or_default());
        }
        let subject = Subject::Record { id: id.map(str::to_owned), class: class.map(str::to_owned) };
        Self::new(capability, subject)
    }

    /// May another agent be created, changed, deleted or granted authority?
    #[must_use]
    pub fn agent(capability: Capability, id: &str) -> Self {
        Self::new(capability, Subject::Agent { id: normalize_id(id).to_owned(), proposal: None })
    }

    /// The same request, writing authority into the other agent's record.
    #[must_use]
    pub fn proposing(mut self, proposal: Proposal) -> Self {
        if let Subject::Agent { proposal: slot, .. } = &mut self.subject {
            *slot = Some(proposal);
        }
        self
    }

    /// The same request, run in a directory.
    #[must_use]
    pub fn in_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        let dir = normalize(&dir.into());
        match &mut self.subject {
            Subject::Command { argv, cwd, file } => {
                let program = argv.first().filter(|program| program.as_encoded_bytes().contains(&b'/'));
                if let Some(program) = program {
                    *file = Some(normalize(&dir.join(program)));
                }
                *cwd = Some(dir);
            }
            Subject::Shell { cwd, .. } => *cwd = Some(dir),
            Subject::Record { .. } | Subject::Agent { .. } | Subject::Path { .. } | Subject::Host { .. } => {}
        }
        self
    }

    /// The same request, for a program whose name was found to be a file.
    #[must_use]
    pub fn found_at(mut self, path: impl Into<PathBuf>) -> Self {
        if let Subject::Command { file, .. } = &mut self.subject {
            *file = Some(normalize(&path.into()));
        }
        self
    }

    /// The same request, once the host's address is known.
    #[must_use]
    pub fn resolved_to(mut self, ip: IpAddr) -> Self {
        if let Subject::Host { address, .. } = &mut self.subject {
            *address = Some(ip);
        }
        self
    }

    /// The same request, made by a named tool.
    #[must_use]
    pub fn by_tool(mut self, tool: impl Into<String>) -> Self {
        self.tool = Some(tool.into());
        self
    }

    /// The capability it needs.
    #[must_use]
    pub fn capability(&self) -> Capability {
        self.capability
    }

    /// What it is about.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The tool that makes it.
    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }
}

/// The path and query of a URL, as they are sent.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split('#').next().unwrap_or_default();
    rest.find(['/', '?']).map_or("/", |at| &rest[at..])
}

/// A record's id in its one spelling: `./a//b` is `a/b`. A `..` stays, and no grant covers it.
fn record_id(id: &str) -> String {
    let parts = id.trim().split('/').filter(|part| !matches!(*part, "" | "."));
    parts.collect::<Vec<_>>().join("/")
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.capability)?;
        match &self.subject {
            Subject::Record { id, class } => {
                let id = id.as_deref().unwrap_or("a record");
                match class {
                    Some(class) => write!(f, "{id} (class {class})"),
                    None => f.write_str(id),
                }
            }
            Subject::Agent { id, .. } => write!(f, "agents/{id}"),
            Subject::Path { asked, target } if asked == target => write!(f, "{}", asked.display()),
            Subject::Path { asked, target } => {
                write!(f, "{} (which is {})", asked.display(), target.display())
            }
            Subject::Host { refused_method: Some(method), target, .. } => {
                write!(f, "{method} {}", describe(target))
            }
            Subject::Host { target, .. } => f.write_str(&describe(target)),
            Subject::Command { argv, .. } => write_argv(f, argv),
            Subject::Shell { text, arguments, .. } => {
                write!(f, "`{}`", text.escape_debug())?;
                match arguments.as_deref() {
                    None | Some([]) => Ok(()),
                    Some(arguments) => {
                        f.write_str(" with ")?;
                        write_argv(f, arguments)
                    }
                }
            }
        }
    }
}

fn describe(target: &Result<Target, HostError>) -> String {
    match target {
        Ok(target) => target.to_string(),
        Err(error) => error.to_string(),
    }
}

fn write_argv(f: &mut fmt::Formatter<'_>, argv: &[OsString]) -> fmt::Result {
    for (index, argument) in argv.iter().enumerate() {
        if index > 0 {
            f.write_str(" ")?;
        }
        let text = argument.to_string_lossy();
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            write!(f, "{text:?}")?;
        } else {
            f.write_str(&text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Spec;
    use crate::{Facts, Policy, decide};

    fn may(held: &str, request: &Request) -> bool {
        let held = Spec::parse(held).unwrap();
        let policy = Policy::from_specs("me", &[held], &Facts::new("/home/u")).unwrap();
        decide(&policy, request).is_allowed()
    }

    #[test]
    fn an_agents_record_is_known_however_its_id_is_spelled() {
        for id in ["agents/scout", "./agents/scout", "/agents/scout", "agents//scout", "a/../agents/scout"] {
            let request = Request::record(Capability::RecordsUpdate, Some(id), Some("note"));
            assert!(!may("records.update", &request), "{id}");
        }
    }

    #[test]
    fn a_record_id_that_climbs_is_covered_by_nothing() {
        let request = Request::record(Capability::RecordsUpdate, Some("a/../b"), None);
        assert!(!may("records.update{paths=[a]}", &request) && !may("records.update", &request));
        let request = Request::record(Capability::RecordsUpdate, Some("./a//b"), None);
        assert!(may("records.update{paths=[a/b]}", &request));
    }

    #[test]
    fn a_target_that_climbs_is_taken_for_what_it_is() {
        let target = |path: &str| Request::resolved_path(Capability::FsRead, path.into(), path.into());
        assert!(!may("fs.read{in=/w}", &target("/w/../etc/passwd")));
        assert!(may("fs.read{in=/w}", &target("//w/./a/")));
    }

    #[test]
    fn a_path_says_what_its_method_does_not() {
        let needs = |method: &str, url: &str| Request::url(method, url).capability().name();
        assert_eq!(needs("POST", "https://h.example/r.git/git-upload-pack"), "net.get");
        assert_eq!(needs("GET", "https://h.example/r/info/refs?service=git-receive-pack"), "net.post");
        assert_eq!(needs("GET", "https://h.example/r/info/refs?service=git-upload-pack#x"), "net.get");
        assert_eq!(needs("POST", "https://h.example/?/git-upload-pack"), "net.post");
        assert_eq!(needs("POST", "https://h.example?/git-upload-pack"), "net.post");
        assert_eq!(needs("POST", "https://h.example#/git-upload-pack"), "net.post");
        assert_eq!(needs("POST", "https://git-upload-pack"), "net.post");
    }

    #[test]
    fn an_agent_cannot_reach_itself_by_another_spelling() {
        for id in ["me", "agents/me", "./me", "x/../me", "agents/./me"] {
            assert!(!may("agent.grant", &Request::agent(Capability::AgentGrant, id)), "{id}");
        }
    }
}
