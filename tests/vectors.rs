//! Conformance vectors: every `*.json` in `tests/vectors/` and in the directory named by
//! `SBX_VECTORS_DIR`. Prints each failing id with what was got and expected, and a last line
//! `N passed, M failed`. Groups whose part of sbx is not built yet are reported as such, never passed.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    reason = "a test with its own main prints its tally and stops on a broken file"
)]

#[path = "vectors/compare.rs"]
mod compare;
#[path = "vectors/mcp.rs"]
mod mcp;
#[path = "vectors/pattern.rs"]
mod pattern;
#[path = "vectors/recorder.rs"]
mod recorder;
#[path = "vectors/risk.rs"]
mod risk;
#[path = "vectors/run.rs"]
mod run;
#[path = "vectors/tools.rs"]
mod tools;

use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Tools that are left running are started by a launcher, which is this program again.
    sbx_platform::take_over(std::env::args_os());
    compare::check();
    let mut tally = Tally::default();
    for file in files() {
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let group: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let name = group["group"].as_str().unwrap_or_default().to_owned();
        for vector in group["vectors"].as_array().into_iter().flatten() {
            tally.count(&name, vector);
        }
    }
    for (group, number) in &tally.not_yet {
        println!("not yet: group {group}, {number} vectors");
    }
    for (group, number) in &tally.not_launched {
        println!("not run, because they launch a command: group {group}, {number} vectors");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    // No vector at all means that the files were not found, which proves nothing.
    if tally.failed == 0 && tally.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    not_yet: std::collections::BTreeMap<String, usize>,
    not_launched: std::collections::BTreeMap<String, usize>,
}

impl Tally {
    fn count(&mut self, group: &str, vector: &Value) {
        // An emulated processor has no kernel of its own to fence with: who runs these under one says so.
        if tools::launches(vector) && std::env::var_os("SBX_VECTORS_NO_LAUNCH").is_some() {
            *self.not_launched.entry(group.to_owned()).or_default() += 1;
            return;
        }
        // A vector that stops the code is a failure of that vector, and the others still count.
        let outcome = std::panic::catch_unwind(|| run::run(group, vector))
            .unwrap_or_else(|_| Some(Err("the code panicked".to_owned())));
        match outcome {
            None => *self.not_yet.entry(group.to_owned()).or_default() += 1,
            Some(Ok(())) => self.passed += 1,
            Some(Err(difference)) => {
                self.failed += 1;
                println!("FAILED {}: {difference}", vector["id"].as_str().unwrap_or("?"));
            }
        }
    }
}

fn files() -> Vec<PathBuf> {
    let shipped = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let dirs = [Some(shipped), std::env::var_os("SBX_VECTORS_DIR").map(PathBuf::from)];
    let mut files: Vec<PathBuf> = dirs
        .into_iter()
        .flatten()
        .flat_map(|dir| std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())))
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
}
