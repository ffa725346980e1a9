//! Names as file systems know them that do not tell letters apart.
//!
//! Answers for one spelling of all that such a file system takes for the same, as far as the other is plain ASCII. It
//! leaves which names matter to the callers, who write them in small letters.
//! Invariant: a name that is spelt so already is not copied.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The longest name that is compared without being copied.
const ROOM: usize = 64;

/// A name in its one spelling, in room of its own.
#[derive(Debug)]
pub struct Folded {
    bytes: [u8; ROOM],
    length: usize,
}

impl Folded {
    /// Folds a name; none where it is longer than any that matters.
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        let mut folded = Self { bytes: [0; ROOM], length: 0 };
        let mut fits = true;
        each(name, |byte| match folded.bytes.get_mut(folded.length) {
            Some(place) => {
                *place = byte;
                folded.length += 1;
            }
            None => fits = false,
        });
        fits.then_some(folded)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Whether a name is spelt in its one way already.
#[must_use]
pub fn is_folded(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase())
}

/// A name in its one spelling.
#[must_use]
pub fn folded(name: &OsStr) -> Cow<'_, OsStr> {
    if is_folded(name.as_bytes()) {
        return Cow::Borrowed(name);
    }
    let mut bytes = Vec::with_capacity(name.len());
    each(name.as_bytes(), |byte| bytes.push(byte));
    Cow::Owned(std::ffi::OsString::from_vec(bytes))
}

fn each(name: &[u8], mut take: impl FnMut(u8)) {
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars().filter(|letter| !is_ignored(*letter)) {
            match letter {
                // The only two that are not ASCII and fold to it.
                '\u{17f}' => take(b's'),
                '\u{212a}' => take(b'k'),
                letter => letter.to_ascii_lowercase().encode_utf8(&mut [0; 4]).bytes().for_each(&mut take),
            }
        }
        chunk.invalid().iter().copied().for_each(&mut take);
    }
}

/// Whether a letter is none to a file system that folds by Unicode's rules.
const fn is_ignored(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_folding_file_system_takes_for_the_same_is_the_same() {
        for name in [".ENVRC", ".Envrc", ".e\u{200d}nvrc", ".envrc\u{feff}"] {
            assert_eq!(folded(OsStr::new(name)), OsStr::new(".envrc"), "{name}");
            assert_eq!(Folded::of(name.as_bytes()).unwrap().as_bytes(), b".envrc", "{name}");
        }
        assert_eq!(folded(OsStr::new(".hu\u{17f}\u{212a}y")), OsStr::new(".husky"));
        assert_eq!(folded(OsStr::new("d\u{e9}j\u{e0}")), OsStr::new("d\u{e9}j\u{e0}"));
        assert_eq!(folded(OsStr::from_bytes(b"A\xff")), OsStr::from_bytes(b"a\xff"));
        assert!(matches!(folded(OsStr::new(".envrc")), Cow::Borrowed(_)));
        assert!(Folded::of(&[b'A'; 300]).is_none());
    }
}
