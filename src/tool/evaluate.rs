//! What the commands of a shell line do with the values they are given.
//!
//! Answers for refusing lines in which a value would be read as code, or would name the command. It leaves
//! the words to `lex` and the commands to `profiles/tools/evaluators.txt`.
//! Invariant: in a line that passes, every command with a value has a literal name that is looked up.

use super::lex::{Piece, Refused, Word};
use super::problem::ToolCode;
use super::template::{self, Template};
use crate::profile::{Evaluation, Evaluator, evaluator};
use std::ops::Range;

/// One command of the line.
#[derive(Debug, Default)]
struct Command<'a> {
    words: Vec<&'a Word>,
    /// Targets of redirections.
    targets: Vec<&'a Word>,
    /// Whether it reads what another command prints.
    fed: bool,
}

/// Refuses lines that read a value as code; returns the parameters that begin a word, where an option could be.
pub(super) fn check(pieces: &[Piece]) -> Result<Vec<String>, Refused> {
    let mut exposed = Vec::new();
    for command in commands(pieces)? {
        check_command(&command, &mut exposed)?;
    }
    Ok(exposed)
}

/// Refuses a program with arguments that reads a value as code. No shell is between, so its words are what it gets.
pub(super) fn check_argv(binary: &str, args: &[Template]) -> Result<(), String> {
    let word = |literal: &str, is_literal: bool| Word {
        span: 0..0,
        literal: literal.to_owned(),
        is_literal,
        values: Vec::new(),
    };
    let start = |arg: &Template| match arg.pieces().first() {
        Some(template::Piece::Text(text)) => text.clone(),
        Some(template::Piece::Value(_)) | None => String::new(),
    };
    let name = word(binary, true);
    let words: Vec<Word> = args.iter().map(|arg| word(&start(arg), arg.literal().is_some())).collect();
    let words: Vec<&Word> = words.iter().collect();
    if words.iter().all(|word| word.is_literal) {
        return Ok(());
    }
    let Some(row) = evaluator(binary) else { return Ok(()) };
    check_evaluator(&row, &name, &words, &Command::default()).map_err(|(_, _, message)| message)
}

fn commands(pieces: &[Piece]) -> Result<Vec<Command<'_>>, Refused> {
    let mut found = Vec::new();
    let mut current = Command::default();
    let mut at = 0;
    while let Some(piece) = pieces.get(at) {
        match piece {
            Piece::Word(word) => {
                let next = match pieces.get(at + 1) {
                    Some(Piece::Operator(operator, span)) => Some((*operator, span)),
                    Some(Piece::Word(_)) | None => None,
                };
                if let Some(("(", _)) = next {
                    return Err(refused(
                        word.span.clone(),
                        "a line with placeholders defines no functions: inside, the values would be others",
                    ));
                }
                let numbers = next.is_some_and(|(operator, span)| {
                    is_redirection(operator) && span.start == word.span.end && is_number(&word.literal)
                });
                if !numbers {
                    current.words.push(word);
                }
            }
            Piece::Operator(operator, _) if is_redirection(operator) => {
                if let Some(Piece::Word(target)) = pieces.get(at + 1) {
                    current.targets.push(target);
                    at += 1;
                }
            }
            Piece::Operator(operator, _) => {
                let fed = matches!(*operator, "|" | "|&");
                found.push(std::mem::replace(&mut current, Command { fed, ..Command::default() }));
            }
        }
        at += 1;
    }
    found.push(current);
    Ok(found)
}

fn is_redirection(operator: &str) -> bool {
    matches!(operator, "<" | ">" | ">>" | ">|" | ">&" | "<&" | "<>" | "&>" | "&>>" | "<<<")
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn refused(span: Range<usize>, message: impl Into<String>) -> Refused {
    (ToolCode::Reevaluated, span, message.into())
}

/// Words after which another command begins.
const RESERVED: &[&str] =
    &["if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "esac", "in"];

/// Variables that decide which code programs run.
fn steers_programs(name: &str) -> bool {
    name.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn check_command(command: &Command<'_>, exposed: &mut Vec<String>) -> Result<(), Refused> {
    let mut words = command.words.as_slice();
    while let Some((first, rest)) = words.split_first() {
        let reserved = first.is_literal && RESERVED.contains(&first.literal.as_str());
        let assigned = assignment(first)?;
        if !reserved && !assigned {
            break;
        }
        words = rest;
    }
    let Some((name, arguments)) = words.split_first() else { return Ok(()) };
    if !name.is_literal {
        return Err(refused(name.span.clone(), "a value or an expansion would name the command to run"));
    }
    if let Some(row) = evaluator(&name.literal) {
        check_evaluator(&row, name, arguments, command)?;
    }
    let mut after_dashes = false;
    for word in arguments {
        after_dashes |= word.is_literal && word.literal == "--";
        if let Some(value) = word.leading_value().filter(|_| !after_dashes) {
            exposed.push(value.to_owned());
        }
    }
    Ok(())
}

/// Whether a word sets a variable; one that programs look at, or whose index is evaluated, takes no value.
fn assignment(word: &Word) -> Result<bool, Refused> {
    let Some((name, _)) = word.literal.split_once('=') else { return Ok(false) };
    let name = name.strip_suffix('+').unwrap_or(name);
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !plain {
        let indexed = name.contains('[');
        return if indexed { Err(refused(word.span.clone(), "an index is evaluated")) } else { Ok(false) };
    }
    if !word.is_literal && steers_programs(name) {
        let message = format!("`{name}` is a variable that programs act on, and takes no value");
        return Err(refused(word.span.clone(), message));
    }
    Ok(true)
}

fn check_evaluator(
    row: &Evaluator,
    name: &Word,
    arguments: &[&Word],
    command: &Command<'_>,
) -> Result<(), Refused> {
    let tainted = arguments.iter().chain(&command.targets).any(|word| !word.is_literal);
    let no = |span: &Range<usize>| Err(refused(span.clone(), format!("`{}` {}", row.command, row.why)));
    match row.evaluation {
        Evaluation::Never => no(&name.span),
        Evaluation::Values if tainted || command.fed => no(&name.span),
        Evaluation::Values => Ok(()),
        Evaluation::Options if tainted => {
            let named = |word: &&&Word| {
                row.options.iter().any(|option| {
                    word.literal == *option
                        || word.literal.strip_prefix(option).is_some_and(|r| r.starts_with('='))
                })
            };
            arguments.iter().find(named).map_or(Ok(()), |word| no(&word.span))
        }
        Evaluation::Options => Ok(()),
        Evaluation::Script | Evaluation::Filter => check_program(row, name, arguments, command),
        Evaluation::Runner => check_runner(row, name, arguments, command, tainted),
        Evaluation::Carrier => {
            for (at, word) in arguments.iter().enumerate().filter(|(_, word)| word.is_literal) {
                let found = evaluator(&word.literal)
                    .filter(|found| matches!(found.evaluation, Evaluation::Script | Evaluation::Filter));
                if let Some(found) = found {
                    check_evaluator(&found, word, &arguments[at + 1..], command)?;
                }
            }
            Ok(())
        }
    }
}

/// An interpreter needs a literal program before any value, and from elsewhere than its input.
fn check_program(
    row: &Evaluator,
    name: &Word,
    arguments: &[&Word],
    command: &Command<'_>,
) -> Result<(), Refused> {
    let message = || format!("`{}` is {}; it needs a literal program before any value", row.command, row.why);
    let takes_code = |option: &str| {
        let letters = row.options.first().copied().unwrap_or_default();
        !option.starts_with("--") && option.len() >= 2 && option.ends_with(|c| letters.contains(c))
    };
    let mut program = false;
    let mut option: Option<&str> = None;
    for word in arguments {
        if !word.is_literal {
            let after_option = option.is_some() && row.evaluation == Evaluation::Filter;
            if !program || after_option {
                return Err(refused(word.span.clone(), message()));
            }
            option = None;
            continue;
        }
        let is_option = word.literal.starts_with(['-', '+']) || word.literal.is_empty();
        if is_option && (!program || row.evaluation == Evaluation::Filter) {
            option = Some(word.literal.as_str()).filter(|option| *option != "--");
        } else {
            program |= option.is_none_or(takes_code);
            option = None;
        }
    }
    let from_input = command.fed || command.targets.iter().any(|target| !target.is_literal);
    if from_input && !program { Err(refused(name.span.clone(), message())) } else { Ok(()) }
}

/// The command that is started is looked up like any other.
fn check_runner(
    row: &Evaluator,
    name: &Word,
    arguments: &[&Word],
    command: &Command<'_>,
    tainted: bool,
) -> Result<(), Refused> {
    if !tainted && !command.fed {
        return Ok(());
    }
    let passes_over = |word: &Word| {
        let text = word.literal.as_str();
        let amount = text.trim_end_matches(['s', 'm', 'h', 'd']);
        let measure = !amount.is_empty() && amount.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        text.starts_with('-') || text.is_empty() || measure || text.contains('=')
    };
    for (at, word) in arguments.iter().enumerate() {
        if !word.is_literal {
            let message = format!("`{}` {}, and a value would name it", row.command, row.why);
            return Err(refused(word.span.clone(), message));
        }
        if !passes_over(word) {
            // What follows an option may be its argument or the command: all that are known are looked at.
            let known = arguments[at..].iter().enumerate().filter(|(_, word)| word.is_literal);
            for (offset, inner) in known {
                if let Some(found) = evaluator(&inner.literal) {
                    check_evaluator(&found, inner, &arguments[at + offset + 1..], command)?;
                }
            }
            return Ok(());
        }
    }
    if command.fed {
        Err(refused(name.span.clone(), format!("`{}` {}", row.command, row.why)))
    } else {
        Ok(())
    }
}
