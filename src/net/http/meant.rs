//! What a request asks for beside its first line.
//!
//! Answers for headers by which servers take a request for one of another method. It leaves judging to the
//! authority.
//! Invariant: a method that some server may act by is one that is judged.

/// Headers that frameworks read the method from, because some clients and proxies know only GET and POST.
const NAMES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// The methods that servers may take a request with these headers for.
pub(super) fn other_methods<'a>(
    headers: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> impl Iterator<Item = String> {
    let meant = |name: &str| {
        let plain = name.to_ascii_lowercase().replace('_', "-");
        NAMES.contains(&plain.as_str())
    };
    headers
        .filter(move |(name, _)| meant(name))
        .map(|(_, value)| String::from_utf8_lossy(value.trim_ascii()).to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::other_methods;

    #[test]
    fn every_spelling_of_another_method_is_found() {
        let headers: [(&str, &[u8]); 5] = [
            ("Accept", b"DELETE"),
            ("X-HTTP-Method-Override", b" delete "),
            ("x-http-method", b"PUT"),
            ("X_METHOD_OVERRIDE", b"patch"),
            ("X-HTTP-Method-Override", b"\xff"),
        ];
        let found: Vec<String> = other_methods(headers.into_iter()).collect();
        assert_eq!(found, ["DELETE", "PUT", "PATCH", "\u{fffd}"]);
    }
}
