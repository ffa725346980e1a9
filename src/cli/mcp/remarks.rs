//! Remarks about servers, on stderr, where clients look for a server's log.
//!
//! Invariant: whoever carries messages never waits for a client that does not read its remarks.

use crate::cli::{CliError, Ui};
use crate::mcp::{Aside, Teller, decline};
use std::io;
use std::time::Duration;

/// How long it is waited for the last remarks to be read.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where remarks go.
#[derive(Debug)]
pub(super) struct Remarks {
    ui: Ui,
    aside: Aside,
}

impl Remarks {
    pub(super) fn new(ui: Ui) -> Self {
        Self { ui, aside: Aside::new(io::stderr()) }
    }

    /// The way that they take, for what is passed on as it is.
    pub(super) const fn aside(&self) -> &Aside {
        &self.aside
    }

    /// Says why nothing is served, and answers a client that asks all the same.
    pub(super) fn declined(&self, error: &CliError) {
        let text = error.to_string();
        self.aside.say(self.ui.remark_line(&text).into_bytes());
        decline(&text);
    }

    /// Waits a moment for all of them to be read.
    pub(super) fn finish(&self) {
        self.aside.finish(PATIENCE);
    }
}

impl Teller for Remarks {
    fn tell(&self, line: &str) {
        self.aside.say(self.ui.remark_line(&format!("sbx: {line}")).into_bytes());
    }
}
