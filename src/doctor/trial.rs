//! Every backend tried: a real fence, and a known set of attacks from inside it.
//!
//! Answers for which guarantees were seen to hold, from a record through `decide`, `lower` and the kernel. It leaves
//! saying so to others. Invariant: the attacks only reach for things the trial itself has put there.

use super::ground::Ground;
use super::network;
use crate::run::{Act, SURELY_GONE, Tried, process_began};
use sbx_platform::door::Way;
use sbx_platform::{Backend, Guarantee};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;

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

/// More threads than the trial may have.
const CROWD: &str = "300";
const HOARDING: &str = "use more memory than its limit";
const SURVIVING: &str = "outlive a launcher that is killed";

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
    let survives = match outcome.enforcement.has(Guarantee::TeardownKilled) {
        true => match ground.survives(backend) {
            Ok(survives) => Some(survives),
            Err(failure) => return failed(format!("a launcher that is killed: {failure}")),
        },
        false => None,
    };
    let held = |guarantee: Guarantee| {
        // A record with patterns is what this is about, and no backend knows names that are not there yet.
        if guarantee.only_opens() {
            return (guarantee, Fares::Missing, None);
        }
        if let (Guarantee::TeardownKilled, Some(survives)) = (guarantee, survives) {
            return (guarantee, if survives { Fares::Broken } else { Fares::Held }, Some(SURVIVING));
        }
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
