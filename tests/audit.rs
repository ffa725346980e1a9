//! The audit log against tampering, crashes, many writers, full disks and secrets.

#![expect(unreachable_pub, dead_code, reason = "the support module is shared by several test programs")]

#[path = "audit/crash.rs"]
mod crash;
#[path = "audit/launches.rs"]
mod launches;
#[path = "support/mod.rs"]
mod support;
#[path = "audit/tamper.rs"]
mod tamper;

use sbx::audit::{Event, Log, Sink, Verdict, verify};
use sbx::manifest::AuditSettings;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A state directory of its own, removed at the end.
#[derive(Debug)]
struct State(PathBuf);

impl State {
    fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("sbx-audit-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }

    fn log(&self) -> Log {
        Log::new(&self.0, "session", AuditSettings::default())
    }

    /// A log whose files are full soon.
    fn small(&self, max_size: u64, keep: u64) -> Log {
        let mut settings = AuditSettings::default();
        (settings.max_size, settings.keep) = (max_size, keep);
        Log::new(&self.0, "session", settings)
    }

    /// A log with this many events.
    fn with(events: u64) -> Self {
        let state = Self::new();
        let log = state.log();
        (1..=events).for_each(|number| add(&log, number));
        state
    }

    fn file(&self) -> PathBuf {
        self.0.join("audit.jsonl")
    }

    fn head(&self) -> PathBuf {
        self.0.join("audit.head")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).expect("a log")
    }

    fn lines(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }

    fn write(&self, lines: &[String]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(self.file(), text).expect("a log");
    }

    fn verdict(&self) -> Verdict {
        verify(&self.0, None).expect("a verdict")
    }

    fn codes(&self) -> Vec<&'static str> {
        self.verdict().problems.iter().map(|finding| finding.code).collect()
    }

    fn notes(&self) -> Vec<&'static str> {
        self.verdict().notes.iter().map(|finding| finding.code).collect()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn add(log: &Log, number: u64) {
    let body = json!({ "number": number, "argv": ["git", "log"] });
    log.record(Event::new("launch", "scout", body)).expect("recorded");
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
