//! Host suffixes below which anyone can have a name.

use super::table::{count, rows};

const SHARED: &str = include_str!("../../profiles/base/shared-hosts.txt");
static SHARED_ROWS: [[&str; 1]; count(SHARED)] = rows(SHARED);

/// Second-level labels under which countries register names.
const REGISTRY_LABELS: &[&str] = &[
    "ac", "co", "com", "edu", "gob", "gov", "gv", "ltd", "me", "mil", "net", "ne", "nom", "or", "org", "plc",
    "sch",
];

/// Whether `*.suffix` covers names of people who have nothing to do with each other.
#[must_use]
pub fn is_public_suffix(suffix: &str) -> bool {
    match suffix.split('.').collect::<Vec<_>>()[..] {
        [_] => true,
        [second, country] if country.len() == 2 && REGISTRY_LABELS.contains(&second) => true,
        _ => SHARED_ROWS.contains(&[suffix]),
    }
}

#[cfg(test)]
mod tests {
    use super::is_public_suffix;

    #[test]
    fn registries_and_shared_hosts_are_public() {
        for suffix in ["com", "dev", "co.uk", "com.au", "github.io"] {
            assert!(is_public_suffix(suffix), "{suffix}");
        }
        for suffix in ["github.com", "example.co.uk", "x.github.io", "bbc.uk"] {
            assert!(!is_public_suffix(suffix), "{suffix}");
        }
    }
}
