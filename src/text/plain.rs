//! Text from strangers, made fit for a terminal, a page and a shell.

/// Control characters, and the marks that change the direction of text: they could hide what is written.
#[must_use]
pub fn deceives(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A word that a shell takes as it stands, whatever is in it.
#[must_use]
pub fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
