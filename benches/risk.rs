//! What reading a shell line costs: a typical one, the first one, and hostile ones as long as are looked at.
//!
//! `cargo bench --bench risk`; what the numbers mean is told in docs/benchmarks.md. Times are printed, and what
//! is asserted is growth: four times the text costs about four times as much, whatever it contains.
#![expect(clippy::print_stdout, reason = "a bench's output is its answer")]

use sbx::manifest::RiskSettings;
use sbx::risk::{Assessment, Context, MAX_BYTES, RuleSet, Scene, assess};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Growth above which four times the text is no longer about four times the work.
const MOST_GROWTH: f64 = 10.0;
/// Shorter times are noise, and nobody waits for them.
const NOTICED: Duration = Duration::from_millis(2);

const TYPICAL: &[&str] = &[
    "ls -la",
    "git status --short && git diff --stat",
    "cargo test --workspace 2>&1 | tail -40",
    "grep -rn 'needle' src | head -20",
    "cd /home/u/app && npm ci && npm test",
    "for f in *.txt; do mv \"$f\" \"${f%.txt}.md\"; done",
    "find . -name '*.rs' -exec grep -l unsafe {} +",
    "curl -fsSL https://x.example/data.json | jq .name > name.txt",
    "bash -c \"rm -rf build && make -j4\"",
    "docker run --rm -v \"$PWD\":/src alpine ls /src",
    "sudo timeout 5 git push --force origin main",
    "python3 -c 'import os; print(os.getcwd())'",
];

const SHAPES: &[&str] = &[
    "( ",
    "{ ",
    "$(",
    "`",
    "if ",
    "((",
    "${x:-",
    "a;",
    "a|",
    "a&&",
    "{a,b}",
    "$x",
    "\"$(",
    "<(",
    "<<E\n",
    "'a' ",
    "x() { x; }; ",
    "a=$a$a;",
    "*",
    "rm ",
    "rm -rf / ",
    "-",
    "eval ",
    "sh -c ",
    "sudo ",
    "alias a='a a';a ",
    "find -exec ",
    "find -exec a \\; ",
    "xargs ",
    "env -S ",
    "git -c alias.x=!",
    "git -c alias.x=!a ",
    "echo a | sh;",
    "x=$(a);",
    "curl -o a http://a/a; sh a;",
    "python -c 'system(\"a\")';",
    "~/.ssh/id_rsa ",
];

fn scene() -> Scene {
    Scene::new("/home/u").at("/home/u/app")
}

fn look<'r>(text: &str, scene: &Scene, rules: &'r RuleSet) -> Assessment<'r> {
    assess(text, scene, rules, &RiskSettings::default(), &Context::default())
}

/// The fastest of some calls.
fn fastest(rounds: usize, mut call: impl FnMut()) -> Duration {
    let timed = (0..rounds).map(|_| {
        let start = Instant::now();
        call();
        start.elapsed()
    });
    timed.min().unwrap_or_default()
}

fn typical(rules: &RuleSet) {
    println!("\nA typical line, rules loaded");
    let scene = scene();
    let mut total = Duration::ZERO;
    for line in TYPICAL {
        let time = fastest(400, || drop(black_box(look(black_box(line), &scene, rules))));
        println!("  {time:>10.1?}  {line}");
        total += time;
    }
    println!("  {:>10.1?}  on average", total / u32::try_from(TYPICAL.len()).unwrap_or(1));
}

fn hostile(rules: &RuleSet) {
    println!("\nHostile lines of 64 kB, and how often that of 16 kB");
    let scene = scene();
    let mut wild = Vec::new();
    for shape in SHAPES {
        let [small, large] = [MAX_BYTES / 4, MAX_BYTES].map(|size| shape.repeat(size / shape.len()));
        let [small, large] =
            [&small, &large].map(|text| fastest(3, || drop(black_box(look(text, &scene, rules)))));
        let growth = large.as_secs_f64() / small.as_secs_f64();
        println!("  {large:>10.1?}  x{growth:<6.1} {shape:?}");
        if large > NOTICED && growth > MOST_GROWTH {
            wild.push(shape);
        }
    }
    assert!(wild.is_empty(), "these grow faster than the text: {wild:?}");
}

fn main() {
    let start = Instant::now();
    let rules = RuleSet::builtin();
    drop(black_box(look("ls", &scene(), &rules)));
    println!("Loading {} rules and looking at a first line: {:.1?}", rules.rules().count(), start.elapsed());
    typical(&rules);
    hostile(&rules);
}
