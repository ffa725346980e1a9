//! Texts that the shell expands once more: prompts, indices, arithmetic.
//!
//! `x='a[$(reboot)]'; echo $((x))` starts what stands in the value. What is found in such texts is walked like
//! any substitution.

use super::command::{Arg, COMPUTED, Command, UNSET};
use super::expand::Value;
use super::flatten::{MAX_CALLS, Walk};
use super::scan::Scanner;
use super::syntax::Word;
use super::tree::fill_in_pieces;
use crate::text::Span;

/// How many names in an expression are followed to what they hold.
const MAX_NAMES: usize = 8;
/// How far names are followed.
const MAX_STEPS: usize = 3;

impl Walk<'_> {
    /// Expands a text the way double quotes do; none where nothing in it expands.
    pub(super) fn expand_again(&mut self, text: &str, span: Span) -> Option<Arg> {
        if !text.contains(['$', '`']) {
            return None;
        }
        if self.calls.len() >= MAX_CALLS {
            self.opaque(span, "texts within texts are nested too deeply to follow");
            self.flat.truncated = true;
            return None;
        }
        let text: String = text.chars().map(|c| if c == UNSET { COMPUTED } else { c }).collect();
        let read = Scanner::new(&text, self.calls.len(), Some(span)).and_then(|mut scanner| {
            let mut pieces = scanner.nested(|scanner| scanner.double_quoted(None))?;
            fill_in_pieces(&mut pieces, &scanner.bodies);
            Ok(pieces)
        });
        match read {
            Ok(pieces) => {
                self.calls.push("expansion".to_owned());
                let arg = self.expand_whole(&Word { pieces, span });
                self.calls.pop();
                Some(arg)
            }
            Err(error) => {
                self.opaque(span, "a text that is expanded again cannot be read");
                self.flat.unread.get_or_insert(error);
                None
            }
        }
    }

    /// An expression that is evaluated: what stands in its indices runs, also in what its names hold.
    pub(super) fn evaluated(&mut self, text: &str, span: Span) {
        self.evaluated_within(text, span, MAX_STEPS);
    }

    fn evaluated_within(&mut self, text: &str, span: Span, steps: usize) {
        self.index_in(text, span);
        let Some(left) = steps.checked_sub(1).filter(|_| !self.variables.is_empty()) else { return };
        let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let mut held: Vec<String> = Vec::new();
        for name in names.filter(|name| !name.is_empty()).take(MAX_NAMES) {
            let values =
                self.variables.get(name).into_iter().chain(self.others.get(name).into_iter().flatten());
            held.extend(values.filter_map(|value| match value {
                Value::Known(texts) => texts.first().cloned(),
                Value::Guess(text) => Some(text.clone()),
                Value::Computed | Value::Unset => None,
            }));
        }
        held.retain(|value| value != text && value.contains(|c: char| c.is_ascii_alphabetic()));
        held.truncate(MAX_NAMES);
        for value in held {
            self.evaluated_within(&value, span, left);
        }
    }

    /// The index of a name such as `a[$(…)]`.
    pub(super) fn index_in(&mut self, text: &str, span: Span) {
        if text.contains('[') {
            self.expand_again(text, span);
        }
    }

    /// What builtins evaluate of the words they are given.
    pub(super) fn evaluates(&mut self, name: &str, command: &Command) {
        let arguments = command.argv.get(1..).unwrap_or_default();
        match name {
            "let" => arguments.iter().for_each(|arg| self.evaluated(&arg.text, arg.span)),
            "declare" | "typeset" | "local" | "export" | "readonly" | "read" | "unset" | "getopts"
            | "wait" | "mapfile" | "readarray" => {
                arguments.iter().for_each(|arg| self.index_in(&arg.text, arg.span));
            }
            "printf" | "test" | "[" => {
                for pair in arguments.windows(2) {
                    if let [option, name] = pair
                        && matches!(option.text.as_str(), "-v" | "-R")
                    {
                        self.index_in(&name.text, name.span);
                    }
                }
            }
            _ => {}
        }
        let integer = matches!(name, "declare" | "typeset" | "local")
            && arguments.iter().any(|arg| arg.text.starts_with('-') && arg.text.contains('i'));
        if integer {
            for arg in arguments {
                self.evaluated(&arg.text, arg.span);
            }
        }
        self.callbacks(name, command);
    }

    /// Words of builtins that are run, or expanded, later.
    fn callbacks(&mut self, name: &str, command: &Command) {
        let (text, expanded): (&[&str], &[&str]) = match name {
            "mapfile" | "readarray" => (&["-C"], &[]),
            "compgen" | "complete" => (&["-C"], &["-W"]),
            "bind" => (&["-x"], &[]),
            _ => return,
        };
        let words = command.argv.get(1..).unwrap_or_default();
        for (value, known) in super::options::option_values(words, text) {
            // `bind -x` names a key before the command.
            let value =
                value.split_once("\":").filter(|_| name == "bind").map_or(value.as_str(), |(_, run)| run);
            self.text_within(value, known, command, name);
        }
        for (value, _) in super::options::option_values(words, expanded) {
            self.expand_again(&value, command.span);
        }
    }
}
