//! Protected paths: what runs code on the user's behalf later.

use std::path::{Component, Path};
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
    pub components: Vec<&'static str>,
    /// Who may open it.
    pub opening: Opening,
    /// What it could do.
    pub why: &'static str,
}

/// The shipped list, read from `profiles/base/protected.txt`.
pub static PROTECTED: LazyLock<Vec<ProtectedPath>> =
    LazyLock::new(|| include_str!("../../profiles/base/protected.txt").lines().filter_map(row).collect());

fn row(line: &'static str) -> Option<ProtectedPath> {
    let mut cells = line.split('|').map(str::trim);
    let path = cells.next().filter(|path| !path.is_empty() && !path.starts_with('#'))?;
    let opening = if cells.next()? == "named" { Opening::Named } else { Opening::Never };
    Some(ProtectedPath { components: path.split('/').collect(), opening, why: cells.next()? })
}

impl ProtectedPath {
    /// The longest part of `path` that ends with the protected name, when `path` is that or lies below it.
    #[must_use]
    pub fn find<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let wanted = self.components.len();
        let depth = path.components().count();
        (0..depth.saturating_sub(wanted - 1)).rev().find_map(|skip| {
            let same = path
                .components()
                .skip(skip)
                .zip(&self.components)
                .all(|(component, name)| component == Component::Normal(name.as_ref()));
            same.then(|| path.ancestors().nth(depth - skip - wanted)).flatten()
        })
    }
}

/// What protects a path most, and which part of the path that is.
///
/// One path can lie below several protected ones: `.vscode/.sbx` is both. What is never opened comes
/// first, then the deepest, because a grant that names something below the deepest names it below all.
#[must_use]
pub fn strictest(path: &Path) -> Option<(&'static ProtectedPath, &Path)> {
    let found = PROTECTED.iter().filter_map(|protected| Some((protected, protected.find(path)?)));
    found.max_by_key(|(protected, part)| (protected.opening == Opening::Never, part.as_os_str().len()))
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
    }
}
