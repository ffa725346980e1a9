//! Places: what kind of path a word names, by the table `profiles/risk/places.txt`.
//!
//! Words are compared after `.`, `..` and doubled slashes are resolved, and a pattern counts as every
//! place that it could stand for.

use super::Scene;
use super::command::{Arg, COMPUTED, UNSET};
use crate::capability::matches_segment;
use crate::profile::PLACES;
use std::sync::LazyLock;

/// A path joined to a directory and made plain; none when the directory is needed and not known.
pub(super) fn joined(cwd: Option<&str>, path: &str) -> Option<String> {
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", cwd?) };
    Some(plain(&whole))
}

/// Without `.`, `..` and doubled slashes.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Whether a word names a place of a kind.
pub(super) fn is(kind: &str, arg: &Arg, cwd: Option<&str>, scene: &Scene) -> bool {
    let text = arg.text.trim_end_matches('\r');
    match kind {
        // What a recursive command takes when it is pointed at where one stands.
        "here" => is_here(arg) || holds_cwd(text, cwd),
        "star" => text == "*",
        // A variable that nobody set, and then a slash: the root of everything when it is empty.
        "unguarded" => {
            let rest: String = text.chars().filter(|c| *c != UNSET).collect();
            let ends = matches!(rest.as_str(), "/" | "/*" | "/." | "/.*" | "/./*" | "//" | "/**");
            rest.len() < text.len()
                && (ends
                    || (rest.starts_with('/')
                        && kinds(&plain(&rest), arg.glob, scene, true)
                            & (bit("root") | bit("system") | bit("home"))
                            != 0))
        }
        "url" => text.contains("://") && !text.starts_with("file:"),
        "ordinary" => !["trash", "terminal"].iter().any(|kind| is(kind, arg, cwd, scene)),
        "glob" => arg.glob,
        "unknown" => arg.has_gap(),
        _ => {
            // A public key is no secret.
            if (kind == "secret" && text.ends_with(".pub"))
                || text.starts_with([UNSET, COMPUTED])
                || text.is_empty()
                || text.len() > 4096
            {
                return false;
            }
            // Asked for by many rules, and worked out once for a word.
            *arg.kinds.get_or_init(|| all_kinds(text, arg, cwd, scene)) & bit(kind) != 0
        }
    }
}

fn all_kinds(text: &str, arg: &Arg, cwd: Option<&str>, scene: &Scene) -> u32 {
    let text = text.strip_prefix("file://").unwrap_or(text);
    let Some(path) = joined(cwd, text) else { return kinds(&plain(text), false, scene, false) };
    // A name that only shows when it runs, right below the root, is one of the system's.
    let below_root = path
        .strip_prefix('/')
        .is_some_and(|name| name.contains(COMPUTED) && name.chars().all(|c| matches!(c, COMPUTED | '*')));
    kinds(&path, arg.glob || !arg.known, scene, true) | if below_root { bit("system") } else { 0 }
}

/// Whether a path is the working directory or holds it.
fn holds_cwd(text: &str, cwd: Option<&str>) -> bool {
    let Some(cwd) = cwd.filter(|_| text.starts_with('/')) else { return false };
    let path = plain(text);
    cwd == path || cwd.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'))
}

fn is_here(arg: &Arg) -> bool {
    let text = arg.text.trim_end_matches('/');
    let text = text.strip_prefix("./").filter(|rest| !rest.is_empty()).unwrap_or(text);
    match text {
        "." | ".." | "../.." | "../../.." => true,
        "*" | ".*" | "**" | "{*,.*}" | "?*" | "*.*" | ".[!.]*" | ".??*" | "../*" | "../../*" => arg.glob,
        "" => arg.text == "./" || arg.text == ".//",
        _ => false,
    }
}

/// Where a pattern of the table starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    Root,
    Home,
    Anywhere,
}

/// A pattern of the table, taken apart.
struct Pattern {
    kind: u32,
    anchor: Anchor,
    parts: Vec<&'static str>,
}

/// The kinds of the table; a place's kinds are bits in this order.
static KINDS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut kinds: Vec<&'static str> = PLACES.iter().map(|(kind, _)| *kind).collect();
    kinds.dedup();
    kinds
});

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let pattern = |(kind, text): &(&'static str, &'static str)| {
        let (anchor, rest) = match text.strip_prefix('~') {
            Some(rest) => (Anchor::Home, rest),
            None if text.starts_with('/') => (Anchor::Root, *text),
            None => (Anchor::Anywhere, *text),
        };
        Pattern { kind: bit(kind), anchor, parts: rest.split('/').filter(|part| !part.is_empty()).collect() }
    };
    PLACES.iter().map(pattern).collect()
});

/// The bit of a kind; none for a kind the table does not have.
fn bit(kind: &str) -> u32 {
    KINDS
        .iter()
        .position(|known| *known == kind)
        .map_or(0, |at| 1u32.checked_shl(u32::try_from(at).unwrap_or(32)).unwrap_or(0))
}

/// Every kind of place that a path is, in one look over the table.
fn kinds(path: &str, glob: bool, scene: &Scene, anchored: bool) -> u32 {
    let names: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let home: Vec<&str> = scene.home.split('/').filter(|part| !part.is_empty()).collect();
    let below = names.strip_prefix(home.as_slice()).filter(|_| anchored);
    let mut found = 0;
    for pattern in PATTERNS.iter().filter(|pattern| anchored || pattern.anchor == Anchor::Anywhere) {
        let whole = |names: &[&str]| {
            fits_from(&pattern.parts, names, glob) || (glob && everything_in(&pattern.parts, names))
        };
        let fits = match pattern.anchor {
            Anchor::Root => whole(&names),
            Anchor::Home => below.is_some_and(whole),
            Anchor::Anywhere => (0..names.len())
                .any(|start| names.get(start..).is_some_and(|names| fits_from(&pattern.parts, names, glob))),
        };
        if fits {
            found |= pattern.kind;
        }
    }
    found
}

fn fits_from(wanted: &[&str], names: &[&str], glob: bool) -> bool {
    let mut names = names.iter();
    for (at, part) in wanted.iter().enumerate() {
        if *part == "**" && at + 1 == wanted.len() {
            return names.next().is_some();
        }
        match names.next() {
            Some(name) if name == part || (part.contains('*') && matches_segment(part, name.as_bytes())) => {}
            // `/e*c` could be `/etc`. A bare `*` is everything in a directory, which is told apart.
            Some(name)
                if glob
                    && name.contains(['*', '?', '['])
                    && !matches!(*name, "*" | ".*")
                    && glob_fits(name, part) => {}
            _ => return false,
        }
    }
    names.next().is_none()
}

/// Whether the path is all that lies in the wanted directory: `/etc/*`.
fn everything_in(wanted: &[&str], names: &[&str]) -> bool {
    match names.split_last() {
        Some((last, above)) if matches!(*last, "*" | "**" | ".*" | "?*" | "*.*") => {
            fits_from(wanted, above, false)
        }
        _ => false,
    }
}

/// Whether a glob could stand for a name. Brackets are taken for any one character.
pub(super) fn glob_fits(glob: &str, name: &str) -> bool {
    let mut pattern = String::new();
    let mut inside = false;
    for c in glob.chars() {
        match c {
            '[' if !inside => {
                inside = true;
                pattern.push('?');
            }
            ']' if inside => inside = false,
            _ if inside => {}
            c => pattern.push(c),
        }
    }
    matches_segment(&pattern, name.as_bytes())
}
