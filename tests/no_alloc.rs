//! Allowing allocates nothing, and hostile text cannot make the reader allocate out of proportion.
//!
//! A test binary of its own, because it counts every allocation of the thread it runs on.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say so and stop")]

use sbx::capability::Capability;
use sbx::{Config, Facts, Manifest, Policy, Request, Source, decide};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

fn note(bytes: usize) {
    // A thread that is being torn down has no counter any more, and nobody asks for it.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    let _ = BYTES.try_with(|total| total.set(total.get() + bytes));
}

// SAFETY: every call is handed to the system's allocator unchanged; counting touches only a
// thread-local cell with a constant initialiser, which does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's obligations for `alloc` are the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` with this layout, as `alloc` and `realloc` forward to it.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size.saturating_sub(layout.size()));
        // SAFETY: the caller's obligations for `realloc` are the same here.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many allocations, and of how many bytes, a piece of work makes.
fn counted<T>(work: impl FnOnce() -> T) -> (usize, usize, T) {
    let (count, bytes) = (COUNT.get(), BYTES.get());
    let result = work();
    (COUNT.get() - count, BYTES.get() - bytes, result)
}

fn facts() -> Facts {
    Facts::new("/home/u").at("/w")
}

fn policy() -> Policy {
    let record = "id: me\ncapabilities:
  - records.read
  - records.update: {paths: [\"inbox/**\"], classes: [note]}
  - agent.update: {paths: [\"team/*\"]}
  - agent.grant: {id: scout}
  - fs.read: {in: /w, paths: [\"**/*.rs\", lib]}
  - fs.write: {in: /w, paths: [src, .git/hooks]}
  - net.get: {hosts: [\"*.x.com\", \"a.org:443\", 127.0.0.1, \"*\"]}
  - proc.exec: {in: /w, cmds: [rg, /usr/bin/jq], patterns: [\"git log *\", \"g* --version\"]}
  - proc.eval: {in: /w}\n";
    let (manifest, problems) = Manifest::parse(Source::new("me.yml", record), &facts());
    assert!(problems.is_empty(), "{problems:?}");
    Policy::resolve(&manifest.unwrap(), &Config::default(), &facts()).0
}

#[test]
fn allowing_a_request_allocates_nothing() {
    let policy = policy();
    let requests = [
        Request::record(Capability::RecordsRead, Some("a"), None),
        Request::record(Capability::RecordsUpdate, Some("inbox/a/b"), Some("note")),
        Request::agent(Capability::AgentUpdate, "team/x"),
        Request::agent(Capability::AgentGrant, "agents/scout"),
        Request::path(Capability::FsRead, "/w/a/b/c.rs"),
        Request::path(Capability::FsRead, "/w/lib/deep/er"),
        Request::path(Capability::FsWrite, "/w/src/main.rs"),
        Request::path(Capability::FsWrite, "/w/.git/hooks/pre-commit"),
        Request::url("GET", "https://deep.er.x.com/path"),
        Request::host(Capability::NetGet, "127.0.0.1:80"),
        Request::host(Capability::NetGet, "a.org:443").resolved_to([10, 0, 0, 1].into()),
        Request::host(Capability::NetGet, "other.net"),
        Request::exec(["rg", "x"]).in_dir("/w/src"),
        Request::exec(["/usr/bin/jq", "."]).in_dir("/w"),
        Request::exec(["git", "log", "-1"]).in_dir("/w"),
        Request::exec(["gcc", "--version"]).in_dir("/w"),
        Request::eval("ls | wc -l").unwrap().in_dir("/w"),
    ];
    // Shipped tables are read on first use, once for the process.
    let _ = decide(&policy, &requests[6]);
    for request in &requests {
        let (allocations, _, allowed) = counted(|| decide(&policy, request).is_allowed());
        assert!(allowed, "{request} is not allowed, so nothing was proved");
        assert_eq!(allocations, 0, "allowing {request} allocates");
    }
}

#[test]
fn the_counter_counts() {
    let (allocations, bytes, _) = counted(|| vec![0u8; 100]);
    assert_eq!((allocations, bytes), (1, 100));
    let policy = policy();
    let denied = Request::path(Capability::FsRead, "/etc/passwd");
    assert!(counted(|| decide(&policy, &denied).is_allowed()).0 > 0, "a denial is built, so it allocates");
}

/// Work is counted in allocations and bytes, which a busy machine does not change.
#[test]
fn work_grows_with_the_text_and_not_with_its_depth() {
    type Shape = (&'static str, fn(usize) -> String);
    let shapes: [Shape; 6] = [
        ("nested flow lists", |n| "[".repeat(n)),
        ("nested flow maps", |n| format!("a: {}", "{b: ".repeat(n / 4))),
        ("nested block lists", |n| "- ".repeat(n / 2)),
        ("closed nesting", |n| format!("{}{}", "[".repeat(n / 2), "]".repeat(n / 2))),
        ("many grants", |n| format!("capabilities: [{}]\n", "records.read, ".repeat(n / 14))),
        ("many wrong grants", |n| format!("capabilities: [{}]\n", "x.y, ".repeat(n / 5))),
    ];
    for (name, shape) in shapes {
        let load = |text: String| {
            let (manifest, problems) = Manifest::parse(Source::new("a.yml", text), &facts());
            (
                manifest.map(|manifest| Policy::resolve(&manifest, &Config::default(), &facts())),
                problems.len(),
            )
        };
        let (small, large) = (shape(20_000), shape(200_000));
        let (count, bytes, _) = counted(|| load(small));
        let (more, more_bytes, _) = counted(|| load(large));
        assert!(
            more <= 12 * count + 1000,
            "{name}: {count} allocations became {more} for ten times the text"
        );
        assert!(more_bytes <= 12 * bytes + 4_000_000, "{name}: {bytes} bytes became {more_bytes}");
    }
}
