//! Names as careless readers take them.
//!
//! What only narrows is matched by what a name could be taken for; what widens is matched by the name itself.

use std::borrow::Cow;

/// What a careless reader takes a key for: letters without case (some fold `ſ` and the Kelvin sign too), and
/// nothing after a NUL.
#[must_use]
pub fn fold(key: &str) -> Cow<'_, str> {
    if key.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase() && byte != 0) {
        return Cow::Borrowed(key);
    }
    let seen = key.split('\0').next().unwrap_or_default();
    Cow::Owned(seen.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect())
}

/// What a careless reader takes a name for: as [`fold`], and without the blanks around it.
#[must_use]
pub fn likened(name: &str) -> Cow<'_, str> {
    match fold(name) {
        Cow::Borrowed(name) => Cow::Borrowed(name.trim_matches(is_blank)),
        Cow::Owned(name) => Cow::Owned(name.trim_matches(is_blank).to_owned()),
    }
}

/// Whether some readers would take a name for another by trimming it or by stopping in it.
#[must_use]
pub fn is_cut_by_some(name: &str) -> bool {
    name.contains(char::is_control) || name.starts_with(is_blank) || name.ends_with(is_blank)
}

/// What is trimmed by some reader.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control() || c == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_for_what_any_reader_takes_it_for() {
        for name in
            ["make", "MAKE", " make", "make\t", "Make\0d", "\u{feff}make", "ma\u{212a}e", "make\u{a0}"]
        {
            assert_eq!(likened(name), "make", "{name:?}");
        }
        for other in ["makes", "ma ke", "mak", ""] {
            assert_ne!(likened(other), "make", "{other:?}");
        }
        for cut in [" a", "a ", "a\0b", "a\nb", "\u{feff}a", "a\u{2028}"] {
            assert!(is_cut_by_some(cut), "{cut:?}");
        }
        assert!(!is_cut_by_some("a b") && !is_cut_by_some("") && !is_cut_by_some("größe"));
    }
}
