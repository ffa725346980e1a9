//! Leading shell text through the fence: the command that a client runs in place of the one it was about to run.
//!
//! Invariant: whatever the text says, the client's shell reads it as one word, in sh, bash, zsh and fish alike; and
//! only a command that is exactly what would be written here counts as fenced already.

use std::path::Path;

/// How sbx is called for one agent in one project.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    eval: String,
    exec: String,
}

impl Fence {
    pub(super) fn new(program: &Path, agent: &str, project: Option<&Path>) -> Result<Self, String> {
        let program = program.to_str().filter(|program| program.starts_with('/'));
        let program = program.ok_or("sbx does not know its own path")?;
        let project =
            project.map(|project| project.to_str().ok_or("the project's path is not UTF-8")).transpose()?;
        // Wherever the client runs the command, the project stays the one that was decided on.
        let project = project.map_or_else(String::new, |project| format!(" --project {}", word(project)));
        let lead = |command: &str| format!("{} {command} --agent {}{project} --", word(program), word(agent));
        Ok(Self { eval: lead("eval"), exec: lead("exec") })
    }

    /// The command that evaluates a text behind the fence.
    pub(super) fn eval(&self, text: &str) -> String {
        format!("{} {}", self.eval, quote(text))
    }

    /// The command that runs a program behind the fence.
    pub(super) fn exec(&self, argv: &[String]) -> String {
        argv.iter().fold(self.exec.clone(), |line, argument| format!("{line} {}", quote(argument)))
    }

    /// The text of a command that is behind this very fence already.
    pub(super) fn inside(&self, command: &str) -> Option<String> {
        unquote(command.strip_prefix(&self.eval)?.strip_prefix(' ')?)
    }

    /// The program and arguments of a command that is behind this very fence already.
    pub(super) fn inside_exec(&self, command: &str) -> Option<Vec<String>> {
        let rest = command.strip_prefix(&self.exec)?.strip_prefix(' ')?;
        let argv: Vec<String> = super::plain::quoted_words(rest)?;
        (self.exec(&argv) == command).then_some(argv)
    }
}

/// A word that needs no quotes stays as it is.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { quote(text) }
}

/// A text as one word of a shell.
///
/// Within single quotes fish gives a meaning to backslashes and others do not; within double quotes an escaped
/// backslash means the same to all of them.
#[must_use]
pub fn quote(text: &str) -> String {
    if text.is_empty() {
        return "''".to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (piece, length) = match first {
            '\'' => ("\"'\"".to_owned(), 1),
            '\\' => ("\"\\\\\"".to_owned(), 1),
            _ => {
                let length = rest.find(['\'', '\\']).unwrap_or(rest.len());
                (format!("'{}'", &rest[..length]), length)
            }
        };
        out.push_str(&piece);
        rest = &rest[length..];
    }
    out
}

/// The text of which [`quote`] makes exactly this word.
#[must_use]
pub fn unquote(word: &str) -> Option<String> {
    let mut text = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("\"'\"") {
            text.push('\'');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\"\\\\\"") {
            text.push('\\');
            rest = after;
        } else {
            let (inside, after) = rest.strip_prefix('\'')?.split_once('\'')?;
            text.push_str(inside);
            rest = after;
        }
    }
    (quote(&text) == word).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fence() -> Fence {
        Fence::new(Path::new("/usr/bin/sbx"), "builder", Some(Path::new("/w/a b"))).unwrap()
    }

    #[test]
    fn only_the_exact_own_command_counts_as_fenced() {
        let own = fence().eval("echo 'a'; ls");
        assert_eq!(own, "/usr/bin/sbx eval --agent builder --project '/w/a b' -- 'echo '\"'\"'a'\"'\"'; ls'");
        assert_eq!(fence().inside(&own).as_deref(), Some("echo 'a'; ls"));
        let lead = "/usr/bin/sbx eval --agent builder --project '/w/a b' --";
        for other in [
            "/usr/bin/sbx eval --agent builder -- 'ls'".to_owned(),
            "/usr/bin/sbx eval --agent other --project '/w/a b' -- 'ls'".to_owned(),
            "/usr/bin/sbx eval --agent builder --project /w -- 'ls'".to_owned(),
            "sbx eval --agent builder --project '/w/a b' -- 'ls'".to_owned(),
            format!(" {lead} 'ls'"),
            format!("{lead}  'ls'"),
            format!("{lead} 'ls' "),
            format!("{lead} 'ls'; rm x"),
            format!("{lead} 'ls'\nrm x"),
            format!("{lead} 'ls' && rm x"),
            format!("{lead} ls"),
            format!("{lead} \"ls\""),
            format!("{lead} \"$(rm x)\""),
            format!("{lead} 'l''s'"),
            format!("{lead} 'ls'\\''"),
            format!("{lead} "),
            lead.to_owned(),
            format!("{lead} 'a' 'b'"),
        ] {
            assert_eq!(fence().inside(&other), None, "{other}");
        }
    }

    #[test]
    fn a_program_counts_as_fenced_in_the_same_way() {
        let own = fence().exec(&["rg".to_owned(), "a b".to_owned()]);
        assert_eq!(fence().inside_exec(&own).unwrap(), ["rg", "a b"]);
        for tail in ["; ls", " && ls", "\nls", " ls", "'x'", " \"$(ls)\""] {
            assert_eq!(fence().inside_exec(&format!("{own}{tail}")), None, "{tail}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_reads_back(text in r#"[a'"\\ \n$`;é]{0,12}"#) {
            prop_assert_eq!(unquote(&quote(&text)), Some(text.clone()));
            prop_assert_eq!(fence().inside(&fence().eval(&text)), Some(text));
        }

        #[test]
        fn what_reads_back_is_what_was_quoted(word in r#"['"\\a ;]{0,12}"#) {
            if let Some(text) = unquote(&word) {
                prop_assert_eq!(quote(&text), word);
            }
        }
    }
}
