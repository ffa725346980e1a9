//! Why an agent may or may not do something: what is decided, and what the kernel says when it is tried.
//!
//! Answers for trying one request in the agent's own fence without doing harm, and for comparing the two answers. It
//! leaves showing them to `cli`.
//! Invariant: nothing is changed by a trial but for an empty file that is made and taken away again.

use super::acts::{Act, BY_PROXY, Tried, acting, told};
use super::explain::MADE;
use super::live::Live;
use super::permissions::barred;
use crate::capability::{Capability, Family, Host, Target};
use crate::decide::{Request, Subject, decide};
use crate::net::{Gateway, Settings};
use crate::plan::{Entry, Invocation, Outlet, lower, program_of};
use crate::policy::{PlacedScope, Policy};
use crate::profile::system_view;
use sbx_platform::attempt;
use sbx_platform::door::Porter;
use sbx_platform::path::within;
use sbx_platform::plan::Stdio;
use sbx_platform::{Backend, End, Enforcement, Guarantee, Plan};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Private inside, whatever stands there outside.
const SCRATCH: &[&str] = &["/tmp", "/proc", "/dev", "/run", "/home/sbx", "/var/tmp"];

/// How long a trial may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What trying came to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Trial {
    /// It was not tried, and why.
    Untried(String),
    /// It was tried.
    Tried(Box<Attempt>),
}

/// One thing tried behind the fence.
#[derive(Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// What was done.
    pub act: Act,
    /// The kernel's error number; none when it said yes.
    pub error: Option<i32>,
    /// The same asked of the proxy that programs are told of, where a host was asked for.
    pub by_proxy: Option<Tried>,
    /// What held.
    pub enforcement: Enforcement,
    /// The plan it was tried with.
    pub plan: Plan,
    /// How the two answers compare.
    pub verdict: Verdict,
}

/// How two answers compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are the same.
    Agree,
    /// They differ as they should, and why.
    Expected(String),
    /// They differ: a bug.
    Differ,
}

impl Verdict {
    /// The word for machines.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Expected(_) => "expected",
            Self::Differ => "differ",
        }
    }
}

/// Tries a request in the agent's own fence.
#[must_use]
pub fn try_out(policy: &Policy, request: &Request, backend: Option<Backend>) -> Trial {
    let ground = match Ground::new() {
        Ok(ground) => ground,
        Err(error) => return Trial::Untried(format!("there is no place to try it in: {error}")),
    };
    let chosen = match act_for(policy, request) {
        Ok(chosen) => chosen,
        Err(why) => return Trial::Untried(why),
    };
    if let Some(error) = chosen.outside() {
        return Trial::Untried(format!("you cannot do that yourself: {error}"));
    }
    match ground.launch(policy, request, &chosen.act, backend) {
        Err(why) => Trial::Untried(why),
        Ok(Said { tried, by_proxy, enforcement, plan, remarks }) => {
            if chosen.leaves == Leaves::File && tried.error.is_none() {
                let _ = fs::remove_file(&chosen.act.object);
            }
            let asked = by_proxy.as_ref().map(|tried| tried.error.is_none());
            let done = tried.error.is_none() || asked == Some(true);
            let verdict = match compare(policy, request, &chosen, done, &remarks) {
                Verdict::Agree if asked == Some(tried.error.is_some()) => one_way(&tried, &enforcement),
                verdict => verdict,
            };
            Trial::Tried(Box::new(Attempt {
                act: chosen.act,
                error: tried.error,
                by_proxy,
                enforcement,
                plan,
                verdict,
            }))
        }
    }
}

/// What a launch for a trial came to.
struct Said {
    tried: Tried,
    by_proxy: Option<Tried>,
    enforcement: Enforcement,
    plan: Plan,
    remarks: Vec<String>,
}

/// What is tried for a request, and the request it stands for.
struct Chosen {
    act: Act,
    /// The same question about the very path that is tried, where that is another.
    about: Option<Request>,
    leaves: Leaves,
}

/// What is left of a trial where it goes through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    /// Nothing, so that it can be tried without a fence too.
    Unchanged,
    /// A file, which is taken away again.
    File,
    /// Nothing, and only inside, where a gateway answers.
    Nothing,
}

impl Chosen {
    fn plain(name: &'static str, path: &Path) -> Self {
        Self { act: Act::new(name, path), about: None, leaves: Leaves::Unchanged }
    }

    /// What stops the user, without any fence.
    fn outside(&self) -> Option<std::io::Error> {
        if self.leaves == Leaves::Unchanged { self.act.here().err() } else { None }
    }
}

fn act_for(policy: &Policy, request: &Request) -> Result<Chosen, String> {
    match request.subject() {
        Subject::Path { target, .. } => act_on(request.capability(), target),
        Subject::Command { argv, cwd, .. } => {
            let name = argv.first().cloned().unwrap_or_default();
            let cwd = cwd.as_deref().unwrap_or(Path::new("/"));
            let program = program_of(policy, &name, cwd, &Live).ok_or("the program is not found here")?;
            Ok(Chosen::plain("may-execute", &program))
        }
        Subject::Shell { .. } => {
            let shell = ["/bin/bash", "/bin/sh"].into_iter().map(Path::new).find(|shell| shell.exists());
            Ok(Chosen::plain("may-execute", shell.ok_or("there is no shell here")?))
        }
        Subject::Host { target, refused_method: None, .. } => {
            let target = target.as_ref().map_err(|error| format!("that is no host: {error}"))?;
            Ok(act_against(request.capability(), target))
        }
        Subject::Host { refused_method: Some(method), .. } => Err(format!("no verb is for {method}")),
        Subject::Record { .. } | Subject::Agent { .. } => {
            Err("records are held by sbx itself, not by the kernel".to_owned())
        }
    }
}

/// A request that a gateway only judges: it says yes or no, and nothing is dialled.
fn act_against(capability: Capability, target: &Target) -> Chosen {
    const HTTPS: u16 = 443;
    let port = target.port.unwrap_or(HTTPS);
    let target = Target { host: target.host.clone(), port: Some(port) };
    let method = match capability {
        Capability::NetPost => "POST",
        Capability::NetPut => "PUT",
        Capability::NetDelete => "DELETE",
        _ => "GET",
    };
    let act = Act::new("request", format!("{method} {target}"));
    Chosen { act, about: Some(Request::target(capability, Ok(target))), leaves: Leaves::Nothing }
}

fn act_on(capability: Capability, target: &Path) -> Result<Chosen, String> {
    let there = fs::symlink_metadata(target).ok();
    let missing = || format!("there is nothing at {} to try it on", target.display());
    match (capability, there) {
        (Capability::FsRead, Some(meta)) => {
            Ok(Chosen::plain(if meta.is_dir() { "list" } else { "read" }, target))
        }
        (Capability::FsDelete, Some(_)) => Ok(Chosen::plain("may-delete", target)),
        (Capability::FsWrite, Some(meta)) if !meta.is_dir() => Ok(Chosen::plain("write", target)),
        (Capability::FsWrite, there) => {
            let inside = there.is_some();
            let path = if inside {
                target.join(format!(".sbx-why-{}", std::process::id()))
            } else {
                target.to_path_buf()
            };
            if !path.parent().is_some_and(Path::is_dir) {
                return Err(format!("the directory of {} does not exist", target.display()));
            }
            let about = inside.then(|| Request::path(Capability::FsWrite, &path));
            Ok(Chosen { act: Act::new("create", path), about, leaves: Leaves::File })
        }
        _ => Err(missing()),
    }
}

/// A host that is reached in one of two ways only: where not every port is watched, programs must ask the proxy.
fn one_way(directly: &Tried, enforcement: &Enforcement) -> Verdict {
    let mut missing = enforcement.missing();
    let lacking = missing.find(|one| matches!(one, Guarantee::NetPorts | Guarantee::NetNames));
    match lacking {
        Some(guarantee) if directly.error.is_some() => Verdict::Expected(format!(
            "only programs that ask the proxy (SBX_PROXY) reach it here, because {} is missing",
            guarantee.name()
        )),
        _ => Verdict::Differ,
    }
}

fn compare(policy: &Policy, request: &Request, chosen: &Chosen, done: bool, remarks: &[String]) -> Verdict {
    let allowed = decide(policy, chosen.about.as_ref().unwrap_or(request)).is_allowed();
    if allowed == done {
        return Verdict::Agree;
    }
    let path = Path::new(&chosen.act.object);
    let shown = system_view().any(|(place, _)| within(path, Path::new(place)));
    let scratch = SCRATCH.iter().any(|scratch| within(path, Path::new(scratch)));
    let reads = request.capability() == Capability::FsRead;
    if let Some(barred) = barred(request.capability(), path).filter(|_| allowed) {
        return Verdict::Expected(barred.to_string());
    }
    match (allowed, request.capability().family()) {
        (false, Family::Proc) => Verdict::Expected(
            "the kernel knows programs, not arguments; those are held by sbx before anything is run"
                .to_owned(),
        ),
        (true, Family::Fs) if !reads && names_it(policy, request.capability(), path) => Verdict::Expected(
            "the grant names this very path: the kernel opens what is below it, but the name itself lies in the directory above"
                .to_owned(),
        ),
        (true, Family::Fs) if remarks.iter().any(|remark| remark.contains("fs-glob")) => {
            Verdict::Expected("the kernel opens only the files that match a pattern now (fs-glob)".to_owned())
        }
        (false, Family::Net) if is_granted_by_another_name(policy, request) => Verdict::Expected(
            "inside, `localhost` and this machine's own addresses are one, and a grant for any of them opens the service"
                .to_owned(),
        ),
        (false, _) if reads && shown => {
            Verdict::Expected("every process is shown this part of the system, read-only".to_owned())
        }
        (false, _) if reads && MADE.iter().any(|made| path == Path::new(made)) => {
            Verdict::Expected("every process has such a file, which tells of nobody but itself where one can be made".to_owned())
        }
        (false, _) if scratch => Verdict::Expected("behind the fence that is private scratch".to_owned()),
        _ => Verdict::Differ,
    }
}

/// Whether this machine is meant, and may be reached under another of its names.
fn is_granted_by_another_name(policy: &Policy, request: &Request) -> bool {
    let Subject::Host { target: Ok(target), .. } = request.subject() else { return false };
    let names = ["localhost", "127.0.0.1", "::1"].map(Host::parse);
    let own = names.iter().flatten().any(|name| *name == target.host);
    let may = |host: &Host| {
        let target = Target { host: host.clone(), port: target.port };
        decide(policy, &Request::target(request.capability(), Ok(target))).is_allowed()
    };
    own && names.iter().flatten().any(may)
}

/// Whether a grant is for this very path, rather than for something above it.
fn names_it(policy: &Policy, capability: Capability, path: &Path) -> bool {
    policy.held(capability).any(|grant| match &grant.scope {
        PlacedScope::Fs { paths: Some(entries) } => entries.iter().any(|entry| entry.base == path),
        _ => grant.root.as_deref() == Some(path),
    })
}

/// How those directories are called, before the number of their process.
const GROUND: &str = "sbx-why-";

/// An empty directory from which the trial is launched; gone when dropped.
struct Ground(PathBuf);

impl Ground {
    fn new() -> std::io::Result<Self> {
        let temp = fs::canonicalize(std::env::temp_dir())?;
        sweep(&temp);
        let dir = temp.join(format!("{GROUND}{}", std::process::id()));
        fs::create_dir(&dir)?;
        Ok(Self(dir))
    }

    fn launch(
        &self,
        policy: &Policy,
        request: &Request,
        act: &Act,
        backend: Option<Backend>,
    ) -> Result<Said, String> {
        let program =
            std::env::current_exe().and_then(fs::canonicalize).map_err(|error| error.to_string())?;
        // Which programs may run depends on where; which files may be reached must not depend on a root.
        let at = match request.subject() {
            Subject::Command { cwd: Some(cwd), .. } | Subject::Shell { cwd: Some(cwd), .. } => cwd,
            _ => &self.0,
        };
        let policy = policy.for_trial(at, &program).ok_or("the trial itself cannot be granted")?;
        let mut acts = vec![act.clone()];
        if act.name == "request" {
            acts.push(Act::new(BY_PROXY, act.object.clone()));
        }
        let argv = acting(&program, &acts);
        let request = Request::exec(argv.clone()).in_dir(at);
        let decision = decide(&policy, &request);
        let permit = decision.permit().ok_or("the trial itself is denied")?;
        // What this machine cannot hold is told, and does not keep the rest from being tried.
        let all = Guarantee::ALL.iter().map(|guarantee| guarantee.name().to_owned()).collect();
        // This program may lie where nothing is shown.
        let entry = Entry { parts: vec![program.clone()], program, argv };
        let invocation =
            Invocation::new(sbx_platform::ids()).stdio(Stdio::Capture).accepting(all).entry(Some(entry));
        let mut gateway = match act.name {
            "request" if Gateway::is_needed(&policy) => {
                let judging = Gateway::new(&policy, Settings::default().only_judging());
                Some(judging.map_err(|error| error.to_string())?)
            }
            _ => None,
        };
        let invocation = invocation.outlet(gateway.as_ref().map(|_| Outlet::default()));
        let mut lowered = lower(&permit, &invocation, &Live).map_err(|error| error.to_string())?;
        lowered.plan.limits.wall = Some(PATIENCE);
        let porter = gateway.as_mut().map(|gateway| gateway as &mut dyn Porter);
        let outcome =
            sbx_platform::launch(&lowered.plan, backend, porter).map_err(|error| error.to_string())?;
        if let End::Setup(failure) = &outcome.end {
            return Err(format!("the fence could not be built: {failure}"));
        }
        let mut said = told(&outcome.stdout).into_iter();
        let early = || format!("the trial ended early: {:?}", outcome.end);
        let tried = said.next().ok_or_else(early)?;
        let by_proxy = if acts.len() > 1 { Some(said.next().ok_or_else(early)?) } else { None };
        if tried.error == Some(0) {
            return Err("this kernel has no way to ask without doing it".to_owned());
        }
        Ok(Said {
            tried,
            by_proxy,
            enforcement: outcome.enforcement,
            plan: lowered.plan,
            remarks: lowered.remarks,
        })
    }
}

/// Takes away what trials left that were ended from outside; only empty directories go.
fn sweep(temp: &Path) {
    for entry in fs::read_dir(temp).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix(GROUND).and_then(|number| number.parse::<i32>().ok());
        if number.is_some_and(|number| number > 0 && is_over(number)) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whether a process is no more, or is this one, which has left nothing yet.
pub(super) fn is_over(number: i32) -> bool {
    let gone = || attempt::signal(number).is_err_and(|error| error.kind() != ErrorKind::PermissionDenied);
    u32::try_from(number) == Ok(std::process::id()) || gone()
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
