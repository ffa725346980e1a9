//! A plan as a Seatbelt profile.
//!
//! Answers for saying in the kernel's terms what the plan says: who may read, change, take away, load and execute
//! what, and the one port of a proxy. Pure, and the same on every system. It leaves running it to the launcher.
//! Invariant: a profile only ever allows what the plan's rights, its private directories and the shipped rules
//! allow; carve-outs are part of the rule they belong to, so no rule can undo another.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub use super::sbpl::Profile;

use super::base;
use super::in_place::{self, InPlace};
use super::protect::{self, Change};
use super::sbpl::{self, Filter, Rule, bad};
use crate::error::PlatformError;
use crate::path::within;
use crate::plan::{Exec, Network, Place, Plan, Rights, UnixSockets};

/// What a launch has made for the command before its profile is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// For each private file system of the plan, the directory that stands for it, links followed.
    pub scratch: Vec<(PathBuf, PathBuf)>,
    /// The loopback port of the proxy, where the plan has doors.
    pub proxy: Option<u16>,
    /// The private terminal the command gets.
    pub terminal: Option<PathBuf>,
    /// What every denial is marked with in the system's log.
    pub tag: String,
}

const READ: &[&str] = &["file-read-data", "file-read-metadata", "file-read-xattr"];
/// Making and writing, without setting user or group on execution, which no right gives.
const WRITE: &[&str] = &[
    "file-write-create",
    "file-write-data",
    "file-write-mode",
    "file-write-owner",
    "file-write-flags",
    "file-write-times",
    "file-write-xattr",
];
const LINKED: [&str; 3] = ["tmp", "var", "etc"];

/// The private file systems that need a directory to stand for them.
#[must_use]
pub fn wanted_scratch(plan: &Plan) -> Vec<PathBuf> {
    in_place::wanted(plan)
}

/// The variables of a plan as they are to be set.
#[must_use]
pub fn environment(
    plan: &Plan,
    surroundings: &Surroundings,
) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    in_place::environment(plan, &surroundings.scratch)
}

/// The text of the profile that would hold a command to `plan`, with names in place of private directories yet to be made.
///
/// # Errors
/// As for [`profile`].
pub fn explain(plan: &Plan) -> Result<String, PlatformError> {
    let own = |(number, dest)| (dest, PathBuf::from(format!("/private/tmp/sbx-scratch/{number}")));
    let scratch = wanted_scratch(plan).into_iter().enumerate().map(own).collect();
    let surroundings = Surroundings { scratch, tag: String::from("sbx"), ..Surroundings::default() };
    profile(plan, &surroundings).map(|profile| profile.text)
}

/// The profile that holds a command to `plan`.
///
/// # Errors
/// When a path cannot be written into a profile, or the plan asks for something Seatbelt cannot express.
pub fn profile(plan: &Plan, surroundings: &Surroundings) -> Result<Profile, PlatformError> {
    let found = in_place::in_place(plan, &surroundings.scratch);
    check(plan, surroundings, &found)?;
    let mut rules = base::rules()?;
    let mut add = |why: &str, operations: &[&'static str], filters: Vec<Filter>| {
        if !filters.is_empty() {
            rules.push(Rule { why: why.to_owned(), operations: operations.to_vec(), filters });
        }
    };
    add("the way to every place, and links on it", &["file-read-metadata"], ways(plan, &found));
    for (why, place_list, guarded) in
        [("places of the plan", &found.places, true), ("private to the launch", &found.private, false)]
    {
        let with = |right| having(place_list, right);
        let hidden = found.hidden.iter().flat_map(|path| spellings(path));
        let hidden: Vec<Filter> = hidden.map(|path| protect::below(&path)).collect();
        let seen = |paths: &[PathBuf]| subpaths(paths, if guarded { &hidden } else { &[] });
        add(&format!("{why}: read"), READ, seen(&with(Rights::READ)));
        add(&format!("{why}: known, not read"), &["file-read-metadata"], seen(&unread(place_list)));
        for (word, right, operations, change) in [
            ("make and write", Rights::WRITE, WRITE, Change::Make),
            ("take away", Rights::REMOVE, &["file-write-unlink"], Change::Take),
        ] {
            // Moving is taking away: what may not be read could be moved to where it may.
            let paths =
                if change == Change::Take { meet(&with(right), &with(Rights::READ)) } else { with(right) };
            let kept = if guarded { protect::kept(plan, &found.hidden, &paths, change)? } else { Vec::new() };
            let anchored = paths.iter().flat_map(|path| spellings(path)).map(Filter::Literal);
            let kept =
                kept.into_iter().chain((change == Change::Take).then_some(anchored).into_iter().flatten());
            let any = any(subpaths(&paths, &[]));
            add(
                &format!("{why}: {word}"),
                operations,
                any.map(|any| any.without(kept)).into_iter().collect(),
            );
        }
        add(&format!("{why}: write to what is there"), &["file-write-data"], seen(&with(Rights::MODIFY)));
        add(&format!("{why}: control devices"), &["file-ioctl"], seen(&with(Rights::CONTROL)));
        let runs = with(Rights::EXECUTE);
        let runs = match plan.exec {
            Exec::Open => seen(&runs),
            Exec::Listed => runs.iter().flat_map(|path| spellings(path)).map(Filter::Literal).collect(),
        };
        add(&format!("{why}: execute"), &["process-exec"], runs);
    }
    add("load code", &["file-map-executable"], subpaths(&found.code, &[]));
    if let Some(terminal) = &surroundings.terminal {
        let own = vec![Filter::Literal(terminal.clone())];
        let operations = ["file-read-data", "file-read-metadata", "file-write-data", "file-ioctl"];
        add("the terminal of this launch", &operations, own);
    }
    if let Some(port) = surroundings.proxy {
        let filter = Filter::Quoted("remote ip", format!("localhost:{port}"));
        add("the proxy, which decides by name; nothing else", &["network-outbound"], vec![filter]);
    }
    if plan.unix_sockets == UnixSockets::Allowed {
        add(
            "sockets in private directories",
            &["system-socket"],
            vec![Filter::Bare("socket-domain", "AF_UNIX")],
        );
        for (operation, end) in [("network-bind", "local"), ("network-outbound", "remote")] {
            let own = found.private.iter().flat_map(|place| spellings(&place.path));
            let filters = own.map(|path| Filter::Socket(end, path)).collect();
            add("sockets in private directories", &[operation], filters);
        }
    }
    sbpl::write(&rules, &surroundings.tag)
}

/// Refuses what could only be held by holding something else.
fn check(plan: &Plan, surroundings: &Surroundings, found: &InPlace) -> Result<(), PlatformError> {
    let doors = matches!(plan.network, Network::Gateway(_));
    if doors != surroundings.proxy.is_some() {
        return Err(bad("a network with doors needs the port of a proxy, and only it".to_owned()));
    }
    let lists = |place: &&Place| place.rights.contains(Rights::LIST) && !place.rights.contains(Rights::READ);
    if let Some(place) = found.places.iter().chain(&found.private).find(lists) {
        let path = place.path.display();
        return Err(bad(format!("{path} may be listed but not read, which Seatbelt cannot tell apart")));
    }
    if let Some(place) = found.places.iter().find(|place| place.path == Path::new("/")) {
        return Err(bad(format!("rights {:?} on the whole machine", place.rights)));
    }
    Ok(())
}

/// A path in every spelling that leads to the same file: three directories at the top are links.
pub(super) fn spellings(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let twin = LINKED.iter().find_map(|name| {
        let (short, long) = (Path::new("/").join(name), Path::new("/private").join(name));
        let other = |from: &Path, to: &Path| {
            let rest = path.strip_prefix(from).ok()?;
            Some(if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) })
        };
        other(&short, &long).or_else(|| other(&long, &short))
    });
    std::iter::once(path.to_path_buf()).chain(twin)
}

/// Every path above a place, so that it can be walked to, and the links of the plan.
fn ways(plan: &Plan, found: &InPlace) -> Vec<Filter> {
    let places = found.places.iter().chain(&found.private).map(|place| place.path.as_path());
    let ends = places
        .chain([plan.cwd.as_path(), plan.program.as_path()])
        .chain(found.links.iter().map(PathBuf::as_path));
    let above: BTreeSet<PathBuf> =
        ends.flat_map(|path| path.ancestors().skip(1)).flat_map(spellings).collect();
    let links = found.links.iter().flat_map(|link| spellings(link));
    let all: BTreeSet<PathBuf> = above.into_iter().chain(links).collect();
    let hidden = |path: &PathBuf| found.hidden.iter().any(|hidden| within(path, hidden));
    all.into_iter().filter(|path| path != Path::new("/") && !hidden(path)).map(Filter::Literal).collect()
}

/// The places with a right.
fn having(places: &[Place], right: Rights) -> Vec<PathBuf> {
    let with: BTreeSet<&PathBuf> =
        places.iter().filter(|place| place.rights.contains(right)).map(|place| &place.path).collect();
    // What lies in another place with the same right adds nothing.
    let alone = |path: &&&PathBuf| !with.iter().any(|other| other != *path && within(path, other));
    with.iter().filter(alone).map(|path| (*path).clone()).collect()
}

/// What lies in a place of both lists.
fn meet(some: &[PathBuf], others: &[PathBuf]) -> Vec<PathBuf> {
    let inside = |a: &[PathBuf], b: &[PathBuf]| -> Vec<PathBuf> {
        a.iter().filter(|path| b.iter().any(|place| within(path, place))).cloned().collect()
    };
    let both: BTreeSet<PathBuf> = inside(some, others).into_iter().chain(inside(others, some)).collect();
    both.into_iter().collect()
}

/// Places that may be used in some way but not read.
fn unread(places: &[Place]) -> Vec<PathBuf> {
    let read = having(places, Rights::READ);
    let unread = places.iter().map(|place| &place.path).filter(|path| !read.iter().any(|r| within(path, r)));
    unread.cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

/// The paths and all below them, without some.
fn subpaths(paths: &[PathBuf], without: &[Filter]) -> Vec<Filter> {
    let every = paths.iter().flat_map(|path| spellings(path)).map(Filter::Subpath);
    match any(every.collect()) {
        Some(any) if !without.is_empty() => vec![any.without(without.iter().cloned())],
        Some(Filter::Any(parts)) => parts,
        Some(one) => vec![one],
        None => Vec::new(),
    }
}

fn any(mut filters: Vec<Filter>) -> Option<Filter> {
    match filters.len() {
        0 => None,
        1 => filters.pop(),
        _ => Some(Filter::Any(filters)),
    }
}
