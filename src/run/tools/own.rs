//! Tools that stand for one of sbx's own operations, and whoever carries those out.

use super::call::Caller;
use super::output::{Report, Stop};
use crate::run::cancel::Cancel;
use crate::tool::{Api, Bound, Tool, ToolCode};
use std::collections::BTreeMap;

/// Carries out sbx's own operations, each decided and behind the agent's fence.
pub trait Own {
    /// One operation with the checked values of a tool.
    ///
    /// # Errors
    /// A denial, or why it was not done.
    fn carry_out(
        &self,
        tool: &Tool,
        api: Api,
        values: &BTreeMap<String, String>,
        cancel: Option<&Cancel>,
    ) -> Result<Report, Stop>;
}

/// Has the operation carried out that a tool stands for.
pub(super) fn run(tool: &Tool, bound: &Bound, caller: &Caller<'_>) -> Result<Report, Stop> {
    let wrong = |why: &str| Stop::failed(ToolCode::WrongKind, &tool.name, why);
    let Bound::Internal(api, values) = bound else { return Err(wrong("it is a command")) };
    let own = caller.own.ok_or_else(|| wrong("nobody here carries out sbx's own operations"))?;
    own.carry_out(tool, *api, values, caller.cancel)
}
