//! The Linux backends.
//!
//! Answers for building the fence with namespaces, Landlock, seccomp and limits. It leaves the choice of
//! backend to the caller and the vocabulary to [`crate::plan`].
//! Invariant: nothing outside this folder makes a system call of its own.

mod broker;
mod caps;
mod keeper;
pub(crate) mod landlock;
mod limits;
mod mounts;
mod native;
mod relay;
mod seccomp;
mod stage;
mod supervise;
pub(crate) mod sys;
mod terminal;

use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::backend::{Backend, Enforcement};
use crate::error::PlatformError;
use crate::linux::native::Gate;
use crate::linux::stage::{Stage, Surroundings};
use crate::linux::sys::{process, signal};
use crate::plan::Plan;
use crate::report::Outcome;

/// Runs `plan` behind `backend` and waits for the end.
pub(crate) fn launch(plan: &Plan, backend: Backend, leash: Option<&OwnedFd>) -> Result<Outcome, PlatformError> {
    let begun = Instant::now();
    alone()?;
    let signals = signal::Collected::take(&supervise::FORWARDED)
        .map_err(|error| PlatformError::on("collect", "signals", error))?;
    let landlock = landlock::level();
    let arranged = relay::arrange(plan)?;
    let surroundings = Surroundings { namespaces: backend != Backend::Landlock, landlock };
    let stage = Stage::prepare(plan, surroundings, signals.mask_before())?;
    let started = native::start(plan, stage, arranged.ends, Gate::Open)?;
    let finished = supervise::wait(plan, started, &signals, leash, arranged.relays)?;
    let mut collected = finished.collected.into_iter();
    Ok(Outcome {
        end: finished.end,
        duration: begun.elapsed(),
        enforcement: Enforcement { backend, given: Vec::new(), landlock },
        stdout: collected.next().unwrap_or_default(),
        stderr: collected.next().unwrap_or_default(),
        notes: Vec::new(),
    })
}

/// A fence is built by copying this process, which is only sound while it has one thread.
fn alone() -> Result<(), PlatformError> {
    let count = process::thread_count()
        .map_err(|error| PlatformError::on("count the threads of", "this process", error))?;
    if count == 1 { Ok(()) } else { Err(PlatformError::Threads { count }) }
}
