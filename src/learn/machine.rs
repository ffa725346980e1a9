//! A machine in memory, for tests of what is learned.

use super::{Learned, Observed, learn};
use crate::manifest::Facts;
use crate::plan::{Host, Kind, Use};
use sbx_platform::report::{Act, Verb};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A machine of a few files; directories end with a slash.
pub(super) struct Machine(BTreeMap<&'static str, ()>);

impl Machine {
    pub(super) fn of(files: &[&'static str]) -> Self {
        Self(files.iter().map(|file| (*file, ())).collect())
    }
}

impl Host for Machine {
    fn kind(&self, path: &Path) -> Option<Kind> {
        let text = path.to_str()?;
        let below = format!("{}/", text.trim_end_matches('/'));
        let is_dir = self.0.keys().any(|file| file.starts_with(&below));
        if is_dir { Some(Kind::Directory) } else { self.0.contains_key(text).then_some(Kind::File) }
    }
    fn real(&self, path: &Path) -> Option<PathBuf> {
        self.kind(path).map(|_| path.to_path_buf())
    }
    fn names(&self, directory: &Path) -> Vec<OsString> {
        let below =
            |file: &&str| Path::new(*file).strip_prefix(directory).ok()?.iter().next().map(OsString::from);
        let names: BTreeSet<OsString> = self.0.keys().filter_map(below).collect();
        names.into_iter().collect()
    }
    fn is_program(&self, path: &Path) -> bool {
        path.starts_with("/usr/bin") && self.kind(path) == Some(Kind::File)
    }
    fn needed(&self, _: &Path) -> Vec<(PathBuf, Use)> {
        vec![("/usr/lib/libc.so.6".into(), Use::Loaded)]
    }
    fn variable(&self, name: &str) -> Option<OsString> {
        (name == "PATH").then(|| "/home/u/.cargo/bin:/usr/bin".into())
    }
}

const FILES: &[&str] = &[
    "/usr/bin/git",
    "/usr/bin/make",
    "/usr/lib/libc.so.6",
    "/home/u/p/src/a.c",
    "/home/u/p/out/x",
    "/home/u/p/README",
    "/home/u/p/.env",
    "/home/u/.ssh/id",
    "/home/u/.config/tool/one",
    "/home/u/.cargo/bin/cargo",
    "/home/u/.cargo/registry/a",
    "/home/u/.gitconfig",
];

pub(super) fn act(verb: Verb, path: &str, error: i32) -> Act {
    Act { verb, path: path.into(), call: "openat", error, words: Vec::new() }
}

/// What is proposed for these acts in `/home/u/p`.
pub(super) fn specs(acts: Vec<Act>) -> (Vec<String>, Learned) {
    specs_on(&Machine::of(FILES), "/home/u/p", acts)
}

/// The same on another machine and in another directory.
pub(super) fn specs_on(machine: &Machine, cwd: &str, acts: Vec<Act>) -> (Vec<String>, Learned) {
    let facts = Facts::new("/home/u").at(cwd);
    let learned = learn(&Observed::new(acts, Vec::new(), true), &facts, machine);
    (learned.grants.iter().map(|grant| grant.spec.to_string()).collect(), learned)
}
