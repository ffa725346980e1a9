//! From a path to what the helper did there: links followed, decided, sent, and sent again when the path leads elsewhere
//! meanwhile.
//!
//! Invariant: the helper is sent paths that were decided on, links followed, and nothing else.

use super::Reply;
use super::arguments::invalid;
use super::cancel::Cancel;
use super::context::Context;
use super::fault::{Fault, FaultCode};
use super::helper::wire::{Answer, Place, Seen, Task};
use super::keep::{Keep, Making, Silence, Told, Wanted};
use crate::capability::Capability;
use crate::decide::Request;
use crate::policy::Policy;
use sbx_platform::path::{normalize, resolve};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How often a call is begun anew because what it is about was exchanged meanwhile.
const ATTEMPTS: usize = 3;

/// A path as it was asked for, and what it is.
#[derive(Clone, Debug)]
pub(super) struct Meant {
    asked: PathBuf,
    pub(super) target: PathBuf,
    /// Whether the last part is taken as a name, and not as what it leads to.
    by_name: bool,
}

impl Meant {
    /// Follows links, in the last part too.
    pub(super) fn followed(context: &Context, path: &Path) -> Result<Self, Fault> {
        Self::at(absolute(context, path), false)
    }

    /// Follows links but in the last part.
    pub(super) fn named(context: &Context, path: &Path) -> Result<Self, Fault> {
        Self::at(absolute(context, path), true)
    }

    /// An absolute path, whose last part is followed or taken as a name.
    pub(super) fn at(asked: PathBuf, by_name: bool) -> Result<Self, Fault> {
        let follow = |path: &Path| resolve(path).map_err(|error| unresolved(&asked, &error));
        let target = match (by_name, asked.parent(), asked.file_name()) {
            (false, ..) => follow(&asked)?,
            (true, Some(parent), Some(name)) => follow(parent)?.join(name),
            (true, ..) => return Err(invalid(format!("{} is not the path of a file", asked.display()))),
        };
        Ok(Self { asked, target, by_name })
    }

    pub(super) fn request(&self, capability: Capability, tool: &str) -> Request {
        Request::resolved_path(capability, normalize(&self.asked), self.target.clone()).by_tool(tool)
    }

    /// The same path, followed anew.
    fn again(&self) -> Result<Self, Fault> {
        Self::at(self.asked.clone(), self.by_name)
    }

    /// What stands there now.
    pub(super) fn seen(&self) -> Seen {
        let identity = |path: &Path| {
            let meta = std::fs::symlink_metadata(path).ok()?;
            Some((meta.dev(), meta.ino()))
        };
        Seen { there: identity(&self.target), within: self.target.parent().and_then(identity) }
    }
}

fn absolute(context: &Context, path: &Path) -> PathBuf {
    let home = &context.policy.facts().home;
    match path.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => context.cwd.join(path),
    }
}

fn unresolved(path: &Path, error: &std::io::Error) -> Fault {
    // A link that is no longer one was exchanged between two looks.
    let exchanged = error.kind() == std::io::ErrorKind::InvalidInput;
    let code = if exchanged { FaultCode::Changed } else { FaultCode::Failed };
    Fault::new(code, format!("cannot follow {}: {error}", path.display()))
}

/// Whose files: the authority a helper is fenced with, and the helpers that are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'g> {
    pub(super) policy: &'g Policy,
    pub(super) keep: &'g Keep,
    pub(super) making: &'g Making,
}

/// One operation on files: how it is decided, and what the helper is to do then.
pub(super) struct Operation<'o> {
    pub(super) judge: &'o dyn Fn(&Meant) -> Result<(), Reply>,
    pub(super) changes: bool,
    pub(super) task: &'o dyn Fn(&Meant) -> Task,
    pub(super) body: &'o [u8],
}

/// Decides and does; begins anew when the path leads elsewhere meanwhile.
pub(super) fn carry_out(
    ground: Ground<'_>,
    cancel: &Cancel,
    mut meant: Meant,
    operation: &Operation<'_>,
) -> Result<Told, Reply> {
    let mut wanted = Wanted::Any;
    let mut there = true;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            meant = meant.again()?;
        }
        (operation.judge)(&meant)?;
        let task = (operation.task)(&meant);
        let asked = ground.keep.ask(&task, operation.body, wanted, ground.policy, ground.making, cancel);
        let told = match asked {
            Ok(told) => told,
            Err(Silence::NotBegun) => continue,
            Err(Silence::Unknown(_)) if !operation.changes && wanted == Wanted::Any => {
                wanted = Wanted::Fresh;
                continue;
            }
            Err(Silence::Unknown(fault) | Silence::Final(fault)) => return Err(Reply::Failed(fault)),
        };
        match &told.answer {
            Answer::Done(_) => return Ok(told),
            // A view that was made earlier may not show what is granted now; or it was exchanged meanwhile.
            Answer::Other { there: found } => (wanted, there) = (Wanted::Fresh, *found),
            Answer::Failed { code, .. } if is_of_the_view(code, &task) && !told.fresh => {
                wanted = Wanted::Fresh
            }
            Answer::Failed { code, message } => return Err(Reply::Failed(explained(code, message, &task))),
        }
    }
    Err(Reply::Failed(never_the_same(&meant, there)))
}

/// What is told when the helper's view and what was decided on did not come together.
fn never_the_same(meant: &Meant, there: bool) -> Fault {
    let path = meant.target.display();
    match (meant.seen().there, there) {
        (None, _) => {
            let message = format!("cannot make {path}: the kernel does not open its directory");
            Fault::new(FaultCode::Refused, message).hint(
                "a pattern opens the files that match it now and no new names (fs-glob); grant the directory",
            )
        }
        (Some(_), false) => Fault::new(FaultCode::Refused, format!("{path}: the kernel shows nothing there")),
        (Some(_), true) => {
            Fault::new(FaultCode::Changed, format!("{path} became something else while it was worked on"))
        }
    }
}

/// Whether a failure may be due to a view that is out of date.
fn is_of_the_view(code: &str, task: &Task) -> bool {
    let refused = code == FaultCode::Refused.name();
    refused || code == FaultCode::NotFound.name() && task.seen().there.is_some()
}

/// A failure of the helper, told so that it can be acted on.
fn explained(code: &str, message: &str, task: &Task) -> Fault {
    let fault = Answer::fault(code, message.to_owned());
    let hidden = fault.code == FaultCode::NotFound && task.seen().there.is_some();
    if hidden {
        let message = format!("{}: the kernel shows nothing there", task.path().display());
        return Fault::new(FaultCode::Refused, message);
    }
    match fault.code {
        FaultCode::Refused => {
            fault.hint("the record allows it; the file's own permissions or a pattern (fs-glob) may not")
        }
        FaultCode::TooLarge => fault.hint("ask for a part: `offset` and `length`, or `line` and `lines`"),
        FaultCode::NotUnique => fault.hint("add text around it, or set `replace_all`"),
        _ => fault,
    }
}

pub(super) fn done(told: Told) -> (Value, Vec<u8>) {
    match told.answer {
        Answer::Done(value) => (value, told.body),
        Answer::Failed { .. } | Answer::Other { .. } => (Value::Null, Vec::new()),
    }
}

/// A path as JSON shows it, with its bytes where it is not text.
pub(super) fn shown(value: &mut Value, key: &str, path: &Path) {
    value[key] = json!(path.to_string_lossy());
    if path.to_str().is_none() {
        use base64::Engine;
        let bytes = path.as_os_str().as_encoded_bytes();
        value[format!("{key}_base64")] = json!(base64::engine::general_purpose::STANDARD.encode(bytes));
    }
}

/// An entry of the helper's with a path that people can read.
pub(super) fn readable(mut entry: Value, key: &str) -> Option<Value> {
    let place: Place = serde_json::from_value(entry.get(key)?.clone()).ok()?;
    shown(&mut entry, key, &place.0);
    Some(entry)
}
