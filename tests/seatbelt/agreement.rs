//! Matcher and profile agree: random records, random acts, and the same answer from `decide` over the process
//! view and from the profile.
//!
//! The profile may never be wider. It may be narrower only in the ways named here, each of which must be met:
//! `fs-glob`, names that do not exist yet under a pattern; `anchor`, a granted place itself; `lead`, what leads to
//! protected names and could be swapped for something prepared; `unread`, taking away what may not be read,
//! which could be moved to where it may; `case`, protected names in other letters.

use super::cases::allows;
use super::mac::{HOME, Mac, PROGRAMS, TMP, policy, profile};
use super::read::Profile;
use sbx::capability::Capability;
use sbx::policy::PlacedScope;
use sbx::profile::{PROTECTED, System, view_of};
use sbx::{Policy, Request, decide};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How many records are tried; each is asked about sixty acts.
fn rounds() -> u64 {
    std::env::var("SBX_AGREEMENT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(250)
}

/// A small generator of numbers: the same seed gives the same world.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

const DIRS: &[&str] = &[
    "/Users/u",
    "/Users/u/work",
    "/Users/u/work/lib",
    "/Users/u/work/lib/deep",
    "/Users/u/work/docs",
    "/Users/u/work/.git",
    "/Users/u/work/.git/hooks",
    "/Users/u/work/.git/info",
    "/Users/u/work/.git/objects",
    "/Users/u/work/.git/modules",
    "/Users/u/work/.git/modules/m",
    "/Users/u/work/.git/modules/m/objects",
    "/Users/u/work/.git/modules/m/hooks",
    "/Users/u/work/.vscode",
    "/Users/u/work/.sbx",
    "/Users/u/work-evil",
    "/Users/u/far",
    "/Users/u/far/lib",
    "/Users/u/.config/sbx",
    "/Users/u/.local/state/sbx",
    "/private/tmp/shared",
    "/private/etc",
    "/usr/share",
];
const FILES: &[&str] = &["a.txt", "b.md", "config", "index", ".bashrc"];
const NEW: &[&str] = &[
    "new.md",
    "new.txt",
    ".envrc",
    ".git",
    ".GIT",
    "hooks",
    "HEAD",
    "commondir",
    "sbx.toml",
    "m2",
    ".config/SBX",
    ".Config/sbx/config.yml",
    ".Git/Hooks",
];
const ROOTS: &[&str] = &[
    "/Users/u",
    "/Users/u/work",
    "/Users/u/work",
    "/Users/u/work/lib",
    "/Users/u/work/.git",
    "/Users/u/far",
    "/private/tmp/shared",
];
/// What is sbx's own, in small letters.
const OWN: &[&str] = &["/users/u/.config/sbx", "/users/u/.local/state/sbx"];
const PATHS: &[&str] = &[
    "",
    "",
    "",
    "",
    "lib",
    "lib/**",
    "docs/b.md",
    "*.md",
    "**/*.md",
    "lib/deep",
    ".git/hooks",
    ".vscode",
    ".sbx",
    "a.txt",
    "missing",
    "**",
];
const VERBS: &[&str] = &["fs.read", "fs.read", "fs.write", "fs.write", "fs.delete"];
const ACTS: &[&str] = &[
    "read", "list", "stat", "write", "truncate", "create", "mkdir", "delete", "chmod", "rename", "exec",
    "connect",
];
const EXECS: &[&str] = &["", "", ", cmds: [cat, rg]", ", cmds: [/bin/sh]", ", cmds: [git]"];

struct World {
    record: String,
    root: &'static str,
    policy: Policy,
    mac: Mac,
    profile: Profile,
}

impl World {
    fn new(seed: u64) -> (Self, Dice) {
        let mut dice = Dice(seed.wrapping_mul(77) + 5);
        for _ in 0..8 {
            dice.roll(2);
        }
        let root = *dice.pick(&["/Users/u/work", "/Users/u/work", "/Users/u/work/lib", "/Users/u"]);
        let exec = *dice.pick(EXECS);
        let mut record = format!("class: agent\ncapabilities:\n  - proc.exec: {{in: {root}{exec}}}\n");
        for _ in 0..1 + dice.roll(6) {
            let (verb, place) = (dice.pick(VERBS), dice.pick(ROOTS));
            let paths = match *dice.pick(PATHS) {
                "" => String::new(),
                path => format!(", paths: [\"{path}\"]"),
            };
            let _ = writeln!(record, "  - {verb}: {{in: {place}{paths}}}");
        }
        if dice.roll(3) == 0 {
            record.push_str("  - net.get: {hosts: [api.example.org]}\n");
        }
        let files: Vec<String> =
            DIRS.iter().flat_map(|dir| FILES.iter().map(move |file| format!("{dir}/{file}"))).collect();
        let mac = Mac::new(DIRS, &files.iter().map(String::as_str).collect::<Vec<_>>());
        let policy = policy(&record, "agent.yml", "/Users/u/work");
        let program = match exec {
            ", cmds: [/bin/sh]" => "/bin/sh",
            ", cmds: [git]" => "git",
            _ => "cat",
        };
        let (_, profile) = profile(&policy, &mac, &[program], root);
        (Self { record, root, policy, mac, profile }, dice)
    }

    fn path(&self, dice: &mut Dice, verb: &str) -> PathBuf {
        let dir = Path::new(dice.pick(DIRS));
        match verb {
            "list" => dir.to_path_buf(),
            "create" | "mkdir" => dir.join(dice.pick(NEW)),
            "delete" | "stat" if dice.roll(4) == 0 => dir.to_path_buf(),
            _ => dir.join(dice.pick(FILES)),
        }
    }

    /// `decide` over the process view.
    fn decided(&self, verb: &str, path: &Path) -> bool {
        let capability = match verb {
            "read" | "list" | "stat" => Capability::FsRead,
            "delete" => Capability::FsDelete,
            _ => Capability::FsWrite,
        };
        let granted = decide(&self.policy, &Request::path(capability, path)).is_allowed();
        let seen = capability == Capability::FsRead && self.in_view(path);
        // `x/**` shows `x` as a place, as on Linux: its names and its mode, never its removal.
        let place = verb != "delete" && self.policy.held(capability).any(|grant| {
            matches!(&grant.scope, PlacedScope::Fs { paths: Some(entries) } if entries.iter().any(|entry| {
                entry.base == path && entry.glob.as_ref().is_some_and(|glob| glob.as_str() == "**")
            }))
        });
        granted || seen || place
    }

    /// Beside the grants: the proc root without the log, the system, and the names that lead to either.
    fn in_view(&self, path: &Path) -> bool {
        let log = path.starts_with("/Users/u/.local/state/sbx");
        let system = view_of(System::MacOs).any(|(place, _)| path.starts_with(place));
        (path.starts_with(self.root) && !log) || system
    }

    /// The way to what is shown can be looked at, name by name, and nothing more.
    fn on_the_way(&self, path: &Path) -> bool {
        let roots = self.policy.grants().iter().filter_map(|grant| grant.root.as_deref());
        let entries = self.policy.grants().iter().filter_map(|grant| match &grant.scope {
            PlacedScope::Fs { paths: Some(entries) } => Some(entries),
            _ => None,
        });
        let bases = entries.flatten().map(|entry| entry.base.as_path());
        let files = self.policy.grants().iter().any(|grant| {
            matches!(&grant.scope, PlacedScope::Fs { paths: Some(entries) } if entries.iter().any(|entry| entry.glob.is_some() && path.starts_with(&entry.base)))
        });
        let system = view_of(System::MacOs).any(|(place, _)| Path::new(place).starts_with(path));
        system || files || roots.chain(bases).any(|root| root.starts_with(path)) || self.changeable(path)
    }

    /// What may be changed is known, even where it may not be read.
    fn changeable(&self, path: &Path) -> bool {
        let held = [Capability::FsWrite, Capability::FsDelete];
        held.into_iter().flat_map(|verb| self.policy.held(verb)).any(|grant| grant.allows_path(path))
    }

    /// The name of the gap in which the profile may be narrower.
    fn gap(&self, verb: &str, path: &Path) -> Option<&'static str> {
        let changes = !matches!(verb, "read" | "list" | "stat");
        if changes && leads(path) {
            return Some("lead");
        }
        if changes && other_case(path) {
            return Some("case");
        }
        if verb == "delete" && !self.decided("read", path) {
            return Some("unread");
        }
        self.by_place(verb, path)
    }

    /// Whether no grant covers the act through a directory that stands.
    fn by_place(&self, verb: &str, path: &Path) -> Option<&'static str> {
        let takes = matches!(verb, "create" | "mkdir" | "delete");
        let capability = match verb {
            "read" | "list" | "stat" => Capability::FsRead,
            "delete" => Capability::FsDelete,
            _ => Capability::FsWrite,
        };
        let mut gap = Some("fs-glob");
        for grant in self.policy.held(capability).filter(|grant| grant.allows_path(path)) {
            let whole: Vec<&Path> = match &grant.scope {
                PlacedScope::Fs { paths: None } => grant.root.as_deref().into_iter().collect(),
                PlacedScope::Fs { paths: Some(entries) } => entries
                    .iter()
                    .filter(|entry| entry.matches(path))
                    .filter(|entry| entry.glob.as_ref().is_none_or(|glob| glob.as_str() == "**"))
                    .map(|entry| entry.base.as_path())
                    .collect(),
                _ => Vec::new(),
            };
            for base in whole.into_iter().filter(|base| self.mac.exists(base)) {
                if base == path && takes {
                    gap = gap.map(|_| "anchor");
                } else if self.mac.is_dir(base) || base == path {
                    // Taking away needs a readable place around it too, not only a readable path.
                    return if verb == "delete" { self.read_by_place(path) } else { None };
                }
            }
        }
        gap
    }

    fn read_by_place(&self, path: &Path) -> Option<&'static str> {
        let read = path.starts_with(self.root) && path != Path::new(self.root);
        if read { None } else { self.by_place("read", path).or_else(|| self.read_anchor(path)) }
    }

    /// Where only the path itself is readable, it is an anchor of what may be taken away.
    fn read_anchor(&self, path: &Path) -> Option<&'static str> {
        let strictly =
            self.policy.held(Capability::FsRead).filter(|grant| grant.allows_path(path)).any(|grant| {
                match &grant.scope {
                    PlacedScope::Fs { paths: None } => grant.root.as_deref().is_some_and(|root| root != path),
                    PlacedScope::Fs { paths: Some(entries) } => entries.iter().any(|entry| {
                        entry.matches(path)
                            && entry.base != path
                            && entry.glob.as_ref().is_none_or(|glob| glob.as_str() == "**")
                    }),
                    _ => false,
                }
            });
        if strictly { None } else { Some("anchor") }
    }
}

/// Whether a path leads to a protected name of several parts, whatever its letters' case.
fn leads(path: &Path) -> bool {
    let names: Vec<String> = path.iter().map(|name| name.to_string_lossy().to_lowercase()).collect();
    if let Some(at) = names.windows(2).position(|pair| pair[0] == ".git" && pair[1] == "modules") {
        let below = &names[at + 2..];
        let made = |name: &String| ["objects", "refs", "logs"].contains(&name.as_str());
        let leaf = below.last().is_some_and(|name| ["index", "head"].contains(&name.as_str()));
        if below.len() < 2 || !(below[1..].iter().any(made) || leaf) {
            return true;
        }
    }
    PROTECTED.iter().any(|protected| {
        let parts: Vec<&str> = protected.components().collect();
        (1..parts.len()).any(|length| {
            let prefix = &parts[..length];
            names.len() >= length
                && prefix
                    .iter()
                    .zip(&names[names.len() - length..])
                    .all(|(part, name)| *part == "*" || part == name)
        })
    })
}

/// Whether a path would be protected if its letters were small.
fn other_case(path: &Path) -> bool {
    let lower = path.to_string_lossy().to_lowercase();
    // The home itself is spelled with a capital letter.
    let spelled = lower.replacen("/users/u", "/Users/u", 1);
    let own = OWN.iter().any(|own| Path::new(&lower).starts_with(own));
    spelled != path.to_string_lossy() && (own || sbx::profile::strictest(Path::new(&lower)).is_some())
}

#[test]
fn matcher_and_profile_agree() {
    let (mut acts, mut allowed, mut gaps) = (0_usize, 0_usize, BTreeMap::<&str, usize>::new());
    for seed in 0..rounds() {
        let (world, mut dice) = World::new(seed);
        for _ in 0..60 {
            let verb = *dice.pick(ACTS);
            acts += 1;
            allowed += usize::from(one(&world, &mut dice, verb, seed, &mut gaps));
        }
    }
    assert!(
        acts > 0 && allowed > acts / 10 && allowed < acts * 9 / 10,
        "{allowed} of {acts} acts were allowed"
    );
    // The rarer ones need many records to be met.
    let met: &[&str] = if rounds() < 1000 {
        &["fs-glob", "lead", "unread"]
    } else {
        &["fs-glob", "anchor", "lead", "unread", "case"]
    };
    for name in met {
        assert!(gaps.contains_key(*name), "the gap {name} was never met: {gaps:?}");
    }
    // Gaps are the exception.
    assert!(gaps.values().sum::<usize>() < acts / 10, "{gaps:?} of {acts}");
}

/// Tries one act; whether the profile allows it.
fn one(
    world: &World,
    dice: &mut Dice,
    verb: &str,
    seed: u64,
    gaps: &mut BTreeMap<&'static str, usize>,
) -> bool {
    match verb {
        "exec" => {
            let program = *dice.pick(PROGRAMS);
            let kernel = allows(&world.profile, "exec", program);
            let request = Request::exec([program]).in_dir(world.root);
            let named = Path::new(program).file_name().map(|name| Request::exec([name]).in_dir(world.root));
            let by_name = |request: &Request| decide(&world.policy, request).is_allowed();
            // A name means the first of its files on the path, and what it hands over to.
            let by_path = program.starts_with("/bin") || program.starts_with("/usr/bin");
            let helper = program == "/Library/Developer/CommandLineTools/usr/bin/git";
            let decided = by_name(&request) || ((by_path || helper) && named.as_ref().is_some_and(by_name));
            assert_eq!(kernel, decided, "seed {seed}: exec {program} in\n{}", world.record);
            kernel
        }
        "connect" => {
            let target =
                *dice.pick(&["localhost:61080", "localhost:8080", "api.example.org:443", "192.0.2.1:61080"]);
            let kernel = allows(&world.profile, "connect", target);
            let net = world.policy.held(Capability::NetGet).next().is_some();
            assert_eq!(kernel, net && target == "localhost:61080", "seed {seed}: connect {target}");
            kernel
        }
        "rename" => {
            // Onto nothing, or onto what is there.
            let kind = *dice.pick(&["create", "write"]);
            let (from, to) = (world.path(dice, "delete"), world.path(dice, kind));
            let (act, words) = (
                format!("{} -> {}", from.display(), to.display()),
                format!("rename ({kind}) {}", from.display()),
            );
            let kernel = allows(&world.profile, "rename", &act);
            let moved = world.decided("delete", &from) && world.decided("create", &to);
            let gap = world.gap("delete", &from).or_else(|| world.gap("create", &to));
            let words = format!("{words} {}", to.display());
            if kind == "create" {
                check(world, &words, kernel, moved, gap, seed, gaps);
                return kernel;
            }
            assert!(moved || !kernel, "seed {seed}: {words} is allowed in\n{}", world.record);
            let kernel = kernel && allows(&world.profile, "replace", &act);
            let decided = moved && world.decided("delete", &to);
            check(
                world,
                &words,
                kernel && decided,
                decided,
                gap.or_else(|| world.gap("delete", &to)),
                seed,
                gaps,
            );
            kernel
        }
        verb => {
            let path = world.path(dice, verb);
            let kernel = allows(&world.profile, verb, &path.to_string_lossy());
            let decided = world.decided(verb, &path) || (verb == "stat" && kernel && world.on_the_way(&path));
            let gap = if world.in_view(&path) && matches!(verb, "read" | "list" | "stat") {
                None
            } else {
                world.gap(verb, &path)
            };
            check(world, &format!("{verb} {}", path.display()), kernel, decided, gap, seed, gaps);
            kernel
        }
    }
}

fn check(
    world: &World,
    act: &str,
    kernel: bool,
    decided: bool,
    gap: Option<&'static str>,
    seed: u64,
    gaps: &mut BTreeMap<&'static str, usize>,
) {
    let record = &world.record;
    assert!(decided || !kernel, "the profile allows what decide denies: seed {seed}: {act} in\n{record}");
    if decided && !kernel {
        let Some(gap) = gap else {
            panic!("the profile denies what decide allows: seed {seed}: {act} in\n{record}")
        };
        *gaps.entry(gap).or_default() += 1;
    }
}

const HOME_GRANTED: &str = "class: agent\ncapabilities:\n  - fs.read: {in: /Users/u}\n  - fs.write: {in: /Users/u}\n  - fs.delete: {in: /Users/u}\n  - proc.exec: {in: /Users/u}\n";

fn with_home_granted(dirs: &[&str]) -> Profile {
    let own = policy(HOME_GRANTED, "agent.yml", "/Users/u");
    profile(&own, &Mac::new(dirs, &[]), &["cat"], "/Users/u").1
}

#[test]
fn what_is_protected_is_so_before_it_exists_and_in_any_letters() {
    let profile = with_home_granted(&["/Users/u/work", "/Users/u/prepared/sbx"]);
    assert!(allows(&profile, "create", "/Users/u/work/sbx") && allows(&profile, "delete", "/Users/u/work/x"));
    for path in
        [".config/sbx", ".config/SBX", ".CONFIG/sbx/config.yml", ".config/\u{17f}bx", ".Local/State/sbx/x"]
    {
        for verb in ["create", "write", "delete", "chmod"] {
            assert!(!allows(&profile, verb, &format!("/Users/u/{path}")), "{verb} {path}");
        }
    }
    for way in [".config", ".CONFIG", ".local", ".LOCAL/state", ".local/\u{17f}tate"] {
        let act = format!("/Users/u/prepared -> /Users/u/{way}");
        assert!(!allows(&profile, "rename", &act), "{act}");
    }
}

#[test]
fn what_is_hidden_is_so_in_any_letters() {
    let profile = with_home_granted(&["/Users/u/work", "/Users/u/.local/state/sbx"]);
    assert!(allows(&profile, "read", "/Users/u/.local/state/other"));
    for path in [".local/state/sbx/audit.jsonl", ".local/State/SBX/audit.jsonl"] {
        assert!(!allows(&profile, "read", &format!("/Users/u/{path}")), "{path}");
    }
}

#[test]
fn private_scratch_is_the_launchs_own() {
    let (world, _) = World::new(1);
    for dir in [TMP, HOME] {
        for verb in ["read", "create", "write", "delete"] {
            assert!(allows(&world.profile, verb, &format!("{dir}/.bashrc")), "{verb} in {dir}");
        }
        assert!(!allows(&world.profile, "delete", dir), "{dir} itself");
    }
}
