//! Why a fenced command failed: what it asked for that its record does not grant.
//!
//! Answers for the list of refusals that a launch came to, each told once. What was asked is told by the platform, which
//! of it the fence refused is for [`judge`] to say.

mod judge;

use crate::capability::Capability;
use crate::decide::{Denial, Permit, Request, decide, grant_command, protection};
use crate::profile::{Opening, tried_anyway};
use judge::{Judged, Weight, judge};
use sbx_platform::path::within;
use sbx_platform::report::{Act, Verb};
use serde_json::{Value, json};
use std::fmt;
use std::path::{Path, PathBuf};

pub(super) use judge::MADE;

/// The most refusals that are told; the first ones are usually the cause of the rest.
const MOST: usize = 20;
/// From so many names in one protected directory on, the directory is what is granted.
const MANY: usize = 3;

/// Something that was asked for and is not granted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// The denial, as it would be for a request.
    pub denial: Denial,
    /// The system call that asked, and the number of the error it was answered with.
    pub call: Option<(&'static str, i32)>,
    /// Whether programs try this as a matter of course, where the user could not do it either.
    pub is_usual: bool,
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        Self { denial, call: None, is_usual: false }
    }
}

impl Refusal {
    /// The denial, with the system call and the command that would allow it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut body = self.denial.to_json();
        body["call"] = json!(self.call.map(|(name, _)| name));
        body["errno"] = json!(self.call.map(|(_, number)| number));
        let spec = self.denial.suggested_grant.as_ref();
        body["command"] = json!(spec.map(|spec| grant_command(&self.denial.agent, &spec.to_string())));
        body
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.denial)?;
        match self.call {
            Some((call, error)) if !call.is_empty() && error != 0 => {
                write!(f, "\n  system call: {call}: {}", error_text(error))
            }
            _ => Ok(()),
        }
    }
}

impl Refusal {
    /// Whether it is about something in this directory.
    #[must_use]
    pub fn is_within(&self, dir: &Path) -> bool {
        self.path().is_some_and(|path| within(path, dir))
    }

    /// What it is about, where that is a path.
    fn path(&self) -> Option<&Path> {
        let at = |key: &str| self.denial.request.get(key).and_then(Value::as_str).map(Path::new);
        at("target").or_else(|| at("path"))
    }
}

/// A system call that was made and is refused to everything behind the fence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClosedCall {
    /// Its name.
    pub call: &'static str,
    /// The number of the error it was answered with.
    pub errno: i32,
    /// Why nobody gets it.
    pub why: &'static str,
    /// Whether programs make it as a matter of course, and go on without it.
    pub is_usual: bool,
}

impl ClosedCall {
    /// As told to programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "call": self.call, "errno": self.errno, "why": self.why })
    }
}

impl fmt::Display for ClosedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the system call {}: {}", self.call, error_text(self.errno))?;
        write!(f, "\n  why: {}\n  no grant opens it", self.why)
    }
}

/// The refused system calls among what was asked for, each once.
#[must_use]
pub fn closed_calls(acts: &[Act]) -> Vec<ClosedCall> {
    let mut found: Vec<ClosedCall> = Vec::new();
    for act in acts.iter().filter(|act| act.verb == Verb::Call) {
        let why = sbx_platform::refused_calls().find(|(call, _)| *call == act.call);
        let is_usual =
            act.words.first().is_some_and(|kind| tried_anyway(act.call).any(|usual| kind == usual));
        if let Some(known) = found.iter_mut().find(|known| known.call == act.call) {
            known.is_usual &= is_usual;
        } else if found.len() < MOST {
            let why = why.map_or("not needed by programs that keep to their own", |(_, why)| why);
            found.push(ClosedCall { call: act.call, errno: act.error, why, is_usual });
        }
    }
    found
}

/// What the system says of an error number.
fn error_text(number: i32) -> String {
    let told = std::io::Error::from_raw_os_error(number).to_string();
    told.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Whether everything that was asked for is known, or refusals only: what was run and not refused is known only
/// where processes are followed.
#[must_use]
pub fn is_traced(acts: &[Act]) -> bool {
    acts.iter().any(|act| act.verb == Verb::Run && !act.is_refused())
}

/// What was asked for and is not granted, each once: what surely failed first, then what was looked for in vain. All of
/// it; [`bound_refusals`] keeps what is worth telling.
#[must_use]
pub fn refused(permit: &Permit<'_>, acts: &[Act]) -> Vec<Refusal> {
    let mut found: Vec<(Weight, Refusal)> = Vec::new();
    for act in acts {
        let Some(Judged { weight, denial, is_usual }) = judge(permit, act) else { continue };
        // What one grant would allow is told once.
        let alike = |seen: &Denial| match &denial.suggested_grant {
            Some(grant) => seen.suggested_grant.as_ref() == Some(grant),
            None => seen.message == denial.message,
        };
        if !found.iter().any(|(_, seen)| alike(&seen.denial) || is_usual && seen.is_usual) {
            found.push((weight, Refusal { denial, call: Some((act.call, act.error)), is_usual }));
        }
    }
    found.sort_by_key(|(weight, _)| *weight);
    together(permit, found.into_iter().map(|(_, refusal)| refusal).collect())
}

/// Keeps the first refusals; how many more there are.
pub fn bound_refusals(refusals: &mut Vec<Refusal>) -> usize {
    let more = refusals.len().saturating_sub(MOST);
    refusals.truncate(MOST);
    more
}

/// Many names in one protected directory become the first of them, with the grant that opens the directory.
fn together(permit: &Permit<'_>, found: Vec<Refusal>) -> Vec<Refusal> {
    let places: Vec<_> = found.iter().map(|refusal| guarded(permit, refusal)).collect();
    let alike = |place: &Option<_>| places.iter().filter(|other| place.is_some() && *other == place).count();
    let mut together = Vec::new();
    for (at, (mut refusal, place)) in found.into_iter().zip(&places).enumerate() {
        let opening = place.as_ref().filter(|_| alike(place) >= MANY).and_then(|(capability, dir)| {
            let request = Request::resolved_path(*capability, dir.clone(), dir.clone());
            decide(permit.policy(), &request).denial()?.suggested_grant.clone().map(|grant| (dir, grant))
        });
        if let Some((dir, grant)) = opening {
            if places[..at].contains(place) {
                continue;
            }
            let more = alike(place) - 1;
            refusal.denial.hint =
                Some(format!("{more} more were refused in {}; the grant is for all of it", dir.display()));
            refusal.denial.suggested_grant = Some(grant);
        }
        together.push(refusal);
    }
    together
}

/// The protected directory that holds what was refused, where a grant that names it would open it.
fn guarded(permit: &Permit<'_>, refusal: &Refusal) -> Option<(Capability, PathBuf)> {
    let capability = refusal.denial.suggested_grant.as_ref()?.capability;
    let path = refusal.path()?;
    let guard = protection(permit.policy(), capability, path)?;
    (guard.opening == Opening::Named && guard.path != path).then(|| (capability, guard.path.to_path_buf()))
}

/// The denial that an act comes to which did not succeed; none when nothing that is granted would have helped.
#[must_use]
pub fn denial_of(permit: &Permit<'_>, act: &Act) -> Option<Denial> {
    judge(permit, act).map(|judged| judged.denial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_refused_call_is_told_once_with_its_reason() {
        let call =
            |call, error| Act { verb: Verb::Call, path: PathBuf::new(), call, error, words: Vec::new() };
        let found = closed_calls(&[call("ptrace", 1), call("keyctl", 1), call("ptrace", 1)]);
        assert_eq!(found.iter().map(|one| one.call).collect::<Vec<_>>(), ["ptrace", "keyctl"]);
        let said =
            "the system call ptrace: Operation not permitted\n  why: Other processes\n  no grant opens it";
        assert_eq!(found[0].to_string(), said);
    }

    #[test]
    fn a_program_that_was_only_refused_was_not_followed() {
        let run = |error| Act { verb: Verb::Run, path: "/bin/sh".into(), call: "", error, words: Vec::new() };
        assert!(!is_traced(&[]) && !is_traced(&[run(1)]));
        assert!(is_traced(&[run(1), run(0)]));
    }
}
