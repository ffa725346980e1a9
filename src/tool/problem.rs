//! What can be wrong with a definition, a value or a call. The tables below are the only ones.

use crate::text::{Code, Problem, Source, Span, codes};
use serde_json::{Value, json};

codes! {
    /// Why a tool cannot be defined, called or used; stable names.
    ToolCode {
        BadDefinition "bad_definition" "a key of the definition is missing, unknown or not of its kind",
        MissingRun "missing_run" "the command does not say what to run",
        EmptyCommand "empty_command" "what is to be run is empty",
        PlaceholderInsideQuotes "placeholder_inside_quotes" "a placeholder stands where the shell quotes or expands",
        Reevaluated "value_reevaluated" "the command would read a value as code",
        PlaceholderUndeclared "placeholder_undeclared" "a placeholder names no parameter",
        PlaceholderWithoutValue "placeholder_without_value" "a placeholder of the command has no value",
        MissingParam "missing_param" "a required parameter is missing",
        UnknownParam "unknown_param" "the tool has no such parameter",
        NonScalar "non_scalar" "a value is neither a string, a number nor true or false",
        ReadsAsOption "reads_as_option" "the command would read the value as an option",
        Unpassable "unpassable" "no argument can hold the value",
        Traversal "traversal" "a path climbs with `..`",
        OutsidePrefix "outside_prefix" "a path leads out of its prefix",
        NotInt "not_int" "not a whole number",
        NotFloat "not_float" "not a number",
        NotFinite "not_finite" "not a finite number",
        AboveMax "above_max" "more than the most",
        BelowMin "below_min" "less than the least",
        NotBool "not_bool" "neither true nor false",
        NotInEnum "not_in_enum" "not one of the values",
        Pattern "pattern" "the whole text does not match the pattern",
        Identifier "identifier" "not 1 to 64 letters, digits, `_` and `-`",
        Duration "duration" "neither seconds nor hours:minutes:seconds",
        SubcommandRequired "subcommand_required" "the tool takes a subcommand",
        SubcommandNotAllowed "subcommand_not_allowed" "the tool does not take this subcommand",
        NoSession "no_session" "the tool needs a session's directory",
        WrongKind "wrong_kind" "long-running tools are started, the others run",
        NoSuchProcess "no_such_process" "nothing of this name was started",
        NonzeroExit "nonzero_exit" "the command failed",
        NotDone "not_done" "one of sbx's own operations is allowed and could not be done",
        InvalidOutput "invalid_output" "what was printed is not of the declared form",
        LimitExceeded "limit_exceeded" "a limit was reached and everything was ended",
        NotStarted "not_started" "the command could not be started",
    }
}

/// Something wrong in a definition, by its dotted path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// What kind.
    pub code: ToolCode,
    /// The dotted path of the key.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// Where in the text.
    pub span: Span,
    /// How to put it right.
    pub help: Option<String>,
}

impl Fault {
    pub(super) fn new(
        code: ToolCode,
        field: impl Into<String>,
        span: Span,
        message: impl Into<String>,
    ) -> Self {
        Self { code, field: field.into(), message: message.into(), span, help: None }
    }

    /// A key that is missing or not of its kind.
    pub(super) fn bad(field: impl Into<String>, span: Span, message: impl Into<String>) -> Self {
        Self::new(ToolCode::BadDefinition, field, span, message)
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same as a problem of the text it stands in.
    #[must_use]
    pub fn to_problem(&self) -> Problem {
        let problem =
            Problem::error(Code::BadTool, self.message.clone()).at(self.span).key(self.field.clone());
        self.help.iter().fold(problem, |problem, help| problem.help(help.clone()))
    }

    /// The same for machines.
    #[must_use]
    pub fn to_json(&self, source: &Source) -> Value {
        json!({
            "code": self.code.name(), "field": self.field, "message": self.message,
            "place": source.place(self.span.start), "help": self.help,
        })
    }
}

/// Why a call does not become a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallFault {
    /// What kind.
    pub code: ToolCode,
    /// The parameter.
    pub param: Option<String>,
    /// What was wanted.
    pub wanted: String,
    /// What was given.
    pub given: Option<String>,
    /// What would be allowed, where that is a list.
    pub allowed: Vec<String>,
}

/// The most of a value that is told.
const TOLD: usize = 200;

impl CallFault {
    pub(super) fn new(code: ToolCode, wanted: impl Into<String>) -> Self {
        Self { code, param: None, wanted: wanted.into(), given: None, allowed: Vec::new() }
    }

    pub(super) fn param(mut self, name: &str) -> Self {
        self.param = Some(name.to_owned());
        self
    }

    pub(super) fn given(mut self, given: &str) -> Self {
        let cut = given.char_indices().nth(TOLD).map(|(at, _)| &given[..at]);
        self.given = Some(cut.map_or_else(|| given.to_owned(), |cut| format!("{cut}…")));
        self
    }

    /// The code, and after a colon the parameter.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.param {
            Some(param) => format!("{}:{param}", self.code),
            None => self.code.to_string(),
        }
    }

    /// What is wrong, in a sentence.
    #[must_use]
    pub fn message(&self) -> String {
        let about = self.param.as_ref().map_or_else(String::new, |param| format!("`{param}`: "));
        let given = self.given.as_ref().map_or_else(String::new, |given| format!(", given {given:?}"));
        format!("{about}{}; wanted {}{given}", self.code.meaning(), self.wanted)
    }
}
