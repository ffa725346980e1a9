//! From a call to a command: every value checked, every placeholder filled.
//!
//! Invariant: what a caller gives is either one whole argument, or part of one, or refused.

use super::definition::{Action, Api, Tool};
use super::param::{MAX_VALUE, Param, Surroundings, expand_place};
use super::problem::{CallFault, ToolCode};
use super::template::{Piece, Template};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a caller gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// Values by parameter.
    pub values: Map<String, Value>,
    /// Arguments, for a tool that takes them freely.
    pub args: Vec<String>,
}

/// A command with nothing left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A program and its arguments.
    Exec(Vec<String>),
    /// A script for `sh`, and its `$1`, `$2` and so on.
    Shell {
        /// The script.
        script: String,
        /// Its parameters.
        arguments: Vec<String>,
    },
    /// An operation of sbx's own, with its values.
    Internal(Api, BTreeMap<String, String>),
}

impl Tool {
    /// Where a call runs, when the definition says so.
    ///
    /// # Errors
    /// When the place cannot be had.
    pub fn cwd(&self, around: &Surroundings<'_>) -> Result<Option<PathBuf>, CallFault> {
        self.constraints.cwd.as_deref().map(|cwd| expand_place(cwd, around)).transpose()
    }

    /// Turns a call into a command.
    ///
    /// # Errors
    /// What is wrong with the call, naming the parameter.
    pub fn bind(&self, given: &Given, around: &Surroundings<'_>) -> Result<Bound, CallFault> {
        if let Action::Free { binary, subcommands } = &self.action {
            return free(binary, subcommands, given);
        }
        if let Some(argument) = given.args.first() {
            let wanted = "values by name, not arguments";
            return Err(CallFault::new(ToolCode::UnknownParam, wanted).given(argument));
        }
        let values = self.values(given, around)?;
        match &self.action {
            Action::Template { binary, args } => {
                let mut argv = vec![binary.clone()];
                let mut after_dashes = false;
                for arg in args {
                    let value = |name: &str| value_of(&values, name);
                    let filled = arg.fill(value)?;
                    if !after_dashes {
                        self.check_option(arg, &values)?;
                    }
                    after_dashes |= arg.literal() == Some("--");
                    argv.push(filled);
                }
                check_size(&argv)?;
                Ok(Bound::Exec(argv))
            }
            Action::Shell(line) => {
                for name in &line.exposed {
                    self.check_dash(name, &value_of(&values, name)?)?;
                }
                let arguments: Vec<String> =
                    line.names.iter().map(|name| value_of(&values, name)).collect::<Result<_, _>>()?;
                check_size(&arguments)?;
                Ok(Bound::Shell { script: line.script.clone(), arguments })
            }
            Action::Internal(api) => {
                let taken = api.values().iter();
                let taken = taken.map(|name| Ok(((*name).to_owned(), value_of(&values, name)?)));
                Ok(Bound::Internal(*api, taken.collect::<Result<_, CallFault>>()?))
            }
            // Neither is reached: the one is bound above, the other is never found.
            Action::Free { .. } | Action::Off => {
                Err(CallFault::new(ToolCode::SubcommandRequired, "a subcommand"))
            }
        }
    }

    /// Every value, checked; defaults where nothing is given.
    fn values(
        &self,
        given: &Given,
        around: &Surroundings<'_>,
    ) -> Result<BTreeMap<String, String>, CallFault> {
        if let Some((name, _)) = given.values.iter().find(|(name, _)| self.param(name).is_none()) {
            let known: Vec<&str> = self.params.iter().map(|param| param.name.as_str()).collect();
            let wanted = if known.is_empty() {
                "no values at all".to_owned()
            } else {
                format!("one of {}", known.join(", "))
            };
            return Err(CallFault::new(ToolCode::UnknownParam, wanted).param(name));
        }
        let mut values = BTreeMap::new();
        for param in &self.params {
            let text = match given.values.get(&param.name) {
                Some(value) => Some(scalar(param, value)?),
                None => param.default.clone(),
            };
            match text {
                Some(text) => {
                    values.insert(param.name.clone(), param.check(&text, around)?);
                }
                None if param.optional => {}
                None if param.implied => return Err(without_value(&param.name)),
                None => {
                    return Err(
                        CallFault::new(ToolCode::MissingParam, param.kind.wanted()).param(&param.name)
                    );
                }
            }
        }
        Ok(values)
    }

    /// Refuses a value that would be read as an option: one that begins an argument with `-`.
    fn check_option(&self, arg: &Template, values: &BTreeMap<String, String>) -> Result<(), CallFault> {
        for piece in arg.pieces() {
            match piece {
                Piece::Text(_) => return Ok(()),
                Piece::Value(name) => {
                    let value = value_of(values, name)?;
                    self.check_dash(name, &value)?;
                    if !value.is_empty() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn check_dash(&self, name: &str, value: &str) -> Result<(), CallFault> {
        let exempt = self.param(name).is_some_and(|param| param.kind.may_lead_with_dash());
        if value.starts_with('-') && !exempt {
            let wanted =
                "a value that does not begin with `-`, unless the template puts it after `--` or `--option=`";
            return Err(CallFault::new(ToolCode::ReadsAsOption, wanted).param(name).given(value));
        }
        Ok(())
    }
}

fn value_of(values: &BTreeMap<String, String>, name: &str) -> Result<String, CallFault> {
    values.get(name).cloned().ok_or_else(|| without_value(name))
}

fn without_value(name: &str) -> CallFault {
    CallFault::new(ToolCode::PlaceholderWithoutValue, "a value for it").param(name)
}

/// A value as text; lists, maps and nothing are not values.
fn scalar(param: &Param, value: &Value) -> Result<String, CallFault> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            let fault = CallFault::new(ToolCode::NonScalar, param.kind.wanted());
            Err(fault.param(&param.name).given(&value.to_string()))
        }
    }
}

fn free(binary: &str, subcommands: &[String], given: &Given) -> Result<Bound, CallFault> {
    let wanted = format!("one of {}", subcommands.join(", "));
    let fault = |code| CallFault { allowed: subcommands.to_vec(), ..CallFault::new(code, wanted.as_str()) };
    if let Some((name, _)) = given.values.iter().next() {
        return Err(CallFault::new(ToolCode::UnknownParam, "arguments, not values by name").param(name));
    }
    match given.args.first() {
        None => Err(fault(ToolCode::SubcommandRequired)),
        Some(first) if !subcommands.contains(first) => {
            Err(fault(ToolCode::SubcommandNotAllowed).given(first))
        }
        Some(_) => {
            let argv: Vec<String> =
                std::iter::once(binary.to_owned()).chain(given.args.iter().cloned()).collect();
            check_size(&argv)?;
            Ok(Bound::Exec(argv))
        }
    }
}

/// The most bytes all arguments may have together.
const MOST: usize = 1 << 20;

fn check_size(arguments: &[String]) -> Result<(), CallFault> {
    let all: usize = arguments.iter().map(String::len).sum();
    if all > MOST || arguments.iter().any(|argument| argument.len() > MAX_VALUE || argument.contains('\0')) {
        let wanted = format!("arguments of at most {MAX_VALUE} bytes, {MOST} together, none with NUL");
        return Err(CallFault::new(ToolCode::Unpassable, wanted));
    }
    Ok(())
}
