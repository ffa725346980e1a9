//! `sbx mcp pin`: writes down what a server's tools are.

use super::{Server, session_error};
use crate::audit::Sink;
use crate::cli::{CliError, Exit, Ui};
use crate::mcp::{Eras, InquiryError, LockFile, Pins, Rules, Session, Wanted, inquire, keep_pins};
use crate::run::{Setting, Started, audit};
use clap::Args;
use sbx_platform::Pipe;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The lock file when none is named.
const FILE: &str = "sbx-mcp.lock.json";

/// What to pin.
#[derive(Debug, Args)]
pub(in crate::cli) struct Pin {
    /// Only compare: write nothing, and say whether anything is different.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    server: Server,
}

impl Pin {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let setting = Setting::from_env()?;
        let log = audit(&setting);
        let session = self.server.session(ui, &setting)?;
        let (rules, _) = session.origin.load().map_err(CliError::new)?;
        let named = rules.pins.as_ref().map(|pinned| pinned.file.clone());
        let file = named.unwrap_or_else(|| setting.facts.cwd.join(FILE));
        let sink: Arc<dyn Sink> = log.clone();
        let ask = |eras| ui.during("asking the server …", || asked(&session, &rules, &sink, eras));
        let seen = match ask(Eras::Both)? {
            // A server of the old era may end over a question that it does not know.
            (Err(error), _) if error.is_of_new_era() => ask(Eras::Legacy)?,
            seen => seen,
        };
        let seen = match seen {
            (Ok(seen), _) => seen,
            (Err(error), None) => return Err(CliError::from_error(&error)),
            (Err(error), Some(status)) => {
                return Err(CliError::from_error(&error).hint(format!("it ended with status {status}")));
            }
        };
        let seen = Pins { package: session.resolved.package.clone(), ..seen };
        report(ui, &session, &file, &seen, self.check)
    }
}

/// What a server that is started for it says, and how it ended.
fn asked(
    session: &Session,
    rules: &Rules,
    log: &Arc<dyn Sink>,
    eras: Eras,
) -> Result<(Result<Pins, InquiryError>, Option<u8>), CliError> {
    let stdio = [Pipe::New, Pipe::New, Pipe::Inherit];
    let started = session.launch(rules, stdio, log);
    let Started { mut child, network, id, .. } =
        started.map_err(|error| session_error(error, log.as_ref()))?;
    let streams = child.stdin.take().zip(child.stdout.take());
    let seen = streams.map(|(to, from)| inquire(to, from, session.most, eras));
    child.kill();
    let ended = child.wait();
    let (agent, told) = (rules.policy.agent(), ended.as_ref().map_err(ToString::to_string));
    session.record_end(agent, &id, told, log.as_ref());
    drop(network);
    let seen = seen.ok_or_else(|| CliError::new("the server has no streams"))?;
    Ok((seen, ended.ok().map(|outcome| crate::run::exit_status(&outcome.end))))
}

fn report(ui: &Ui, session: &Session, file: &Path, seen: &Pins, check: bool) -> Result<Exit, CliError> {
    let server = &session.origin.server;
    let before = known(file, &session.origin.wanted())?;
    let changes = changes(before.as_ref(), seen);
    if !check {
        keep_pins(file, server, seen)
            .map_err(|error| CliError::new(format!("cannot write {}", file.display())).because(&error))?;
    }
    let same = changes.iter().all(|change| change["change"] == "same") && before.is_some();
    if ui.json {
        ui.answer_json(&json!({
            "file": file.to_string_lossy(), "server": server, "written": !check,
            "package": seen.package.as_ref().map(|(name, _)| name),
            "version": seen.package.as_ref().map(|(_, version)| version),
            "tools": changes,
        }))?;
    } else {
        tell(ui, file, server, &changes, check)?;
    }
    Ok(if check && !same { Exit::Denied } else { Exit::Fine })
}

fn tell(ui: &Ui, file: &Path, server: &str, changes: &[Value], check: bool) -> Result<(), CliError> {
    for change in changes {
        let text = |key: &str| change[key].as_str().unwrap_or_default().to_owned();
        ui.answer(format!("{:<8} {}", text("change"), text("name")))?;
        for difference in change["differences"].as_array().into_iter().flatten() {
            ui.answer(format!("           {}", difference.as_str().unwrap_or_default()))?;
        }
    }
    let is_tool = |change: &&Value| change["name"] != INSTRUCTIONS && change["name"] != PACKAGE;
    let tools = changes.iter().filter(is_tool).filter(|change| change["change"] != "gone").count();
    let done = if check { "compared with" } else { "pinned in" };
    ui.remark(format!("{server}: {tools} tools {done} {}", file.display()));
    Ok(())
}

/// What the lock file says of the server.
fn known(file: &Path, wanted: &Wanted<'_>) -> Result<Option<Pins>, CliError> {
    match std::fs::read_to_string(file) {
        Ok(text) => {
            let lock = LockFile::parse(&text).map_err(|error| {
                CliError::new(format!("{} cannot be used", file.display()))
                    .because(&error)
                    .hint("remove it to pin everything anew")
            })?;
            Ok(lock.find(wanted).map(|(_, pins)| pins.clone()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(CliError::new(format!("cannot read {}", PathBuf::from(file).display())).because(&error))
        }
    }
}

/// How what a server tells of itself is called among its tools.
const INSTRUCTIONS: &str = "(instructions)";
/// How its package is.
const PACKAGE: &str = "(package)";

fn changes(before: Option<&Pins>, seen: &Pins) -> Vec<Value> {
    let none = Pins::default();
    let before = before.unwrap_or(&none);
    let mut changes = Vec::new();
    if let Some(pinned) = before.other_package(seen.package.as_ref()) {
        let shown = |(name, version): &(String, String)| format!("{name} {version}");
        let is = seen.package.as_ref().map_or("no package".to_owned(), shown);
        changes.push(json!({ "name": PACKAGE, "change": "changed", "differences": [format!("{} became {is}", shown(pinned))] }));
    }
    if before.instructions != seen.instructions {
        let was = before.instructions.as_deref().unwrap_or("nothing");
        let is = seen.instructions.as_deref().unwrap_or("nothing");
        changes.push(json!({ "name": INSTRUCTIONS, "change": "changed", "differences": [format!("{was:?} became {is:?}")] }));
    }
    for (name, tool) in &seen.tools {
        let differences = before.differences(name, tool);
        let change = match (before.tools.contains_key(name), differences.is_empty()) {
            (false, _) => "new",
            (true, true) => "same",
            (true, false) => "changed",
        };
        let differences = if change == "changed" { differences } else { Vec::new() };
        changes.push(json!({ "name": name, "change": change, "differences": differences }));
    }
    let gone = before.tools.keys().filter(|name| !seen.tools.contains_key(*name));
    changes.extend(gone.map(|name| json!({ "name": name, "change": "gone", "differences": [] })));
    changes
}
