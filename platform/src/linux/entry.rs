//! What our own program does when it was started as an inner part of itself.
//!
//! Answers for the two hidden words: the launcher of [`super::spawn`] and the stage inside bubblewrap. It leaves
//! every other command line to the program.
//! Invariant: neither returns to the program's own code.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use crate::backend::Backend;
use crate::linux::cgroup::Door;
use crate::linux::keeper::FAILED;
use crate::linux::message::Message;
use crate::linux::net::Host;
use crate::linux::stage::{Stage, Surroundings};
use crate::linux::sys::process::{self, Born};
use crate::linux::sys::{fd, mount, number, signal, socket};
use crate::linux::{bwrap, landlock, native, net, sources, spawn};
use crate::plan::{Network, Plan};
use crate::report::{Outcome, SetupFailure, Step};
use crate::text;

/// Acts on a hidden word in `arguments`; returns only if there is none.
pub(crate) fn take_over(arguments: &[std::ffi::OsString]) {
    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str());
    match word(1) {
        Some(spawn::LAUNCH) if matches!(arguments.len(), 3..=5) => {
            let has = |wanted| arguments[3..].iter().any(|word| word == wanted);
            launcher(word(2).unwrap_or_default(), has(spawn::WITH_DOORS), has(spawn::TELLING));
        }
        Some(bwrap::STAGE) if arguments.len() == 4 => {
            let number = |at: usize| word(at).and_then(|word| word.parse::<RawFd>().ok());
            match (number(2), number(3)) {
                (Some(line), Some(plan)) => stage(line, plan),
                _ => process::leave(FAILED),
            }
        }
        _ => {}
    }
}

/// Takes charge of a descriptor the parent has placed under a fixed number.
fn inherited(number: RawFd) -> OwnedFd {
    let _ = fd::stat(number).map_err(|_| process::leave(FAILED));
    // SAFETY: the parent put this descriptor there for us alone, and this is called once for each number.
    unsafe { OwnedFd::from_raw_fd(number) }
}

fn launcher(backend: &str, with_doors: bool, telling: bool) -> ! {
    let mut host = with_doors.then(|| net::Over(inherited(spawn::DOORS)));
    let (plan, leash, mut status) =
        (inherited(spawn::PLAN), inherited(spawn::LEASH), File::from(inherited(spawn::STATUS)));
    let told = telling.then(|| inherited(spawn::TOLD));
    let more = with_doors.then_some(spawn::DOORS).into_iter().chain(telling.then_some(spawn::TOLD));
    for number in [spawn::LEASH, spawn::STATUS].into_iter().chain(more) {
        let _ = fd::close_on_exec(number);
    }
    let ties = spawn::Ties::new(leash, told);
    let mut words = String::new();
    let outcome = File::from(plan)
        .read_to_string(&mut words)
        .map_err(|error| crate::PlatformError::on("read", "the plan", error))
        .and_then(|_| text::parse(&words))
        .and_then(|plan| {
            let host = host.as_mut().map(|host| host as &mut dyn Host);
            let ties = ties.map_err(|error| crate::PlatformError::on("tie", "the launcher", error))?;
            crate::linux::launch(&plan, Backend::from_name(backend), &ties, host)
        });
    let _ = status.write_all(Outcome::to_text(&outcome).as_bytes());
    process::leave(0)
}

/// Cuts the view off from the host's mount events, and keeps its devices as they are.
fn own_mounts() -> Result<(), SetupFailure> {
    let own = process::new_mounts().and_then(|()| mount::make_private());
    own.and_then(|()| sources::settle_devices()).map_err(|error| SetupFailure {
        step: Step::Root,
        object: String::from("/"),
        errno: number(&error),
    })
}

/// A network in which our stage has the say, where the plan has doors.
fn own_network(plan: &Plan, line: &OwnedFd) -> Result<Option<OwnedFd>, SetupFailure> {
    if matches!(plan.network, Network::Gateway(_)) {
        process::new_network().map_err(|error| SetupFailure {
            step: Step::Network,
            object: String::from("namespace"),
            errno: number(&error),
        })?;
    }
    native::hand_out(plan, line)
}

fn stage(line: RawFd, plan: RawFd) -> ! {
    let (line, plan) = (inherited(line), inherited(plan));
    let fail = |step: Step, errno: i32| -> ! {
        let failure = SetupFailure { step, object: String::from("stage inside bwrap"), errno };
        let _ = socket::send(line.as_fd(), &Message::Failed(failure).encode(), None);
        process::leave(FAILED)
    };
    if native::hold_on(&line, &Door::None, Born::Inside).is_err() {
        fail(Step::Lifeline, libc::EIO);
    }
    let mut words = String::new();
    if File::from(plan).read_to_string(&mut words).is_err() {
        fail(Step::Stage, libc::EIO);
    }
    let Ok(plan) = text::parse(&words) else { fail(Step::Stage, libc::EINVAL) };
    let surroundings = Surroundings { namespaces: true, landlock: landlock::level() };
    let Ok(stage) = Stage::prepare(&plan, surroundings, signal::set_of(&[])) else {
        fail(Step::Stage, libc::EINVAL)
    };
    let inward = match own_mounts().and_then(|()| own_network(&plan, &line)) {
        Ok(inward) => inward,
        Err(failure) => {
            let _ = socket::send(line.as_fd(), &Message::Failed(failure).encode(), None);
            process::leave(FAILED)
        }
    };
    let copy = |number: RawFd| match fd::dup_above(number, 3) {
        Ok(copy) => copy,
        Err(_) => process::leave(FAILED),
    };
    let stdio = [copy(0), copy(1), copy(2)];
    stage.run(line, stdio, inward)
}
