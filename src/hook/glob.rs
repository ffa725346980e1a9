//! Where a pattern of names may look.

use std::path::{Path, PathBuf};

/// Characters that stand for something else than themselves in some pattern.
const SPECIAL: [char; 8] = ['*', '?', '[', ']', '{', '}', '(', '!'];

/// The deepest place that holds all a pattern can match; none when it stays below where the search starts.
pub(super) fn place(pattern: &str) -> Option<PathBuf> {
    // Alternatives can be absolute, or climb; whoever expands them does so in its own way.
    let climbs =
        pattern.contains("..") || ["{/", ",/", "|/", "(/", "~"].iter().any(|way| pattern.contains(way));
    // Some trim patterns, expand variables or read URLs before they look.
    let turns = pattern.starts_with(|c: char| c.is_whitespace() || c.is_control() || c == '$' || c == '%')
        || pattern.contains("file:");
    if climbs || turns || pattern.contains('\0') {
        return Some(PathBuf::from("/"));
    }
    if !pattern.starts_with(['/', '!']) {
        return None;
    }
    let pattern = pattern.trim_start_matches('!');
    let parts = Path::new(pattern).components();
    let plain = parts.take_while(|part| !part.as_os_str().to_string_lossy().contains(SPECIAL));
    Some(plain.collect()).filter(|place: &PathBuf| place.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_followed_to_where_they_lead() {
        for (pattern, wanted) in [
            ("**/*.rs", None),
            ("src/{a,b}/*", None),
            ("!target", None),
            ("/etc/**", Some("/etc")),
            ("/etc/pass*", Some("/etc")),
            ("/etc/passwd", Some("/etc/passwd")),
            ("!/etc/x", Some("/etc/x")),
            ("/*", Some("/")),
            ("../x", Some("/")),
            ("a/../../x", Some("/")),
            ("{/etc,src}/*", Some("/")),
            ("{src,/etc}/*", Some("/")),
            ("~/x", Some("/")),
            (" /etc/*", Some("/")),
            ("\t/etc/*", Some("/")),
            ("$HOME/*", Some("/")),
            ("file:/etc/*", Some("/")),
        ] {
            assert_eq!(place(pattern), wanted.map(PathBuf::from), "{pattern}");
        }
    }
}
