//! The shipped rules of Seatbelt profiles, read from `profiles/seatbelt/`.
//!
//! Answers for turning rows into rules. The files are compiled in here and not handed in with a plan, because
//! they belong to the mechanism: whoever makes a plan has no say in what a program of this system needs to start.
//! Invariant: a row that is not understood refuses the profile, and a test reads every row.

use super::sbpl::{Filter, Rule, bad};
use crate::error::PlatformError;

const BASE: &str = include_str!("../../../profiles/seatbelt/base.txt");
const REPOSITORY: &str = include_str!("../../../profiles/seatbelt/repository.txt");

/// The class of terminals that a process has made itself.
const OWN_TERMINAL: &str = "com.apple.sandbox.pty";

/// The cells of every row.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split('|').map(str::trim).collect())
}

/// What every program needs.
pub(super) fn rules() -> Result<Vec<Rule>, PlatformError> {
    rows(BASE)
        .map(|cells| rule(&cells).ok_or_else(|| bad(format!("the row {cells:?} means nothing"))))
        .collect()
}

fn rule(cells: &[&'static str]) -> Option<Rule> {
    let [operations, kind, values, why] = cells else { return None };
    let values: Vec<&'static str> = values.split_whitespace().collect();
    let filters = match (*kind, values.as_slice()) {
        ("any", ["-"]) => Vec::new(),
        (_, [] | ["-", ..]) => return None,
        (kind, values) => values.iter().map(|value| filter(kind, value)).collect::<Option<_>>()?,
    };
    let operations: Vec<_> = operations.split_whitespace().collect();
    (!operations.is_empty() && !why.is_empty()).then(|| Rule { why: (*why).to_owned(), operations, filters })
}

fn filter(kind: &str, value: &'static str) -> Option<Filter> {
    let text = value.to_owned();
    Some(match kind {
        "target" => Filter::Bare("target", value),
        "literal" => Filter::Quoted("literal", text),
        "subpath" => Filter::Quoted("subpath", text),
        "regex" => Filter::Regex(text),
        "pty" => Filter::All(vec![Filter::Regex(text), Filter::Quoted("extension", OWN_TERMINAL.to_owned())]),
        "sysctl" => Filter::Quoted("sysctl-name", text),
        "sysctl-prefix" => Filter::Quoted("sysctl-name-prefix", text),
        "mach" => Filter::Quoted("global-name", text),
        "ipc" => Filter::Quoted("ipc-posix-name", text),
        "ipc-regex" => Filter::Matching("ipc-posix-name-regex", text),
        "iokit" => Filter::Quoted("iokit-registry-entry-class", text),
        _ => return None,
    })
}

/// What git makes by itself in the repository of a submodule, as the rest of an expression for a path below
/// `.git/modules/`.
pub(super) fn made_in_repository() -> [String; 2] {
    let named = |kind| {
        let names = rows(REPOSITORY).filter(move |cells| cells.get(1) == Some(&kind));
        names.filter_map(|cells| cells.first().copied()).collect::<Vec<_>>().join("|")
    };
    [format!(".+/({})(/.*)?", named("below")), format!(".+/({})([.]lock)?", named("file"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_understood_and_has_a_reason() {
        assert!(rules().unwrap().len() > 20);
        for cells in rows(REPOSITORY) {
            assert!(
                matches!(cells[..], [name, "below" | "file", why] if !name.is_empty() && !why.is_empty())
            );
        }
    }

    #[test]
    fn nothing_that_leads_out_is_among_them() {
        let closed = [
            "SecurityServer",
            "securityd",
            "keychain",
            "secd",
            "lsd",
            "launchservicesd",
            "appleevent",
            "lsopen",
            "mDNSResponder",
            "trustd",
            "networkd",
            "configd",
            "cfprefsd",
            "pasteboard",
            "tccd",
            "file-link",
            "file-clone",
            "file-mknod",
            "system-socket",
            "network",
            "job-creation",
            "mach-register",
        ];
        let rows: String = BASE.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
        for word in closed {
            assert!(!rows.contains(word), "{word}");
        }
    }
}
