//! Protected paths: what runs code on the user's behalf later.

use super::system::rows;
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
    /// Consecutive components, wherever they stand in a tree; `*` is any one.
    pub components: Vec<&'static str>,
    /// Who may open it.
    pub opening: Opening,
    /// What it could do.
    pub why: &'static str,
}

/// The shipped list, read from `profiles/base/protected.txt`.
pub static PROTECTED: LazyLock<Vec<ProtectedPath>> = LazyLock::new(|| {
    rows(include_str!("../../profiles/base/protected.txt"))
        .filter_map(|mut cells| {
            let components = cells.next()?.split('/').collect();
            let opening = if cells.next()? == "named" { Opening::Named } else { Opening::Never };
            Some(ProtectedPath { components, opening, why: cells.next()? })
        })
        .collect()
});

impl ProtectedPath {
    /// The part of `path` that ends with the protected name, when `path` is that or lies below it.
    #[must_use]
    pub fn find<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let wanted = self.components.len();
        let depth = path.components().count();
        (0..depth.saturating_sub(wanted - 1)).find_map(|skip| {
            let same =
                path.components().skip(skip).zip(&self.components).all(|(component, name)| match component {
                    Component::Normal(found) => *name == "*" || found == *name,
                    _ => false,
                });
            same.then(|| path.ancestors().nth(depth - skip - wanted)).flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            find(".git/modules/*/hooks", "/w/.git/modules/m/hooks/x").unwrap(),
            "/w/.git/modules/m/hooks"
        );
        assert_eq!(find(".git/modules/*/hooks", "/w/.git/modules/m/objects/x"), None);
    }
}
