//! Exit statuses, all in one place.

use std::process::ExitCode;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Fine, or allowed.
    Fine,
    /// Denied, or something was found.
    Denied,
    /// Bad input: arguments, a record, a request.
    BadInput,
    /// What a fenced command ended with.
    Status(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Denied => 1,
            Exit::BadInput => 2,
            Exit::Status(status) => status,
        })
    }
}
