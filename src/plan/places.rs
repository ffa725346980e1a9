//! Which places the agent's file grants open, and how.
//!
//! Where a grant is a pattern the kernel cannot express, the files that match now are opened one by
//! one: new names stay closed, so the kernel is narrower than `decide`, never wider.

use super::host::{Host, Kind};
use super::lower::LowerError;
use crate::capability::{Capability, Glob, Scope, ScopeKey, Spec};
use crate::decide::grant_command;
use crate::manifest::PathEntry;
use crate::policy::{Grant, PlacedScope, Policy};
use crate::profile::PROTECTED;
use sbx_platform::path::within;
use sbx_platform::plan::Rights;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most entries that are looked at to expand the patterns of one record.
const MAX_LOOKED_AT: usize = 50_000;
/// The most files that patterns may open one by one.
const MAX_MATCHES: usize = 2_000;

/// Places and what may be done there, parents before children.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    rights: BTreeMap<PathBuf, Rights>,
    /// Places that a grant names by a path without wildcards, which is what opens a protected one.
    named: Vec<(PathBuf, Rights)>,
    /// Where the kernel holds less than `decide` allows, each in a sentence, with a command below it that would help.
    pub(super) narrower: Vec<String>,
    looked_at: usize,
}

impl Places {
    /// Everything the agent's file grants open.
    pub(super) fn of(policy: &Policy, host: &dyn Host) -> Result<Self, LowerError> {
        let mut places = Self::default();
        let verbs = [
            (Capability::FsRead, Rights::READ | Rights::LIST),
            (Capability::FsWrite, Rights::WRITE),
            (Capability::FsDelete, Rights::REMOVE),
        ];
        for (capability, rights) in verbs {
            for grant in policy.held(capability) {
                places.add_grant(grant, rights, host)?;
            }
        }
        for (capability, rights) in verbs {
            policy.held(capability).for_each(|grant| places.note_names(policy, grant, rights, host));
        }
        // No grant leads into the log; one that contains it is covered there, see `View::hide`.
        let hidden = &policy.facts().state_dir;
        places.rights.retain(|path, _| !within(path, hidden));
        places.named.retain(|(path, _)| !within(path, hidden));
        Ok(places)
    }

    /// Adds rights on a path.
    pub(super) fn add(&mut self, path: PathBuf, rights: Rights) {
        let held = self.rights.entry(path).or_default();
        *held = *held | rights;
    }

    /// Paths with their own rights, parents first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, Rights)> {
        self.rights.iter().map(|(path, rights)| (path.as_path(), *rights))
    }

    /// What may be done at a path by its own and its ancestors' rights.
    pub(super) fn rights_at(&self, path: &Path) -> Rights {
        let above = self.rights.iter().filter(|(place, _)| within(path, place));
        above.fold(Rights::NONE, |all, (_, rights)| all | *rights)
    }

    /// Whether anything at a path can be changed.
    pub(super) fn is_writable(&self, path: &Path) -> bool {
        changes(self.rights_at(path))
    }

    /// Places with a right that a grant names without wildcards.
    pub(super) fn named(&self, right: Rights) -> impl Iterator<Item = &Path> {
        self.named.iter().filter(move |(_, rights)| rights.contains(right)).map(|(path, _)| path.as_path())
    }

    fn add_grant(&mut self, grant: &Grant, rights: Rights, host: &dyn Host) -> Result<(), LowerError> {
        let (Some(root), PlacedScope::Fs { paths }) = (&grant.root, &grant.scope) else { return Ok(()) };
        let whole = [PathEntry { base: root.clone(), glob: None }];
        for entry in paths.as_deref().unwrap_or(&whole) {
            self.add_entry(grant, root, entry, rights, host)?;
        }
        let literal =
            paths.iter().flatten().filter(|entry| entry.glob.is_none() && within(&entry.base, root));
        self.named.extend(literal.map(|entry| (entry.base.clone(), rights)));
        Ok(())
    }

    /// A name belongs to the directory above: where that cannot be changed, one that is named alone can be neither made
    /// nor taken away.
    fn note_names(&mut self, policy: &Policy, grant: &Grant, rights: Rights, host: &dyn Host) {
        let PlacedScope::Fs { paths: Some(entries) } = &grant.scope else { return };
        for path in entries.iter().filter(|entry| entry.glob.is_none()).map(|entry| &entry.base) {
            let above = path.parent().map(|above| self.rights_at(above)).unwrap_or_default();
            let alone = |right| rights.contains(right) && !above.contains(right);
            let lack = match host.kind(path) {
                None if alone(Rights::WRITE) => "is not there yet and cannot be made alone",
                Some(Kind::File) if alone(Rights::REMOVE) => "cannot be taken away alone",
                None | Some(_) => continue,
            };
            let told = format!("{}: {} {lack}; grant the directory it is in", grant.spec, path.display());
            let command = directory_grant(policy, grant.capability(), path);
            self.narrower.push(told + &command.map_or_else(String::new, |command| format!("\n  {command}")));
        }
    }

    fn add_entry(
        &mut self,
        grant: &Grant,
        root: &Path,
        entry: &PathEntry,
        rights: Rights,
        host: &dyn Host,
    ) -> Result<(), LowerError> {
        // A clamp may leave the entry's base above the root; what counts is below both.
        let base =
            if within(root, &entry.base) && entry.glob.is_none() { root } else { entry.base.as_path() };
        // A link could have been planted: only what is really there is opened.
        if !within(base, root) && entry.glob.is_none() || host.real(base).as_deref() != Some(base) {
            return Ok(());
        }
        match &entry.glob {
            None => self.add(base.to_path_buf(), rights),
            Some(glob) if glob.as_str() == "**" && within(base, root) => self.add(base.to_path_buf(), rights),
            Some(glob) => {
                self.narrower.push(format!("{}: only files that match now are open", grant.spec));
                self.expand(base, base, root, glob, rights, host)?;
            }
        }
        Ok(())
    }

    /// Opens every file below `dir` that matches now. Directories that match are left out: opening one
    /// would open all below it.
    fn expand(
        &mut self,
        dir: &Path,
        base: &Path,
        root: &Path,
        glob: &Glob,
        rights: Rights,
        host: &dyn Host,
    ) -> Result<(), LowerError> {
        let mut pending = vec![dir.to_path_buf()];
        while let Some(dir) = pending.pop() {
            for name in host.names(&dir) {
                let path = dir.join(name);
                self.looked_at += 1;
                if self.looked_at > MAX_LOOKED_AT || self.rights.len() > MAX_MATCHES {
                    return Err(LowerError::PatternTooWide {
                        pattern: glob.as_str().to_owned(),
                        base: base.to_path_buf(),
                    });
                }
                let Ok(rest) = path.strip_prefix(base) else { continue };
                // No pattern opens a protected path.
                if changes(rights) && PROTECTED.iter().any(|protected| protected.find(&path).is_some()) {
                    continue;
                }
                match host.kind(&path) {
                    Some(Kind::Directory) => pending.push(path),
                    Some(Kind::File)
                        if within(&path, root) && glob.matches(rest.as_os_str().as_encoded_bytes()) =>
                    {
                        self.add(path, rights);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// What gives the directory of a name, unless that would be a home or more, or lies beyond every root.
fn directory_grant(policy: &Policy, capability: Capability, path: &Path) -> Option<String> {
    let directory = path.parent().filter(|directory| !within(&policy.facts().home, directory))?;
    let beyond = policy.chain().root().is_some_and(|root| !within(directory, root));
    let text = directory.to_str().filter(|text| !beyond && !text.chars().any(char::is_control))?;
    let spec = Spec { capability, scope: Scope::bare().with_text(ScopeKey::In, text) };
    Some(grant_command(policy.agent(), &spec.to_string()))
}

/// Everything a record opens to what runs for it, links followed.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    places: Vec<(PathBuf, bool)>,
    /// The home and sbx's own directories.
    home: PathBuf,
    own: [PathBuf; 2],
}

/// What a policy opens: the places of its file grants, and those its commands run in.
///
/// # Errors
/// When a pattern opens too much to be looked at.
pub fn opened(policy: &Policy, host: &dyn Host) -> Result<Opened, LowerError> {
    let mut places = Places::of(policy, host)?;
    for verb in [Capability::ProcExec, Capability::ProcEval] {
        policy
            .held(verb)
            .filter_map(|grant| grant.root.clone())
            .for_each(|root| places.add(root, Rights::READ));
    }
    Ok(Opened::of(&places, policy))
}

impl Opened {
    pub(super) fn of(places: &Places, policy: &Policy) -> Self {
        let facts = policy.facts();
        Self {
            places: places.iter().map(|(path, _)| (path.to_path_buf(), places.is_writable(path))).collect(),
            home: facts.home.clone(),
            own: [facts.state_dir.clone(), facts.config_dir.clone()],
        }
    }

    /// Whether a path lies in any of it.
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        self.places.iter().any(|(place, _)| within(path, place))
    }

    /// The places that may be changed.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().filter(|(_, writable)| *writable).map(|(place, _)| place.as_path())
    }

    /// What a part of a command would show that nobody granted: the surroundings of a place, of the home or of sbx's
    /// own files.
    #[must_use]
    pub fn bared_by(&self, part: &Path) -> Option<&Path> {
        let others = self.places.iter().map(|(place, _)| place).chain([&self.home]);
        let others = others.filter(|_| !self.holds(part));
        self.own.iter().chain(others).map(PathBuf::as_path).find(|held| within(held, part))
    }
}

/// Whether rights let something be changed.
fn changes(rights: Rights) -> bool {
    rights.contains(Rights::WRITE) || rights.contains(Rights::REMOVE)
}
