//! From the command a user typed to the entry point that is run inside the fence.
//!
//! Answers for `npx`, `uvx` and programs of environments: what they would start, and what that is made of. Fetching
//! is done outside, by the user's own tools; running is left to the fence.
//! Invariant: nothing of a package is run here, not even its installation scripts.

mod npm;
mod script;
mod tool;
mod uv;
mod words;

use crate::plan::Entry;
use crate::profile::{McpLauncher, mcp_launchers};
use crate::run::OwnPrograms;
use sbx_platform::path::within;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use tool::run_tool;

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
    let Some(launcher) = launcher(argv) else { return script::installed(argv, world) };
    let rest = &argv[launcher.words.len()..];
    match launcher.runtime {
        Some("node") => npm::resolve(rest, world),
        Some("uv") => uv::resolve(rest, world),
        Some(_) | None => {
            Err(ResolveError::Launcher { launcher: launcher.words.join(" "), why: launcher.why })
        }
    }
}

/// The launcher that a command starts with.
fn launcher(argv: &[OsString]) -> Option<McpLauncher> {
    let words: Vec<&str> = argv.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let starts = |launcher: &[&str]| {
        words.len() >= launcher.len()
            && words.iter().zip(launcher).enumerate().all(|(at, (word, wanted))| {
                let word = if at == 0 { word.rsplit('/').next().unwrap_or(word) } else { word };
                word == *wanted
            })
    };
    let launchers = mcp_launchers().filter(|launcher| starts(&launcher.words));
    launchers.max_by_key(|launcher| launcher.words.len())
}

/// What is known of a command that is run as it is: by what ready maps know it, and the package of a file that is
/// there. Which package a launcher starts is known only to the launcher.
#[must_use]
pub fn recognise(argv: &[OsString], world: &World) -> Resolved {
    if let Some(known_as) = packages_named(argv) {
        return Resolved { known_as, ..Resolved::default() };
    }
    let installed = script::installed(argv, world).unwrap_or_default();
    let program = argv.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or(&program);
    let known_as = match installed.known_as.is_empty() {
        true => vec![format!("bin:{name}")],
        false => installed.known_as,
    };
    Resolved { known_as, package: installed.package, ..Resolved::default() }
}

/// What a launcher's words could name as a package; none without a launcher.
fn packages_named(argv: &[OsString]) -> Option<Vec<String>> {
    let launcher = launcher(argv)?;
    let python = matches!(launcher.words.first(), Some(&("uvx" | "uv" | "pipx")));
    let words = argv[launcher.words.len()..].iter().filter_map(|word| word.to_str());
    // An option's value may be the package; a word too many only has more asked.
    let words = words.filter_map(|word| match word.strip_prefix('-') {
        Some(option) => option.split_once('=').map(|(_, value)| value),
        None => Some(word),
    });
    let known_as = words.filter_map(|word| match python {
        true => uv::package_name(word).map(|name| format!("pypi:{name}")),
        false => npm::named(word).map(|(name, _)| format!("npm:{name}")),
    });
    Some(known_as.collect())
}

impl Resolved {
    /// The name of the package, as far as it is known.
    #[must_use]
    pub fn package_name(&self) -> Option<&str> {
        let known = || {
            let packages = |name: &'_ String| name.starts_with("npm:") || name.starts_with("pypi:");
            self.known_as.iter().find(|name| packages(name)).and_then(|name| name.split_once(':'))
        };
        self.package.as_ref().map(|(name, _)| name.as_str()).or_else(|| known().map(|(_, name)| name))
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

fn last_line(text: &str) -> String {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_known_by_its_name_without_being_fetched() {
        let known = |line: &str| {
            let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let known_as = packages_named(&argv)?;
            Resolved { known_as, ..Resolved::default() }.package_name().map(str::to_owned)
        };
        for (line, package) in [
            ("npx -y @scope/server@1.2 /w", Some("@scope/server")),
            ("/usr/bin/npx --package=@scope/server tool", Some("@scope/server")),
            ("bunx --bun server-x", Some("server-x")),
            ("pnpm dlx server-x@latest", Some("server-x")),
            ("uvx mcp-server-git==1.0 --repository /w", Some("mcp-server-git")),
            ("uv tool run --from mcp-server-git[x] prog", Some("mcp-server-git")),
            ("pipx run mcp-server-git", Some("mcp-server-git")),
            ("mcp-server-git", None),
        ] {
            assert_eq!(known(line).as_deref(), package, "{line}");
        }
    }
}
