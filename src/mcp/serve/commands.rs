//! `exec` and `eval`: a command or shell text behind the agent's fence, as on the command line.

use super::answer::{MOST_STREAM, bounded};
use super::arguments::{Arguments, MOST_TIME};
use super::offer::{Hints, Offer, Reply};
use super::scene::Scene;
use super::sets::{Call, absent};
use crate::capability::Capability;
use crate::decide::{Decision, Denial, Request, decide};
use crate::manifest::Limits;
use crate::plan::Invocation;
use crate::policy::Policy;
use crate::run::tools::place;
use crate::run::{Live, Ran, Refusal, RunError, bound_refusals, judge, outcome_json, refused, run_until};
use sbx_platform::End;
use sbx_platform::plan::Stdio;
use serde_json::{Value, json};
use std::time::Duration;

/// Their names.
pub(super) const NAMES: &[&str] = &[EXEC, EVAL];
const EXEC: &str = "exec";
const EVAL: &str = "eval";
/// Refusals that a model is told of one by one when a command failed.
const HINTED: usize = 3;
/// How long a command may take when nobody says.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) fn offers(scene: &Scene) -> Vec<Offer> {
    let properties = |name: &str, first: Value| {
        let time = format!(
            "Seconds it may take, up to {}; {} when left out.",
            MOST_TIME.as_secs(),
            TIMEOUT.as_secs()
        );
        let properties = json!({
            name: first,
            "cwd": { "type": "string", "description": "Where to run it; where the server works when left out." },
            "timeout_seconds": { "type": "number", "exclusiveMinimum": 0, "maximum": MOST_TIME.as_secs(), "description": time },
        });
        json!({ "type": "object", "properties": properties, "required": [name], "additionalProperties": false })
    };
    let argv = json!({
        "type": "array", "items": { "type": "string" }, "minItems": 1,
        "description": "The program and its arguments, each a word of its own; no shell reads them.",
    });
    let text = json!({ "type": "string", "description": "The shell text." });
    let exec =
        "Runs a program with arguments behind the agent's fence, and waits for its end. Its input is empty.";
    let eval = "Runs shell text behind the agent's fence, and waits for its end. Its input is empty.";
    vec![
        offer(scene, EXEC, "Run a command", exec, properties("argv", argv), Capability::ProcExec),
        offer(scene, EVAL, "Run shell text", eval, properties("command", text), Capability::ProcEval),
    ]
}

fn offer(scene: &Scene, name: &str, title: &str, about: &str, input: Value, takes: Capability) -> Offer {
    let text = json!({ "type": "string" });
    let number = json!({ "type": ["integer", "null"] });
    let output = json!({
        "type": "object",
        "properties": {
            "exit": number, "signal": number, "limit": { "type": ["string", "null"] }, "status": { "type": "integer" },
            "stdout": text, "stderr": text, "stdout_truncated": { "type": "boolean" },
            "stderr_truncated": { "type": "boolean" }, "duration_ms": { "type": "integer" }, "refused": { "type": "array" },
        },
        "required": ["exit", "status", "stdout", "stderr"],
    });
    let env = scene.policy().sections().env.iter().map(|rule| rule.name.clone()).collect();
    Offer {
        hints: Hints::ACTS,
        requires: vec![takes.name().to_owned()],
        risk: takes.risk(),
        timeout: Some(TIMEOUT),
        env,
        withheld: absent(scene, name, &[takes]),
        ..Offer::looking(name, title, about, input).answering(output)
    }
}

pub(super) fn call(call: &Call<'_>) -> Reply {
    run(call).unwrap_or_else(Reply::Denied)
}

fn run(call: &Call<'_>) -> Result<Reply, Box<Denial>> {
    let (scene, means) = (call.scene, call.means);
    let first = if call.name == EXEC { "argv" } else { "command" };
    let arguments =
        Arguments::read(scene.agent(), call.name, call.arguments, &[first, "cwd", "timeout_seconds"])?;
    let request = if call.name == EXEC {
        Request::exec(arguments.words(first)?)
    } else {
        let text = arguments.needed(first)?;
        Request::eval(text).map_err(|error| arguments.wrong(first, &error.to_string()))?
    };
    let wall = Some(arguments.seconds("timeout_seconds", TIMEOUT)?);
    let (asked, cwd) = arguments.directory("cwd", &place(scene.policy(), &scene.cwd))?;
    let request = request.by_tool(call.name);
    let (request, as_asked) = (request.clone().in_dir(&cwd), request.in_dir(asked));
    let policy = scene.policy().within(&Limits { wall, ..Limits::default() });
    let permit = match judge(&policy, &cwd, &request) {
        Ok(Decision::Allow(permit)) => permit,
        // Where a link leads that the agent may not see is not told.
        Ok(Decision::Deny(denial)) => return Err(denied(&policy, &as_asked).unwrap_or(denial)),
        Err(error) => return Ok(Reply::failed(error.to_string())),
    };
    let invocation =
        Invocation::new(sbx_platform::ids()).stdio(Stdio::Capture).accepting(means.accepted.clone());
    let ran = run_until(&permit, &invocation, means.backend, &means.audit, &Live, Some(call.cancel));
    Ok(match ran {
        Ok(ran) => {
            let mut denials = refused(&permit, &ran.outcome.acts);
            let more = bound_refusals(&mut denials);
            denials.extend(ran.refused.iter().cloned().map(Refusal::from));
            told(&ran, &denials, more)
        }
        Err(error) => not_run(&error),
    })
}

/// The denial of a request by the agent's grants, if there is one.
fn denied(policy: &Policy, request: &Request) -> Option<Box<Denial>> {
    match decide(policy, request) {
        Decision::Allow(_) => None,
        Decision::Deny(denial) => Some(denial),
    }
}

fn not_run(error: &RunError) -> Reply {
    let message = crate::mcp::rules::chain(error);
    let value =
        json!({ "is_error": true, "code": "not_started", "message": message, "status": error.exit_status() });
    Reply::Failed { text: message, value }
}

/// How a command ended, for machines and for a model.
fn told(ran: &Ran, refused: &[Refusal], more: usize) -> Reply {
    let mut value = outcome_json(&ran.outcome);
    if let Some(value) = value.as_object_mut() {
        // The log has what held; a model that reads this learns nothing from it.
        value.remove("guarantees");
    }
    let mut printed = [("stdout", &ran.outcome.stdout), ("stderr", &ran.outcome.stderr)].into_iter().map(
        |(name, bytes)| {
            let (text, cut) = bounded(&String::from_utf8_lossy(bytes), MOST_STREAM);
            value[name] = json!(text);
            value[format!("{name}_truncated")] = json!(cut);
            text
        },
    );
    let (stdout, stderr) = (printed.next().unwrap_or_default(), printed.next().unwrap_or_default());
    drop(printed);
    value["remarks"] = json!(ran.remarks);
    value["warnings"] = json!(ran.warnings);
    value["refused"] = refused.iter().map(Refusal::to_json).collect();
    let end = match &ran.outcome.end {
        End::Exited(0) => None,
        End::Exited(code) => Some(format!("it ended with status {code}")),
        End::Signaled(number) => Some(format!("it was ended by signal {number}")),
        End::Limit(limit) => Some(format!("the {} limit was reached; everything was ended", limit.name())),
        End::Setup(failure) => Some(format!("the fence could not be built: {failure}")),
    };
    let mut text = end.clone().map_or_else(String::new, |end| format!("{end}\n"));
    text.push_str(&stdout);
    if !stderr.trim().is_empty() {
        text.push_str(&format!("\n[stderr]\n{stderr}"));
    }
    if end.is_some() {
        for denial in refused.iter().take(HINTED) {
            text.push_str(&format!("\n[refused] {denial}"));
        }
        let more = more + refused.len().saturating_sub(HINTED);
        if more > 0 {
            text.push_str(&format!("\n[refused] and {more} more"));
        }
    }
    match end {
        None => Reply::Done { text: Some(text), value },
        Some(message) => {
            value["is_error"] = json!(true);
            value["message"] = json!(message);
            Reply::Failed { text, value }
        }
    }
}
