//! Requests whose method does not say what they do, as data.

use super::table::{count, rows};
use crate::capability::Capability;

const TEXT: &str = include_str!("../../profiles/net/reads.txt");
static ROWS: [[&str; 4]; count(TEXT)] = rows(TEXT);

/// What a request with this method and target needs, where that is not what its method says.
#[must_use]
pub fn verb_of(method: &str, target: &str) -> Option<Capability> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let plain = !path.contains(['%', '\\', ';']) && !path.split('/').any(|part| part == ".." || part == ".");
    let row = ROWS.iter().find(|[row_method, end, wanted, verb]| {
        let query_fits = wanted.is_empty() || query.split('&').any(|pair| pair == *wanted);
        // What widens must be plain to see; what narrows holds for every spelling.
        let sure = plain || *verb != Capability::NetGet.name();
        *row_method == method && path.ends_with(end) && query_fits && sure
    });
    row.and_then(|[_, _, _, verb]| Capability::from_name(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetching_with_git_is_reading_and_pushing_is_not() {
        assert_eq!(verb_of("POST", "/a/b.git/git-upload-pack"), Some(Capability::NetGet));
        assert_eq!(verb_of("GET", "/a/info/refs?service=git-upload-pack"), None);
        assert_eq!(verb_of("GET", "/a/info/refs?service=git-receive-pack"), Some(Capability::NetPost));
        assert_eq!(verb_of("POST", "/a/git-receive-pack"), Some(Capability::NetPost));
        assert!(ROWS.iter().all(|[_, _, _, verb]| Capability::from_name(verb).is_some()));
    }

    #[test]
    fn a_path_with_two_readings_is_no_read() {
        for odd in [
            "/x?/git-upload-pack",
            "/x%2f..%2fgit-upload-pack",
            "/x/../git-upload-pack",
            "/x;/git-upload-pack",
        ] {
            assert_eq!(verb_of("POST", odd), None, "{odd}");
        }
        assert_eq!(verb_of("PUT", "/git-upload-pack"), None);
    }
}
