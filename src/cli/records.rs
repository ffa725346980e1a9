//! `sbx records`: the store of records, with an agent's authority.

use super::fence::Who;
use super::hand::{carry_out, text};
use super::{CliError, Exit, Ui};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::io::Read;

/// What is done with records.
#[derive(Debug, Subcommand)]
pub(super) enum Records {
    /// List records.
    List(List),
    /// Print a record.
    Read(One),
    /// Find lines of records by a regular expression.
    Search(Search),
    /// Create a record from standard input.
    Create(Create),
    /// Change a record; its new text comes from standard input with --body.
    Update(Update),
    /// Delete a record.
    Delete(One),
}

/// Which records.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    who: Who,
    /// Only records of this class.
    #[arg(long)]
    class: Option<String>,
    /// Only records below this.
    below: Option<String>,
}

/// Which record.
#[derive(Debug, Args)]
pub(super) struct One {
    #[command(flatten)]
    who: Who,
    /// The record, such as `notes/today`.
    id: String,
}

/// What to look for.
#[derive(Debug, Args)]
pub(super) struct Search {
    #[command(flatten)]
    who: Who,
    /// Only records of this class.
    #[arg(long)]
    class: Option<String>,
    /// Upper and lower case are the same.
    #[arg(long, short)]
    ignore_case: bool,
    /// The regular expression.
    #[arg(allow_hyphen_values = true)]
    pattern: String,
}

/// A new record.
#[derive(Debug, Args)]
pub(super) struct Create {
    #[command(flatten)]
    who: Who,
    /// Its class.
    #[arg(long)]
    class: String,
    /// A field, as `name=value`; may be repeated. The value is JSON, or else text.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The record, such as `notes/today`.
    id: String,
}

/// What to change.
#[derive(Debug, Args)]
pub(super) struct Update {
    #[command(flatten)]
    who: Who,
    /// Its class from now on.
    #[arg(long)]
    class: Option<String>,
    /// A field, as `name=value`; may be repeated. The value is JSON, or else text.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Take its text from standard input.
    #[arg(long, short)]
    body: bool,
    /// Change it only if it is still at this revision.
    #[arg(long)]
    revision: Option<String>,
    /// The record.
    id: String,
}

impl Records {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        match self {
            Self::List(command) => command.run(ui),
            Self::Read(command) => {
                let shown = |value: &Value| show(ui, value);
                carry_out(ui, &command.who, "records_read", &json!({ "id": command.id }), shown)
            }
            Self::Search(command) => command.run(ui),
            Self::Create(command) => command.run(ui),
            Self::Update(command) => command.run(ui),
            Self::Delete(command) => {
                carry_out(ui, &command.who, "records_delete", &json!({ "id": command.id }), |value| {
                    ui.answer(format!("deleted {}", text(value, "id")))
                })
            }
        }
    }
}

/// The front matter, one field a line, and the text.
fn show(ui: &Ui, value: &Value) -> Result<(), CliError> {
    for (name, field) in value["fields"].as_object().into_iter().flatten() {
        ui.answer(format!("{name}: {field}"))?;
    }
    ui.answer("")?;
    ui.content(text(value, "body").as_bytes())
}

fn class_of(value: &Value) -> &str {
    value["class"].as_str().unwrap_or("-")
}

impl List {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let arguments = json!({ "class": self.class, "below": self.below });
        carry_out(ui, &self.who, "records_list", &arguments, |value| {
            let mut records = value["records"].as_array().into_iter().flatten();
            records
                .try_for_each(|record| ui.answer(format!("{:<12}  {}", class_of(record), text(record, "id"))))
        })
    }
}

impl Search {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let arguments =
            json!({ "class": self.class, "ignore_case": self.ignore_case, "pattern": self.pattern });
        carry_out(ui, &self.who, "records_search", &arguments, |value| {
            let mut found = value["matches"].as_array().into_iter().flatten();
            found.try_for_each(|found| {
                ui.answer(format!("{}:{}: {}", text(found, "id"), found["line"], text(found, "text")))
            })
        })
    }
}

impl Create {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let arguments =
            json!({ "id": self.id, "class": self.class, "fields": fields(&self.set)?, "body": input()? });
        carry_out(ui, &self.who, "records_create", &arguments, |value| {
            ui.answer(format!("created {} of class {}", text(value, "id"), class_of(value)))
        })
    }
}

impl Update {
    fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let mut arguments = json!({
            "id": self.id, "class": self.class, "fields": fields(&self.set)?, "revision": self.revision,
        });
        if self.body {
            arguments["body"] = json!(input()?);
        }
        carry_out(ui, &self.who, "records_update", &arguments, |value| {
            ui.answer(format!("changed {}, now at revision {}", text(value, "id"), text(value, "revision")))
        })
    }
}

/// Fields from `name=value`.
fn fields(set: &[String]) -> Result<Map<String, Value>, CliError> {
    let field = |text: &String| {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| CliError::new(format!("`{text}` is not a field")).hint("write `name=value`"))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        Ok((name.to_owned(), value))
    };
    set.iter().map(field).collect()
}

/// Standard input as text.
fn input() -> Result<String, CliError> {
    const MOST: u64 = 4 << 20;
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(MOST)
        .read_to_string(&mut text)
        .map_err(|error| CliError::new("cannot read text from standard input").because(&error))?;
    Ok(text)
}
