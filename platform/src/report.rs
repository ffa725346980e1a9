//! How a launch ended.
//!
//! Answers for keeping "the fence could not be built" apart from "the command failed": a set-up failure
//! is a step, an object and an error number.
//! It leaves exit codes to the caller.
//! Invariant: [`End::Setup`] means that the command never ran.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::backend::Enforcement;

/// One finished launch.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// From launch to the death of the last process.
    pub duration: Duration,
    /// What held while it ran.
    pub enforcement: Enforcement,
    /// Captured standard output, empty unless captured.
    pub stdout: Vec<u8>,
    /// Captured standard error, empty unless captured.
    pub stderr: Vec<u8>,
    /// Changes that were refused, as far as they were watched; and where the plan wants to know, everything that
    /// was asked of files, programs and the network. Each once.
    pub acts: Vec<Act>,
    /// Limits that were reached, as far as that is known, whether or not they were the end of the launch.
    pub reached: Vec<Limit>,
    /// Output that was not written where it was to go, at most one of a stream; not where its reader was gone.
    pub lost: Vec<Lost>,
}

/// Output that the launcher had to pass on and could not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Of which stream.
    pub stream: Stream,
    /// The number of the first error.
    pub errno: i32,
}

/// Where a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Stream {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Output, Self::Error];

    /// The name users read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Output => "standard output",
            Self::Error => "standard error",
        }
    }
}

impl Lost {
    /// Why.
    #[must_use]
    pub fn cause(&self) -> std::io::Error {
        std::io::Error::from_raw_os_error(self.errno)
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cannot write {}: {}", self.stream.name(), self.cause())
    }
}

/// Something that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Act {
    /// What.
    pub verb: Verb,
    /// Of which path, as the command named it, made absolute; for the network the address, or the name.
    pub path: PathBuf,
    /// By which system call; empty where that is not known.
    pub call: &'static str,
    /// The number of the error it was answered with, 0 for none.
    pub error: i32,
    /// The words of a command line; of a refused call its kind, where kinds are told apart.
    pub words: Vec<OsString>,
}

impl Act {
    /// Whether it was refused, as against impossible.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.error, libc::EACCES | libc::EPERM | libc::EROFS)
    }
}

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// The content of a file or the names in a directory.
    Read,
    /// Whether something is there, and what it is.
    Look,
    /// Running it.
    Run,
    /// A change of it, or making it.
    Write,
    /// Taking it away.
    Remove,
    /// Making something that leads on to protected names; it was made. One without a path stands for more of them
    /// than could be told of.
    Made,
    /// Making a protected name in a directory that is new, which other programs obey without being asked; as above.
    Obeyed,
    /// A connection to an address.
    Connect,
    /// Being reached at an address.
    Listen,
    /// The address of a name.
    Resolve,
    /// A system call that is refused to everybody; it has no path.
    Call,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Read,
        Self::Look,
        Self::Run,
        Self::Write,
        Self::Remove,
        Self::Made,
        Self::Obeyed,
        Self::Connect,
        Self::Listen,
        Self::Resolve,
        Self::Call,
    ];
}

/// How a launch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The command returned this code.
    Exited(i32),
    /// The command died of this signal.
    Signaled(i32),
    /// A limit was hit and everything was killed.
    Limit(Limit),
    /// The fence could not be built; the command never ran.
    Setup(SetupFailure),
}

/// A limit that was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Time from launch to end.
    Wall,
    /// Processor time.
    Cpu,
    /// Memory of the tree.
    Memory,
    /// Processes and threads.
    Pids,
    /// Size of one file.
    FileSize,
    /// Bytes written to standard output and error.
    Output,
}

impl Limit {
    /// All limits that can be reported.
    pub const ALL: [Self; 6] =
        [Self::Wall, Self::Cpu, Self::Memory, Self::Pids, Self::FileSize, Self::Output];

    /// The name users read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::FileSize => "file-size",
            Self::Output => "output",
        }
    }
}

/// Where building the fence stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupFailure {
    /// What was being done.
    pub step: Step,
    /// What it was done to.
    pub object: String,
    /// The kernel's error number.
    pub errno: i32,
}

impl fmt::Display for SetupFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = std::io::Error::from_raw_os_error(self.errno);
        write!(out, "cannot {}", self.step.name())?;
        if !self.object.is_empty() {
            write!(out, " {}", self.object)?;
        }
        write!(out, ": {cause}")
    }
}

macro_rules! steps {
    ($($variant:ident = $name:literal,)+) => {
        /// A step in building the fence, in the order they are taken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the phrase beside each step says it")]
        pub enum Step { $($variant,)+ }

        impl Step {
            /// All steps.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The step as a verb phrase.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

steps! {
    Namespaces = "make namespaces for",
    Lifeline = "hold on to the launcher",
    Identity = "map the user",
    Hostname = "set the host name",
    Loopback = "raise the loopback device",
    Root = "make an empty root",
    Mount = "mount",
    Protect = "protect",
    Pivot = "enter the new root",
    Network = "make the network's",
    Terminal = "open a private terminal",
    Directory = "enter the directory",
    Limits = "set the limit",
    Privileges = "drop privileges",
    Landlock = "restrict files at",
    Seccomp = "restrict system calls",
    Broker = "watch protected paths",
    Stdio = "arrange descriptor",
    Fork = "start a process for",
    Exec = "execute",
    Helper = "run the helper",
    Stage = "start the",
}
