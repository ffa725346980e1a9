//! How programs are told whom to trust, as data.

use super::table::{count, rows};

/// A way to tell a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trusted {
    /// This variable names a bundle of certificates.
    Variable(&'static str),
    /// This file is a bundle of certificates.
    File(&'static str),
}

const TEXT: &str = include_str!("../../profiles/net/trust.txt");
static ROWS: [[&str; 2]; count(TEXT)] = rows(TEXT);

/// The ways there are, from `profiles/net/trust.txt`.
pub fn trust() -> impl Iterator<Item = Trusted> {
    ROWS.iter()
        .map(|[kind, what]| if *kind == "file" { Trusted::File(what) } else { Trusted::Variable(what) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_of_a_kind() {
        assert!(ROWS.iter().all(|[kind, _]| matches!(*kind, "variable" | "file")));
        assert!(trust().any(|trusted| trusted == Trusted::Variable("SSL_CERT_FILE")));
    }
}
