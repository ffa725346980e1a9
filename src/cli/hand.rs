//! Calling one of the agent's own operations from the command line, and answering as it went.

use super::fence::Who;
use super::{CliError, Exit, Ui};
use crate::hands::{Cancel, Context, Reply, call};
use crate::run::{Setting, audit};
use serde_json::Value;

/// Calls an operation for an agent; `show` prints what was done, for people.
pub(super) fn carry_out(
    ui: &Ui,
    who: &Who,
    operation: &str,
    arguments: &Value,
    show: impl FnOnce(&Value) -> Result<(), CliError>,
) -> Result<Exit, CliError> {
    let setting = Setting::from_env()?;
    let agent = setting.agent(&who.agent)?;
    let log = audit(&setting);
    let context = Context::new(agent.policy, &setting, log.clone())
        .at(who.directory(&setting))
        .backend(who.backend(&setting)?)
        .accepting(who.accepted()?);
    let reply = call(operation, arguments, &context, &Cancel::new());
    // The helper ends before the answer is told: nothing goes on behind it.
    drop(context);
    if let Some(failure) = log.failure() {
        ui.remark(format!("sbx: {failure}; allowed by `audit: {{on_failure: open}}`"));
    }
    let exit = match &reply {
        Reply::Done(_) => Exit::Fine,
        Reply::Denied(_) => Exit::Denied,
        Reply::Failed(_) => Exit::BadInput,
    };
    if ui.json {
        ui.answer_json(&reply.to_json())?;
        return Ok(exit);
    }
    match &reply {
        Reply::Done(value) => show(value)?,
        Reply::Denied(denial) => ui.remark(denial.to_string()),
        Reply::Failed(fault) => ui.remark(format!("error: {fault}")),
    }
    Ok(exit)
}

/// A text of an answer; empty where there is none.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
