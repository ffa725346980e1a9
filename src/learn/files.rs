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
/// So many are named where the directory is not proposed.
const LISTED: usize = 24;
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
        Verb::Look | Verb::Made | Verb::Obeyed => return true,
        Verb::Connect | Verb::Listen | Verb::Resolve | Verb::Call => return true,
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
        && !in_cache(world, path)
        && let Some(known) = world.private(path)
    {
        learned.call_out(verb, path.to_path_buf(), known.what);
        // What is in the project is read by everything that runs there, whatever is proposed.
        return changes || !world.in_project(path);
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

/// What is proposed below one root.
#[derive(Default)]
struct Part {
    names: BTreeSet<String>,
    whole: bool,
    count: usize,
}

fn propose_reads(world: &World<'_>, read: &Counted, learned: &mut Learned) {
    // Caches that lie in one directory are one grant: `~/.cargo` with `bin` and `registry`.
    let mut roots: BTreeMap<PathBuf, Part> = BTreeMap::new();
    for (place, files) in read {
        if may_be_one(world, place, files.len()) {
            add(world, place, true, files.len(), &mut roots, learned);
        } else if files.len() > LISTED {
            learned.notes.push(format!(
                "{} files of {} were read: too many to name, and the whole of it is never proposed",
                files.len(),
                world.written(place)
            ));
        } else {
            files.iter().for_each(|file| add(world, file, false, 1, &mut roots, learned));
        }
    }
    for (root, part) in roots {
        let scope = Scope::bare().with_text(ScopeKey::In, world.written(&root));
        let scope = if part.whole { scope } else { scope.with_list(ScopeKey::Paths, part.names) };
        learned.propose(Spec { capability: Capability::FsRead, scope }, counted(part.count, "read"));
    }
}

/// Whether a directory is proposed with all that is in it.
fn may_be_one(world: &World<'_>, place: &Path, files: usize) -> bool {
    let cache = world.known(place, PlaceSort::Cache).is_some();
    cache || files > FEW && world.may_be_whole(place) && !world.holds_private(place)
}

/// Adds a file, or a directory as a whole, to what is proposed; what no grant can name is told instead.
fn add(
    world: &World<'_>,
    item: &Path,
    whole: bool,
    count: usize,
    roots: &mut BTreeMap<PathBuf, Part>,
    learned: &mut Learned,
) {
    let Some((root, name)) = item.parent().zip(item.file_name()) else { return };
    let at_top = *root == world.facts.home || root.parent().is_none();
    let name = name.to_str().filter(|name| is_literal(name));
    if item.to_str().is_none() || name.is_none() && !(whole && at_top) {
        return learned.unnamed(world, item, "read");
    }
    let part = roots.entry(if whole && at_top { item } else { root }.to_path_buf()).or_default();
    part.count += count;
    match name {
        Some(name) if !(whole && at_top) => drop(part.names.insert(name.to_owned())),
        _ => part.whole = true,
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
    if !parts.is_empty() && world.may_be_whole(project) {
        let scope = Scope::bare().with_text(ScopeKey::In, world.written(project));
        let name = |part: &Path| part.strip_prefix(project).ok()?.to_str().map(str::to_owned);
        let (named, unnamed): (Vec<&PathBuf>, Vec<&PathBuf>) =
            parts.into_iter().partition(|part| name(part).is_some_and(|name| is_literal(&name)));
        unnamed.into_iter().for_each(|part| learned.unnamed(world, part, word));
        let names: Vec<String> = named.iter().filter_map(|part| name(part)).collect();
        let count = named.iter().filter_map(|part| changed.get(*part)).map(BTreeSet::len).sum();
        let few = names.len() <= PARTS && !names.iter().any(String::is_empty);
        let nothing = names.is_empty();
        let scope = if few { scope.with_list(ScopeKey::Paths, names) } else { scope };
        if !nothing {
            learned.propose(Spec { capability, scope }, counted(count, word));
        }
    }
    // A cache that was only filled is private behind the fence; one that is used must take what is new.
    for (place, files) in
        changed.iter().filter(|(place, _)| !within(place, project) && read.contains_key(*place))
    {
        let scope = Scope::bare().with_text(ScopeKey::In, world.written(place));
        learned.propose(Spec { capability, scope }, counted(files.len(), word));
    }
}

impl Learned {
    /// Tells of something that no grant can name.
    fn unnamed(&mut self, world: &World<'_>, path: &Path, done: &str) {
        self.notes.push(format!(
            "{} was {done}: no grant can name it, and nothing wider is proposed for it",
            world.written(path)
        ));
    }
}

fn counted(count: usize, done: &str) -> String {
    if count == 1 { format!("1 file was {done}") } else { format!("{count} files were {done}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::machine::{Machine, act, specs, specs_on};

    #[test]
    fn changes_become_the_parts_of_the_project_that_are_there() {
        assert_eq!(
            specs(vec![act(Verb::Write, "/home/u/p/out/new/y", 0)]).0,
            ["fs.write{in=$PROJECT,paths=[out]}"]
        );
        assert_eq!(
            specs(vec![act(Verb::Write, "/home/u/p/README", 0)]).0,
            ["fs.write{in=$PROJECT,paths=[README]}"]
        );
        assert_eq!(specs(vec![act(Verb::Write, "/home/u/p/new/y", 0)]).0, ["fs.write{in=$PROJECT}"]);
        assert_eq!(
            specs(vec![act(Verb::Remove, "/home/u/p/out/x", 0)]).0,
            ["fs.delete{in=$PROJECT,paths=[out]}"]
        );
        assert!(specs(vec![act(Verb::Write, "/home/u/p/out/x", 2)]).0.is_empty());
        assert!(specs(vec![act(Verb::Write, "/tmp/x", 0), act(Verb::Read, "/usr/bin/git", 0)]).0.is_empty());
    }

    #[test]
    fn what_is_secret_or_protected_is_called_out_and_never_granted() {
        let (grants, learned) = specs(vec![
            act(Verb::Read, "/home/u/.ssh/id", 13),
            act(Verb::Write, "/home/u/p/.git/hooks/x", 0),
            act(Verb::Read, "/home/u/p/.env", 0),
            act(Verb::Read, "/home/u/.netrc", 2),
        ]);
        assert!(grants.is_empty(), "{grants:?}");
        let called: Vec<&str> =
            learned.called_out.iter().map(|called| called.path.to_str().unwrap()).collect();
        assert_eq!(called, ["/home/u/.ssh", "/home/u/p/.git/hooks/x", "/home/u/p/.env"]);
    }

    #[test]
    fn a_cache_is_shared_when_it_was_used_and_private_when_it_was_only_filled() {
        let write = act(Verb::Write, "/home/u/.cargo/registry/b", 0);
        assert!(specs(vec![write.clone()]).0.is_empty());
        let read = act(Verb::Read, "/home/u/.cargo/registry/a", 0);
        assert_eq!(
            specs(vec![read, write]).0,
            ["fs.write{in=~/.cargo/registry}", "fs.read{in=~/.cargo,paths=[registry]}"]
        );
        assert_eq!(
            specs(vec![act(Verb::Read, "/home/u/.gitconfig", 0)]).0,
            ["fs.read{in=~,paths=[.gitconfig]}"]
        );
        assert_eq!(
            specs(vec![act(Verb::Read, "/home/u/.config/tool/one", 0)]).0,
            ["fs.read{in=~/.config/tool,paths=[one]}"]
        );
    }

    /// Reading these files, all of them there, in a project beside them.
    fn reading(files: &[&'static str]) -> (Vec<String>, Learned) {
        let machine = Machine::of(files);
        specs_on(&machine, "/home/u/p", files.iter().map(|file| act(Verb::Read, file, 0)).collect())
    }

    #[test]
    fn a_directory_with_nothing_private_in_it_is_proposed_as_one() {
        let four = ["/home/u/data/a", "/home/u/data/b", "/home/u/data/c", "/home/u/data/d"];
        assert_eq!(reading(&four).0, ["fs.read{in=~/data}"]);
        let (grants, learned) =
            reading(&[&four[..], &["/home/u/data/deep/er/.env", "/home/u/data/e"]].concat());
        assert_eq!(grants, ["fs.read{in=~/data,paths=[a,b,c,d,e]}"]);
        assert_eq!(learned.called_out[0].path, Path::new("/home/u/data/deep/er/.env"));
    }

    #[test]
    fn neither_the_home_nor_what_holds_secrets_is_ever_one_grant() {
        let (grants, _) = reading(&["/home/u/.a", "/home/u/.b", "/home/u/.c", "/home/u/.d", "/home/u/.e"]);
        assert_eq!(grants, ["fs.read{in=~,paths=[.a,.b,.c,.d,.e]}"]);
        let config = ["/home/u/.config/a", "/home/u/.config/b", "/home/u/.config/c", "/home/u/.config/d"];
        assert_eq!(reading(&config).0, ["fs.read{in=~/.config,paths=[a,b,c,d]}"]);
        assert_eq!(
            reading(&["/home/a", "/home/b", "/home/c", "/home/d"]).0,
            ["fs.read{in=/home,paths=[a,b,c,d]}"]
        );
        let names: Vec<&'static str> =
            (0..=LISTED).map(|number| &*format!("/home/u/.file{number}").leak()).collect();
        let (grants, learned) = reading(&names);
        assert!(grants.is_empty() && learned.notes[0].starts_with("25 files of ~ were read"), "{learned:?}");
    }

    #[test]
    fn what_a_grant_cannot_name_is_told_and_nothing_wider_is_proposed() {
        let (grants, learned) = reading(&["/home/u/data/a*b", "/home/u/x?"]);
        assert!(grants.is_empty() && learned.notes.len() == 2, "{learned:?}");
        assert_eq!(reading(&["/home/u/data/a*b", "/home/u/data/c"]).0, ["fs.read{in=~/data,paths=[c]}"]);
        let machine = Machine::of(&["/home/u/p/a*/x", "/home/u/p/out/x"]);
        let write = |path: &str| act(Verb::Write, path, 0);
        let (grants, learned) = specs_on(&machine, "/home/u/p", vec![write("/home/u/p/a*/x")]);
        assert!(grants.is_empty() && learned.notes.len() == 1, "{learned:?}");
        let both = vec![write("/home/u/p/a*/x"), write("/home/u/p/out/x")];
        assert_eq!(specs_on(&machine, "/home/u/p", both).0, ["fs.write{in=$PROJECT,paths=[out]}"]);
    }

    #[test]
    fn private_names_outside_the_project_are_called_out_and_not_granted() {
        let (grants, learned) = reading(&["/home/u/other/.env", "/srv/keys/id_rsa"]);
        assert!(grants.is_empty(), "{grants:?}");
        assert_eq!(learned.called_out.len(), 2, "{learned:?}");
        let machine = Machine::of(&["/home/u/p/.env"]);
        let (grants, learned) = specs_on(&machine, "/home/u/p", vec![act(Verb::Write, "/home/u/p/.env", 0)]);
        assert!(grants.is_empty() && learned.called_out.len() == 1, "{grants:?} {learned:?}");
    }

    #[test]
    fn a_command_in_the_home_directory_is_proposed_nothing_there() {
        let acts = vec![act(Verb::Run, "/usr/bin/git", 0), act(Verb::Write, "/home/u/x/y", 0)];
        let machine = Machine::of(&["/usr/bin/git", "/home/u/x/z", "/home/u/.ssh/id"]);
        let (grants, learned) = specs_on(&machine, "/home/u", acts);
        assert!(grants.is_empty(), "{grants:?}");
        assert!(learned.notes[0].contains("in a directory of its own"), "{learned:?}");
    }
}
