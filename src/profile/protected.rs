//! Protected paths: what runs code on the user's behalf later.

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
    /// Consecutive components, wherever they stand in a tree.
    pub path: &'static Path,
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
    let mut list: Vec<ProtectedPath> =
        include_str!("../../profiles/base/protected.txt").lines().filter_map(row).collect();
    list.sort_by_key(|protected| protected.last);
    list
});

fn row(line: &'static str) -> Option<ProtectedPath> {
    let mut cells = line.split('|').map(str::trim);
    let path = cells.next().filter(|path| !path.is_empty() && !path.starts_with('#'))?;
    let opening = if cells.next()? == "named" { Opening::Named } else { Opening::Never };
    let path = Path::new(path);
    let last = path.file_name()?.as_encoded_bytes();
    Some(ProtectedPath { path, opening, why: cells.next()?, last })
}

impl ProtectedPath {
    /// The longest part of `path` that ends with the protected name, when `path` is that or lies below it.
    #[must_use]
    pub fn find<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.ancestors().find(|part| part.ends_with(self.path))
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
            let Some(part) = path.ancestors().nth(above).filter(|part| part.ends_with(protected.path)) else {
                continue;
            };
            if protected.opening == Opening::Never {
                return Some((protected, part));
            }
            strictest = strictest.or(Some((protected, part)));
        }
    }
    strictest
}

/// The components of a path as bytes, the last first. Asked for every write, and std's own are slower.
fn names_from_the_end(path: &Path) -> impl Iterator<Item = &[u8]> {
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
        let protected = PROTECTED.iter().find(|p| p.path == Path::new(name)).unwrap();
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
    }
}
