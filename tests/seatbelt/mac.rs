//! A Mac that is not there: its files as a list, and the profile a launch on it would get.

use super::read::{Profile, read};
use sbx::plan::{Host, Invocation, Kind, Outlet, Use, lower};
use sbx::profile::System;
use sbx::{Config, Facts, Manifest, Policy, Request, Source, decide};
use sbx_platform::macos::seatbelt::{self, Surroundings};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Private directories and the port of a launch.
pub(crate) const TMP: &str = "/private/var/folders/zz/sbx-1/tmp";
pub(crate) const HOME: &str = "/private/var/folders/zz/sbx-1/home";
pub(crate) const PROXY: u16 = 61080;

/// Programs that stand on every Mac of the tests.
pub(crate) const PROGRAMS: &[&str] = &[
    "/bin/sh",
    "/bin/bash",
    "/bin/cat",
    "/bin/ls",
    "/usr/bin/env",
    "/usr/bin/find",
    "/usr/bin/git",
    "/usr/bin/grep",
    "/usr/bin/rg",
    "/usr/bin/jq",
    "/usr/bin/head",
    "/usr/bin/wc",
    "/usr/lib/dyld",
    "/Library/Developer/CommandLineTools/usr/bin/git",
];

#[derive(Clone, Debug, Default)]
pub(crate) struct Mac(BTreeMap<PathBuf, Kind>);

impl Mac {
    pub(crate) fn new(dirs: &[&str], files: &[&str]) -> Self {
        let mut mac = Self::default();
        for (path, _) in sbx::profile::view_of(System::MacOs) {
            let optional = ["/opt/local", "/nix/store", "/Applications"];
            if !optional.iter().any(|left_out| path.starts_with(left_out)) {
                mac.add(path, Kind::Directory);
            }
        }
        dirs.iter().for_each(|dir| mac.add(dir, Kind::Directory));
        files.iter().chain(PROGRAMS).for_each(|file| mac.add(file, Kind::File));
        mac
    }

    fn add(&mut self, path: &str, kind: Kind) {
        let path = PathBuf::from(path);
        for above in path.ancestors().skip(1) {
            self.0.entry(above.to_path_buf()).or_insert(Kind::Directory);
        }
        self.0.entry(path).or_insert(kind);
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    pub(crate) fn is_dir(&self, path: &Path) -> bool {
        self.0.get(path) == Some(&Kind::Directory)
    }
}

impl Host for Mac {
    fn system(&self) -> System {
        System::MacOs
    }

    fn kind(&self, path: &Path) -> Option<Kind> {
        self.0.get(path).cloned()
    }

    fn real(&self, path: &Path) -> Option<PathBuf> {
        self.exists(path).then(|| path.to_path_buf())
    }

    fn names(&self, directory: &Path) -> Vec<OsString> {
        let inside = self.0.keys().filter(|path| path.parent() == Some(directory));
        inside.filter_map(|path| path.file_name().map(OsString::from)).collect()
    }

    fn is_program(&self, path: &Path) -> bool {
        PROGRAMS.iter().any(|program| Path::new(program) == path)
    }

    fn needed(&self, program: &Path) -> Vec<(PathBuf, Use)> {
        if self.is_program(program) { vec![(program.to_path_buf(), Use::Executed)] } else { Vec::new() }
    }

    fn variable(&self, _name: &str) -> Option<OsString> {
        None
    }
}

/// The policy of a record, for somebody whose home is `/Users/u`.
pub(crate) fn policy(record: &str, name: &str, cwd: &str) -> Policy {
    let facts = Facts::new("/Users/u").at(cwd);
    let (manifest, problems) = Manifest::parse(Source::new(name, record), &facts);
    let manifest = manifest.unwrap_or_else(|| panic!("{problems:?} in\n{record}"));
    Policy::resolve(&manifest, &Config::default(), &facts).0
}

/// The profile of a launch of `argv` under a policy, as text and as the kernel would read it.
pub(crate) fn profile(policy: &Policy, mac: &Mac, argv: &[&str], cwd: &str) -> (seatbelt::Profile, Profile) {
    let request = Request::exec(argv.iter().copied()).in_dir(cwd);
    let decision = decide(policy, &request);
    let permit = decision.permit().unwrap_or_else(|| panic!("{argv:?}: {:?}", decision.denial()));
    let network = policy.grants().iter().any(|grant| grant.capability().to_string().starts_with("net."));
    let outlet = network.then(Outlet::default);
    let invocation = Invocation::new((501, 20)).outlet(outlet);
    let lowered = lower(&permit, &invocation, mac).unwrap_or_else(|error| panic!("{argv:?}: {error}"));
    let wanted = seatbelt::wanted_scratch(&lowered.plan);
    let surroundings = Surroundings {
        scratch: wanted.into_iter().map(|dest| (dest.clone(), private(&dest))).collect(),
        proxy: network.then_some(PROXY),
        tag: "sbx-test".to_owned(),
        ..Surroundings::default()
    };
    let profile = seatbelt::profile(&lowered.plan, &surroundings).unwrap_or_else(|error| panic!("{error}"));
    let meant = read(&profile.text, &profile.parameters)
        .unwrap_or_else(|error| panic!("{error} in\n{}", profile.text));
    (profile, meant)
}

fn private(dest: &Path) -> PathBuf {
    PathBuf::from(if dest.ends_with("home") { HOME } else { TMP })
}
