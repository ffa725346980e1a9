//! Matcher and kernel agree: random records, random acts, and the same answer from `decide` over the
//! process view and from the real sandbox, in every backend.
//!
//! The kernel may never be wider. It may be narrower only where DESIGN says so by name (`fs-glob`): names
//! that do not exist yet under a pattern, and taking away a granted place itself.

#![expect(clippy::panic, reason = "a test that cannot go on should say so and stop")]

#[path = "support_agreement"]
mod support_agreement {
    pub(crate) mod acts;
    #[expect(dead_code, reason = "where a world stands matters to those who act in it one by one")]
    pub(crate) mod world;
}

use support_agreement::acts::{Act, Verdict};
use support_agreement::world::World;

/// How many records are tried with each backend; each is asked about forty acts.
fn rounds() -> u64 {
    std::env::var("SBX_AGREEMENT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

fn agree(backend: &str, accepted: &str) {
    let mut acts = 0;
    let mut allowed = 0;
    for seed in 0..rounds() {
        let world = World::new(backend, seed);
        let answers = world.attempt(backend, accepted);
        for (act, kernel) in world.acts().iter().zip(&answers) {
            acts += 1;
            allowed += usize::from(*kernel);
            let decided = world.decide(act);
            check(&world, act, decided, *kernel, seed);
        }
    }
    // A run in which nothing, or everything, was allowed would prove nothing.
    assert!(
        acts > 0 && allowed > acts / 10 && allowed < acts * 9 / 10,
        "{allowed} of {acts} acts were allowed"
    );
}

fn check(world: &World, act: &Act, decided: Verdict, kernel: bool, seed: u64) {
    let text = || format!("seed {seed}: {act} in\n{}", world.record());
    match decided {
        Verdict::Deny => assert!(!kernel, "the kernel allows what decide denies: {}", text()),
        Verdict::Allow => assert!(kernel, "the kernel denies what decide allows: {}", text()),
        Verdict::AllowMaybeNarrower => {}
    }
}

#[test]
fn matcher_and_kernel_agree_natively() {
    agree("native", "");
}

#[test]
fn matcher_and_kernel_agree_through_bwrap() {
    agree("bwrap", "exec-only,teardown-killed");
}

#[test]
fn matcher_and_kernel_agree_with_landlock_alone() {
    agree("landlock", "fs-hidden,fs-metadata,loopback,terminals,pid-hidden,private-tmp,teardown-killed");
}
