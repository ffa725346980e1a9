//! Requests whose method does not say what they do, as data.

use super::system::rows;
use crate::capability::Capability;
use std::sync::LazyLock;

struct Row {
    method: &'static str,
    path: &'static str,
    query: &'static str,
    verb: Capability,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let row = |mut cells: Box<dyn Iterator<Item = &'static str>>| {
        Some(Row {
            method: cells.next()?,
            path: cells.next()?,
            query: cells.next()?,
            verb: Capability::from_name(cells.next()?)?,
        })
    };
    rows(include_str!("../../profiles/net/reads.txt")).filter_map(|cells| row(Box::new(cells))).collect()
});

/// What a request with this method and target needs, where that is not what its method says.
#[must_use]
pub fn verb_of(method: &str, target: &str) -> Option<Capability> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let plain = !path.contains(['%', '\\', ';']) && !path.split('/').any(|part| part == ".." || part == ".");
    let fits = |row: &&Row| {
        let query_fits = row.query.is_empty() || query.split('&').any(|pair| pair == row.query);
        // What widens must be plain to see; what narrows holds for every spelling.
        let sure = plain || row.verb != Capability::NetGet;
        row.method == method && path.ends_with(row.path) && query_fits && sure
    };
    ROWS.iter().find(fits).map(|row| row.verb)
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
        assert_eq!(ROWS.len(), 3);
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
