//! A tree of files, a random record over it, and acts near both.

use super::acts::{Act, Verdict};
use super::more;
use sbx::policy::{Grant, PlacedScope};
use sbx::{Config, Decision, Facts, Manifest, Policy, Request, Source, decide};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) struct World {
    dir: PathBuf,
    record: String,
    policy: Policy,
    acts: Vec<Act>,
}

/// A small generator of numbers: the same seed gives the same world.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

pub(crate) const DIRS: &[&str] = &[
    "work",
    "work/lib",
    "work/lib/deep",
    "work/docs",
    "work/.git",
    "work/.git/hooks",
    "work/.sbx",
    "work/.SBX",
    "far",
    "far/lib",
    "far/docs",
];
pub(crate) const FILES: &[&str] = &["a.txt", "b.md", "lib.rs"];
const ROOTS: &[&str] = &["work", "work/lib", "work/docs", "far", "far/lib"];
const PATHS: &[&str] = &[
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
    ".sbx",
    "a.txt",
    "missing",
    "**",
    "l?b/*.rs",
    "*/b.md",
    "**/deep/**",
    "docs/*",
];
const VERBS: &[&str] = &["fs.read", "fs.write", "fs.delete"];
const ACTS: &[&str] = &["read", "list", "write", "truncate", "create", "mkdir", "delete"];

/// What the acts of a world are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// One path each.
    Paths,
    /// Moves, links, and what is left of truncating.
    Ways,
    /// Programs, where only some are listed.
    Programs,
}

impl World {
    pub(crate) fn new(backend: &str, seed: u64) -> Self {
        Self::about(About::Paths, backend, seed)
    }

    pub(crate) fn about(about: About, backend: &str, seed: u64) -> Self {
        // Not below /tmp, which is private scratch inside: there a path is another file than outside.
        let base = Path::new("/var/tmp").canonicalize().expect("a directory for large temporary files");
        let dir = base.join(format!("sbx-agree-{about:?}-{backend}-{}-{seed}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let mut dice = Dice(seed.wrapping_mul(77).wrapping_add(5));
        for _ in 0..8 {
            dice.roll(2);
        }
        let mut record = match about {
            About::Programs => more::listing(&dir, &mut dice),
            _ => format!("capabilities:\n  - proc.exec: {{in: {}}}\n", dir.join("work").display()),
        };
        record += &file_grants(&dir, &mut dice, if about == About::Ways { 6 } else { 1 });
        let acts = match about {
            About::Paths => acts(&dir, &mut dice),
            About::Ways => more::acts(&dir, &mut dice),
            About::Programs => more::running(&dir, &mut dice),
        };
        build(&dir, &acts);
        let facts = Facts::new(dir.join("home")).at(dir.join("work"));
        let (manifest, problems) = Manifest::parse(Source::new("agent.yml", record.as_str()), &facts);
        let manifest = manifest.unwrap_or_else(|| panic!("{problems:?} in\n{record}"));
        let (policy, _) = Policy::resolve(&manifest, &Config::default(), &facts);
        Self { dir, record, policy, acts }
    }

    pub(crate) fn record(&self) -> &str {
        &self.record
    }

    /// Where it stands.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) fn acts(&self) -> &[Act] {
        &self.acts
    }

    /// `decide` over the process view: the agent's grants, and reading the proc root.
    pub(crate) fn decide(&self, act: &Act) -> Verdict {
        let in_root = act.path.starts_with(self.dir.join("work"));
        if matches!(act.verb, "read" | "list") && in_root {
            return Verdict::Allow;
        }
        self.decide_files(act)
    }

    /// `decide` over the agent's grants alone.
    pub(crate) fn decide_files(&self, act: &Act) -> Verdict {
        let request = Request::path(act.capability(), &act.path);
        match decide(&self.policy, &request) {
            Decision::Deny(_) => self.listing_of_the_way(act),
            Decision::Allow(_) if self.is_expressible(act) => Verdict::Allow,
            Decision::Allow(_) => Verdict::AllowMaybeNarrower,
        }
    }

    /// The way to a granted place can be listed, where it shows nothing but that way; and so can `x` when
    /// `x/**` opens all below it.
    fn listing_of_the_way(&self, act: &Act) -> Verdict {
        let leads_on = |grant: &Grant| match &grant.scope {
            PlacedScope::Fs { paths: Some(entries) } => entries.iter().any(|entry| {
                let matches_below = entry.glob.is_some() && act.path.starts_with(&entry.base);
                entry.base.starts_with(&act.path) || matches_below
            }),
            _ => grant.root.as_deref().is_some_and(|root| root.starts_with(&act.path)),
        };
        let listed = act.verb == "list" && self.policy.grants().iter().any(leads_on);
        if listed { Verdict::AllowMaybeNarrower } else { Verdict::Deny }
    }

    /// Whether some grant covers the act through a directory, rather than one by one or on itself.
    fn is_expressible(&self, act: &Act) -> bool {
        let makes_or_takes = act.makes_or_takes();
        let through_directory = |base: &Path| {
            let strictly = act.path != base;
            let stands = base.is_dir();
            stands && (strictly || !makes_or_takes)
        };
        // Patterns open files that stand, one by one.
        let by_file = act.path.is_file() && !makes_or_takes;
        self.policy.held(act.capability()).filter(|grant| grant.allows_path(&act.path)).any(|grant| {
            match &grant.scope {
                PlacedScope::Fs { paths: None } => grant.root.as_deref().is_some_and(through_directory),
                PlacedScope::Fs { paths: Some(entries) } => {
                    entries.iter().filter(|entry| entry.matches(&act.path)).any(|entry| {
                        let whole = entry.glob.as_ref().is_none_or(|glob| glob.as_str() == "**");
                        by_file || whole && through_directory(&entry.base)
                    })
                }
                _ => false,
            }
        })
    }

    /// Has the acts tried inside, where Landlock is of this `level` if one is given; true for each that worked.
    pub(crate) fn attempt(&self, backend: &str, accepted: &str, level: Option<u32>) -> Vec<bool> {
        let built = PathBuf::from(env!("CARGO_BIN_EXE_sbx"));
        let sbx = std::env::var_os("SBX_TEST_BIN").map_or(built, PathBuf::from);
        let inside = self.dir.join("work/probe");
        std::fs::copy(probe(&sbx), &inside).unwrap_or_else(|error| panic!("the probe: {error}"));
        let record = self.dir.join("agent.yml");
        std::fs::write(&record, &self.record).expect("the record");
        let mut command = Command::new(&sbx);
        command
            .args(["exec", "--backend", backend, "--agent"])
            .arg(&record)
            .arg("--in")
            .arg(self.dir.join("work"));
        if !accepted.is_empty() {
            command.args(["--allow-degraded", accepted]);
        }
        command.arg("--").arg(&inside).env("HOME", self.dir.join("home")).env_remove("XDG_CONFIG_HOME");
        command.envs(level.map(|level| ("SBX_TEST_LANDLOCK", level.to_string())));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sbx");
        let mut lines = String::new();
        for act in &self.acts {
            let _ = writeln!(lines, "{}", act.line());
        }
        child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("the acts are read");
        let output = child.wait_with_output().expect("sbx ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let answers: Vec<bool> = text.lines().map(|line| line == "ok").collect();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            answers.len(),
            self.acts.len(),
            "{backend}: the probe did not run: {told}\n{}",
            self.record
        );
        answers
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The probe, which `cargo test` builds with the other examples but `cargo test --test` does not.
fn probe(sbx: &Path) -> PathBuf {
    static BUILT: std::sync::Once = std::sync::Once::new();
    let probe = sbx.with_file_name("examples").join("sbx-probe");
    BUILT.call_once(|| {
        if !probe.exists() {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let built = Command::new(cargo).args(["build", "--quiet", "--example", "sbx-probe"]).status();
            assert!(built.is_ok_and(|status| status.success()), "the probe cannot be built");
        }
    });
    probe
}

fn file_grants(dir: &Path, dice: &mut Dice, least: usize) -> String {
    let mut text = String::new();
    for _ in 0..least + dice.roll(6) {
        let root = dir.join(dice.pick(ROOTS));
        let verb = dice.pick(VERBS);
        let paths = match *dice.pick(PATHS) {
            "" => String::new(),
            path => format!(", paths: [\"{path}\"]"),
        };
        let _ = writeln!(text, "  - {verb}: {{in: {}{paths}}}", root.display());
    }
    text
}

/// Acts on files that stand, files that do not, victims made for the purpose, and directories.
fn acts(dir: &Path, dice: &mut Dice) -> Vec<Act> {
    (0..40)
        .map(|number| {
            let verb = *dice.pick(ACTS);
            let parent = dir.join(dice.pick(DIRS));
            let (path, exists) = match verb {
                "list" => (parent, true),
                "create" | "mkdir" => {
                    (parent.join(format!("new-{number}.{}", dice.pick(&["md", "txt"]))), false)
                }
                "delete" => (parent.join(format!("victim-{number}.{}", dice.pick(&["md", "txt"]))), true),
                _ => (parent.join(dice.pick(FILES)), true),
            };
            Act::new(verb, path, exists)
        })
        .collect()
}

fn build(dir: &Path, acts: &[Act]) {
    std::fs::create_dir_all(dir.join("home")).expect("a home");
    for sub in DIRS {
        std::fs::create_dir_all(dir.join(sub)).expect("a directory");
        for file in FILES {
            std::fs::write(dir.join(sub).join(file), "x").expect("a file");
        }
    }
    for tool in more::TOOLS {
        put_program(&dir.join(tool));
    }
    acts.iter().for_each(more::prepare);
}

fn put_program(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    if path.ends_with("script") {
        std::fs::write(path, "#!/bin/sh\ntrue\n").expect("a script");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("a mode");
    } else {
        std::fs::copy("/usr/bin/true", path).expect("a program");
    }
}
