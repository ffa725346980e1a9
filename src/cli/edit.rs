//! `sbx agents grant` and `revoke`: change a record, having said what that means.

use super::{CliError, Exit, Ui, new};
use crate::capability::{Capability, Family, ScopeKey, Spec};
use crate::decide::decide;
use crate::manifest::{
    AgentSource, Change, EditError, Facts, Shelf, TrustStore, WriteError, find, grant, parse_spec, pass,
    revoke, rewrite,
};
use crate::policy::Proposal;
use crate::run::Setting;
use crate::text::Source;
use crate::{Policy, Request, covers};
use clap::Args;
use serde_json::json;

/// What to grant.
#[derive(Debug, Args)]
pub(super) struct Grant {
    /// The agent whose record is changed.
    agent: String,
    /// The grant in compact form, such as 'net.get{hosts=[api.github.com]}'; asked for when left out.
    spec: Option<String>,
    /// Pass this variable of yours in, in place of a grant; may be repeated.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["granter", "spec"])]
    env: Vec<String>,
    /// Grant on behalf of another agent, which cannot give more than it holds.
    #[arg(long = "as", value_name = "AGENT")]
    granter: Option<String>,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

/// What to revoke.
#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// The agent whose record is changed.
    agent: String,
    /// The capability, or the items of it to take away, in compact form.
    spec: String,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

impl Grant {
    pub(super) fn run(self, ui: &Ui, setting: &Setting) -> Result<Exit, CliError> {
        let found = editable(&self.agent, setting)?;
        let facts = setting.facts_for(&found);
        if !self.env.is_empty() {
            return self.pass(ui, setting, &found, &facts);
        }
        let spec = match &self.spec {
            Some(text) => parse_spec(text, &facts).map_err(|error| CliError::new(error.to_string()))?,
            None => match new::pick_grant(ui, &facts)? {
                Some(spec) => spec,
                None => return cancelled(ui),
            },
        };
        if let Some(granter) = &self.granter
            && let Some(denied) = attenuated(ui, setting, granter, &found, &spec)?
        {
            return Ok(denied);
        }
        let agent = setting.load(found.clone())?;
        ui.remark(preview(ui, &agent.policy, &spec));
        if !ui.confirm("Grant it?", self.yes)? {
            return cancelled(ui);
        }
        apply(ui, setting, &found, &facts, &Edit::Grant(spec))
    }

    /// Passes variables in.
    fn pass(self, ui: &Ui, setting: &Setting, found: &AgentSource, facts: &Facts) -> Result<Exit, CliError> {
        // What cannot be written is said before anyone is asked.
        pass(&found.source, &self.env, facts).map_err(|error| CliError::from_error(&error))?;
        let agent = setting.load(found.clone())?;
        let names = ui.bold(&self.env.join(", "));
        let who = agent.policy.agent();
        ui.remark(format!(
            "agent:  {who}\nenv:    {names}\neffect: commands of {who} will see these variables of yours"
        ));
        if !ui.confirm("Grant it?", self.yes)? {
            return cancelled(ui);
        }
        apply(ui, setting, found, facts, &Edit::Pass(self.env))
    }
}

impl Revoke {
    pub(super) fn run(self, ui: &Ui, setting: &Setting) -> Result<Exit, CliError> {
        let found = editable(&self.agent, setting)?;
        let facts = setting.facts_for(&found);
        let spec = parse_spec(&self.spec, &facts).map_err(|error| CliError::new(error.to_string()))?;
        // What cannot be revoked is said before anyone is asked.
        if let Err(error) = revoke(&found.source, &spec, &facts) {
            return Err(not_revocable(setting, found, &spec, &error));
        }
        ui.remark(format!("take {} away from {}", ui.bold(&spec.to_string()), found.source.name()));
        if !ui.confirm("Revoke it?", self.yes)? {
            return cancelled(ui);
        }
        apply(ui, setting, &found, &facts, &Edit::Revoke(spec))
    }
}

/// Gives an agent several grants and variables at once, having been told to.
pub(super) fn grant_all(
    ui: &Ui,
    setting: &Setting,
    agent: &str,
    specs: Vec<Spec>,
    env: Vec<String>,
) -> Result<(), CliError> {
    let quiet = Ui::new(super::Colour::Never, false);
    let ui = if ui.json { &quiet } else { ui };
    let variables = (!env.is_empty()).then_some(Edit::Pass(env));
    for edit in specs.into_iter().map(Edit::Grant).chain(variables) {
        let found = editable(agent, setting)?;
        let facts = setting.facts_for(&found);
        apply(ui, setting, &found, &facts, &edit)?;
    }
    Ok(())
}

/// A record that lies in a file of the user's or a trusted project's.
fn editable(name: &str, setting: &Setting) -> Result<AgentSource, CliError> {
    let found = find(name, &setting.facts)?;
    if found.shelf == Shelf::Builtin {
        return Err(CliError::new(format!("{name} is built in and cannot be changed"))
            .hint(format!("make your own of it: sbx agents new {name} --from {name}")));
    }
    Ok(found)
}

/// Why nothing can be taken away, with the wider grant that holds it, if one does.
fn not_revocable(setting: &Setting, found: AgentSource, spec: &Spec, error: &EditError) -> CliError {
    let agent = setting.load(found).ok().filter(|agent| covers(&agent.policy, spec));
    let cli = CliError::from_error(error);
    let wider = agent.as_ref().and_then(|agent| agent.policy.held(spec.capability).next());
    match wider {
        Some(wider) => {
            cli.hint(format!("it is part of {}: revoke that, and grant what is to stay", wider.spec))
        }
        None => cli,
    }
}

fn cancelled(ui: &Ui) -> Result<Exit, CliError> {
    ui.remark("nothing was changed");
    Ok(Exit::Denied)
}

/// What the granter may not give, as the denial it gets.
fn attenuated(
    ui: &Ui,
    setting: &Setting,
    granter: &str,
    target: &AgentSource,
    spec: &Spec,
) -> Result<Option<Exit>, CliError> {
    let granter = setting.agent(granter)?;
    let target = setting.load(target.clone())?;
    let root = target.manifest.sandbox().and_then(|(root, _)| root.path.clone());
    let proposal = Proposal::new(vec![spec.clone()]).root(root);
    let request = Request::agent(Capability::AgentGrant, target.manifest.id()).proposing(proposal);
    let decision = decide(&granter.policy, &request);
    let Some(denial) = decision.denial() else { return Ok(None) };
    if ui.json {
        ui.answer_json(&denial.to_json())?
    } else {
        ui.answer(denial.to_string())?
    };
    Ok(Some(Exit::Denied))
}

fn preview(ui: &Ui, policy: &Policy, spec: &Spec) -> String {
    let risk = spec.capability.risk();
    let effect = if covers(policy, spec) {
        "none: it is already covered".to_owned()
    } else if let Some(lack) = lacks(policy, spec) {
        format!("none: without {lack} it allows nothing")
    } else {
        format!("{} will be able to {}", policy.agent(), spec.capability.entry().summary)
    };
    format!(
        "agent:  {}\ngrant:  {}\nrisk:   {}\neffect: {effect}",
        policy.agent(),
        ui.bold(&spec.to_string()),
        ui.by_risk(risk, risk.name()),
    )
}

/// What a grant lacks to allow anything at all.
fn lacks(policy: &Policy, spec: &Spec) -> Option<&'static str> {
    match spec.capability.family() {
        Family::Net if spec.scope.list(ScopeKey::Hosts).is_none() => Some("`hosts`"),
        Family::Fs | Family::Proc
            if spec.scope.text(ScopeKey::In).is_none() && policy.chain().root().is_none() =>
        {
            Some("`in`, or a root of the agent's own,")
        }
        Family::Records | Family::Agent | Family::Net | Family::Fs | Family::Proc => None,
    }
}

/// A change of a record.
enum Edit {
    Grant(Spec),
    Revoke(Spec),
    /// Variables are passed in.
    Pass(Vec<String>),
}

impl Edit {
    fn of(&self, source: &Source, facts: &Facts) -> Result<Change, EditError> {
        match self {
            Self::Grant(spec) => grant(source, spec, facts),
            Self::Revoke(spec) => revoke(source, spec, facts),
            Self::Pass(names) => pass(source, names, facts),
        }
    }

    /// What it does in a word, and with what.
    fn told(&self) -> (&'static str, String) {
        match self {
            Self::Grant(spec) => ("granted", spec.to_string()),
            Self::Revoke(spec) => ("revoked", spec.to_string()),
            Self::Pass(names) => ("passed", format!("env: [{}]", names.join(", "))),
        }
    }

    /// The same for machines.
    fn named(&self) -> (&'static str, serde_json::Value) {
        match self {
            Self::Grant(spec) | Self::Revoke(spec) => ("grant", json!(spec.to_string())),
            Self::Pass(names) => ("env", json!(names)),
        }
    }
}

fn apply(
    ui: &Ui,
    setting: &Setting,
    found: &AgentSource,
    facts: &Facts,
    edit: &Edit,
) -> Result<Exit, CliError> {
    let path = found.path.as_deref().ok_or_else(|| CliError::new("the record is not a file"))?;
    let trust = (found.shelf == Shelf::Project).then(|| TrustStore::in_dir(&setting.facts.config_dir));
    let (mut dissolved, mut new_text) = (false, None);
    let changed = rewrite(path, |source| -> Result<Option<String>, CliError> {
        // The record may have changed since it was trusted and shown.
        if let Some(trust) = &trust
            && !trust.trusts(path, source.text()).map_err(|error| CliError::from_error(&error))?
        {
            return Err(
                CliError::new("the record changed while you were looking at it").hint("trust it again")
            );
        }
        let change = edit.of(&source, facts).map_err(|error| CliError::from_error(&error))?;
        dissolved = change.dissolved;
        new_text.clone_from(&change.text);
        Ok(change.text)
    });
    let changed = changed.map_err(|error| match error {
        WriteError::Refused(error) => error,
        other => CliError::from_error(&other),
    })?;
    if let (Some(trust), Some(text)) = (&trust, &new_text) {
        trust.trust(path, text).map_err(|error| CliError::from_error(&error))?;
    }
    if dissolved && changed {
        ui.remark("shorthands of the record were spelled out");
    }
    let file = path.display().to_string();
    let (done, what) = edit.told();
    if ui.json {
        let (key, named) = edit.named();
        ui.answer_json(&json!({ "changed": changed, key: named, "file": file, "dissolved": dissolved }))?;
    } else if changed {
        ui.answer(format!("{done} {what} in {file}"))?;
    } else {
        ui.answer(format!("{what} is already there; nothing was changed"))?;
    }
    Ok(Exit::Fine)
}
