//! How the parts of a path meet the parts of a protected name.
//!
//! Answers for comparing, whatever the letters. It leaves what follows from it to [`super::protect`].
//! Invariant: a name that is compared is written in small letters.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Component, Path};

use crate::fold::folded;
use crate::plan::ProtectedName;

/// The parts of a path, in the spelling of protected names: some file systems do not tell letters apart.
pub(super) fn parts_of(path: &Path) -> Vec<Cow<'_, OsStr>> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(part) => Some(folded(part)),
            _ => None,
        })
        .collect()
}

/// Whether these parts go on, after what stands before the first `**` of a name.
pub(super) fn is_inside_stars(name: &ProtectedName, parts: &[Cow<'_, OsStr>]) -> bool {
    let before = name.components.iter().take_while(|part| ***part != *"**").count();
    let same = |(wanted, part): (&Cow<'_, OsStr>, &Cow<'_, OsStr>)| **wanted == *"*" || wanted == part;
    before < name.components.len()
        && parts.len() > before
        && name.components[..before].iter().zip(parts).all(same)
}

/// How far a name goes with the parts of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// All of it, in so many parts.
    Whole(usize),
    /// The path ends where the name, up to its first `**`, goes on.
    Start,
}

pub(super) fn reach(name: &[Cow<'_, OsStr>], parts: &[Cow<'_, OsStr>]) -> Option<Reach> {
    let Some((first, rest)) = name.split_first() else { return Some(Reach::Whole(0)) };
    let one_more = |reach| match reach {
        Reach::Whole(length) => Reach::Whole(length + 1),
        Reach::Start => Reach::Start,
    };
    let first: &OsStr = first;
    if first == "**" && !parts.is_empty() {
        // One or more parts; the shortest that fits. Where the path ends inside, nothing is known of it.
        let whole = |skip: usize| match reach(rest, parts.get(skip..)?)? {
            Reach::Whole(length) => Some(Reach::Whole(length + skip)),
            Reach::Start => None,
        };
        return (1..parts.len()).find_map(whole);
    }
    match parts.split_first() {
        None => Some(Reach::Start),
        Some((part, parts)) if first == "*" || first == &**part => reach(rest, parts).map(one_more),
        Some(_) => None,
    }
}
