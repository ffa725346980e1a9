//! Path globs: `*` stays within a component, `**` crosses them, `?` is one character.
//!
//! `**/` also matches no component at all; `x/**` is everything below `x`, not `x` itself.
//! Invariant: matching takes time proportional to pattern × text at worst and never allocates.

/// A compiled glob, matched against a whole relative path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Glob {
    tokens: Box<[Token]>,
    text: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Token {
    Byte(u8),
    /// One character other than `/`.
    One,
    /// One character.
    Any,
    /// Any run without `/`.
    Star,
    /// Any run at all.
    Deep,
    /// Any number of whole components, each with its `/`.
    DeepDir,
}

/// Whether a pattern contains no wildcard.
#[must_use]
pub fn is_literal(pattern: &str) -> bool {
    !pattern.contains(['*', '?'])
}

/// Whether one argument or name matches a pattern in which `*` is any run of characters, `/` included.
#[must_use]
pub fn matches_segment(pattern: &str, text: &[u8]) -> bool {
    let token = |byte: &u8| match byte {
        b'*' => Token::Deep,
        b'?' => Token::Any,
        byte => Token::Byte(*byte),
    };
    run(|index| pattern.as_bytes().get(index).map(token), text)
}

impl Glob {
    /// Compiles a pattern.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let bytes = pattern.as_bytes();
        let mut tokens = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            let component_start = at == 0 || bytes[at - 1] == b'/';
            let token = match &bytes[at..] {
                [b'*', b'*', b'/', ..] if component_start => {
                    at += 2;
                    Token::DeepDir
                }
                [b'*', b'*', ..] => {
                    at += 1;
                    Token::Deep
                }
                [b'*', ..] => Token::Star,
                [b'?', ..] => Token::One,
                rest => Token::Byte(rest[0]),
            };
            at += 1;
            tokens.push(token);
        }
        Self { tokens: tokens.into(), text: pattern.into() }
    }

    /// The pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole of `path` matches.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        run(|index| self.tokens.get(index).copied(), path)
    }
}

/// Where to go on from when a match fails: the wildcard's token and how much text it has eaten.
#[derive(Clone, Copy)]
struct Retry {
    token: usize,
    text: usize,
}

/// Matches with one retry point per kind of wildcard.
///
/// A later `**` makes earlier choices irrelevant (it can eat whatever they would have), and between
/// two `**` the `/` of pattern and text pair up, so only the last `*` is worth retrying.
fn run(token: impl Fn(usize) -> Option<Token>, text: &[u8]) -> bool {
    let (mut t, mut at) = (0, 0);
    let mut star: Option<Retry> = None;
    let mut deep: Option<Retry> = None;
    loop {
        let advanced = match token(t) {
            None if at == text.len() => return true,
            Some(Token::Star) => {
                star = Some(Retry { token: t, text: at });
                t += 1;
                continue;
            }
            Some(Token::Deep | Token::DeepDir) => {
                deep = Some(Retry { token: t, text: at });
                star = None;
                t += 1;
                continue;
            }
            Some(Token::Byte(byte)) if text.get(at) == Some(&byte) => 1,
            Some(Token::One) if text.get(at).is_some_and(|byte| *byte != b'/') => character(&text[at..]),
            Some(Token::Any) if at < text.len() => character(&text[at..]),
            Some(Token::Byte(_) | Token::One | Token::Any) | None => 0,
        };
        if advanced > 0 {
            t += 1;
            at += advanced;
            continue;
        }
        if let Some(retry) = star.as_mut().filter(|retry| text.get(retry.text).is_some_and(|b| *b != b'/')) {
            retry.text += character(&text[retry.text..]);
            (t, at) = (retry.token + 1, retry.text);
        } else if let Some(retry) = deep.as_mut() {
            let step = match token(retry.token) {
                Some(Token::DeepDir) => {
                    text[retry.text..].iter().position(|b| *b == b'/').map(|slash| slash + 1)
                }
                _ => (retry.text < text.len()).then(|| character(&text[retry.text..])),
            };
            let Some(step) = step else { return false };
            retry.text += step;
            star = None;
            (t, at) = (retry.token + 1, retry.text);
        } else {
            return false;
        }
    }
}

/// The length of the character at the start of `text`; one byte where it is not UTF-8.
fn character(text: &[u8]) -> usize {
    let continuation = text[1..].iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    if text[0] >= 0xc0 { 1 + continuation } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yes(pattern: &str, path: &str) {
        assert!(Glob::new(pattern).matches(path.as_bytes()), "{pattern} should match {path}");
    }

    fn no(pattern: &str, path: &str) {
        assert!(!Glob::new(pattern).matches(path.as_bytes()), "{pattern} should not match {path}");
    }

    #[test]
    fn a_star_stays_within_its_component() {
        yes("*.md", "a.md");
        no("*.md", "sub/a.md");
        yes("a*c*e", "abcde");
        yes("*/b/*", "x/b/y");
        no("*/b/*", "x/y/b/z");
    }

    #[test]
    fn two_stars_cross_components() {
        yes("lib/**", "lib/a");
        yes("lib/**", "lib/a/b/c");
        no("lib/**", "lib");
        no("lib/**", "libx/a");
        yes("**", "a/b");
        yes("**/*.md", "a.md");
        yes("**/*.md", "x/y/a.md");
        no("**/*.md", "x/y/a.mdx");
        yes("a/**/b", "a/b");
        yes("a/**/b", "a/x/y/b");
        no("a/**/b", "a/xb");
        yes("src**.rs", "src/deep/x.rs");
    }

    #[test]
    fn wildcards_after_a_deep_one_still_find_their_place() {
        yes("**/a*b/c*d", "z/a1b/x/a2b/c3d");
        no("**/a*b/c*d", "z/a1b/x/a2b/x3d");
        yes("**/test_*.py", "a/test_/test_x.py");
    }

    #[test]
    fn a_question_mark_is_one_character_not_one_byte() {
        yes("?", "é");
        no("?", "éé");
        no("a?b", "a/b");
        no("*??", "€");
        no("**??", "€");
        yes("*??", "€é");
    }

    #[test]
    fn bytes_that_are_no_text_match_too() {
        assert!(Glob::new("a*").matches(b"a\xff\xfe"));
        assert!(Glob::new("a?").matches(b"a\xff"));
    }

    #[test]
    fn many_stars_do_not_explode() {
        let text = "a".repeat(4000);
        no(&format!("{}b", "*a".repeat(200)), &text);
        no(&format!("{}b", "**a".repeat(200)), &text);
    }

    #[test]
    fn in_an_argument_a_star_crosses_slashes() {
        assert!(matches_segment("--out=*", b"--out=a/b"));
        assert!(!matches_segment("--out=?", b"--out=ab"));
    }
}
