//! Queries: statements of SQL as lists of words, without comments and the insides of strings.

/// A statement's words in upper case.
pub(super) fn statements(text: &str) -> Vec<Vec<String>> {
    let mut statements = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    let close = |word: &mut String, words: &mut Vec<String>| {
        if !word.is_empty() {
            words.push(std::mem::take(word));
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '-' if chars.peek() == Some(&'-') => chars.by_ref().take_while(|c| *c != '\n').for_each(drop),
            '/' if chars.peek() == Some(&'*') => {
                chars.next();
                let mut last = ' ';
                for c in chars.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
                close(&mut word, &mut words);
            }
            '\'' => {
                close(&mut word, &mut words);
                chars.by_ref().take_while(|c| *c != '\'').for_each(drop);
                words.push("''".to_owned());
            }
            ';' => {
                close(&mut word, &mut words);
                statements.push(std::mem::take(&mut words));
            }
            c if c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '`' | '$' | '\u{1}') => {
                word.extend(c.to_uppercase())
            }
            '=' | '<' | '>' | '*' => {
                close(&mut word, &mut words);
                words.push(c.into());
            }
            _ => close(&mut word, &mut words),
        }
    }
    close(&mut word, &mut words);
    statements.push(words);
    statements.retain(|words| !words.is_empty());
    statements.truncate(500);
    statements
}

/// Whether a statement starts with the words of a pattern; `*` is any one word, and `a|b` either.
pub(super) fn starts(statement: &[String], pattern: &str) -> bool {
    let mut words = statement.iter();
    pattern.split(' ').all(|wanted| match words.next() {
        Some(word) => wanted == "*" || wanted.split('|').any(|wanted| wanted == word),
        None => false,
    })
}

/// Whether the words of a pattern stand side by side anywhere.
pub(super) fn contains(statement: &[String], pattern: &str) -> bool {
    (0..statement.len()).any(|at| statement.get(at..).is_some_and(|rest| starts(rest, pattern)))
}

/// Whether a condition narrows it: a `WHERE` that is more than always true.
pub(super) fn is_narrowed(statement: &[String]) -> bool {
    let Some(at) = statement.iter().position(|word| word == "WHERE") else {
        return statement.iter().any(|word| word == "LIMIT");
    };
    let condition: Vec<&str> = statement.iter().skip(at + 1).map(String::as_str).collect();
    !matches!(condition.as_slice(), ["1"] | ["TRUE"] | ["1", "=", "1"] | ["''", "=", "''"] | [])
}
