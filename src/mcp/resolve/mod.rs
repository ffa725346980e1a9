//! From the command a user typed to the entry point that is run inside the fence.
//!
//! Answers for `npx`, `uvx` and programs of environments: what they would start, and what that is made of. Fetching
//! is done outside, by the user's own tools; running is left to the fence.
//! Invariant: nothing of a package is run here, not even its installation scripts.

mod npm;
mod script;
mod uv;
mod words;

use crate::plan::Entry;
use crate::profile::mcp_launchers;
use crate::run::OwnPrograms;
use sbx_platform::path::within;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a package may take to be fetched.
const FETCH: Duration = Duration::from_secs(120);

/// What the user's own world looks like.
#[derive(Clone, Debug)]
pub struct World {
    /// The user's home.
    pub home: PathBuf,
    /// Where sbx keeps what it found out.
    pub state_dir: PathBuf,
    /// Where the server will run.
    pub cwd: PathBuf,
    /// The user's own programs, and what the record opens.
    pub own: OwnPrograms,
    /// Where programs are looked up inside.
    pub search: OsString,
    /// Whether to ask for the newest package again.
    pub refresh: bool,
}

/// What a command comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// What is run instead; none when the command is run as it is.
    pub entry: Option<Entry>,
    /// The package and its version.
    pub package: Option<(String, String)>,
    /// The file that is decided on, where the command's name does not mean it inside.
    pub file: Option<PathBuf>,
    /// By what ready maps know it: `npm:PACKAGE`, `pypi:PACKAGE`, `bin:PROGRAM`.
    pub known_as: Vec<String>,
}

/// Why a command cannot be taken apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// A launcher that keeps packages elsewhere.
    #[error("{launcher} cannot be taken apart: it {why}")]
    Launcher {
        /// Which.
        launcher: String,
        /// What about it.
        why: &'static str,
    },
    /// An option that changes what would be run.
    #[error("{launcher} is given {option}, which is not understood here")]
    Option {
        /// Whose.
        launcher: &'static str,
        /// Which.
        option: String,
    },
    /// No package.
    #[error("{0} is given no package")]
    NoPackage(&'static str),
    /// The user's tool is not there.
    #[error("{tool} is not installed{left_out}")]
    NoTool {
        /// Which.
        tool: &'static str,
        /// Where it was not looked for.
        left_out: String,
    },
    /// A file of the command that is not opened, chosen by one that the agent may have written.
    #[error("{} leads to {}, which the record does not open", by.display(), file.display())]
    Unopened {
        /// The file.
        file: PathBuf,
        /// What leads to it.
        by: PathBuf,
    },
    /// The package could not be fetched.
    #[error("{tool} could not fetch {package}: {said}")]
    Fetch {
        /// With which tool.
        tool: &'static str,
        /// Which.
        package: String,
        /// What the tool said last.
        said: String,
    },
    /// The package has no such program.
    #[error("{package} has no program{}", name.as_deref().map(|name| format!(" {name}")).unwrap_or_default())]
    NoProgram {
        /// Which package.
        package: String,
        /// Which program was looked for.
        name: Option<String>,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Finds out what a command comes to.
///
/// # Errors
/// When its package cannot be found or fetched, or the command is not understood.
pub fn resolve(argv: &[OsString], world: &World) -> Result<Resolved, ResolveError> {
    let words: Vec<&str> = argv.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let starts = |launcher: &[&str]| {
        words.len() >= launcher.len()
            && words.iter().zip(launcher).enumerate().all(|(at, (word, wanted))| {
                let word = if at == 0 { word.rsplit('/').next().unwrap_or(word) } else { word };
                word == *wanted
            })
    };
    let launcher = mcp_launchers().filter(|launcher| starts(&launcher.words));
    let Some(launcher) = launcher.max_by_key(|launcher| launcher.words.len()) else {
        return script::installed(argv, world);
    };
    let rest = &argv[launcher.words.len()..];
    match launcher.runtime {
        Some("node") => npm::resolve(rest, world),
        Some("uv") => uv::resolve(rest, world),
        Some(_) | None => {
            Err(ResolveError::Launcher { launcher: launcher.words.join(" "), why: launcher.why })
        }
    }
}

impl World {
    /// A program on the user's own search path.
    fn find(&self, name: &str) -> Option<PathBuf> {
        self.own.find(OsStr::new(name))
    }

    /// A tool of the user's, which is run outside.
    fn tool(&self, tool: &'static str) -> Result<PathBuf, ResolveError> {
        self.find(tool).ok_or_else(|| ResolveError::NoTool { tool, left_out: self.own.left_out() })
    }

    /// Those of the parts that may be shown: what a file in an opened place leads to is shown only as far as it is
    /// opened too.
    fn shown(&self, parts: Vec<PathBuf>, chosen_by: &[&Path]) -> Vec<PathBuf> {
        let free = !chosen_by.iter().any(|file| self.own.is_opened(file));
        let fits = |part: &PathBuf| {
            (free || self.own.opened.holds(part)) && self.own.opened.bared_by(part).is_none()
        };
        parts.into_iter().filter(fits).collect()
    }

    /// Adds a file itself where it is not seen yet.
    fn see(&self, file: &Path, chosen_by: &[&Path], parts: &mut Vec<PathBuf>) -> Result<(), ResolveError> {
        let seen = script::is_system(file) || parts.iter().any(|part| within(file, part));
        if seen || self.own.opened.holds(file) {
            return Ok(());
        }
        if let Some(by) = chosen_by.iter().find(|by| self.own.is_opened(by)) {
            return Err(ResolveError::Unopened { file: file.to_path_buf(), by: by.to_path_buf() });
        }
        parts.push(file.to_path_buf());
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, ResolveError> {
    std::fs::read_to_string(path).map_err(|source| ResolveError::Read { path: path.to_path_buf(), source })
}

/// Runs one of the user's own tools and hands out what it said.
fn run_tool(program: &Path, args: &[&OsStr], world: &World) -> io::Result<(bool, String, String)> {
    let mut child = Command::new(program)
        .args(args)
        .current_dir(&world.home)
        .env("PATH", world.own.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let take = |pipe: Option<&mut dyn Read>| {
        let mut text = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(1 << 20).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    };
    let errors = std::thread::spawn(move || take(err.as_mut().map(|pipe| pipe as &mut dyn Read)));
    let output = std::thread::spawn(move || take(out.as_mut().map(|pipe| pipe as &mut dyn Read)));
    let until = Instant::now() + FETCH;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > until => {
                child.kill()?;
                break child.wait()?;
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let said = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default();
    Ok((status.success(), said(output), said(errors)))
}

fn last_line(text: &str) -> String {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned()
}
