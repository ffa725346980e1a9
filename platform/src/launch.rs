//! The doors into the crate: launch, spawn, probe, and taking over as an inner part.
//!
//! Answers for being there on every platform; where there is no backend, every door says so. It leaves the
//! work to the platform's folder.
//! Invariant: without a backend nothing is run.

use std::ffi::OsString;

use crate::backend::Backend;
use crate::door::Porter;
use crate::error::PlatformError;
use crate::plan::{Pipe, Plan};
use crate::probe::Probe;
use crate::report::Outcome;

#[cfg(target_os = "linux")]
pub use crate::linux::spawn::{Child, Leash, Told};
#[cfg(target_os = "macos")]
pub use crate::macos::exec::{Child, Leash, Told};
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub use elsewhere::{Child, Leash, Told};

/// Runs `plan` behind `backend` (`None` for the strongest that works) and waits until nothing of it is left.
///
/// The calling process must have one thread; others use [`spawn`]. A plan with
/// [`crate::plan::Network::Gateway`] needs a `porter`, who is handed the doors after the inner process was made
/// and before the command starts, and may start threads then.
///
/// # Errors
/// When the fence could not even be begun, lacks something the plan requires, or the porter gave up. A failure
/// later in building it is [`crate::End::Setup`].
pub fn launch(
    plan: &Plan,
    backend: Option<Backend>,
    porter: Option<&mut dyn Porter>,
) -> Result<Outcome, PlatformError> {
    #[cfg(target_os = "linux")]
    return crate::linux::launch_with(plan, backend, porter);
    #[cfg(target_os = "macos")]
    return crate::macos::exec::launch(plan, backend, porter);
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    elsewhere::refuse((plan, porter.is_some()), backend)
}

/// Starts `plan` in a launcher process of its own and returns at once.
///
/// For programs with threads or much memory, and for commands that are talked to while they run. The calling
/// program must call [`take_over`] first thing in `main`. With a `porter` it returns when the doors have been
/// handed to it, in this process, or when the launcher found that there will be none; [`Child::wait`] tells why.
///
/// # Errors
/// When no launcher process could be started, or the porter gave up.
pub fn spawn(
    plan: &Plan,
    backend: Option<Backend>,
    stdio: [Pipe; 3],
    porter: Option<&mut dyn Porter>,
) -> Result<Child, PlatformError> {
    #[cfg(target_os = "linux")]
    return crate::linux::spawn::spawn(plan, backend, stdio, porter);
    #[cfg(target_os = "macos")]
    return crate::macos::exec::spawn(plan, backend, stdio, porter);
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    elsewhere::refuse((plan, stdio, porter.is_some()), backend)
}

/// Finds out, by doing it, which backends work here and what each gives.
///
/// # Errors
/// When the calling process has several threads, or there is no backend on this platform.
pub fn probe() -> Result<Probe, PlatformError> {
    #[cfg(target_os = "linux")]
    return crate::linux::probe::probe();
    #[cfg(target_os = "macos")]
    return Ok(crate::macos::exec::probe());
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    elsewhere::refuse((), None)
}

/// What the system would be told before the command of `plan` runs behind `backend`, as text; nothing is run.
///
/// # Errors
/// When the plan cannot be carried out there, or there is no backend on this platform.
pub fn explain(plan: &Plan, backend: Backend) -> Result<String, PlatformError> {
    #[cfg(target_os = "linux")]
    return crate::linux::explain(plan, backend);
    #[cfg(target_os = "macos")]
    return match backend {
        Backend::Seatbelt => crate::macos::seatbelt::explain(plan),
        Backend::Native | Backend::Bwrap | Backend::Landlock => {
            Err(PlatformError::NoBackend { reason: format!("{backend} is not on this system") })
        }
    };
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    elsewhere::refuse(plan, Some(backend))
}

/// The Landlock level of this kernel, 0 for none.
#[must_use]
pub fn landlock() -> u32 {
    #[cfg(target_os = "linux")]
    return crate::linux::landlock::level();
    #[cfg(not(target_os = "linux"))]
    0
}

/// The user and group this process acts as.
#[must_use]
pub fn ids() -> (u32, u32) {
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    // SAFETY: takes nothing and cannot fail.
    let group = unsafe { libc::getegid() };
    (user, group)
}

/// Ends this process at once: nothing is taken apart that the kernel takes apart anyway.
///
/// What was written and not flushed is lost.
pub fn leave(status: u8) -> ! {
    // SAFETY: always sound; it does not return.
    unsafe { libc::_exit(status.into()) }
}

/// Sees to it that this process leaves no image of its memory behind, whatever becomes of it.
///
/// # Errors
/// When the system refuses.
pub fn refuse_dumps() -> std::io::Result<()> {
    // One byte, not none: with 1 the kernel runs no dump helper either.
    #[cfg(target_os = "linux")]
    return crate::linux::sys::process::set_limit(4, 1, 1);
    #[cfg(not(target_os = "linux"))]
    Ok(())
}

/// The system calls no fenced process can make, at all or in some of their forms, each with the reason; empty where there
/// is no filter of them.
pub fn refused_calls() -> impl Iterator<Item = (&'static str, &'static str)> {
    #[cfg(target_os = "linux")]
    return crate::linux::seccomp::refused();
    #[cfg(not(target_os = "linux"))]
    std::iter::empty()
}

/// Acts as an inner part of a launch if this process was started as one; else returns at once.
///
/// To be called first thing in `main`, before any thread is started.
pub fn take_over(arguments: impl IntoIterator<Item = OsString>) {
    #[cfg(target_os = "linux")]
    crate::linux::entry::take_over(&arguments.into_iter().take(5).collect::<Vec<_>>());
    #[cfg(not(target_os = "linux"))]
    drop(arguments);
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod elsewhere {
    use std::fs::File;
    use std::io;

    use super::{Backend, Outcome, PlatformError};

    /// A launch under way; there is none on this platform.
    #[derive(Debug)]
    pub struct Child {
        /// To the command's standard input.
        pub stdin: Option<File>,
        /// From its standard output.
        pub stdout: Option<File>,
        /// From its standard error.
        pub stderr: Option<File>,
        never: std::convert::Infallible,
    }

    /// What a launch hangs on; there is none on this platform.
    #[derive(Debug)]
    pub enum Leash {}

    impl Drop for Leash {
        /// Letting go means something to callers, so that it must mean something here too.
        fn drop(&mut self) {
            match *self {}
        }
    }

    /// Refused changes, as they happen.
    pub type Told = std::iter::Empty<crate::report::Act>;

    impl Child {
        /// Refused changes as they happen.
        pub fn told(&mut self) -> Option<Told> {
            match self.never {}
        }

        /// Hands out the leash.
        pub fn leash(&mut self) -> Option<Leash> {
            match self.never {}
        }

        /// The launcher's process number.
        #[must_use]
        pub fn id(&self) -> u32 {
            match self.never {}
        }

        /// Passes a signal on to the command.
        ///
        /// # Errors
        /// Never: there is no such value.
        pub fn signal(&self, _number: i32) -> io::Result<()> {
            match self.never {}
        }

        /// Ends everything at once.
        pub fn kill(&mut self) {
            match self.never {}
        }

        /// Whether the launch ends within some time.
        #[must_use]
        pub fn ends_within(&self, _time: std::time::Duration) -> bool {
            match self.never {}
        }

        /// Waits until nothing of the launch is left.
        ///
        /// # Errors
        /// Never: there is no such value.
        pub fn wait(self) -> Result<Outcome, PlatformError> {
            match self.never {}
        }
    }

    /// The answer of every door.
    pub(super) fn refuse<A, T>(_asked: A, _backend: Option<Backend>) -> Result<T, PlatformError> {
        Err(PlatformError::NoBackend { reason: String::from(std::env::consts::OS) })
    }
}
