//! Where agents' records are: a path, the user's own, the built-in ones, the project's.
//!
//! Invariant: a record found in a project never shadows a user's or built-in name, and is handed
//! out only when its hash is trusted.

use super::Facts;
use super::load::{LoadError, read_source};
use super::record::normalize_id;
use super::trust::TrustStore;
use crate::profile;
use crate::text::{Source, closest};
use sbx_platform::path::follow;
use std::path::{Path, PathBuf};

/// Which shelf a record stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shelf {
    /// A file named by the user.
    Path,
    /// `~/.config/sbx/agents`.
    User,
    /// Shipped with sbx.
    Builtin,
    /// `.sbx/agents` of a project.
    Project,
}

impl Shelf {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::User => "user",
            Self::Builtin => "built-in",
            Self::Project => "project",
        }
    }
}

/// A record that was found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AgentSource {
    /// Its text.
    pub source: Source,
    /// Where it stands.
    pub shelf: Shelf,
    /// Its file; none for a built-in one.
    pub path: Option<PathBuf>,
    /// The links on the way to it, each where it lies.
    pub links: Vec<PathBuf>,
    /// The project it was found in.
    pub project: Option<PathBuf>,
    /// Whether it may be used.
    pub trusted: bool,
}

/// Why no record can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// There is none of that name.
    #[error("there is no agent `{name}`{}", suggestion.as_ref().map(|s| format!("; did you mean `{s}`?")).unwrap_or_default())]
    Unknown {
        /// What was asked for.
        name: String,
        /// A name that is near.
        suggestion: Option<String>,
    },
    /// It stands in a project and was never looked at, or changed since.
    #[error("{} is a project's record that you have not trusted in its present form", path.display())]
    Untrusted {
        /// Which file.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Finds a record by path or name; an untrusted one is refused.
///
/// # Errors
/// When there is none, it is not trusted, or it cannot be read.
pub fn find(name: &str, facts: &Facts) -> Result<AgentSource, FindError> {
    let found = look_up(name, facts)?;
    match found.path {
        Some(path) if !found.trusted => Err(FindError::Untrusted { path }),
        _ => Ok(found),
    }
}

/// Reads a record's file without asking whether it is trusted; `trusted` says so.
///
/// # Errors
/// When it cannot be read.
pub fn open_record(path: &Path, facts: &Facts) -> Result<AgentSource, FindError> {
    from_file(path, Shelf::Path, facts)
}

fn look_up(name: &str, facts: &Facts) -> Result<AgentSource, FindError> {
    if is_path(name) {
        let path = match name.strip_prefix("~/") {
            Some(rest) => facts.home.join(rest),
            None => facts.cwd.join(name),
        };
        return from_file(&path, Shelf::Path, facts);
    }
    let id = normalize_id(name);
    if let Some(path) = record_in(&facts.config_dir.join("agents"), id) {
        return from_file(&path, Shelf::User, facts);
    }
    if let Some(built_in) = built_in(id) {
        return Ok(built_in);
    }
    if let Some(path) = project_dirs(facts).find_map(|dir| record_in(&dir, id)) {
        return from_file(&path, Shelf::Project, facts);
    }
    let listed = list(facts);
    let names = listed.iter().filter_map(|agent| agent.name());
    Err(FindError::Unknown { name: name.to_owned(), suggestion: closest(id, names).map(str::to_owned) })
}

/// A name with an extension or a leading dot, slash or tilde is a file.
fn is_path(name: &str) -> bool {
    let has_extension = [".md", ".yml", ".yaml"].iter().any(|extension| name.ends_with(extension));
    has_extension || name.starts_with(['/', '.', '~'])
}

fn record_in(dir: &Path, id: &str) -> Option<PathBuf> {
    let plain = !id.is_empty() && id.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
    ["md", "yml", "yaml"]
        .iter()
        .map(|extension| dir.join(format!("{id}.{extension}")))
        .find(|path| plain && may_be_there(path))
}

/// Whether a file is there, or something that cannot be looked at: a record that may be the narrower one is not passed over.
fn may_be_there(path: &Path) -> bool {
    std::fs::metadata(path).map_or_else(|error| may_be_there_at_all(&error), |meta| meta.is_file())
}

/// Whether an error leaves open that there is something.
fn may_be_there_at_all(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    !matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

/// `.sbx/agents` of the working directory and everything above it, nearest first.
fn project_dirs(facts: &Facts) -> impl Iterator<Item = PathBuf> {
    facts.cwd.ancestors().map(|dir| dir.join(".sbx/agents"))
}

fn from_file(path: &Path, shelf: Shelf, facts: &Facts) -> Result<AgentSource, FindError> {
    let source = read_source(path)?;
    let real = sbx_platform::path::real(path)
        .map_err(|source| LoadError::Read { path: path.to_path_buf(), source })?;
    // Naming the file does not make a project's record the user's own.
    let project = project_of_record(&real).or_else(|| project_of_record(path));
    let shelf = if project.is_some() { Shelf::Project } else { shelf };
    let trusted = match project {
        Some(_) => TrustStore::in_dir(&facts.config_dir).trusts(&real, source.text())?,
        None => true,
    };
    Ok(AgentSource {
        source: Source::new(real.display().to_string(), source.text()),
        shelf,
        path: Some(real),
        links: follow(path).map(|(links, _)| links).unwrap_or_default(),
        project,
        trusted,
    })
}

/// The project of a record below `.sbx/agents`.
fn project_of_record(path: &Path) -> Option<PathBuf> {
    let agents = path.ancestors().find(|dir| dir.ends_with(".sbx/agents"))?;
    agents.ancestors().nth(2).map(Path::to_path_buf)
}

fn built_in(id: &str) -> Option<AgentSource> {
    let (path, text) = profile::agent(id)?;
    Some(AgentSource {
        source: Source::new(format!("built-in:{path}"), text),
        shelf: Shelf::Builtin,
        path: None,
        links: Vec::new(),
        project: None,
        trusted: true,
    })
}

impl AgentSource {
    /// The name it is called by.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let file = self.source.name().rsplit('/').next()?;
        file.rsplit_once('.').map(|(stem, _)| stem)
    }
}

/// Every record that can be called by name, in the order of look-up; unreadable ones are left out.
#[must_use]
pub fn list(facts: &Facts) -> Vec<AgentSource> {
    let mut found: Vec<AgentSource> = Vec::new();
    let mut add = |agent: AgentSource| {
        if !found.iter().any(|seen| seen.name() == agent.name()) {
            found.push(agent);
        }
    };
    for path in files_in(&facts.config_dir.join("agents")) {
        from_file(&path, Shelf::User, facts).into_iter().for_each(&mut add);
    }
    for (path, _) in profile::BUILTIN_AGENTS {
        path.strip_prefix("agents/")
            .and_then(|file| built_in(file.trim_end_matches(".md")))
            .into_iter()
            .for_each(&mut add);
    }
    for dir in project_dirs(facts) {
        for path in files_in(&dir) {
            from_file(&path, Shelf::Project, facts).into_iter().for_each(&mut add);
        }
    }
    found
}

/// Why records that lie where agents are looked for by name cannot be read, and directories of them that cannot be listed.
#[must_use]
pub fn unreadable(facts: &Facts) -> Vec<FindError> {
    let mut found = Vec::new();
    let own = (facts.config_dir.join("agents"), Shelf::User);
    for (dir, shelf) in std::iter::once(own).chain(project_dirs(facts).map(|dir| (dir, Shelf::Project))) {
        match std::fs::read_dir(&dir) {
            Err(source) if may_be_there_at_all(&source) => {
                found.push(LoadError::Read { path: dir.clone(), source }.into());
            }
            Ok(_) | Err(_) => {}
        }
        found.extend(files_in(&dir).iter().filter_map(|path| from_file(path, shelf, facts).err()));
    }
    found
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "md" || ext == "yml" || ext == "yaml"))
        .collect();
    files.sort();
    files
}
