//! How programs are told whom to trust, as data.

use super::system::rows;
use std::sync::LazyLock;

/// A way to tell a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trusted {
    /// This variable names a bundle of certificates.
    Variable(&'static str),
    /// This file is a bundle of certificates.
    File(&'static str),
}

/// The ways there are, read from `profiles/net/trust.txt`.
pub static TRUST: LazyLock<Vec<Trusted>> = LazyLock::new(|| {
    let row = |mut cells: Box<dyn Iterator<Item = &'static str>>| match (cells.next()?, cells.next()?) {
        ("variable", name) => Some(Trusted::Variable(name)),
        ("file", path) => Some(Trusted::File(path)),
        _ => None,
    };
    rows(include_str!("../../profiles/net/trust.txt")).filter_map(|cells| row(Box::new(cells))).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_understood() {
        let lines =
            include_str!("../../profiles/net/trust.txt").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(TRUST.len(), lines.count());
        assert!(TRUST.contains(&Trusted::Variable("SSL_CERT_FILE")));
    }
}
