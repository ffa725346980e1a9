//! Tools that are left running: started, asked about and stopped in a session that lives as long as the server.

use super::arguments::Arguments;
use super::named::{given, offer, stopped};
use super::offer::{Hints, Offer, Reply};
use super::scene::Scene;
use super::sets::Call;
use crate::audit::Event;
use crate::capability::Risk;
use crate::decide::{Denial, DenialCode};
use crate::run::session::{Ending, MOST_ALIVE, Status};
use crate::run::tools::Stop;
use crate::tool::Tool;
use serde_json::{Value, json};

/// Their names.
pub(super) const NAMES: &[&str] = &[START, STATUS, STOP];
const START: &str = "process_start";
/// The one that only looks.
pub(super) const STATUS: &str = "process_status";
const STOP: &str = "process_stop";

/// The tools of the agent that are left running and may be.
fn persistent(scene: &Scene) -> impl Iterator<Item = &Tool> {
    let left = scene.tools.iter().filter(|tool| tool.enabled && tool.persistent);
    left.filter(|tool| tool.withheld(scene.policy()).is_none())
}

pub(super) fn offers(scene: &Scene) -> Vec<Offer> {
    let names: Vec<&str> = persistent(scene).map(|tool| tool.name.as_str()).collect();
    let withheld = names.is_empty().then(|| {
        let message = format!("{} has no tool that is left running", scene.agent());
        Box::new(Denial::of_tool(DenialCode::UnknownTool, scene.agent(), START, message))
    });
    let name = json!({ "enum": names, "description": "The tool." });
    let input = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    let (values, args) = (
        json!({ "type": "object", "description": "Its values by name." }),
        json!({ "type": "array", "items": { "type": "string" }, "description": "Its arguments, for a tool that takes them freely." }),
    );
    let start = input(json!({ "tool": name, "values": values, "args": args }), &["tool"]);
    let about = started_by(scene);
    let ends = "Everything ends with this server.";
    let mut offers = vec![
        Offer {
            hints: Hints::ACTS,
            risk: persistent(scene).map(Tool::risk).max().unwrap_or(Risk::High),
            requires: persistent(scene).flat_map(Tool::needs).map(|need| need.to_string()).collect(),
            hosts: persistent(scene).flat_map(|tool| offer(tool).hosts).collect(),
            env: persistent(scene).flat_map(|tool| tool.env.clone()).collect(),
            ..Offer::looking(START, "Start a process", &format!("Starts a tool that is left running, at most {MOST_ALIVE} at a time; says so when it runs already. {ends}{about}"), start).answering(status())
        },
        Offer::looking(
            STATUS,
            "Ask about processes",
            "Says of a tool that was started whether it runs, how it ended and what it printed last; of all when none is named.",
            input(json!({ "tool": name }), &[]),
        ),
        Offer {
            hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: false },
            ..Offer::looking(STOP, "Stop a process", "Ends a tool that was started, with everything it started itself.", input(json!({ "tool": name }), &["tool"])).answering(status())
        },
    ];
    for offer in &mut offers {
        offer.withheld = withheld.clone().map(|mut denial| {
            denial.tool = Some(offer.name.clone());
            denial
        });
    }
    offers
}

fn started_by(scene: &Scene) -> String {
    let line = |tool: &Tool| {
        let about = tool.description.clone().unwrap_or_else(|| tool.command_line());
        format!("\n- {}: {about}; values: {}", tool.name, tool.input_schema()["properties"])
    };
    persistent(scene).map(line).collect()
}

fn status() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" }, "pid": { "type": "integer" }, "running": { "type": "boolean" },
            "exit_code": { "type": ["integer", "null"] }, "end": { "type": ["string", "null"] },
            "uptime_ms": { "type": "integer" }, "stdout": { "type": "string" }, "stderr": { "type": "string" },
        },
        "required": ["name", "running"],
    })
}

pub(super) fn call(call: &Call<'_>) -> Reply {
    let reply = match call.name {
        START => start(call),
        STOP => stop(call),
        _ => ask(call),
    };
    reply.unwrap_or_else(Reply::Denied)
}

fn start(call: &Call<'_>) -> Result<Reply, Box<Denial>> {
    let scene = call.scene;
    let arguments = Arguments::read(scene.agent(), START, call.arguments, &["tool", "values", "args"])?;
    let tool = scene.tools.find(scene.agent(), arguments.needed("tool")?)?;
    let given = given(tool, &arguments, "values")?;
    let caller = call.means.caller(scene, None, call.cancel);
    told(call.means.session().start(tool, &given, &caller))
}

fn ask(call: &Call<'_>) -> Result<Reply, Box<Denial>> {
    let arguments = Arguments::read(call.scene.agent(), STATUS, call.arguments, &["tool"])?;
    let session = call.means.session();
    match arguments.text("tool")? {
        Some(tool) => told(session.status(tool)),
        None => {
            let all: Vec<Value> = session.all().iter().map(Status::to_json).collect();
            Ok(Reply::value(json!({ "session": session.id(), "processes": all })))
        }
    }
}

fn stop(call: &Call<'_>) -> Result<Reply, Box<Denial>> {
    let agent = call.scene.agent();
    let tool = Arguments::read(agent, STOP, call.arguments, &["tool"])?.needed("tool")?;
    let ending = call.means.session().let_go(tool);
    // Others may ask about theirs while this one ends.
    let stopped = ending.map(Ending::wait);
    if stopped.is_ok() {
        let body = json!({ "act": "stop", "tool": tool, "session": call.means.session_id() });
        // It has ended whether that can be recorded or not.
        let _ = call.means.audit.record(Event::new("tool", agent, body));
    }
    told(stopped)
}

fn told(status: Result<Status, Stop>) -> Result<Reply, Box<Denial>> {
    match status {
        Ok(status) => Ok(Reply::value(status.to_json())),
        Err(stop) => stopped(stop),
    }
}
