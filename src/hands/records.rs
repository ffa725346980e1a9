//! `records_*`: Markdown records with classes, in the directory that the configuration names.
//!
//! The store is reached by a helper of its own, fenced to that directory with what the agent's verbs come to; which
//! record of it may be touched is decided here, by id and class.
//! Invariant: an agent's record is never reached through `records.*`.

use super::Reply;
use super::arguments::{Arguments, invalid};
use super::cancel::Cancel;
use super::context::Context;
use super::fault::{Fault, FaultCode};
use super::helper::wire::{Existing, Part, Place, Query, Task};
use super::judge::judge;
use super::keep::{Keep, Making};
use super::reach::{Ground, Meant, Operation, carry_out, done};
use super::record::{Record, checked_id};
use crate::capability::{Capability, Scope, ScopeKey, Spec};
use crate::decide::{Request, Subject};
use crate::policy::Policy;
use sbx_platform::path::within;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The most records one answer tells of.
const MOST: u64 = 500;
/// The longest record.
const LONGEST: usize = 1 << 20;
/// How long a search may take, in milliseconds.
const MILLIS: u64 = 10_000;

/// The store, as an agent with these verbs can reach it.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    policy: Policy,
    keep: Keep,
    making: Making,
}

impl Store {
    /// The configured store; none where none is configured.
    fn of(context: &Context) -> Result<Self, Fault> {
        let Some(dir) = context.setting.facts.records_dir.clone().filter(|dir| dir.is_dir()) else {
            return Err(Fault::new(FaultCode::NotConfigured, "no directory of records is configured")
                .hint("write `records: DIR` into config.yml, and make that directory"));
        };
        let own = &context.policy;
        let any = |verbs: &[Capability]| verbs.iter().any(|verb| own.holds(*verb));
        use Capability as C;
        // A class is read before it is decided on, and a record that is changed is replaced as a whole.
        let verbs = [
            (C::FsRead, any(&[C::RecordsRead, C::RecordsUpdate, C::RecordsDelete])),
            (C::FsWrite, any(&[C::RecordsCreate, C::RecordsUpdate])),
            (C::FsDelete, any(&[C::RecordsUpdate, C::RecordsDelete])),
        ];
        let verbs = verbs.into_iter().filter(|(_, held)| *held).map(|(verb, _)| verb);
        let text = dir
            .to_str()
            .ok_or_else(|| Fault::new(FaultCode::NotConfigured, "the records' directory is not UTF-8"))?;
        let spec = |capability| Spec { capability, scope: Scope::bare().with_text(ScopeKey::In, text) };
        let specs: Vec<Spec> = verbs.map(spec).collect();
        let policy = Policy::from_specs(own.agent(), &specs, own.facts())
            .map_err(|_| Fault::new(FaultCode::NotConfigured, "the records' directory cannot be placed"))?;
        let accepted = context.making.accepted.iter().chain(own.accept_degraded()).cloned().collect();
        let making =
            Making { backend: context.making.backend, accepted, audit: context.making.audit.clone() };
        Ok(Self { dir, policy, keep: Keep::default(), making })
    }

    fn file(&self, id: &str) -> Result<Meant, Fault> {
        let meant = Meant::at(self.dir.join(format!("{id}.md")), false)?;
        match within(&meant.target, &self.dir) {
            true => Ok(meant),
            false => Err(Fault::new(FaultCode::Refused, format!("the record {id} leads out of the store"))),
        }
    }

    /// Has the helper do something; whether it may be done was decided before.
    fn act(
        &self,
        meant: Meant,
        cancel: &Cancel,
        task: &dyn Fn(&Meant) -> Task,
        body: &[u8],
    ) -> Result<(Value, Vec<u8>), Reply> {
        let ground = Ground { policy: &self.policy, keep: &self.keep, making: &self.making };
        let within_store = |meant: &Meant| match within(&meant.target, &self.dir) {
            true => Ok(()),
            false => Err(Reply::Failed(Fault::new(FaultCode::Changed, "the record leads out of the store"))),
        };
        let changes = matches!(task(&meant), Task::Write { .. } | Task::Delete { .. });
        let operation = Operation { judge: &within_store, changes, task, body };
        carry_out(ground, cancel, meant, &operation).map(done)
    }

    fn load(&self, id: &str, cancel: &Cancel) -> Result<Record, Reply> {
        let task = |meant: &Meant| Task::Read {
            path: Place(meant.target.clone()),
            seen: meant.seen(),
            part: Part::Bytes(0, LONGEST as u64 + 1),
        };
        let (_, content) =
            self.act(self.file(id)?, cancel, &task, &[]).map_err(|reply| missing(reply, id))?;
        if content.len() > LONGEST {
            return Err(
                Fault::new(FaultCode::TooLarge, format!("the record {id} is larger than 1 MiB")).into()
            );
        }
        let text = String::from_utf8(content)
            .map_err(|_| Fault::new(FaultCode::NotText, format!("the record {id} is not UTF-8 text")))?;
        Ok(Record::read(id, text)?)
    }

    fn save(&self, record: &Record, existing: Existing, cancel: &Cancel) -> Result<(), Reply> {
        if record.text.len() > LONGEST {
            return Err(Fault::new(FaultCode::TooLarge, "a record holds at most 1 MiB").into());
        }
        let meant = self.file(&record.id)?;
        let task = |meant: &Meant| {
            let known = meant.target.parent().is_some_and(Path::exists);
            Task::Write {
                path: Place(meant.target.clone()),
                seen: if known { meant.seen() } else { Default::default() },
                existing,
                parents: true,
                replace: true,
            }
        };
        self.act(meant, cancel, &task, record.text.as_bytes())
            .map(drop)
            .map_err(|reply| missing(reply, &record.id))
    }
}

/// Failures about a record's file, told of the record.
fn missing(reply: Reply, id: &str) -> Reply {
    match reply {
        Reply::Failed(fault) if fault.code == FaultCode::NotFound => {
            Reply::Failed(Fault::new(FaultCode::NotFound, format!("there is no record {id}")))
        }
        Reply::Failed(fault) if fault.code == FaultCode::Exists => {
            Reply::Failed(Fault::new(FaultCode::Exists, format!("there is a record {id} already")))
        }
        other => other,
    }
}

fn store(context: &Context) -> Result<&Store, Fault> {
    if let Some(store) = context.store.get() {
        return Ok(store);
    }
    let made = Store::of(context)?;
    Ok(context.store.get_or_init(|| made))
}

/// Decides on a record. One that is an agent's needs `agent.*`, and is not kept here even then.
fn decide_on(
    context: &Context,
    capability: Capability,
    id: Option<&str>,
    class: Option<&str>,
    tool: &str,
) -> Result<(), Reply> {
    let request = Request::record(capability, id, class).by_tool(tool);
    judge(context, &request)?;
    match request.subject() {
        Subject::Agent { .. } => {
            Err(Fault::new(FaultCode::WrongKind, "an agent's record is not one of these")
                .hint("agents_grant gives authority; the rest is for `sbx agents`")
                .into())
        }
        _ => Ok(()),
    }
}

fn revision(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn shown(record: &Record) -> Value {
    json!({
        "id": record.id, "class": record.class(), "fields": record.fields(), "body": record.body(),
        "revision": revision(&record.text),
    })
}

/// `records_read`.
pub(super) fn read(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    let id = checked_id(arguments.needed("id")?)?;
    decide_on(context, Capability::RecordsRead, Some(&id), None, "records_read")?;
    Ok(shown(&store(context)?.load(&id, cancel)?))
}

/// `records_list`.
pub(super) fn list(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    decide_on(context, Capability::RecordsRead, None, None, "records_list")?;
    let below = arguments.text("below")?.map(checked_id).transpose()?;
    let glob = below.map_or_else(|| "**/*.md".to_owned(), |below| format!("{below}/**/*.md"));
    let (found, truncated) = find(arguments, context, cancel, glob, None, false)?;
    let entry = |(record, _): (Record, Value)| json!({ "id": record.id, "class": record.class() });
    let records: Vec<Value> = found.into_iter().map(entry).collect();
    Ok(json!({ "records": records, "truncated": truncated }))
}

/// `records_search`.
pub(super) fn search(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    decide_on(context, Capability::RecordsRead, None, None, "records_search")?;
    let pattern = arguments.needed("pattern")?.to_owned();
    let ignore_case = arguments.flag("ignore_case")?;
    let (found, truncated) =
        find(arguments, context, cancel, "**/*.md".to_owned(), Some(pattern), ignore_case)?;
    let entry = |(record, found): (Record, Value)| json!({ "id": record.id, "class": record.class(), "line": found["line"], "text": found["text"] });
    let matches: Vec<Value> = found.into_iter().map(entry).collect();
    Ok(json!({ "matches": matches, "truncated": truncated }))
}

/// Records whose files are found, of the class that is asked for. What is no record is left out.
fn find(
    arguments: &Arguments<'_>,
    context: &Context,
    cancel: &Cancel,
    glob: String,
    pattern: Option<String>,
    ignore_case: bool,
) -> Result<(Vec<(Record, Value)>, bool), Reply> {
    let store = store(context)?;
    let class = arguments.text("class")?;
    let most = arguments.number("limit", 1, MOST)?.unwrap_or(100);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let query = Query { glob: Some(glob), pattern, ignore_case, most: 2000, millis: MILLIS };
    let task = |meant: &Meant| Task::Search {
        path: Place(meant.target.clone()),
        seen: meant.seen(),
        query: query.clone(),
    };
    let (mut told, _) = store.act(Meant::at(store.dir.clone(), false)?, cancel, &task, &[])?;
    let mut truncated = told["truncated"] == json!(true);
    let mut records: Vec<(Record, Value)> = Vec::new();
    for found in told["matches"].as_array_mut().map(std::mem::take).unwrap_or_default() {
        let Some(id) = id_of(&found) else { continue };
        let record = match records.last().filter(|(last, _)| last.id == id) {
            Some((last, _)) => Record::read(&id, last.text.clone()).ok(),
            None => store.load(&id, cancel).ok(),
        };
        let Some(record) = record.filter(|record| class.is_none_or(|class| record.class() == Some(class)))
        else {
            continue;
        };
        if records.len() == most {
            truncated = true;
            break;
        }
        records.push((record, found));
    }
    Ok((records, truncated))
}

/// The id that a file's path stands for.
fn id_of(found: &Value) -> Option<String> {
    let place: Place = serde_json::from_value(found["path"].clone()).ok()?;
    let id = place.0.to_str()?.strip_suffix(".md")?;
    checked_id(id).ok().filter(|checked| checked == id)
}

/// `records_create`.
pub(super) fn create(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    let id = checked_id(arguments.needed("id")?)?;
    let class = arguments.needed("class")?;
    decide_on(context, Capability::RecordsCreate, Some(&id), Some(class), "records_create")?;
    let record = Record::new(&id, class, &fields(arguments)?, arguments.text("body")?.unwrap_or_default())?;
    if record.class() != Some(class) {
        return Err(invalid("the class is not one word of text").into());
    }
    store(context)?.save(&record, Existing::New, cancel)?;
    Ok(json!({ "id": id, "class": class, "revision": revision(&record.text) }))
}

fn fields(arguments: &Arguments<'_>) -> Result<Map<String, Value>, Fault> {
    let fields = match arguments.value("fields") {
        None => return Ok(Map::new()),
        Some(fields) => fields.as_object().cloned().ok_or_else(|| invalid("`fields` is not an object"))?,
    };
    match fields.contains_key("class") {
        true => Err(invalid("the class is given as `class`, not as a field")),
        false => Ok(fields),
    }
}

/// `records_update`.
pub(super) fn update(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    let tool = "records_update";
    let id = checked_id(arguments.needed("id")?)?;
    // An agent that holds nothing of this learns nothing of what is there.
    if !context.policy.holds(Capability::RecordsUpdate) {
        decide_on(context, Capability::RecordsUpdate, Some(&id), None, tool)?;
    }
    let store = store(context)?;
    let old = store.load(&id, cancel)?;
    decide_on(context, Capability::RecordsUpdate, Some(&id), old.class(), tool)?;
    if let Some(expected) = arguments.text("revision")?
        && expected != revision(&old.text)
    {
        return Err(
            Fault::new(FaultCode::Changed, format!("the record {id} is not at revision {expected}")).into()
        );
    }
    let was = old.class().map(str::to_owned);
    let mut set = fields(arguments)?;
    if let Some(class) = arguments.text("class")? {
        set.insert("class".to_owned(), json!(class));
    }
    let record = match (arguments.text("content")?, arguments.text("body")?) {
        (Some(_), body) if body.is_some() || !set.is_empty() => {
            return Err(invalid("`content` is the whole record, and leaves nothing else to give").into());
        }
        (Some(content), _) => Record::read(&id, content.to_owned())?,
        (None, None) if set.is_empty() => return Err(invalid("nothing to change is given").into()),
        (None, Some(body)) => old.with_fields(&set)?.with_body(body)?,
        (None, None) => old.with_fields(&set)?,
    };
    // What it becomes must be allowed too, or a class could be left behind.
    if record.class() != was.as_deref() {
        decide_on(context, Capability::RecordsUpdate, Some(&id), record.class(), tool)?;
    }
    store.save(&record, Existing::Old, cancel)?;
    Ok(json!({ "id": id, "class": record.class(), "revision": revision(&record.text) }))
}

/// `records_delete`.
pub(super) fn delete(arguments: &Arguments<'_>, context: &Context, cancel: &Cancel) -> Result<Value, Reply> {
    let tool = "records_delete";
    let id = checked_id(arguments.needed("id")?)?;
    if !context.policy.holds(Capability::RecordsDelete) {
        decide_on(context, Capability::RecordsDelete, Some(&id), None, tool)?;
    }
    let store = store(context)?;
    let record = store.load(&id, cancel)?;
    decide_on(context, Capability::RecordsDelete, Some(&id), record.class(), tool)?;
    let task = |meant: &Meant| Task::Delete {
        path: Place(meant.target.clone()),
        seen: meant.seen(),
        directory: false,
    };
    store.act(store.file(&id)?, cancel, &task, &[])?;
    Ok(json!({ "id": id, "class": record.class() }))
}
