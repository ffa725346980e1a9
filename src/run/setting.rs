//! Gathers the facts that the pure middle is handed, and loads agents with them.

use super::live::Live;
use crate::capability::ScopeKey;
use crate::manifest::{
    AgentSource, Config, Facts, FindError, LoadError, Manifest, Shelf, expand, expand_root, find, project_of,
    read_source,
};
use crate::plan::opened;
use crate::policy::Policy;
use crate::profile::tool_names;
use crate::text::{Problem, Severity, Source, render_all};
use crate::tool::{Definitions, shipped};
use sbx_platform::path::{follow, within};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The bit of a directory that everyone may write.
const OTHERS_WRITE: u32 = 0o002;

/// The machine, the user and the moment: facts and configuration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// The world as given.
    pub facts: Facts,
    /// What the user decided for all agents.
    pub config: Config,
}

/// An agent, loaded and placed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Agent {
    /// Where its record was found.
    pub found: AgentSource,
    /// Its record.
    pub manifest: Manifest,
    /// What it holds.
    pub policy: Policy,
    /// What is wrong with the record; nothing here stops it from being used.
    pub problems: Vec<Problem>,
}

/// Why the world or an agent could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// Nobody says where home is.
    #[error("cannot tell the home directory: HOME is not set to an absolute path")]
    Home,
    /// The working directory is gone or closed.
    #[error("cannot tell the working directory")]
    Cwd(#[source] std::io::Error),
    /// A place whose name is not text.
    #[error("no record can name {}: its name is not UTF-8, or holds control characters", .0.display())]
    Unnamed(PathBuf),
    /// A file cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No usable record.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The configuration is wrong, and it narrows every agent.
    #[error("the configuration has errors\n{0}")]
    Config(String),
    /// A rule or policy of the risk layer is wrong, and it narrows every agent.
    #[error("the risk rules have errors\n{0}")]
    Risk(String),
    /// The record is reached through a link that an agent could turn to another.
    #[error("the record is reached through the link {}, which an agent may change; name {} itself", link.display(), record.display())]
    Turned {
        /// The link.
        link: PathBuf,
        /// The record.
        record: PathBuf,
    },
    /// The record is wrong in a part that narrows it.
    #[error("the record has errors\n{0}")]
    Record(String),
}

/// Whether `.git` or `.sbx` in a directory makes it a project of whoever works below it: not if somebody else could have
/// put it there, as everyone can into a directory for temporary files.
fn is_mark(mark: &Path, cwd: &Path) -> bool {
    let trusted = [0, sbx_platform::ids().0].into_iter().chain(fs::metadata(cwd).ok().map(|meta| meta.uid()));
    let trusted: Vec<u32> = trusted.collect();
    let dir = mark.parent().and_then(|dir| fs::metadata(dir).ok());
    let own = |meta: &fs::Metadata| trusted.contains(&meta.uid());
    mark.exists()
        && fs::symlink_metadata(mark).is_ok_and(|mark| own(&mark))
        && dir.is_some_and(|dir| own(&dir) && dir.mode() & OTHERS_WRITE == 0)
}

/// Where this process stands; in the home when that is gone.
fn cwd_or_home() -> Result<PathBuf, SettingError> {
    let home = || env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    env::current_dir().or_else(|error| home().ok_or(error)).map_err(SettingError::Cwd)
}

impl Setting {
    /// The setting of this process.
    ///
    /// # Errors
    /// When home or working directory are unknown, or the configuration is broken.
    pub fn from_env() -> Result<Self, SettingError> {
        Self::at(&env::current_dir().map_err(SettingError::Cwd)?)
    }

    /// The setting of this process, as if it worked in another directory.
    ///
    /// # Errors
    /// When home is unknown, or the configuration is broken.
    pub fn at(cwd: &Path) -> Result<Self, SettingError> {
        Self::gather(cwd, None)
    }

    /// The setting of this process wherever it stands: one whose working directory is gone stands in the home.
    ///
    /// # Errors
    /// When home is unknown, or the configuration is broken.
    pub fn anywhere() -> Result<Self, SettingError> {
        Self::gather(&cwd_or_home()?, None)
    }

    /// The setting of this process, with a project other than the one around the working directory; where the working
    /// directory is gone, as if it worked in `dir`.
    ///
    /// # Errors
    /// As for [`Setting::from_env`].
    pub fn in_project(project: Option<&Path>, dir: Option<&Path>) -> Result<Self, SettingError> {
        let absolute = dir.filter(|dir| dir.is_absolute()).map(Path::to_path_buf);
        let cwd = env::current_dir().or_else(|error| absolute.ok_or(error)).map_err(SettingError::Cwd)?;
        // What the caller names is what is meant now, wherever a link leads later.
        let real = |path: PathBuf| sbx_platform::path::resolve(&path).unwrap_or(path);
        Self::gather(&cwd, project.map(|project| real(cwd.join(project))))
    }

    /// The setting of this process; a configuration that is broken is left out and told.
    ///
    /// # Errors
    /// When home or working directory are unknown.
    pub fn despite_errors() -> Result<(Self, Option<SettingError>), SettingError> {
        let facts = Self::facts_at(&cwd_or_home()?, None)?;
        match Self::with_facts(facts.clone()) {
            Ok(setting) => Ok((setting, None)),
            Err(error) => Ok((Self { facts, config: Config::default() }, Some(error))),
        }
    }

    fn gather(cwd: &Path, project: Option<PathBuf>) -> Result<Self, SettingError> {
        Self::with_facts(Self::facts_at(cwd, project)?)
    }

    fn facts_at(cwd: &Path, project: Option<PathBuf>) -> Result<Facts, SettingError> {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME").ok_or(SettingError::Home)?;
        let home = sbx_platform::path::resolve(&home).unwrap_or(home);
        let own = |name, usual| {
            let dir = absolute(name).unwrap_or_else(|| home.join(usual)).join("sbx");
            sbx_platform::path::resolve(&dir).unwrap_or(dir)
        };
        let config_dir = own("XDG_CONFIG_HOME", ".config");
        let state_dir = own("XDG_STATE_HOME", ".local/state");
        let project = project.or_else(|| project_of(cwd, &home, |mark| is_mark(mark, cwd)));
        Ok(Facts::new(home).at(cwd).project(project).config_dir(config_dir).state_dir(state_dir))
    }

    /// A setting for given facts, with the configuration that lies in their directory.
    ///
    /// # Errors
    /// When the configuration is broken.
    pub fn with_facts(facts: Facts) -> Result<Self, SettingError> {
        let path = facts.config_dir.join("config.yml");
        // One that cannot be looked at may narrow as much as one that can: only what is not there says nothing.
        if path.try_exists().is_ok_and(|there| !there) {
            return Ok(Self { facts, config: Config::default() });
        }
        let source = read_source(&path)?;
        let (config, problems) = Config::parse(source.clone(), &facts);
        let config = config.ok_or_else(|| SettingError::Config(render_all(&problems, &source)))?;
        let mut roots: Vec<PathBuf> =
            config.sandbox.iter().filter_map(|(root, _)| root.path.clone()).collect();
        let records = config.records.as_ref().and_then(|root| root.path.clone());
        roots.extend(records.clone());
        let facts = with_links(facts, roots);
        let records = records.map(|path| facts.real(&path));
        Ok(Self { facts: facts.records_dir(records), config })
    }

    /// The user's own files of tools, in order.
    #[must_use]
    pub fn tool_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.facts.config_dir.join("tools")).into_iter().flatten();
        let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let mut files: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
        files.sort();
        files
    }

    /// The built-in tools, file by file, without those that the configuration leaves out.
    pub fn builtin_tools(&self) -> impl Iterator<Item = (Source, Definitions)> {
        let wanted = self.config.builtin_tools.as_ref();
        let kept = move |name: &str| wanted.is_none_or(|wanted| wanted.iter().any(|one| one == name));
        tool_names().zip(shipped()).filter(move |(name, _)| kept(name)).map(|(_, file)| file)
    }

    /// Loads an agent by name or path.
    ///
    /// # Errors
    /// When there is none, it is not trusted, or its record is broken.
    pub fn agent(&self, name: &str) -> Result<Agent, SettingError> {
        self.load(find(name, &self.facts)?)
    }

    /// Loads a record that was found.
    ///
    /// # Errors
    /// When it is broken.
    pub fn load(&self, found: AgentSource) -> Result<Agent, SettingError> {
        let facts = self.facts.clone().found_in(found.project.clone());
        let (manifest, mut problems) = Manifest::parse(found.source.clone(), &facts);
        let Some(manifest) = manifest else {
            problems.retain(|problem| problem.severity == Severity::Error);
            return Err(SettingError::Record(render_all(&problems, &found.source)));
        };
        let facts = with_links(facts, roots_of(&manifest, &self.facts));
        let (policy, resolved) = Policy::resolve(&manifest, &self.config, &facts);
        problems.extend(resolved);
        if let Some(link) = turned(&found, &policy) {
            return Err(SettingError::Turned { link, record: found.path.unwrap_or_default() });
        }
        Ok(Agent { found, manifest, policy, problems })
    }

    /// The facts for a record found somewhere, with the links of its roots.
    #[must_use]
    pub fn facts_for(&self, found: &AgentSource) -> Facts {
        let facts = self.facts.clone().found_in(found.project.clone());
        match Manifest::parse(found.source.clone(), &facts).0 {
            Some(manifest) => {
                let roots = roots_of(&manifest, &facts);
                with_links(facts, roots)
            }
            None => facts,
        }
    }
}

/// Every root a record names.
fn roots_of(manifest: &Manifest, facts: &Facts) -> Vec<PathBuf> {
    let own = manifest.sandbox().and_then(|(root, _)| root.path.clone());
    let grants = expand(manifest);
    let roots = grants.iter().filter_map(|grant| grant.spec.scope.text(ScopeKey::In));
    roots.filter_map(|root| expand_root(root, facts).ok()?.path).chain(own).collect()
}

/// Finds out where roots really are. One that cannot be examined stays as written.
/// A link on the way to a record that lies where the record lets the agent write; on the way to one of the user's own,
/// also one that another agent may have turned.
fn turned(found: &AgentSource, policy: &Policy) -> Option<PathBuf> {
    if found.links.is_empty() {
        return None;
    }
    let facts = policy.facts();
    let beyond = found.links.iter().filter(|link| !within(link, &facts.config_dir));
    let loose = |link: &&PathBuf| found.shelf == Shelf::User && !is_settled(link, &facts.home);
    // Where what is opened cannot be told, nothing can be launched either.
    let opened = opened(policy, &Live).ok()?;
    let lies = |link: &PathBuf| opened.writable().any(|place| within(link, place));
    beyond.into_iter().find(|link| loose(link) || lies(link)).cloned()
}

fn with_links(facts: Facts, mut roots: Vec<PathBuf>) -> Facts {
    roots.extend(facts.project.clone());
    roots.extend(facts.found_in.clone());
    roots.sort();
    roots.dedup();
    roots.into_iter().fold(facts, |facts, root| match follow(&root) {
        Ok((links, _)) if !links.iter().all(|link| is_settled(link, &facts.home)) => facts.loose(root),
        Ok((_, real)) if real != root => facts.link(root, real),
        _ => facts,
    })
}

/// Whether a link is the system's or the user's: it lies in the home itself, above it, or where only root writes. Any
/// other may lie in a place that some record lets its agent write, and which those are cannot be known.
fn is_settled(link: &Path, home: &Path) -> bool {
    let Some(parent) = link.parent() else { return true };
    if within(home, parent) {
        return true;
    }
    // To root everything is root's: only what stands right below the top is surely the system's.
    let near = parent.components().count() <= 2;
    std::fs::metadata(parent)
        .is_ok_and(|meta| meta.uid() == 0 && meta.mode() & 0o022 == 0 && (sbx_platform::ids().0 != 0 || near))
}
