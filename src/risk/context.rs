//! Where a text would run: over ssh, as root, on a branch, in a cluster, in production.
//!
//! The facts are gathered by `run` and handed in; here is what they mean.

use super::assess::Matched;
use crate::capability::matches_segment;

/// How dangerous a place it is to make a mistake in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing special.
    #[default]
    Normal,
    /// Somebody else's machine.
    Elevated,
    /// A mistake costs others.
    Critical,
}

impl Level {
    /// The name used in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Elevated => "Elevated",
            Self::Critical => "Critical",
        }
    }
}

/// What is known of the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Context {
    /// Whether the session came over ssh.
    pub ssh: bool,
    /// Whether it runs as root.
    pub root: bool,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// The cluster that kubectl would speak to.
    pub kube: Option<String>,
    /// Whether a variable says that this is production.
    pub production: bool,
}

/// Branches that others build on.
const PROTECTED: &[&str] = &["main", "master", "production", "release/*"];
/// Parts of names that mean production.
const LIVE: &[&str] = &["prod", "prd", "live"];
/// Variables that say which environment this is.
const ENVIRONMENTS: &[&str] =
    &["NODE_ENV", "RAILS_ENV", "ENVIRONMENT", "RACK_ENV", "APP_ENV", "FLASK_ENV", "DJANGO_ENV"];

impl Context {
    /// The context that variables tell of.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        Self {
            ssh: set("SSH_CONNECTION") || set("SSH_TTY"),
            root: variable("EUID").as_deref() == Some("0"),
            branch: None,
            kube: None,
            production: ENVIRONMENTS
                .iter()
                .any(|name| variable(name).is_some_and(|value| value.eq_ignore_ascii_case("production"))),
        }
    }

    /// The same context for root, or not.
    #[must_use]
    pub fn root(mut self, root: bool) -> Self {
        self.root |= root;
        self
    }

    /// The same context on a branch.
    #[must_use]
    pub fn branch(mut self, branch: Option<String>) -> Self {
        self.branch = branch;
        self
    }

    /// The same context with a cluster.
    #[must_use]
    pub fn kube(mut self, kube: Option<String>) -> Self {
        self.kube = kube;
        self
    }

    /// What the context means for what was found. Nothing found, nothing meant.
    pub(super) fn judge(&self, matched: &[Matched<'_>]) -> (Level, Vec<String>) {
        let (mut level, mut labels) = (Level::Normal, Vec::new());
        if matched.is_empty() {
            return (level, labels);
        }
        let concerns = |group: &str| matched.iter().any(|matched| matched.rule.group == group);
        if self.ssh {
            level = level.max(Level::Elevated);
            labels.push("ssh=true".to_owned());
        }
        if self.root {
            level = Level::Critical;
            labels.push("root=true".to_owned());
        }
        if let Some(branch) = self.branch.as_ref().filter(|_| concerns("git")) {
            if PROTECTED.iter().any(|name| matches_segment(name, branch.as_bytes())) {
                level = Level::Critical;
            }
            labels.push(format!("branch={branch}"));
        }
        if let Some(kube) = self.kube.as_ref().filter(|_| concerns("kubernetes")) {
            let name = kube.to_ascii_lowercase();
            if LIVE.iter().any(|part| name.contains(part)) {
                level = Level::Critical;
            }
            labels.push(format!("k8s={kube}"));
        }
        if self.production {
            level = Level::Critical;
        }
        (level, labels)
    }
}
