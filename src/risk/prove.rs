//! The other question: is there a grant behind everything that a text would do?
//!
//! Only what is certain can be proved. Everything else needs `proc.eval`.

use super::command::{Channel, Command};
use super::flatten::flatten;
use super::{Scene, place};
use crate::capability::Capability;
use crate::decide::{Decision, Denial, Request, decide};
use crate::policy::Policy;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Words that change or ask the shell and start nothing.
const BUILTINS: &[&str] = &[
    ":", "true", "false", "cd", "export", "set", "unset", "shift", "return", "exit", "wait", "test", "[",
    "echo", "printf", "pwd", "local", "readonly", "declare", "typeset", "break", "continue", "umask", "read",
    "getopts", "shopt", "let",
];

/// Those of them that set variables for the commands after them.
const DECLARES: &[&str] = &["export", "local", "readonly", "declare", "typeset", "read", "printf", "getopts"];

/// One thing a text would do, and the answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Step {
    /// The words of a command, or the path of a file.
    pub what: Vec<String>,
    /// What it needs.
    pub capability: Capability,
    /// Why it may not; none when it may.
    pub denial: Option<Box<Denial>>,
}

/// What could be proved.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Proof {
    /// Every thing the text would do.
    pub steps: Vec<Step>,
}

impl Proof {
    /// Whether every step is allowed.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.steps.iter().all(|step| step.denial.is_none())
    }

    /// The first thing that is not.
    #[must_use]
    pub fn denial(&self) -> Option<&Denial> {
        self.steps.iter().find_map(|step| step.denial.as_deref())
    }

    /// The steps for machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let step = |step: &Step| {
            json!({
                "what": step.what,
                "capability": step.capability.name(),
                "decision": if step.denial.is_none() { "allow" } else { "deny" },
                "code": step.denial.as_ref().map(|denial| denial.code.name()),
                "suggested_grant": step.denial.as_ref().and_then(|denial| denial.suggested_grant.as_ref()).map(ToString::to_string),
            })
        };
        self.steps.iter().map(step).collect()
    }
}

/// Tries to prove that a policy allows all that a text would do in a directory.
#[must_use]
pub fn prove(policy: &Policy, text: &str, scene: &Scene) -> Proof {
    let mut proof = Proof::default();
    let eval = |proof: &mut Proof| {
        let request = Request::eval(text).ok().map(|request| in_dir(request, scene.cwd.as_deref()));
        let denial = request.and_then(|request| denied(decide(policy, &request)));
        proof.steps.push(Step { what: vec![text.to_owned()], capability: Capability::ProcEval, denial });
    };
    let Ok(flat) = flatten(text, scene) else {
        eval(&mut proof);
        return proof;
    };
    let mut opaque = !flat.opaque.is_empty() || flat.truncated || flat.unread.is_some();
    for command in &flat.commands {
        opaque |= !step_of(policy, command, &mut proof);
    }
    if opaque {
        eval(&mut proof);
    }
    proof
}

/// Adds what a command needs; false when that cannot be said.
fn step_of(policy: &Policy, command: &Command, proof: &mut Proof) -> bool {
    let mut certain = true;
    let builtin = BUILTINS.contains(&command.argv.first().map_or("", |arg| arg.text.as_str()));
    if !command.argv.is_empty() && !builtin {
        if command.is_known() {
            let argv: Vec<String> = command.argv.iter().map(|arg| arg.text.clone()).collect();
            let request = in_dir(Request::exec(&argv), command.cwd.as_deref());
            let denial = denied(decide(policy, &request));
            proof.steps.push(Step { what: argv, capability: Capability::ProcExec, denial });
        } else {
            certain = false;
        }
    }
    // Variables that load code or run text are nothing that a grant for a command speaks of.
    certain &= !command.variables.iter().any(|(name, _)| steers(name));
    if DECLARES.contains(&command.program()) {
        let names = command.argv.iter().skip(1).filter_map(|arg| arg.text.split('=').next());
        certain &= !names.into_iter().any(steers);
    }
    for (channel, file) in &command.files {
        if file.has_gap() || file.glob {
            certain = false;
            continue;
        }
        let Some(path) = place::joined(command.cwd.as_deref(), &file.text) else {
            certain = false;
            continue;
        };
        if matches!(path.as_str(), "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin" | "/dev/zero") {
            continue;
        }
        let capability = match channel {
            Channel::Read => Capability::FsRead,
            Channel::Write | Channel::Append => Capability::FsWrite,
        };
        let request = Request::path(capability, PathBuf::from(&path));
        let denial = denied(decide(policy, &request));
        proof.steps.push(Step { what: vec![path], capability, denial });
    }
    certain
}

/// Whether a variable decides which code programs run.
fn steers(name: &str) -> bool {
    const STARTS: &[&str] =
        &["LD_", "DYLD_", "GIT_", "PYTHON", "PERL", "RUBY", "NODE_", "BASH", "JAVA", "_JAVA"];
    super::unwrap::runs_text(name)
        || matches!(name, "PATH" | "IFS" | "CDPATH" | "SHELLOPTS" | "CLASSPATH" | "GCONV_PATH")
        || STARTS.iter().any(|start| name.starts_with(start))
}

fn in_dir(request: Request, cwd: Option<&str>) -> Request {
    match cwd {
        Some(cwd) => request.in_dir(PathBuf::from(cwd)),
        None => request,
    }
}

fn denied(decision: Decision<'_>) -> Option<Box<Denial>> {
    match decision {
        Decision::Allow(_) => None,
        Decision::Deny(denial) => Some(denial),
    }
}
