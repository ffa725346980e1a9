//! Why a fenced command failed: what it asked for that its record does not grant.
//!
//! Answers for telling refusals of the fence from calls that would have failed anywhere. What was asked is told by
//! the platform, whether it is granted is decided as for any other request.

use crate::capability::{Capability, Target};
use crate::decide::{Denial, Permit, Request, Subject, decide, grant_command, protection};
use crate::net::Gateway;
use crate::profile::system_view;
use sbx_platform::path::{resolve, within};
use sbx_platform::report::{Act, Verb};
use serde_json::{Value, json};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The most refusals that are told; the first ones are usually the cause of the rest.
const MOST: usize = 20;
/// Private inside, whatever stands there outside.
const SCRATCH: &[&str] = &["/tmp", "/proc", "/dev", "/run", "/sys"];
/// Of these, the one where a place of the host can be shown.
const TMP: &str = "/tmp";
/// The error of a name that nothing bears.
const ENOENT: i32 = 2;
/// What is worth knowing of a name that nothing bears yet.
const UNMADE: &str =
    "it is not there yet: make it first, or grant the directory it is in to have it made inside";
/// The home inside, one or the other.
const HOMES: &[&str] = &["/home/sbx", "/run/home"];
/// Files of the system that a process sees in a version of its own.
pub(super) const MADE: &[&str] =
    &["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];

/// Something that was asked for and is not granted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// The denial, as it would be for a request.
    pub denial: Denial,
    /// The system call that asked, and the number of the error it was answered with.
    pub call: Option<(&'static str, i32)>,
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        Self { denial, call: None }
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
        if found.len() < MOST && found.iter().all(|known| known.call != act.call) {
            let why = why.map_or("not needed by programs that keep to their own", |(_, why)| why);
            found.push(ClosedCall { call: act.call, errno: act.error, why });
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

/// What was asked for and is not granted, each once: what surely failed first, then what was looked for in vain.
#[must_use]
pub fn refused(permit: &Permit<'_>, acts: &[Act]) -> Vec<Refusal> {
    let mut found: Vec<(u8, Refusal)> = Vec::new();
    for act in acts {
        let Some((weight, denial)) = judge(permit, act) else { continue };
        // What one grant would allow is told once.
        let alike = |seen: &Denial| match &denial.suggested_grant {
            Some(grant) => seen.suggested_grant.as_ref() == Some(grant),
            None => seen.message == denial.message,
        };
        if !found.iter().any(|(_, seen)| alike(&seen.denial)) {
            found.push((weight, Refusal { denial, call: Some((act.call, act.error)) }));
        }
    }
    found.sort_by_key(|(weight, _)| *weight);
    found.into_iter().map(|(_, refusal)| refusal).take(MOST).collect()
}

/// The denial that an act comes to which did not succeed; none when nothing that is granted would have helped.
#[must_use]
pub fn denial_of(permit: &Permit<'_>, act: &Act) -> Option<Denial> {
    judge(permit, act).map(|(_, denial)| denial)
}

/// The denial an act comes to, and how little it is likely to matter.
fn judge(permit: &Permit<'_>, act: &Act) -> Option<(u8, Denial)> {
    // A question for a name is sent, and then nobody is there to answer.
    if act.error == 0 && act.verb != Verb::Resolve {
        return None;
    }
    match act.verb {
        Verb::Read => not_seen(permit, act).map(|denial| (0, denial)).or_else(|| in_home(permit, act)),
        Verb::Look => not_seen(permit, act).map(|denial| (1, denial)).or_else(|| in_home(permit, act)),
        Verb::Run => not_run(permit, act).map(|denial| (0, denial)),
        Verb::Write => changed(permit, Capability::FsWrite, act).map(|denial| (0, denial)),
        Verb::Remove => changed(permit, Capability::FsDelete, act).map(|denial| (0, denial)),
        Verb::Connect | Verb::Resolve => not_reached(permit, act).map(|denial| (0, denial)),
        Verb::Made | Verb::Obeyed | Verb::Listen | Verb::Call => None,
    }
}

fn ask(permit: &Permit<'_>, capability: Capability, asked: &Path, target: PathBuf) -> Option<Denial> {
    let request = Request::resolved_path(capability, asked.to_path_buf(), target);
    decide(permit.policy(), &request).denial().cloned()
}

/// What was looked for and not seen; also what is behind private scratch, which has a `/tmp` of its own.
fn not_seen(permit: &Permit<'_>, act: &Act) -> Option<Denial> {
    let covered = act.error == ENOENT && within(&act.path, Path::new(TMP)) && act.path != Path::new(TMP);
    if covered || !is_scratch(permit, &act.path) { hidden(permit, &act.path) } else { None }
}

/// A file that is there and was not seen. Programs look for many files that do not exist.
fn hidden(permit: &Permit<'_>, path: &Path) -> Option<Denial> {
    let target = resolve(path).unwrap_or_else(|_| path.to_path_buf());
    let seen = is_in_view(permit, path) || is_in_view(permit, &target);
    if seen || std::fs::symlink_metadata(&target).is_err() {
        return None;
    }
    ask(permit, Capability::FsRead, path, target)
}

/// What was looked for in the private home and is in the user's own.
fn in_home(permit: &Permit<'_>, act: &Act) -> Option<(u8, Denial)> {
    let rest = HOMES.iter().find_map(|home| act.path.strip_prefix(home).ok())?;
    let named = !rest.as_os_str().is_empty();
    let own = permit.policy().facts().home.join(rest);
    let denial = named.then(|| hidden(permit, &own)).flatten()?;
    Some((2, denial))
}

fn changed(permit: &Permit<'_>, capability: Capability, act: &Act) -> Option<Denial> {
    let target = resolve(&act.path).unwrap_or_else(|_| act.path.clone());
    // Where nothing can be seen, nothing can be made either, and the kernel says that there is no such place.
    let out_of_view = || {
        let parent = target.parent().filter(|parent| !is_in_view(permit, parent))?;
        std::fs::symlink_metadata(parent).ok()
    };
    if is_scratch(permit, &act.path) || !act.is_refused() && out_of_view().is_none() {
        return None;
    }
    let missing = capability == Capability::FsWrite
        && std::fs::symlink_metadata(&target).is_err()
        && protection(permit.policy(), capability, &target).is_none();
    ask(permit, capability, &act.path, target).map(|mut denial| {
        if missing && denial.suggested_grant.is_some() {
            denial.hint.get_or_insert_with(|| UNMADE.to_owned());
        }
        denial
    })
}

/// A program that is there and was not run: not granted, or not seen.
fn not_run(permit: &Permit<'_>, act: &Act) -> Option<Denial> {
    if is_scratch(permit, &act.path) || std::fs::metadata(&act.path).is_err() {
        return None;
    }
    let cwd = match permit.request().subject() {
        Subject::Command { cwd, .. } | Subject::Shell { cwd, .. } => cwd.clone(),
        _ => None,
    };
    let name = act.words.first().filter(|word| !word.as_encoded_bytes().contains(&b'/'));
    let named = name.filter(|name| act.path.file_name() == Some(name.as_os_str()));
    let program = named.cloned().unwrap_or_else(|| act.path.clone().into());
    let request = Request::exec(std::iter::once(program).chain(act.words.iter().skip(1).cloned()));
    let request =
        cwd.or_else(|| permit.grant().root.clone()).map_or(request.clone(), |cwd| request.in_dir(cwd));
    decide(permit.policy(), &request).denial().cloned().or_else(|| hidden(permit, &act.path))
}

/// Where there is a network, its gateway tells by itself what it refuses; but ports of this machine that are not
/// granted are never led to it.
fn not_reached(permit: &Permit<'_>, act: &Act) -> Option<Denial> {
    let object = act.path.to_str()?;
    let address = object.parse::<SocketAddr>().ok();
    let asks_resolver = address.is_some_and(|address| address.port() == 53);
    let own = address.is_some_and(|address| address.ip().is_loopback());
    // A command that looks for a service of its own finds none where there is none outside either.
    let missed = own && act.verb == Verb::Connect && address.is_some_and(|address| listens(address.port()));
    if object.starts_with('/') || asks_resolver || !missed && (own || Gateway::is_needed(permit.policy())) {
        return None;
    }
    let request = Request::target(Capability::NetGet, Target::parse(object));
    decide(permit.policy(), &request).denial().cloned()
}

/// Whether something on this machine listens on a port.
fn listens(port: u16) -> bool {
    const LISTENING: &str = "0A";
    let at = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let local =
            words.next()?.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok())?;
        (words.nth(1)? == LISTENING).then_some(local)
    };
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        text.lines().skip(1).filter_map(at).any(|local| local == port)
    })
}

/// Whether a path is part of the process view beside the agent's own grants.
fn is_in_view(permit: &Permit<'_>, path: &Path) -> bool {
    let in_root = permit.grant().root.as_deref().is_some_and(|root| within(path, root));
    let made = MADE.iter().any(|file| path == Path::new(file));
    in_root || made || system_view().any(|(place, _)| within(path, Path::new(place)))
}

/// Scratch is the process's own; a granted place that lies there is not.
fn is_scratch(permit: &Permit<'_>, path: &Path) -> bool {
    let mut granted = permit.policy().grants().iter().filter_map(|grant| grant.root.as_deref());
    SCRATCH.iter().chain(HOMES).any(|scratch| within(path, Path::new(scratch)))
        && !granted.any(|root| within(path, root))
}

#[cfg(test)]
mod tests {
    use super::*;

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
