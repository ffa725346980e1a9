//! Who asks, from where, and what is kept between calls.

use super::keep::{Keep, Making};
use super::records::Store;
use crate::audit::Sink;
use crate::net::Fetcher;
use crate::policy::Policy;
use crate::run::Setting;
use sbx_platform::Backend;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// An agent with its hands: its authority, where relative paths start, and the helper that is kept warm.
///
/// Dropping it ends the helper. Shared by threads behind an `Arc`.
#[derive(Debug)]
pub struct Context {
    pub(super) policy: Policy,
    pub(super) setting: Setting,
    pub(super) cwd: PathBuf,
    pub(super) keep: Keep,
    pub(super) making: Making,
    /// What makes requests, once one was made.
    pub(super) fetcher: Mutex<Option<Arc<Fetcher>>>,
    /// The store of records, once it was asked for.
    pub(super) store: OnceLock<Store>,
}

impl Context {
    /// The hands of an agent, working where the setting does, behind the strongest fence that works.
    #[must_use]
    pub fn new(policy: Policy, setting: &Setting, audit: Arc<dyn Sink>) -> Self {
        let cwd = setting.facts.cwd.clone();
        let making = Making { backend: None, accepted: Vec::new(), audit };
        Self {
            policy,
            setting: setting.clone(),
            cwd,
            keep: Keep::default(),
            making,
            fetcher: Mutex::default(),
            store: OnceLock::new(),
        }
    }

    /// The same, working in another directory.
    #[must_use]
    pub fn at(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// The same behind a given backend.
    #[must_use]
    pub fn backend(mut self, backend: Option<Backend>) -> Self {
        self.making.backend = backend;
        self
    }

    /// The same, doing without some guarantees.
    #[must_use]
    pub fn accepting(mut self, names: Vec<String>) -> Self {
        self.making.accepted = names;
        self
    }

    /// The agent's authority.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Where relative paths start.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    pub(super) fn audit(&self) -> &Arc<dyn Sink> {
        &self.making.audit
    }
}
