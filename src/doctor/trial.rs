//! Every backend tried: a real fence, and a known set of attacks from inside it.
//!
//! Answers for which guarantees were seen to hold, from a record through `decide`, `lower` and the kernel. It leaves
//! saying so to others. Invariant: the attacks only reach for things the trial itself has put there.

use super::network::{self, Serving};
use crate::capability::Spec;
use crate::decide::{Request, decide};
use crate::manifest::Facts;
use crate::plan::{Invocation, Outlet, lower};
use crate::policy::Policy;
use crate::run::{Act, Live, SURELY_GONE, Tried, acting, process_began, told};
use sbx_platform::attempt::SharedMemory;
use sbx_platform::door::{Porter, Way};
use sbx_platform::plan::Stdio;
use sbx_platform::{Backend, End, Guarantee, Outcome};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// What an attack must meet for its guarantee to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meets {
    /// The kernel's no.
    Refusal,
    /// The kernel's yes: the guarantee is that something works.
    Success,
    /// Nothing is left of it afterwards.
    Nothing,
}

/// One attack.
struct Attack {
    guarantee: Guarantee,
    act: &'static str,
    object: fn(&Ground) -> Option<OsString>,
    meets: Meets,
    tells: &'static str,
}

/// Processes and threads of the trial, and more than that.
const PIDS: u64 = 256;
const CROWD: &str = "300";
/// Memory of the trial; that of the one attack on it, and more than that.
const MEMORY: u64 = 1 << 30;
const LITTLE_MEMORY: u64 = 64 << 20;
const HOARD: &str = "268435456";
const HOARDING: &str = "use more memory than its limit";

const ATTACKS: &[Attack] = &[
    attack(Guarantee::FsHidden, "look", |at| at.file("outside/secret"), "look at a file outside the view"),
    attack(Guarantee::FsRead, "read", |at| at.file("outside/secret"), "read a file outside the view"),
    attack(Guarantee::FsWrite, "write", |at| at.file("work/shown"), "write to a file that is only shown"),
    attack(
        Guarantee::FsTruncate,
        "truncate",
        |at| at.file("work/shown"),
        "truncate a file that is only shown",
    ),
    attack(
        Guarantee::FsMetadata,
        "chmod",
        |at| at.file("work/shown"),
        "change the mode of a file that is only shown",
    ),
    attack(
        Guarantee::FsDelete,
        "delete",
        |at| at.file("work/open/kept"),
        "delete a file that may only be written",
    ),
    attack(
        Guarantee::ProtectedPaths,
        "create",
        |at| at.file("work/open/.git/hooks/pre-commit"),
        "make a git hook",
    ),
    attack(Guarantee::ExecOnly, "exec", |_| other_program(), "run a program that is not listed"),
    attack(Guarantee::NetNone, "connect", Ground::address, "connect to a port of the host"),
    attack(
        Guarantee::SocketsHidden,
        "socket",
        |at| at.file("outside/socket"),
        "connect to a socket of the host",
    ),
    attack(Guarantee::PidHidden, "process", |_| own_process(), "see the process that launched it"),
    attack(Guarantee::Signals, "signal", |_| own_number(), "signal the process that launched it"),
    attack(Guarantee::IpcHidden, "memory", Ground::memory, "find shared memory of the host"),
    attack(Guarantee::PrivateTmp, "look", Ground::temporary, "look at a temporary file of the host"),
    attack(
        Guarantee::SyscallFilter,
        "namespace",
        |_| Some(OsString::new()),
        "enter a user namespace of its own",
    ),
    attack(Guarantee::PidsLimit, "crowd", |_| Some(CROWD.into()), "start more threads than its limit"),
    Attack {
        meets: Meets::Nothing,
        ..attack(Guarantee::Teardown, "outlive", |at| at.file("work/open/outlived"), "outlive its launch")
    },
    Attack {
        meets: Meets::Success,
        ..attack(Guarantee::Loopback, "loopback", |_| Some(OsString::new()), "talk to itself over loopback")
    },
    Attack {
        meets: Meets::Success,
        ..attack(Guarantee::Terminals, "terminal", |_| Some(OsString::new()), "make a terminal")
    },
];

const fn attack(
    guarantee: Guarantee,
    act: &'static str,
    object: fn(&Ground) -> Option<OsString>,
    tells: &'static str,
) -> Attack {
    Attack { guarantee, act, object, meets: Meets::Refusal, tells }
}

/// How a guarantee fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fares {
    /// It was attacked, and held.
    Held,
    /// It is given by how the fence is built; this trial has no attack on it.
    Given,
    /// This backend does not give it here.
    Missing,
    /// It is promised, and the attack went through.
    Broken,
}

impl Fares {
    /// The word printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Given => "given",
            Self::Missing => "missing",
            Self::Broken => "BROKEN",
        }
    }
}

/// A backend, tried.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackendReport {
    /// Which.
    pub backend: Backend,
    /// Why it does not work here; none when it does.
    pub failure: Option<String>,
    /// Every guarantee with how it fares and what was tried; empty when it does not work.
    pub guarantees: Vec<(Guarantee, Fares, Option<&'static str>)>,
    /// How connections come to the gateway; none where that could not be tried.
    pub network: Option<Way>,
}

impl BackendReport {
    /// How one guarantee fares.
    #[must_use]
    pub fn fares(&self, guarantee: Guarantee) -> Option<Fares> {
        self.guarantees.iter().find(|(name, _, _)| *name == guarantee).map(|(_, fares, _)| *fares)
    }

    /// The guarantees that fare so.
    pub fn with(&self, wanted: Fares) -> impl Iterator<Item = Guarantee> + '_ {
        self.guarantees.iter().filter(move |(_, fares, _)| *fares == wanted).map(|(name, _, _)| *name)
    }

    /// For machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let guarantee = |(name, fares, tried): &(Guarantee, Fares, Option<&str>)| json!({ "guarantee": name.name(), "state": fares.name().to_lowercase(), "tried": tried });
        json!({
            "backend": self.backend.name(), "works": self.failure.is_none(), "failure": self.failure,
            "network": self.network.map(network::word),
            "guarantees": self.guarantees.iter().map(guarantee).collect::<Vec<_>>(),
        })
    }
}

/// Tries one backend.
#[must_use]
pub fn try_backend(backend: Backend) -> BackendReport {
    let failed = |failure: String| BackendReport {
        backend,
        failure: Some(failure),
        guarantees: Vec::new(),
        network: None,
    };
    let ground = match Ground::new() {
        Ok(ground) => ground,
        Err(error) => return failed(format!("no place to try it in: {error}")),
    };
    let attacks: Vec<(&Attack, OsString)> =
        ATTACKS.iter().filter_map(|attack| Some((attack, (attack.object)(&ground)?))).collect();
    let acts: Vec<Act> =
        attacks.iter().map(|(attack, object)| Act::new(attack.act, object.clone())).collect();
    let (outcome, told) = match ground.launch(&acts, backend, None) {
        Ok(tried) => tried,
        Err(failure) => return failed(failure),
    };
    std::thread::sleep(SURELY_GONE);
    let network = match ground.try_network(backend) {
        Ok(network) => network,
        Err(failure) => return failed(format!("its network: {failure}")),
    };
    let bounded = outcome.enforcement.has(Guarantee::MemoryLimit).then(|| ground.hoards(backend));
    let held = |guarantee: Guarantee| {
        if let (Guarantee::MemoryLimit, Some(hoards)) = (guarantee, bounded) {
            return (guarantee, if hoards { Fares::Broken } else { Fares::Held }, Some(HOARDING));
        }
        let seen = network.as_ref().and_then(|network| network.of(guarantee));
        if let Some((fares, tells)) = seen {
            return (guarantee, fares, Some(tells));
        }
        let at = attacks.iter().position(|(attack, _)| attack.guarantee == guarantee);
        let tried = at.map(|at| (attacks[at].0, went_well(attacks[at].0, &attacks[at].1, &told[at])));
        let fares = match tried {
            _ if !outcome.enforcement.has(guarantee) => Fares::Missing,
            None => Fares::Given,
            Some((_, true)) => Fares::Held,
            Some((_, false)) => Fares::Broken,
        };
        (guarantee, fares, tried.map(|(attack, _)| attack.tells))
    };
    let guarantees = Guarantee::ALL.iter().copied().map(held).collect();
    BackendReport { backend, failure: None, guarantees, network: network.map(|network| network.way) }
}

fn went_well(attack: &Attack, object: &OsString, tried: &Tried) -> bool {
    match attack.meets {
        Meets::Refusal => tried.error.is_some(),
        Meets::Success => tried.error.is_none(),
        Meets::Nothing => !Path::new(object).exists(),
    }
}

/// What the attacks reach for; gone when dropped.
struct Ground {
    dir: PathBuf,
    temporary: PathBuf,
    port: TcpListener,
    _socket: UnixListener,
    memory: Option<(i32, SharedMemory)>,
}

impl Ground {
    fn new() -> io::Result<Self> {
        let temp = fs::canonicalize(std::env::temp_dir())?;
        let number = std::process::id();
        let dir = (0..100)
            .map(|attempt| temp.join(format!("sbx-doctor-{number}-{attempt}")))
            .find(|dir| fs::create_dir(dir).is_ok());
        let dir = dir.ok_or_else(|| io::Error::other(format!("{} takes no directory", temp.display())))?;
        let port = TcpListener::bind("127.0.0.1:0")?;
        for below in ["outside", "work/open/.git/hooks", "home"] {
            fs::create_dir_all(dir.join(below))?;
        }
        for file in ["outside/secret", "work/shown", "work/open/kept"] {
            fs::write(dir.join(file), "put here by sbx doctor\n")?;
        }
        let socket = UnixListener::bind(dir.join("outside/socket"))?;
        let temporary = Path::new("/tmp").join(format!("sbx-doctor-{number}.tmp"));
        fs::write(&temporary, "put here by sbx doctor\n")?;
        let memory = i32::try_from(number).ok().map(|number| number | 0x5b00_0000);
        let memory = memory.and_then(|number| Some((number, SharedMemory::make(number).ok()?)));
        Ok(Self { dir, temporary, port, _socket: socket, memory })
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "the table of attacks asks for an object that may be missing"
    )]
    fn file(&self, name: &str) -> Option<OsString> {
        Some(self.dir.join(name).into())
    }

    fn address(&self) -> Option<OsString> {
        self.port.local_addr().ok().map(|address| address.to_string().into())
    }

    fn memory(&self) -> Option<OsString> {
        self.memory.as_ref().map(|(number, _)| number.to_string().into())
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "the table of attacks asks for an object that may be missing"
    )]
    fn temporary(&self) -> Option<OsString> {
        Some(self.temporary.clone().into())
    }

    /// A network with doors, where there is one.
    fn try_network(&self, backend: Backend) -> Result<Option<network::Found>, String> {
        if cfg!(not(target_os = "linux")) {
            return Ok(None);
        }
        let mut serving = Serving::new().map_err(|error| error.to_string())?;
        let (outcome, told) = self.launch(&serving.acts(), backend, Some(&mut serving))?;
        Ok(serving.found(&told, &outcome.enforcement))
    }

    /// Through a record, as for any agent: a directory that is shown, one that may be written, one program, and what
    /// is served. What was done, and how each act went.
    fn launch(
        &self,
        acts: &[Act],
        backend: Backend,
        serving: Option<&mut Serving>,
    ) -> Result<(Outcome, Vec<Tried>), String> {
        let outcome = self.launch_within(MEMORY, acts, backend, serving)?;
        let told = told(&outcome.stdout);
        match &outcome.end {
            End::Exited(0) if told.len() == acts.len() => Ok((outcome, told)),
            End::Setup(failure) => Err(failure.to_string()),
            End::Exited(_) | End::Signaled(_) | End::Limit(_) => {
                let done = told.len();
                Err(format!("the attacks ended after {done} of {}: {:?}", acts.len(), outcome.end))
            }
        }
    }

    /// Whether more memory can be used than the limit says.
    fn hoards(&self, backend: Backend) -> bool {
        let acts = [Act::new("hoard", HOARD)];
        let outcome = self.launch_within(LITTLE_MEMORY, &acts, backend, None);
        outcome.is_ok_and(|outcome| told(&outcome.stdout).iter().any(|tried| tried.error.is_none()))
    }

    fn launch_within(
        &self,
        memory: u64,
        acts: &[Act],
        backend: Backend,
        mut serving: Option<&mut Serving>,
    ) -> Result<Outcome, String> {
        let program =
            std::env::current_exe().and_then(fs::canonicalize).map_err(|error| error.to_string())?;
        let (work, open) = (self.dir.join("work"), self.dir.join("work/open"));
        let specs = [
            format!("proc.exec{{in=\"{}\",cmds=[\"{}\"]}}", work.display(), program.display()),
            format!("fs.read{{in=\"{}\"}}", work.display()),
            format!("fs.write{{in=\"{}\"}}", open.display()),
        ];
        let reached = serving.as_ref().map(|serving| serving.specs()).transpose();
        let reached = reached.map_err(|error| error.to_string())?.unwrap_or_default();
        let specs: Result<Vec<Spec>, _> =
            specs.iter().chain(&reached).map(|spec| Spec::parse(spec)).collect();
        let specs = specs.map_err(|error| format!("{error:?}"))?;
        let facts = Facts::new(self.dir.join("home")).at(&work);
        let policy =
            Policy::from_specs("doctor", &specs, &facts).map_err(|problems| format!("{problems:?}"))?;
        let outlet = serving.as_ref().map(|_| Outlet::default());
        if let Some(serving) = &mut serving {
            serving.prepare(&policy).map_err(|error| error.to_string())?;
        }
        let request = Request::exec(acting(&program, acts)).in_dir(&work);
        let decision = decide(&policy, &request);
        let permit = decision
            .permit()
            .ok_or_else(|| decision.denial().map(ToString::to_string).unwrap_or_default())?;
        let all = Guarantee::ALL.iter().map(|guarantee| guarantee.name().to_owned()).collect();
        let invocation =
            Invocation::new(sbx_platform::ids()).stdio(Stdio::Capture).accepting(all).outlet(outlet);
        let mut lowered = lower(&permit, &invocation, &Live).map_err(|error| error.to_string())?;
        // A limit that is not asked for is not missed, so both are asked for.
        (lowered.plan.limits.memory, lowered.plan.limits.pids) = (Some(memory), Some(PIDS));
        let porter = serving.map(|serving| serving as &mut dyn Porter);
        sbx_platform::launch(&lowered.plan, Some(backend), porter).map_err(|error| error.to_string())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A program that every system has and the trial does not list.
fn other_program() -> Option<OsString> {
    ["/bin/true", "/usr/bin/true", "/bin/sh"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .map(Into::into)
}

fn own_process() -> Option<OsString> {
    let number = std::process::id().to_string();
    process_began(&number).map(|began| format!("{number}:{began}").into())
}

/// A small number would also be one of the fence's own processes.
fn own_number() -> Option<OsString> {
    const SMALL: u32 = 100;
    let number = std::process::id();
    (number > SMALL).then(|| number.to_string().into())
}
