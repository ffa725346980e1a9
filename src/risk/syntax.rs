//! A shell text as a tree: what [`parse`](super::parse) makes and [`flatten`](super::flatten) walks.
//!
//! Words keep their pieces, because `rm`, `r''m` and `$x` differ in what is known of them, and every
//! word keeps its place in the text that was asked about.

use crate::text::Span;
use std::rc::Rc;

/// A list of commands, in the order they are written.
pub(super) type List = Vec<Node>;

/// One construct of the grammar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// Assignments, words and redirections.
    Simple(Simple),
    /// `a | b`.
    Pipe(Vec<Node>),
    /// `a && b`, `a || b`: both may run.
    Both(Vec<Node>),
    /// `a &`.
    Background(Box<Node>),
    /// `{ … }`, `( … )`, `if`, `while`: lists of which each may run, one after the other.
    Group { lists: Vec<List>, redirects: Vec<Redirect>, subshell: bool },
    /// `for NAME in WORDS; do …; done`, and `select`; no words means the arguments.
    For { name: String, words: Vec<Word>, body: List, redirects: Vec<Redirect> },
    /// `case WORD in PATTERNS) …;; esac`.
    Case { words: Vec<Word>, lists: Vec<List>, redirects: Vec<Redirect> },
    /// `[[ … ]]` and `(( … ))`: nothing runs but what their words substitute.
    Test { words: Vec<Word>, redirects: Vec<Redirect> },
    /// `NAME () …`.
    Function { name: String, body: Rc<Node> },
}

/// A command of words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Simple {
    pub(super) assignments: Vec<Assignment>,
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
    pub(super) span: Span,
}

/// `NAME=value`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assignment {
    pub(super) name: String,
    /// What stands in brackets after the name.
    pub(super) index: Option<String>,
    /// Whether they stand in parentheses: `NAME=(a b)`.
    pub(super) list: bool,
    pub(super) values: Vec<Word>,
    pub(super) append: bool,
}

/// A word as written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Word {
    pub(super) pieces: Vec<Piece>,
    pub(super) span: Span,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// Text without quotes: globs, braces and a leading tilde mean something in it.
    Bare(String),
    /// Text that means itself.
    Quoted(String),
    /// `$name`, `${name…}`.
    Param(Param),
    /// `$(…)` and backquotes.
    Command { body: List, quoted: bool },
    /// `<(…)`, and `>(…)` which reads what is written to it.
    Process { body: List, out: bool },
    /// `$((…))`: a number, but what it substitutes runs.
    Arithmetic(Vec<Piece>),
}

/// A parameter and what is done to its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Param {
    pub(super) name: String,
    /// `@`, `*`, or a number between brackets.
    pub(super) index: Option<String>,
    /// What follows the name: `:-`, `#`, `/` and so on; empty for none.
    pub(super) op: &'static str,
    pub(super) word: Vec<Piece>,
    pub(super) quoted: bool,
}

/// A redirection.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Redirect {
    pub(super) op: RedirectOp,
    pub(super) target: Word,
    pub(super) span: Span,
}

/// What a redirection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedirectOp {
    /// `<`
    Read,
    /// `>`, `>|`, `&>`: what was there is gone.
    Write,
    /// `>>`, `&>>`
    Append,
    /// `<>`
    Both,
    /// `<&`, `>&` with a number or `-`.
    Duplicate,
    /// `<<`, `<<-`, `<<<`: the target is the text itself.
    Text,
}
