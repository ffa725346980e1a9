//! Files: what is asked is placed and decided here, and done by the helper behind the agent's fence.

use super::Reply;
use super::arguments::{Arguments, encoded, invalid};
use super::cancel::Cancel;
use super::context::Context;
use super::fault::{Fault, FaultCode};
use super::helper::wire::{BODY, Existing, HEAD, Part, Place, Query, Replacement, Seen, Task};
use super::judge::{judge, may};
use super::keep::Told;
use super::reach::{Ground, Meant, Operation, carry_out, done, readable, shown};
use crate::capability::Capability;
use crate::decide::Request;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The most names one listing tells.
const MOST_NAMES: u64 = 5000;

/// An operation on the agent's own files, which takes some capabilities on the path.
struct Own<'o> {
    tool: &'static str,
    takes: &'o [Capability],
    changes: bool,
    task: &'o dyn Fn(&Meant) -> Task,
    body: &'o [u8],
}

fn carry_out_own(context: &Context, cancel: &Cancel, meant: Meant, own: &Own<'_>) -> Result<Told, Reply> {
    let ground = Ground { policy: &context.policy, keep: &context.keep, making: &context.making };
    let judge = |meant: &Meant| {
        own.takes.iter().try_for_each(|capability| judge(context, &meant.request(*capability, own.tool)))
    };
    let operation = Operation { judge: &judge, changes: own.changes, task: own.task, body: own.body };
    carry_out(ground, cancel, meant, &operation)
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
        Own { tool: "read_file", takes: &[Capability::FsRead], changes: false, task: &task, body: &[] };
    let told = carry_out_own(context, cancel, meant.clone(), &operation)?;
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
    let operation =
        Own { tool: "write_file", takes: &[Capability::FsWrite], changes: true, task: &task, body: &content };
    let told = carry_out_own(context, cancel, meant.clone(), &operation)?;
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
    if size > HEAD / 4 {
        return Err(Fault::new(FaultCode::TooLarge, "the replacements are too large for one call").into());
    }
    let task = |meant: &Meant| Task::Edit {
        path: Place(meant.target.clone()),
        seen: meant.seen(),
        edits: edits.clone(),
        replace: may_replace(context, meant),
    };
    let takes = [Capability::FsRead, Capability::FsWrite];
    let operation = Own { tool: "edit_file", takes: &takes, changes: true, task: &task, body: &[] };
    let told = carry_out_own(context, cancel, meant.clone(), &operation)?;
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
    let operation = Own { tool: "delete_file", takes: &takes, changes: true, task: &task, body: &[] };
    let told = carry_out_own(context, cancel, meant.clone(), &operation)?;
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
    let operation = Own { tool: "list_dir", takes: &takes, changes: false, task: &task, body: &[] };
    let (mut told, _) = done(carry_out_own(context, cancel, meant.clone(), &operation)?);
    let entries = told["entries"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let entries: Vec<Value> = entries.into_iter().filter_map(|entry| readable(entry, "name")).collect();
    let mut value = json!({ "path": null, "entries": entries, "truncated": told["truncated"] });
    shown(&mut value, "path", &meant.target);
    Ok(value)
}

/// Sends a search, which is decided on as reading the directory; what it finds is decided on by itself.
pub(super) fn ask_search(
    context: &Context,
    cancel: &Cancel,
    meant: Meant,
    query: &Query,
) -> Result<Value, Reply> {
    let task = |meant: &Meant| Task::Search {
        path: Place(meant.target.clone()),
        seen: meant.seen(),
        query: query.clone(),
    };
    let takes = [Capability::FsRead];
    let operation = Own { tool: "search", takes: &takes, changes: false, task: &task, body: &[] };
    carry_out_own(context, cancel, meant, &operation).map(|told| done(told).0)
}
