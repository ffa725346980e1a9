//! What is made in a thread beside while the view is put together.
//!
//! Answers for the network namespace with what stands in it, the slowest part of a fence, and for private terminals:
//! neither needs anything of the others. It leaves what stands in the network to [`super::inside`].
//! Invariant: [`Apart::join`] returns with the calling thread in the new namespace and alone in its process. The
//! thread looks up no path: the view changes under it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::{Builder, ScopedJoinHandle};

use super::{Kit, arrange};
use crate::linux::mounts;
use crate::linux::sys::{check_int, number, socket};
use crate::plan::{Network, Plan};
use crate::report::{SetupFailure, Step};

/// Enough for a few calls and their buffers.
const STACK: usize = 256 << 10;

/// The sockets to hand out, and the line on which more are asked for.
pub(crate) type Sockets = Option<(Kit, Option<OwnedFd>)>;

/// What was made.
#[derive(Debug)]
struct Made {
    terminals: Option<OwnedFd>,
    network: OwnedFd,
    sockets: Sockets,
}

/// It all under way.
#[derive(Debug)]
pub(crate) struct Apart<'s>(&'s Plan, ScopedJoinHandle<'s, Result<Made, SetupFailure>>);

impl<'s> Apart<'s> {
    /// Begins to make it.
    pub(crate) fn begin(scope: &'s std::thread::Scope<'s, '_>, plan: &'s Plan) -> Result<Self, SetupFailure> {
        let thread = Builder::new().stack_size(STACK).spawn_scoped(scope, || make(plan));
        thread.map(|thread| Self(plan, thread)).map_err(|error| fail("thread", &error))
    }

    /// Goes to the network, and shows the terminals in the view, which stands by now.
    pub(crate) fn join(self) -> Result<Sockets, SetupFailure> {
        let Self(plan, thread) = self;
        let lost = || fail("thread", &io::Error::from_raw_os_error(libc::ECHILD));
        let made = thread.join().map_err(|_| lost())??;
        // SAFETY: a descriptor and a plain number.
        check_int(unsafe { libc::setns(made.network.as_raw_fd(), libc::CLONE_NEWNET) })
            .map_err(|error| fail("setns", &error))?;
        mounts::show_terminals(plan, made.terminals.as_ref())?;
        Ok(made.sockets)
    }
}

/// Makes terminals, and the namespace for the calling thread alone with what stands in it.
fn make(plan: &Plan) -> Result<Made, SetupFailure> {
    let terminals = mounts::make_terminals(plan)?;
    // SAFETY: a plain number.
    check_int(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map_err(|error| fail("unshare", &error))?;
    let network = socket::raise_loopback().and_then(|socket| socket::network_of(&socket));
    let network = network.map_err(|error| fail("lo", &error))?;
    let sockets = match &plan.network {
        Network::None => None,
        Network::Gateway(gateway) => Some(arrange(gateway)?),
    };
    Ok(Made { terminals, network, sockets })
}

fn fail(object: &str, error: &io::Error) -> SetupFailure {
    SetupFailure { step: Step::Loopback, object: object.to_owned(), errno: number(error) }
}
