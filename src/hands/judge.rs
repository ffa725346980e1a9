//! Asking whether an operation may be done, and recording the answer.
//!
//! Invariant: nothing is done that was not allowed and recorded.

use super::Reply;
use super::context::Context;
use super::fault::{Fault, FaultCode};
use crate::capability::Family;
use crate::decide::{Decision, Request, decide};
use crate::run::{allowed, denied};

/// Allows a request or says why not; either way it is recorded.
pub(super) fn judge(context: &Context, request: &Request) -> Result<(), Reply> {
    if is_broken(request) {
        return Ok(());
    }
    match decide(&context.policy, request) {
        Decision::Deny(denial) => {
            // A refusal stands whether or not it can be recorded.
            let _ = context.audit().record(denied(&denial));
            Err(Reply::Denied(denial))
        }
        Decision::Allow(permit) => context.audit().record(allowed(&permit)).map_err(|error| {
            let message = format!("the operation cannot be recorded, so nothing was done: {error}");
            Reply::Failed(Fault::new(FaultCode::Failed, message))
        }),
    }
}

/// Whether something is allowed that is part of an operation which was recorded.
pub(super) fn may(context: &Context, request: &Request) -> bool {
    is_broken(request) || decide(&context.policy, request).is_allowed()
}

/// Whether a test pretends that the matcher says yes to everything about files, to see the kernel say no.
#[cfg(feature = "test-hooks")]
fn is_broken(request: &Request) -> bool {
    request.capability().family() == Family::Fs && std::env::var_os("SBX_TEST_BROKEN_MATCHER").is_some()
}

#[cfg(not(feature = "test-hooks"))]
fn is_broken(request: &Request) -> bool {
    let _: Family = request.capability().family();
    false
}
