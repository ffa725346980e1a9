//! What the audit log adds to a launch: its two events, from opening the log to closing it.
//!
//! `cargo bench --bench audit`; docs/benchmarks.md says what the numbers mean. They are printed, never asserted.
#![expect(clippy::print_stdout, reason = "a bench's output is its answer")]

use sbx::audit::{Event, Log, Sink};
use sbx::capability::Spec;
use sbx::manifest::AuditSettings;
use sbx::policy::fingerprint;
use sbx::{Facts, Policy};
use serde_json::json;
use std::time::{Duration, Instant};

const ROUNDS: usize = 2000;

/// As in the program.
#[cfg(all(target_os = "linux", target_env = "musl"))]
#[global_allocator]
static HEAP: sbx_platform::heap::Heap = sbx_platform::heap::Heap::new();

fn main() -> std::io::Result<()> {
    let dir = std::env::temp_dir().join(format!("sbx-audit-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let facts = Facts::new("/home/u");
    let spec = |n: usize| Spec::parse(&format!("records.create{{classes=[class{n}]}}")).ok();
    let specs: Vec<Spec> = (0..20).filter_map(spec).collect();
    let policy = Policy::from_specs("bench", &specs, &facts);
    let policy = policy.map_err(|problems| std::io::Error::other(format!("{problems:?}")))?;
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| launch(&dir, &policy)).collect::<Result<_, _>>()?;
    times.sort_unstable();
    println!("a launch and its end: median {:?}, least {:?}", times[ROUNDS / 2], times[0]);
    std::fs::remove_dir_all(&dir)
}

/// The events of one launch, as its process writes them.
fn launch(dir: &std::path::Path, policy: &Policy) -> std::io::Result<Duration> {
    let begun = Instant::now();
    let log = Log::new(dir, "bench", AuditSettings::default());
    log.stay_open();
    let begin = json!({
        "launch": "e584a394148d4f64", "argv": ["rg", "--line-number", "TODO", "src"], "cwd": "/home/u/app",
        "grant": "proc.exec{in=/home/u/app}", "authority": fingerprint(policy), "backend": "native",
    });
    log.record(Event::new("launch", "bench", begin))?;
    let guarantees: Vec<&str> =
        sbx_platform::Guarantee::ALL.iter().map(|guarantee| guarantee.name()).collect();
    let end = json!({
        "exit": 0, "signal": null, "limit": null, "setup": null, "status": 0, "duration_ms": 69, "backend": "native",
        "guarantees": guarantees, "missing": [], "launch": "e584a394148d4f64", "refused": [],
    });
    log.record(Event::new("end", "bench", end))?;
    drop(log);
    Ok(begun.elapsed())
}
