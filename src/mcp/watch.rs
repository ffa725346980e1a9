//! Files that rules come from, and noticing that they changed.
//!
//! Answers for when rules are loaded anew. It leaves loading to [`rules`](super::rules).
//! Invariant: a file is read only after it has stood still, so that half a file is not taken for the whole.

use super::deciding::is_open;
use super::gate::{Gate, Teller};
use super::rules::{Origin, Rules};
use crate::policy::{covers, fingerprint};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

/// How often files are looked at; also how long one must stand still.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// What tells one state of a file from another.
pub(super) type Stamp = Option<(u64, u64, i64, i64, u64)>;

/// The files, and what they were when they were last read.
#[derive(Debug)]
pub struct Watch {
    origin: Origin,
    files: Vec<PathBuf>,
    /// The files that the server's fence keeps as they are.
    kept: Vec<PathBuf>,
    read: Vec<Stamp>,
    last: Vec<Stamp>,
}

impl Watch {
    /// Loads rules, and remembers what their files were before: no change from then on is missed.
    ///
    /// # Errors
    /// A sentence about the first part that is not right.
    pub fn load(origin: Origin) -> Result<(Rules, Self), String> {
        // Only what was loaded tells which files there are.
        let (_, files) = origin.load()?;
        let read = stamps(&files);
        let (rules, now) = origin.load()?;
        let read = if now == files { read } else { vec![None; now.len()] };
        let kept = rules.deciding.clone();
        Ok((rules, Self { origin, files: now, kept, last: read.clone(), read }))
    }

    /// Looks at the files; gives the gate other rules when they changed. Whether it did.
    pub fn look(&mut self, gate: &Gate, teller: &dyn Teller) -> bool {
        let now = stamps(&self.files);
        let still = now == self.last;
        self.last = now.clone();
        if now == self.read || !still {
            return false;
        }
        let loaded =
            self.origin.load().and_then(|(rules, files)| self.only_kept(&rules).map(|()| (rules, files)));
        if stamps(&self.files) != now {
            // Changed while it was read: the next look takes it up.
            return false;
        }
        self.read = now;
        match loaded {
            Ok((rules, files)) => {
                if files != self.files {
                    (self.read, self.last) = (stamps(&files), stamps(&files));
                    self.files = files;
                }
                let summary = format!("reloaded: {}", rules.allowlist.summary());
                let remark = fence_remark(&gate.rules(), &rules);
                // Whoever hears of the new rules is judged by them.
                gate.swap(rules);
                teller.tell(&summary);
                remark.into_iter().for_each(|remark| teller.tell(remark));
                true
            }
            Err(error) => {
                teller.tell(&format!("error: not reloaded, the old rules stay: {error}"));
                false
            }
        }
    }

    /// A file that the running server could change decides nothing.
    fn only_kept(&self, rules: &Rules) -> Result<(), String> {
        let new = rules.deciding.iter().filter(|file| !self.kept.contains(file));
        let open = new.into_iter().find(|file| is_open(file, &rules.policy));
        open.map_or(Ok(()), |file| {
            Err(format!("the running server may change {}; it counts from the next start on", file.display()))
        })
    }
}

/// What a change of the record means for a fence that stands.
fn fence_remark(old: &Rules, new: &Rules) -> Option<&'static str> {
    if fingerprint(&old.policy) == fingerprint(&new.policy) {
        let (old, new) = (old.policy.sections(), new.policy.sections());
        let same = old.env == new.env && old.limits == new.limits && old.listen == new.listen;
        return (!same).then_some(
            "limits, environment and ports of the running server stay as they are until its next start",
        );
    }
    let wider = new.policy.grants().iter().any(|grant| !covers(&old.policy, &grant.spec));
    Some(if wider {
        "the record grants more than the fence of the running server was built with; that takes effect at its next start"
    } else {
        "calls are judged by the narrower record from now on; the fence of the running server is narrowed at its next start"
    })
}

pub(super) fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |file: &PathBuf| {
        let meta = std::fs::metadata(file).ok()?;
        Some((meta.dev(), meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
    };
    files.iter().map(stamp).collect()
}
