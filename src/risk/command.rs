//! Commands as they would be started: words with what is known of them.

use crate::text::Span;
use std::ops::Range;
use std::sync::OnceLock;

/// Stands in a text for the value of a variable nobody set.
pub(super) const UNSET: char = '\0';
/// Stands in a text for what is only known when it runs.
pub(super) const COMPUTED: char = '\u{1}';

/// One word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arg {
    /// The text, with marks where it is not known.
    pub(super) text: String,
    /// Whether this is certainly the word the command gets.
    pub(super) known: bool,
    /// Whether it is a pattern that the shell replaces by names.
    pub(super) glob: bool,
    /// Where it is written.
    pub(super) span: Span,
    /// The kinds of place it names, once that was asked for.
    pub(super) kinds: OnceLock<u32>,
}

impl Arg {
    pub(super) fn new(text: impl Into<String>, span: Span) -> Self {
        Self { text: text.into(), known: true, glob: false, span, kinds: OnceLock::new() }
    }

    /// A word that may be another when it runs.
    pub(super) fn unsure(text: impl Into<String>, span: Span) -> Self {
        Self { known: false, ..Self::new(text, span) }
    }

    /// The same word with another text.
    pub(super) fn with_text(&self, text: impl Into<String>) -> Self {
        Self { known: self.known, glob: self.glob, ..Self::new(text, self.span) }
    }

    /// The text for people and machines; what is not known is `…`.
    #[must_use]
    pub fn shown(&self) -> String {
        self.text.replace([UNSET, COMPUTED], "…")
    }

    /// Whether a part of it is not known at all.
    pub(super) fn has_gap(&self) -> bool {
        self.text.contains([UNSET, COMPUTED])
    }
}

/// Where a command's output goes or its input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A file is read.
    Read,
    /// A file is emptied and written.
    Write,
    /// A file is added to.
    Append,
}

/// What a construct amounts to, where no single word shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A function starts itself more than once.
    ForkBomb,
    /// It stands for the redirections of a group or loop.
    Compound,
    /// Text that comes from outside is run as a program.
    RunsInput,
}

/// One command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments; empty when only redirections were written.
    pub(super) argv: Vec<Arg>,
    /// Files that the shell opens for it.
    pub(super) files: Vec<(Channel, Arg)>,
    /// Variables set for it alone.
    pub(super) variables: Vec<(String, Arg)>,
    /// What it reads, where that is known.
    pub(super) stdin: Option<String>,
    /// The commands whose output it reads, by number.
    pub(super) upstream: Range<usize>,
    /// The commands whose output stands in its words, by number.
    pub(super) inner: Vec<Range<usize>>,
    /// What it was taken out of: `sudo`, `bash -c`, and so on.
    pub(super) via: Vec<String>,
    /// The directory it would run in; none when that is not known.
    pub(super) cwd: Option<String>,
    /// Where it is written.
    pub(super) span: Span,
    pub(super) mark: Option<Mark>,
    /// Text in another language that it would run.
    pub(super) code: Option<String>,
    /// Whether the shell itself starts it, so that its argv is what runs.
    pub(super) direct: bool,
}

impl Command {
    /// The program's name without its directory.
    pub(super) fn program(&self) -> &str {
        let name = self.argv.first().map_or("", |arg| arg.text.as_str());
        base_name(name)
    }

    /// Whether every word is certain.
    pub(super) fn is_known(&self) -> bool {
        self.argv.iter().all(|arg| arg.known && !arg.glob)
    }
}

/// What stands after the last `/`.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
