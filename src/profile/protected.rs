//! Protected paths: what runs code on the user's behalf later.

use super::system::rows;
use std::path::Path;
use std::sync::LazyLock;

/// Who may open a protected path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A grant whose `paths` names that very path.
    Named,
    /// No grant at all.
    Never,
}

/// A path that no wider grant opens for writing or deleting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtectedPath {
    /// Consecutive components, wherever they stand in a tree; `*` is any one, but not the last.
    pub components: Vec<&'static str>,
    /// Who may open it.
    pub opening: Opening,
    /// What it could do.
    pub why: &'static str,
    /// The last component, by which it is found.
    last: &'static [u8],
}

/// The shipped list, read from `profiles/base/protected.txt`.
///
/// In the order of the last components, by which it is searched.
pub static PROTECTED: LazyLock<Vec<ProtectedPath>> = LazyLock::new(|| {
    let row = |mut cells: std::vec::IntoIter<&'static str>| {
        let components: Vec<&'static str> = cells.next()?.split('/').collect();
        let opening = if cells.next()? == "named" { Opening::Named } else { Opening::Never };
        let last = components.last()?.as_bytes();
        Some(ProtectedPath { components, opening, why: cells.next()?, last })
    };
    let text = include_str!("../../profiles/base/protected.txt");
    let mut list: Vec<ProtectedPath> =
        rows(text).filter_map(|cells| row(cells.collect::<Vec<_>>().into_iter())).collect();
    list.sort_by_key(|protected| protected.last);
    list
});

impl ProtectedPath {
    /// The longest part of `path` that ends with the protected name, when `path` is that or lies below it.
    #[must_use]
    pub fn find<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        (0..path.components().count()).find_map(|above| self.ends(path, above))
    }

    /// The part of `path` that many components up, when it ends with the protected name.
    fn ends<'a>(&self, path: &'a Path, above: usize) -> Option<&'a Path> {
        fits(&self.components, names_from_the_end(path).skip(above))
            .then(|| path.ancestors().nth(above))
            .flatten()
    }

    /// Whether it stands for more than one path in a place.
    #[must_use]
    pub fn has_wildcard(&self) -> bool {
        self.components.iter().any(|component| component.starts_with('*'))
    }
}

/// Whether a path, given from its end, ends with the wanted components.
fn fits<'a>(wanted: &[&str], mut names: impl Iterator<Item = &'a [u8]> + Clone) -> bool {
    let Some((last, before)) = wanted.split_last() else { return true };
    let Some(name) = names.next() else { return false };
    match *last {
        "**" => fits(before, names.clone()) || fits(wanted, names),
        "*" => fits(before, names),
        last => last.as_bytes() == name && fits(before, names),
    }
}

/// What protects a path most, and which part of the path that is.
///
/// One path can lie below several protected ones: `.vscode/.sbx` is both. What is never opened comes
/// first, then the deepest, because a grant that names something below the deepest names it below all.
#[must_use]
pub fn strictest(path: &Path) -> Option<(&'static ProtectedPath, &Path)> {
    let mut strictest = None;
    for (above, name) in names_from_the_end(path).enumerate() {
        for protected in ending_with(name) {
            let Some(part) = protected.ends(path, above) else { continue };
            if protected.opening == Opening::Never {
                return Some((protected, part));
            }
            strictest = strictest.or(Some((protected, part)));
        }
    }
    strictest
}

/// The components of a path as bytes, the last first. Asked for every write, and std's own are slower.
fn names_from_the_end(path: &Path) -> impl Iterator<Item = &[u8]> + Clone {
    let names = path.as_os_str().as_encoded_bytes().rsplit(|byte| *byte == b'/');
    names.filter(|name| !matches!(*name, b"" | b"."))
}

/// The protected paths whose last component is `name`.
fn ending_with(name: &[u8]) -> &'static [ProtectedPath] {
    let list = PROTECTED.as_slice();
    let first = list.partition_point(|protected| protected.last < name);
    let rest = &list[first..];
    &rest[..rest.partition_point(|protected| protected.last == name)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_protection_counts() {
        let (protected, part) = strictest(Path::new("/w/.vscode/.sbx/agents/a.md")).unwrap();
        assert_eq!((protected.opening, part), (Opening::Never, Path::new("/w/.vscode/.sbx")));
        let (_, part) = strictest(Path::new("/w/.vscode/.bashrc/.vscode/x")).unwrap();
        assert_eq!(part, Path::new("/w/.vscode/.bashrc/.vscode"));
        let (_, part) = strictest(Path::new("/w/./.git//hooks/x/")).unwrap();
        assert_eq!(part, Path::new("/w/.git/hooks"));
        assert!(strictest(Path::new("/w/src/main.rs")).is_none());
    }

    fn find(name: &str, path: &str) -> Option<String> {
        let protected = PROTECTED.iter().find(|p| p.components.join("/") == name).unwrap();
        protected.find(Path::new(path)).map(|found| found.display().to_string())
    }

    #[test]
    fn every_line_of_the_list_is_read() {
        let lines =
            include_str!("../../profiles/base/protected.txt").lines().filter(|l| !l.starts_with('#')).count();
        assert_eq!(PROTECTED.len(), lines);
        assert!(PROTECTED.iter().all(|path| !path.why.is_empty()));
    }

    #[test]
    fn a_protected_name_is_found_at_any_depth() {
        assert_eq!(find(".git/hooks", "/w/sub/.git/hooks/pre-commit").unwrap(), "/w/sub/.git/hooks");
        assert_eq!(find(".git/hooks", "/w/.git/hooks").unwrap(), "/w/.git/hooks");
        assert_eq!(find(".git/hooks", "/w/.git/hooksx"), None);
        assert_eq!(find(".git/hooks", "/w/.git"), None);
        assert_eq!(find(".bashrc", "/.bashrc").unwrap(), "/.bashrc");
        let modules = ".git/modules/**/hooks";
        assert_eq!(find(modules, "/w/.git/modules/m/hooks/x").unwrap(), "/w/.git/modules/m/hooks");
        assert_eq!(find(modules, "/w/.git/modules/a/b/hooks/x").unwrap(), "/w/.git/modules/a/b/hooks");
        assert_eq!(find(modules, "/w/.git/modules/m/objects/x"), None);
        assert_eq!(find(modules, "/w/.git/modules/hooks"), None);
        let tree = "/w/.git/worktrees/t/gitdir";
        assert_eq!(find(".git/worktrees/*/gitdir", tree).unwrap(), tree);
    }
}
