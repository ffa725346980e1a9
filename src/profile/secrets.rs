//! What is a secret by its name, its shape or its place in a command.
//!
//! Answers for the rows of `profiles/audit/redact.txt`, which are asked for at every launch and therefore sorted
//! while compiling and searched as they stand. Taking secrets out is for the audit to do.
//! Invariant: every row is of a kind that is known here.

use super::table::{count, rows};

const TEXT: &str = include_str!("../../profiles/audit/redact.txt");
const ROWS: [[&str; 2]; count(TEXT)] = rows(TEXT);

static WORDS: [&str; number("word")] = of("word");
static ENDINGS: [&str; number("ending")] = of("ending");
static SCHEMES: [&str; number("scheme")] = of("scheme");
static PREFIXES: [&str; number("prefix")] = of("prefix");
static OPTIONS: [&str; number("option")] = of("option");
static SETTINGS: [&str; number("setting")] = of("setting");
/// Whether some prefix begins with the byte; likewise some program with secrets among its options, and some scheme, in
/// either case. Asked for every word of every command, and mostly answered with no.
static PREFIX_BEGINS: [bool; 256] = begins(&of::<{ number("prefix") }>("prefix"));
static PROGRAM_BEGINS: [bool; 256] = begins(&of::<{ number("option") }>("option"));
static SCHEME_BEGINS: [bool; 256] = begins(&of::<{ number("scheme") }>("scheme"));

/// The shipped rules.
pub static SECRETS: SecretRules = SecretRules(());

/// The rules: what sort, and what.
#[derive(Clone, Copy, Debug)]
pub struct SecretRules(());

/// An option of one program whose value is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretOption {
    /// The program.
    pub program: &'static str,
    /// The subcommand it belongs to, if it belongs to one.
    pub subcommand: Option<&'static str>,
    /// The option as it is written.
    pub option: &'static str,
}

impl SecretRules {
    /// Parts of names whose value is a secret.
    pub fn words(&self) -> impl Iterator<Item = &'static str> + use<> {
        WORDS.iter().copied()
    }

    /// Words that are followed by a credential.
    pub fn schemes(&self) -> impl Iterator<Item = &'static str> + use<> {
        SCHEMES.iter().copied()
    }

    /// How credentials begin.
    pub fn prefixes(&self) -> impl Iterator<Item = &'static str> + use<> {
        PREFIXES.iter().copied()
    }

    /// Options whose value is a secret.
    pub fn options(&self) -> impl Iterator<Item = SecretOption> + use<> {
        OPTIONS.iter().filter_map(|what| {
            let (program, rest) = what.split_once(' ')?;
            let (subcommand, option) = match rest.trim_start().split_once(' ') {
                Some((subcommand, option)) => (Some(subcommand), option.trim_start()),
                None => (None, rest.trim_start()),
            };
            Some(SecretOption { program, subcommand, option })
        })
    }

    /// The program of that name, when some of its options have secrets.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<&'static str> {
        let begins = name.bytes().next().filter(|byte| PROGRAM_BEGINS[usize::from(*byte)])?;
        let named = |row: &&&str| {
            let bytes = row.as_bytes();
            bytes.first() == Some(&begins) && bytes.get(name.len()) == Some(&b' ') && row.starts_with(name)
        };
        OPTIONS.iter().find(named).map(|row| &row[..name.len()])
    }

    /// How a text begins, when that is how credentials do.
    #[must_use]
    pub fn prefix(&self, text: &str) -> Option<&'static str> {
        let begins = text.bytes().next().filter(|byte| PREFIX_BEGINS[usize::from(*byte)])?;
        self.prefixes().find(|prefix| prefix.as_bytes().first() == Some(&begins) && text.starts_with(prefix))
    }

    /// Whether a word is followed by a credential.
    #[must_use]
    pub fn is_scheme(&self, word: &str) -> bool {
        word.bytes().next().is_some_and(|byte| SCHEME_BEGINS[usize::from(byte)])
            && self.schemes().any(|scheme| scheme.eq_ignore_ascii_case(word))
    }

    /// Whether after this word names have their values in the next argument.
    #[must_use]
    pub fn is_setting(&self, word: &str) -> bool {
        SETTINGS.contains(&word)
    }

    /// Whether what goes by a name is a secret. Parts are told apart by `_`, `-`, `.`, `/`, `:` and capitals.
    #[must_use]
    pub fn names_secret(&self, name: &str) -> bool {
        let single = name.bytes().all(|byte| byte.is_ascii_lowercase());
        let spelled = if single { String::new() } else { parts(name) };
        let (parts, mut last, mut found) = (if single { name } else { &spelled }, "", false);
        for part in parts.split(' ').filter(|part| !part.is_empty()) {
            // Most names differ from most words in the last letter already.
            let end = part.as_bytes().last();
            found = found
                || self
                    .words()
                    .filter(|word| word.as_bytes().last() == end)
                    .any(|word| is_called(part, word) || are_called(last, part, word));
            last = part;
        }
        found && !ENDINGS.contains(&last)
    }
}

/// Whether a part of a name is the word, its own parts joined, or ends with it: `pgpassword` is a password, but
/// `bypass` is no pass.
fn is_called(part: &str, word: &str) -> bool {
    let (one, other) = word.split_once('-').unwrap_or((word, ""));
    let Some(before) = part.strip_suffix(other).and_then(|rest| rest.strip_suffix(one)) else { return false };
    before.is_empty() || one.len() + other.len() > 4
}

/// Whether two parts that follow each other are the two of a word.
fn are_called(part: &str, next: &str, word: &str) -> bool {
    word.split_once('-') == Some((part, next))
}

/// The parts of a name in small letters, with blanks between them.
fn parts(name: &str) -> String {
    let mut parts = String::with_capacity(name.len() + 8);
    let mut small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || small && c.is_uppercase() {
            parts.push(' ');
        }
        if c.is_ascii_alphanumeric() {
            parts.push(c.to_ascii_lowercase());
        } else if c.is_alphanumeric() {
            parts.extend(c.to_lowercase());
        }
        small = c.is_lowercase() || c.is_ascii_digit();
    }
    parts
}

/// How many rows there are of a sort.
const fn number(sort: &str) -> usize {
    let (mut found, mut at) = (0, 0);
    while at < ROWS.len() {
        found += is(ROWS[at][0], sort) as usize;
        at += 1;
    }
    found
}

/// What the rows of a sort say.
const fn of<const NUMBER: usize>(sort: &str) -> [&'static str; NUMBER] {
    let mut all = [""; NUMBER];
    let (mut found, mut at) = (0, 0);
    while at < ROWS.len() {
        if is(ROWS[at][0], sort) {
            all[found] = ROWS[at][1];
            found += 1;
        }
        at += 1;
    }
    all
}

/// With which bytes some of the texts begin, in either case.
const fn begins(texts: &[&str]) -> [bool; 256] {
    let (mut begins, mut at) = ([false; 256], 0);
    while at < texts.len() {
        let first = texts[at].as_bytes()[0];
        begins[first.to_ascii_lowercase() as usize] = true;
        begins[first.to_ascii_uppercase() as usize] = true;
        at += 1;
    }
    begins
}

/// Whether two texts are the same, for while compiling.
const fn is(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_of_a_known_sort_and_has_a_reason() {
        let sorts = ["word", "ending", "scheme", "prefix", "option", "setting", "url"];
        for [sort, what] in ROWS {
            assert!(sorts.contains(&sort), "{sort} | {what}");
            assert!(sort != "word" || what.matches('-').count() < 2, "{what} has more than two parts");
        }
        assert_eq!(SECRETS.options().count(), OPTIONS.len());
        let mut lines = TEXT.lines().filter(|line| !line.starts_with('#'));
        assert!(lines.all(|line| line.split('|').count() == 3));
    }

    #[test]
    fn names_of_secrets_are_known_in_every_spelling() {
        for name in [
            "PASSWORD",
            "DB_PASSWORD",
            "dbPassword",
            "PGPASSWORD",
            "MYSQL_PWD",
            "github.token",
            "X-Api-Key",
            "apiKey",
            "AWS_SECRET_ACCESS_KEY",
            "npm_config__authToken",
            "client-secret",
            "Authorization",
            "TOKEN_GITHUB",
            "//host.example/:_authToken",
            "Set-Cookie",
        ] {
            assert!(SECRETS.names_secret(name), "{name}");
        }
        for name in [
            "",
            "--max-tokens",
            "token-file",
            "bypass",
            "author",
            "tokenizer",
            "key",
            "PATH",
            "password-stdin",
        ] {
            assert!(!SECRETS.names_secret(name), "{name}");
        }
    }
}
