//! A network namespace that is made while the view is put together.
//!
//! Answers for making it, and what stands in it, in a thread beside: it is the slowest part of a fence and needs
//! nothing of the others. It leaves what stands in it to [`super::inside`].
//! Invariant: [`Apart::join`] returns with the calling thread in the new namespace and alone in its process. The
//! thread looks up no path: the view changes under it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::{Builder, ScopedJoinHandle};

use super::{Kit, arrange};
use crate::linux::sys::{check_int, number, socket};
use crate::plan::{Network, Plan};
use crate::report::{SetupFailure, Step};

/// Enough for a few calls and their buffers.
const STACK: usize = 256 << 10;

/// The sockets to hand out, and the line on which more are asked for.
pub(crate) type Sockets = Option<(Kit, Option<OwnedFd>)>;

/// The network under way.
#[derive(Debug)]
pub(crate) struct Apart<'s>(ScopedJoinHandle<'s, Result<(OwnedFd, Sockets), SetupFailure>>);

impl<'s> Apart<'s> {
    /// Begins to make it.
    pub(crate) fn begin(scope: &'s std::thread::Scope<'s, '_>, plan: &'s Plan) -> Result<Self, SetupFailure> {
        let thread = Builder::new().stack_size(STACK).spawn_scoped(scope, || make(plan));
        thread.map(Self).map_err(|error| fail("thread", &error))
    }

    /// Goes there.
    pub(crate) fn join(self) -> Result<Sockets, SetupFailure> {
        let lost = || fail("thread", &io::Error::from_raw_os_error(libc::ECHILD));
        let (place, sockets) = self.0.join().map_err(|_| lost())??;
        // SAFETY: a descriptor and a plain number.
        check_int(unsafe { libc::setns(place.as_raw_fd(), libc::CLONE_NEWNET) })
            .map_err(|error| fail("setns", &error))?;
        Ok(sockets)
    }
}

/// Makes the namespace for the calling thread alone, and what stands in it.
fn make(plan: &Plan) -> Result<(OwnedFd, Sockets), SetupFailure> {
    // SAFETY: a plain number.
    check_int(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map_err(|error| fail("unshare", &error))?;
    let place = socket::raise_loopback().and_then(|socket| socket::network_of(&socket));
    let place = place.map_err(|error| fail("lo", &error))?;
    let sockets = match &plan.network {
        Network::None => None,
        Network::Gateway(gateway) => Some(arrange(gateway)?),
    };
    Ok((place, sockets))
}

fn fail(object: &str, error: &io::Error) -> SetupFailure {
    SetupFailure { step: Step::Loopback, object: object.to_owned(), errno: number(error) }
}
