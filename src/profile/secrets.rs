//! What is a secret by its name, its shape or its place in a command.

use super::system::rows;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The rules, read from `profiles/audit/redact.txt`.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SecretRules {
    /// Parts of names whose value is a secret.
    pub words: BTreeSet<&'static str>,
    /// The same with nothing between their parts.
    joined: BTreeSet<String>,
    /// Last parts of names whose value is none after all.
    pub endings: BTreeSet<&'static str>,
    /// Words that are followed by a credential.
    pub schemes: BTreeSet<&'static str>,
    /// How credentials begin.
    pub prefixes: Vec<&'static str>,
    /// Options whose value is a secret.
    pub options: Vec<SecretOption>,
    /// Words after which names have their values in the next argument.
    pub settings: BTreeSet<&'static str>,
}

/// An option of one program whose value is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretOption {
    /// The program.
    pub program: &'static str,
    /// The subcommand it belongs to, if it belongs to one.
    pub subcommand: Option<&'static str>,
    /// The option as it is written.
    pub option: &'static str,
}

/// The shipped rules.
pub static SECRETS: LazyLock<SecretRules> = LazyLock::new(|| {
    let mut rules = SecretRules::default();
    for mut cells in rows(include_str!("../../profiles/audit/redact.txt")) {
        let (Some(rule), Some(what)) = (cells.next(), cells.next()) else { continue };
        match rule {
            "word" => {
                rules.words.insert(what);
                rules.joined.insert(what.replace('-', ""));
            }
            "ending" => drop(rules.endings.insert(what)),
            "scheme" => drop(rules.schemes.insert(what)),
            "prefix" => rules.prefixes.push(what),
            "option" => rules.options.extend(option(what)),
            "setting" => drop(rules.settings.insert(what)),
            // `url` is a rule without a choice; its row gives the reason.
            _ => {}
        }
    }
    rules
});

fn option(what: &'static str) -> Option<SecretOption> {
    let words: Vec<&'static str> = what.split_whitespace().collect();
    match *words.as_slice() {
        [program, option] => Some(SecretOption { program, subcommand: None, option }),
        [program, subcommand, option] => Some(SecretOption { program, subcommand: Some(subcommand), option }),
        _ => None,
    }
}

impl SecretRules {
    /// Whether what goes by a name is a secret. Parts are told apart by `_`, `-`, `.`, `/`, `:` and capitals.
    #[must_use]
    pub fn names_secret(&self, name: &str) -> bool {
        let parts = parts(name);
        let harmless = parts.last().is_some_and(|last| self.endings.contains(last.as_str()));
        // `pgpassword` is a password; `bypass` is no pass.
        let ends = |part: &str| {
            let mut long = self.joined.iter().filter(|word| word.len() > 4);
            self.joined.contains(part) || long.any(|word| part.ends_with(word.as_str()))
        };
        let single = parts.iter().any(|part| ends(part));
        let double = parts.windows(2).any(|pair| self.words.contains(pair.join("-").as_str()));
        (single || double) && !harmless
    }
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
    fn every_row_is_read() {
        let text = include_str!("../../profiles/audit/redact.txt");
        let rows = text.lines().filter(|line| !line.starts_with('#')).count();
        let SecretRules { words, endings, schemes, prefixes, options, settings, .. } = &*SECRETS;
        let read =
            words.len() + endings.len() + schemes.len() + prefixes.len() + options.len() + settings.len();
        assert_eq!(read + 1, rows);
        assert!(text.lines().filter(|line| !line.starts_with('#')).all(|line| line.split('|').count() == 3));
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
