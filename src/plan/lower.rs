//! Lowers a permit to a plan.

use super::environment::environment;
use super::host::{Host, Kind};
use super::network::{self, Outlet};
use super::places::{Opened, Places};
use super::programs::{Programs, find, trusted_path};
use super::protect;
use super::view::{Account, Scratch, View};
use crate::decide::{Permit, Subject};
use crate::policy::Policy;
use crate::profile::System;
use sbx_platform::path::within;
use sbx_platform::plan::{Access, Code, Exec, Identity, Limits, Network, Plan, Rights, Stdio, UnixSockets};
use sbx_platform::{Guarantee, plan};
use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// Private scratch when the record names no size.
const TMP_SIZE: u64 = 1 << 30;
/// Captured output when the record names no size.
const CAPTURED: u64 = 8 << 20;
/// Places that are the system's own and can never be shown as a grant.
const fn reserved(system: System) -> &'static [&'static str] {
    match system {
        System::Linux => &["/proc", "/dev", "/sys", "/run", "/tmp"],
        System::MacOs => &["/dev", "/System", "/private/var/run", "/private/var/db"],
    }
}

/// Of those, the ones below which nothing can be shown either.
const fn owned(system: System) -> &'static [&'static str] {
    match system {
        System::Linux => &["/proc", "/dev", "/sys", "/run"],
        System::MacOs => &["/dev", "/System", "/private/var/run", "/private/var/db"],
    }
}

/// How a permitted command is to be run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Invocation {
    /// What descriptors 0, 1 and 2 are.
    pub stdio: Stdio,
    /// Further descriptors to hand over.
    pub pass_fds: Vec<RawFd>,
    /// The caller's user and group.
    pub ids: (u32, u32),
    /// Guarantees the caller can do without, beside those of the record.
    pub accepted: Vec<String>,
    /// Whether to find out which files were asked for, at some cost.
    pub trace: bool,
    /// What whoever serves the network has prepared; none where nobody serves it.
    pub outlet: Option<Outlet>,
    /// Scratch that outlives this command.
    pub private: Option<Private>,
    /// What a permitted command that only fetches and starts another comes to.
    pub entry: Option<Entry>,
    /// Whether refused changes are told as they happen.
    pub tells: bool,
    /// Files that stay as they are whatever is granted, beside sbx's own; links followed.
    pub protect: Vec<PathBuf>,
    /// Runs only to be watched: changes are kept apart.
    pub rehearsal: Option<Rehearsal>,
}

/// A run that is watched and leaves nothing behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rehearsal {
    /// Whether what is granted to be written can be written to a copy; else it cannot be written at all.
    pub copies: bool,
    /// Places that are really written all the same.
    pub kept: Vec<PathBuf>,
    /// Places that are mount points of their own and need a copy of their own.
    pub apart: Vec<PathBuf>,
    /// Files and directories that are not shown although they lie in a granted place.
    pub hidden: Vec<PathBuf>,
}

impl Rehearsal {
    /// How a place is shown that is granted to be written.
    fn access(&self, path: &Path) -> Access {
        if self.kept.iter().any(|kept| within(path, kept)) {
            Access::ReadWrite
        } else if self.copies {
            Access::Copied
        } else {
            Access::ReadOnly
        }
    }
}

/// What is run for a command, and what that is made of: for `npx package`, the interpreter and the package.
///
/// It is part of the command as its own file is: seen read-only, and executable as far as it is the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file to execute.
    pub program: PathBuf,
    /// The words it is given.
    pub argv: Vec<OsString>,
    /// Directories and files it is made of, links followed.
    pub parts: Vec<PathBuf>,
}

/// A directory made for the caller and shared by several commands: scratch with a name, named inside by
/// `SESSION_DIR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Private {
    /// Where it is, links followed.
    pub dir: PathBuf,
    /// Where in it the command runs; none when it runs elsewhere.
    pub cwd: Option<PathBuf>,
}

/// The variable that names [`Private::dir`] inside.
const PRIVATE_VARIABLE: &str = "SESSION_DIR";

impl Invocation {
    /// Runs with the caller's descriptors.
    #[must_use]
    pub fn new(ids: (u32, u32)) -> Self {
        Self {
            stdio: Stdio::Inherit,
            pass_fds: Vec::new(),
            ids,
            accepted: Vec::new(),
            trace: false,
            outlet: None,
            private: None,
            entry: None,
            tells: false,
            protect: Vec::new(),
            rehearsal: None,
        }
    }

    /// The same, with refused changes told as they happen.
    #[must_use]
    pub fn telling(mut self) -> Self {
        self.tells = true;
        self
    }

    /// The same, with files that decide what the command may do and stay as they are.
    #[must_use]
    pub fn protecting(mut self, files: Vec<PathBuf>) -> Self {
        self.protect = files;
        self
    }

    /// The same, only to be watched, in the user's own home.
    #[must_use]
    pub fn rehearsal(mut self, rehearsal: Option<Rehearsal>) -> Self {
        self.rehearsal = rehearsal;
        self
    }

    /// The same, running what the command comes to.
    #[must_use]
    pub fn entry(mut self, entry: Option<Entry>) -> Self {
        self.entry = entry;
        self
    }

    /// The same with scratch that outlives the command.
    #[must_use]
    pub fn private(mut self, private: Option<Private>) -> Self {
        self.private = private;
        self
    }

    /// The same with other descriptors.
    #[must_use]
    pub fn stdio(mut self, stdio: Stdio) -> Self {
        self.stdio = stdio;
        self
    }

    /// The same with more descriptors handed over.
    #[must_use]
    pub fn pass_fds(mut self, fds: Vec<RawFd>) -> Self {
        self.pass_fds = fds;
        self
    }

    /// The same, finding out which files were asked for.
    #[must_use]
    pub fn tracing(mut self, trace: bool) -> Self {
        self.trace = trace;
        self
    }

    /// The same, with a network that somebody serves.
    #[must_use]
    pub fn outlet(mut self, outlet: Option<Outlet>) -> Self {
        self.outlet = outlet;
        self
    }

    /// The same, doing without some guarantees.
    #[must_use]
    pub fn accepting(mut self, names: Vec<String>) -> Self {
        self.accepted = names;
        self
    }
}

/// A plan, and what is worth saying about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lowered {
    /// What the platform carries out.
    pub plan: Plan,
    /// Where the kernel holds less than `decide` allows, or the like.
    pub remarks: Vec<String>,
}

/// Why a permit cannot be carried out on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// The permit is not for something that runs.
    #[error("only proc.exec and proc.eval run something")]
    NotACommand,
    /// There is no such program.
    #[error("{} is not found on {}", .program.display(), .search.display())]
    NotFound {
        /// What was looked for.
        program: PathBuf,
        /// Where.
        search: PathBuf,
    },
    /// It is there but cannot be executed.
    #[error("{} is not an executable file", .0.display())]
    NotExecutable(PathBuf),
    /// A place that is granted does not exist.
    #[error("the root {} does not exist", .0.display())]
    NoRoot(PathBuf),
    /// The working directory does not exist.
    #[error("the working directory {} does not exist", .0.display())]
    NoCwd(PathBuf),
    /// Something else stands where a command is to work.
    #[error("{} is not a directory, so nothing can work in it", .0.display())]
    NotADirectory(PathBuf),
    /// The program is named by nothing.
    #[error("no program is named: the first word of the command is empty")]
    Nameless,
    /// There is no such file.
    #[error("there is no file {}", .0.display())]
    NoFile(PathBuf),
    /// A place that cannot be shown.
    #[error("{} cannot be shown inside a fence; name a directory below it", .0.display())]
    Reserved(PathBuf),
    /// A place whose rights the kernel could not keep apart from those of private scratch.
    #[error("{} may be written but not read, which cannot be held below /tmp; grant fs.read too, or another place", .0.display())]
    WriteOnlyBelowTmp(PathBuf),
    /// A part of the command that would show what nobody granted.
    #[error("{} would be shown whole to run the command, and {} lies in it; put the command elsewhere, or grant fs.read there", part.display(), bared.display())]
    PartTooWide {
        /// Which part.
        part: PathBuf,
        /// What would be shown with it.
        bared: PathBuf,
    },
    /// A pattern fits more programs than is sensible to list one by one.
    #[error(
        "the pattern `{pattern}` fits {found} programs, too many to list one by one; name fewer, or use `*` for all"
    )]
    TooManyPrograms {
        /// The pattern.
        pattern: String,
        /// How many it fits.
        found: usize,
    },
    /// A pattern matches more than is sensible to open one by one.
    #[error("the pattern {pattern} below {} opens too many files one by one; use a directory or `**`", base.display())]
    PatternTooWide {
        /// The pattern.
        pattern: String,
        /// Where it starts.
        base: PathBuf,
    },
}

/// Turns a permit into a plan.
///
/// # Errors
/// When the command, its directory or a place it needs cannot be had on this machine.
pub fn lower(permit: &Permit<'_>, invocation: &Invocation, host: &dyn Host) -> Result<Lowered, LowerError> {
    let policy = permit.policy();
    let outlet = invocation.outlet.as_ref();
    let root = permit.grant().root.clone().ok_or(LowerError::NotACommand)?;
    let mut places = Places::of(policy, host)?;
    let search = trusted_path(policy, &places, host);
    let (program, argv, cwd) = command(permit, invocation, &root, &search, host)?;
    let mut programs = Programs::of(policy, &cwd, &search, host)?;
    if let Some(entry) = &invocation.entry {
        programs.add(&entry.program, host);
    }
    if within(&root, &policy.facts().state_dir) {
        return Err(LowerError::Reserved(root));
    }
    places.add(root.clone(), Rights::READ | Rights::LIST);
    if let Some(private) = &invocation.private {
        places.add(private.dir.clone(), Rights::READ | Rights::LIST | Rights::WRITE | Rights::REMOVE);
    }
    check_places(&places, host)?;
    let code = if programs == Programs::Any { Code::Allowed } else { Code::Refused };
    let account = Account { uid: inside(invocation.ids.0), gid: inside(invocation.ids.1) };
    let mut view = View::default();
    let scratch = match host.system() {
        System::Linux => {
            check_scratch(&places)?;
            let scratch = Scratch { home: private_home(&places), tmp: PathBuf::from("/tmp") };
            view.add_system(&programs, host);
            view.add_scratch(&scratch.home, code, &account);
            let entry = invocation.entry.iter().flat_map(|entry| &entry.parts);
            let shown = places.iter().map(|(path, _)| path).chain(entry.map(PathBuf::as_path));
            view.add_var_tmp(shown.chain(programs.files()));
            scratch
        }
        System::MacOs => {
            view.add_system_in_place(&programs, host);
            view.add_scratch_in_place(code)
        }
    };
    match &invocation.rehearsal {
        None => {
            view.add_places(&places, code, &[], |_| Access::ReadWrite);
            view.add_home_links(&places, &policy.facts().home, &scratch.home);
        }
        Some(rehearsal) => {
            let own: Vec<PathBuf> = rehearsal.apart.iter().chain(&rehearsal.kept).cloned().collect();
            view.add_places(&places, code, &own, |path| rehearsal.access(path));
            rehearsal.hidden.iter().for_each(|path| view.close(path, &places, host));
        }
    }
    view.hide(&policy.facts().state_dir, &places, host);
    if let Programs::Listed(parts) = &programs {
        view.add_listed(parts);
    }
    if let Some(entry) = &invocation.entry {
        view.add_entry(&entry.parts, &Opened::of(&places, policy), &programs, host)?;
    }
    if let Some(outlet) = outlet {
        view.add_trust(network::trust(outlet, host));
    }
    if host.system() == System::Linux {
        view.add_top(&places, &programs, &root);
    }
    let mut plan = Plan::new(program, argv);
    plan.mounts = view.mounts;
    plan.rights = view.rights;
    plan.protect = protect::paths(policy, &places, host);
    plan.protect.extend(invocation.protect.iter().cloned());
    plan.protect_names = protect::names(&places);
    plan.env = environment(policy, host, &scratch, &search, outlet);
    if invocation.rehearsal.is_some() {
        let home = policy.facts().home.clone().into_os_string();
        plan.env.iter_mut().filter(|(name, _)| name == "HOME").for_each(|(_, value)| value.clone_from(&home));
    }
    if let Some(private) = &invocation.private {
        plan.env.push((PRIVATE_VARIABLE.into(), private.dir.clone().into()));
    }
    plan.cwd = cwd;
    plan.stdio = invocation.stdio;
    plan.pass_fds.clone_from(&invocation.pass_fds);
    plan.network = network::network(policy, outlet);
    plan.exec = if programs == Programs::Any { Exec::Open } else { Exec::Listed };
    plan.unix_sockets = UnixSockets::PairsOnly;
    plan.limits = limits(policy, invocation.stdio);
    plan.identity = Identity::Mapped { uid: account.uid, gid: account.gid };
    plan.trace = invocation.trace;
    plan.tells = invocation.tells;
    plan.narrowed = !places.narrower.is_empty();
    plan.required = required(policy, invocation, &plan);
    let mut remarks = remarks(&places);
    if let Programs::Listed(parts) = programs {
        remarks.extend(parts.broken);
    }
    Ok(Lowered { plan, remarks })
}

/// The number a process has inside: never 0.
pub(super) const fn inside(id: u32) -> u32 {
    if id == 0 { 1000 } else { id }
}

/// Program, arguments and working directory.
fn command(
    permit: &Permit<'_>,
    invocation: &Invocation,
    root: &Path,
    search: &OsStr,
    host: &dyn Host,
) -> Result<(PathBuf, Vec<OsString>, PathBuf), LowerError> {
    let (argv, cwd) = match permit.request().subject() {
        Subject::Command { argv, cwd, .. } => (argv.clone(), cwd.as_deref()),
        Subject::Shell { text, arguments: None, cwd } => {
            let shell = ["/bin/bash", "/bin/sh"].into_iter().find(|shell| host.is_program(Path::new(shell)));
            let shell = shell.unwrap_or("/bin/sh");
            (vec![shell.into(), "-c".into(), text.into()], cwd.as_deref())
        }
        Subject::Shell { text, arguments: Some(arguments), cwd } => {
            let words = ["/bin/sh", "-c", text, "sbx"].map(OsString::from);
            (words.into_iter().chain(arguments.iter().cloned()).collect(), cwd.as_deref())
        }
        _ => return Err(LowerError::NotACommand),
    };
    let private = invocation.private.as_ref();
    let cwd = match private.and_then(|private| private.cwd.as_deref()) {
        Some(own) if private.is_some_and(|private| within(own, &private.dir)) => own.to_path_buf(),
        _ => cwd.unwrap_or(root).to_path_buf(),
    };
    if host.kind(&cwd) != Some(Kind::Directory) {
        return Err(match host.kind(&cwd) {
            Some(_) => LowerError::NotADirectory(cwd),
            None if cwd == root => LowerError::NoRoot(cwd),
            None => LowerError::NoCwd(cwd),
        });
    }
    if let Some(entry) = &invocation.entry {
        return match host.is_program(&entry.program) {
            true => Ok((entry.program.clone(), entry.argv.clone(), cwd)),
            false => Err(LowerError::NotExecutable(entry.program.clone())),
        };
    }
    let name = argv.first().filter(|name| !name.is_empty()).cloned().ok_or(LowerError::Nameless)?;
    let program = if name.as_encoded_bytes().contains(&b'/') {
        let file = sbx_platform::path::normalize(&cwd.join(&name));
        match host.kind(&file) {
            None => return Err(LowerError::NoFile(file)),
            Some(_) if !host.is_program(&file) => return Err(LowerError::NotExecutable(file)),
            Some(_) => file,
        }
    } else {
        let missing =
            || LowerError::NotFound { program: PathBuf::from(&name), search: PathBuf::from(search) };
        find(&name, search, host).ok_or_else(missing)?
    };
    Ok((program, argv, cwd))
}

/// Refuses places that would hide the fence's own parts.
pub(super) fn check_places(places: &Places, host: &dyn Host) -> Result<(), LowerError> {
    for (path, _) in places.iter() {
        let system = host.system();
        let reserved = reserved(system)
            .iter()
            .any(|reserved| path == Path::new(reserved) || within(Path::new(reserved), path));
        let host_owned = owned(system).iter().any(|owned| within(path, Path::new(owned)));
        if reserved || host_owned {
            return Err(LowerError::Reserved(path.to_path_buf()));
        }
        if host.kind(path).is_none() {
            return Err(LowerError::NoRoot(path.to_path_buf()));
        }
    }
    Ok(())
}

/// Reading below private scratch cannot be refused, because rights add up along a path.
fn check_scratch(places: &Places) -> Result<(), LowerError> {
    let unread =
        |path: &Path| within(path, Path::new("/tmp")) && !places.rights_at(path).contains(Rights::READ);
    match places.iter().find(|(path, _)| unread(path)) {
        Some((path, _)) => Err(LowerError::WriteOnlyBelowTmp(path.to_path_buf())),
        None => Ok(()),
    }
}

/// The home inside: empty, private, and above no granted place, because rights add up along a path.
fn private_home(places: &Places) -> PathBuf {
    let apart = |home: &Path| places.iter().all(|(path, _)| !within(path, home) && !within(home, path));
    let usual = Path::new("/home/sbx");
    PathBuf::from(if apart(usual) { usual } else { Path::new("/run/home") })
}

fn limits(policy: &Policy, stdio: Stdio) -> Limits {
    let own = policy.limits();
    let captured = if stdio == Stdio::Capture { Some(CAPTURED) } else { None };
    Limits {
        wall: own.wall,
        cpu: own.cpu,
        memory: own.memory,
        pids: own.pids,
        open_files: own.files,
        file_size: own.file_size,
        output: own.output.or(captured),
        scratch: Some(own.tmp.unwrap_or(TMP_SIZE)),
    }
}

/// Everything that must hold, less what the user accepted by name.
fn required(policy: &Policy, invocation: &Invocation, plan: &Plan) -> Vec<Guarantee> {
    let accepted = |guarantee: &Guarantee| {
        let name = guarantee.name();
        policy.accept_degraded().iter().chain(&invocation.accepted).any(|accepted| accepted == name)
    };
    let matters = |guarantee: &Guarantee| match guarantee {
        guarantee if guarantee.only_opens() => false,
        Guarantee::ExecOnly => plan.exec == Exec::Listed,
        Guarantee::MemoryLimit => plan.limits.memory.is_some(),
        Guarantee::PidsLimit => plan.limits.pids.is_some(),
        Guarantee::ProtectedPaths => has_writable_place(plan),
        Guarantee::NetHosts | Guarantee::NetNames | Guarantee::NetListen => plan.network != Network::None,
        Guarantee::NetPorts => plan.network != Network::None && network::is_any_port(policy),
        _ => true,
    };
    Guarantee::ALL.iter().copied().filter(|guarantee| matters(guarantee) && !accepted(guarantee)).collect()
}

pub(super) fn has_writable_place(plan: &Plan) -> bool {
    plan.mounts.iter().any(|op| matches!(op, plan::MountOp::Bind { access: plan::Access::ReadWrite, .. }))
}

pub(super) fn remarks(places: &Places) -> Vec<String> {
    let named = |sentence: &String| match sentence.split_once('\n') {
        Some((sentence, command)) => format!("{sentence} (fs-glob)\n{command}"),
        None => format!("{sentence} (fs-glob)"),
    };
    places.narrower.iter().map(named).collect()
}
