//! The system's log, read while a command runs, to tell what was denied.
//!
//! Answers for starting and ending the reader. It leaves understanding lines to [`super::violations`].
//! Invariant: what cannot be read is not told; nothing else depends on it.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::macos::violations;
use crate::report::Act;

/// How long the log is given to start and to catch up.
const LOG_LAG: Duration = Duration::from_millis(500);

/// The system's log, being read for denials of this launch.
#[derive(Debug)]
pub(super) struct Log {
    reader: std::process::Child,
    lines: std::thread::JoinHandle<Vec<u8>>,
}

impl Log {
    /// Begins to read; none when there is no such log.
    pub(super) fn start(tag: &str) -> Option<Self> {
        let predicate = format!("eventMessage CONTAINS \"{tag}\"");
        let mut command = Command::new("/usr/bin/log");
        command.args(["stream", "--style", "ndjson", "--predicate", &predicate]).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut reader = command.spawn().ok()?;
        let mut output = reader.stdout.take()?;
        let lines = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = io::Read::read_to_end(&mut output, &mut bytes);
            bytes
        });
        std::thread::sleep(LOG_LAG);
        Some(Self { reader, lines })
    }

    /// What was denied, each once.
    pub(super) fn finish(mut self, tag: &str) -> Vec<Act> {
        std::thread::sleep(LOG_LAG);
        let _ = (self.reader.kill(), self.reader.wait());
        let text = self.lines.join().unwrap_or_default();
        let mut acts: Vec<Act> = Vec::new();
        for act in String::from_utf8_lossy(&text).lines().filter_map(|line| violations::denial(line, tag)) {
            if !acts.contains(&act) {
                acts.push(act);
            }
        }
        acts
    }
}
