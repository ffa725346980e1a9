//! How the lines of a client's file end, which stays.
//!
//! Invariant: what is taken from a text is given back to it, to the byte.

/// A mark at the beginning of a file.
const MARK: char = '\u{feff}';

/// How lines end, and whether the file begins with a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// Whether every line ends as on Windows.
    returns: bool,
    mark: bool,
}

impl Ends {
    /// Of a text.
    pub(super) fn of(text: &str) -> Self {
        let all = text.matches('\n').count();
        Self { returns: all > 0 && text.matches("\r\n").count() == all, mark: text.starts_with(MARK) }
    }

    /// The text without them.
    pub(super) fn taken_from(self, text: &str) -> String {
        let text = text.strip_prefix(MARK).filter(|_| self.mark).unwrap_or(text);
        if self.returns { text.replace("\r\n", "\n") } else { text.to_owned() }
    }

    /// The text with them again.
    pub(super) fn given_to(self, text: String) -> String {
        let text = if self.returns { text.replace('\n', "\r\n") } else { text };
        if self.mark { format!("{MARK}{text}") } else { text }
    }
}
