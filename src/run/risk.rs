//! The risk layer in the live world: rules and policies on disk, and where a text would run.
//!
//! Nothing is started to find anything out: the branch is read from `.git/HEAD`, the cluster from kubectl's
//! own file.
//! Invariant: a rule file or policy that cannot be read refuses; it is never left out.

use super::setting::{Agent, Setting, SettingError};
use crate::decide::{Decision, Denial, Request, Subject, decide};
use crate::manifest::{Facts, RiskPolicy, RiskSettings, read_source};
use crate::policy::Policy;
use crate::risk::{Assessment, Context, Origin, RuleSet, Scene, assess, assess_argv, prove};
use crate::text::{Problem, Source, render_all};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The most rule files of a user that are read.
const MAX_FILES: usize = 200;
/// The most of a foreign file that is read.
const MAX_PEEK: u64 = 256 * 1024;

/// Rules, settings and context for one directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RiskLayer {
    /// The rules in force.
    pub rules: RuleSet,
    /// The settings in force, made stricter by every policy above the directory.
    pub settings: RiskSettings,
    /// Where texts would run.
    pub scene: Scene,
    /// What is known of the place.
    pub context: Context,
}

impl RiskLayer {
    /// Loads what is in force for an agent, or for nobody in particular, in a directory.
    ///
    /// # Errors
    /// When a rule file or a policy cannot be read or is wrong.
    pub fn load(setting: &Setting, agent: Option<&Agent>, dir: &Path) -> Result<Self, SettingError> {
        let own = agent.and_then(|agent| agent.manifest.sections().risk.clone());
        Self::with_settings(&setting.facts, own.unwrap_or_default(), dir)
    }

    /// Loads what is in force with given settings.
    ///
    /// # Errors
    /// As for [`RiskLayer::load`].
    pub fn with_settings(
        facts: &Facts,
        mut settings: RiskSettings,
        dir: &Path,
    ) -> Result<Self, SettingError> {
        let mut rules = RuleSet::builtin();
        for path in rule_files(&facts.config_dir.join("risk"))? {
            let source = read_source(&path)?;
            rules.add_file(&source, Origin::User).map_err(|problems| wrong(&problems, &source))?;
        }
        for path in dir.ancestors().map(|dir| dir.join(".sbx/risk.yml")) {
            if is_absent(&path)? {
                continue;
            }
            let source = read_source(&path)?;
            let policy = RiskPolicy::parse(&source).map_err(|problems| wrong(&problems, &source))?;
            policy.tighten(&mut settings);
            if let Some(node) = &policy.rules {
                rules.add_node(node, Origin::Project).map_err(|problems| wrong(&problems, &source))?;
            }
        }
        let unknown = if names_any(&settings) { rules.unknown_names(&settings) } else { Vec::new() };
        if !unknown.is_empty() {
            return Err(SettingError::Risk(unknown.join("\n")));
        }
        let scene = Scene::new(facts.home.to_string_lossy()).at(dir.to_string_lossy());
        Ok(Self { rules, settings, scene, context: context(&facts.home, dir) })
    }

    /// Looks for danger in a shell text.
    #[must_use]
    pub fn assess(&self, text: &str) -> Assessment<'_> {
        assess(text, &self.scene, &self.rules, &self.settings, &self.context)
    }

    /// Looks for danger in a shell text, and for a grant behind everything it would do.
    #[must_use]
    pub fn assess_for(&self, policy: &Policy, text: &str) -> Assessment<'_> {
        self.assess(text).with_proof(prove(policy, text, &self.scene))
    }

    /// The denial of a request for what is found in it: shell text always, a command when the record says so.
    #[must_use]
    pub fn deny(&self, agent: &str, request: &Request) -> Option<Denial> {
        let assessment = match request.subject() {
            Subject::Shell { text, arguments, .. } => {
                let mut scene = self.scene.clone();
                let texts = |values: &Vec<std::ffi::OsString>| {
                    values.iter().map(|value| value.to_string_lossy().into_owned()).collect()
                };
                scene.arguments = arguments.as_ref().map(texts);
                assess(text, &scene, &self.rules, &self.settings, &self.context)
            }
            Subject::Command { argv, .. } if self.settings.apply_to_exec => {
                let argv: Vec<String> = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
                assess_argv(&argv, &self.scene, &self.rules, &self.settings, &self.context)
            }
            Subject::Command { .. }
            | Subject::Record { .. }
            | Subject::Agent { .. }
            | Subject::Path { .. }
            | Subject::Host { .. } => return None,
        };
        let (code, reason) = assessment.denial()?;
        let found: Vec<String> = assessment
            .matched()
            .iter()
            .take(3)
            .map(|matched| format!("{}: {}", matched.rule.id, matched.rule.description))
            .collect();
        let reason =
            if found.is_empty() { reason.to_owned() } else { format!("{} ({reason})", found.join(" ")) };
        let mut body = assessment.to_json();
        // What was asked stands in the request already.
        if let Some(body) = body.as_object_mut() {
            body.remove("command");
            body.remove("argv");
        }
        Some(Denial::of_risk(code, agent, request, &reason, body))
    }
}

/// The denial of a request by the risk layer, with nothing read unless it is asked.
///
/// `dir` is where a request runs that names no directory.
///
/// # Errors
/// When a rule file or a policy cannot be read or is wrong.
pub fn risk_denial(policy: &Policy, dir: &Path, request: &Request) -> Result<Option<Denial>, SettingError> {
    let settings = policy.sections().risk.clone().unwrap_or_default();
    let cwd = match request.subject() {
        Subject::Shell { cwd, .. } => cwd,
        Subject::Command { cwd, .. } if settings.apply_to_exec => cwd,
        Subject::Command { .. }
        | Subject::Record { .. }
        | Subject::Agent { .. }
        | Subject::Path { .. }
        | Subject::Host { .. } => return Ok(None),
    };
    let layer = RiskLayer::with_settings(policy.facts(), settings, cwd.as_deref().unwrap_or(dir))?;
    Ok(layer.deny(policy.agent(), request))
}

/// What every layer that looks at a request says: the agent's grants, then the danger in what it would run.
///
/// # Errors
/// As for [`risk_denial`].
pub fn judge<'a>(policy: &'a Policy, dir: &Path, request: &'a Request) -> Result<Decision<'a>, SettingError> {
    match decide(policy, request) {
        Decision::Allow(permit) => Ok(match risk_denial(policy, dir, request)? {
            Some(denial) => Decision::Deny(Box::new(denial)),
            None => Decision::Allow(permit),
        }),
        denied @ Decision::Deny(_) => Ok(denied),
    }
}

fn wrong(problems: &[Problem], source: &Source) -> SettingError {
    SettingError::Risk(render_all(problems, source))
}

/// Whether settings name rules or groups at all.
fn names_any(settings: &RiskSettings) -> bool {
    !settings.deny.is_empty()
        || !settings.ignore.is_empty()
        || settings.enabled_groups.is_some()
        || !settings.disabled_groups.is_empty()
}

/// Whether there is nothing at a path. What cannot be looked at may be there, and refuses.
fn is_absent(path: &Path) -> Result<bool, SettingError> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(false),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(true),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> SettingError {
    SettingError::Risk(format!("cannot look at {}: {error}", path.display()))
}

/// The user's rule files, in order.
fn rule_files(dir: &Path) -> Result<Vec<PathBuf>, SettingError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(dir, &error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(dir, &error))?.path();
        if path.extension().is_some_and(|extension| extension == "yml" || extension == "yaml") {
            files.push(path);
        }
    }
    if files.len() > MAX_FILES {
        let many = files.len();
        return Err(SettingError::Risk(format!(
            "{} has {many} rule files; at most {MAX_FILES} are read",
            dir.display()
        )));
    }
    files.sort();
    Ok(files)
}

/// What is known of a place without starting anything.
fn context(home: &Path, dir: &Path) -> Context {
    Context::from_variables(|name| std::env::var(name).ok())
        .root(sbx_platform::ids().0 == 0)
        .branch(branch(dir))
        .kube(cluster(home))
}

/// The branch that is checked out in a directory or above it.
fn branch(dir: &Path) -> Option<String> {
    let found = dir.ancestors().map(|dir| dir.join(".git")).find(|path| path.exists())?;
    let git = if found.is_file() {
        let link = peek(&found)?;
        let path = PathBuf::from(link.strip_prefix("gitdir:")?.trim());
        found.parent()?.join(path)
    } else {
        found
    };
    let head = peek(&git.join("HEAD"))?;
    Some(head.trim().strip_prefix("ref: refs/heads/")?.to_owned()).filter(|name| name.len() < 256)
}

/// The cluster kubectl would speak to.
fn cluster(home: &Path) -> Option<String> {
    let files: Vec<PathBuf> = match std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
        Some(list) => std::env::split_paths(&list).take(16).collect(),
        None => vec![home.join(".kube/config")],
    };
    files.iter().find_map(|file| {
        let text = peek(file)?;
        let line = text.lines().find_map(|line| line.strip_prefix("current-context:"))?;
        Some(line.trim().trim_matches(['"', '\'']).to_owned())
            .filter(|name| !name.is_empty() && name.len() < 256)
    })
}

/// The start of a regular file, as text.
fn peek(path: &Path) -> Option<String> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_PEEK).read_to_string(&mut text).ok()?;
    Some(text)
}
