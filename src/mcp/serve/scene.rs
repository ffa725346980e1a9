//! What calls are judged by and carried out with: the agent as it stands now, and the means that stay.
//!
//! Answers for loading the agent's record, its tools and its allowlist, whole, and anew when a file changes. It leaves
//! noticing that to [`life`](super::life).
//! Invariant: a scene is never changed after it is made, so that no call is judged by half of one.

use crate::audit::Sink;
use crate::hands;
use crate::mcp::rules::{Rules, chain};
use crate::policy::Policy;
use crate::run::session::Session;
use crate::run::tools::{Caller, Catalogue, Change};
use crate::run::{Cancel, Live, Setting};
use crate::tool::Toolbox;
use sbx_platform::Backend;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The agent as it stands now.
#[derive(Debug)]
#[non_exhaustive]
pub struct Scene {
    /// The world and the configuration.
    pub setting: Setting,
    /// The agent's authority, and which tools may be called with which arguments.
    pub rules: Rules,
    /// The agent's named tools.
    pub tools: Toolbox,
    /// Where calls are made.
    pub cwd: PathBuf,
    /// The agent's hands, once they are used; they go with this scene.
    hands: OnceLock<hands::Context>,
}

/// What stays while scenes change.
#[derive(Debug)]
#[non_exhaustive]
pub struct Means {
    /// How the fence is built; none for the strongest that works.
    pub backend: Option<Backend>,
    /// Guarantees that are done without.
    pub accepted: Vec<String>,
    /// Where events go.
    pub audit: Arc<dyn Sink>,
    session: Mutex<Session>,
    session_id: String,
}

impl Scene {
    /// A scene out of its parts.
    #[must_use]
    pub fn new(setting: Setting, policy: Policy, tools: Toolbox, cwd: impl Into<PathBuf>) -> Self {
        let cwd = cwd.into();
        let section = policy.sections().mcp.clone().unwrap_or_default();
        Self { setting, rules: Rules::of(policy, &section, &cwd), tools, cwd, hands: OnceLock::new() }
    }

    /// Whose authority counts.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.rules.policy
    }

    /// The agent's hands.
    pub(super) fn hands(&self, means: &Means) -> &hands::Context {
        self.hands.get_or_init(|| {
            hands::Context::new(self.policy().clone(), &self.setting, Arc::clone(&means.audit))
                .at(&self.cwd)
                .backend(means.backend)
                .accepting(means.accepted.clone())
        })
    }

    /// The agent's name.
    #[must_use]
    pub fn agent(&self) -> &str {
        self.rules.policy.agent()
    }
}

impl Means {
    /// The means of one server.
    #[must_use]
    pub fn new(session: &str, backend: Option<Backend>, accepted: Vec<String>, audit: Arc<dyn Sink>) -> Self {
        let held = Mutex::new(Session::alone(session, Arc::clone(&audit)));
        Self { backend, accepted, audit, session: held, session_id: session.to_owned() }
    }

    /// The session of this server: what is left running in it ends with it.
    pub fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's name.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// Whoever calls a tool of the scene.
    pub(super) fn caller<'a>(
        &'a self,
        scene: &'a Scene,
        session_dir: Option<&'a Path>,
        cancel: &'a Cancel,
    ) -> Caller<'a> {
        Caller {
            policy: scene.policy(),
            cwd: &scene.cwd,
            session: Some(&self.session_id),
            session_dir,
            backend: self.backend,
            accepted: &self.accepted,
            audit: &self.audit,
            host: &Live,
            own: Some(scene.hands(self)),
            cancel: Some(cancel),
        }
    }
}

/// Where scenes come from.
#[derive(Debug)]
pub(super) struct Source {
    setting: Setting,
    agent: String,
    cwd: PathBuf,
    catalogue: Option<Catalogue>,
}

impl Source {
    pub(super) fn new(setting: Setting, agent: String, cwd: PathBuf) -> Self {
        Self { setting, agent, cwd, catalogue: None }
    }

    /// Reads everything there is to know; what is wrong with a file of tools is told and costs no more than that file.
    pub(super) fn load(&mut self) -> Result<(Scene, Vec<Change>), String> {
        let setting = Setting::with_facts(self.setting.facts.clone()).map_err(|error| chain(&error))?;
        let agent = setting.agent(&self.agent).map_err(|error| chain(&error))?;
        let (catalogue, changes) = match self.catalogue.take() {
            Some(mut catalogue) => {
                let changes = catalogue.follow(&setting, &agent.policy);
                (catalogue, changes)
            }
            None => Catalogue::open(&setting, &agent.policy),
        };
        let tools = catalogue.tools().clone();
        self.catalogue = Some(catalogue);
        Ok((Scene::new(setting, agent.policy, tools, &self.cwd), changes))
    }

    /// The files whose change is a change of the scene; a directory stands for what is in it.
    pub(super) fn files(&self, scene: &Scene) -> Vec<PathBuf> {
        let config = &self.setting.facts.config_dir;
        let tools = config.join("tools");
        let mut files = vec![config.join("config.yml"), config.join("trusted"), tools.clone()];
        files.extend(scene.policy().record().map(Path::to_path_buf));
        let mut definitions: Vec<PathBuf> = std::fs::read_dir(tools)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .collect();
        definitions.sort();
        files.extend(definitions);
        files
    }
}
