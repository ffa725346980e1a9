//! Where things are: the project, the home, the system, and what is known of them.

use crate::manifest::Facts;
use crate::plan::{Host, Kind};
use crate::profile::{KnownPlace, PROTECTED, PlaceSort, ProtectedPath, known_places, system_view};
use sbx_platform::path::{normalize, within};
use std::path::{Path, PathBuf};

/// Private inside, or made for the launch, whatever stands there outside.
const OWN: &[&str] = &["/tmp", "/var/tmp", "/proc", "/dev", "/run", "/sys", "/home/sbx"];
const MADE: &[&str] = &["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];

/// So many names are looked through for private ones.
const LOOKED_THROUGH: usize = 4096;

pub(super) struct World<'w> {
    pub(super) facts: &'w Facts,
    pub(super) host: &'w dyn Host,
}

impl<'w> World<'w> {
    pub(super) fn new(facts: &'w Facts, host: &'w dyn Host) -> Self {
        Self { facts, host }
    }

    /// The directory the record is about.
    pub(super) fn project(&self) -> &Path {
        self.facts.project.as_deref().unwrap_or(&self.facts.cwd)
    }

    /// Where a path really is: links followed as far as it exists.
    pub(super) fn real(&self, path: &Path) -> PathBuf {
        for above in path.ancestors() {
            if let Some(real) = self.host.real(above) {
                let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
                return normalize(&real.join(rest));
            }
        }
        path.to_path_buf()
    }

    pub(super) fn in_project(&self, path: &Path) -> bool {
        within(path, self.project())
    }

    /// Whether every fenced process has it anyway. The project and the home may lie in such a place.
    pub(super) fn is_given(&self, path: &Path) -> bool {
        let ours = self.in_project(path) || within(path, &self.facts.home);
        let own = OWN.iter().any(|own| within(path, Path::new(own)));
        let made = MADE.iter().any(|made| path == Path::new(made));
        made || !ours && own || system_view().any(|(place, _)| within(path, Path::new(place)))
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.host.kind(path).is_some()
    }

    pub(super) fn is_dir(&self, path: &Path) -> bool {
        self.host.kind(path) == Some(Kind::Directory)
    }

    /// What is known of a path below the home directory: the place itself, and what it is.
    pub(super) fn known(&self, path: &Path, sort: PlaceSort) -> Option<(PathBuf, KnownPlace)> {
        let place = |known: KnownPlace| (self.facts.home.join(known.path), known);
        known_places(sort)
            .map(place)
            .filter(|(place, _)| within(path, place))
            .max_by_key(|(_, known)| known.path.len())
    }

    /// Whether a directory may be proposed with all that is in it: it is not the home or above it, and no secret place
    /// lies in it.
    pub(super) fn may_be_whole(&self, place: &Path) -> bool {
        let home = &self.facts.home;
        let secret = |known: KnownPlace| within(&home.join(known.path), place);
        !within(home, place) && !known_places(PlaceSort::Secret).any(secret)
    }

    /// Whether something below a directory has a name that often means secrets; one that is too large to look through
    /// may hold anything.
    pub(super) fn holds_private(&self, dir: &Path) -> bool {
        let mut pending = vec![dir.to_path_buf()];
        let mut left = LOOKED_THROUGH;
        while let Some(dir) = pending.pop() {
            for name in self.host.names(&dir) {
                let path = dir.join(name);
                if left == 0 || self.private(&path).is_some() {
                    return true;
                }
                left -= 1;
                // A link is judged by where it leads, so that nothing is opened by it.
                if self.is_dir(&path) {
                    pending.push(path);
                }
            }
        }
        false
    }

    /// A name that often means secrets, wherever it stands.
    pub(super) fn private(&self, path: &Path) -> Option<KnownPlace> {
        let name = path.file_name()?;
        known_places(PlaceSort::Private).find(|known| name == known.path)
    }

    /// A path that no wider grant opens.
    pub(super) fn protected(&self, path: &Path) -> Option<&'static ProtectedPath> {
        PROTECTED.iter().find(|protected| protected.find(path).is_some())
    }

    /// A root as people write it.
    pub(super) fn written(&self, path: &Path) -> String {
        if self.facts.project.as_deref() == Some(path) {
            return "$PROJECT".to_owned();
        }
        match path.strip_prefix(&self.facts.home) {
            Ok(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Ok(rest) => format!("~/{}", rest.display()),
            Err(_) => path.display().to_string(),
        }
    }
}
