//! Names as file systems know them that do not tell letters apart.
//!
//! Answers for one spelling of all that such a file system takes for the same, as far as the other is plain ASCII. It
//! leaves which names matter to the callers, who write them in small letters.
//! Invariant: a name that is spelt so already is not copied.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::path::within;

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
    name.iter().all(is_small) && tail(name) == 0
}

fn is_small(byte: &u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_uppercase()
}

/// How many bytes at the end of a name are none to a file system that leaves dots and blanks there out.
fn tail(name: &[u8]) -> usize {
    let kept = name.iter().rposition(|byte| !matches!(byte, b'.' | b' '));
    kept.map_or(0, |last| name.len() - last - 1)
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

/// Whether `path` is `root` or lies below it, whatever the letters.
#[must_use]
pub fn within_folded(path: &Path, root: &Path) -> bool {
    let plain = |path: &Path| {
        let bytes = path.as_os_str().as_bytes();
        is_folded(bytes) && !bytes.windows(2).any(|pair| matches!(pair, b"./" | b" /"))
    };
    if within(path, root) || plain(path) && plain(root) {
        return within(path, root);
    }
    let mut parts = path.components();
    let bytes = |part: std::path::Component<'_>, wanted: std::path::Component<'_>| {
        spelling(part.as_os_str().as_bytes()).eq(spelling(wanted.as_os_str().as_bytes()))
    };
    root.components().all(|wanted| parts.next().is_some_and(|part| bytes(part, wanted)))
}

fn each(name: &[u8], take: impl FnMut(u8)) {
    spelling(name).for_each(take);
}

/// The bytes of a name in its one spelling.
fn spelling(name: &[u8]) -> impl Iterator<Item = u8> + '_ {
    name[..name.len() - tail(name)].utf8_chunks().flat_map(|chunk| {
        let letters = chunk.valid().chars().filter(|letter| !is_ignored(*letter)).flat_map(plain);
        letters.chain(chunk.invalid().iter().copied())
    })
}

fn plain(letter: char) -> impl Iterator<Item = u8> {
    let mut bytes = [0; 4];
    let length = match ligature(letter) {
        Some(letters) => {
            bytes[..letters.len()].copy_from_slice(letters.as_bytes());
            letters.len()
        }
        None => letter.to_ascii_lowercase().encode_utf8(&mut bytes).len(),
    };
    bytes.into_iter().take(length)
}

/// What letters that are not ASCII fold to by Unicode's full rules, where that is ASCII.
const fn ligature(letter: char) -> Option<&'static str> {
    Some(match letter {
        '\u{17f}' => "s",
        '\u{212a}' => "k",
        '\u{df}' | '\u{1e9e}' => "ss",
        '\u{fb00}' => "ff",
        '\u{fb01}' => "fi",
        '\u{fb02}' => "fl",
        '\u{fb03}' => "ffi",
        '\u{fb04}' => "ffl",
        '\u{fb05}' | '\u{fb06}' => "st",
        _ => return None,
    })
}

/// Whether a letter is none to a file system that folds by Unicode's rules.
const fn is_ignored(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
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
        for (name, known) in [("con\u{fb01}g", "config"), (".\u{1e9e}h", ".ssh"), (".\u{fb02}eet", ".fleet")]
        {
            assert_eq!(folded(OsStr::new(name)), OsStr::new(known), "{name}");
            assert!(within_folded(Path::new(&format!("/w/{name}/x")), Path::new(&format!("/w/{known}"))));
        }
        for name in [".envrc.", ".envrc...", ".Envrc ", ".env\u{1bca0}rc", ".env\u{1d173}rc. ."] {
            assert_eq!(folded(OsStr::new(name)), OsStr::new(".envrc"), "{name}");
            assert!(within_folded(Path::new(&format!("/w/{name}/x")), Path::new("/w/.envrc")), "{name}");
        }
        for name in [".", "..", " ", ". ", "a.b"] {
            assert_eq!(folded(OsStr::new(name)), OsStr::new(name), "{name}");
        }
        assert_eq!(folded(OsStr::new("o\u{fb03}ce \u{fb06}a\u{fb00}")), OsStr::new("office staff"));
        assert_eq!(folded(OsStr::new("d\u{e9}j\u{e0}")), OsStr::new("d\u{e9}j\u{e0}"));
        assert_eq!(folded(OsStr::from_bytes(b"A\xff")), OsStr::from_bytes(b"a\xff"));
        assert!(matches!(folded(OsStr::new(".envrc")), Cow::Borrowed(_)));
        assert!(Folded::of(&[b'A'; 300]).is_none());
    }

    #[test]
    fn a_place_is_found_in_any_letters() {
        let within = |path: &str, root: &str| within_folded(Path::new(path), Path::new(root));
        assert!(within("/w/Notes.YML", "/w/notes.yml") && within("/W/sub/x", "/w/Sub"));
        assert!(within("/w/n\u{200d}otes.yml", "/w/notes.yml") && within("/w/\u{c9}", "/w/\u{c9}"));
        assert!(!within("/w/Notes.ym", "/w/notes.yml") && !within("/w/notes.yml.X", "/w/notes.yml"));
        assert!(!within("/W", "/w/x") && !within("/w/\u{e9}", "/w/\u{c9}"));
    }
}
