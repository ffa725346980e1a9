//! Options among words of a command line that sbx wrote, or somebody by hand.

/// Where the value of an option stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionValue {
    /// In which word.
    pub word: usize,
    /// From which byte of it on.
    pub from: usize,
}

/// Where the value of an option stands before the first `--`: in the next word, after `=`, or right after the letter.
#[must_use]
pub fn option_value(words: &[&str], long: &str, letter: Option<char>) -> Option<OptionValue> {
    let own = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let joined = |word: &str| {
        let named = word.strip_prefix("--").and_then(|rest| rest.strip_prefix(long));
        match named {
            Some("") => Some(None),
            Some(rest) => rest.starts_with('=').then_some(Some(long.len() + 3)),
            None => {
                let rest = word.strip_prefix('-')?.strip_prefix(letter?)?;
                let from = word.len() - rest.strip_prefix('=').unwrap_or(rest).len();
                Some((from < word.len()).then_some(from))
            }
        }
    };
    let (word, from) =
        words[..own].iter().enumerate().find_map(|(at, word)| joined(word).map(|from| (at, from)))?;
    match from {
        Some(from) => Some(OptionValue { word, from }),
        None => (word + 1 < own).then_some(OptionValue { word: word + 1, from: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_however_it_is_written() {
        let value = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            option_value(&words, "agent", Some('a')).map(|at| words[at.word][at.from..].to_owned())
        };
        for line in ["--agent old", "--agent=old", "-a old", "-aold", "-a=old"] {
            assert_eq!(
                value(&format!("mcp wrap --name x {line} --pins p -- npx")).as_deref(),
                Some("old"),
                "{line}"
            );
        }
        for line in ["--agents=old", "--allowlist old", "-- --agent old", "--agent", "--agent -- old", "old"]
        {
            assert_eq!(value(line), None, "{line}");
        }
        assert_eq!(value("--agent= x").as_deref(), Some(""));
    }
}
