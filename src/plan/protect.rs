//! Protected paths as the platform wants them.

use super::git;
use super::host::{Host, Kind};
use super::places::Places;
use super::programs;
use crate::policy::Policy;
use crate::profile::{Opening, PROTECTED, ProtectedPath, inert_git_keys, strictest};
use sbx_platform::path::within;
use sbx_platform::plan::{InsideNew, ProtectedName, Rights};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The setting that says where the files of a repository lie: a submodule's lie outside its own.
const WORKTREE: &str = "core.worktree";

/// Keys that new repositories may have.
struct Settings {
    own: Arc<[Cow<'static, str>]>,
    modules: Arc<[Cow<'static, str>]>,
}

/// Exact paths that stay as they are: sbx's own files, the lock file that the record names, and protected names that stand right in a writable
/// place, whose permissions and times are then kept too.
pub(super) fn paths(policy: &Policy, places: &Places, host: &dyn Host) -> Vec<PathBuf> {
    let record = policy.record().map(Path::to_path_buf);
    let facts = policy.facts();
    // Whoever could change the program that holds the fence would choose the next one.
    let program = host.own_program().filter(|program| places.is_writable(program));
    let own = [facts.config_dir.clone(), facts.state_dir.clone()].into_iter().chain(record).chain(program);
    let pins = policy.lock_file().into_iter().flat_map(|file| host.way(file));
    let own = own.chain(pins.filter(|way| places.is_writable(way)));
    let own = own.chain(lent(&facts.config_dir, places, host));
    let own = own.chain(listed(policy, places, host));
    let writable = || places.iter().map(|(path, _)| path).filter(|path| places.is_writable(path));
    let standing = writable().flat_map(|place| candidates(place, host));
    let led: Vec<PathBuf> = writable().flat_map(|place| git::led_to(place, &facts.home, host)).collect();
    // A grant that names a protected path opens it, so it is not laid over.
    let opened = |path: &PathBuf| {
        places.named(Rights::WRITE).chain(places.named(Rights::REMOVE)).any(|named| within(named, path))
    };
    // Most do not exist: one look tells, and only what does is followed. What is reached through a link is kept as
    // well, where it could be written: git runs hooks wherever they lie.
    let kept = |path: PathBuf| {
        let mut ways = match host.kind(&path) {
            None => Vec::new(),
            Some(Kind::Directory) => links_in(&path, host),
            Some(Kind::Link(_)) => host.real(&path).map_or_else(Vec::new, |real| links_in(&real, host)),
            Some(Kind::File) => Vec::new(),
        };
        ways.extend(host.kind(&path).into_iter().flat_map(|_| host.way(&path)));
        ways.retain(|way| *way == path || !opened(way) && places.is_writable(way));
        ways
    };
    // Of what git is told to use it matters, too, that it does not come to be.
    let named = led.iter().filter(|path| places.is_writable(path) && !opened(path)).cloned();
    let named: Vec<PathBuf> = named.collect();
    let open = |path: &PathBuf| !opened(path);
    own.chain(standing.chain(led).filter(open).flat_map(kept)).chain(named).collect()
}

/// The most names in a protected directory that are looked at.
const MOST: usize = 256;

/// What the links in a directory lead to, and by which ways: hooks are often links to files of the project. In what is no
/// directory there are none.
fn links_in(dir: &Path, host: &dyn Host) -> Vec<PathBuf> {
    let names = host.names(dir).into_iter().take(MOST).map(|name| dir.join(name));
    let links = names.filter(|path| matches!(host.kind(path), Some(Kind::Link(_))));
    links.flat_map(|link| host.way(&link)).collect()
}

/// What listed programs come to, as far as the agent could change it: the files, there or not, every link on the way to
/// them, what interprets them and what they load. Whoever could change that would list another program.
fn listed(policy: &Policy, places: &Places, host: &dyn Host) -> Vec<PathBuf> {
    if !policy.runs_only_listed() || places.iter().all(|(path, _)| !places.is_writable(path)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for program in programs::listed(policy, places, host) {
        let parts = host.named_parts(&program).into_iter().map(|(named, ..)| named);
        found.extend(parts.chain([program]).flat_map(|path| host.way(&path)));
    }
    found.retain(|path| places.is_writable(path));
    found.sort();
    found.dedup();
    found
}

/// Files that stand elsewhere for the user's own records, tools and rules, where they lie in a writable place.
fn lent(config_dir: &Path, places: &Places, host: &dyn Host) -> Vec<PathBuf> {
    // Where there is no such directory there is nothing in it.
    if places.iter().all(|(path, _)| !places.is_writable(path)) || host.kind(config_dir).is_none() {
        return Vec::new();
    }
    let dirs = ["agents", "tools", "risk"].map(|name| config_dir.join(name));
    let inside = dirs.iter().flat_map(|dir| host.names(dir).into_iter().map(|name| dir.join(name)));
    let all = dirs.iter().cloned().chain([config_dir.join("config.yml")]).chain(inside);
    let links = all.filter(|path| matches!(host.kind(path), Some(Kind::Link(_))));
    links.flat_map(|link| host.way(&link)).filter(|way| places.is_writable(way)).collect()
}

/// Where protected names could stand right in a place. Most places hold none, which one look at their names tells.
fn candidates(place: &Path, host: &dyn Host) -> Vec<PathBuf> {
    let there = host.few_names(place);
    let may_stand = |protected: &&ProtectedPath| {
        let mut parts = protected.components();
        let first = parts.next().unwrap_or_default();
        !protected.has_wildcard()
            && there.as_ref().is_none_or(|there| there.iter().any(|name| may_be_called(name, first)))
    };
    let below = |protected: &ProtectedPath| place.join(protected.name);
    PROTECTED.iter().filter(may_stand).map(below).collect()
}

/// Whether something could be found by a name it does not bear: some file systems fold letters.
fn may_be_called(name: &OsStr, wanted: &str) -> bool {
    !name.is_ascii() || name.eq_ignore_ascii_case(wanted)
}

/// Names that stay as they are wherever they stand in a writable place, but for those a grant names.
pub(super) fn names(places: &Places) -> Arc<Vec<ProtectedName>> {
    let guarded = |right| places.named(right).filter(|path| strictest(path).is_some()).collect::<Vec<_>>();
    let (made, taken) = (guarded(Rights::WRITE), guarded(Rights::REMOVE));
    let keys = |modules: bool| -> Arc<[_]> {
        inert_git_keys().filter(|key| modules || *key != WORKTREE).map(Cow::Borrowed).collect()
    };
    let settings = Settings { own: keys(false), modules: keys(true) };
    let name = |protected: &ProtectedPath| ProtectedName {
        components: protected.components().map(|part| Cow::Borrowed(OsStr::new(part))).collect(),
        may_make: opened(&made, protected),
        may_take: opened(&taken, protected),
        inside_new: inside_new(protected, &settings),
    };
    Arc::new(PROTECTED.iter().map(name).collect())
}

/// A repository made inside the launch is the agent's own, but what git would run later stays out of it.
fn inside_new(protected: &ProtectedPath, settings: &Settings) -> InsideNew {
    match protected.name {
        ".git/hooks" | ".git/modules/**/hooks" | ".git/worktrees/*/modules/**/hooks" => {
            InsideNew::Ending(".sample".into())
        }
        ".git/config" => InsideNew::Settings(Arc::clone(&settings.own)),
        ".git/modules/**/config" | ".git/worktrees/*/modules/**/config" => {
            InsideNew::Settings(Arc::clone(&settings.modules))
        }
        ".git/worktrees/*/commondir" | ".git/worktrees/*/gitdir" => InsideNew::Anything,
        name if !name.contains('/') && protected.opening == Opening::Named => InsideNew::Anything,
        _ => InsideNew::Nothing,
    }
}

/// Those of the paths that grants name which lie below a protected name.
fn opened(named: &[&Path], protected: &ProtectedPath) -> Vec<PathBuf> {
    if protected.opening == Opening::Never {
        return Vec::new();
    }
    let below = |path: &&&Path| protected.find(path).is_some_and(|found| within(path, found));
    named.iter().filter(below).map(|path| path.to_path_buf()).collect()
}
