//! What no right opens: protected paths, protected names, and the ways by which either could be swapped.
//!
//! Answers for the filters that are taken out of every right to change something. Renaming is unlinking and
//! making, so what leads to a protected path can be neither unlinked nor made: else a prepared directory could
//! be moved into its place. It leaves the rules to [`super::seatbelt`].
//! Invariant: paths and names match whatever their letters' case is, because the file system does not tell cases
//! apart.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::base;
use super::sbpl::{Filter, LONGEST, bad};
use crate::error::PlatformError;
use crate::path::within;
use crate::plan::{Plan, ProtectedName};

/// What a right to change is without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Making and writing.
    Make,
    /// Taking away.
    Take,
}

/// Everything that a right to change something below `places` does not open.
pub(super) fn kept(
    plan: &Plan,
    hidden: &[PathBuf],
    places: &[PathBuf],
    change: Change,
) -> Result<Vec<Filter>, PlatformError> {
    let mut kept = Vec::new();
    let mut ways = BTreeSet::new();
    for path in plan.protect.iter().chain(hidden) {
        if !places.iter().any(|place| within(path, place) || within(place, path)) {
            continue;
        }
        kept.extend(super::seatbelt::spellings(path).map(|path| below(&path)));
        // A name is protected wherever it is moved to; a path is not.
        if plan.protect_names.iter().any(|name| path.ends_with(PathBuf::from_iter(&name.components))) {
            continue;
        }
        let above = path.ancestors().skip(1);
        ways.extend(
            above.filter(|above| places.iter().any(|place| within(above, place))).map(Path::to_path_buf),
        );
    }
    kept.extend(ways.iter().flat_map(|way| super::seatbelt::spellings(way)).map(|way| itself(&way)));
    let mut leads = Vec::new();
    for name in plan.protect_names.iter() {
        let open = if change == Change::Make { &name.may_make } else { &name.may_take };
        let opened = open.iter().flat_map(|path| super::seatbelt::spellings(path)).map(Filter::Subpath);
        kept.push(Filter::Regex(named(&name.components, "(/.*)?")?).without(opened));
        for lead in leading(name)? {
            if !leads.contains(&lead) {
                leads.push(lead);
            }
        }
    }
    kept.extend(leads);
    Ok(kept)
}

/// A path and all below it, in any case.
pub(super) fn below(path: &Path) -> Filter {
    in_any_case(path, "(/.*)?").map_or_else(|| Filter::Subpath(path.to_path_buf()), Filter::Regex)
}

/// A path, in any case.
fn itself(path: &Path) -> Filter {
    in_any_case(path, "").map_or_else(|| Filter::Literal(path.to_path_buf()), Filter::Regex)
}

/// An expression for a path. What exists has the letters it was made with, so where the whole would be too long the
/// last parts are free, which are those that may be missing yet; none when the path alone is too long.
fn in_any_case(path: &Path, rest: &str) -> Option<String> {
    let parts: Vec<&str> = path.iter().skip(1).map(OsStr::to_str).collect::<Option<_>>()?;
    (0..=parts.len()).find_map(|fixed| {
        let mut regex = String::from("^");
        for (at, part) in parts.iter().enumerate() {
            regex.push('/');
            part.chars()
                .for_each(|c| if at < fixed { verbatim(c, &mut regex) } else { letter(c, &mut regex) });
        }
        regex.push_str(rest);
        regex.push('$');
        (regex.len() <= LONGEST).then_some(regex)
    })
}

/// What leads to a protected name of several parts.
fn leading(name: &ProtectedName) -> Result<Vec<Filter>, PlatformError> {
    let prefixes = (1..name.components.len()).map(|length| &name.components[..length]);
    prefixes
        .map(|prefix| {
            let whole = Filter::Regex(named(prefix, "")?);
            if prefix.last().is_some_and(|last| &**last == OsStr::new("**")) {
                let root = named(&prefix[..prefix.len() - 1], "")?;
                let root = root.trim_end_matches('$');
                let made = base::made_in_repository().map(|rest| Filter::Regex(format!("{root}/{rest}$")));
                return Ok(whole.without(made));
            }
            Ok(whole)
        })
        .collect()
}

/// An expression for the paths that end with these parts, wherever they stand.
fn named(parts: &[impl AsRef<OsStr>], rest: &str) -> Result<String, PlatformError> {
    let mut regex = String::from("^/(.*/)?");
    for (at, part) in parts.iter().enumerate() {
        let part = part.as_ref().to_str().ok_or_else(|| bad("a protected name is not UTF-8".to_owned()))?;
        if at > 0 {
            regex.push('/');
        }
        match part {
            "*" => regex.push_str("[^/]+"),
            "**" => regex.push_str(".+"),
            part => part.chars().for_each(|c| letter(c, &mut regex)),
        }
    }
    regex.push_str(rest);
    regex.push('$');
    Ok(regex)
}

/// A character that stands for itself, in either case. Two letters have a third form, the long s and the sign for
/// kelvin, which are no ASCII; expressions are.
fn letter(c: char, regex: &mut String) {
    let (low, high) = (c.to_ascii_lowercase(), c.to_ascii_uppercase());
    match c {
        's' | 'S' | 'k' | 'K' => regex.push_str(&format!("([{low}{high}]|[^ -~]+)")),
        c if c.is_ascii_alphabetic() => regex.extend(['[', low, high, ']']),
        c => verbatim(c, regex),
    }
}

/// A character that stands for itself. What an expression cannot hold, or what has several spellings, stands for any.
fn verbatim(c: char, regex: &mut String) {
    match c {
        '^' | '[' | ']' | '\\' | '"' => regex.push_str("[^/]"),
        '-' | '_' => regex.push(c),
        c if c.is_ascii_punctuation() => regex.extend(['[', c, ']']),
        c if c.is_ascii() => regex.push(c),
        _ => regex.push_str("[^/]+"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_an_expression_of_both_cases() {
        assert_eq!(named(&[".git"], "(/.*)?").unwrap(), "^/(.*/)?[.][gG][iI][tT](/.*)?$");
        assert_eq!(named(&["sk"], "").unwrap(), "^/(.*/)?([sS]|[^ -~]+)([kK]|[^ -~]+)$");
        assert_eq!(named(&["a", "*", "**", "b-c"], "").unwrap(), "^/(.*/)?[aA]/[^/]+/.+/[bB]-[cC]$");
    }

    #[test]
    fn a_path_becomes_an_expression_that_any_profile_can_hold() {
        let regex = |path: &str| in_any_case(Path::new(path), "").unwrap();
        assert_eq!(regex("/a/.b c"), "^/[aA]/[.][bB] [cC]$");
        assert_eq!(regex("/a\"^[]\\/\u{e9}1"), "^/[aA][^/][^/][^/][^/][^/]/[^/]+1$");
        let long = format!("/{}/{}/.c", "a".repeat(150), "b".repeat(150));
        assert_eq!(regex(&long), format!("^/{}/{}/[.][cC]$", "a".repeat(150), "[bB]".repeat(150)));
        assert_eq!(
            below(Path::new(&format!("/{}", "a".repeat(899)))),
            Filter::Subpath(format!("/{}", "a".repeat(899)).into())
        );
    }
}
