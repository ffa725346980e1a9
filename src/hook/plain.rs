//! Commands that are nothing but words: every shell reads them alike, and no shell is needed to run them.

/// The words of a command that has nothing in it but words; none for anything a shell could give a meaning to.
#[must_use]
pub fn words(command: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    for word in split(command)? {
        let first = words.is_empty();
        words.push(plain_word(word, first)?);
    }
    (!words.is_empty()).then_some(words)
}

/// The words of a line in which every word is quoted as [`super::quote`] does it.
pub(super) fn quoted_words(line: &str) -> Option<Vec<String>> {
    split(line)?.into_iter().map(super::unquote).collect()
}

/// Cuts a line at its blanks, leaving those in quotes; none when a quote stays open.
fn split(line: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut open) = (Vec::new(), None, None);
    for (at, c) in line.char_indices() {
        match (open, c) {
            (None, ' ' | '\t') => parts.extend(start.take().map(|start| &line[start..at])),
            (None, '\'' | '"') => {
                open = Some(c);
                start.get_or_insert(at);
            }
            (Some(quote), c) if c == quote => open = None,
            (Some(_), _) => {}
            (None, _) => {
                start.get_or_insert(at);
            }
        }
    }
    parts.extend(start.map(|start| &line[start..]));
    open.is_none().then_some(parts)
}

/// What a word says when no shell reads anything else in it.
fn plain_word(word: &str, first: bool) -> Option<String> {
    let bare = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | ':' | '@' | '%' | '+' | ',' | '-')
    };
    let (mut said, mut rest) = (String::new(), word);
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\'' | '"' => {
                let end = rest[1..].find(c)? + 1;
                let inside = &rest[1..end];
                // Some shells give these a meaning within quotes.
                if inside.contains(['$', '`', '\\', '!', '\n', '\r', '\0']) {
                    return None;
                }
                said.push_str(inside);
                end + 1
            }
            // An assignment before a command, or a path that some shells look up.
            '=' if first || said.is_empty() => return None,
            c if bare(c) || c == '=' => {
                said.push(c);
                1
            }
            _ => return None,
        };
        rest = &rest[length..];
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_only_words() {
        assert_eq!(
            words("rg --line-number 'a b' src/x.rs").unwrap(),
            ["rg", "--line-number", "a b", "src/x.rs"]
        );
        assert_eq!(words("git log --format=\"%h x\" -1").unwrap(), ["git", "log", "--format=%h x", "-1"]);
        assert_eq!(words(" ls '' ").unwrap(), ["ls", ""]);
        for command in [
            "",
            " ",
            "ls *",
            "ls ~",
            "ls $x",
            "ls; ls",
            "ls\nls",
            "ls | wc",
            "ls > x",
            "a=b ls",
            "ls 'x",
            "ls \\ ",
            "ls \"$x\"",
            "ls `x`",
            "ls &",
            "(ls)",
            "ls #x",
            "! ls",
            "ls [a]",
            "ls {a,b}",
            "ls =ls",
            "ls 'a!b'",
            "ls\r",
        ] {
            assert_eq!(words(command), None, "{command:?}");
        }
    }
}
