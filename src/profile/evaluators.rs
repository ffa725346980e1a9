//! Commands that read what they are given as code.

use super::table::{count, rows};

/// How a command with this trait may be used where values are filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// Not at all.
    Never,
    /// Not with a value among its words.
    Values,
    /// After a literal program or script.
    Script,
    /// The same, and never right after an option.
    Filter,
    /// With a literal command among its words.
    Runner,
    /// Not together with some options.
    Options,
    /// Interpreters among its words are looked at; what else they are is its own affair.
    Carrier,
}

/// One such command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evaluator {
    /// Its name.
    pub command: &'static str,
    /// How it may be used.
    pub evaluation: Evaluation,
    /// Letters of options that take code, or whole options.
    pub options: Vec<&'static str>,
    /// What it does.
    pub why: &'static str,
}

const TEXT: &str = include_str!("../../profiles/tools/evaluators.txt");
static ROWS: [[&str; 4]; count(TEXT)] = rows(TEXT);

fn row([command, how, options, why]: &'static [&'static str; 4]) -> Evaluator {
    let evaluation = match *how {
        "values" => Evaluation::Values,
        "script" => Evaluation::Script,
        "filter" => Evaluation::Filter,
        "runner" => Evaluation::Runner,
        "options" => Evaluation::Options,
        "carrier" => Evaluation::Carrier,
        // A word that is not known is read as the strictest.
        _ => Evaluation::Never,
    };
    let options = options.split(',').filter(|option| *option != "-").collect();
    Evaluator { command, evaluation, options, why }
}

/// What is known of a command, by its name or the last part of its path.
#[must_use]
pub fn evaluator(command: &str) -> Option<Evaluator> {
    let name = command.rsplit('/').next().unwrap_or(command);
    // python3.12, perl5.36 and the like.
    let versioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let known = |name: &str| ROWS.iter().find(|[command, ..]| *command == name).map(row);
    known(name).or_else(|| known(versioned).filter(|_| !versioned.is_empty()))
}
