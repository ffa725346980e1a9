//! Files into places: the fewest grants that a person would have written.
//!
//! Reading in the project needs no grant, because a process reads the root of the grant it runs by. New names are
//! made in a directory, so that what may be written is a directory that is there already.

use super::Learned;
use super::world::World;
use crate::capability::{Capability, Scope, ScopeKey, Spec, is_literal};
use crate::profile::PlaceSort;
use sbx_platform::path::within;
use sbx_platform::report::{Act, Verb};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// So many files of one directory are proposed one by one; more are proposed as the directory.
const FEW: usize = 3;
/// So many parts of the project are named; with more, the whole of it is proposed.
const PARTS: usize = 6;

/// Places with how many files of each were asked for.
type Counted = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

pub(super) fn learn(world: &World<'_>, acts: &[Act], learned: &mut Learned) {
    let (mut read, mut written, mut removed) = (Counted::new(), Counted::new(), Counted::new());
    let mut elsewhere: BTreeSet<PathBuf> = BTreeSet::new();
    for act in acts {
        let path = world.real(&act.path);
        if world.is_given(&path) || is_kept(world, act, &path, learned) {
            continue;
        }
        // Where nothing could be written, what was refused is what was wanted.
        let wanted =
            act.error == 0 || act.is_refused() && (world.in_project(&path) || in_cache(world, &path));
        match act.verb {
            Verb::Read | Verb::Run if act.error == 0 => note_read(world, path, &mut read),
            Verb::Write if wanted => note_change(world, act, path, &mut written, &mut elsewhere),
            Verb::Remove if wanted => note_change(world, act, path, &mut removed, &mut elsewhere),
            _ => {}
        }
    }
    propose_reads(world, &read, learned);
    propose_changes(world, Capability::FsWrite, &written, &read, learned);
    propose_changes(world, Capability::FsDelete, &removed, &read, learned);
    for path in elsewhere {
        learned.notes.push(format!(
            "{} was changed: behind the fence that is private and gone at the end",
            world.written(&path)
        ));
    }
}

/// Calls out what is never proposed; whether it is such.
fn is_kept(world: &World<'_>, act: &Act, path: &Path, learned: &mut Learned) -> bool {
    let (verb, changes) = match act.verb {
        Verb::Read => ("read", false),
        Verb::Run => ("run", false),
        Verb::Write => ("write", true),
        Verb::Remove => ("delete", true),
        Verb::Look | Verb::Made | Verb::Obeyed | Verb::Connect | Verb::Listen | Verb::Resolve => return true,
    };
    if let Some((place, known)) = world.known(path, PlaceSort::Secret) {
        if world.exists(&place) || changes {
            learned.call_out(verb, place, known.what);
        }
        return true;
    }
    if changes && let Some(protected) = world.protected(path) {
        if act.error == 0 || act.is_refused() {
            learned.call_out(verb, path.to_path_buf(), protected.why);
        }
        return true;
    }
    if act.error == 0
        && world.exists(path)
        && let Some(known) = world.private(path)
    {
        learned.call_out(verb, path.to_path_buf(), known.what);
    }
    false
}

fn in_cache(world: &World<'_>, path: &Path) -> bool {
    world.known(path, PlaceSort::Cache).is_some()
}

/// A file outside the project that was there before.
fn note_read(world: &World<'_>, path: PathBuf, read: &mut Counted) {
    // Names in a directory are looked through by many programs that need none of them.
    if world.in_project(&path) || !world.exists(&path) || world.is_dir(&path) {
        return;
    }
    let place = match world.known(&path, PlaceSort::Cache) {
        Some((place, _)) => place,
        None => path.parent().unwrap_or(&path).to_path_buf(),
    };
    read.entry(place).or_default().insert(path);
}

fn note_change(
    world: &World<'_>,
    act: &Act,
    path: PathBuf,
    changed: &mut Counted,
    elsewhere: &mut BTreeSet<PathBuf>,
) {
    if world.in_project(&path) {
        changed.entry(part(world, act, &path)).or_default().insert(path);
    } else if let Some((place, _)) = world.known(&path, PlaceSort::Cache) {
        changed.entry(place).or_default().insert(path);
    } else if world.exists(&path) {
        elsewhere.insert(path);
    }
}

/// The part of the project a change belongs to: a directory just below its root that is there already, a file
/// that is written in place, or the whole.
fn part(world: &World<'_>, act: &Act, path: &Path) -> PathBuf {
    let project = world.project();
    let first = path.strip_prefix(project).ok().and_then(|rest| rest.components().next());
    let Some(first) = first.map(|first| project.join(first)) else { return project.to_path_buf() };
    let below = first != path && world.is_dir(&first);
    let in_place = first == path && act.call == "openat" && world.exists(path) && !world.is_dir(path);
    if below || in_place { first } else { project.to_path_buf() }
}

fn propose_reads(world: &World<'_>, read: &Counted, learned: &mut Learned) {
    // Caches that lie in one directory are one grant: `~/.cargo` with `bin` and `registry`.
    let mut roots: BTreeMap<PathBuf, (BTreeSet<String>, usize)> = BTreeMap::new();
    for (place, files) in read {
        let known = world.known(place, PlaceSort::Cache).is_some();
        let whole = known || files.len() > FEW;
        let items: Vec<PathBuf> = if whole { vec![place.clone()] } else { files.iter().cloned().collect() };
        for item in items {
            let root = item.parent().filter(|root| *root != world.facts.home && root.parent().is_some());
            let (root, name) = match root {
                Some(root) => {
                    (root.to_path_buf(), item.file_name().map(|name| name.to_string_lossy().into_owned()))
                }
                None if whole => (item, None),
                None => (
                    world.facts.home.clone(),
                    item.file_name().map(|name| name.to_string_lossy().into_owned()),
                ),
            };
            let entry = roots.entry(root).or_default();
            entry.0.extend(name);
            entry.1 += files.len();
        }
    }
    for (root, (names, count)) in roots {
        let names: Vec<String> = names.into_iter().filter(|name| is_literal(name)).collect();
        let scope = Scope::bare().with_text(ScopeKey::In, world.written(&root));
        let scope = if names.is_empty() { scope } else { scope.with_list(ScopeKey::Paths, names) };
        learned.propose(Spec { capability: Capability::FsRead, scope }, counted(count, "read"));
    }
}

fn propose_changes(
    world: &World<'_>,
    capability: Capability,
    changed: &Counted,
    read: &Counted,
    learned: &mut Learned,
) {
    let word = if capability == Capability::FsDelete { "deleted or renamed" } else { "written" };
    let project = world.project();
    let parts: Vec<&PathBuf> = changed.keys().filter(|place| within(place, project)).collect();
    if !parts.is_empty() {
        let scope = Scope::bare().with_text(ScopeKey::In, world.written(project));
        let names: Vec<String> = parts
            .iter()
            .filter_map(|part| part.strip_prefix(project).ok()?.to_str().map(str::to_owned))
            .filter(|name| !name.is_empty() && is_literal(name))
            .collect();
        let few = names.len() == parts.len() && names.len() <= PARTS;
        let scope = if few { scope.with_list(ScopeKey::Paths, names) } else { scope };
        let count = parts.iter().filter_map(|part| changed.get(*part)).map(BTreeSet::len).sum();
        learned.propose(Spec { capability, scope }, counted(count, word));
    }
    // A cache that was only filled is private behind the fence; one that is used must take what is new.
    for (place, files) in
        changed.iter().filter(|(place, _)| !within(place, project) && read.contains_key(*place))
    {
        let scope = Scope::bare().with_text(ScopeKey::In, world.written(place));
        learned.propose(Spec { capability, scope }, counted(files.len(), word));
    }
}

fn counted(count: usize, done: &str) -> String {
    if count == 1 { format!("1 file was {done}") } else { format!("{count} files were {done}") }
}
