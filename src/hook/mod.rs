//! Hooks: a client asks before each of its built-in tools runs, and gets an answer in its own terms.
//!
//! Answers for what a call would do, for leading shell text through the fence, and for what is said to each client.
//! It leaves deciding to [`decide`](mod@crate::decide) and the risk layer, and holding to the fence.
//! Invariant: whatever cannot be read, decided or recorded blocks the call; only what is known to be fine, or is held
//! by the fence of its own server, is passed over in silence.

mod call;
mod clients;
mod fence;
mod glob;
pub mod install;
mod judge;
mod patch;
mod plain;
mod tree;

pub use clients::Client;
pub use fence::{quote, unquote};
pub use patch::named as files_of_patch;
pub use plain::words as plain_words;

use crate::audit::Sink;
use crate::mcp::chain;
use crate::mcp::protocol::Json;
use crate::run::{Setting, audit};
use call::Call;
use fence::Fence;
use judge::{Judge, Verdict};
use std::path::{Path, PathBuf};

/// The most that a client may say about one call; files that are written are in it.
pub const MOST: usize = 32 << 20;

/// For whom a hook answers, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// An agent's name, or the absolute path of a record.
    pub agent: String,
    /// Tools that pass although sbx does not know them; `*` for all of those.
    pub pass: Vec<String>,
    /// Whether the user is asked before a command runs that was led through the fence.
    pub ask: bool,
    /// The absolute path of sbx.
    pub program: PathBuf,
}

/// What a hook says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The answer; empty for no opinion, where the client knows that.
    pub stdout: String,
    /// Why the call is blocked without an answer.
    pub stderr: String,
    /// 0 with an answer, 2 without one: every client blocks the call then.
    pub status: u8,
}

impl Answer {
    /// Blocks the call, whatever the client is.
    pub fn block(why: impl Into<String>) -> Self {
        Self { stdout: String::new(), stderr: why.into(), status: 2 }
    }
}

/// Answers what a client asks about one call.
#[must_use]
pub fn answer(client: Client, asked: &[u8], options: &Options) -> Answer {
    attempt(client, asked, options).unwrap_or_else(|why| Answer::block(format!("blocked by sbx: {why}")))
}

fn attempt(client: Client, asked: &[u8], options: &Options) -> Result<Answer, String> {
    if asked.len() > MOST {
        return Err(format!("the client says more than {MOST} bytes about one call"));
    }
    let text = std::str::from_utf8(asked).map_err(|_| "what the client says is not UTF-8".to_owned())?;
    let asked = Json::read_document(text).map_err(|fault| format!("what the client says: {fault}"))?;
    let call = client.read(&asked)?;
    if options.ask && !client.asks() {
        return Err(format!("{client} cannot ask the user by a hook; leave out --ask"));
    }
    let dir = match &call.dir {
        Some(dir) => dir.clone(),
        None => std::env::current_dir().map_err(|error| format!("the working directory: {error}"))?,
    };
    let dir = sbx_platform::path::resolve(&dir).unwrap_or(dir);
    let setting = Setting::at(&dir).map_err(|error| chain(&error))?;
    let name = own_name(&options.agent, &dir);
    let agent = setting.agent(&name).map_err(|error| chain(&error))?;
    let fence = Fence::new(&options.program, &name, setting.facts.project.as_deref())?;
    let judge = Judge { client, policy: &agent.policy, dir: &dir, fence: &fence, pass: &options.pass };
    let judged = judge.judge(&call);
    let log = audit(&setting);
    for event in judged.events {
        match (log.record(event), &judged.verdict) {
            // A no stands whether or not it can be recorded.
            (Ok(()), _) | (Err(_), Verdict::Deny(_)) => {}
            (Err(error), Verdict::Silent | Verdict::Rewrite(_)) => return Err(error.to_string()),
        }
    }
    Ok(Answer { stdout: client.say(&judged.verdict, options.ask), stderr: String::new(), status: 0 })
}

/// A record by its path is the same wherever the command runs.
fn own_name(agent: &str, dir: &Path) -> String {
    if agent.contains('/') && !agent.starts_with("agents/") {
        return dir.join(agent).display().to_string();
    }
    agent.to_owned()
}

/// A call that a client asks about, read; for whoever wants to see that reading never fails badly.
#[doc(hidden)]
pub fn reads(client: Client, text: &str) -> bool {
    Json::read_document(text)
        .is_ok_and(|asked| client.read(&asked).is_ok_and(|call: Call<'_>| !call.tool.is_empty()))
}
