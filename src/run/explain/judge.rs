//! Whether an act failed because of the fence, and what would have let it succeed.
//!
//! Answers for telling refusals of the fence from calls that would have failed anywhere. Whether something is granted is
//! decided as for any other request.
//! Invariant: what is suggested here works on this kernel, or nothing is suggested.

use crate::capability::{Capability, Target};
use crate::decide::{Denial, Permit, Request, Subject, decide, protection};
use crate::net::Gateway;
use crate::profile::system_view;
use sbx_platform::attempt;
use sbx_platform::path::{resolve, within};
use sbx_platform::report::{Act, Verb};
use std::fs::symlink_metadata;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Private inside, whatever stands there outside.
const SCRATCH: &[&str] = &["/tmp", "/proc", "/dev", "/run", "/sys"];
/// Of these, the one where a place of the host can be shown.
const TMP: &str = "/tmp";
/// The error of a name that nothing bears.
const ENOENT: i32 = 2;
/// What is worth knowing of a name that nothing bears yet.
const UNMADE: &str =
    "it is not there yet: make it first, or grant the directory it is in to have it made inside";
/// The same of one that is to go from where everything is.
const UNTAKEN: &str =
    "a name is taken away from its directory, and nobody is advised to open a whole home: do it yourself";
/// The home inside, one or the other.
const HOMES: &[&str] = &["/home/sbx", "/run/home"];
/// Files of the system that a process sees in a version of its own.
pub(in crate::run) const MADE: &[&str] =
    &["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];
/// Calls that make, move or take away the name itself, whatever stands there.
const BY_NAME: &[&str] = &["mkdir", "mknod", "rename", "link", "symlink", "unlink", "rmdir"];

/// How little a refusal is likely to matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// It surely failed.
    Failed,
    /// It was looked for in vain.
    Missed,
    /// It was looked for in the private home.
    InHome,
    /// It would have failed without a fence too.
    Anyway,
}

/// What an act came to.
pub(super) struct Judged {
    pub(super) weight: Weight,
    pub(super) denial: Denial,
    /// Whether programs try it as a matter of course: a change of the system that the user could not make either.
    pub(super) is_usual: bool,
}

/// The denial an act comes to.
pub(super) fn judge(permit: &Permit<'_>, act: &Act) -> Option<Judged> {
    // A question for a name is sent, and then nobody is there to answer.
    if act.error == 0 && act.verb != Verb::Resolve {
        return None;
    }
    // The fence refuses, or does not show; whatever else went wrong would have gone wrong without it.
    let by_the_fence = act.is_refused() || act.error == ENOENT;
    let failed = |denial| (Weight::Failed, denial);
    let (weight, denial) = match act.verb {
        Verb::Connect | Verb::Resolve => not_reached(permit, act).map(failed),
        _ if !by_the_fence => None,
        Verb::Read => not_seen(permit, act).map(failed).or_else(|| in_home(permit, act)),
        Verb::Look => {
            not_seen(permit, act).map(|denial| (Weight::Missed, denial)).or_else(|| in_home(permit, act))
        }
        Verb::Run => not_run(permit, act).map(failed),
        Verb::Write => changed(permit, Capability::FsWrite, act).map(failed),
        Verb::Remove => changed(permit, Capability::FsDelete, act).map(failed),
        Verb::Made | Verb::Obeyed | Verb::Listen | Verb::Call => None,
    }?;
    // What was looked for in the private home is the user's own file, under its own name.
    let own = (weight == Weight::InHome).then(|| in_own_home(permit, &act.path)).flatten();
    Some(beyond(act, &own.unwrap_or_else(|| stands_at(act)), weight, denial))
}

/// A refusal, unless the user could not do it either: then that is said, and no grant is.
fn beyond(act: &Act, target: &Path, weight: Weight, mut denial: Denial) -> Judged {
    let changes = matches!(act.verb, Verb::Write | Verb::Remove);
    let asked = match act.verb {
        Verb::Read | Verb::Look => attempt::may(target, false),
        Verb::Write if symlink_metadata(target).is_ok() && !is_by_name(act) => attempt::may(target, true),
        Verb::Write | Verb::Remove => {
            directory_of(target).map_or(Ok(()), |directory| attempt::may(directory, true))
        }
        _ => Ok(()),
    };
    let Err(error) = asked else { return Judged { weight, denial, is_usual: false } };
    denial.suggested_grant = None;
    let doing = if changes { "do that" } else { "read that" };
    denial.hint = Some(format!("you cannot {doing} yourself: {error}"));
    let is_usual = changes && is_of_system(target);
    Judged { weight: Weight::Anyway, denial, is_usual }
}

fn ask(permit: &Permit<'_>, capability: Capability, asked: &Path, target: PathBuf) -> Option<Denial> {
    let request = Request::resolved_path(capability, asked.to_path_buf(), target);
    decide(permit.policy(), &request).denial().cloned()
}

/// What was looked for and not seen; also what is behind private scratch, which has a `/tmp` of its own.
fn not_seen(permit: &Permit<'_>, act: &Act) -> Option<Denial> {
    let target = resolve(&act.path).unwrap_or_else(|_| act.path.clone());
    let is_covered =
        |path: &Path| act.error == ENOENT && within(path, Path::new(TMP)) && path != Path::new(TMP);
    let is_own = |path: &Path| is_scratch(permit, path) && !is_covered(path);
    if is_own(&act.path) || is_own(&target) { None } else { hidden(permit, &act.path, target) }
}

/// A file that is there and was not seen. Programs look for many files that do not exist.
fn hidden(permit: &Permit<'_>, path: &Path, target: PathBuf) -> Option<Denial> {
    // A link is seen where it leads; those of the system lead where it likes, and programs look there as a matter of
    // course.
    let of_system = is_made(path) || is_of_system(path);
    if of_system || is_in_view(permit, &target) || symlink_metadata(&target).is_err() {
        return None;
    }
    ask(permit, Capability::FsRead, path, target)
}

/// What was looked for in the private home and is in the user's own.
fn in_home(permit: &Permit<'_>, act: &Act) -> Option<(Weight, Denial)> {
    let own = in_own_home(permit, &act.path)?;
    let target = resolve(&own).unwrap_or_else(|_| own.clone());
    Some((Weight::InHome, hidden(permit, &own, target)?))
}

/// What stands in the user's home under the name that was looked for in the private one.
fn in_own_home(permit: &Permit<'_>, path: &Path) -> Option<PathBuf> {
    let rest = HOMES.iter().find_map(|home| path.strip_prefix(home).ok())?;
    let named = !rest.as_os_str().is_empty();
    named.then(|| permit.policy().facts().home.join(rest))
}

/// Something that was not changed, made or taken away.
fn changed(permit: &Permit<'_>, capability: Capability, act: &Act) -> Option<Denial> {
    let target = stands_at(act);
    // Where nothing can be seen, nothing can be made either, and the kernel says that there is no such place.
    let out_of_view = || {
        let parent = target.parent().filter(|parent| !is_seen(permit, parent))?;
        symlink_metadata(parent).ok()
    };
    if is_scratch(permit, &act.path) || !act.is_refused() && out_of_view().is_none() {
        return None;
    }
    let there = symlink_metadata(&target).is_ok();
    if capability == Capability::FsDelete && !there {
        return None;
    }
    let denial = ask(permit, capability, &act.path, target.clone());
    if there && !is_by_name(act)
        || protection(permit.policy(), capability, &target).is_some() && denial.is_some()
    {
        return denial;
    }
    by_directory(permit, capability, &target, there, denial)
}

/// A name is made in its directory and taken away from it: what opens the name alone does not let the kernel do that.
fn by_directory(
    permit: &Permit<'_>,
    capability: Capability,
    target: &Path,
    there: bool,
    denial: Option<Denial>,
) -> Option<Denial> {
    let directory = directory_of(target)?;
    let opening = ask(permit, capability, directory, directory.to_path_buf());
    let Some(opening) = opening else { return denial };
    let wide = within(&permit.policy().facts().home, directory);
    let alone = denial.as_ref().and_then(|denial| denial.suggested_grant.clone());
    let mut denial = denial.unwrap_or_else(|| opening.clone());
    denial.suggested_grant = match (wide, capability) {
        (false, _) => opening.suggested_grant,
        (true, Capability::FsDelete) => None,
        (true, _) => alone.clone(),
    };
    let hint = match (wide, alone) {
        (true, _) if capability == Capability::FsDelete => Some(UNTAKEN.to_owned()),
        (true, Some(_)) => Some(UNMADE.to_owned()),
        (false, Some(alone)) if capability == Capability::FsWrite && !there => Some(format!(
            "a name is made in its directory; once it is there, '{alone}' is enough to change it"
        )),
        _ => None,
    };
    denial.hint = denial.hint.or(hint);
    Some(denial)
}

/// The directory of a name, or the nearest above it that is there.
fn directory_of(target: &Path) -> Option<&Path> {
    target.ancestors().skip(1).find(|above| above.is_dir())
}

fn is_by_name(act: &Act) -> bool {
    act.verb == Verb::Remove || BY_NAME.iter().any(|call| act.call.starts_with(call))
}

/// Where what an act is about really is: a link that is made, moved or taken away is not followed.
fn stands_at(act: &Act) -> PathBuf {
    let real = |path: &Path| resolve(path).unwrap_or_else(|_| path.to_path_buf());
    match (act.path.parent(), act.path.file_name()) {
        (Some(parent), Some(name)) if is_by_name(act) => real(parent).join(name),
        _ => real(&act.path),
    }
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
    let unseen = || hidden(permit, &act.path, resolve(&act.path).unwrap_or_else(|_| act.path.clone()));
    decide(permit.policy(), &request).denial().cloned().or_else(unseen)
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
    in_root || is_made(path) || is_of_system(path)
}

fn is_of_system(path: &Path) -> bool {
    system_view().any(|(place, _)| within(path, Path::new(place)))
}

fn is_made(path: &Path) -> bool {
    MADE.iter().any(|file| path == Path::new(file))
}

/// Whether a path is seen, by whichever grant.
fn is_seen(permit: &Permit<'_>, path: &Path) -> bool {
    is_in_view(permit, path) || ask(permit, Capability::FsRead, path, path.to_path_buf()).is_none()
}

/// Scratch is the process's own; a granted place that lies there is not.
fn is_scratch(permit: &Permit<'_>, path: &Path) -> bool {
    let mut granted = permit.policy().grants().iter().filter_map(|grant| grant.root.as_deref());
    SCRATCH.iter().chain(HOMES).any(|scratch| within(path, Path::new(scratch)))
        && !granted.any(|root| within(path, root))
}
