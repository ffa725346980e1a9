//! Matcher and kernel agree: random records, random acts, and the same answer from `decide` over the
//! process view and from the real sandbox, in every backend.
//!
//! The kernel may never be wider. It may be narrower only where DESIGN says so by name (`fs-glob`): names
//! that do not exist yet under a pattern, and taking away a granted place itself; and for moves and hard links between
//! two directories, which `docs/guide/capabilities.md` names. Of programs it knows the files and not the arguments.

#![expect(clippy::print_stdout, reason = "a run that failed shows the seeds it started from")]
#![expect(clippy::panic, reason = "a test that cannot go on should say so and stop")]

#[path = "support_agreement"]
mod support_agreement {
    pub(crate) mod acts;
    pub(crate) mod more;
    #[expect(dead_code, reason = "where a world stands matters to those who act in it one by one")]
    pub(crate) mod world;
}

use support_agreement::acts::{Act, Verdict};
use support_agreement::world::{About, World};

/// How many records are tried with each backend and kind of act; each is asked about forty acts.
fn rounds() -> u64 {
    std::env::var("SBX_AGREEMENT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

const BWRAP: &str = "exec-only,teardown-killed";
const LANDLOCK: &str =
    "fs-hidden,fs-metadata,exec-only,loopback,terminals,pid-hidden,private-tmp,teardown-killed";

/// Where new seeds start: at the time, or where `SBX_AGREEMENT_SEED` says.
fn newest() -> u64 {
    let named = std::env::var("SBX_AGREEMENT_SEED").ok().and_then(|text| text.parse().ok());
    let now =
        || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis() as u64 % (1 << 40));
    named.unwrap_or_else(now)
}

fn agree(about: About, backend: &str, accepted: &str) {
    agree_at(about, backend, accepted, None);
}

fn agree_at(about: About, backend: &str, accepted: &str, level: Option<u32>) {
    let mut acts = 0;
    let mut allowed = std::collections::BTreeMap::<&str, usize>::new();
    let mut denied = std::collections::BTreeMap::<&str, usize>::new();
    let rounds = match about {
        About::Paths => rounds(),
        About::Ways => rounds() * 3 / 4,
        About::Programs => rounds() / 2,
    };
    // Of a lower level only what differs is asked.
    let rounds = if level.is_some() { rounds / 4 } else { rounds };
    // The same in every run, and some that are new in each.
    let newest = newest();
    println!("new seeds start at SBX_AGREEMENT_SEED={newest}");
    for seed in (0..rounds).chain(newest..newest + rounds / 4) {
        let world = World::about(about, backend, seed);
        // Asked before anything is changed.
        let decided: Vec<Verdict> = world.acts().iter().map(|act| world.judge(act)).collect();
        let answers = world.attempt(backend, accepted, level);
        for ((act, kernel), decided) in world.acts().iter().zip(&answers).zip(decided) {
            acts += 1;
            *if *kernel { &mut allowed } else { &mut denied }.entry(act.verb).or_default() += 1;
            check(&world, act, decided, *kernel, (backend, seed));
        }
    }
    // A run in which nothing, or everything, was allowed would prove nothing.
    let all: usize = allowed.values().sum();
    assert!(acts > 0 && all > acts / 10 && all < acts * 9 / 10, "{all} of {acts} acts were allowed");
    // A few rounds need not meet both answers to every act.
    if level.is_some() {
        return;
    }
    let lists = about != About::Programs || backend == "native";
    let one_sided = allowed.keys().any(|verb| !denied.contains_key(verb)) && lists;
    let never = denied.keys().any(|verb| !allowed.contains_key(verb));
    assert!(!one_sided && !never, "some acts went one way only: {allowed:?} {denied:?}");
}

fn check(world: &World, act: &Act, decided: Verdict, kernel: bool, (backend, seed): (&str, u64)) {
    let text = || format!("{backend} seed {seed}: {act} in\n{}", world.record());
    // What is listed is held by Landlock in a view of its own, and where that is not given it is said by name.
    let unlisted = act.verb == "exec" && backend != "native";
    // Times are no content: where there are mounts they change with the right to write, of protected names too.
    let is_hidden = |part: std::path::Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    let untimed = act.verb == "touch" && (backend == "landlock" || act.path.components().any(is_hidden));
    match decided {
        Verdict::Deny => {
            assert!(!kernel || unlisted || untimed, "the kernel allows what decide denies: {}", text())
        }
        Verdict::Allow => assert!(kernel, "the kernel denies what decide allows: {}", text()),
        Verdict::AllowMaybeNarrower | Verdict::DenyMaybeWider => {}
    }
}

#[test]
fn matcher_and_kernel_agree_natively() {
    agree(About::Paths, "native", "");
}

#[test]
fn matcher_and_kernel_agree_through_bwrap() {
    agree(About::Paths, "bwrap", BWRAP);
}

#[test]
fn matcher_and_kernel_agree_with_landlock_alone() {
    agree(About::Paths, "landlock", LANDLOCK);
}

#[test]
fn matcher_and_kernel_agree_where_landlock_knows_less() {
    for (backend, accepted) in [("native", ""), ("bwrap", BWRAP)] {
        for level in [1, 2, 3] {
            agree_at(About::Paths, backend, accepted, Some(level));
        }
        // The first level moves nothing from one directory to another.
        for level in [2, 3] {
            agree_at(About::Ways, backend, accepted, Some(level));
        }
    }
}

#[test]
fn moves_and_links_agree_natively() {
    agree(About::Ways, "native", "");
}

#[test]
fn moves_and_links_agree_through_bwrap() {
    agree(About::Ways, "bwrap", BWRAP);
}

#[test]
fn moves_and_links_agree_with_landlock_alone() {
    agree(About::Ways, "landlock", LANDLOCK);
}

#[test]
fn programs_agree_natively() {
    agree(About::Programs, "native", "");
}

#[test]
fn programs_agree_through_bwrap() {
    agree(About::Programs, "bwrap", BWRAP);
}

#[test]
fn programs_agree_with_landlock_alone() {
    agree(About::Programs, "landlock", LANDLOCK);
}
