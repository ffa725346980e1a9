//! Files: what is asked is placed and decided here, and done by the helper behind the fence.
//!
//! Invariant: the helper is sent paths that `decide` allowed, links followed, and nothing else.

use super::Reply;
use super::arguments::{Arguments, encoded, invalid};
use super::cancel::Cancel;
use super::context::Context;
use super::fault::{Fault, FaultCode};
use super::helper::wire::{Answer, BODY, Existing, Part, Place, Replacement, Seen, Task};
use super::judge::{judge, may};
use super::keep::{Silence, Told, Wanted};
use crate::capability::Capability;
use crate::decide::Request;
use sbx_platform::path::{normalize, resolve};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most names one listing tells.
const MOST_NAMES: u64 = 5000;
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
        let asked = absolute(context, path);
        let target = resolve(&asked).map_err(|error| unresolved(path, &error))?;
        Ok(Self { asked, target, by_name: false })
    }

    /// Follows links but in the last part.
    fn named(context: &Context, path: &Path) -> Result<Self, Fault> {
        let asked = absolute(context, path);
        let (Some(parent), Some(name)) = (asked.parent(), asked.file_name()) else {
            return Err(invalid(format!("{} is not the path of a file", path.display())));
        };
        let target = resolve(parent).map_err(|error| unresolved(path, &error))?.join(name);
        Ok(Self { asked: asked.clone(), target, by_name: true })
    }

    pub(super) fn request(&self, capability: Capability, tool: &str) -> Request {
        Request::resolved_path(capability, normalize(&self.asked), self.target.clone()).by_tool(tool)
    }

    /// The same path, followed anew.
    fn again(&self, context: &Context) -> Result<Self, Fault> {
        if self.by_name { Self::named(context, &self.asked) } else { Self::followed(context, &self.asked) }
    }

    /// What stands there now.
    fn seen(&self) -> Seen {
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

/// One operation on files: its name, what it takes, and what the helper is to do once that is decided.
struct Operation<'o> {
    tool: &'static str,
    takes: &'o [Capability],
    changes: bool,
    task: &'o dyn Fn(&Meant) -> Task,
    body: &'o [u8],
}

/// Decides and does; begins anew when the path leads elsewhere meanwhile.
fn carry_out(
    context: &Context,
    cancel: &Cancel,
    meant: Meant,
    operation: &Operation<'_>,
) -> Result<Told, Reply> {
    let mut meant = meant;
    let mut wanted = Wanted::Any;
    let mut there = true;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            meant = meant.again(context)?;
        }
        for capability in operation.takes {
            judge(context, &meant.request(*capability, operation.tool))?;
        }
        let task = (operation.task)(&meant);
        let asked = context.keep.ask(&task, operation.body, wanted, &context.policy, &context.making, cancel);
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

fn done(told: Told) -> (Value, Vec<u8>) {
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

fn needed_path(arguments: &Arguments<'_>) -> Result<PathBuf, Fault> {
    arguments.path()?.ok_or_else(|| invalid("`path` is missing"))
}

/// `read_file`.
pub(super) fn read(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    const FAR: u64 = u64::MAX >> 1;
    let meant = Meant::followed(context, &needed_path(arguments)?)?;
    let (offset, length) = (arguments.number("offset", 0, FAR)?, arguments.number("length", 0, FAR)?);
    let (line, lines) = (arguments.number("line", 1, FAR)?, arguments.number("lines", 0, FAR)?);
    let part = match (offset.or(length).is_some(), line.or(lines).is_some()) {
        (false, false) => Part::Whole,
        (true, false) => Part::Bytes(offset.unwrap_or(0), length.unwrap_or(FAR)),
        (false, true) => Part::Lines(line.unwrap_or(1), lines.unwrap_or(FAR)),
        (true, true) => return Err(invalid("bytes and lines exclude each other").into()),
    };
    let wanted = arguments.text("encoding")?;
    if wanted.is_some_and(|wanted| !matches!(wanted, "utf-8" | "base64")) {
        return Err(invalid("`encoding` is neither utf-8 nor base64").into());
    }
    let task = |meant: &Meant| Task::Read { path: Place(meant.target.clone()), seen: meant.seen(), part };
    let operation =
        Operation { tool: "read_file", takes: &[Capability::FsRead], changes: false, task: &task, body: &[] };
    let told = carry_out(context, cancel, meant.clone(), &operation)?;
    let (told, content) = done(told);
    let (encoding, content) = encoded(content, wanted)?;
    let mut value = json!({ "path": null, "content": content, "encoding": encoding, "size": told["size"], "whole": told["whole"] });
    shown(&mut value, "path", &meant.target);
    Ok(value)
}

/// `write_file`.
pub(super) fn write(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    let meant = Meant::followed(context, &needed_path(arguments)?)?;
    let content = arguments.content("content")?;
    if content.len() > BODY {
        let message =
            format!("{} bytes, and {} MiB is the most that is written at once", content.len(), BODY >> 20);
        return Err(Fault::new(FaultCode::TooLarge, message).into());
    }
    let existing = match arguments.text("existing")?.unwrap_or("any") {
        "any" => Existing::Any,
        "new" => Existing::New,
        "old" => Existing::Old,
        _ => return Err(invalid("`existing` is none of any, new and old").into()),
    };
    let parents = arguments.flag("parents")?;
    if parents {
        judge_parents(context, &meant)?;
    }
    let task = |meant: &Meant| Task::Write {
        path: Place(meant.target.clone()),
        seen: if parents && !meant.target.parent().is_some_and(Path::exists) {
            Seen::default()
        } else {
            meant.seen()
        },
        existing,
        parents,
        replace: may_replace(context, meant),
    };
    let operation = Operation {
        tool: "write_file",
        takes: &[Capability::FsWrite],
        changes: true,
        task: &task,
        body: &content,
    };
    let told = carry_out(context, cancel, meant.clone(), &operation)?;
    changed(done(told).0, &meant)
}

/// The directories that would be made are decided on one by one.
fn judge_parents(context: &Context, meant: &Meant) -> Result<(), Reply> {
    let missing =
        meant.target.ancestors().skip(1).take_while(|above| std::fs::symlink_metadata(above).is_err());
    for above in missing {
        judge(context, &Request::path(Capability::FsWrite, above).by_tool("write_file"))?;
    }
    Ok(())
}

/// Whether a file may be replaced as a whole: that takes its old name away, and makes another for a moment.
fn may_replace(context: &Context, meant: &Meant) -> bool {
    may(context, &meant.request(Capability::FsDelete, "write_file"))
}

fn changed(mut value: Value, meant: &Meant) -> Result<Value, Reply> {
    shown(&mut value, "path", &meant.target);
    Ok(value)
}

/// `edit_file`.
pub(super) fn edit(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    let meant = Meant::followed(context, &needed_path(arguments)?)?;
    let edits = replacements(arguments)?;
    let size: usize = edits.iter().map(|edit| edit.old.len() + edit.new.len()).sum();
    if size > super::helper::wire::HEAD / 4 {
        return Err(Fault::new(FaultCode::TooLarge, "the replacements are too large for one call").into());
    }
    let task = |meant: &Meant| Task::Edit {
        path: Place(meant.target.clone()),
        seen: meant.seen(),
        edits: edits.clone(),
        replace: may_replace(context, meant),
    };
    let takes = [Capability::FsRead, Capability::FsWrite];
    let operation = Operation { tool: "edit_file", takes: &takes, changes: true, task: &task, body: &[] };
    let told = carry_out(context, cancel, meant.clone(), &operation)?;
    changed(done(told).0, &meant)
}

/// One replacement in the arguments themselves, or several in `edits`.
fn replacements(arguments: &Arguments<'_>) -> Result<Vec<Replacement>, Fault> {
    let one = |arguments: &Arguments<'_>| {
        Ok::<_, Fault>(Replacement {
            old: arguments.needed("old_text")?.to_owned(),
            new: arguments.needed("new_text")?.to_owned(),
            all: arguments.flag("replace_all")?,
        })
    };
    let Some(edits) = arguments.value("edits") else { return Ok(vec![one(arguments)?]) };
    if arguments.has("old_text") || arguments.has("new_text") {
        return Err(invalid("`edits` and `old_text` exclude each other"));
    }
    let list = edits.as_array().filter(|list| (1..=100).contains(&list.len()));
    let list = list.ok_or_else(|| invalid("`edits` is not a list of 1 to 100 replacements"))?;
    list.iter().map(|edit| one(&Arguments::of(edit, &["old_text", "new_text", "replace_all"])?)).collect()
}

/// `delete_file`.
pub(super) fn delete(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    let meant = Meant::named(context, &needed_path(arguments)?)?;
    let directory = arguments.flag("directory")?;
    let task =
        |meant: &Meant| Task::Delete { path: Place(meant.target.clone()), seen: meant.seen(), directory };
    let takes = [Capability::FsDelete];
    let operation = Operation { tool: "delete_file", takes: &takes, changes: true, task: &task, body: &[] };
    let told = carry_out(context, cancel, meant.clone(), &operation)?;
    changed(done(told).0, &meant)
}

/// `list_dir`.
pub(super) fn list(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    let path = arguments.path()?.unwrap_or_else(|| PathBuf::from("."));
    let meant = Meant::followed(context, &path)?;
    let most = arguments.number("limit", 1, MOST_NAMES)?.unwrap_or(1000);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let task = |meant: &Meant| Task::List { path: Place(meant.target.clone()), seen: meant.seen(), most };
    let takes = [Capability::FsRead];
    let operation = Operation { tool: "list_dir", takes: &takes, changes: false, task: &task, body: &[] };
    let (mut told, _) = done(carry_out(context, cancel, meant.clone(), &operation)?);
    let entries = told["entries"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let entries: Vec<Value> = entries.into_iter().filter_map(|entry| readable(entry, "name")).collect();
    let mut value = json!({ "path": null, "entries": entries, "truncated": told["truncated"] });
    shown(&mut value, "path", &meant.target);
    Ok(value)
}

/// An entry of the helper's with a path that people can read.
pub(super) fn readable(mut entry: Value, key: &str) -> Option<Value> {
    let place: Place = serde_json::from_value(entry.get(key)?.clone()).ok()?;
    shown(&mut entry, key, &place.0);
    Some(entry)
}

/// Sends a search, which is decided on as reading the directory; what it finds is decided on by itself.
pub(super) fn ask_search(
    context: &Context,
    cancel: &Cancel,
    meant: Meant,
    query: &super::helper::wire::Query,
) -> Result<Value, Reply> {
    let task = |meant: &Meant| Task::Search {
        path: Place(meant.target.clone()),
        seen: meant.seen(),
        query: query.clone(),
    };
    let takes = [Capability::FsRead];
    let operation = Operation { tool: "search", takes: &takes, changes: false, task: &task, body: &[] };
    carry_out(context, cancel, meant, &operation).map(|told| done(told).0)
}
