//! A grant written below one root, said again below the root it was clamped to.
//!
//! Invariant: the result never covers more; what cannot be said below the new root is left out.

use super::Facts;
use super::paths::PathEntry;
use crate::capability::{Scope, ScopeKey, has_separator, is_literal};
use sbx_platform::path::{normalize, within};
use std::path::Path;

/// The same scope without `in`, its relative entries spelled out from `old`, as far as they lie in `new`.
pub(super) fn reroot(scope: &Scope, old: &Path, new: &Path, facts: &Facts) -> Scope {
    let each = |scope: Scope, key, say: &dyn Fn(&str) -> Option<String>| match scope.list(key) {
        Some(items) => {
            let said: Vec<String> = items.iter().filter_map(|item| say(item)).collect();
            scope.with_list(key, said)
        }
        None => scope,
    };
    let scope = each(scope.clone(), ScopeKey::Paths, &|entry| path(entry, old, new, facts));
    let scope = each(scope, ScopeKey::Cmds, &|entry| program(entry, old));
    each(scope, ScopeKey::Patterns, &|entry| pattern(entry, old))
}

fn path(entry: &str, old: &Path, new: &Path, facts: &Facts) -> Option<String> {
    let placed = PathEntry::parse(entry, old, facts).ok()?;
    if within(&placed.base, new) {
        let base = placed.base.to_str()?.trim_end_matches('/');
        return Some(match &placed.glob {
            Some(glob) => format!("{base}/{}", glob.as_str()),
            None => base.to_owned(),
        });
    }
    // Above the new root a tree holds all of it; a pattern may or may not, and is not carried over.
    (placed.glob.is_none() && within(new, &placed.base)).then(|| ".".to_owned())
}

fn program(entry: &str, old: &Path) -> Option<String> {
    if !has_separator(entry) || entry.starts_with('/') || entry.starts_with("~/") {
        return Some(entry.to_owned());
    }
    normalize(&old.join(entry)).to_str().map(str::to_owned)
}

fn pattern(entry: &str, old: &Path) -> Option<String> {
    let line = entry.trim_start();
    let end = line.find(char::is_whitespace).unwrap_or(line.strip_suffix(":*").unwrap_or(line).len());
    let (first, rest) = line.split_at(end);
    if is_literal(first) { Some(format!("{}{rest}", program(first, old)?)) } else { Some(entry.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Spec;

    fn moved(text: &str) -> String {
        let spec = Spec::parse(text).unwrap();
        let scope = reroot(&spec.scope, Path::new("/"), Path::new("/w/app"), &Facts::new("/home/u"));
        Spec { scope, ..spec }.to_string()
    }

    #[test]
    fn relative_entries_keep_meaning_what_they_meant() {
        assert_eq!(
            moved("fs.read{paths=[w/app/a,w,etc,w/app/b/*]}"),
            "fs.read{paths=[/w/app/a,.,/w/app/b/*]}"
        );
        assert_eq!(moved("proc.exec{cmds=[git,./t,/x/y]}"), "proc.exec{cmds=[git,/t,/x/y]}");
        assert_eq!(
            moved("proc.exec{patterns=[./t a *,git log,./t:*]}"),
            "proc.exec{patterns=[/t a *,git log,/t:*]}"
        );
    }

    #[test]
    fn a_pattern_that_starts_above_the_new_root_is_left_out() {
        assert_eq!(moved("fs.read{paths=[**/*.rs]}"), "fs.read{paths=[]}");
    }
}
