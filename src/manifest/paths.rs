//! Roots and path entries as text, placed under a home directory and a project.

use super::Facts;
use crate::capability::{Glob, is_literal};
use crate::text::{Code, Problem};
use sbx_platform::path::{normalize, within};
use std::path::{Path, PathBuf};

/// A root as written, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootText {
    /// As written.
    pub written: String,
    /// Where it lies; none for a `$PROJECT` where there is no project.
    pub path: Option<PathBuf>,
}

/// Places a root: absolute, `~`, `~/…`, `$PROJECT` or `$PROJECT/…`.
///
/// # Errors
/// When it is relative, empty, another user's home or holds control characters.
pub fn expand_root(written: &str, facts: &Facts) -> Result<RootText, Problem> {
    let bad = |message: String| {
        Problem::warning(Code::ScopeType, message)
            .key("in")
            .help("a root is absolute, or starts with `~` or `$PROJECT`")
    };
    if written.chars().any(char::is_control) {
        return Err(bad("a root holds a control character".to_owned()));
    }
    let path = if let Some(rest) = after_prefix(written, "~") {
        Some(facts.home.join(rest))
    } else if let Some(rest) = after_prefix(written, "$PROJECT") {
        facts.project.as_ref().map(|project| project.join(rest))
    } else if written.starts_with('/') {
        Some(PathBuf::from(written))
    } else {
        return Err(bad(format!("the root `{written}` is not absolute")));
    };
    Ok(RootText { written: written.to_owned(), path: path.map(|path| normalize(&path)) })
}

/// What follows `prefix` or `prefix/`; none for another word that merely starts so.
fn after_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(prefix)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('/').map(|rest| rest.trim_start_matches('/')) }
}

/// One entry of `paths`, placed: a literal prefix, and what below it must match.
///
/// Without a glob it is that path and everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathEntry {
    /// The part without wildcards.
    pub base: PathBuf,
    /// The rest, matched against what follows `base`.
    pub glob: Option<Glob>,
}

impl PathEntry {
    /// Places an entry below a root. Absolute and `~` entries must lie inside the root.
    ///
    /// # Errors
    /// When it is empty or leaves the root.
    pub fn parse(entry: &str, root: &Path, facts: &Facts) -> Result<Self, Problem> {
        not_empty(entry)?;
        let absolute = if let Some(rest) = after_prefix(entry, "~") {
            Some(facts.home.join(rest))
        } else if let Some(rest) = after_prefix(entry, "$PROJECT") {
            Some(facts.project.as_ref().ok_or_else(|| escapes(entry, root))?.join(rest))
        } else {
            entry.starts_with('/').then(|| PathBuf::from(entry))
        };
        let text = absolute.as_deref().map_or(entry, |path| path.to_str().unwrap_or(entry));
        let start = if absolute.is_some() { Path::new("/") } else { root };
        let placed = Self::place(text, start).filter(|placed| within(&placed.base, root));
        placed.ok_or_else(|| escapes(entry, root))
    }

    /// Places an entry that is matched against record ids, which are relative.
    ///
    /// # Errors
    /// When it is empty, absolute or climbs.
    pub fn relative(entry: &str) -> Result<Self, Problem> {
        not_empty(entry)?;
        let placed = if entry.starts_with('/') { None } else { Self::place(entry, Path::new("")) };
        placed.ok_or_else(|| escapes(entry, Path::new("the record store")))
    }

    /// Walks the components from `start`; `..` may not climb above it, nor follow a wildcard.
    fn place(text: &str, start: &Path) -> Option<Self> {
        if text.chars().any(char::is_control) {
            return None;
        }
        let mut base = start.to_path_buf();
        let mut wild: Vec<&str> = Vec::new();
        for component in text.split('/').filter(|component| !matches!(*component, "" | ".")) {
            match component {
                ".." if !wild.is_empty() || base == start => return None,
                ".." => {
                    base.pop();
                }
                component if wild.is_empty() && is_literal(component) => base.push(component),
                component => wild.push(component),
            }
        }
        let glob = (!wild.is_empty()).then(|| Glob::new(&wild.join("/")));
        Some(Self { base, glob })
    }

    /// Whether a path is covered by this entry.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        let Ok(rest) = path.strip_prefix(&self.base) else { return false };
        let rest = rest.as_os_str().as_encoded_bytes();
        // `lib/*` and `lib/**` are about what is below `lib`, and an empty rest is `lib` itself.
        self.glob.as_ref().is_none_or(|glob| !rest.is_empty() && glob.matches(rest))
    }

    /// Whether everything `child` covers is covered here too. Errs on the side of no.
    #[must_use]
    pub fn covers(&self, child: &Self) -> bool {
        if self == child {
            return true;
        }
        match self.glob.as_ref().map(Glob::as_str) {
            None => within(&child.base, &self.base),
            Some("**") => {
                within(&child.base, &self.base) && (child.glob.is_some() || child.base != self.base)
            }
            Some(_) => false,
        }
    }
}

/// An empty entry would be the root itself, and so everything.
fn not_empty(entry: &str) -> Result<(), Problem> {
    if !entry.is_empty() {
        return Ok(());
    }
    let problem = Problem::warning(Code::ScopeType, "a path is empty, which means nothing");
    Err(problem.key("paths").help("write `.` for the root itself, or leave `paths` out for all below it"))
}

fn escapes(entry: &str, root: &Path) -> Problem {
    Problem::warning(Code::PathEscapesIn, format!("the path `{entry}` leaves {}", root.display()))
        .key("paths")
        .help("paths are relative to the grant's root; give another place its own grant")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Result<PathEntry, Problem> {
        PathEntry::parse(text, Path::new("/w"), &Facts::new("/home/u"))
    }

    #[test]
    fn an_empty_entry_is_nothing_and_a_dot_is_the_root() {
        assert!(entry("").is_err() && PathEntry::relative("").is_err());
        assert_eq!(entry(".").unwrap().base, Path::new("/w"));
    }

    #[test]
    fn entries_that_leave_the_root_are_refused() {
        for text in ["../x", "a/../../x", "/etc/**", "~/x", "/", "/wx", "*/../x", "/w/../etc"] {
            assert!(entry(text).is_err(), "{text}");
        }
    }

    #[test]
    fn entries_inside_the_root_are_placed() {
        for (text, path) in
            [("./lib/**", "/w/lib/x"), ("/w/lib", "/w/lib/x/y"), ("a/../b", "/w/b"), (".", "/w/x")]
        {
            assert!(entry(text).unwrap().matches(Path::new(path)), "{text}");
        }
    }

    #[test]
    fn a_literal_is_that_path_and_all_below() {
        let lib = entry("lib").unwrap();
        assert!(lib.matches(Path::new("/w/lib")) && lib.matches(Path::new("/w/lib/a/b")));
        assert!(!lib.matches(Path::new("/w/library")));
    }

    #[test]
    fn a_wildcard_is_about_what_lies_below() {
        for text in ["lib/*", "lib/**"] {
            let below = entry(text).unwrap();
            assert!(below.matches(Path::new("/w/lib/a")) && !below.matches(Path::new("/w/lib")), "{text}");
        }
        assert!(!entry("*").unwrap().matches(Path::new("/w")));
    }

    #[test]
    fn inclusion_is_conservative() {
        let covers = |a: &str, b: &str| entry(a).unwrap().covers(&entry(b).unwrap());
        assert!(covers("lib/**", "lib/a/**") && covers("lib/**", "lib/a") && covers("lib", "lib/*.rs"));
        assert!(covers("lib/**", "lib/*") && covers("*.md", "*.md") && covers(".", "**"));
        assert!(!covers("lib/*", "lib/**") && !covers("lib/**", "lib") && !covers("*.md", "a.md"));
    }
}
