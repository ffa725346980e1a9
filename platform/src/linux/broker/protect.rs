//! Which paths the broker guards.
//!
//! Answers for the question "may this name be made, changed or taken away?" on full paths. It leaves finding
//! the path to [`super::resolve`].
//! Invariant: a protected path cannot come to be by another way: not below itself, not by making something
//! else than a directory where one of its ancestors is expected, not by moving an ancestor.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::places::{Places, leads_to};
use super::reach::{Reach, is_inside_stars, parts_of, reach};
use crate::fold::{folded, within_folded};
use crate::linux::sources::writable_bind;
use crate::linux::sys::fd;
use crate::plan::{Access, InsideNew, MountOp, Plan, ProtectedName};
use crate::report::Verb;

/// The guarded paths and names, as seen inside.
#[derive(Debug)]
pub(crate) struct Protected {
    paths: Vec<PathBuf>,
    names: Arc<Vec<ProtectedName>>,
    /// Which names start with this part; found out when first asked, beside the running command.
    by_first: OnceCell<HashMap<OsString, Vec<usize>>>,
    /// What the places allow in which all that lies.
    places: Places,
    /// Paths that are open although their names are protected: what leads to them stays where it is.
    opened: BTreeSet<PathBuf>,
    /// The pipe that is the command's input and not its output too, as device and number.
    input: Option<(u64, u64)>,
    proc: PathBuf,
}

/// What is about to happen to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A plain file is made, or written.
    Write,
    /// It is made in another way: moved there, linked, or something else than a plain file.
    Make,
    /// It is taken away.
    Take,
    /// It is taken away with nothing protected below it: a plain file, or a directory that was looked through.
    Leave,
}

impl Change {
    /// Whether the name is gone afterwards.
    pub(super) const fn takes(self) -> bool {
        matches!(self, Self::Take | Self::Leave)
    }
}

/// Whether the launch itself made the directory in which the name stands; asked only where it matters.
pub(super) type Whose<'w> = &'w dyn Fn() -> bool;

/// What stands where a project begins: a repository, or a file that leads to one.
const MARK: &str = ".git";

/// How a path relates to a protected name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation<'n> {
    /// It is the name, or lies below it.
    Within,
    /// It is the beginning of a name of several parts.
    Above,
    /// It is the beginning of such a name, in a directory that the launch made itself.
    AboveNew,
    /// It is, or lies below, a name in a directory that the launch made itself.
    New(&'n InsideNew),
}

impl Protected {
    /// The protected paths and names of `plan` that lie in writable places; `None` if there are none.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let mut paths = BTreeSet::new();
        for path in &plan.protect {
            // What is hidden, or laid over read-only, is guarded too: what leads to it could be moved away.
            let bind = path.ancestors().find_map(|above| writable_bind(plan, above));
            let Some((source, dest)) = bind else { continue };
            let Ok(below) = path.strip_prefix(dest) else { continue };
            paths.extend(aliases(plan, &source.join(below)));
        }
        let places = Places::of(plan);
        let names = if places.is_lasting() { Arc::clone(&plan.protect_names) } else { Arc::default() };
        let proc = plan.mounts.iter().find_map(|op| match op {
            MountOp::Proc { dest } => Some(dest.clone()),
            _ => None,
        });
        let proc = proc.unwrap_or_else(|| PathBuf::from("/proc"));
        let any = !paths.is_empty() || !names.is_empty() || places.hold_more_than_the_kernel();
        let opened =
            names.iter().flat_map(|name| name.may_make.iter().chain(&name.may_take)).cloned().collect();
        let (paths, by_first, input) = (paths.into_iter().collect(), OnceCell::new(), None);
        any.then_some(Self { paths, names, by_first, places, opened, input, proc })
    }

    /// The same for a command with these descriptors as its input and outputs.
    pub(crate) fn with_stdio(self, stdio: &[OwnedFd; 3]) -> Self {
        let id = |file: &OwnedFd| fd::stat(file.as_raw_fd()).ok().map(|found| (found.st_dev, found.st_ino));
        let [input, output, errors] = [id(&stdio[0]), id(&stdio[1]), id(&stdio[2])];
        Self { input: input.filter(|_| input != output && input != errors), ..self }
    }

    /// Whether this is the command's input, from which others may read too.
    pub(super) fn is_input(&self, found: &libc::stat) -> bool {
        self.input == Some((found.st_dev, found.st_ino))
    }

    /// Whether removing names has to be watched too: names that may stand anywhere cannot all be covered by
    /// read-only mounts, and rights of a private place must not reach into others.
    pub(crate) fn watches_removal(&self) -> bool {
        !self.names.is_empty() || self.places.hold_rights()
    }

    /// Whether changes of times have to be watched: no rule of the kernel's refuses them.
    pub(crate) fn watches_times(&self) -> bool {
        self.places.have_unwritten()
    }

    /// What is to be told of something made at `path`, if anything is. Protected names of several parts may start with
    /// its last part, or one that may hold anything when new end with it; or it is a protected name itself, in a
    /// directory that is new. What is gone at the end of the launch is not worth a word.
    pub(super) fn tells(&self, path: &Path, own: Whose<'_>) -> Option<Verb> {
        let last = folded(path.file_name()?);
        let several = |name: &ProtectedName| name.components.len() > 1;
        let free = |name: &&ProtectedName| name.inside_new == InsideNew::Anything;
        let starts = self.starting_with(&last).any(several);
        let ends =
            |name: &ProtectedName| several(name) && name.components.last().is_some_and(|part| *part == last);
        let verb = if starts || self.names.iter().filter(free).any(ends) {
            Verb::Made
        } else if self.starting_with(&last).any(|name| free(&name)) && own() {
            Verb::Obeyed
        } else {
            return None;
        };
        self.places.is_lasting_at(path).then_some(verb)
    }

    /// What the places allow in which all that lies.
    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// Whether rights are held here that the kernel's own rules would lend too widely.
    pub(crate) fn holds_rights(&self) -> bool {
        self.places.hold_rights()
    }

    /// Where the process list is.
    pub(super) fn proc(&self) -> &Path {
        &self.proc
    }

    /// Whether a directory with all it holds, or a link, may come to `path` or leave it: not where protected names
    /// lie at some depth below, for what it holds is not looked at.
    pub(super) fn allows_tree(&self, path: &Path) -> bool {
        if self.places.is_private_at(path) {
            return true;
        }
        let parts = parts_of(path);
        let deep = |at: usize| self.starting_with(&parts[at]).any(|name| is_inside_stars(name, &parts[at..]));
        !(0..parts.len()).any(deep)
    }

    /// Whether `path` lies in a guarded one, or `above` it too: whatever the letters, because some file systems do
    /// not tell them apart, and not all of those keep what is laid over a name under its other spellings.
    fn keeps(&self, path: &Path, above: bool) -> bool {
        self.paths.iter().any(|kept| within_folded(path, kept) || above && within_folded(kept, path))
    }

    /// Whether a directory may be made, or an empty one taken away, at `path`.
    pub(super) fn allows_directory(&self, path: &Path, own: Whose<'_>, change: Change) -> bool {
        let refused = |relation| match relation {
            Relation::Above | Relation::AboveNew => false,
            Relation::New(_) if change.takes() => false,
            Relation::New(InsideNew::Ending(_) | InsideNew::Anything) => false,
            Relation::Within | Relation::New(InsideNew::Nothing | InsideNew::Settings(_)) => true,
        };
        !self.keeps(path, false)
            && !self.names_at(path, own, change).into_iter().any(refused)
            && self.places.allow(path, change)
    }

    /// Whether anything else than a directory may be made, written or taken away at `path`.
    pub(super) fn allows_change(&self, path: &Path, own: Whose<'_>, change: Change) -> bool {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let refused = |relation| match relation {
            // What the launch made itself it may take away.
            Relation::AboveNew | Relation::New(_) if change.takes() => false,
            Relation::Above if change == Change::Leave => is_mark(path),
            Relation::New(InsideNew::Ending(ending)) => !name.ends_with(ending.as_encoded_bytes()),
            Relation::New(InsideNew::Anything) => false,
            // What is moved or linked there could hold anything already.
            Relation::AboveNew => change == Change::Make,
            Relation::Above
            | Relation::Within
            | Relation::New(InsideNew::Nothing | InsideNew::Settings(_)) => true,
        };
        !self.keeps(path, true)
            && !self.names_at(path, own, change).into_iter().any(refused)
            && (change == Change::Write || !self.opened.iter().any(|open| leads_to(path, open)))
            && self.places.allow(path, change)
    }

    /// Whether the permissions of what lies at `path` may be changed: not those of what was there before, and
    /// freely in what the launch made itself, whose content is looked at anyway.
    pub(super) fn allows_mode(&self, path: &Path, own: Whose<'_>) -> bool {
        let refused = |relation| match relation {
            Relation::Within => true,
            Relation::Above | Relation::AboveNew | Relation::New(_) => false,
        };
        !self.keeps(path, false)
            && !self.names_at(path, own, Change::Write).into_iter().any(refused)
            && self.places.allow(path, Change::Write)
            && !self.places.is_unwritten(path)
    }

    /// The keys to which the file that is about to be renamed to `path` must keep.
    pub(super) fn settings_at(&self, path: &Path, own: Whose<'_>) -> Option<&[Cow<'static, str>]> {
        if self.keeps(path, true) {
            return None;
        }
        match self.names_at(path, own, Change::Make)[..] {
            [Relation::New(InsideNew::Settings(keys))] => Some(keys),
            _ => None,
        }
    }

    /// Whether `path` is a file of settings, which its program writes anew even where nothing changes.
    pub(super) fn is_settings(&self, path: &Path) -> bool {
        let settings = |relation: &Relation<'_>| matches!(relation, Relation::New(InsideNew::Settings(_)));
        self.names_at(path, &|| true, Change::Make).iter().any(settings)
    }

    /// The names of which this is the first part.
    fn starting_with(&self, part: &OsStr) -> impl Iterator<Item = &ProtectedName> {
        let by_first = self.by_first.get_or_init(|| {
            let mut by_first: HashMap<OsString, Vec<usize>> = HashMap::new();
            for (index, name) in self.names.iter().enumerate() {
                let first = name.components.first().map(|first| first.clone().into_owned());
                by_first.entry(first.unwrap_or_default()).or_default().push(index);
            }
            by_first
        });
        by_first.get(part).into_iter().flatten().map(|index| &self.names[*index])
    }

    /// Whether protected names may begin above `path`, or with its last part.
    pub(super) fn may_be_within(&self, path: &Path) -> bool {
        parts_of(path).iter().any(|part| self.starting_with(part).next().is_some())
    }

    /// Whether the name `part`, in the directory `above` that the launch did not make, stays where it is when that
    /// directory is moved; `within` says whether protected names may begin above it.
    pub(super) fn stays(&self, above: &Path, within: bool, part: &OsStr, is_dir: bool) -> bool {
        if !within && self.starting_with(&folded(part)).next().is_none() {
            return false;
        }
        let kept = |relation| match relation {
            Relation::Within => true,
            Relation::Above => !is_dir,
            Relation::AboveNew | Relation::New(_) => false,
        };
        self.names_at(&above.join(part), &|| false, Change::Take).into_iter().any(kept)
    }

    /// Every protected name that `path` has to do with: none where nothing outlives the launch, from where no directory
    /// gets elsewhere.
    fn names_at(&self, path: &Path, own: Whose<'_>, change: Change) -> Vec<Relation<'_>> {
        if self.places.is_private_at(path) {
            return Vec::new();
        }
        let parts = parts_of(path);
        let known = OnceCell::new();
        let own = || *known.get_or_init(own);
        let mut found = Vec::new();
        for at in 0..parts.len() {
            for name in self.starting_with(&parts[at]) {
                found.extend(relation(name, path, &parts, at, &own, change));
            }
        }
        found
    }
}

/// Whether this is the name by which a project is known. With it gone, the next launch would take what lies around it
/// for the project, and git another repository; an empty directory of that name is neither's.
fn is_mark(path: &Path) -> bool {
    path.file_name().is_some_and(|name| *folded(name) == *MARK)
}

fn relation<'n>(
    name: &'n ProtectedName,
    path: &Path,
    parts: &[Cow<'_, OsStr>],
    at: usize,
    own: Whose<'_>,
    change: Change,
) -> Option<Relation<'n>> {
    let open = match change {
        Change::Write | Change::Make => &name.may_make,
        Change::Take | Change::Leave => &name.may_take,
    };
    if open.iter().any(|open| path.starts_with(open)) {
        return None;
    }
    Some(match (reach(&name.components, &parts[at..])?, own()) {
        (Reach::Whole(_), true) => Relation::New(&name.inside_new),
        (Reach::Whole(_), false) => Relation::Within,
        (Reach::Start, true) => Relation::AboveNew,
        (Reach::Start, false) => Relation::Above,
    })
}

/// Every place inside at which the host path `host` can be written.
fn aliases<'p>(plan: &'p Plan, host: &'p Path) -> impl Iterator<Item = PathBuf> + 'p {
    plan.mounts.iter().filter_map(move |op| {
        let MountOp::Bind { source, dest, access: Access::ReadWrite, .. } = op else { return None };
        let below = host.strip_prefix(source).ok()?;
        Some(if below.as_os_str().is_empty() { dest.clone() } else { dest.join(below) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Code, Place, Rights};

    fn plan() -> Plan {
        let mut plan = Plan::new("/bin/true", vec!["true".into()]);
        for dest in ["/w", "/alias"] {
            plan.mounts.push(MountOp::Bind {
                source: "/w".into(),
                dest: dest.into(),
                access: Access::ReadWrite,
                code: Code::Allowed,
            });
            plan.rights.push(Place { path: dest.into(), rights: Rights::WRITE | Rights::REMOVE });
        }
        plan
    }

    fn guard(protect: &[&str]) -> Protected {
        let mut plan = plan();
        plan.protect = protect.iter().map(PathBuf::from).collect();
        Protected::of(&plan).unwrap()
    }

    fn named(names: &[&str]) -> Protected {
        let mut plan = plan();
        let name = |name: &&str| ProtectedName {
            components: name.split('/').map(|part| Cow::Owned(part.into())).collect(),
            may_make: vec!["/w/kept/.envrc".into()],
            may_take: Vec::new(),
            inside_new: match *name {
                ".git/hooks" => InsideNew::Ending(".sample".into()),
                ".git/config" => InsideNew::Settings(Arc::new(["core.bare".into()])),
                ".envrc" => InsideNew::Anything,
                _ => InsideNew::Nothing,
            },
        };
        plan.protect_names = Arc::new(names.iter().map(name).collect());
        Protected::of(&plan).unwrap()
    }

    fn change(guard: &Protected, path: &str) -> bool {
        guard.allows_change(Path::new(path), &|| false, Change::Make)
    }

    fn directory(guard: &Protected, path: &str) -> bool {
        guard.allows_directory(Path::new(path), &|| false, Change::Make)
    }

    #[test]
    fn a_protected_path_and_all_below_it_are_kept() {
        let guard = guard(&["/w/.git/hooks"]);
        assert!(!change(&guard, "/w/.git/hooks/pre-commit"));
        assert!(!directory(&guard, "/w/.git/hooks"));
        assert!(directory(&guard, "/w/.git"));
        assert!(change(&guard, "/w/.git/index"));
        assert!(change(&guard, "/w/.git/hooks2"));
    }

    #[test]
    fn an_ancestor_can_be_made_a_directory_and_nothing_else() {
        let guard = guard(&["/w/.git/hooks"]);
        assert!(!change(&guard, "/w/.git"));
        assert!(!change(&guard, "/w"));
    }

    #[test]
    fn a_private_directory_lends_no_right_to_remove() {
        let mut plan = Plan::new("/bin/true", vec!["true".into()]);
        plan.mounts.push(MountOp::Tmpfs {
            dest: "/tmp".into(),
            size: Some(1),
            mode: 0o700,
            code: Code::Allowed,
        });
        for dest in ["/tmp/w", "/tmp/w/sub"] {
            let (source, dest) = (dest.into(), dest.into());
            plan.mounts.push(MountOp::Bind { source, dest, access: Access::ReadWrite, code: Code::Allowed });
        }
        let place = |path: &str, rights| Place { path: path.into(), rights };
        plan.rights = vec![
            place("/tmp", Rights::WRITE | Rights::REMOVE),
            place("/tmp/w", Rights::WRITE),
            place("/tmp/w/sub", Rights::WRITE | Rights::REMOVE),
        ];
        let guard = Protected::of(&plan).unwrap();
        let take = |path: &str| guard.allows_change(Path::new(path), &|| false, Change::Take);
        assert!(take("/tmp/x") && take("/tmp/w/sub/x") && !take("/tmp/w/x"));
        assert!(!take("/tmp/w") && !change(&guard, "/tmp"), "what leads to a place stays");
        assert!(change(&guard, "/tmp/w/x"));
    }

    #[test]
    fn other_names_for_the_same_place_are_kept_too() {
        assert!(!change(&guard(&["/w/.envrc"]), "/alias/.envrc"));
    }

    #[test]
    fn a_name_is_kept_at_any_depth() {
        let guard = named(&[".git/hooks", ".envrc", ".git/modules/*/hooks"]);
        for path in
            ["/w/.envrc", "/w/a/b/.envrc", "/w/a/.git/hooks/x", "/w/.git", "/w/.git/modules/m/hooks/x"]
        {
            assert!(!change(&guard, path), "{path}");
        }
        for path in ["/w/envrc", "/w/.git/index", "/w/.git/modules/m/objects", "/w/kept/.envrc"] {
            assert!(change(&guard, path), "{path}");
        }
        assert!(directory(&guard, "/w/.git") && !directory(&guard, "/w/.git/hooks"));
    }

    #[test]
    fn a_name_is_kept_in_any_letters() {
        let guard = named(&[".git/hooks", ".envrc", ".git/modules/**/config"]);
        for path in
            ["/w/.ENVRC", "/w/.Git/Hooks/x", "/w/.GIT/modules/m/CONFIG", "/w/.en\u{200d}vrc", "/w/.Git"]
        {
            assert!(!change(&guard, path), "{path}");
        }
        assert!(directory(&guard, "/w/.Git") && change(&guard, "/w/.Envrc2"));
        assert!(!change(&guard, "/w/kept/.ENVRC"), "that one was not opened");
        assert!(!guard.allows_tree(Path::new("/w/.git/Modules/m")));
    }

    #[test]
    fn a_name_of_one_part_is_the_launchs_own_in_what_it_made() {
        let guard = named(&[".git/hooks", ".envrc", ".git/modules/**/config"]);
        let change =
            |is_own: bool, path: &str| guard.allows_change(Path::new(path), &|| is_own, Change::Make);
        assert!(change(true, "/w/new/.envrc") && !change(false, "/w/.envrc"));
        assert!(!change(true, "/w/new/.git/hooks/x") && change(true, "/w/new/.git/hooks/x.sample"));
        assert!(!change(false, "/w/new/.git/hooks/x.sample"), "asked of the directory it stands in");
        let take = |is_own: bool, path: &str| guard.allows_change(Path::new(path), &|| is_own, Change::Take);
        assert!(take(true, "/w/new/.git/hooks/x") && !take(false, "/w/new/.git/hooks/x"));
    }

    #[test]
    fn what_stays_keeps_the_directory_it_is_in() {
        let guard = named(&[".git/hooks", ".git/config", ".envrc", ".git/modules/**/config"]);
        let stays = |path: &str, is_dir| {
            let path = Path::new(path);
            let above = path.parent().unwrap();
            guard.stays(above, guard.may_be_within(above), path.file_name().unwrap(), is_dir)
        };
        for path in ["/w/a/.envrc", "/w/a/.git/config", "/w/a/.git/modules/m/config", "/w/a/.git"] {
            assert!(stays(path, false), "{path}");
        }
        assert!(stays("/w/a/.git/hooks", true) && !stays("/w/a/.git", true));
        assert!(
            !stays("/w/a/config", false) && stays("/w/kept/.envrc", false),
            "only making that one was opened"
        );
    }

    #[test]
    fn what_is_told_outlives_the_launch() {
        let guard = named(&[".git/hooks", ".envrc"]);
        let tells = |path: &str, is_own: bool| guard.tells(Path::new(path), &|| is_own);
        assert_eq!(tells("/w/a/.git", false), Some(Verb::Made));
        assert_eq!((tells("/w/a/.envrc", true), tells("/w/a/.envrc", false)), (Some(Verb::Obeyed), None));
        assert_eq!((tells("/tmp/a/.envrc", true), tells("/w/a/x", true)), (None, None));
    }

    #[test]
    fn two_stars_are_any_depth_and_say_nothing_of_what_lies_between() {
        let guard = named(&[".git/modules/**/config"]);
        for path in ["/w/.git/modules/a/config", "/w/.git/modules/a/b/config/x", "/w/.git/modules"] {
            assert!(!change(&guard, path), "{path}");
        }
        for path in ["/w/.git/modules/a/index", "/w/.git/modules/a/b", "/w/.git/config"] {
            assert!(change(&guard, path), "{path}");
        }
    }

    #[test]
    fn no_tree_comes_to_where_names_lie_at_some_depth() {
        let guard = named(&[".git/modules/**/config", ".envrc"]);
        let tree = |path: &str| guard.allows_tree(Path::new(path));
        assert!(!tree("/w/.git/modules/m") && !tree("/w/sub/.git/modules/a/b"));
        assert!(tree("/w/.git/modules") && tree("/w/modules/m") && tree("/w/a"));
    }

    #[test]
    fn what_leads_to_an_opened_path_stays() {
        let guard = named(&[".envrc"]);
        assert!(!change(&guard, "/w/kept") && change(&guard, "/w/kept/other"));
        assert!(directory(&guard, "/w/kept"));
    }

    #[test]
    fn a_new_directory_that_starts_a_name_holds_only_what_is_harmless() {
        let guard = named(&[".git/hooks", ".git/config", ".config/fish"]);
        let path = Path::new;
        let directory = |name| guard.allows_directory(path(name), &|| true, Change::Make);
        let change = |name| guard.allows_change(path(name), &|| true, Change::Make);
        assert!(directory("/w/.git/hooks") && change("/w/.git/hooks/pre-commit.sample"));
        assert!(!change("/w/.git/hooks/pre-commit") && !change("/w/.git/config"));
        assert!(guard.settings_at(path("/w/.git/config"), &|| true).is_some());
        assert!(guard.settings_at(path("/w/.git/config"), &|| false).is_none());
        assert!(!directory("/w/.config/fish"));
    }
}
