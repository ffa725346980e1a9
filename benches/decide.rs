//! Costs as ratios, measured interleaved in one run, so that a busy machine slows both sides alike.
//!
//! `cargo bench --bench decide`; what the numbers mean is told in docs/benchmarks.md.
#![expect(clippy::print_stdout, reason = "a bench's output is its answer")]
#![expect(clippy::unwrap_used, reason = "inputs are fixed; a bench that cannot start should stop")]

use sbx::capability::{Capability, Spec};
use sbx::{Config, Facts, Manifest, Policy, Request, Source, decide};
use std::collections::HashSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUNDS: usize = 201;

/// Something to be timed, by name.
type Timed<'a> = (&'a str, Box<dyn FnMut() + 'a>);
/// A text of about a given size, by name.
type Shape = (&'static str, fn(usize) -> String);

fn facts() -> Facts {
    Facts::new("/home/u").at("/w/app")
}

/// The time of one call of each in its fastest round, the rounds of all taking turns.
///
/// Rounds are short, so that the fastest is one in which nothing else had the processor.
fn interleaved(calls: usize, subjects: &mut [Timed<'_>]) -> Vec<Duration> {
    let mut fastest = vec![Duration::MAX; subjects.len()];
    for _ in 0..ROUNDS {
        for (subject, fastest) in subjects.iter_mut().zip(&mut fastest) {
            let start = Instant::now();
            for _ in 0..calls {
                subject.1();
            }
            *fastest = start.elapsed().min(*fastest);
        }
    }
    fastest.into_iter().map(|time| time / u32::try_from(calls).unwrap()).collect()
}

/// Prints each subject against the first.
fn report(title: &str, calls: usize, subjects: &mut [Timed<'_>]) {
    println!("\n{title}");
    let times = interleaved(calls, subjects);
    for ((name, _), time) in subjects.iter().zip(&times) {
        println!("  {name:<44} {time:>12.1?}  x{:.2}", time.as_secs_f64() / times[0].as_secs_f64());
    }
}

const RECORD: &str = "---
id: bench
class: agent
description: Twenty grants of the kinds that records are made of.
capabilities:
  - records.read
  - records.create: {classes: [note, task]}
  - records.update: {paths: [\"inbox/**\"]}
  - agent.create: {id: helper}
  - fs.read: {in: /w/app}
  - fs.read: {in: ~/notes, paths: [\"*.md\", archive]}
  - fs.read: {in: /usr/share/doc}
  - fs.write: {in: /w/app, paths: [src, tests, \"docs/**\"]}
  - fs.write: {in: /w/app/target}
  - fs.delete: {in: /w/app/target}
  - net.get: {hosts: [\"*.github.com\", packages.example.org, \"*.docs.rs\"]}
  - net.get: {hosts: [api.example.dev]}
  - net.post: {hosts: [\"api.example.dev:443\"]}
  - net.put: {hosts: [api.example.dev]}
  - proc.exec: {in: /w/app, cmds: [rg, ls, cat, jq]}
  - proc.exec: {in: /w/app, patterns: [\"git log *\", \"git diff *\", \"git status\"]}
  - proc.exec: {in: /w/app, patterns: [\"cargo test *\", \"cargo build *\"]}
  - proc.exec{in=/w/app,cmds=[/usr/bin/python3]}
  - net.get{hosts=[static.example.org]}
  - proc.eval: {in: /w/app/scripts}
limits: {wall: 10m, memory: 2GiB}
env: [LANG, TERM]
---
# Bench

A body, as records have one.
";

fn policy(text: &str) -> Policy {
    let (manifest, _) = Manifest::parse(Source::new("bench.md", text), &facts());
    Policy::resolve(&manifest.unwrap(), &Config::default(), &facts()).0
}

fn requests() -> Vec<(&'static str, Request)> {
    vec![
        ("decide: record", Request::record(Capability::RecordsUpdate, Some("inbox/a/b"), Some("note"))),
        ("decide: read a file", Request::path(Capability::FsRead, "/w/app/src/decide/judge.rs")),
        ("decide: write a file", Request::path(Capability::FsWrite, "/w/app/src/decide/judge.rs")),
        ("decide: host below a wildcard", Request::host(Capability::NetGet, "api.github.com:443")),
        ("decide: command by name", Request::exec(["rg", "-n", "needle", "src"]).in_dir("/w/app")),
        ("decide: command by pattern", Request::exec(["git", "log", "-1", "-p"]).in_dir("/w/app/src")),
    ]
}

fn against_a_hash_set() {
    let policy = policy(RECORD);
    assert_eq!(policy.grants().len(), 20);
    let set: HashSet<String> = policy.grants().iter().map(|grant| grant.spec.to_string()).collect();
    let key = policy.grants()[7].spec.to_string();
    let requests = requests();
    let denied = Request::exec(["rm", "-rf", "/"]).in_dir("/w/app");
    let mut subjects: Vec<Timed<'_>> = vec![(
        "HashSet<String> lookup, 20 entries",
        Box::new(|| assert!(black_box(&set).contains(black_box(&key)))),
    )];
    for (name, request) in &requests {
        assert!(decide(&policy, request).is_allowed(), "{name}");
        subjects
            .push((name, Box::new(|| assert!(decide(black_box(&policy), black_box(request)).is_allowed()))));
    }
    subjects.push((
        "a denial, with nearest grant and suggestion",
        Box::new(|| assert!(!decide(&policy, &denied).is_allowed())),
    ));
    report("One decision under 20 grants, against a plain lookup", 500, &mut subjects);
}

fn growth() {
    let kinds: [(Shape, Request); 4] = [
        (
            ("paths", |n| format!("fs.read{{in=/w/d{n},paths=[src/**]}}")),
            Request::path(Capability::FsRead, "/w/d7/src/a/b.rs"),
        ),
        (
            ("hosts", |n| format!("net.get{{hosts=[*.h{n}.com]}}")),
            Request::host(Capability::NetGet, "a.h7.com"),
        ),
        (
            ("commands by name", |n| format!("proc.exec{{in=/w,cmds=[tool{n}]}}")),
            Request::exec(["tool7", "x"]).in_dir("/w"),
        ),
        (
            ("commands by pattern", |n| format!("proc.exec{{in=/w,patterns=[git sub{n} *]}}")),
            Request::exec(["git", "sub7", "x"]).in_dir("/w"),
        ),
    ];
    for ((name, spec), request) in &kinds {
        let policies: Vec<(String, Policy)> = [10, 100, 1000, 10_000]
            .into_iter()
            .map(|count| {
                let specs: Vec<Spec> = (0..count).map(|n| Spec::parse(&spec(n)).unwrap()).collect();
                (format!("{count} grants"), Policy::from_specs("a", &specs, &facts()).unwrap())
            })
            .collect();
        let mut subjects: Vec<Timed<'_>> = Vec::new();
        for (label, policy) in &policies {
            subjects.push((label, Box::new(|| assert!(decide(black_box(policy), request).is_allowed()))));
        }
        report(&format!("Growth of a decision: {name}"), 500, &mut subjects);
    }
}

fn loading() {
    let file = std::env::temp_dir().join(format!("sbx-bench-{}.md", std::process::id()));
    std::fs::write(&file, RECORD).unwrap();
    let read = || std::fs::read_to_string(&file).unwrap();
    let parse = |text: String| Manifest::parse(Source::new("bench.md", text), &facts()).0.unwrap();
    let mut subjects: Vec<Timed<'_>> = vec![
        ("read the file", Box::new(|| drop(black_box(read())))),
        ("read and parse", Box::new(|| drop(black_box(parse(read()))))),
        (
            "read, parse and resolve",
            Box::new(|| drop(black_box(Policy::resolve(&parse(read()), &Config::default(), &facts())))),
        ),
    ];
    report("Loading a record of 20 grants", 4, &mut subjects);
    drop(subjects);
    let _ = std::fs::remove_file(&file);
}

/// Ten times the text must cost about ten times the work, whatever the text.
fn hostile() {
    let shapes: [Shape; 9] = [
        ("plain keys", |n| (0..n / 12).map(|i| format!("k{i:06}: v\n")).collect()),
        ("many grants, a line each", |n| {
            let list = (0..n / 32).map(|i| format!("  - net.get{{hosts=[h{i:06}.com]}}\n"));
            std::iter::once("capabilities:\n".to_owned()).chain(list).collect()
        }),
        ("many grants in one string", |n| {
            format!("capabilities: \"\\t{}\"\n", "records.read ".repeat(n / 13))
        }),
        ("many wrong grants on one line", |n| format!("capabilities: [{}]\n", "x.y, ".repeat(n / 5))),
        ("one grant with many hosts", |n| {
            format!("capabilities: [{{net.get: {{hosts: [{}]}}}}]\n", "a.com, ".repeat(n / 7))
        }),
        ("nested flow lists", |n| "[".repeat(n)),
        ("nested flow maps", |n| format!("a: {}", "{b: ".repeat(n / 4))),
        ("nested block lists", |n| "- ".repeat(n / 2)),
        ("an open quote", |n| format!("a: \"{}", "x ".repeat(n / 2))),
    ];
    println!("\nHostile text: ten times the size (20 kB, 200 kB), times the cost");
    for (name, shape) in shapes {
        let (small, large) = (shape(20_000), shape(200_000));
        let load = |text: &str| {
            let (manifest, _) = Manifest::parse(Source::new("a.yml", text), &facts());
            manifest.map(|manifest| Policy::resolve(&manifest, &Config::default(), &facts()))
        };
        let times = interleaved(
            1,
            &mut [
                ("20 kB", Box::new(|| drop(black_box(load(&small))))),
                ("200 kB", Box::new(|| drop(black_box(load(&large))))),
            ],
        );
        let ratio = times[1].as_secs_f64() / times[0].as_secs_f64();
        println!("  {name:<44} {:>12.0?}  x{ratio:.1}", times[1]);
    }
}

/// Runs every part, or those named as arguments.
fn main() {
    let parts: [(&str, fn()); 4] =
        [("lookup", against_a_hash_set), ("growth", growth), ("loading", loading), ("hostile", hostile)];
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    parts.iter().filter(|(name, _)| wanted(name)).for_each(|(_, part)| part());
}
