//! The bodies of the fuzz targets. Any bytes may come; a panic is a finding.
//!
//! Each body holds an oracle: places lie in the text, what is printed reads back, matchers agree with
//! one another and with a slow one, edits mean what they say, output is bounded by the input.

use sbx::capability::{CommandPattern, Host, HostPattern, Spec, Target, matches_segment, split_list};
mod network;
mod readers;

pub use network::{dns_question, http_chunks, http_head, socks, tls_hello};

use sbx::hook::{Client, files_of_patch, plain_words, quote, reads, unquote};
use sbx::manifest::{EditError, RiskSettings, grant, parse_spec, revoke, split};
use sbx::mcp::Teller;
use sbx::mcp::protocol::Message;
use sbx::mcp::serve::{Handled, Means, Server};
use sbx::policy::covers_grant;
use sbx::risk::{Context, RuleSet, Scene, assess, prove};
use sbx::run::Setting;
use sbx::text::{Problem, render_all};
use sbx::tool::{
    Fault, Kind, Layer, Param, Piece, ShellLine, Surroundings, Syntax, Template, read_definitions,
};
use sbx::{Config, Facts, Manifest, Policy, Request, Source, decide};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

fn facts() -> Facts {
    Facts::new("/home/u").at("/w/app")
}

/// The first line, and the rest.
fn two_parts(data: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(data);
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    (first.to_owned(), rest.to_owned())
}

/// Places lie in the text, and what is printed about it is bounded by it.
fn check_problems(problems: &[Problem], source: &Source) {
    let length = source.text().len();
    for problem in problems {
        let span = problem.span.unwrap_or_default();
        assert!(span.start <= span.end && span.end <= length + 1, "{problem:?}");
        assert!(!problem.message.is_empty());
    }
    if problems.len() < 200 {
        let printed = render_all(problems, source);
        assert!(printed.len() <= problems.len() * 2048 + 8 * length, "{} for {length}", printed.len());
        assert!(!printed.contains('\u{1b}'));
    }
}

/// Front matter: the parts lie in the text, in order, and leave nothing out.
pub fn front_matter(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for name in ["a.md", "a.yml", "a"] {
        let source = Source::new(name, text.as_ref());
        match split(&source) {
            Ok(front) => {
                let yaml = &text[front.yaml.start..front.yaml.end];
                let body = front.body.map_or("", |start| &text[start..]);
                assert!(front.body.is_none_or(|start| start > front.yaml.end));
                assert!(text.ends_with(body) && yaml.len() + body.len() <= text.len());
                if front.body.is_some() {
                    assert!(!yaml.lines().any(|line| line.trim_end() == "---"));
                }
            }
            Err(problem) => check_problems(&[*problem], &source),
        }
    }
}

/// A record: read, resolved, examined; twice the same; every grant covers itself and prints back.
pub fn record(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for name in ["a.md", "a.yml"] {
        let source = Source::new(name, text.as_ref());
        let (manifest, problems) = Manifest::parse(source.clone(), &facts());
        assert_eq!(Manifest::parse(source.clone(), &facts()).1, problems);
        check_problems(&problems, &source);
        let Some(manifest) = manifest else { continue };
        assert!(text.ends_with(manifest.body()));
        let (policy, problems) = Policy::resolve(&manifest, &Config::default(), &facts());
        check_problems(&problems, &source);
        check_problems(&sbx::doctor::examine(source, &Config::default(), &facts()), manifest.source());
        for grant in policy.grants() {
            assert_eq!(Spec::parse(&grant.spec.to_string()).as_ref(), Ok(&grant.spec));
            assert!(covers_grant(&policy, grant), "{}", grant.spec);
        }
        // Nothing is opened by a record that grants nothing.
        let request = Request::path(sbx::capability::Capability::FsRead, "/etc/passwd");
        let allowed = decide(&policy, &request).is_allowed();
        assert!(!allowed || policy.holds(sbx::capability::Capability::FsRead));
    }
}

/// A compact spec: what is read prints, what is printed reads back, and is one item of a list.
pub fn compact_spec(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Spec::parse(&text) {
        Ok(spec) => {
            let printed = spec.to_string();
            assert_eq!(Spec::parse(&printed).as_ref(), Ok(&spec), "{printed}");
            let tokens: Vec<&str> = split_list(&printed).into_iter().map(|(token, _)| token).collect();
            assert_eq!(tokens, [printed.as_str()]);
            assert!(printed.len() <= 2 * text.len() + 16);
        }
        Err(error) => check_problems(error.problems(), error.source()),
    }
    match parse_spec(&text, &facts()) {
        Ok(spec) => {
            let policy = Policy::from_specs("a", std::slice::from_ref(&spec), &facts());
            // An absolute path under a root yet unknown is checked when the root is known.
            if let Ok(policy) = policy {
                assert!(sbx::covers(&policy, &spec), "{spec}");
            }
        }
        Err(error) => assert!(!error.problems().is_empty()),
    }
    let parts: usize = split_list(&text).iter().map(|(token, _)| token.len()).sum();
    assert!(parts <= text.len());
}

/// Hosts: one spelling each, stable under printing; patterns and targets agree with hosts.
pub fn host(data: &[u8]) {
    let (pattern, text) = two_parts(data);
    let _ = Target::from_url(&text);
    if let Ok(target) = Target::parse(&text) {
        assert_eq!(Target::parse(&target.to_string()).as_ref(), Ok(&target));
    }
    let pattern = HostPattern::parse(&pattern);
    if let Ok((pattern, port)) = &pattern {
        let printed = port.map_or_else(|| pattern.to_string(), |port| format!("{pattern}:{port}"));
        assert_eq!(HostPattern::parse(&printed).as_ref(), Ok(&(pattern.clone(), *port)), "{printed}");
        assert!(pattern.covers(pattern));
    }
    let Ok(host) = Host::parse(&text) else { return };
    let printed = host.to_string();
    assert_eq!(Host::parse(&printed).as_ref(), Ok(&host));
    let odd = |c: char| c.is_ascii_uppercase() || c.is_control() || c.is_whitespace() || !c.is_ascii();
    assert!(!printed.contains(odd), "{printed:?}");
    let exact = HostPattern::Exact(host.clone());
    assert!(exact.matches(&host) && exact.names(&host));
    if let Ok((pattern, _)) = pattern {
        assert_eq!(pattern.matches(&host), pattern.covers(&exact));
        assert!(!pattern.covers(&HostPattern::Any) || HostPattern::Any.covers(&pattern));
        assert!(!(host.is_inside() && pattern.matches(&host)) || pattern.names(&host));
    }
}

/// Command patterns: the first line and the second are patterns, the rest is a command line.
pub fn pattern(data: &[u8]) {
    let (first, rest) = two_parts(data);
    let (second, rest) = two_parts(rest.as_bytes());
    let argv: Vec<&str> = rest.split('\n').collect();
    let fits = |pattern: &CommandPattern| {
        let arguments = argv[1..].iter().map(|argument| argument.as_bytes());
        pattern.matches_program(argv[0].as_bytes()) && pattern.matches_arguments(arguments)
    };
    if first.len() * rest.len() < 1 << 16 {
        assert_eq!(matches_segment(&first, rest.as_bytes()), slow_match(&first, &rest), "{first:?} {rest:?}");
    }
    let (Ok(first), Ok(second)) = (CommandPattern::parse(&first), CommandPattern::parse(&second)) else {
        return;
    };
    assert_eq!(CommandPattern::parse(first.as_str()).as_ref(), Ok(&first));
    assert!(first.covers(&first));
    assert!(!first.covers(&second) || !fits(&second) || fits(&first), "{first} does not cover {second}");
}

/// `*` is any run, `?` one character: row by row, nothing clever.
fn slow_match(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut row: Vec<bool> = (0..=text.len()).map(|at| at == 0).collect();
    for wanted in pattern.chars() {
        let mut next = vec![wanted == '*' && row[0]];
        for (at, c) in text.iter().enumerate() {
            next.push(match wanted {
                '*' => row[at + 1] || next[at],
                '?' => row[at],
                literal => row[at] && literal == *c,
            });
        }
        row = next;
    }
    row[text.len()]
}

/// Edits: the first line is a spec, the rest a record. Granting adds it and nothing else, once.
pub fn edit(data: &[u8]) {
    let (spec, text) = two_parts(data);
    let Ok(spec) = parse_spec(&spec, &facts()) else { return };
    let source = Source::new("a.md", text.as_str());
    let (Some(before), odd) = Manifest::parse(source.clone(), &facts()) else { return };
    if let Ok(change) = grant(&source, &spec, &facts()) {
        let Some(granted) = change.text else { return };
        let source = Source::new("a.md", granted.as_str());
        let (after, _) = Manifest::parse(source.clone(), &facts());
        let after = after.unwrap_or_else(|| panic!("unreadable after an edit: {granted}"));
        assert_eq!(after.body(), before.body());
        assert_eq!(after.sections(), before.sections());
        assert!(specs(&after).contains(&spec.to_string()), "{granted}");
        let again = grant(&source, &spec, &facts());
        assert!(again.is_ok_and(|change| change.text.is_none()), "granting twice changes twice: {granted}");
        let revoked = revoke(&source, &spec, &facts()).map(|change| change.text);
        let revoked = match revoked {
            Ok(revoked) => revoked,
            // A list with entries that are no grants may be laid out in a way that is only added to.
            Err(EditError::Unusual) if !odd.is_empty() => return,
            Err(error) => panic!("cannot be taken back: {error}\n{granted}"),
        };
        let source = Source::new("a.md", revoked.unwrap_or(granted));
        let (last, _) = Manifest::parse(source, &facts());
        assert!(last.is_some_and(|last| !specs(&last).contains(&spec.to_string())));
    }
    if let Ok(change) = revoke(&source, &spec, &facts()) {
        let text = change.text.unwrap_or(text);
        let (after, _) = Manifest::parse(Source::new("a.md", text), &facts());
        assert!(after.is_some_and(|after| after.body() == before.body()));
    }
}

fn specs(manifest: &Manifest) -> BTreeSet<String> {
    sbx::manifest::expand(manifest).iter().map(|grant| grant.spec.to_string()).collect()
}

/// Definitions of tools: read or refused with a place, twice the same, and what is read can be called.
pub fn tool_definition(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for name in ["t.toml", "t.yml", "t.json", "t.md"] {
        let source = Source::new(name, text.as_ref());
        let read = read_definitions(&source, Layer::User);
        let again = read_definitions(&source, Layer::User);
        assert_eq!(read.faults, again.faults);
        let problems: Vec<Problem> = read.faults.iter().map(Fault::to_problem).collect();
        check_problems(&problems, &source);
        for tool in &read.tools {
            for name in tool.placeholders() {
                assert!(tool.param(name).is_some(), "{name} of {}", tool.name);
            }
            assert!(!tool.name.contains('/') && !tool.needs().is_empty());
            // The least a record could grant that covers it does not run a second program.
            assert!(
                tool.needs().iter().all(|need| Spec::parse(&need.to_string()).as_ref() == Ok(need)),
                "{:?}",
                tool.needs()
            );
        }
    }
}

/// Values in a line and in a list: whatever is bound holds the values whole, and the script does not change.
pub fn tool_value(data: &[u8]) {
    let (line, value) = two_parts(data);
    let facts = facts();
    let resolve = |path: &std::path::Path| path.to_path_buf();
    let around =
        Surroundings { facts: &facts, session_dir: None, cwd: std::path::Path::new("/w"), resolve: &resolve };
    if let Ok(parsed) = ShellLine::parse(&line) {
        // No value is in the script: it is the line with numbers in place of names.
        let mut rebuilt = parsed.script.clone();
        for (at, name) in parsed.names.iter().enumerate() {
            rebuilt = rebuilt.replace(&format!("\"${{{}}}\"", at + 1), &format!("${{{name}}}"));
        }
        assert!(parsed.names.is_empty() || rebuilt == line, "{rebuilt:?} for {line:?}");
    }
    let template = Template::parse(&line, Syntax::Dollar);
    let filled = template.fill::<()>(|_| Ok(value.clone())).expect("filled");
    let whole: String = template
        .pieces()
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Value(_) => value.as_str(),
        })
        .collect();
    assert_eq!(filled, whole);
    for kind in [
        Kind::Path { prefix: Some("/w/a".to_owned()) },
        Kind::Duration,
        Kind::Int { min: Some(-5), max: Some(5) },
        Kind::Float { min: None, max: Some(1.0) },
        Kind::Bool,
        Kind::Identifier,
    ] {
        let mut param = Param::plain("p");
        param.kind = kind;
        if let Ok(passed) = param.check(&value, &around) {
            assert!(!passed.contains('\0'));
            match &param.kind {
                Kind::Path { .. } => assert!(std::path::Path::new(&passed).starts_with("/w/a"), "{passed:?}"),
                _ => assert_eq!(passed, value),
            }
        }
    }
}

/// Shell text: read or refused, twice the same, within its bounds; what is not understood is not allowed, and
/// a policy that holds nothing proves nothing that starts a program.
pub fn risk(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (scene, rules) = (Scene::new("/home/u").at("/home/u/app"), RuleSet::builtin());
    let (settings, context) = (RiskSettings::default(), Context::default());
    let start = std::time::Instant::now();
    let found = assess(&text, &scene, &rules, &settings, &context);
    // Generous, for a busy machine and a slow build: what is hunted is growth without bound.
    assert!(start.elapsed().as_secs() < 20, "{:?} for {} bytes", start.elapsed(), text.len());
    let body = found.to_json();
    assert_eq!(body, assess(&text, &scene, &rules, &settings, &context).to_json());
    assert!(found.error().is_none() || !found.allowed(), "what cannot be read is allowed");
    for matched in found.matched() {
        assert!(matched.span.start <= matched.span.end && matched.span.end <= text.len(), "{matched:?}");
        assert!(text.get(matched.span.start..matched.span.end).is_some(), "{matched:?} splits a character");
    }
    assert!(body["argv"].as_array().is_some_and(|argv| argv.len() <= 200));
    let policy = Policy::from_specs("a", &[], &facts()).unwrap_or_else(|error| panic!("{error:?}"));
    let proof = prove(&policy, &text, &scene);
    let starts = proof.steps.iter().any(|step| step.capability.name().starts_with("proc."));
    assert!(!starts || !proof.holds());
}

/// What the risk layer's reader of shell takes a line for, when that is certain.
fn read_as_shell(line: &str) -> Option<Vec<String>> {
    let (scene, rules) = (Scene::new("/home/u").at("/home/u/app"), RuleSet::builtin());
    let found = assess(line, &scene, &rules, &RiskSettings::default(), &Context::default()).to_json();
    let words: Vec<Vec<String>> = serde_json::from_value(found["argv"].clone()).unwrap_or_default();
    let certain = found["opaque"] == false && found["code"] != "command_not_understood";
    words.into_iter().next().filter(|_| certain)
}

/// A hook's input and what is made of commands: read or refused, quoted and read back, and never two words.
pub fn hook(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for client in Client::ALL {
        let read = reads(client, &text);
        assert!(
            !read || serde_json::from_str::<serde_json::Value>(&text).is_ok(),
            "{client} reads what is not JSON"
        );
    }
    let quoted = quote(&text);
    assert_eq!(unquote(&quoted).as_deref(), Some(text.as_ref()));
    let legible = !text.contains(|c: char| c.is_control() && c != '\n');
    if let Some(words) = read_as_shell(&format!("echo {quoted}")).filter(|_| legible) {
        assert_eq!(words, ["echo", text.as_ref()], "{quoted}");
    }
    if let Some(said) = unquote(&text) {
        assert_eq!(quote(&said), text);
    }
    if let Some(words) = plain_words(&text) {
        let read = read_as_shell(&text);
        assert!(
            read.as_ref().is_none_or(|read| *read == words),
            "{text:?} is {words:?}, and a shell reads {read:?}"
        );
    }
    for (_, file) in files_of_patch(&text).unwrap_or_default() {
        assert!(!file.is_empty() && text.contains(file));
    }
}

/// Tasks for the helper that works behind an agent's fence: any bytes are read or refused, and what is read is written
/// the same.
pub fn helper_task(data: &[u8]) {
    sbx::hands::read_tasks(data);
    // Few bytes are lengths that fit; so the same as a head, alone and with a body.
    let length = |part: &[u8]| u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes();
    for (head, body) in [(data, &[][..]), (data, data)] {
        let message = [&length(head)[..], &length(body), head, body].concat();
        assert!(sbx::hands::read_tasks(&message) <= 1);
    }
}

#[derive(Debug)]
struct Silent;

impl Teller for Silent {
    fn tell(&self, _line: &str) {}
}

/// The server of an agent that may do nothing, so that whatever is called does no harm.
static SERVER: LazyLock<Option<Arc<Server>>> = LazyLock::new(|| {
    let policy = Policy::from_specs("nobody", &[], &facts()).ok()?;
    let setting = Setting::with_facts(facts()).ok()?;
    let means = Means::new("fuzz", None, Vec::new(), Arc::new(sbx::audit::Nowhere));
    let scene = sbx::mcp::serve::Scene::new(setting, policy, sbx::tool::Toolbox::default(), "/w/app");
    Some(Server::new(scene, means, Arc::new(Silent)))
});

/// Lines for a server of the Model Context Protocol: each is answered at most once, with messages that can be read in
/// one way only, and nothing is done.
pub fn serve(data: &[u8]) {
    assert!(SERVER.is_some(), "an agent that may do nothing can always be served");
    let Some(server) = SERVER.as_ref() else { return };
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let said = RefCell::new(Vec::new());
        match server.handle(line) {
            Handled::Nothing => {}
            Handled::Answer(answer) => said.borrow_mut().push(answer),
            Handled::Call(job) => job.run(&|line| said.borrow_mut().push(line.to_owned())),
        }
        let said = said.into_inner();
        let answers = said.iter().filter(|line| !line.contains("\"method\":")).count();
        assert!(answers <= 1, "{said:?}");
        for line in &said {
            assert!(line.ends_with('\n'), "{line} does not end");
            let text = line.trim_end_matches('\n');
            assert!(Message::read(text.as_bytes()).is_ok_and(|message| !message.separators), "{text}");
        }
    }
}

#[derive(Debug)]
struct Quiet;

impl sbx::mcp::Teller for Quiet {
    fn tell(&self, line: &str) {
        assert!(!line.is_empty());
    }
}

/// The gate before an MCP server: whatever some reader takes for a denied call never gets through, in either
/// direction one line stays one line, and what was answered once is not answered again.
pub fn mcp_gate(data: &[u8]) {
    let record = Source::new("a.yml", format!("id: a\nmcp:\n{}", readers::RULES));
    let Some(manifest) = Manifest::parse(record, &facts()).0 else { return };
    let Some(section) = manifest.sections().mcp.clone() else { return };
    let specs: Vec<Spec> = Spec::parse("fs.read{in=/w}").into_iter().collect();
    let Ok(policy) = Policy::from_specs("a", &specs, &facts()) else { return };
    let rules = sbx::mcp::Rules::of(policy, &section, "/w");
    let gate =
        sbx::mcp::Gate::new(rules, "s", std::sync::Arc::new(sbx::audit::Nowhere), std::sync::Arc::new(Quiet));
    for (at, line) in data.split(|byte| *byte == b'\n').take(64).enumerate() {
        let to_server = at % 2 == 0;
        let passage = if to_server { gate.from_client(line) } else { gate.from_server(line) };
        let passed = match passage {
            sbx::mcp::Passage::AsIs => {
                String::from_utf8(line.to_vec()).unwrap_or_else(|_| panic!("passed, and no text"))
            }
            sbx::mcp::Passage::Instead(line) => {
                assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line:?}");
                line
            }
            sbx::mcp::Passage::Back(line) => {
                assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line:?}");
                continue;
            }
            sbx::mcp::Passage::Dropped => continue,
        };
        assert!(
            serde_json::from_str::<serde_json::Value>(&passed).is_ok_and(|value| value.is_object()),
            "{passed:?}"
        );
        assert!(!to_server || !readers::runs_denied(&passed), "{passed:?}");
    }
}
