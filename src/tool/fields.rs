//! The keys of one definition.
//!
//! Invariant: an unknown key is a fault, so that a misspelt restriction never goes unnoticed.

use super::definition::{Action, Api, Layer, Net, Tool};
use super::evaluate;
use super::param::Param;
use super::params::read_params;
use super::problem::{Fault, ToolCode};
use super::shell::ShellLine;
use super::template::{Syntax, Template, placeholders};
use crate::capability::{Capability, HostPattern, Scope, ScopeKey, Spec};
use crate::manifest::{Node, NodeKind};
use crate::text::{Source, Span, closest};

/// What a definition is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document {
    /// `{{name}}`, parameters declared.
    Toml,
    /// `${name}`, parameters declared or plain text.
    Yaml,
}

/// Every key of a definition.
pub const TOOL_KEYS: &[&str] = &[
    "name",
    "description",
    "enabled",
    "kind",
    "run",
    "binary",
    "args_mode",
    "args",
    "allowed_subcommands",
    "api",
    "params",
    "constraints",
    "timeout",
    "timeoutMs",
    "timeout_ms",
    "timeout_seconds",
    "cwd",
    "env",
    "net",
    "output",
    "persistent",
    "read_only",
    "max_stdout_bytes",
    "max_stderr_bytes",
];

/// One definition being read.
pub(super) struct Fields<'a> {
    pub(super) node: &'a Node,
    pub(super) document: Document,
    pub(super) faults: Vec<Fault>,
}

/// Reads one definition; `named` is its name where the map around it says it.
pub(super) fn read_tool(
    named: Option<(&str, Span)>,
    node: &Node,
    document: Document,
    layer: Layer,
    source: &Source,
    net: Option<&Node>,
) -> Result<Tool, Vec<Fault>> {
    let mut fields = Fields { node, document, faults: Vec::new() };
    let span = named.map_or(node.span, |(_, span)| span);
    let (name, name_span) = fields.name(named);
    fields.check_name(&name, name_span);
    fields.check_keys("", TOOL_KEYS, node);
    let mut params = fields.get("params").map(|params| read_params(params, &mut fields)).unwrap_or_default();
    let action = fields.action();
    if let Some(action) = &action {
        fields.declare(action, &mut params);
    }
    let env = fields.env();
    let net = fields.get("net").or(net).map_or(Net::None, |net| fields.net(net));
    let (output, constraints) = (fields.output(), fields.constraints());
    let persistent = fields.flag("persistent").unwrap_or(false);
    let enabled = fields.flag("enabled").unwrap_or(true);
    let description = fields.text("description").map(str::to_owned);
    if let (Some(Action::Internal(_)), true) = (&action, persistent) {
        fields.bad("persistent", node.span, "sbx's own operations are not left running");
    }
    let read_only = fields.read_only(action.as_ref(), &net);
    match (action, fields.faults.is_empty()) {
        (Some(action), true) => Ok(Tool {
            name,
            description,
            enabled,
            action,
            params,
            constraints,
            env,
            net,
            output,
            persistent,
            read_only,
            layer,
            place: Some(source.place(span.start)),
        }),
        _ => Err(fields.faults),
    }
}

impl<'a> Fields<'a> {
    pub(super) fn get(&self, key: &str) -> Option<&'a Node> {
        self.node.get(key)
    }

    pub(super) fn bad(&mut self, field: impl Into<String>, span: Span, message: impl Into<String>) {
        self.faults.push(Fault::bad(field, span, message));
    }

    pub(super) fn check_keys(&mut self, path: &str, keys: &[&str], node: &Node) {
        for (key, _) in node.map().unwrap_or_default() {
            let name = key.text().unwrap_or_default();
            if !keys.contains(&name) {
                let fault =
                    Fault::bad(format!("{path}{name}"), key.span, format!("there is no key `{name}` here"));
                let near = closest(name, keys.iter().copied());
                let help = near.map_or_else(
                    || format!("the keys are {}", keys.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                );
                self.faults.push(fault.help(help));
            }
        }
    }

    fn name(&mut self, named: Option<(&str, Span)>) -> (String, Span) {
        match (named, self.get("name")) {
            (Some((name, span)), None) => (name.to_owned(), span),
            (Some((name, _)), Some(own)) if own.text() != Some(name) => {
                self.bad("name", own.span, format!("the tool is called `{name}` around this"));
                (name.to_owned(), own.span)
            }
            (_, own) => {
                let span = own.map_or(self.node.span, |own| own.span);
                (own.and_then(Node::text).unwrap_or_default().to_owned(), span)
            }
        }
    }

    fn check_name(&mut self, name: &str, span: Span) {
        let part = |part: &str| {
            let plain =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
            part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                && part.bytes().all(plain)
        };
        if name.len() > 128 || !name.split('.').all(part) {
            let message = "a tool's name is parts of a-z, 0-9, `_` and `-`, with dots between them";
            self.bad("name", span, message);
        }
    }

    /// A text; another kind of value is a fault.
    pub(super) fn text(&mut self, key: &str) -> Option<&'a str> {
        let node = self.get(key)?;
        if node.text().is_none() {
            self.bad(key, node.span, format!("`{key}` is {}, not a string", node.describe()));
        }
        node.text()
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        let node = self.get(key)?;
        match node.kind {
            NodeKind::Bool(truth) => Some(truth),
            NodeKind::Null
            | NodeKind::Number(_)
            | NodeKind::Text(_)
            | NodeKind::List(_)
            | NodeKind::Map(_) => {
                self.bad(key, node.span, format!("`{key}` is true or false"));
                None
            }
        }
    }

    /// A list of strings.
    fn texts(&mut self, key: &str) -> Option<Vec<(&'a str, Span)>> {
        let node = self.get(key)?;
        let items = node.list().map(|items| items.iter().map(|item| Some((item.text()?, item.span))));
        let texts = items.and_then(Iterator::collect);
        if texts.is_none() {
            self.bad(key, node.span, format!("`{key}` is a list of strings"));
        }
        texts
    }

    fn action(&mut self) -> Option<Action> {
        if let NodeKind::Text(line) = &self.node.kind {
            return self.shell("run", line, self.node.span);
        }
        if self.node.map().is_none() {
            let message = format!("a tool is a shell line or a map, not {}", self.node.describe());
            self.faults.push(Fault::new(ToolCode::MissingRun, "run", self.node.span, message));
            return None;
        }
        let says_what = ["kind", "run", "binary", "api"].iter().any(|key| self.get(key).is_some());
        if !says_what && self.get("enabled").is_some_and(|node| node.kind == NodeKind::Bool(false)) {
            return Some(Action::Off);
        }
        match (self.text("kind"), self.get("run")) {
            (None | Some("command" | "shell"), Some(run)) => self.run(run),
            (Some("command"), None) => self.command(),
            (None, None) if self.document == Document::Yaml && self.get("binary").is_some() => self.command(),
            (Some("internal"), _) => self.internal(),
            (None, None) if self.document == Document::Yaml && self.get("kind").is_none() => {
                let message = "the command does not say what to `run`";
                self.faults.push(Fault::new(ToolCode::MissingRun, "run", self.node.span, message));
                None
            }
            (kind, _) => {
                let span = self.get("kind").map_or(self.node.span, |kind| kind.span);
                let given = kind.map_or_else(String::new, |kind| format!(", not `{kind}`"));
                self.bad("kind", span, format!("`kind` is command or internal{given}"));
                None
            }
        }
    }

    /// `run`: a string is a shell line, a list a program with arguments.
    fn run(&mut self, run: &'a Node) -> Option<Action> {
        for other in ["binary", "args", "api", "allowed_subcommands", "args_mode"] {
            if let Some(node) = self.get(other) {
                self.bad(other, node.span, format!("`{other}` and `run` both say what is run; keep one"));
            }
        }
        if let Some(line) = run.text() {
            return self.shell("run", line, run.span);
        }
        let Some(items) = run.list() else {
            let message = format!("`run` is a shell line or a list of strings, not {}", run.describe());
            self.faults.push(Fault::new(ToolCode::MissingRun, "run", run.span, message));
            return None;
        };
        let words: Option<Vec<(&str, Span)>> =
            items.iter().map(|item| Some((item.text()?, item.span))).collect();
        let Some(words) = words else {
            let message = "every word of `run` is a string";
            self.faults.push(Fault::new(ToolCode::MissingRun, "run", run.span, message));
            return None;
        };
        match words.split_first() {
            Some(((binary, span), args)) if !binary.trim().is_empty() => {
                self.template("run", (binary, *span), args, Syntax::Dollar)
            }
            _ => {
                let fault = Fault::new(ToolCode::EmptyCommand, "run", run.span, "what is to be run is empty");
                self.faults.push(fault);
                None
            }
        }
    }

    fn shell(&mut self, field: &str, line: &str, span: Span) -> Option<Action> {
        if line.trim().is_empty() {
            self.faults.push(Fault::new(ToolCode::EmptyCommand, field, span, "the shell line is empty"));
            return None;
        }
        match ShellLine::parse(line) {
            Ok(line) => Some(Action::Shell(line)),
            Err((code, range, message)) => {
                let column = line[..range.start].chars().count() + 1;
                let shown = &line[range];
                let message = format!("{message}: `{shown}` at character {column} of the line");
                let fault = Fault::new(code, field, span, message);
                self.faults.push(
                    fault.help(
                        "write the placeholder as a word of its own, or use a list: no shell reads that",
                    ),
                );
                None
            }
        }
    }

    fn command(&mut self) -> Option<Action> {
        let syntax = if self.document == Document::Toml { Syntax::Braces } else { Syntax::Dollar };
        let binary = self.text("binary").filter(|binary| !binary.trim().is_empty());
        let Some(binary) = binary else {
            let span = self.get("binary").map_or(self.node.span, |binary| binary.span);
            self.bad("binary", span, "`binary` names the program to run");
            return None;
        };
        let span = self.get("binary").map_or(self.node.span, |node| node.span);
        match self.text("args_mode").unwrap_or("template") {
            "template" => {
                let args = self.texts("args").unwrap_or_default();
                if args.is_empty() {
                    self.bad(
                        "args",
                        self.get("args").map_or(span, |args| args.span),
                        "`args` has at least one argument",
                    );
                    return None;
                }
                self.template("args", (binary, span), &args, syntax)
            }
            "free" => self.free(binary, span),
            other => {
                let span = self.get("args_mode").map_or(span, |node| node.span);
                self.bad("args_mode", span, format!("`args_mode` is template or free, not `{other}`"));
                None
            }
        }
    }

    fn free(&mut self, binary: &str, span: Span) -> Option<Action> {
        self.check_program("binary", binary, span)?;
        let listed = self.texts("allowed_subcommands").unwrap_or_default();
        let at = self.get("allowed_subcommands").map_or(span, |node| node.span);
        if listed.is_empty() {
            self.bad("allowed_subcommands", at, "`allowed_subcommands` names at least one subcommand");
            return None;
        }
        let plain = |text: &str| {
            !text.is_empty()
                && !text.starts_with('-')
                && !text.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        if let Some((odd, span)) = listed.iter().find(|(text, _)| !plain(text)) {
            self.bad("allowed_subcommands", *span, format!("`{odd}` is not a subcommand"));
            return None;
        }
        if let Some(args) = self.get("args") {
            self.bad("args", args.span, "with `args_mode = free` the caller gives the arguments");
        }
        let subcommands = listed.iter().map(|(text, _)| (*text).to_owned()).collect();
        Some(Action::Free { binary: binary.to_owned(), subcommands })
    }

    /// The program is always literal: what it needs must be known before any value is.
    fn check_program(&mut self, field: &str, binary: &str, span: Span) -> Option<()> {
        let odd =
            [Syntax::Dollar, Syntax::Braces].iter().any(|syntax| !placeholders(binary, *syntax).is_empty());
        if odd || binary.starts_with('-') || binary.contains(|c: char| c.is_control() || c.is_whitespace()) {
            self.bad(field, span, format!("the program `{binary}` is not the name or path of one"));
            return None;
        }
        Some(())
    }

    fn template(
        &mut self,
        field: &str,
        (binary, span): (&str, Span),
        args: &[(&str, Span)],
        syntax: Syntax,
    ) -> Option<Action> {
        self.check_program(if field == "args" { "binary" } else { field }, binary, span)?;
        if let Some((_, span)) = args.iter().find(|(text, _)| text.contains('\0')) {
            self.bad(field, *span, "no argument holds a NUL");
            return None;
        }
        let args: Vec<Template> = args.iter().map(|(text, _)| Template::parse(text, syntax)).collect();
        if let Err(message) = evaluate::check_argv(binary, &args) {
            let fault = Fault::new(ToolCode::Reevaluated, field, span, message);
            self.faults
                .push(fault.help("hand the value to a script as an argument of its own, after the program"));
            return None;
        }
        Some(Action::Template { binary: binary.to_owned(), args })
    }

    fn internal(&mut self) -> Option<Action> {
        let name = self.text("api").filter(|api| !api.trim().is_empty());
        let span = self.get("api").map_or(self.node.span, |api| api.span);
        let api = name.and_then(Api::from_name);
        if api.is_none() {
            let known: Vec<&str> = Api::ALL.iter().map(|api| api.name()).collect();
            self.bad("api", span, format!("`api` names one of sbx's own operations: {}", known.join(", ")));
        }
        for other in ["binary", "args", "allowed_subcommands", "run"] {
            if let Some(node) = self.get(other) {
                self.bad(other, node.span, format!("an internal tool has no `{other}`"));
            }
        }
        api.map(Action::Internal)
    }

    /// Every placeholder has a parameter; where none are declared, each is a text that must be given.
    fn declare(&mut self, action: &Action, params: &mut Vec<Param>) {
        let (field, names): (&str, Vec<&str>) = match action {
            Action::Template { args, .. } => {
                let field = if self.get("run").is_some() { "run" } else { "args" };
                (field, args.iter().flat_map(Template::names).collect())
            }
            Action::Shell(line) => ("run", line.names.iter().map(String::as_str).collect()),
            Action::Internal(api) => ("params", api.values().to_vec()),
            Action::Free { .. } | Action::Off => ("args", Vec::new()),
        };
        let implied = (self.document == Document::Yaml && self.get("params").is_none()) || field == "params";
        for name in names {
            if params.iter().any(|param| param.name == name) {
                continue;
            }
            if implied && name != "SESSION_DIR" {
                let implied = field != "params";
                params.push(Param { implied, ..Param::plain(name) });
            } else {
                let span = self.get(field).map_or(self.node.span, |node| node.span);
                let message = format!("the placeholder `{name}` names no parameter");
                self.faults.push(Fault::new(
                    ToolCode::PlaceholderUndeclared,
                    format!("{field}.{name}"),
                    span,
                    message,
                ));
            }
        }
        self.check_spelling(field, action, params);
    }

    /// A parameter written in the other document's way would be passed on as it stands.
    fn check_spelling(&mut self, field: &str, action: &Action, params: &[Param]) {
        let used = action_texts(action);
        for text in &used {
            for syntax in [Syntax::Dollar, Syntax::Braces] {
                for (_, name) in placeholders(text, syntax) {
                    if params.iter().any(|param| param.name == name) {
                        let span = self.get(field).map_or(self.node.span, |node| node.span);
                        let right = if self.document == Document::Toml && field == "args" {
                            format!("{{{{{name}}}}}")
                        } else {
                            format!("${{{name}}}")
                        };
                        let message = format!("the parameter `{name}` is written `{right}` here");
                        self.bad(format!("{field}.{name}"), span, message);
                        return;
                    }
                }
            }
        }
    }

    fn env(&mut self) -> Vec<String> {
        let names = self.texts("env").unwrap_or_default();
        let plain = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if let Some((odd, span)) = names.iter().find(|(name, _)| !plain(name)) {
            self.bad("env", *span, format!("`{odd}` is not a variable's name"));
        }
        names.into_iter().map(|(name, _)| name.to_owned()).collect()
    }

    fn net(&mut self, node: &'a Node) -> Net {
        let hosts = |node: &Node| -> Option<Vec<String>> {
            let items =
                node.list()?.iter().map(|item| item.text().filter(|host| HostPattern::parse(host).is_ok()));
            items.map(|host| host.map(str::to_owned)).collect()
        };
        let verbs = [
            ("get", Capability::NetGet),
            ("post", Capability::NetPost),
            ("put", Capability::NetPut),
            ("delete", Capability::NetDelete),
        ];
        if let Some(pairs) = node.map() {
            let mut specs = Vec::new();
            for (key, value) in pairs {
                let verb = verbs.iter().find(|(word, _)| key.text() == Some(word));
                match (verb, hosts(value)) {
                    (Some((_, capability)), Some(hosts)) => {
                        specs.push(Spec {
                            capability: *capability,
                            scope: Scope::bare().with_list(ScopeKey::Hosts, hosts),
                        });
                    }
                    _ => self.bad("net", key.span, "`net` maps get, post, put and delete to lists of hosts"),
                }
            }
            return Net::Verbs(specs);
        }
        match hosts(node) {
            Some(hosts) if hosts.is_empty() => Net::None,
            Some(hosts) => Net::Hosts(hosts),
            None => {
                self.bad(
                    "net",
                    node.span,
                    "`net` is a list of hosts, or a map from get, post, put and delete to hosts",
                );
                Net::None
            }
        }
    }

    /// A tool that only reads names nothing that changes something.
    fn read_only(&mut self, action: Option<&Action>, net: &Net) -> bool {
        let said = self.flag("read_only").unwrap_or(false);
        let own = matches!(action, Some(Action::Internal(api)) if api.changes());
        let sends = matches!(net, Net::Verbs(specs) if specs.iter().any(|spec| spec.capability != Capability::NetGet));
        if let (true, Some(node)) = (said && (own || sends), self.get("read_only")) {
            let what = if own { "`api`" } else { "`net`" };
            self.bad(
                "read_only",
                node.span,
                format!("a tool that only reads has no {what} that changes something"),
            );
        }
        said
    }
}

/// The literal texts of a command.
fn action_texts(action: &Action) -> Vec<String> {
    match action {
        Action::Template { args, .. } => args
            .iter()
            .flat_map(Template::pieces)
            .filter_map(|piece| match piece {
                super::template::Piece::Text(text) => Some(text.clone()),
                super::template::Piece::Value(_) => None,
            })
            .collect(),
        Action::Shell(line) => {
            let mut text = line.text.clone();
            for (range, _) in placeholders(&line.text, Syntax::Dollar).into_iter().rev() {
                text.replace_range(range, " ");
            }
            vec![text]
        }
        Action::Free { .. } | Action::Internal(_) | Action::Off => Vec::new(),
    }
}
