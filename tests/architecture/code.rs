//! Rust text without its comments and strings, so that checks look at code only.

/// The text with comments, strings and characters blanked out; lines stay where they are.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let length = skipped(&chars[at..], at.checked_sub(1).map(|before| chars[before]));
        if length == 0 {
            out.push(chars[at]);
            at += 1;
        } else {
            let end = (at + length).min(chars.len());
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// How many characters at the start are a comment, a string or a character; none where it is code.
fn skipped(rest: &[char], before: Option<char>) -> usize {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match rest {
        ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => rest.windows(2).position(|pair| pair == ['*', '/']).map_or(rest.len(), |at| at + 2),
        ['"', ..] => string(rest),
        ['r', '"' | '#', ..] if !in_word => raw_string(rest),
        ['\'', '\\', ..] => rest[2..].iter().skip(1).position(|c| *c == '\'').map_or(rest.len(), |at| at + 4),
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = 2 + hashes;
    rest[body..]
        .windows(end.len())
        .position(|tail| tail == end)
        .map_or(rest.len(), |at| body + at + end.len())
}

#[test]
fn only_code_is_left() {
    let text =
        "let a = \"x // y\"; // unsafe\n/* unsafe */ let c = '\"'; r#\"unsafe\"#; 'a: loop {} '\\''; end";
    let code = code_only(text);
    assert!(!code.contains("unsafe") && !code.contains('y'), "{code}");
    assert!(code.contains("let a =") && code.contains("let c =") && code.contains("'a: loop {}"), "{code}");
    assert!(code.contains("end") && code.lines().count() == 2, "{code}");
}
