//! The helper: this very program behind the agent's fence, doing file operations that were decided outside.
//!
//! Answers for reading tasks, doing them one after the other and answering. It decides nothing: what it may do, the
//! kernel holds it to.
//! Invariant: it follows no link, opens nothing but regular files and directories, and never waits for a file.

mod edit;
mod files;
mod find;
mod look;
mod put;
pub(super) mod wire;

use super::fault::Fault;
use serde_json::Value;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use wire::{Answer, Task};

/// The word by which our own program knows that it is the helper.
const WORD: &str = "__hands";

/// What comes of a task: the answer's value, and content.
type Outcome = Result<(Value, Vec<u8>), Stop>;

/// Why a task was not done.
#[derive(Debug)]
enum Stop {
    Fault(Fault),
    /// What stands there is not what was decided on.
    Other,
    /// Nothing stands there, or not in the directory that was decided on.
    Nothing,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The words that start a helper.
pub(super) fn words() -> Vec<OsString> {
    ["sbx", WORD].map(OsString::from).to_vec()
}

/// Serves as a helper if this process was started as one; else returns at once.
#[must_use]
pub fn serve(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != WORD || arguments.next().is_some() {
        return None;
    }
    Some(match converse(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Does task after task until there are no more.
fn converse(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<()> {
    while let Some((task, body)) = wire::read::<Task>(from)? {
        match perform(&task, &body) {
            Ok((value, content)) => wire::write(to, &Answer::Done(value), &content)?,
            Err(Stop::Fault(fault)) => wire::write(to, &Answer::from(fault), &[])?,
            Err(Stop::Other) => wire::write(to, &Answer::Other { there: true }, &[])?,
            Err(Stop::Nothing) => wire::write(to, &Answer::Other { there: false }, &[])?,
        }
    }
    Ok(())
}

fn perform(task: &Task, body: &[u8]) -> Outcome {
    match task {
        Task::Read { path, seen, part } => files::read(&path.0, *seen, *part),
        Task::Write { path, seen, existing, parents, replace } => {
            put::write(&path.0, *seen, *existing, *parents, *replace, body)
        }
        Task::Edit { path, seen, edits, replace } => edit::edit(&path.0, *seen, edits, *replace),
        Task::Delete { path, seen, directory } => files::delete(&path.0, *seen, *directory),
        Task::List { path, seen, most } => files::list(&path.0, *seen, *most),
        Task::Search { path, seen, query } => find::search(&path.0, *seen, query),
    }
}

/// Reads bytes as a helper would, and does nothing with them; for tests that feed it anything.
#[doc(hidden)]
pub fn read_tasks(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    let mut read = 0;
    while let Ok(Some((task, body))) = wire::read::<Task>(&mut rest) {
        let mut again = Vec::new();
        let written = wire::write(&mut again, &task, &body);
        let same = wire::read::<Task>(&mut again.as_slice());
        assert!(written.is_ok() && matches!(same, Ok(Some(same)) if same == (task, body)), "a task changed");
        read += 1;
    }
    read
}
