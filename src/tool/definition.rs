//! A tool: a name for one command, with checked values.
//!
//! Invariant: a [`Tool`] that exists is whole: every placeholder has a parameter, every default fits.

use super::param::{Kind, Param};
use super::shell::ShellLine;
use super::template::Template;
use crate::capability::{Capability, Spec};
use crate::text::{Place, codes};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long a tool runs when nothing is said.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// How much of each stream is kept when nothing is said.
pub const KEPT: u64 = 1 << 20;
/// How much a tool may print before it is ended.
pub const MOST_OUTPUT: u64 = 8 << 20;

/// Where a definition comes from; a later one stands in for an earlier one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Shipped with sbx.
    Builtin,
    /// The user's files.
    User,
    /// The agent's record.
    Record,
    /// Added to one session.
    Session,
}

impl Layer {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::User => "user",
            Self::Record => "record",
            Self::Session => "session",
        }
    }
}

codes! {
    /// Operations of sbx itself that a tool can stand for.
    Api {
        FsRead "fs.read" "reads a file",
        FsList "fs.list" "lists a directory",
        FsWrite "fs.write" "writes a file",
        FsDelete "fs.delete" "deletes a file",
        NetGet "net.get" "fetches a URL",
        NetPost "net.post" "sends to a URL",
        NetPut "net.put" "replaces what a URL names",
        NetDelete "net.delete" "deletes what a URL names",
        RecordsRead "records.read" "reads a record",
        RecordsDelete "records.delete" "deletes a record",
    }
}

impl Api {
    /// The operation of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|api| api.name() == name)
    }

    /// What the agent must hold.
    #[must_use]
    pub const fn capability(self) -> Capability {
        match self {
            Self::FsRead | Self::FsList => Capability::FsRead,
            Self::FsWrite => Capability::FsWrite,
            Self::FsDelete => Capability::FsDelete,
            Self::NetGet => Capability::NetGet,
            Self::NetPost => Capability::NetPost,
            Self::NetPut => Capability::NetPut,
            Self::NetDelete => Capability::NetDelete,
            Self::RecordsRead => Capability::RecordsRead,
            Self::RecordsDelete => Capability::RecordsDelete,
        }
    }

    /// Whether it goes over the network.
    #[must_use]
    pub const fn reaches_out(self) -> bool {
        matches!(self, Self::NetGet | Self::NetPost | Self::NetPut | Self::NetDelete)
    }

    /// Whether it changes something.
    #[must_use]
    pub const fn changes(self) -> bool {
        match self {
            Self::FsRead | Self::FsList | Self::NetGet | Self::RecordsRead => false,
            Self::FsWrite
            | Self::FsDelete
            | Self::NetPost
            | Self::NetPut
            | Self::NetDelete
            | Self::RecordsDelete => true,
        }
    }

    /// The values it takes.
    #[must_use]
    pub const fn values(self) -> &'static [&'static str] {
        match self {
            Self::FsRead | Self::FsList | Self::FsDelete => &["path"],
            Self::FsWrite => &["path", "content"],
            Self::NetGet | Self::NetDelete => &["url"],
            Self::NetPost | Self::NetPut => &["url", "body"],
            Self::RecordsRead | Self::RecordsDelete => &["id"],
        }
    }
}

/// What a tool does.
#[derive(Clone, Debug)]
pub enum Action {
    /// A program with arguments, some of them values.
    Template {
        /// The program.
        binary: String,
        /// Its arguments.
        args: Vec<Template>,
    },
    /// A program with some subcommands and any arguments after them.
    Free {
        /// The program.
        binary: String,
        /// What its first argument may be.
        subcommands: Vec<String>,
    },
    /// A shell line.
    Shell(ShellLine),
    /// One of sbx's own operations.
    Internal(Api),
    /// Nothing: a definition that only switches off those of its name in lower layers. It is never enabled.
    Off,
}

/// What a tool reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Net {
    /// Nothing.
    #[default]
    None,
    /// These hosts, with whichever verbs the agent holds for them; reading at least.
    Hosts(Vec<String>),
    /// Just this.
    Verbs(Vec<Spec>),
}

/// What becomes of a tool's standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// A text, blanks at both ends taken off.
    #[default]
    Text,
    /// A JSON value.
    Json,
    /// Lines that are not blank.
    Lines,
}

impl Output {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Lines => "lines",
        }
    }
}

/// Bounds on a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Constraints {
    /// How long it may run; none when nothing is said.
    pub timeout: Option<Duration>,
    /// Where it runs; none for where it is called.
    pub cwd: Option<String>,
    /// Bytes of standard output that are kept.
    pub max_stdout: u64,
    /// Bytes of standard error that are kept.
    pub max_stderr: u64,
}

impl Default for Constraints {
    fn default() -> Self {
        Self { timeout: None, cwd: None, max_stdout: KEPT, max_stderr: KEPT }
    }
}

/// A named tool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it says of itself.
    pub description: Option<String>,
    /// Whether it can be found.
    pub enabled: bool,
    /// What it does.
    pub action: Action,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its bounds.
    pub constraints: Constraints,
    /// Variables of the caller's environment it is passed.
    pub env: Vec<String>,
    /// What it reaches.
    pub net: Net,
    /// What becomes of its output.
    pub output: Output,
    /// Whether it is started and left running.
    pub persistent: bool,
    /// Whether its agent's authority to change files and hosts is left behind while it runs.
    pub read_only: bool,
    /// Where its definition comes from.
    pub layer: Layer,
    /// Where its definition stands.
    pub place: Option<Place>,
}

impl Tool {
    /// A parameter by name.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|param| param.name == name)
    }

    /// The parameters its command names.
    #[must_use]
    pub fn placeholders(&self) -> Vec<&str> {
        match &self.action {
            Action::Template { args, .. } => args.iter().flat_map(Template::names).collect(),
            Action::Shell(line) => line.names.iter().map(String::as_str).collect(),
            Action::Internal(api) => api.values().to_vec(),
            Action::Free { .. } | Action::Off => Vec::new(),
        }
    }

    /// How long one run may take; none for a tool that is left running and says nothing.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.constraints.timeout.or((!self.persistent).then_some(TIMEOUT))
    }

    /// Whether it names the session's private directory.
    #[must_use]
    pub fn wants_session_dir(&self) -> bool {
        const WORD: &str = "SESSION_DIR";
        let prefix = |param: &Param| matches!(&param.kind, Kind::Path { prefix: Some(prefix) } if prefix.contains(WORD));
        let line = matches!(&self.action, Action::Shell(line) if line.text.contains(WORD));
        line || self.constraints.cwd.as_deref().is_some_and(|cwd| cwd.contains(WORD))
            || self.params.iter().any(prefix)
    }

    /// What it does, as it is written.
    #[must_use]
    pub fn command_line(&self) -> String {
        let word = |text: String| {
            if text.is_empty() || text.contains(char::is_whitespace) { format!("{text:?}") } else { text }
        };
        match &self.action {
            Action::Template { binary, args } => {
                let shown = args
                    .iter()
                    .map(|arg| word(arg.fill::<()>(|name| Ok(format!("${{{name}}}"))).unwrap_or_default()));
                std::iter::once(word(binary.clone())).chain(shown).collect::<Vec<_>>().join(" ")
            }
            Action::Free { binary, subcommands } => format!("{binary} {} …", subcommands.join("|")),
            Action::Shell(line) => line.text.clone(),
            Action::Internal(api) => api.name().to_owned(),
            Action::Off => String::new(),
        }
    }

    /// The kind of command.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.action {
            Action::Template { .. } => "argv",
            Action::Free { .. } => "free",
            Action::Shell(_) => "shell",
            Action::Internal(_) => "internal",
            Action::Off => "off",
        }
    }

    /// The bounds, for machines, with what holds where nothing is said.
    #[must_use]
    pub fn constraints_json(&self) -> Value {
        json!({
            "timeout_seconds": self.timeout().map(seconds),
            "max_stdout_bytes": self.constraints.max_stdout,
            "max_stderr_bytes": self.constraints.max_stderr,
            "cwd": self.constraints.cwd.as_deref(),
        })
    }

    /// The values it takes as a JSON Schema, for machines that call it.
    #[must_use]
    pub fn input_schema(&self) -> Value {
        if let Action::Free { subcommands, .. } = &self.action {
            let first = json!({ "enum": subcommands });
            let args = json!({
                "type": "array", "minItems": 1, "prefixItems": [first], "items": { "type": "string" },
            });
            return json!({ "type": "object", "properties": { "args": args }, "required": ["args"], "additionalProperties": false });
        }
        let properties: Map<String, Value> =
            self.params.iter().map(|param| (param.name.clone(), param.schema())).collect();
        let required: Vec<&str> =
            self.params.iter().filter(|param| !param.optional).map(|param| param.name.as_str()).collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }
}

/// Whole seconds as a whole number.
fn seconds(time: Duration) -> Value {
    if time.subsec_nanos() == 0 { json!(time.as_secs()) } else { json!(time.as_secs_f64()) }
}

impl Param {
    /// Its values as a JSON Schema.
    #[must_use]
    pub fn schema(&self) -> Value {
        let mut schema = match &self.kind {
            Kind::Path { .. } | Kind::Duration | Kind::Text(None) => json!({ "type": "string" }),
            Kind::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Kind::Float { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::Enum(values) => json!({ "enum": values }),
            Kind::Text(Some(pattern)) => {
                json!({ "type": "string", "pattern": format!("^(?:{})$", pattern.text) })
            }
            Kind::Identifier => json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" }),
        };
        if let Some(map) = schema.as_object_mut() {
            map.retain(|_, value| !value.is_null());
            let about = self.description.clone().unwrap_or_else(|| self.kind.wanted());
            map.insert("description".to_owned(), json!(about));
            if let Some(default) = &self.default {
                map.insert("default".to_owned(), json!(default));
            }
        }
        schema
    }
}
