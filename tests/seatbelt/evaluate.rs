//! What the kernel would say, by the rules of precedence that were measured on real systems.
//!
//! The observations, and where they were made:
//! - **spelling**: rules match the path that the kernel resolves to; `/tmp`, `/var` and `/etc` are links into
//!   `/private` (fence and nono write both spellings);
//! - **last**: among rules of the same operation the last one that matches decides (codex, srt);
//! - **granularity**: a later rule for a group of operations does not beat an earlier one for the single
//!   operation, neither an allow a deny (nono #697, and srt's comment on `file-write*`) nor a deny an allow (fence,
//!   which denies `file-read-data` and `file-read-metadata` one by one for that reason);
//! - **compound**: an allow by `require-all` beat a later deny by a plain `subpath`, while a deny by `literal` won
//!   (cplt #455);
//! - **connect**: connecting to a socket in the file system is `network-outbound`; rights on files have no say
//!   (safehouse #19 and #36, nono #488);
//! - **address**: a host is `localhost` or `*`, never a name, and `local ip` is no filter for what goes out
//!   (srt #88 and #225);
//! - **rename**: renaming is `file-write-unlink` of the source and `file-write-create` of the target (srt, codex).
//!
//! Whether it is `file-write-unlink` of a target that is there as well was observed by nobody we know of. So both are
//! asked: `rename` does not count on it, where a profile must not be too wide, and `replace` demands it, where it must
//! not be too narrow.

use super::read::{Filter, Profile, Rule};
use std::path::{Path, PathBuf};

/// What an operation is about.
#[derive(Debug, Clone)]
pub(crate) enum Thing {
    Path(PathBuf),
    /// A host as the command names it (`localhost` is this machine's loopback), and a port.
    Remote(String, u16),
    Socket(PathBuf),
    Named(&'static str, String),
    Process {
        same_sandbox: bool,
    },
    Nothing,
}

impl Profile {
    /// Whether an operation would be allowed.
    pub(crate) fn allows(&self, operation: &str, thing: &Thing) -> bool {
        let thing = resolved(thing);
        // granularity: the single operation first, then its groups.
        for level in levels(operation) {
            if let Some(allowed) = self.at(&level, &thing) {
                return allowed;
            }
        }
        false
    }

    fn at(&self, operation: &str, thing: &Thing) -> Option<bool> {
        let about = |rule: &&Rule| rule.operations.iter().any(|own| own == operation);
        let hits: Vec<(&Rule, Option<&Filter>)> = self
            .rules
            .iter()
            .filter(about)
            .filter_map(|rule| hit(rule, thing).map(|by| (rule, by)))
            .collect();
        let (last, by) = hits.last()?;
        let compound =
            |(rule, by): &(&Rule, Option<&Filter>)| rule.allow && matches!(by, Some(Filter::All(_)));
        // compound
        if !last.allow && matches!(by, Some(Filter::Subpath(_))) && hits.iter().any(compound) {
            return Some(true);
        }
        // last
        Some(last.allow)
    }
}

/// spelling
fn resolved(thing: &Thing) -> Thing {
    let resolve = |path: &Path| {
        for name in ["tmp", "var", "etc"] {
            if let Ok(rest) = path.strip_prefix(Path::new("/").join(name)) {
                let real = Path::new("/private").join(name);
                return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
            }
        }
        path.to_path_buf()
    };
    match thing {
        Thing::Path(path) => Thing::Path(resolve(path)),
        Thing::Socket(path) => Thing::Socket(resolve(path)),
        other => other.clone(),
    }
}

fn levels(operation: &str) -> Vec<String> {
    let mut levels = vec![operation.to_owned()];
    let mut name = operation.trim_end_matches('*').to_owned();
    while let Some((above, _)) = name.clone().rsplit_once('-') {
        levels.push(format!("{above}*"));
        name = above.to_owned();
    }
    levels
}

/// The filter by which a rule applies; none when it has no filters.
fn hit<'r>(rule: &'r Rule, thing: &Thing) -> Option<Option<&'r Filter>> {
    if rule.filters.is_empty() {
        return Some(None);
    }
    rule.filters.iter().find(|filter| applies(filter, thing)).map(Some)
}

fn applies(filter: &Filter, thing: &Thing) -> bool {
    match (filter, thing) {
        (Filter::All(parts), _) => parts.iter().all(|part| applies(part, thing)),
        (Filter::AnyOf(parts), _) => parts.iter().any(|part| applies(part, thing)),
        (Filter::Not(part), _) => !applies(part, thing),
        (Filter::Literal(own), Thing::Path(path)) => path == Path::new(own),
        (Filter::Subpath(own), Thing::Path(path)) => path.starts_with(own),
        (Filter::Regex(regex), Thing::Path(path)) => regex.matches(&path.to_string_lossy()),
        (Filter::Named(kind, own), Thing::Named(asked, name)) => kind == asked && own == name,
        (Filter::Prefix(kind, own), Thing::Named(asked, name)) => kind == asked && name.starts_with(own),
        (Filter::Matching(kind, own), Thing::Named(asked, name)) => kind == asked && own.matches(name),
        (Filter::SameSandbox, Thing::Process { same_sandbox }) => *same_sandbox,
        (Filter::RemoteIp { host, port }, Thing::Remote(asked, number)) => {
            (host == "*" || host == asked) && (port == "*" || *port == number.to_string())
        }
        (Filter::Socket { end, below }, Thing::Socket(path)) => end == "remote" && path.starts_with(below),
        // Terminals of the process's own making are told by an extension, which no path has by itself.
        (Filter::Extension | Filter::UnixDomain, _) => false,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::read;
    use super::*;

    fn verdict(rules: &str, operation: &str, path: &str) -> bool {
        let text = format!("(version 1)\n(deny default (with message \"t\"))\n{rules}");
        read(&text, &[]).unwrap().allows(operation, &Thing::Path(path.into()))
    }

    #[test]
    fn the_last_rule_of_the_same_operation_decides() {
        let rules = "(allow file-read-data (subpath \"/w\"))(deny file-read-data (subpath \"/w/x\"))";
        assert!(verdict(rules, "file-read-data", "/w/a"));
        assert!(!verdict(rules, "file-read-data", "/w/x/a"));
        assert!(!verdict(rules, "file-read-data", "/wx"));
        assert!(verdict(
            &format!("{rules}(allow file-read-data (literal \"/w/x/a\"))"),
            "file-read-data",
            "/w/x/a"
        ));
    }

    #[test]
    fn a_group_does_not_beat_a_single_operation() {
        let denied = "(deny file-write-unlink (subpath \"/w/x\"))(allow file-write* (subpath \"/w\"))";
        assert!(!verdict(denied, "file-write-unlink", "/w/x") && verdict(denied, "file-write-data", "/w/x"));
        let allowed = "(allow file-read-data (subpath \"/w\"))(deny file-read* (subpath \"/w/x\"))";
        assert!(verdict(allowed, "file-read-data", "/w/x"));
    }

    #[test]
    fn a_compound_allow_beats_a_later_subpath_but_not_a_literal() {
        let allow = "(allow file-read-data (require-all (subpath \"/w\") (require-not (literal \"/w/y\"))))";
        let subpath = format!("{allow}(deny file-read-data (subpath \"/w/x\"))");
        let literal = format!("{allow}(deny file-read-data (literal \"/w/x\"))");
        assert!(verdict(&subpath, "file-read-data", "/w/x") && !verdict(&literal, "file-read-data", "/w/x"));
    }

    #[test]
    fn links_at_the_top_are_resolved_first() {
        assert!(verdict("(allow file-read-data (subpath \"/private/tmp/x\"))", "file-read-data", "/tmp/x/a"));
        assert!(!verdict("(allow file-read-data (subpath \"/tmp/x\"))", "file-read-data", "/tmp/x/a"));
    }
}
