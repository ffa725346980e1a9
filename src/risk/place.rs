//! Places: what kind of path a word names, by the table `profiles/risk/places.txt`.
//!
//! Words are compared after `.`, `..` and doubled slashes are resolved, and a pattern counts as every
//! place that it could stand for.

use super::Scene;
use super::command::{Arg, COMPUTED, UNSET};
use crate::capability::matches_segment;
use crate::profile::PLACES;

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
                        && ["root", "system", "home"]
                            .iter()
                            .any(|kind| named(kind, &plain(&rest), arg.glob, scene))))
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
            let text = text.strip_prefix("file://").unwrap_or(text);
            let Some(path) = joined(cwd, text) else { return relative(kind, text) };
            // A name that only shows when it runs, right below the root, is one of the system's.
            let below_root = path.strip_prefix('/').is_some_and(|name| {
                name.contains(COMPUTED) && name.chars().all(|c| matches!(c, COMPUTED | '*'))
            });
            (kind == "system" && below_root) || named(kind, &path, arg.glob || !arg.known, scene)
        }
    }
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

/// Patterns that are found anywhere need no directory.
fn relative(kind: &str, text: &str) -> bool {
    let path = plain(text);
    PLACES.iter().any(|(name, pattern)| {
        *name == kind && !pattern.starts_with(['/', '~']) && fits(pattern, &path, false)
    })
}

fn named(kind: &str, path: &str, glob: bool, scene: &Scene) -> bool {
    PLACES.iter().filter(|(name, _)| *name == kind).any(|(_, pattern)| match pattern.strip_prefix('~') {
        Some(rest) => {
            let home = format!("{}{rest}", scene.home);
            fits(&home, path, glob)
        }
        None => fits(pattern, path, glob),
    })
}

/// Whether a path fits a pattern of the table. A glob in the path fits what it could stand for.
fn fits(pattern: &str, path: &str, glob: bool) -> bool {
    let names: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let wanted: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    if pattern.starts_with('/') {
        return fits_from(&wanted, &names, glob) || (glob && everything_in(&wanted, &names));
    }
    (0..names.len()).any(|start| names.get(start..).is_some_and(|names| fits_from(&wanted, names, glob)))
}

fn fits_from(wanted: &[&str], names: &[&str], glob: bool) -> bool {
    let mut names = names.iter();
    for (at, part) in wanted.iter().enumerate() {
        if *part == "**" && at + 1 == wanted.len() {
            return names.next().is_some();
        }
        match names.next() {
            Some(name) if matches_segment(part, name.as_bytes()) => {}
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
