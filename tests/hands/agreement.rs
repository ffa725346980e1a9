//! The helper's fence and `decide` say the same: random records, random acts, and a matcher that lets every act reach
//! the kernel.

use crate::support::program;
use crate::support_agreement::acts::{Act, Verdict};
use crate::support_agreement::world::World;
use crate::world::BACKENDS;
use std::process::{Command, Stdio};

/// How many records are tried with each backend.
fn rounds() -> u64 {
    let asked = std::env::var("SBX_AGREEMENT_ROUNDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(8)
}

/// The operation that does what an act does; none where there is none.
fn operation(act: &Act) -> Option<&'static [&'static str]> {
    match act.verb {
        "read" => Some(&["read"]),
        "list" => Some(&["list"]),
        "write" | "truncate" => Some(&["write", "--old"]),
        "create" => Some(&["write", "--new"]),
        "delete" => Some(&["delete"]),
        _ => None,
    }
}

/// Whether the kernel lets the helper do it, whatever the matcher says.
fn kernel(world: &World, words: &[&str], act: &Act, (backend, accepted): (&str, &str)) -> bool {
    let mut command = Command::new(program());
    command.args(["--json", "fs", words[0], "--backend", backend, "-a"]).arg(world.dir().join("agent.yml"));
    if !accepted.is_empty() {
        command.args(["--allow-degraded", accepted]);
    }
    command
        .args(&words[1..])
        .arg(&act.path)
        .env("HOME", world.dir().join("home"))
        .env_remove("XDG_CONFIG_HOME");
    command.env("SBX_TEST_BROKEN_MATCHER", "1").current_dir(world.dir().join("work")).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match output.status.code() {
        Some(0) => true,
        Some(2) if matches!(said["code"].as_str(), Some("refused" | "not_found" | "changed")) => false,
        _ => panic!("{act} in\n{}\nsaid {said}", world.record()),
    }
}

#[test]
fn the_helper_can_do_what_is_decided_and_nothing_else() {
    for fence in BACKENDS {
        let (mut tried, mut done) = (0, 0);
        for seed in 0..rounds() {
            let world = World::new(fence.0, seed);
            std::fs::write(world.dir().join("agent.yml"), world.record()).unwrap();
            for act in world.acts() {
                let Some(words) = operation(act) else { continue };
                let did = kernel(&world, words, act, *fence);
                tried += 1;
                done += usize::from(did);
                let text = || format!("{fence:?} seed {seed}: {act} in\n{}", world.record());
                match world.decide_files(act) {
                    Verdict::Deny => assert!(!did, "the helper does what decide denies: {}", text()),
                    Verdict::Allow => assert!(did, "the helper cannot do what decide allows: {}", text()),
                    Verdict::AllowMaybeNarrower | Verdict::DenyMaybeWider => {}
                }
            }
        }
        assert!(done > tried / 30 && done < tried, "{done} of {tried} acts were done");
    }
}
