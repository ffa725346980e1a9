//! What a tool needs of its agent, and what is left of the agent's authority while it runs.
//!
//! Invariant: a tool whose needs are not all held is not offered, and what it runs with holds nothing but them.

use super::bind::Bound;
use super::definition::{Action, Layer, MOST_OUTPUT, Net, Tool};
use super::problem::CallFault;
use super::read::read_section;
use super::requirement::unmet;
use crate::capability::{Capability, Risk, Scope, ScopeKey, Spec};
use crate::decide::{AskError, Denial, DenialCode, Request};
use crate::manifest::Limits;
use crate::policy::{Narrowing, Policy};
use crate::text::Source;
use serde_json::{Value, json};

impl Tool {
    /// What it needs, as grants would be written.
    #[must_use]
    pub fn needs(&self) -> Vec<Spec> {
        let exec = |key, items: Vec<String>| Spec {
            capability: Capability::ProcExec,
            scope: Scope::bare().with_list(key, items),
        };
        let mut needs = match &self.action {
            Action::Template { binary, args } => {
                let tokens: Option<Vec<String>> =
                    args.iter().map(super::template::Template::pattern).collect();
                vec![match tokens.filter(|_| is_token(binary)) {
                    Some(tokens) => {
                        let line =
                            std::iter::once(binary.clone()).chain(tokens).collect::<Vec<_>>().join(" ");
                        exec(ScopeKey::Patterns, vec![line])
                    }
                    None => exec(ScopeKey::Cmds, vec![binary.clone()]),
                }]
            }
            Action::Free { binary, subcommands }
                if is_token(binary) && subcommands.iter().all(|s| is_token(s)) =>
            {
                vec![exec(
                    ScopeKey::Patterns,
                    subcommands.iter().map(|sub| format!("{binary} {sub} *")).collect(),
                )]
            }
            Action::Free { binary, .. } => vec![exec(ScopeKey::Cmds, vec![binary.clone()])],
            Action::Shell(_) => vec![Spec { capability: Capability::ProcEval, scope: Scope::bare() }],
            Action::Off => Vec::new(),
            Action::Internal(api) => {
                let scope = match &self.net {
                    Net::Hosts(hosts) if api.reaches_out() => {
                        Scope::bare().with_list(ScopeKey::Hosts, hosts.iter().map(String::as_str))
                    }
                    Net::None | Net::Hosts(_) | Net::Verbs(_) => Scope::bare(),
                };
                vec![Spec { capability: api.capability(), scope }]
            }
        };
        match &self.net {
            Net::None => {}
            // Its one verb, to these hosts, is said already.
            Net::Hosts(_) if matches!(self.action, Action::Internal(api) if api.reaches_out()) => {}
            Net::Hosts(hosts) => needs.push(Spec {
                capability: Capability::NetGet,
                scope: Scope::bare().with_list(ScopeKey::Hosts, hosts.iter().map(String::as_str)),
            }),
            Net::Verbs(specs) => needs.extend(specs.iter().cloned()),
        }
        needs
    }

    /// The highest risk of what it needs.
    #[must_use]
    pub fn risk(&self) -> Risk {
        self.needs().iter().map(|need| need.capability.risk()).max().unwrap_or(Risk::Low)
    }

    /// What is left of the agent's authority while the tool runs.
    #[must_use]
    pub fn narrowing(&self) -> Narrowing {
        let (hosts, mut needs) = match &self.net {
            Net::Hosts(hosts) => (hosts.clone(), self.needs()),
            Net::None | Net::Verbs(_) => (Vec::new(), self.needs()),
        };
        if !hosts.is_empty() {
            needs.retain(|need| need.capability != Capability::NetGet);
        }
        let output = (!self.persistent).then_some(MOST_OUTPUT);
        let limits = Limits { wall: self.timeout(), output, ..Limits::default() };
        let own_env = if self.layer == Layer::Record { self.env.clone() } else { Vec::new() };
        Narrowing {
            needs,
            hosts,
            env: self.env.clone(),
            own_env,
            limits,
            listens: self.persistent,
            reads_only: self.read_only,
        }
    }

    /// Why an agent is not offered the tool; none when it is.
    #[must_use]
    pub fn withheld(&self, policy: &Policy) -> Option<Denial> {
        let denial = |code, message: String| Denial::of_tool(code, policy.agent(), &self.name, message);
        if !self.enabled {
            return Some(denial(DenialCode::UnknownTool, format!("the tool `{}` is disabled", self.name)));
        }
        if let Action::Internal(api) = &self.action {
            let held = policy.held(api.capability()).any(|grant| !grant.is_inert());
            let message = format!("{} does not hold {}", policy.agent(), api.capability());
            return (!held).then(|| denial(DenialCode::CapabilityAbsent, message));
        }
        if let Some(first) = unmet(policy, &self.needs()).into_iter().next() {
            let message = format!("`{}` needs {}: {}", self.name, first.requirement, first.reason);
            let mut denial = denial(DenialCode::CapabilityAbsent, message);
            denial.suggested_grant = Some(self.rooted(policy, first.requirement));
            return Some(denial);
        }
        let passed = passed_on(policy);
        let missing = self.env.iter().find(|name| self.layer != Layer::Record && !passed.contains(name))?;
        let message = format!(
            "`{}` is to be passed {missing}, which {}'s record does not pass on",
            self.name,
            policy.agent()
        );
        let mut denial = denial(DenialCode::CapabilityAbsent, message);
        denial.hint = Some(format!("name {missing} under `env` in the record"));
        Some(denial)
    }

    /// A requirement as a grant that is not inert.
    fn rooted(&self, policy: &Policy, need: Spec) -> Spec {
        let facts = policy.facts();
        let root = policy.chain().root().or(facts.project.as_deref()).unwrap_or(&facts.cwd);
        match (need.capability, root.to_str()) {
            (Capability::ProcExec | Capability::ProcEval, Some(root)) => {
                Spec { scope: need.scope.with_text(ScopeKey::In, root), ..need }
            }
            _ => need,
        }
    }

    /// A call that is refused, as a denial.
    #[must_use]
    pub fn refuse(&self, agent: &str, fault: &CallFault) -> Denial {
        let mut denial = Denial::of_tool(
            DenialCode::InvalidParams,
            agent,
            &self.name,
            format!("{}: {}", self.name, fault.message()),
        );
        denial.request = fault_json(&self.name, fault);
        denial
    }
}

fn fault_json(tool: &str, fault: &CallFault) -> Value {
    let mut body = json!({
        "tool": tool, "reason": fault.code.name(), "param": fault.param, "wanted": fault.wanted, "given": fault.given,
    });
    if !fault.allowed.is_empty() {
        body["allowed"] = json!(fault.allowed);
    }
    body
}

/// Variables that the agent's record passes on, or names in a tool of its own.
fn passed_on(policy: &Policy) -> Vec<String> {
    let sections = policy.sections();
    let own =
        sections.tools.as_ref().map(|tools| read_section(tools, &Source::new("", ""))).unwrap_or_default();
    let of_tools = own.tools.into_iter().flat_map(|tool| tool.env);
    sections.env.iter().map(|rule| rule.name.clone()).chain(of_tools).collect()
}

fn is_token(text: &str) -> bool {
    super::template::Template::parse(text, super::template::Syntax::Braces).pattern().as_deref() == Some(text)
}

impl Bound {
    /// The request that running it is; none for sbx's own operations.
    ///
    /// # Errors
    /// When there is nothing to run.
    pub fn request(&self, tool: &str) -> Result<Option<Request>, AskError> {
        Ok(match self {
            Self::Exec(argv) => Some(Request::exec(argv).by_tool(tool)),
            Self::Shell { script, arguments } => {
                let arguments = arguments.iter().map(Into::into).collect();
                Some(Request::eval(script.as_str())?.with_arguments(arguments).by_tool(tool))
            }
            Self::Internal(..) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::capability::Capability;
    use crate::decide::{Request, decide};
    use crate::manifest::{Facts, parse_spec};
    use crate::policy::Policy;
    use crate::text::Source;
    use crate::tool::{Layer, read_definitions};

    #[test]
    fn a_request_goes_to_the_hosts_of_its_tool_and_no_further() {
        let text = "name = \"t\"\nkind = \"internal\"\napi = \"net.post\"\nnet = [\"a.example\"]\n";
        let read = read_definitions(&Source::new("t.toml", text), Layer::User);
        let tool = read.tools.first().unwrap_or_else(|| panic!("{:?}", read.faults));
        let needs: Vec<String> = tool.needs().iter().map(ToString::to_string).collect();
        assert_eq!(needs, ["net.post{hosts=[a.example]}"]);
        let facts = Facts::new("/home/u");
        let spec = parse_spec("net.post{hosts=[*.example]}", &facts).unwrap();
        let policy = Policy::from_specs("a", &[spec], &facts).unwrap();
        assert!(tool.withheld(&policy).is_none());
        let narrowed = policy.narrowed(&tool.narrowing());
        assert!(decide(&narrowed, &Request::url("POST", "https://a.example/")).is_allowed());
        assert!(!decide(&narrowed, &Request::url("POST", "https://b.example/")).is_allowed());
        assert!(narrowed.held(Capability::NetGet).next().is_none());
    }
}
