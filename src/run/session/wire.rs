//! What clients ask of a supervisor and what it answers: one line of JSON each way.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// The longest line either way.
const MOST: u64 = 4 << 20;
/// How long a line may take to come.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A start: which tool, for whom, from where.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StartAsk {
    /// The tool.
    pub tool: String,
    /// Its values.
    pub values: Map<String, Value>,
    /// Its arguments, for a tool that takes them freely.
    pub args: Vec<String>,
    /// The agent's record, when it was given by its path.
    pub record: Option<PathBuf>,
    /// Where it is asked.
    pub cwd: PathBuf,
    /// The asker's environment.
    pub variables: BTreeMap<String, String>,
    /// How the fence is built.
    pub backend: Option<String>,
    /// Guarantees that can be done without.
    pub accepted: Vec<String>,
}

/// What is asked of a supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Ask {
    /// Starts a tool.
    Start(Box<StartAsk>),
    /// What is known of a tool, or of all.
    Status {
        /// Which; all when none.
        tool: Option<String>,
    },
    /// Ends a tool.
    Stop {
        /// Which.
        tool: String,
    },
    /// Adds tools to the session.
    Add {
        /// The name of the file they come from.
        file: String,
        /// Its text.
        text: String,
    },
    /// The files whose tools were added.
    Added,
    /// Keeps the session alive and its directory there for as long as the connection lasts.
    Lease,
    /// Ends the session.
    Close,
}

/// A question with whom it is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    /// The agent; a session is one agent's.
    pub(super) agent: Option<String>,
    /// The question.
    pub(super) ask: Ask,
}

/// An answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Answer {
    /// Whether it was done.
    pub ok: bool,
    /// The answer for machines.
    pub body: Value,
    /// What went wrong, for people.
    pub text: String,
}

pub(super) fn send(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)
}

pub(super) fn receive<T: for<'de> Deserialize<'de>>(stream: &UnixStream) -> io::Result<T> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    BufReader::new(stream.take(MOST)).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the line did not end"));
    }
    serde_json::from_slice(&line).map_err(io::Error::from)
}
