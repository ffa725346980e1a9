//! Walks a parsed text the way a shell would run it, and notes every command that could start.
//!
//! All branches are taken, loops over known words are followed, functions and aliases are called. It only
//! ever errs by noting more. What it cannot follow is said in [`Flat::opaque`].
//!
//! Invariant: the number of commands and the depth are bounded; going beyond makes the text opaque.

use super::command::{Arg, COMPUTED, Channel, Command, Mark};
use super::expand::Value;
use super::parse::{parse, parse_nested, plain};
use super::scan::SyntaxError;
use super::syntax::{List, Node, Piece, Redirect, RedirectOp, Simple, Word};
use super::trail::Trail;
use super::{Scene, output};
use crate::text::Span;
use std::collections::HashMap;
use std::rc::Rc;

/// The most commands that are noted.
const MAX_NOTED: usize = 2000;
/// How deep texts within texts, and calls, are followed.
pub(super) const MAX_CALLS: usize = 12;
/// How many lines of a text that cannot be read are looked at.
const MAX_LINES: usize = 200;
/// How many words of a loop are tried one by one.
const MAX_ROUNDS: usize = 64;
/// How many of `$1`, `$2` and so on are kept.
pub(super) const MAX_ARGUMENTS: usize = 64;

/// A part of a text that is only known when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opaque {
    /// Where.
    pub span: Span,
    /// Why it cannot be known.
    pub why: &'static str,
}

/// A text as the commands that it could start.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Flat {
    /// The commands, those in substitutions before those that use them.
    pub(super) commands: Vec<Command>,
    /// What could not be followed.
    pub opaque: Vec<Opaque>,
    /// Whether something had to be left out.
    pub truncated: bool,
    /// Why a text that it would run cannot be read.
    pub(super) unread: Option<SyntaxError>,
}

/// What a command is started with.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    /// The first command whose output it reads.
    pub(super) upstream: Option<usize>,
    pub(super) stdin: Option<String>,
    /// Whether it runs beside others: in a pipeline or in the background.
    pub(super) beside: bool,
    /// What it was taken out of.
    pub(super) via: Vec<String>,
    /// Whether the shell that was asked about starts it.
    pub(super) indirect: bool,
}

/// The state of a walk.
pub(super) struct Walk<'s> {
    pub(super) scene: &'s Scene,
    pub(super) variables: HashMap<String, Value>,
    pub(super) cwd: Option<String>,
    pub(super) flat: Flat,
    /// Other values that variables may hold.
    pub(super) others: HashMap<String, Vec<Value>>,
    /// How many constructs around this place may not run.
    pub(super) unsure: usize,
    /// Whether a command is being looked at again with other values.
    pub(super) varying: bool,
    /// More than one of a name where some may not be defined.
    pub(super) functions: HashMap<String, Vec<Rc<Node>>>,
    pub(super) aliases: HashMap<String, String>,
    /// Functions being called, and texts within texts.
    pub(super) calls: Vec<String>,
    called: Vec<String>,
    /// Where the value of a variable comes from: the commands of the substitutions in it.
    pub(super) origins: HashMap<String, std::ops::Range<usize>>,
    /// Origins of the variables in the words at hand.
    pub(super) used: Vec<std::ops::Range<usize>>,
    /// What the last process substitution prints.
    pub(super) piped: Option<String>,
    /// What reads the output of the command at hand.
    pub(super) sinks: Vec<List>,
    /// Files with what was written to them.
    pub(super) written: HashMap<String, String>,
    /// Where other files come from.
    pub(super) trail: Trail,
    /// Names that stand for other variables.
    pub(super) references: HashMap<String, String>,
}

/// Reads a text and walks it.
pub(super) fn flatten(text: &str, scene: &Scene) -> Result<Flat, SyntaxError> {
    let list = parse(text)?;
    let mut walk = Walk::new(scene);
    walk.list(&list, &Flow::default());
    walk.uncalled();
    Ok(walk.flat)
}

/// Walks a command that is already split into words.
pub(super) fn flatten_argv(argv: &[String], scene: &Scene) -> Flat {
    let mut walk = Walk::new(scene);
    let argv = argv.iter().map(|word| Arg::new(word.as_str(), Span::default())).collect();
    let command = Command { argv, direct: true, cwd: walk.cwd.clone(), ..Command::default() };
    walk.note(command, &Flow::default());
    walk.flat
}

impl<'s> Walk<'s> {
    fn new(scene: &'s Scene) -> Self {
        let mut variables = HashMap::new();
        if let Some(arguments) = &scene.arguments {
            let each = arguments.iter().take(MAX_ARGUMENTS).enumerate();
            variables.extend(each.map(|(at, text)| ((at + 1).to_string(), Value::Known(vec![text.clone()]))));
            variables.extend(["@", "*"].map(|all| (all.to_owned(), Value::Known(arguments.clone()))));
        }
        Self {
            scene,
            variables,
            others: HashMap::new(),
            unsure: 0,
            varying: false,
            cwd: scene.cwd.clone(),
            flat: Flat::default(),
            functions: HashMap::new(),
            aliases: HashMap::new(),
            calls: Vec::new(),
            called: Vec::new(),
            origins: HashMap::new(),
            used: Vec::new(),
            piped: None,
            sinks: Vec::new(),
            written: HashMap::new(),
            trail: Trail::default(),
            references: HashMap::new(),
        }
    }

    pub(super) fn opaque(&mut self, span: Span, why: &'static str) {
        if self.flat.opaque.len() < 100 {
            self.flat.opaque.push(Opaque { span, why });
        }
    }

    /// Walks a list; its output, where that is known.
    fn list(&mut self, list: &List, flow: &Flow) -> Option<String> {
        let mut output = Some(String::new());
        for node in list {
            let next = self.node(node, flow);
            output =
                output.zip(next).map(|(output, next)| output + &next).filter(|text| text.len() < 1 << 16);
        }
        output
    }

    /// Walks what stands in a substitution.
    pub(super) fn substitute(&mut self, body: &List) -> Option<String> {
        self.apart(|walk| walk.list(body, &Flow::default()))
    }

    fn node(&mut self, node: &Node, flow: &Flow) -> Option<String> {
        if self.flat.commands.len() >= MAX_NOTED {
            self.flat.truncated = true;
            return None;
        }
        match node {
            Node::Simple(simple) => self.every_way(simple, flow),
            Node::Pipe(stages) => self.pipe(stages, flow),
            Node::Both(nodes) => self.both(nodes, flow),
            Node::Background(node) => {
                self.apart(|walk| walk.node(node, &Flow { beside: true, ..flow.clone() }))
            }
            Node::Group { lists, redirects, subshell } => {
                let flow = self.redirected(redirects, flow);
                match (lists.as_slice(), subshell) {
                    ([list], false) => self.list(list, &flow),
                    ([list], true) => self.apart(|walk| walk.list(list, &flow)),
                    _ => {
                        self.branches(lists, &flow);
                        None
                    }
                }
            }
            Node::For { name, words, body, redirects } => {
                let flow = self.redirected(redirects, flow);
                self.each(name, words, body, &flow);
                None
            }
            Node::Case { words, lists, redirects } => {
                for word in words {
                    self.expand_whole(word);
                }
                let flow = self.redirected(redirects, flow);
                for list in lists {
                    self.maybe(|walk| walk.list(list, &flow));
                }
                None
            }
            Node::Test { words, redirects } => {
                for word in words {
                    let arg = self.expand_whole(word);
                    self.evaluated(&arg.text, word.span);
                }
                self.redirected(redirects, flow);
                None
            }
            Node::Function { name, body } => {
                self.define(name, body);
                Some(String::new())
            }
        }
    }

    /// `a && b`: the first runs, the others may.
    fn both(&mut self, nodes: &[Node], flow: &Flow) -> Option<String> {
        let mut output = Some(String::new());
        for (at, node) in nodes.iter().enumerate() {
            let next = if at == 0 { self.node(node, flow) } else { self.maybe(|walk| walk.node(node, flow)) };
            output = output.zip(next).map(|(output, next)| output + &next);
        }
        output.filter(|text| text.len() < 1 << 16)
    }

    /// `if` and `while`: the first list runs, the others may.
    fn branches(&mut self, lists: &[List], flow: &Flow) {
        for (at, list) in lists.iter().enumerate() {
            if at == 0 {
                self.list(list, flow);
            } else {
                self.maybe(|walk| walk.list(list, flow));
            }
        }
    }

    fn pipe(&mut self, stages: &[Node], flow: &Flow) -> Option<String> {
        let upstream = flow.upstream.unwrap_or(self.flat.commands.len());
        let mut stdin = flow.stdin.clone();
        for (at, stage) in stages.iter().enumerate() {
            let flow = Flow {
                upstream: if at == 0 { flow.upstream } else { Some(upstream) },
                stdin: stdin.take(),
                beside: true,
                ..flow.clone()
            };
            // A shell of its own in most shells; in some the last one is not.
            stdin = self.maybe(|walk| walk.node(stage, &flow));
        }
        stdin
    }

    /// A loop: each known word in turn, then once with a word nobody knows if there were others.
    fn each(&mut self, name: &str, words: &[Word], body: &List, flow: &Flow) {
        let mut args: Vec<Arg> = words.iter().flat_map(|word| self.expand(word)).collect();
        if words.is_empty()
            && let Some(Value::Known(given)) = self.variables.get("@")
        {
            args = given.iter().map(|text| Arg::unsure(text.as_str(), Span::default())).collect();
        }
        let fits = args.len() <= MAX_ROUNDS && self.flat.commands.len() < MAX_NOTED / 4;
        if !fits {
            let span = args.first().map_or_else(Span::default, |arg| arg.span);
            self.opaque(span, "a loop has too many words to try each");
        }
        if args.is_empty() || !fits || args.iter().all(|arg| arg.has_gap()) {
            self.put(name, Value::Computed);
            self.maybe(|walk| walk.list(body, flow));
            return;
        }
        for arg in args {
            let value = match (arg.has_gap() || arg.glob, arg.known) {
                (true, _) => Value::Guess(arg.text),
                (false, true) => Value::Known(vec![arg.text]),
                (false, false) => Value::Guess(arg.text),
            };
            self.variables.insert(name.to_owned(), value);
            self.others.remove(name);
            self.maybe(|walk| walk.list(body, flow));
        }
    }

    /// Opens the files of a compound command, and hands its input on.
    fn redirected(&mut self, redirects: &[Redirect], flow: &Flow) -> Flow {
        let (files, stdin) = self.files(redirects);
        if let Some((_, arg)) = files.first() {
            let span = arg.span;
            let command = Command {
                mark: Some(Mark::Compound),
                files,
                span,
                cwd: self.cwd.clone(),
                via: flow.via.clone(),
                direct: !flow.indirect,
                ..Command::default()
            };
            self.flat.commands.push(command);
        }
        match stdin {
            Some(stdin) => Flow { stdin: Some(stdin), ..flow.clone() },
            None => flow.clone(),
        }
    }

    fn files(&mut self, redirects: &[Redirect]) -> (Vec<(Channel, Arg)>, Option<String>) {
        let (mut files, mut stdin) = (Vec::new(), None);
        for redirect in redirects {
            if let (RedirectOp::Read, [Piece::Process { body, out: false }]) =
                (redirect.op, redirect.target.pieces.as_slice())
            {
                stdin = self.substitute(body);
                continue;
            }
            let mut target = self.expand_whole(&redirect.target);
            let channel = match redirect.op {
                RedirectOp::Read => Channel::Read,
                RedirectOp::Write | RedirectOp::Both => Channel::Write,
                RedirectOp::Append => Channel::Append,
                RedirectOp::Duplicate => continue,
                RedirectOp::Text => {
                    stdin = (!target.has_gap()).then(|| target.text + "\n");
                    continue;
                }
            };
            target.span = redirect.span;
            files.push((channel, target));
        }
        (files, stdin)
    }

    pub(super) fn simple(&mut self, simple: &Simple, flow: &Flow) -> Option<String> {
        let start = self.flat.commands.len();
        self.used.clear();
        self.piped = None;
        let outer = std::mem::take(&mut self.sinks);
        let variables = self.assign(&simple.assignments, simple.words.is_empty());
        let mut argv: Vec<Arg> = Vec::with_capacity(simple.words.len());
        for word in &simple.words {
            argv.extend(self.expand(word));
        }
        let (files, text) = self.files(&simple.redirects);
        let own = start..self.flat.commands.len();
        let inner: Vec<std::ops::Range<usize>> =
            std::mem::take(&mut self.used).into_iter().chain((!own.is_empty()).then_some(own)).collect();
        let text = text.or_else(|| self.piped.take());
        let sinks = std::mem::replace(&mut self.sinks, outer);
        if argv.is_empty() && files.is_empty() && variables.is_empty() {
            return Some(String::new());
        }
        let aliased = simple.words.first().and_then(plain).and_then(|name| self.aliases.get(&name).cloned());
        if let Some(alias) = aliased.filter(|_| {
            !self.calls.iter().any(|call| Some(call.as_str()) == argv.first().map(|arg| arg.text.as_str()))
        }) {
            return self.call_alias(&alias, &argv, simple.span, flow);
        }
        let stdin = text.or_else(|| flow.stdin.clone());
        let upstream = flow.upstream.map_or(0..0, |first| first..start);
        let command = Command {
            argv,
            files,
            variables,
            stdin,
            upstream,
            inner,
            via: flow.via.clone(),
            cwd: self.cwd.clone(),
            span: simple.span,
            direct: !flow.indirect,
            ..Command::default()
        };
        let read = command.stdin.clone();
        let output = self.note(command, flow);
        for sink in sinks {
            // What it prints, or passes on as `tee` does.
            let stdin = output.clone().or_else(|| read.clone());
            let flow =
                Flow { upstream: Some(flow.upstream.unwrap_or(start)), stdin, beside: true, ..flow.clone() };
            self.apart(|walk| walk.list(&sink, &flow));
        }
        output
    }

    /// Notes a command, then what it does to the shell and what it would start itself.
    pub(super) fn note(&mut self, mut command: Command, flow: &Flow) -> Option<String> {
        if self.flat.commands.len() >= MAX_NOTED {
            self.flat.truncated = true;
            return None;
        }
        if command.argv.first().is_some_and(|arg| arg.has_gap() || arg.glob) {
            self.opaque(command.span, "which program it is shows only when it runs");
        } else if command.argv.iter().any(Arg::has_gap) {
            self.opaque(command.span, "a word of it shows only when it runs");
        }
        let output = output::known(&command);
        self.remember(&command, output.as_deref());
        command.fed = self.fed(&command);
        self.leaves(&command, self.flat.commands.len());
        let name = command.argv.first().map(|arg| arg.text.clone()).unwrap_or_default();
        self.flat.commands.push(command.clone());
        if let Some(bodies) = self.functions.get(&name).cloned() {
            let mut outputs: Vec<Option<String>> =
                bodies.iter().map(|body| self.call(&name, body, &command, flow)).collect();
            return if outputs.len() == 1 { outputs.pop().flatten() } else { None };
        }
        self.evaluates(&name, &command);
        self.builtin(&name, &command);
        self.unwrap(&command, flow);
        output
    }

    fn call(&mut self, name: &str, body: &Rc<Node>, command: &Command, flow: &Flow) -> Option<String> {
        if self.calls.iter().any(|call| call == name) {
            if flow.beside
                && let Some(last) = self.flat.commands.last_mut()
            {
                last.mark = Some(Mark::ForkBomb);
            }
            return None;
        }
        if self.calls.len() >= MAX_CALLS {
            self.opaque(command.span, "calls are nested too deeply to follow");
            return None;
        }
        if !self.called.iter().any(|called| called == name) {
            self.called.push(name.to_owned());
        }
        let before = self.own_arguments();
        let arguments: Vec<String> = command.argv.iter().skip(1).map(|arg| arg.text.clone()).collect();
        self.arguments(arguments);
        self.calls.push(name.to_owned());
        // Where it runs beside others, so does what it starts. Some of what it sets is its own, which is not told apart.
        let flow = Flow { stdin: command.stdin.clone(), ..flow.clone() };
        let output = self.maybe(|walk| walk.node(body, &flow));
        self.calls.pop();
        self.give_back(before);
        output
    }

    fn call_alias(&mut self, alias: &str, argv: &[Arg], span: Span, flow: &Flow) -> Option<String> {
        let rest: Vec<String> = argv.iter().skip(1).map(|arg| quoted(&arg.text)).collect();
        let text = format!("{alias} {}", rest.join(" "));
        let name = argv.first().map(|arg| arg.text.clone()).unwrap_or_default();
        match parse_nested(&text, 0, Some(span)) {
            Ok(list) if self.calls.len() < MAX_CALLS => {
                self.calls.push(name);
                let output = self.list(&list, flow);
                self.calls.pop();
                output
            }
            _ => {
                self.opaque(span, "an alias cannot be followed");
                None
            }
        }
    }

    /// Functions nobody calls here may be called by what nobody sees.
    fn uncalled(&mut self) {
        let mut left: Vec<(String, Rc<Node>)> = self
            .functions
            .iter()
            .filter(|(name, _)| !self.called.contains(name))
            .flat_map(|(name, bodies)| bodies.iter().map(|body| (name.clone(), Rc::clone(body))))
            .collect();
        left.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, body) in left {
            self.calls.push(name);
            self.node(&body, &Flow { indirect: true, ..Flow::default() });
            self.calls.pop();
        }
    }

    /// Follows shell text that a command would run.
    pub(super) fn text_within(&mut self, text: &str, known: bool, command: &Command, by: &str) {
        self.text_with(text, known, command, by, None);
    }

    /// The same, with what `$0`, `$1` and so on stand for in it.
    pub(super) fn text_with(
        &mut self,
        text: &str,
        known: bool,
        command: &Command,
        by: &str,
        arguments: Option<&[Arg]>,
    ) {
        if !known {
            self.opaque(command.span, "a part of the text that is run shows only when it runs");
        }
        if self.calls.len() >= MAX_CALLS {
            self.opaque(command.span, "texts within texts are nested too deeply to follow");
            self.flat.truncated = true;
            return;
        }
        // Marks of what is not known are words of no meaning to the grammar.
        let text: String =
            text.chars().map(|c| if c == super::command::UNSET { COMPUTED } else { c }).collect();
        let flow = within(command, by);
        match parse_nested(&text, self.calls.len(), Some(command.span)) {
            Ok(list) => self.walk_within(&list, &flow, by, arguments),
            Err(error) => {
                self.opaque(command.span, "the text that is run is not shell that can be read");
                self.flat.unread.get_or_insert(error);
                self.lines_within(&text, &flow, by, command.span);
            }
        }
    }

    /// Text that may be shell, from what is not read itself: looked at where it can be, and else left alone.
    pub(super) fn text_guessed(&mut self, text: &str, command: &Command, by: &str) {
        let unread = self.flat.unread.clone();
        self.text_within(text, false, command, by);
        self.flat.unread = unread;
    }

    fn walk_within(&mut self, list: &List, flow: &Flow, by: &str, arguments: Option<&[Arg]>) {
        self.calls.push(by.to_owned());
        match arguments {
            Some(arguments) => self.apart(|walk| {
                let mut texts = arguments.iter().map(|arg| arg.text.clone());
                if let Some(name) = texts.next() {
                    walk.variables.insert("0".to_owned(), Value::Guess(name));
                }
                walk.arguments(texts.collect());
                walk.list(list, flow);
            }),
            // Only these read it in the same shell.
            None if matches!(by, "eval" | "source" | "." | "trap" | "alias") => drop(self.list(list, flow)),
            None => self.apart(|walk| drop(walk.list(list, flow))),
        }
        self.calls.pop();
    }

    /// Of a text that cannot be read as a whole, the lines that can: a shell runs what comes before the fault.
    fn lines_within(&mut self, text: &str, flow: &Flow, by: &str, span: Span) {
        for line in text.lines().take(MAX_LINES) {
            if let Ok(list) = parse_nested(line, self.calls.len(), Some(span)) {
                self.walk_within(&list, flow, by, None);
            }
        }
    }
}

/// What a text within a command is started with.
fn within(command: &Command, by: &str) -> Flow {
    let mut via = command.via.clone();
    via.push(by.to_owned());
    let upstream = (!command.upstream.is_empty()).then_some(command.upstream.start);
    Flow { via, indirect: true, upstream, stdin: command.stdin.clone(), beside: false }
}

/// A word that the shell reads back as itself.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
