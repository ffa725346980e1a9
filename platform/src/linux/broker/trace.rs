//! Tells what watched calls ask for and what came of them.

use std::path::{Path, PathBuf};

use super::caller::Caller;
use super::listener::Call;
use crate::linux::telling::Telling;
use crate::linux::trace::{asks, named};
use crate::report::{Act, Verb};

/// Tells that `call` was answered with `error`, 0 for success.
pub(super) fn note(telling: &mut Telling<'_>, call: &Call, caller: &Caller, proc: &Path, error: i32) {
    let names = asks(call.name(), call.arguments(), caller);
    // Of a name given away and another one taken, the first is what a refusal is about.
    let most = if telling.tells_all() { names.len() } else { 1 };
    for ask in names.into_iter().take(most) {
        if let Some(act) = named(ask, call.name(), caller, proc) {
            telling.tell(Act { error, ..act });
        }
    }
}

/// An act of `call` on this path.
pub(super) fn about(verb: Verb, path: PathBuf, call: &Call, error: i32) -> Act {
    Act { verb, path, call: call.name(), error, words: Vec::new() }
}
