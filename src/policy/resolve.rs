//! From a record to a policy: shorthands spelled out, roots placed and narrowed.

use super::chain::{Chain, Level, LevelName};
use super::grant::{Command, Grant, GrantId, PlacedScope, place_file};
use super::index::Index;
use crate::capability::{
    Capability, CommandPattern, Family, HostPattern, Scope, ScopeKey, Spec, Token, has_separator,
};
use crate::manifest::{
    Config, Facts, Limits, Manifest, PathEntry, Proxy, Sections, WrittenGrant, WrittenIn, expand,
    expand_root, normalize_id,
};
use crate::text::{Code, Place, Problem, Span};
use sbx_platform::path::within;
use std::path::{Path, PathBuf};

/// What an agent holds.
#[derive(Clone, Debug)]
pub struct Policy {
    agent: String,
    grants: Vec<Grant>,
    chain: Chain,
    index: Index,
    sections: Sections,
    limits: Limits,
    accept_degraded: Vec<String>,
    facts: Facts,
    record: Option<PathBuf>,
    lock_file: Option<PathBuf>,
    proxy: Option<Proxy>,
    /// Files that are listed as programs, in order; empty where anything can be run.
    listed: Vec<PathBuf>,
}

/// What a grantor wants another agent to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proposal {
    /// The grants.
    pub grants: Vec<Spec>,
    /// The other agent's own level of the hoist chain.
    pub root: Option<PathBuf>,
}

impl Proposal {
    /// Proposes grants to an agent without a level of its own.
    #[must_use]
    pub fn new(grants: Vec<Spec>) -> Self {
        Self { grants, root: None }
    }

    /// Sets the agent's own level.
    #[must_use]
    pub fn root(mut self, root: Option<PathBuf>) -> Self {
        self.root = root;
        self
    }
}

impl Policy {
    /// Places a record in the world. Problems say what was narrowed, dropped or is inert.
    ///
    /// ```
    /// use sbx::{Config, Facts, Manifest, Policy, Source};
    /// let facts = Facts::new("/home/u");
    /// let (manifest, _) = Manifest::parse(Source::new("a.yml", "sandbox: ~/work\n"), &facts);
    /// let (policy, problems) = Policy::resolve(&manifest.unwrap(), &Config::default(), &facts);
    /// assert!(problems.is_empty());
    /// assert_eq!(policy.grants().len(), 4);
    /// ```
    #[must_use]
    pub fn resolve(manifest: &Manifest, config: &Config, facts: &Facts) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let chain = chain_of(manifest, config, facts, &mut problems);
        let written = expand(manifest);
        let mut grants = Vec::with_capacity(written.len());
        for grant in &written {
            let place = Some(manifest.source().place(grant.span.start));
            match place_grant(&grant.spec, place, grant.origin, &chain, facts) {
                Ok(placed) => {
                    problems.extend(clamp_problem(&placed, &chain, grant.span));
                    grants.push(placed);
                }
                Err(found) => problems.extend(found.into_iter().map(|problem| problem.at(grant.span))),
            }
        }
        disarm_planted_roots(&mut grants, &written, facts, &mut problems);
        problems.extend(inert_problem(&grants, &written));
        let mut policy = Self::assemble(manifest.id(), grants, chain, facts);
        policy.sections = manifest.sections().clone();
        policy.limits = narrow_limits(&manifest.sections().limits, &config.limits);
        policy.accept_degraded = config.accept_degraded.clone();
        policy.accept_degraded.extend(manifest.sections().accept_degraded.iter().cloned());
        policy.record = Some(PathBuf::from(manifest.source().name())).filter(|path| path.is_absolute());
        policy.lock_file = lock_file(&policy);
        policy.proxy.clone_from(&config.proxy);
        (policy, problems)
    }

    /// The proxy further out that its network goes through.
    #[must_use]
    pub fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// A policy made of specs alone, for requirements and tests.
    ///
    /// # Errors
    /// When a spec cannot be placed.
    pub fn from_specs(agent: &str, specs: &[Spec], facts: &Facts) -> Result<Self, Vec<Problem>> {
        let chain = Chain::default();
        let place = |spec| place_grant(spec, None, WrittenIn::Capabilities, &chain, facts);
        let grants = specs.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::assemble(agent, grants, chain, facts))
    }

    fn assemble(agent: &str, grants: Vec<Grant>, chain: Chain, facts: &Facts) -> Self {
        Self {
            agent: normalize_id(agent).to_owned(),
            index: Index::new(&grants),
            listed: listed(&grants),
            grants,
            chain,
            sections: Sections::default(),
            limits: Limits::default(),
            accept_degraded: Vec::new(),
            facts: facts.clone(),
            record: None,
            lock_file: None,
            proxy: None,
        }
    }

    /// This policy with other grants and sections; for narrowing only.
    pub(super) fn with_grants(&self, grants: Vec<Grant>, change: impl FnOnce(&mut Sections)) -> Self {
        let mut sections = self.sections.clone();
        change(&mut sections);
        // Every field by name: a new one must not be forgotten here.
        Self {
            agent: self.agent.clone(),
            index: Index::new(&grants),
            grants,
            chain: self.chain.clone(),
            sections,
            limits: self.limits.clone(),
            accept_degraded: self.accept_degraded.clone(),
            facts: self.facts.clone(),
            record: self.record.clone(),
            lock_file: self.lock_file.clone(),
            proxy: self.proxy.clone(),
            // A tool that is called for runs less, and may change no more.
            listed: self.listed.clone(),
        }
    }

    /// Files that grants list as programs; none where anything can be run. Changing one would be running another.
    #[must_use]
    pub fn listed_programs(&self) -> &[PathBuf] {
        &self.listed
    }

    /// Whether only listed programs can be run.
    #[must_use]
    pub fn runs_only_listed(&self) -> bool {
        runs_only_listed(&self.grants)
    }

    /// This policy with other limits; for narrowing only.
    pub(super) fn limited(mut self, change: impl FnOnce(&Limits) -> Limits) -> Self {
        self.limits = change(&self.limits);
        self
    }

    /// Places a proposal as the other agent's record would be placed.
    pub(crate) fn place_proposal(&self, proposal: &Proposal) -> Result<Vec<Grant>, Vec<Problem>> {
        let outer = self.chain.levels().iter().filter(|level| level.name < LevelName::Agent).cloned();
        let own = proposal.root.iter().map(|root| Level {
            name: LevelName::Agent,
            root: self.facts.real(root),
            place: None,
        });
        let chain = outer.chain(own).fold(Chain::default(), Chain::push);
        let place = |spec| place_grant(spec, None, WrittenIn::Capabilities, &chain, &self.facts);
        proposal.grants.iter().map(place).collect()
    }

    /// Places a requirement; one without a root takes the root of the grant that would hold it.
    pub(crate) fn place_requirement(&self, spec: &Spec, root: Option<&Path>) -> Result<Grant, Vec<Problem>> {
        let level = root.map(|root| Level { name: LevelName::Agent, root: root.to_path_buf(), place: None });
        let chain = level.into_iter().fold(Chain::default(), Chain::push);
        place_grant(spec, None, WrittenIn::Capabilities, &chain, &self.facts)
    }

    /// Who holds it.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Every grant, in the order of the record.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// One grant.
    #[must_use]
    pub fn grant(&self, id: GrantId) -> &Grant {
        &self.grants[id.0 as usize]
    }

    /// The grants of one capability.
    pub fn held(&self, capability: Capability) -> impl Iterator<Item = &Grant> {
        self.index.held(capability).iter().map(|id| self.grant(*id))
    }

    /// Whether the capability is held at all.
    #[must_use]
    pub fn holds(&self, capability: Capability) -> bool {
        !self.index.held(capability).is_empty()
    }

    /// The levels above the grants.
    #[must_use]
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The sections of the record that sbx owns.
    #[must_use]
    pub fn sections(&self) -> &Sections {
        &self.sections
    }

    /// Resource limits, the config's narrowed by the agent's.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Guarantees the user can do without.
    #[must_use]
    pub fn accept_degraded(&self) -> &[String] {
        &self.accept_degraded
    }

    /// The facts it was placed with.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The file its record was read from.
    #[must_use]
    pub fn record(&self) -> Option<&Path> {
        self.record.as_deref()
    }

    /// The lock file of MCP servers that its record names.
    #[must_use]
    pub fn lock_file(&self) -> Option<&Path> {
        self.lock_file.as_deref()
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }
}

/// The lock file that a record names, from where the record stands.
fn lock_file(policy: &Policy) -> Option<PathBuf> {
    let named = policy.sections.mcp.as_ref()?.pins.as_deref()?;
    let beside = policy.record().and_then(Path::parent).unwrap_or(&policy.facts.cwd);
    Some(match named.strip_prefix("~/") {
        Some(rest) => policy.facts.home.join(rest),
        // What `..` leads to is known once links are followed.
        None => beside.join(named),
    })
}

fn chain_of(manifest: &Manifest, config: &Config, facts: &Facts, problems: &mut Vec<Problem>) -> Chain {
    let config_level = config.sandbox.as_ref().and_then(|(root, span)| {
        let place = config.source.as_ref().map(|source| source.place(span.start));
        Some(Level { name: LevelName::Config, root: facts.real(root.path.as_ref()?), place })
    });
    let project_level = facts.found_in.as_ref().map(|project| Level {
        name: LevelName::Project,
        root: facts.real(project),
        place: None,
    });
    let agent_level = manifest.sandbox().and_then(|(root, span)| match &root.path {
        Some(path) => {
            let place = Some(manifest.source().place(span.start));
            Some(Level { name: LevelName::Agent, root: facts.real(path), place })
        }
        None => {
            problems.push(no_project("the agent's `sandbox`").at(span));
            None
        }
    });
    let levels = [config_level, project_level, agent_level];
    let chain = levels.into_iter().flatten().fold(Chain::default(), Chain::push);
    for clamp in chain.clamps() {
        let span = manifest.sandbox().map_or(Span::default(), |(_, span)| span);
        problems.push(clamped(&clamp.asked, &clamp.narrowed_to, chain.levels()).at(span));
    }
    chain
}

fn no_project(what: &str) -> Problem {
    Problem::warning(Code::Inert, format!("{what} is `$PROJECT`, and there is no project here"))
        .help("`$PROJECT` is never `/` or a home directory: work in a directory below, or name one")
}

fn clamped(asked: &Level, narrowed_to: &Path, levels: &[Level]) -> Problem {
    let outer = levels.iter().rev().find(|level| level.root == narrowed_to);
    let outer = outer.map_or_else(String::new, |level| match &level.place {
        Some(place) => format!(" of the {} ({}:{})", level.name, place.file, place.line),
        None => format!(" of the {}", level.name),
    });
    let message = format!(
        "the {} {} lies outside {}{outer} and was narrowed to that",
        asked.name,
        asked.root.display(),
        narrowed_to.display()
    );
    Problem::warning(Code::RootClamped, message)
        .help("a deeper root can only narrow; widen the outer one first")
}

fn clamp_problem(grant: &Grant, chain: &Chain, span: Span) -> Option<Problem> {
    let root = grant.root.as_deref().filter(|_| grant.clamped)?;
    let asked = Level {
        name: LevelName::Grant,
        root: PathBuf::from(grant.spec.scope.text(ScopeKey::In)?),
        place: None,
    };
    Some(clamped(&asked, root, chain.levels()).capability(grant.capability().name()).at(span))
}

/// One finding for all inert grants, as one missing root is usually the cause.
fn inert_problem(grants: &[Grant], written: &[WrittenGrant]) -> Option<Problem> {
    let mut inert = grants.iter().filter(|grant| grant.is_inert()).peekable();
    let first = inert.peek()?.spec.clone();
    let span = written.iter().find(|grant| grant.spec == first).map_or(Span::default(), |grant| grant.span);
    let mut names: Vec<&str> = inert.map(|grant| grant.capability().name()).collect();
    names.dedup();
    let allow = if names.len() == 1 { "allows" } else { "allow" };
    let all = names.join(", ");
    let in_project = first.scope.text(ScopeKey::In).is_some_and(|root| root.starts_with("$PROJECT"));
    let problem = if in_project {
        Problem::warning(Code::Inert, format!("{all} {allow} nothing here: `$PROJECT` stands for no directory"))
            .help("`$PROJECT` is never `/` or a home directory: work in a directory below, or name one with --project")
    } else {
        Problem::warning(Code::Inert, format!("{all} {allow} nothing: no level names a root"))
            .help("add `in: PATH` to the grant, or `sandbox: {root: PATH}` to the record")
    };
    let problem = problem.at(span);
    Some(names.into_iter().fold(problem, Problem::capability))
}

/// A root that is a link inside a place the agent may write could have been planted by the agent.
fn disarm_planted_roots(
    grants: &mut [Grant],
    written: &[WrittenGrant],
    facts: &Facts,
    problems: &mut Vec<Problem>,
) {
    if !facts.knows_links() {
        return;
    }
    let writable: Vec<PathBuf> = grants
        .iter()
        .filter(|grant| matches!(grant.capability(), Capability::FsWrite | Capability::FsDelete))
        .filter_map(|grant| grant.root.clone())
        .collect();
    for grant in grants.iter_mut() {
        let Some(root) = grant.root.take_if(|root| facts.is_loose(root)) else { continue };
        let span = written.iter().find(|w| w.spec == grant.spec).map_or(Span::default(), |w| w.span);
        let message =
            format!("the root {} lies behind a link that another agent may have turned", root.display());
        let help = "name the directory the link leads to; links are followed in the home itself, and where only root writes";
        let problem = Problem::warning(Code::PathEscapesIn, message).at(span).help(help);
        problems.push(problem.capability(grant.capability().name()));
    }
    for grant in grants.iter_mut().filter(|grant| grant.root.is_some()) {
        let own = grant.spec.scope.text(ScopeKey::In).and_then(|text| expand_root(text, facts).ok()?.path);
        let Some(own) = own.filter(|own| facts.real(own) != *own) else { continue };
        if writable.iter().any(|place| own != *place && within(&own, place)) {
            grant.root = None;
            let span = written.iter().find(|w| w.spec == grant.spec).map_or(Span::default(), |w| w.span);
            let message = format!("the root {} is a link inside a place the agent may write", own.display());
            problems.push(
                Problem::warning(Code::PathEscapesIn, message)
                    .at(span)
                    .capability(grant.capability().name())
                    .help("name the directory the link leads to"),
            );
        }
    }
}

/// Places one spec below a chain.
fn place_grant(
    spec: &Spec,
    place: Option<Place>,
    origin: WrittenIn,
    chain: &Chain,
    facts: &Facts,
) -> Result<Grant, Vec<Problem>> {
    let own = match spec.scope.text(ScopeKey::In).map(|text| expand_root(text, facts)).transpose() {
        Ok(own) => own,
        Err(problem) => return Err(vec![problem]),
    };
    let rooted = spec.capability.family().is_rooted();
    let own = own.map(|own| own.path);
    let (root, asked, clamped) = match &own {
        _ if !rooted => (None, None, false),
        // `$PROJECT` without a project: the grant is inert, not wide.
        Some(None) => (None, None, false),
        Some(Some(asked)) => {
            let (root, clamped) = chain.narrow(&facts.real(asked));
            (Some(root), Some(asked.as_path()), clamped)
        }
        None => (chain.root().map(Path::to_path_buf), chain.root(), false),
    };
    let scope = place_scope(spec, asked, facts)?;
    Ok(Grant { spec: spec.clone(), root, clamped, scope, place, origin })
}

fn place_scope(spec: &Spec, root: Option<&Path>, facts: &Facts) -> Result<PlacedScope, Vec<Problem>> {
    let scope = &spec.scope;
    Ok(match spec.capability.family() {
        Family::Records => PlacedScope::Records {
            classes: scope.list(ScopeKey::Classes).map(<[String]>::to_vec),
            paths: id_paths(scope)?,
        },
        Family::Agent => PlacedScope::Agent { ids: ids(scope), paths: id_paths(scope)? },
        Family::Fs => PlacedScope::Fs { paths: fs_paths(scope, root, facts)? },
        Family::Net => PlacedScope::Net { hosts: hosts(scope)? },
        Family::Proc if spec.capability == Capability::ProcEval => PlacedScope::Eval,
        Family::Proc => PlacedScope::Exec {
            cmds: scope.list(ScopeKey::Cmds).map(|entries| {
                entries.iter().map(|entry| Command::place(entry, root, &facts.home)).collect()
            }),
            patterns: scope
                .list(ScopeKey::Patterns)
                .map(|entries| entries.iter().filter_map(|entry| pattern(entry, root, facts)).collect()),
        },
    })
}

fn pattern(entry: &str, root: Option<&Path>, facts: &Facts) -> Option<(Option<PathBuf>, CommandPattern)> {
    let pattern = CommandPattern::parse(entry).ok()?;
    let file = match pattern.program() {
        Some(Token::Literal(program)) if has_separator(program) => {
            Some(place_file(program, root, &facts.home))
        }
        _ => None,
    };
    Some((file, pattern))
}

fn ids(scope: &Scope) -> Option<Vec<String>> {
    let one = scope.text(ScopeKey::Id);
    let many = scope.list(ScopeKey::Ids);
    if one.is_none() && many.is_none() {
        return None;
    }
    let many = many.unwrap_or_default().iter().map(String::as_str);
    Some(one.into_iter().chain(many).map(|id| normalize_id(id).to_owned()).collect())
}

fn id_paths(scope: &Scope) -> Result<Option<Vec<PathEntry>>, Vec<Problem>> {
    let entries =
        scope.list(ScopeKey::Paths).map(|entries| entries.iter().map(|entry| PathEntry::relative(entry)));
    entries.map(Iterator::collect).transpose().map_err(|problem| vec![problem])
}

fn fs_paths(
    scope: &Scope,
    root: Option<&Path>,
    facts: &Facts,
) -> Result<Option<Vec<PathEntry>>, Vec<Problem>> {
    let Some(entries) = scope.list(ScopeKey::Paths) else { return Ok(None) };
    let Some(root) = root else { return Ok(Some(Vec::new())) };
    let real = facts.real(root);
    let place = |entry: &String| {
        let mut placed = PathEntry::parse(entry, root, facts)?;
        // Written below the root's name, matched below the place it leads to. Links further down
        // are not followed: the agent could have planted them.
        if let Ok(rest) = placed.base.strip_prefix(root) {
            placed.base = sbx_platform::path::normalize(&real.join(rest));
        }
        Ok(placed)
    };
    entries.iter().map(place).collect::<Result<Vec<_>, _>>().map(Some).map_err(|problem| vec![problem])
}

fn hosts(scope: &Scope) -> Result<Vec<(HostPattern, Option<u16>)>, Vec<Problem>> {
    let parse = |entry: &String| {
        HostPattern::parse(entry).map_err(|error| {
            vec![Problem::warning(Code::ScopeType, format!("`{entry}` is no host pattern: {error}"))]
        })
    };
    scope.list(ScopeKey::Hosts).unwrap_or_default().iter().map(parse).collect()
}

/// Each limit is the tighter of the two.
fn runs_only_listed(grants: &[Grant]) -> bool {
    !grants.iter().any(|grant| grant.capability() == Capability::ProcEval || grant.is_open_exec())
}

/// The files that grants name as programs, where only listed ones run.
fn listed(grants: &[Grant]) -> Vec<PathBuf> {
    if !runs_only_listed(grants) {
        return Vec::new();
    }
    let files = grants.iter().flat_map(|grant| match &grant.scope {
        PlacedScope::Exec { cmds, patterns } => {
            let named = cmds.iter().flatten().filter_map(|command| match command {
                Command::File(file) => Some(file),
                Command::Name(_) => None,
            });
            let named = named.chain(patterns.iter().flatten().filter_map(|(file, _)| file.as_ref()));
            named.cloned().collect()
        }
        _ => Vec::new(),
    });
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    files.dedup();
    files
}

pub(super) fn narrow_limits(agent: &Limits, config: &Limits) -> Limits {
    fn tighter<T: Ord + Copy>(a: Option<T>, b: Option<T>) -> Option<T> {
        a.into_iter().chain(b).min()
    }
    let mut limits = agent.clone();
    limits.wall = tighter(agent.wall, config.wall);
    limits.cpu = tighter(agent.cpu, config.cpu);
    limits.memory = tighter(agent.memory, config.memory);
    limits.pids = tighter(agent.pids, config.pids);
    limits.files = tighter(agent.files, config.files);
    limits.file_size = tighter(agent.file_size, config.file_size);
    limits.tmp = tighter(agent.tmp, config.tmp);
    limits.output = tighter(agent.output, config.output);
    limits
}
