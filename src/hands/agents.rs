//! `agents_*`: what the calling agent holds, and giving some of it to another.
//!
//! Invariant: no agent changes its own authority, and none gives what it does not hold.

use super::Reply;
use super::arguments::{Arguments, invalid};
use super::cancel::Cancel;
use super::context::Context;
use super::fault::{Fault, FaultCode};
use super::judge::judge;
use crate::capability::{Capability, Spec};
use crate::decide::Request;
use crate::manifest::{AgentSource, Facts, FindError, Shelf, WriteError, find, grant, parse_spec, rewrite};
use crate::policy::{Grant, Proposal};
use serde_json::{Value, json};
use std::path::Path;

/// `agents_capabilities`: the agent's own grants.
pub(super) fn capabilities(_: &Arguments<'_>, context: &Context, _: &Cancel) -> Result<Value, Reply> {
    let shown = |grant: &Grant| {
        json!({
            "capability": grant.capability().name(),
            "grant": grant.spec.to_string(),
            "risk": grant.capability().risk().name(),
            "root": grant.root.as_deref().map(Path::to_string_lossy),
            "inert": grant.is_inert(),
        })
    };
    let grants: Vec<Value> = context.policy.grants().iter().map(shown).collect();
    Ok(json!({ "agent": context.policy.agent(), "grants": grants }))
}

/// `agents_grant`: authority for another agent, written into its record.
pub(super) fn give(arguments: &Arguments<'_>, context: &Context, _: &Cancel) -> Result<Value, Reply> {
    let id = arguments.needed("id")?;
    let texts = arguments.texts("grants")?.filter(|grants| (1..=50).contains(&grants.len()));
    let texts = texts.ok_or_else(|| invalid("`grants` is not a list of 1 to 50 grants in compact form"))?;
    let setting = &context.setting;
    let spec = |text: &&str| parse_spec(text, &setting.facts).map_err(|error| invalid(error.to_string()));
    let specs: Vec<Spec> = texts.iter().map(spec).collect::<Result<_, _>>()?;
    // Asked first without looking: whoever may not grant learns nothing of other agents.
    let request = |root| {
        let proposal = Proposal::new(specs.clone()).root(root);
        Request::agent(Capability::AgentGrant, id).proposing(proposal).by_tool("agents_grant")
    };
    judge(context, &request(None))?;
    let found = target(id, context)?;
    let other =
        setting.load(found.clone()).map_err(|error| Fault::new(FaultCode::Failed, error.to_string()))?;
    // And with where the other's grants would really hold.
    if let Some((root, _)) = other.manifest.sandbox() {
        judge(context, &request(root.path.clone()))?;
    }
    // A file may be called otherwise than the agent in it, which may be the one that asks.
    let proposal = Proposal::new(specs.clone());
    let real = Request::agent(Capability::AgentGrant, other.manifest.id()).proposing(proposal);
    judge(context, &real.by_tool("agents_grant"))?;
    let changed = write(&found, &specs, &setting.facts_for(&found))?;
    let granted: Vec<String> = specs.iter().map(Spec::to_string).collect();
    Ok(json!({ "id": other.manifest.id(), "granted": granted, "changed": changed }))
}

/// Another agent's record, if it is a file of the user's own.
fn target(id: &str, context: &Context) -> Result<AgentSource, Fault> {
    let name = crate::manifest::normalize_id(id);
    // A path would lead to any file; only names are known here.
    if name.contains(['/', '.']) {
        return Err(invalid(format!("`{}` is not the name of an agent", id.escape_debug())));
    }
    let found = find(name, &context.setting.facts).map_err(|error| match &error {
        FindError::Unknown { .. } => Fault::new(FaultCode::NotFound, format!("there is no agent {name}")),
        _ => Fault::new(FaultCode::Failed, error.to_string()),
    })?;
    match found.shelf {
        Shelf::User => Ok(found),
        Shelf::Builtin | Shelf::Project | Shelf::Path => {
            let message = format!(
                "the record of {name} is {}, and only the user's own are changed",
                found.shelf.name()
            );
            Err(Fault::new(FaultCode::WrongKind, message))
        }
    }
}

/// Adds the grants to a record, all or none; answers whether anything was new.
fn write(found: &AgentSource, specs: &[Spec], facts: &Facts) -> Result<bool, Fault> {
    let failed = |error: &dyn std::error::Error| Fault::new(FaultCode::Failed, error.to_string());
    let path =
        found.path.as_deref().ok_or_else(|| Fault::new(FaultCode::Failed, "the record is not a file"))?;
    let changed = rewrite(path, |source| -> Result<Option<String>, Fault> {
        let mut text: Option<String> = None;
        for spec in specs {
            let now = match &text {
                Some(text) => crate::Source::new(source.name(), text.as_str()),
                None => source.clone(),
            };
            let change = grant(&now, spec, facts).map_err(|error| failed(&error))?;
            text = change.text.or(text);
        }
        Ok(text)
    });
    changed.map_err(|error| match error {
        WriteError::Refused(fault) => fault,
        other => failed(&other),
    })
}
