//! Replacing exact text in a file.

use super::Outcome;
use super::look::Spot;
use super::put::{content_of, put};
use super::wire::{BODY, Replacement, Seen};
use crate::hands::fault::{Fault, FaultCode};
use serde_json::json;
use std::path::Path;

/// Makes all the replacements in order, or none.
pub(super) fn edit(path: &Path, seen: Seen, edits: &[Replacement], replace: bool) -> Outcome {
    let spot = Spot::reach("edit", path, seen)?;
    let content = content_of(&spot, BODY as u64)?;
    let text = String::from_utf8(content).map_err(|_| {
        let message = format!("cannot edit {}: it is not UTF-8 text", path.display());
        Fault::new(FaultCode::NotText, message)
    })?;
    let (text, made) = replaced(path, text, edits)?;
    let atomic = put(&spot, replace, text.as_bytes())?;
    Ok((json!({ "replacements": made, "bytes": text.len(), "atomic": atomic }), Vec::new()))
}

fn replaced(path: &Path, mut text: String, edits: &[Replacement]) -> Result<(String, usize), Fault> {
    let mut made = 0;
    for (number, edit) in edits.iter().enumerate() {
        let fault = |code, why: &str| {
            let which = if edits.len() > 1 { format!(" (edit {})", number + 1) } else { String::new() };
            Err(Fault::new(code, format!("cannot edit {}{which}: {why}", path.display())))
        };
        let count = text.matches(&edit.old).count();
        match (count, edit.all) {
            _ if edit.old.is_empty() => return fault(FaultCode::NoMatch, "the text to replace is empty"),
            _ if edit.old == edit.new => return fault(FaultCode::NoMatch, "the new text is the old text"),
            (0, _) => return fault(FaultCode::NoMatch, "the text to replace does not occur"),
            (1, _) | (_, true) => {}
            (count, false) => {
                let why = format!("the text to replace occurs {count} times");
                return fault(FaultCode::NotUnique, &why);
            }
        }
        let grown = text.len() + count * edit.new.len();
        if grown.saturating_sub(count * edit.old.len()) > BODY {
            return fault(FaultCode::TooLarge, "it would become too large");
        }
        text = text.replace(&edit.old, &edit.new);
        made += count;
    }
    Ok((text, made))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str, all: bool) -> Replacement {
        Replacement { old: old.to_owned(), new: new.to_owned(), all }
    }

    #[test]
    fn a_replacement_is_exact_and_unique_or_not_made() {
        let on = |edits: &[Replacement]| {
            replaced(Path::new("/f"), "one two two".to_owned(), edits).map_err(|fault| fault.code.name())
        };
        assert_eq!(on(&[edit("one", "1", false)]), Ok(("1 two two".to_owned(), 1)));
        assert_eq!(on(&[edit("two", "2", true)]), Ok(("one 2 2".to_owned(), 2)));
        assert_eq!(on(&[edit("two", "2", false)]), Err("not_unique"));
        assert_eq!(on(&[edit("three", "3", true)]), Err("no_match"));
        assert_eq!(on(&[edit("", "3", true)]), Err("no_match"));
        assert_eq!(on(&[edit("one", "1", false), edit("one", "1", false)]), Err("no_match"));
    }
}
