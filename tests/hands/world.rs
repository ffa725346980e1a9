//! A project, an agent with hands, and what each call answers.

use crate::support::TestEnv;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Every backend, with what must be done without for file operations there.
pub(crate) const BACKENDS: &[(&str, &str)] = &[
    ("native", ""),
    ("bwrap", "teardown-killed"),
    ("landlock", "fs-hidden,fs-metadata,pid-hidden,teardown,teardown-killed,signals"),
];

pub(crate) struct World {
    pub(crate) env: TestEnv,
    backend: (&'static str, &'static str),
    broken: bool,
}

/// What one call came to.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: i32,
    pub(crate) json: Value,
    pub(crate) stderr: String,
}

impl Said {
    /// The code of a denial or a fault; empty when it was done.
    pub(crate) fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }
}

impl World {
    /// A project in which the agent `a` holds these, one compact spec a line; `$P` is the project.
    pub(crate) fn new(grants: &[&str]) -> Self {
        let env = TestEnv::new();
        let world = Self { env, backend: BACKENDS[0], broken: false };
        world.grant(grants);
        world
    }

    pub(crate) fn grant(&self, grants: &[&str]) {
        let project = self.env.project().display().to_string();
        let lines: String =
            grants.iter().map(|grant| format!("  - \"{}\"\n", grant.replace("$P", &project))).collect();
        let list = if grants.is_empty() {
            "capabilities: []\n".to_owned()
        } else {
            format!("capabilities:\n{lines}")
        };
        self.env.write_record("a.md", format!("---\nid: a\n{list}---\n"));
    }

    pub(crate) fn behind(mut self, backend: (&'static str, &'static str)) -> Self {
        self.backend = backend;
        self
    }

    /// The same, with a matcher that says yes to everything about files.
    pub(crate) fn broken(mut self) -> Self {
        self.broken = true;
        self
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.env.project().join(below)
    }

    pub(crate) fn write(&self, below: &str, content: impl AsRef<[u8]>) -> PathBuf {
        self.env.write(self.path(below), content)
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        let mut all: Vec<OsString> = vec!["--json".into()];
        let at = words.len().min(2);
        all.extend(words[..at].iter().map(|word| word.as_ref().to_owned()));
        all.extend(["-a", "a", "--backend", self.backend.0].map(OsString::from));
        if !self.backend.1.is_empty() {
            all.extend(["--allow-degraded", self.backend.1].map(OsString::from));
        }
        all.extend(words[at..].iter().map(|word| word.as_ref().to_owned()));
        let mut command = self.env.sbx_command(&all);
        if self.broken {
            command.env("SBX_TEST_BROKEN_MATCHER", "1");
        }
        command
    }

    /// Calls `sbx`, the agent's name and the backend put in after the first two words.
    pub(crate) fn call<S: AsRef<OsStr>>(&self, words: &[S]) -> Said {
        said(&self.command(words).output().unwrap())
    }

    /// The same with something on standard input.
    pub(crate) fn call_with<S: AsRef<OsStr>>(&self, words: &[S], input: &[u8]) -> Said {
        fed(self.command(words), input)
    }

    /// Every event of the log.
    pub(crate) fn events(&self) -> Vec<Value> {
        let log = self.env.home().join(".local/state/sbx/audit.jsonl");
        let text = std::fs::read_to_string(log).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Names in the project, to see that nothing was left.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.env.project()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// What a command says to something on its standard input.
pub(crate) fn fed(mut command: Command, input: &[u8]) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    said(&output)
}

fn said(output: &Output) -> Said {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        unreachable!("no JSON: {error}: {:?} {stderr}", String::from_utf8_lossy(&output.stdout))
    });
    Said { status: output.status.code().unwrap_or(-1), json, stderr }
}
