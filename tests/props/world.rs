//! The small world in which properties are tried: few names, so that grants and requests often meet.

use proptest::prelude::*;
use proptest::sample::select;
use sbx::capability::{CATALOG, Capability, Family, Scope, ScopeKey, Spec, Target, ValueKind};
use sbx::{Config, Facts, Manifest, Policy, Request, Source};
use std::net::IpAddr;

pub(crate) const HOME: &str = "/home/u";
pub(crate) const PROJECT: &str = "/w/app";

pub(crate) fn facts() -> Facts {
    Facts::new(HOME).at(PROJECT)
}

/// How many cases to try: the number given, unless `PROPTEST_CASES` says otherwise.
pub(crate) fn cases(number: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(number), failure_persistence: None, ..ProptestConfig::default() }
}

const ROOTS: &[&str] = &[
    "/",
    "/w",
    "/w/app",
    "/w/app/lib",
    "/w/app/.git",
    "/w/app/.git/hooks",
    "/w/application",
    "/srv",
    "~",
    "~/p",
    "$PROJECT",
    "$PROJECT/lib",
    "/w/app/../app/a",
];
const ENTRIES: &[&str] = &[
    "a",
    "b",
    "lib",
    "lib/a",
    "lib/a/b",
    "lib/*",
    "lib/**",
    "lib/**/a",
    "**",
    "*",
    "?",
    "**/a",
    "**/*.rs",
    "*.rs",
    "lib/*.rs",
    ".",
    "./lib",
    "lib/../a",
    ".git",
    ".git/hooks",
    ".git/hooks/a",
    ".git/**",
    "**/hooks/**",
    "hooks",
    ".bashrc",
    ".vscode",
    ".sbx",
    "*b*/*a",
];
const NAMES: &[&str] = &[
    "a", "b", "lib", "x.rs", "é", "~", "a*b", ".git", "hooks", "config", ".bashrc", ".vscode", ".sbx", "app",
];
const HOSTS: &[&str] = &[
    "*",
    "*.com",
    "*.x.com",
    "*.a.x.com",
    "x.com",
    "a.x.com",
    "b.a.x.com",
    "X.com.",
    "notx.com",
    "localhost",
    "*.localhost",
    "127.0.0.1",
    "10.0.0.1",
    "8.8.8.8",
    "[::1]",
    "[2606:4700::1]",
];
const PORTS: &[Option<u16>] = &[None, Some(80), Some(443), Some(8080)];
const CMDS: &[&str] = &["git", "rg", "g", "/usr/bin/git", "./tool", "bin/tool", "~/bin/t", "../tool"];
const PATTERNS: &[&str] = &[
    "*",
    "git",
    "git:*",
    "git *",
    "git log",
    "git log *",
    "git * --stat",
    "git * *",
    "git log -? *",
    "git lo*",
    "git lo* *",
    "g*:*",
    "g* log",
    "* log",
    "/usr/bin/git:*",
    "/usr/bin/git log *",
    "./tool a",
    "bin/tool *",
    "/usr/*/git *",
];
const PROGRAMS: &[&str] = &[
    "git",
    "rg",
    "g",
    "gt",
    "tool",
    "/usr/bin/git",
    "./tool",
    "bin/tool",
    "../tool",
    "~/bin/t",
    "a b",
    "/x y/z",
];
const ARGUMENTS: &[&str] = &["log", "lo", "--stat", "-p", "-€", "a", "a/b", "*", ""];
const CLASSES: &[&str] = &["note", "task", "inbox"];
const RECORD_PATHS: &[&str] = &["a", "a/b", "a/*", "a/**", "**", "*.md", "agents", "./a"];
const RECORDS: &[&str] =
    &["a", "a/b", "a/b/c", "b", "x.md", "a*", "agents/scout", "./agents/scout", "a/../b", "../a", "/a"];
const AGENTS: &[&str] = &["scout", "agents/scout", "builder", "team/x", "me", "agents/me", "./me", "a/../me"];
const AGENT_PATHS: &[&str] = &["scout", "agents/**", "agents/*", "team/*", "*", "**", "me"];

/// Who holds the policies that are compared.
pub(crate) const AGENT: &str = "me";

fn some_of(items: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(select(items).prop_map(str::to_owned), 0..4)
}

fn host_entry() -> impl Strategy<Value = String> {
    (select(HOSTS), select(PORTS)).prop_map(|(host, port)| match port {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

fn value(capability: Capability, key: ScopeKey) -> BoxedStrategy<Vec<String>> {
    let one = |items| select(items).prop_map(|item: &str| vec![item.to_owned()]).boxed();
    match key {
        ScopeKey::In => one(ROOTS),
        ScopeKey::Id => one(AGENTS),
        ScopeKey::Ids => some_of(AGENTS).boxed(),
        ScopeKey::Cmds => some_of(CMDS).boxed(),
        ScopeKey::Patterns => some_of(PATTERNS).boxed(),
        ScopeKey::Hosts => proptest::collection::vec(host_entry(), 0..4).boxed(),
        ScopeKey::Classes => some_of(CLASSES).boxed(),
        ScopeKey::Paths if capability.family() == Family::Fs => some_of(ENTRIES).boxed(),
        ScopeKey::Paths if capability.family() == Family::Agent => some_of(AGENT_PATHS).boxed(),
        ScopeKey::Paths => some_of(RECORD_PATHS).boxed(),
    }
}

fn with_value(scope: Scope, key: ScopeKey, items: Vec<String>) -> Scope {
    match key.kind() {
        ValueKind::Text => items.into_iter().fold(scope, |scope, item| scope.with_text(key, item)),
        ValueKind::List => scope.with_list(key, items),
    }
}

/// A grant of one capability; a root is written more often than not.
pub(crate) fn spec_of(capability: Capability) -> BoxedStrategy<Spec> {
    let none = Just(Spec { capability, scope: Scope::bare() }).boxed();
    capability.keys().iter().fold(none, |spec, key| {
        let key = *key;
        let often = if key == ScopeKey::In { 0.8 } else { 0.6 };
        (spec, proptest::option::weighted(often, value(capability, key)))
            .prop_map(move |(spec, items)| match items {
                Some(items) => Spec { scope: with_value(spec.scope, key, items), ..spec },
                None => spec,
            })
            .boxed()
    })
}

pub(crate) fn any_capability() -> impl Strategy<Value = Capability> {
    (0..CATALOG.len()).prop_map(|row| CATALOG[row].capability)
}

pub(crate) fn any_spec() -> impl Strategy<Value = Spec> {
    any_capability().prop_flat_map(spec_of)
}

/// A request in plain words, so that the reference matcher can read it too.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Path { capability: Capability, path: String },
    Host { capability: Capability, host: String, port: Option<u16>, address: Option<IpAddr> },
    Exec { argv: Vec<String>, cwd: Option<String>, found: Option<String> },
    Eval { cwd: Option<String> },
    Record { capability: Capability, id: Option<String>, class: Option<String> },
    Agent { capability: Capability, id: String },
}

impl Ask {
    pub(crate) fn request(&self) -> Request {
        match self {
            Self::Path { capability, path } => Request::path(*capability, path),
            Self::Host { capability, host, port, address } => {
                let target = Target::parse(host).map(|target| Target { port: *port, ..target });
                let request = Request::target(*capability, target);
                address.iter().fold(request, |request, ip| request.resolved_to(*ip))
            }
            Self::Exec { argv, cwd, found } => {
                let request = cwd.iter().fold(Request::exec(argv), Request::in_dir);
                found.iter().fold(request, Request::found_at)
            }
            Self::Eval { cwd } => cwd.iter().fold(Request::eval("ls").unwrap(), Request::in_dir),
            Self::Record { capability, id, class } => {
                Request::record(*capability, id.as_deref(), class.as_deref())
            }
            Self::Agent { capability, id } => Request::agent(*capability, id),
        }
    }
}

fn place() -> impl Strategy<Value = String> {
    let root = select(&["/w", "/w/app", "/w/app/lib", "/w/app/.git/hooks", "/home/u/p", "/", "/srv"][..]);
    let below = proptest::collection::vec(select(NAMES), 0..4);
    (root, below).prop_map(|(root, below)| {
        below.iter().fold(root.to_owned(), |path, name| format!("{}/{name}", path.trim_end_matches('/')))
    })
}

fn word(items: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(items).prop_map(str::to_owned)
}

fn ask_exec() -> impl Strategy<Value = Ask> {
    let argv = (word(PROGRAMS), proptest::collection::vec(word(ARGUMENTS), 0..4))
        .prop_map(|(program, rest)| std::iter::once(program).chain(rest).collect());
    let found = proptest::option::weighted(0.3, Just("/usr/bin/git".to_owned()));
    (argv, proptest::option::of(place()), found).prop_map(|(argv, cwd, found)| Ask::Exec { argv, cwd, found })
}

/// A request for one capability. Addresses lead outside unless `inside` is set.
pub(crate) fn ask_of(capability: Capability, inside: bool) -> BoxedStrategy<Ask> {
    let address: &[Option<IpAddr>] =
        &[None, Some(IpAddr::from([93, 184, 216, 34])), Some(IpAddr::from([10, 0, 0, 1]))];
    let address = select(address[..if inside { 3 } else { 2 }].to_vec());
    let target = HOSTS.iter().copied().filter(|host| !host.contains('*')).collect::<Vec<_>>();
    match capability.family() {
        Family::Fs => place().prop_map(move |path| Ask::Path { capability, path }).boxed(),
        Family::Net => (select(target), select(PORTS), address)
            .prop_map(move |(host, port, address)| Ask::Host {
                capability,
                host: host.to_owned(),
                port,
                address,
            })
            .boxed(),
        Family::Proc if capability == Capability::ProcEval => {
            proptest::option::of(place()).prop_map(|cwd| Ask::Eval { cwd }).boxed()
        }
        Family::Proc => ask_exec().boxed(),
        Family::Records => (proptest::option::of(word(RECORDS)), proptest::option::of(word(CLASSES)))
            .prop_map(move |(id, class)| Ask::Record { capability, id, class })
            .boxed(),
        Family::Agent => word(AGENTS).prop_map(move |id| Ask::Agent { capability, id }).boxed(),
    }
}

/// Levels above the grants, as texts of roots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    pub(crate) config: Option<String>,
    pub(crate) project: Option<String>,
    pub(crate) agent: Option<String>,
}

pub(crate) fn any_level() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(word(&["/w", "/w/app", "/w/app/lib", "/w/app/.git", "/srv", "/home/u", "/"]))
}

pub(crate) fn any_levels() -> impl Strategy<Value = Levels> {
    (any_level(), any_level(), any_level()).prop_map(|(config, project, agent)| Levels {
        config,
        project,
        agent,
    })
}

/// A record that holds the specs, as text.
pub(crate) fn record_text(specs: &[Spec], agent_root: Option<&str>) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let sandbox =
        agent_root.map_or_else(String::new, |root| format!("sandbox: {{root: {}}}\n", quoted(root)));
    let list: Vec<String> = specs.iter().map(|spec| quoted(&spec.to_string())).collect();
    format!("id: {AGENT}\n{sandbox}capabilities: [{}]\n", list.join(", "))
}

/// What the specs come to below the levels; grants that the record's reader drops are dropped.
pub(crate) fn resolve(specs: &[Spec], levels: &Levels) -> Policy {
    let facts = facts().found_in(levels.project.clone().map(Into::into));
    let text = record_text(specs, levels.agent.as_deref());
    let (manifest, problems) = Manifest::parse(Source::new("me.yml", text), &facts);
    let manifest = manifest.unwrap_or_else(|| panic!("{problems:?}"));
    let config = levels.config.as_ref().map_or_else(Config::default, |root| {
        let (config, problems) =
            Config::parse(Source::new("config.yml", format!("sandbox: {root}\n")), &facts);
        config.unwrap_or_else(|| panic!("{problems:?}"))
    });
    Policy::resolve(&manifest, &config, &facts).0
}
