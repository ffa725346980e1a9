//! The world as given: what pure code needs to know and may not look up.

use sbx_platform::path::{normalize, within};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Facts about the machine and the moment, handed in by whoever starts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// The user's home directory.
    pub home: PathBuf,
    /// The working directory.
    pub cwd: PathBuf,
    /// What `$PROJECT` means here; none where it may not mean anything.
    pub project: Option<PathBuf>,
    /// Where sbx keeps its configuration, tools and agents.
    pub config_dir: PathBuf,
    /// Where sbx keeps what happened: the audit log.
    pub state_dir: PathBuf,
    /// Where the records are kept, when a record store is configured.
    pub records_dir: Option<PathBuf>,
    /// The project in which the record was found, which is then one more level of the hoist chain.
    pub found_in: Option<PathBuf>,
    /// Where roots that are, or lie behind, links really are.
    links: HashMap<PathBuf, PathBuf>,
    /// Roots behind links that somebody else may have turned.
    loose: Vec<PathBuf>,
    /// What would be the project if it did not contain the home directory.
    above_home: Option<PathBuf>,
}

impl Facts {
    /// Facts for a home directory, working in it, with sbx's files in their usual place.
    #[must_use]
    pub fn new(home: impl Into<PathBuf>) -> Self {
        let home = normalize(&home.into());
        Self {
            cwd: home.clone(),
            project: None,
            config_dir: home.join(".config/sbx"),
            state_dir: home.join(".local/state/sbx"),
            records_dir: None,
            found_in: None,
            links: HashMap::new(),
            loose: Vec::new(),
            above_home: None,
            home,
        }
    }

    /// The same facts, working somewhere; that directory is the project unless it is a home or `/`.
    #[must_use]
    pub fn at(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = normalize(&cwd.into());
        self.project = may_be_project(&self.cwd, &self.home).then(|| self.cwd.clone());
        self
    }

    /// The same facts with another project directory; `/` and home directories are refused.
    #[must_use]
    pub fn project(mut self, project: Option<PathBuf>) -> Self {
        let (project, named) = (project.map(|path| normalize(&path)), self.cwd.clone());
        let asked = project.clone().unwrap_or(named);
        self.above_home = Some(asked).filter(|asked| *asked != self.home && within(&self.home, asked));
        self.project = project.filter(|path| may_be_project(path, &self.home));
        self
    }

    /// Why there is no project, and what to do about it.
    #[must_use]
    pub fn no_project(&self) -> String {
        match &self.above_home {
            Some(project) if project.parent().is_some() => format!(
                "{} contains your home directory {}, and `$PROJECT` never does: name a directory beside it with --project, or set HOME to a directory outside",
                project.display(),
                self.home.display()
            ),
            _ => "there is no project here: `$PROJECT` is never `/` or a home directory; go into one, or name it with --project".to_owned(),
        }
    }

    /// The same facts with another configuration directory.
    #[must_use]
    pub fn config_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.config_dir = normalize(&dir.into());
        self
    }

    /// The same facts with another state directory.
    #[must_use]
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state_dir = normalize(&dir.into());
        self
    }

    /// The same facts for a record found in a project.
    #[must_use]
    pub fn found_in(mut self, project: Option<PathBuf>) -> Self {
        self.found_in = project.map(|project| normalize(&project));
        self
    }

    /// The same facts, knowing where a root really is.
    #[must_use]
    pub fn link(mut self, root: impl Into<PathBuf>, real: impl Into<PathBuf>) -> Self {
        self.links.insert(normalize(&root.into()), normalize(&real.into()));
        self
    }

    /// Where a root really is, links followed as far as is known.
    #[must_use]
    pub fn real(&self, root: &Path) -> PathBuf {
        self.links.get(root).cloned().unwrap_or_else(|| root.to_path_buf())
    }

    /// The same facts, knowing that a root lies behind a link that somebody else may have turned.
    #[must_use]
    pub fn loose(mut self, root: impl Into<PathBuf>) -> Self {
        self.loose.push(normalize(&root.into()));
        self
    }

    /// Whether a placed root is, or lies below, one that is not followed.
    pub(crate) fn is_loose(&self, root: &Path) -> bool {
        self.loose.iter().any(|loose| within(root, loose))
    }

    /// Whether any root is known to be, or to lie behind, a link.
    pub(crate) fn knows_links(&self) -> bool {
        !self.links.is_empty() || !self.loose.is_empty()
    }

    /// The same facts with a record store.
    #[must_use]
    pub fn records_dir(mut self, dir: Option<PathBuf>) -> Self {
        self.records_dir = dir.map(|dir| normalize(&dir));
        self
    }
}

/// Whether a directory may stand for `$PROJECT`: never `/`, a home directory, or what contains one.
fn may_be_project(path: &Path, home: &Path) -> bool {
    let is_home = home.starts_with(path)
        || path == Path::new("/root")
        || path.parent().is_some_and(|parent| parent == Path::new("/home") || parent == Path::new("/Users"));
    !is_home && path.parent().is_some()
}

/// The nearest ancestor of `cwd` with `.git` or `.sbx`, else `cwd` itself.
///
/// `exists` answers whether a path is there, so that the search stays testable. The search stops
/// below the home directory: a repository made of a whole home is not a project.
#[must_use]
pub fn project_of(cwd: &Path, home: &Path, exists: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    cwd.ancestors()
        .filter(|dir| may_be_project(dir, home))
        .find(|dir| exists(&dir.join(".git")) || exists(&dir.join(".sbx")))
        .or(Some(cwd))
        .filter(|dir| may_be_project(dir, home))
        .map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(cwd: &str, marker: &str) -> Option<PathBuf> {
        project_of(Path::new(cwd), Path::new("/home/u"), |path| path == Path::new(marker))
    }

    #[test]
    fn the_nearest_marked_ancestor_is_the_project() {
        assert_eq!(project("/home/u/p/src/x", "/home/u/p/.git"), Some("/home/u/p".into()));
        assert_eq!(project("/home/u/p/src", "/nowhere"), Some("/home/u/p/src".into()));
    }

    #[test]
    fn a_home_directory_or_the_root_is_never_a_project() {
        assert_eq!(project("/home/u", "/home/u/.git"), None);
        assert_eq!(project("/", "/.git"), None);
        assert_eq!(project("/home", "/nowhere"), None);
        assert_eq!(project("/home/v", "/nowhere"), None);
        assert_eq!(project("/home/u/p", "/home/u/.git"), Some("/home/u/p".into()));
    }
}
