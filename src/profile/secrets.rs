//! What is a secret by its name, its shape or its place in a command.
//!
//! Answers for the rows of `profiles/audit/redact.txt`, which are asked for at every launch and therefore searched
//! as they stand. Taking secrets out is for the audit to do.
//! Invariant: every row is of a kind that is known here.

use super::table::{count, rows};

const TEXT: &str = include_str!("../../profiles/audit/redact.txt");
static ROWS: [[&str; 2]; count(TEXT)] = rows(TEXT);

/// The shipped rules.
pub static SECRETS: SecretRules = SecretRules(&ROWS);

/// The rules: what sort, and what.
#[derive(Clone, Copy, Debug)]
pub struct SecretRules(&'static [[&'static str; 2]]);

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
    fn of(&self, sort: &'static str) -> impl Iterator<Item = &'static str> + use<> {
        self.0.iter().filter(move |[rule, _]| *rule == sort).map(|[_, what]| *what)
    }

    /// Parts of names whose value is a secret.
    pub fn words(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.of("word")
    }

    /// Words that are followed by a credential.
    pub fn schemes(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.of("scheme")
    }

    /// How credentials begin.
    pub fn prefixes(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.of("prefix")
    }

    /// Options whose value is a secret.
    pub fn options(&self) -> impl Iterator<Item = SecretOption> + use<> {
        self.of("option").filter_map(|what| {
            let (program, rest) = what.split_once(' ')?;
            let (subcommand, option) = match rest.trim_start().split_once(' ') {
                Some((subcommand, option)) => (Some(subcommand), option.trim_start()),
                None => (None, rest.trim_start()),
            };
            Some(SecretOption { program, subcommand, option })
        })
    }

    /// Whether a word is followed by a credential.
    #[must_use]
    pub fn is_scheme(&self, word: &str) -> bool {
        self.schemes().any(|scheme| scheme.eq_ignore_ascii_case(word))
    }

    /// Whether after this word names have their values in the next argument.
    #[must_use]
    pub fn is_setting(&self, word: &str) -> bool {
        self.of("setting").any(|setting| setting == word)
    }

    /// Whether what goes by a name is a secret. Parts are told apart by `_`, `-`, `.`, `/`, `:` and capitals.
    #[must_use]
    pub fn names_secret(&self, name: &str) -> bool {
        let parts = parts(name);
        let Some(last) = parts.last() else { return false };
        let single = parts.iter().any(|part| self.words().any(|word| is_called(part, word)));
        let double = || {
            let both = |pair: &[String], word: &str| {
                word.split_once('-').is_some_and(|(one, other)| pair[0] == one && pair[1] == other)
            };
            parts.windows(2).any(|pair| self.words().any(|word| both(pair, word)))
        };
        (single || double()) && !self.of("ending").any(|ending| ending == last)
    }
}

/// Whether a part of a name is the word, its own parts joined, or ends with it: `pgpassword` is a password, but
/// `bypass` is no pass.
fn is_called(part: &str, word: &str) -> bool {
    let (one, other) = word.split_once('-').unwrap_or((word, ""));
    let Some(before) = part.strip_suffix(other).and_then(|rest| rest.strip_suffix(one)) else { return false };
    before.is_empty() || one.len() + other.len() > 4
}

fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut small = false;
    for c in name.chars() {
        let ends = !c.is_alphanumeric() || small && c.is_uppercase();
        if ends && parts.last().is_some_and(|part| !part.is_empty()) {
            parts.push(String::new());
        }
        if c.is_alphanumeric() {
            parts.last_mut().into_iter().for_each(|part| part.extend(c.to_lowercase()));
        }
        small = c.is_lowercase() || c.is_ascii_digit();
    }
    parts.retain(|part| !part.is_empty());
    parts
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
        assert_eq!(SECRETS.options().count(), SECRETS.of("option").count());
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
