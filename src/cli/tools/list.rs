//! `sbx tools list` and `show`.

use super::Loaded;
use crate::cli::{CliError, Exit, Ui};
use crate::manifest::list as list_agents;
use crate::policy::Policy;
use crate::run::Setting;
use crate::tool::{Net, Tool};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;

/// Whose tools.
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// An agent's name, or the path of a record.
    #[arg(long, short, required_unless_present = "all")]
    agent: Option<String>,
    /// The tools of every agent.
    #[arg(long, conflicts_with_all = ["agent", "session"])]
    all: bool,
    /// With all that is declared: values, bounds, environment, hosts.
    #[arg(long)]
    schema: bool,
    /// With the tools of this session.
    #[arg(long)]
    session: Option<String>,
}

/// Which tool, for whom.
#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    /// The tool.
    tool: String,
    /// An agent's name, or the path of a record.
    #[arg(long, short)]
    agent: String,
    /// With the tools of this session.
    #[arg(long)]
    session: Option<String>,
}

impl List {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let names = match &self.agent {
            Some(agent) => vec![agent.clone()],
            None => every_agent(ui)?,
        };
        let mut rows = Vec::new();
        let mut text = String::new();
        for name in names {
            let loaded = match Loaded::new(ui, &name, self.session.as_deref()) {
                Ok(loaded) => loaded,
                // One record that cannot be used must not hide the others from a review.
                Err(error) if self.all => {
                    ui.remark(error.to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            let policy = &loaded.agent.policy;
            for tool in loaded.catalogue.tools().iter() {
                rows.push(row(tool, policy));
                if self.all {
                    let _ = write!(text, "{}  ", ui.bold(policy.agent()));
                }
                line(ui, tool, policy, &mut text);
                if self.schema {
                    details(tool, &mut text);
                }
            }
        }
        if ui.json {
            ui.answer_json(&json!(rows))?;
        } else if rows.is_empty() {
            ui.remark("no tools are defined; see docs/guide/tools.md");
        } else {
            ui.answer(text.trim_end())?;
        }
        Ok(Exit::Fine)
    }
}

/// Every agent that can be used; a review hears of the others too.
fn every_agent(ui: &Ui) -> Result<Vec<String>, CliError> {
    let setting = Setting::from_env()?;
    let (trusted, others): (Vec<_>, Vec<_>) =
        list_agents(&setting.facts).into_iter().partition(|agent| agent.trusted);
    for agent in others {
        let place = agent.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
        ui.remark(format!(
            "{place}: a project's record that is not trusted; its tools are not offered and not listed"
        ));
    }
    Ok(trusted.into_iter().filter_map(|agent| agent.name().map(str::to_owned)).collect())
}

impl Show {
    pub(super) fn run(self, ui: &Ui) -> Result<Exit, CliError> {
        let loaded = Loaded::new(ui, &self.agent, self.session.as_deref())?;
        let policy = &loaded.agent.policy;
        let Some(tool) = loaded.catalogue.tools().get(&self.tool) else {
            let denial = loaded.catalogue.tools().find(policy.agent(), &self.tool).err();
            let denial = denial.ok_or_else(|| CliError::new("there is no such tool"))?;
            if ui.json {
                ui.answer_json(&denial.to_json())?
            } else {
                ui.remark(denial.to_string())
            };
            return Ok(Exit::Denied);
        };
        if ui.json {
            ui.answer_json(&row(tool, policy))?;
            return Ok(Exit::Fine);
        }
        let mut text = String::new();
        line(ui, tool, policy, &mut text);
        details(tool, &mut text);
        ui.answer(text.trim_end())?;
        Ok(Exit::Fine)
    }
}

/// One tool for machines.
fn row(tool: &Tool, policy: &Policy) -> Value {
    let withheld = tool.withheld(policy);
    json!({
        "agent": policy.agent(),
        "name": tool.name,
        "description": tool.description,
        "kind": tool.kind(),
        "command": tool.command_line(),
        "persistent": tool.persistent,
        "read_only": tool.read_only,
        "enabled": tool.enabled,
        "requires": tool.needs().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "hosts": match &tool.net {
            Net::Hosts(hosts) => hosts.clone(),
            Net::None | Net::Verbs(_) => Vec::new(),
        },
        "env": tool.env,
        "risk": tool.risk().name(),
        "offered": withheld.is_none(),
        "reason": withheld.map(|denial| json!({ "code": denial.code.name(), "message": denial.message })),
        "output": tool.output.name(),
        "constraints": tool.constraints_json(),
        "input_schema": tool.input_schema(),
        "layer": tool.layer.name(),
        "place": tool.place,
    })
}

/// One tool on one line, and on a second one why it is not offered.
fn line(ui: &Ui, tool: &Tool, policy: &Policy, text: &mut String) {
    let risk = tool.risk();
    let needs: Vec<String> = tool.needs().iter().map(ToString::to_string).collect();
    let place = tool
        .place
        .as_ref()
        .map_or_else(String::new, |place| format!("  {}", ui.dim(&format!("{}:{}", place.file, place.line))));
    let _ = writeln!(
        text,
        "{:<20} {}  {}  {}{place}",
        tool.name,
        ui.by_risk(risk, &format!("{:<6}", risk.name())),
        tool.layer.name(),
        needs.join(" "),
    );
    if let Some(denial) = tool.withheld(policy) {
        let _ = writeln!(text, "  not offered: {}", denial.message);
    }
}

/// All that a tool declares.
fn details(tool: &Tool, text: &mut String) {
    let mut say = |what: &str, said: String| {
        if !said.is_empty() {
            let _ = writeln!(text, "  {what:<12} {said}");
        }
    };
    say("about", tool.description.clone().unwrap_or_default());
    say(tool.kind(), tool.command_line());
    for param in &tool.params {
        let mut said = format!("{}: {}", param.name, param.kind.wanted());
        match (&param.default, param.optional) {
            (Some(default), _) => said.push_str(&format!(", else {default:?}")),
            (None, true) => said.push_str(", optional"),
            (None, false) => {}
        }
        say("value", said);
    }
    let time = tool.timeout().map_or_else(|| "none".to_owned(), |time| format!("{}s", time.as_secs_f64()));
    say("time", if tool.persistent { format!("{time}, left running") } else { time });
    let bounds = &tool.constraints;
    say(
        "output",
        format!("{}, {} and {} bytes kept", tool.output.name(), bounds.max_stdout, bounds.max_stderr),
    );
    say("in", bounds.cwd.clone().unwrap_or_default());
    say("environment", tool.env.join(" "));
    say("files", if tool.read_only { "only read".to_owned() } else { String::new() });
    match &tool.net {
        Net::None => say("network", "none".to_owned()),
        Net::Hosts(hosts) => say("network", format!("{}, with the verbs that are held", hosts.join(" "))),
        Net::Verbs(specs) => {
            say("network", specs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        }
    }
}
