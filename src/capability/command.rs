//! Command patterns, matched argument by argument.
//!
//! `git:*` is git with any arguments; `npm test *` is those tokens and then anything; an inner `*`
//! is exactly one argument. A glob never crosses from one argument into the next.

use super::glob::{is_literal, matches_segment};
use std::fmt;

/// One token of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    /// This very argument.
    Literal(Box<str>),
    /// An argument that matches the glob.
    Glob(Box<str>),
}

impl Token {
    fn matches(&self, argument: &[u8]) -> bool {
        match self {
            Self::Literal(text) => text.as_bytes() == argument,
            Self::Glob(pattern) => matches_segment(pattern, argument),
        }
    }

    fn covers(&self, child: &Self) -> bool {
        match (self, child) {
            (Self::Glob(pattern), _) if &**pattern == "*" => true,
            (parent, Self::Literal(text)) => parent.matches(text.as_bytes()),
            (parent, child) => parent == child,
        }
    }
}

/// A compiled command pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommandPattern {
    text: Box<str>,
    tokens: Box<[Token]>,
    /// Whether further arguments may follow.
    open: bool,
}

/// Why a text is not a command pattern or command name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing is written.
    #[error("it is empty")]
    Empty,
    /// It holds a character that no command line should.
    #[error("it contains a control character")]
    Control,
    /// A `cmds` entry is a program, not a command line.
    #[error("`cmds` names programs; `{0}` has arguments")]
    Arguments(String),
}

impl CommandPattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// When it is empty or contains control characters.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.chars().any(|c| c.is_control() && !c.is_whitespace()) {
            return Err(PatternError::Control);
        }
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let open = match words.as_slice() {
            [] => return Err(PatternError::Empty),
            ["*"] => {
                words.clear();
                true
            }
            [only] if only.ends_with(":*") && only.len() > 2 => {
                words = vec![&only[..only.len() - 2]];
                true
            }
            [.., "*"] => {
                words.pop();
                true
            }
            _ => false,
        };
        let tokens = words.into_iter().map(|word| {
            if is_literal(word) { Token::Literal(word.into()) } else { Token::Glob(word.into()) }
        });
        Ok(Self { tokens: tokens.collect(), open, text: text.into() })
    }

    /// The pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The program it is about; none when any program fits.
    #[must_use]
    pub fn program(&self) -> Option<&Token> {
        self.tokens.first()
    }

    /// The argument right after the program; none when nothing is said of it.
    #[must_use]
    pub fn first_argument(&self) -> Option<&Token> {
        self.tokens.get(1)
    }

    /// Whether the arguments after the program fit.
    #[must_use]
    pub fn matches_arguments<'a>(&self, arguments: impl ExactSizeIterator<Item = &'a [u8]>) -> bool {
        let wanted = self.tokens.get(1..).unwrap_or_default();
        let enough =
            if self.open { arguments.len() >= wanted.len() } else { arguments.len() == wanted.len() };
        enough && wanted.iter().zip(arguments).all(|(token, argument)| token.matches(argument))
    }

    /// Whether the program's name fits.
    #[must_use]
    pub fn matches_program(&self, name: &[u8]) -> bool {
        self.program().is_none_or(|token| token.matches(name))
    }

    /// Whether it allows one program with any arguments.
    #[must_use]
    pub fn is_whole_program(&self) -> bool {
        self.open && self.tokens.len() <= 1
    }

    /// Whether every command line that fits `child` fits this pattern too. Errs on the side of no.
    #[must_use]
    pub fn covers(&self, child: &Self) -> bool {
        let long_enough = if self.open {
            child.tokens.len() >= self.tokens.len()
        } else {
            !child.open && child.tokens.len() == self.tokens.len()
        };
        long_enough && self.tokens.iter().zip(&child.tokens).all(|(parent, child)| parent.covers(child))
    }
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a program is named as a file rather than looked up.
#[must_use]
pub fn has_separator(program: &str) -> bool {
    program.contains('/')
}

/// Checks one entry of `cmds`.
///
/// # Errors
/// When it is empty, holds control characters, or looks like a command line.
pub fn check_command(entry: &str) -> Result<(), PatternError> {
    if entry.trim().is_empty() {
        Err(PatternError::Empty)
    } else if entry.chars().any(char::is_control) {
        Err(PatternError::Control)
    } else if !has_separator(entry) && entry.contains(char::is_whitespace) {
        Err(PatternError::Arguments(entry.to_owned()))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, argv: &[&str]) -> bool {
        let pattern = CommandPattern::parse(pattern).unwrap();
        pattern.matches_program(argv[0].as_bytes())
            && pattern.matches_arguments(argv[1..].iter().map(|argument| argument.as_bytes()))
    }

    fn covers(parent: &str, child: &str) -> bool {
        CommandPattern::parse(parent).unwrap().covers(&CommandPattern::parse(child).unwrap())
    }

    #[test]
    fn a_trailing_star_is_the_rest_and_may_be_nothing() {
        assert!(fits("git log *", &["git", "log"]));
        assert!(fits("git log *", &["git", "log", "-1", "-p"]));
        assert!(!fits("git log", &["git", "log", "-1"]));
    }

    #[test]
    fn an_inner_star_is_exactly_one_argument() {
        assert!(fits("git * --stat", &["git", "log", "--stat"]));
        assert!(!fits("git * --stat", &["git", "log", "-p", "--stat"]));
        assert!(!fits("git * --stat", &["git", "--stat"]));
    }

    #[test]
    fn an_argument_with_blanks_cannot_fake_several() {
        assert!(!fits("npm test", &["npm test"]));
        assert!(!fits("git log *", &["git", "log --evil"]));
    }

    #[test]
    fn a_word_with_colon_star_is_that_program_with_anything() {
        assert!(fits("git:*", &["git"]));
        assert!(fits("git:*", &["git", "push", "-f"]));
        assert!(!fits("git:*", &["gitk"]));
    }

    #[test]
    fn a_lone_star_is_everything() {
        assert!(fits("*", &["anything", "goes"]));
    }

    #[test]
    fn covering_follows_the_tokens() {
        assert!(covers("*", "rm -rf *"));
        assert!(covers("git:*", "git log *"));
        assert!(covers("git *", "git:*"));
        assert!(covers("git * --stat", "git log --stat"));
        assert!(!covers("git log *", "git:*"));
        assert!(!covers("git log", "git log *"));
        assert!(!covers("git lo?", "git l*"));
        assert!(!covers("git:*", "*"));
    }

    #[test]
    fn a_command_line_is_no_command() {
        assert!(check_command("npm test").is_err());
        assert!(check_command("/opt/My Tools/x").is_ok());
        assert!(check_command(" ").is_err());
    }
}
