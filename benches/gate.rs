//! What the gate adds to a call in the stream of an MCP server: judging it, recording it, judging its answer.
//!
//! `cargo bench --bench gate`; docs/benchmarks.md says what the numbers mean. They are printed, never asserted.
#![expect(clippy::print_stdout, reason = "a bench's output is its answer")]

use sbx::audit::{Brief, Event, Field, Log, Nowhere, Sink, redact};
use sbx::capability::Spec;
use sbx::manifest::AuditSettings;
use sbx::mcp::{Gate, Rules, Teller};
use sbx::{Facts, Manifest, Policy, Source};
use serde_json::json;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 20_000;

/// As in the program.
#[cfg(all(target_os = "linux", target_env = "musl"))]
#[global_allocator]
static HEAP: sbx_platform::heap::Heap = sbx_platform::heap::Heap::new();

#[derive(Debug)]
struct Silent;

impl Teller for Silent {
    fn tell(&self, _: &str) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("sbx-gate-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let log = Log::new(&dir, "bench", AuditSettings::default());
    log.stay_open();
    calls("judged, and recorded nowhere", Arc::new(Nowhere))?;
    calls("judged and recorded", Arc::new(log))?;
    let event = || {
        let body = json!({
            "decision": "allow", "call": "17", "tool": "echo", "action": null, "retry": false, "server": "server",
        });
        Event::new("mcp", "bench", body)
    };
    let made: Vec<Duration> = (0..ROUNDS).map(|_| timed(event).1).collect();
    show("an event, made", made);
    let taken_out: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let event = event();
            timed(|| redact(event)).1
        })
        .collect();
    show("an event, looked through for secrets", taken_out);
    let log = Log::new(&dir, "bench", AuditSettings::default());
    log.stay_open();
    let mut recorded = Vec::new();
    for _ in 0..ROUNDS {
        let fields = [
            ("decision", Field::Text("allow")),
            ("call", Field::Text("17")),
            ("tool", Field::Text("echo")),
            ("action", Field::Nothing),
            ("retry", Field::Flag(false)),
            ("server", Field::Text("server")),
        ];
        let event = Brief { kind: "mcp", agent: "bench", fields: &fields };
        let (kept, took) = timed(|| log.record_first(event).and_then(|()| log.finish()));
        kept?;
        recorded.push(took);
    }
    show("an event, recorded first", recorded);
    Ok(std::fs::remove_dir_all(&dir)?)
}

/// Lets calls and their answers through a gate.
fn calls(what: &str, sink: Arc<dyn Sink>) -> Result<(), Box<dyn Error>> {
    let facts = Facts::new("/home/u");
    let record = "id: me\nmcp: {allowed_tools: [echo], arguments: {echo: {path: fs.read}}}\n";
    let (manifest, problems) = Manifest::parse(Source::new("me.yml", record.to_owned()), &facts);
    let manifest = manifest.ok_or_else(|| format!("{problems:?}"))?;
    let section = manifest.sections().mcp.clone().ok_or("no section")?;
    let specs: Vec<Spec> = Spec::parse("fs.read{in=/w}").into_iter().collect();
    let policy = Policy::from_specs("bench", &specs, &facts).map_err(|problems| format!("{problems:?}"))?;
    let gate = Gate::new(Rules::of(policy, &section, "/w"), "server", sink, Arc::new(Silent));
    let (mut there, mut back) = (Vec::new(), Vec::new());
    for id in 0..ROUNDS {
        let ask = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{}}}}}}"#
        );
        let answer = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"xx"}}]}}}}"#
        );
        there.push(timed(|| gate.from_client(ask.as_bytes())).1);
        back.push(timed(|| gate.from_server(answer.as_bytes())).1);
        if id % 64 == 0 {
            gate.settle();
        }
    }
    show(&format!("a call, {what}"), there);
    show(&format!("its answer, {what}"), back);
    Ok(())
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let done = act();
    (done, begun.elapsed())
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    println!("{what}: median {:?}, least {:?}", times[times.len() / 2], times[0]);
}
