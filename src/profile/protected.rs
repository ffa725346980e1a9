//! Protected paths: what runs code on the user's behalf later.

use super::table::{count, rows};
use sbx_platform::fold::{Folded, is_folded};
use std::path::Path;

/// Who may open a protected path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A grant whose `paths` names that very path.
    Named,
    /// No grant at all.
    Never,
}

/// A path that no wider grant opens for writing or deleting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtectedPath {
    /// Consecutive components, wherever they stand in a tree; `*` is any one, but not the last.
    pub name: &'static str,
    /// Who may open it.
    pub opening: Opening,
    /// What it could do.
    pub why: &'static str,
}

const TEXT: &str = include_str!("../../profiles/base/protected.txt");

/// The shipped list, from `profiles/base/protected.txt`, in the order of the last components, by which it is
/// searched.
pub static PROTECTED: [ProtectedPath; count(TEXT)] = in_order(rows(TEXT));

const fn in_order<const ROWS: usize>(rows: [[&'static str; 3]; ROWS]) -> [ProtectedPath; ROWS] {
    let mut list = [ProtectedPath { name: "", opening: Opening::Never, why: "" }; ROWS];
    let mut row = 0;
    while row < ROWS {
        let [name, opening, why] = rows[row];
        let named = matches!(opening.as_bytes(), b"named");
        assert!(
            named || matches!(opening.as_bytes(), b"never"),
            "a protected path is opened by `named` or `never`"
        );
        let opening = if named { Opening::Named } else { Opening::Never };
        let mut place = row;
        while place > 0 && is_before(last(name), last(list[place - 1].name)) {
            list[place] = list[place - 1];
            place -= 1;
        }
        list[place] = ProtectedPath { name, opening, why };
        row += 1;
    }
    list
}

/// The last component.
const fn last(name: &str) -> &[u8] {
    let mut from = name.len();
    while from > 0 && name.as_bytes()[from - 1] != b'/' {
        from -= 1;
    }
    name.as_bytes().split_at(from).1
}

const fn is_before(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at < other.len() && (at == one.len() || one[at] < other[at])
}

impl ProtectedPath {
    /// The longest part of `path` that ends with the protected name, when `path` is that or lies below it.
    #[must_use]
    pub fn find<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        (0..path.components().count()).find_map(|above| self.ends(path, above))
    }

    /// The part of `path` that many components up, when it ends with the protected name.
    fn ends<'a>(&self, path: &'a Path, above: usize) -> Option<&'a Path> {
        fits(self.name, names_from_the_end(path).skip(above)).then(|| path.ancestors().nth(above)).flatten()
    }

    /// Its components.
    pub fn components(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.name.split('/')
    }

    /// Whether it stands for more than one path in a place.
    #[must_use]
    pub fn has_wildcard(&self) -> bool {
        self.name.contains('*')
    }
}

/// Whether a path, given from its end, ends with the wanted components.
fn fits<'a>(wanted: &str, mut names: impl Iterator<Item = &'a [u8]> + Clone) -> bool {
    let Some(name) = names.next() else { return false };
    let (before, last) = wanted.rsplit_once('/').unwrap_or(("", wanted));
    let rest = |names| before.is_empty() || fits(before, names);
    match last {
        "**" => rest(names.clone()) || fits(wanted, names),
        "*" => rest(names),
        last => is_called(name, last.as_bytes()) && rest(names),
    }
}

/// Whether a name is a protected one, in whatever letters: some file systems do not tell them apart.
fn is_called(name: &[u8], wanted: &[u8]) -> bool {
    if is_folded(name) {
        return name == wanted;
    }
    Folded::of(name).is_some_and(|folded| folded.as_bytes() == wanted)
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
    if is_folded(name) {
        return ending(name);
    }
    Folded::of(name).map_or(&[], |folded| ending(folded.as_bytes()))
}

fn ending(name: &[u8]) -> &'static [ProtectedPath] {
    let first = PROTECTED.partition_point(|protected| last(protected.name) < name);
    let rest = &PROTECTED[first..];
    &rest[..rest.partition_point(|protected| last(protected.name) == name)]
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

    #[test]
    fn letters_are_not_told_apart() {
        assert!(PROTECTED.iter().all(|path| is_folded(path.name.as_bytes())));
        let (_, part) = strictest(Path::new("/w/.GIT/Hooks/x")).unwrap();
        assert_eq!(part, Path::new("/w/.GIT/Hooks"));
        assert!(strictest(Path::new("/w/.ENVRC")).is_some() && strictest(Path::new("/w/.Envrcs")).is_none());
    }

    fn find(name: &str, path: &str) -> Option<String> {
        let protected = PROTECTED.iter().find(|p| p.name == name).unwrap();
        protected.find(Path::new(path)).map(|found| found.display().to_string())
    }

    #[test]
    fn every_line_of_the_list_is_read_and_in_order() {
        let lines = TEXT.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(PROTECTED.len(), lines);
        assert!(PROTECTED.iter().all(|path| !path.why.is_empty()));
        assert!(PROTECTED.is_sorted_by_key(|path| last(path.name)));
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
