//! The one door for output: stdout is the answer, stderr is about the answer.

use super::error::CliError;
use crate::capability::Risk;
use crate::manifest::Severity;
use crate::text::deceives;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How to speak to the user.
#[derive(Clone, Copy, Debug)]
pub struct Ui {
    colour: bool,
    /// Whether answers are JSON.
    pub json: bool,
}

impl Ui {
    /// Decides on colour once.
    #[must_use]
    pub fn new(colour: Colour, json: bool) -> Self {
        let wanted = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                io::stdout().is_terminal() && !no_colour
            }
        };
        Self { colour: wanted && !json, json }
    }

    /// Prints a line of the answer.
    ///
    /// # Errors
    /// When stdout is closed in another way than by a reader that has seen enough.
    pub fn answer(&self, text: impl AsRef<str>) -> Result<(), CliError> {
        write_out(&self.visible(text.as_ref()))
    }

    /// Prints content as it is; on a terminal, so that it cannot steer it.
    ///
    /// # Errors
    /// As for [`Ui::answer`].
    pub fn content(&self, bytes: &[u8]) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        let shown = if out.is_terminal() {
            Cow::Owned(self.visible(&String::from_utf8_lossy(bytes)).into_owned().into_bytes())
        } else {
            Cow::Borrowed(bytes)
        };
        quiet_pipe(out.write_all(&shown).and_then(|()| out.flush()))
    }

    /// Prints a JSON answer, indented.
    ///
    /// # Errors
    /// As for [`Ui::answer`].
    pub fn answer_json(&self, value: &Value) -> Result<(), CliError> {
        // JSON has escapes of its own for what must not reach a terminal, and machines want all of it.
        write_out(&format!("{value:#}"))
    }

    /// Prints a line for a machine as it is.
    ///
    /// # Errors
    /// When it could not be written, also because nobody reads any more.
    pub fn answer_raw(&self, line: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush())
    }

    /// Prints a line of an answer that has no end of its own.
    ///
    /// # Errors
    /// When nobody reads any more, too.
    pub fn answer_on(&self, text: impl AsRef<str>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", self.visible(text.as_ref())).and_then(|()| out.flush())
    }

    /// Says something about the answer.
    pub fn remark(&self, text: impl AsRef<str>) {
        // Nobody is left to tell when stderr is closed.
        let _ = io::stderr().lock().write_all(self.remark_line(text.as_ref()).as_bytes());
    }

    /// What [`Ui::remark`] prints, for those who must not wait until it is.
    #[must_use]
    pub fn remark_line(&self, text: &str) -> String {
        format!("{}\n", self.visible(text.trim_end()))
    }

    /// Says what is being done, on a terminal only; empty text takes it back.
    pub fn progress(&self, text: &str) {
        if io::stderr().is_terminal() && !self.json {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[2K{}", self.visible(text));
        }
    }

    /// Says what is being done for as long as it is done, on a terminal only.
    pub fn during<T>(&self, text: &str, work: impl FnOnce() -> T) -> T {
        self.progress(text);
        let done = work();
        self.progress("");
        done
    }

    /// A word in a risk's colour.
    #[must_use]
    pub fn by_risk(&self, risk: Risk, text: &str) -> String {
        let code = match risk {
            Risk::Low => "32",
            Risk::Medium => "33",
            Risk::High => "31",
        };
        self.paint(code, text)
    }

    /// A word in a finding's colour.
    #[must_use]
    pub fn by_severity(&self, severity: Option<Severity>, text: &str) -> String {
        match severity {
            None => text.to_owned(),
            Some(Severity::Info | Severity::Low) => self.paint("32", text),
            Some(Severity::Medium) => self.paint("33", text),
            Some(Severity::High | Severity::Critical) => self.paint("31", text),
        }
    }

    /// Text that steps back.
    #[must_use]
    pub fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Text that stands out.
    #[must_use]
    pub fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Text that cannot move the cursor or turn the line around: a stranger's record is printed before
    /// it is trusted, and must not be able to hide a part of itself. Our own colours pass.
    fn visible<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !text.contains(deceives) {
            return Cow::Borrowed(text);
        }
        let mut shown = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            let ours = || self.colour && PAINT.iter().any(|code| text[at..].starts_with(code));
            if deceives(c) && !ours() {
                shown.extend(c.escape_unicode());
            } else {
                shown.push(c);
            }
        }
        Cow::Owned(shown)
    }

    /// Whether someone can be asked.
    #[must_use]
    pub fn can_ask(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks for a line; none at the end of input.
    ///
    /// # Errors
    /// When nobody can be asked.
    pub fn ask(&self, question: &str) -> Result<Option<String>, CliError> {
        let _ = write!(io::stderr().lock(), "{question}").and_then(|()| io::stderr().flush());
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line)?;
        Ok((read > 0).then(|| line.trim().to_owned()))
    }

    /// Asks yes or no; no is the default. `--yes` answers for scripts.
    ///
    /// # Errors
    /// When nobody can be asked and `--yes` was not given.
    pub fn confirm(&self, question: &str, yes: bool) -> Result<bool, CliError> {
        if yes {
            return Ok(true);
        }
        if !self.can_ask() {
            return Err(
                CliError::new("this needs a yes, and there is no terminal to ask on").hint("add --yes")
            );
        }
        let answer = self.ask(&format!("{question} [y/N] "))?.unwrap_or_default();
        Ok(matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}

/// What [`Ui::paint`] writes.
const PAINT: &[&str] = &["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"];

fn write_out(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    quiet_pipe(writeln!(out, "{text}").and_then(|()| out.flush()))
}

/// A reader that went away has seen enough.
pub(super) fn quiet_pipe(result: io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| CliError::new("cannot write to stdout").because(&error)),
    }
}
