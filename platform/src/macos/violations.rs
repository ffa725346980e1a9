//! What the system's log says was denied.
//!
//! Answers for understanding lines of `log stream`; what they mean for an authority is for the caller.
//! Invariant: a line without the launch's own tag is nobody's business here.

use std::path::PathBuf;

use crate::report::{Act, Verb};

/// The denial in one line of the log, if it is one of ours.
///
/// The message is `Sandbox: NAME(PID) deny(1) OPERATION PATH`, followed by the tag; inside JSON, so that line
/// ends and quotes are escaped.
#[must_use]
pub fn denial(line: &str, tag: &str) -> Option<Act> {
    let tagged = !tag.is_empty() && line.contains(tag);
    let (_, rest) = line.split_once(" deny(").filter(|_| tagged)?;
    let (_, rest) = rest.split_once(") ")?;
    let (operation, rest) = rest.split_once(' ')?;
    let verb = match operation {
        "file-write-unlink" => Verb::Remove,
        operation if operation.starts_with("file-write") => Verb::Write,
        "file-read-data" | "file-read-xattr" => Verb::Read,
        "file-read-metadata" => Verb::Look,
        "process-exec" => Verb::Run,
        "network-outbound" => Verb::Connect,
        _ => return None,
    };
    let path = unescaped(rest, tag);
    let whole = if verb == Verb::Connect { !path.is_empty() } else { path.starts_with('/') };
    whole.then(|| Act { verb, path: PathBuf::from(path), call: "", error: libc::EPERM, words: Vec::new() })
}

/// The path at the start of a JSON string's rest: up to its line end, its quote or the tag.
fn unescaped(text: &str, tag: &str) -> String {
    let mut path = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' | '\n' => break,
            '\\' => match chars.next() {
                Some('n') | None => break,
                Some(other) => path.push(other),
            },
            c => path.push(c),
        }
    }
    let end = path.find(tag).unwrap_or(path.len());
    path.truncate(end);
    path.truncate(path.trim_end().len());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_of_ours_becomes_an_act() {
        let line = r#"{"eventMessage":"Sandbox: cat(412) deny(1) file-read-data \/Users\/u\/a \"b\".txt\nsbx-7f","processID":0}"#;
        let act = denial(line, "sbx-7f").unwrap();
        assert_eq!((act.verb, act.path), (Verb::Read, PathBuf::from("/Users/u/a \"b\".txt")));
        let line = "Sandbox: rm(1) deny(1) file-write-unlink /Users/u/x sbx-7f";
        assert_eq!(denial(line, "sbx-7f").unwrap().verb, Verb::Remove);
        assert_eq!(denial(line, "sbx-7f").unwrap().path, PathBuf::from("/Users/u/x"));
    }

    #[test]
    fn each_operation_has_its_verb() {
        for (operation, object, verb) in [
            ("file-read-data", "/a", Verb::Read),
            ("file-read-metadata", "/a", Verb::Look),
            ("process-exec", "/bin/sh", Verb::Run),
            ("file-write-create", "/a", Verb::Write),
            ("file-write-unlink", "/a", Verb::Remove),
            ("network-outbound", "192.0.2.1:443", Verb::Connect),
            ("network-outbound", "/private/var/run/mDNSResponder", Verb::Connect),
        ] {
            let line = format!("Sandbox: x(1) deny(1) {operation} {object} sbx-7f");
            let act = denial(&line, "sbx-7f").unwrap();
            assert_eq!((act.verb, act.path), (verb, PathBuf::from(object)), "{operation}");
        }
    }

    #[test]
    fn what_is_not_ours_or_no_file_is_left_alone() {
        for line in [
            "Sandbox: cat(412) deny(1) file-read-data /Users/u/a other",
            "Sandbox: cat(412) deny(1) mach-lookup com.apple.x sbx-7f",
            "Sandbox: cat(412) allow file-read-data /Users/u/a sbx-7f",
            "deny( sbx-7f",
            "",
        ] {
            assert!(denial(line, "sbx-7f").is_none(), "{line}");
        }
        assert!(denial("Sandbox: cat(412) deny(1) file-read-data /a", "").is_none());
    }
}
