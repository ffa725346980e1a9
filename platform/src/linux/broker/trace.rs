//! Tells what watched calls ask for and what came of them.

use std::path::{Path, PathBuf};

use super::caller::Caller;
use super::listener::Call;
use crate::linux::telling::Telling;
use crate::linux::trace::{asks, asks_if_replaced, named};
use crate::report::{Act, Verb};

/// Tells that `call` was answered with `error`, 0 for success.
pub(super) fn note(telling: &mut Telling<'_>, call: &Call, caller: &Caller, proc: &Path, error: i32) {
    let names = asks(call.name(), call.arguments(), caller);
    // Which of several names was refused is for those to tell who know what may be done.
    let replaced = asks_if_replaced(call.name(), call.arguments()).filter(|_| error != 0);
    for ask in names.into_iter().chain(replaced) {
        if let Some(act) = named(ask, call.name(), caller, proc) {
            telling.tell(Act { error, ..act });
        }
    }
}

/// An act of `call` on this path.
pub(super) fn about(verb: Verb, path: PathBuf, call: &Call, error: i32) -> Act {
    Act { verb, path, call: call.name(), error, words: Vec::new() }
}
