//! Runs a command only to see what it does: what it reads is shown, what it writes is kept apart, secrets are closed,
//! and the network is what the caller allows.

use super::launch::{RunError, start};
use super::live::Live;
use super::setting::{Setting, SettingError};
use crate::audit::{Event, Sink};
use crate::capability::{Capability, Method};
use crate::decide::{Decision, Denial, Request, decide};
use crate::learn::{HostSeen, Observed};
use crate::manifest::{Facts, Manifest};
use crate::plan::{Invocation, Rehearsal};
use crate::policy::Policy;
use crate::profile::{PlaceSort, known_places, system_view, verb_of};
use crate::text::{Source, render_all};
use sbx_platform::path::{resolve, within};
use sbx_platform::report::Step;
use sbx_platform::{Backend, End, Outcome, Pipe};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Under this name a rehearsal is recorded.
pub const REHEARSING: &str = "learn";
/// A host that nobody has: with a grant for it there is a gateway, which then tells what is asked for.
const NOBODY: &str = "nobody.invalid";
const NET: [Capability; 4] =
    [Capability::NetGet, Capability::NetPost, Capability::NetPut, Capability::NetDelete];
/// Parts of the machine that are never shown as a whole, or are there in another form.
const NOT_SHOWN: &[&str] =
    &["/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/boot", "/etc", "/lost+found", "/home"];

/// What may really happen while a command is watched.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Allowed {
    /// Places that are really written.
    pub places: Vec<PathBuf>,
    /// Hosts that are really reached; `*` is every public one. Nothing is deleted there.
    pub hosts: Vec<String>,
}

impl Allowed {
    /// What may really happen.
    #[must_use]
    pub fn new(places: Vec<PathBuf>, hosts: Vec<String>) -> Self {
        Self { places, hosts }
    }
}

/// A command that was watched.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rehearsed {
    /// What was seen.
    pub observed: Observed,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether its changes went to a copy; else they were refused.
    pub copied: bool,
    /// Why they were, as far as that is known.
    pub uncopied: Option<String>,
}

/// Why a command was not watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// The setting does not allow it.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The command is not allowed even so.
    #[error("{0}")]
    Denied(Box<Denial>),
    /// It was not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// What it wrote could not be passed on.
    #[error("cannot pass the command's output on")]
    Output(#[source] io::Error),
}

/// Runs `argv` in `dir` and watches it; its output goes to `out`.
///
/// # Errors
/// When it cannot be run here.
pub fn observe(
    setting: &Setting,
    argv: Vec<OsString>,
    dir: &Path,
    allowed: &Allowed,
    log: &Arc<dyn Sink>,
    out: &mut (dyn Write + Send),
) -> Result<Rehearsed, ObserveError> {
    let policy = policy(setting, dir, allowed)?;
    let request = Request::exec(argv).in_dir(dir);
    let permit = match decide(&policy, &request) {
        Decision::Allow(permit) => permit,
        Decision::Deny(denial) => return Err(ObserveError::Denied(denial)),
    };
    let sink = Arc::new(Watching { log: log.clone(), seen: Mutex::default() });
    let watched: Arc<dyn Sink> = sink.clone();
    let mut run = |copies: bool| -> Result<Outcome, ObserveError> {
        let rehearsal = rehearsal(setting, &policy, allowed, copies);
        let invocation = Invocation::new(sbx_platform::ids()).tracing(true).rehearsal(Some(rehearsal));
        let backend = copies.then_some(Backend::Native);
        let stdio = [Pipe::Inherit, Pipe::New, Pipe::Inherit];
        let mut started = start(&permit, &invocation, backend, &Live, stdio, &watched)?;
        let stdout = started.child.stdout.take();
        // What was seen can be long, and comes while output still may: both are read at once.
        let (ended, copied) = std::thread::scope(|scope| {
            let passing = scope.spawn(|| stdout.map_or(Ok(()), |stdout| pass_on(stdout, out)));
            let ended = started.child.wait();
            (ended, passing.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
        });
        super::launch::record_end(REHEARSING, &started.id, &ended, &**log).map_err(RunError::Audit)?;
        copied.map_err(ObserveError::Output)?;
        Ok(ended.map_err(RunError::from)?)
    };
    let first = run(true);
    // Where changes cannot be kept apart, nothing is written at all.
    let uncopied = match &first {
        Ok(Outcome { end: End::Setup(failure), .. }) => Some(failure.to_string()),
        Err(ObserveError::Run(RunError::Platform(error))) => Some(error.to_string()),
        Ok(_) | Err(_) => None,
    };
    // A copy is laid over a place as one: what is mounted below it is the usual reason.
    let below = || rehearsal(setting, &policy, allowed, true).apart.into_iter().next();
    let mounting =
        matches!(&first, Ok(Outcome { end: End::Setup(failure), .. }) if failure.step == Step::Mount);
    let uncopied = uncopied.map(|why| match below().filter(|_| mounting) {
        Some(mount) => format!("{why}; {} is a mount of its own", mount.display()),
        None => why,
    });
    let copied = uncopied.is_none();
    let outcome = if copied { first? } else { run(false)? };
    let succeeded = matches!(outcome.end, End::Exited(0));
    let observed = Observed::new(outcome.acts.clone(), sink.hosts(), succeeded);
    Ok(Rehearsed { observed, outcome, copied, uncopied })
}

fn pass_on(mut from: impl Read, to: &mut (dyn Write + Send)) -> io::Result<()> {
    let mut buffer = [0; 8192];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            length => to.write_all(&buffer[..length]).and_then(|()| to.flush())?,
        }
    }
}

/// The authority a command is watched under, narrowed by the configuration as any other.
fn policy(setting: &Setting, dir: &Path, allowed: &Allowed) -> Result<Policy, SettingError> {
    let facts = setting.facts.clone();
    let root = facts.project.clone().unwrap_or_else(|| dir.to_path_buf());
    let writable = [root.clone(), facts.home.clone()].into_iter().chain(allowed.places.iter().cloned());
    let mut grants = vec![json!({ "proc.exec": { "in": written(&root, &facts)? } })];
    for place in writable {
        let place = written(&place, &facts)?;
        for verb in ["fs.read", "fs.write", "fs.delete"] {
            grants.push(json!({ verb: { "in": place } }));
        }
    }
    grants.extend(shown().into_iter().map(|place| json!({ "fs.read": { "in": place.to_str() } })));
    let hosts: Vec<&str> = allowed.hosts.iter().map(String::as_str).chain([NOBODY]).collect();
    for verb in ["net.get", "net.post", "net.put"] {
        grants.push(json!({ verb: { "hosts": hosts } }));
    }
    // JSON is YAML too, and quotes every path.
    let record = json!({ "id": REHEARSING, "capabilities": grants, "env": ["PATH"] });
    let source = Source::new("built-in:learn", record.to_string());
    let (manifest, problems) = Manifest::parse(source.clone(), &facts);
    let manifest = manifest.ok_or_else(|| SettingError::Record(render_all(&problems, &source)))?;
    Ok(Policy::resolve(&manifest, &setting.config, &facts).0)
}

/// A place as a record names it: records are text, and the name of a directory need not be.
fn written<'a>(place: &'a Path, facts: &Facts) -> Result<&'a str, SettingError> {
    let named = place.to_str().filter(|text| !text.chars().any(char::is_control));
    let known = [(facts.project.as_deref(), "$PROJECT"), (Some(&*facts.home), "~")];
    let known = known.into_iter().find(|(known, _)| *known == Some(place)).map(|(_, name)| name);
    named.or(known).ok_or_else(|| SettingError::Unnamed(place.to_path_buf()))
}

/// Directories of the machine beside the system's own and the home.
fn shown() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
    let known = |path: &Path| {
        NOT_SHOWN.iter().any(|hidden| path == Path::new(hidden))
            || system_view()
                .any(|(place, _)| within(path, Path::new(place)) || within(Path::new(place), path))
    };
    let dirs =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    dirs.filter(|path| path.to_str().is_some() && !known(path) && std::fs::read_dir(path).is_ok()).collect()
}

fn rehearsal(setting: &Setting, policy: &Policy, allowed: &Allowed, copies: bool) -> Rehearsal {
    let home = &setting.facts.home;
    let hidden =
        known_places(PlaceSort::Secret).map(|place| home.join(place.path)).filter(|path| path.exists());
    let written: Vec<&Path> =
        policy.held(Capability::FsWrite).filter_map(|grant| grant.root.as_deref()).collect();
    let inside = |mount: &PathBuf| written.iter().any(|place| within(mount, place) && mount != place);
    let mut apart: Vec<PathBuf> = mount_points().into_iter().filter(inside).collect();
    apart.extend(
        written
            .iter()
            .filter(|place| mount_points().iter().any(|mount| mount == *place))
            .map(|place| place.to_path_buf()),
    );
    let kept = allowed.places.iter().map(|place| resolve(place).unwrap_or_else(|_| place.clone())).collect();
    let mut rehearsal = Rehearsal::default();
    (rehearsal.copies, rehearsal.kept, rehearsal.apart) = (copies, kept, apart);
    rehearsal.hidden = hidden.collect();
    rehearsal
}

/// Where something is mounted, as far as it can be told.
fn mount_points() -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = text.lines().filter_map(|line| line.split(' ').nth(4)).filter(|point| !point.contains('\\'));
    points.map(PathBuf::from).filter(|point| point.is_dir()).collect()
}

/// Keeps what the gateway tells, on its way to the log.
#[derive(Debug)]
struct Watching {
    log: Arc<dyn Sink>,
    seen: Mutex<Vec<Event>>,
}

impl Sink for Watching {
    fn record(&self, event: Event) -> io::Result<()> {
        if matches!(event.kind, "name" | "request" | "connection") {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        }
        self.log.record(event)
    }
}

impl Watching {
    fn hosts(&self) -> Vec<HostSeen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hosts: Vec<HostSeen> = seen.iter().flat_map(hosts_of).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

/// What an event of the gateway says about a host.
fn hosts_of(event: &Event) -> Vec<HostSeen> {
    let text = |key: &str| event.body.get(key).and_then(Value::as_str);
    if let Some(request) = event.body.get("denial").and_then(|denial| denial.get("request")) {
        let Some(target) = request.get("host").and_then(Value::as_str) else { return Vec::new() };
        // Neither TLS nor HTTP: no verb alone is enough.
        if text("needs") == Some("all") {
            return NET.map(|verb| HostSeen::new(target, Some(verb), false)).to_vec();
        }
        let verb = request.get("capability").and_then(Value::as_str).and_then(Capability::from_name);
        return vec![HostSeen::new(target, verb.filter(|_| event.kind == "request"), false)];
    }
    let (Some(target), Some(method)) = (text("target"), text("method")) else { return Vec::new() };
    let meant = verb_of(method, text("path").unwrap_or_default());
    let verb = meant.or_else(|| Method::from_token(method).map(Method::capability));
    verb.map(|verb| HostSeen::new(target, Some(verb), true)).into_iter().collect()
}
