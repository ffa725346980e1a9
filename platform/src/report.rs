//! How a launch ended, and the messages by which the inner stages tell.
//!
//! Answers for keeping "the fence could not be built" apart from "the command failed": a set-up failure
//! travels as step, object and error number over a line that closes when the command starts.
//! It leaves exit codes to the caller.
//! Invariant: [`End::Setup`] means that the command never ran.

use std::fmt;
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
}

#[cfg(target_os = "linux")]
impl Outcome {
    /// An outcome, or why there is none, as text for another process.
    pub(crate) fn to_text(outcome: &Result<Self, crate::PlatformError>) -> String {
        use crate::text::escape;
        let mut out = String::new();
        let mut line = |word: &str, field: &[u8]| {
            out.push_str(word);
            out.push(' ');
            escape(std::os::unix::ffi::OsStrExt::from_bytes(field), &mut out);
            out.push('\n');
        };
        match outcome {
            Err(error) => line("error", error.to_string().as_bytes()),
            Ok(outcome) => {
                match &outcome.end {
                    End::Exited(code) => line("exited", code.to_string().as_bytes()),
                    End::Signaled(number) => line("signaled", number.to_string().as_bytes()),
                    End::Limit(limit) => line("limit", limit.name().as_bytes()),
                    End::Setup(failure) => line("setup", &Message::Failed(failure.clone()).encode()),
                }
                line("duration", outcome.duration.as_nanos().to_string().as_bytes());
                line("backend", outcome.enforcement.backend.name().as_bytes());
                line("landlock", outcome.enforcement.landlock.to_string().as_bytes());
                for guarantee in &outcome.enforcement.given {
                    line("given", guarantee.name().as_bytes());
                }
                line("stdout", &outcome.stdout);
                line("stderr", &outcome.stderr);
            }
        }
        out
    }

    /// The outcome in `text`; `None` if it breaks off or is not understood.
    pub(crate) fn from_text(text: &str) -> Option<Result<Self, crate::PlatformError>> {
        use crate::backend::{Backend, Guarantee};
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        let (mut end, mut duration, mut backend, mut landlock) = (None, None, None, 0);
        let (mut given, mut stdout, mut stderr) = (Vec::new(), None, None);
        for line in text.lines() {
            let (word, field) = line.split_once(' ')?;
            let field = crate::text::unescape(field)?;
            let number = || field.to_str()?.parse::<u64>().ok();
            match word {
                "error" => {
                    let reason = field.to_string_lossy().into_owned();
                    return Some(Err(crate::PlatformError::Launcher { reason }));
                }
                "exited" => end = Some(End::Exited(i32::try_from(number()?).ok()?)),
                "signaled" => end = Some(End::Signaled(i32::try_from(number()?).ok()?)),
                "limit" => {
                    let limit = Limit::ALL.into_iter().find(|limit| field == limit.name())?;
                    end = Some(End::Limit(limit));
                }
                "setup" => {
                    let Message::Failed(failure) = Message::decode(field.as_bytes())? else { return None };
                    end = Some(End::Setup(failure));
                }
                "duration" => duration = Some(Duration::from_nanos(number()?)),
                "backend" => backend = Some(Backend::from_name(field.to_str()?)?),
                "landlock" => landlock = u32::try_from(number()?).ok()?,
                "given" => given.push(Guarantee::from_name(field.to_str()?)?),
                "stdout" => stdout = Some(field.into_vec()),
                "stderr" => stderr = Some(field.into_vec()),
                _ => return None,
            }
        }
        let enforcement = Enforcement { backend: backend?, given, landlock };
        Some(Ok(Self { end: end?, duration: duration?, enforcement, stdout: stdout?, stderr: stderr? }))
    }
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
            const ALL: &'static [Self] = &[$(Self::$variant,)+];

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
}

/// A message from an inner stage to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The fence could not be built.
    Failed(SetupFailure),
    /// The command ended with this raw wait status.
    Ended(i32),
    /// The master side of the private terminal comes with this message.
    Terminal,
}

/// Longest message; objects are cut to fit.
pub(crate) const MESSAGE_MAX: usize = 512;

impl Message {
    /// As bytes for the line.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Terminal => vec![b'T'],
            Self::Ended(status) => {
                let mut bytes = vec![b'E'];
                bytes.extend(status.to_le_bytes());
                bytes
            }
            Self::Failed(failure) => {
                let mut bytes = vec![b'F', position(Step::ALL, failure.step)];
                bytes.extend(failure.errno.to_le_bytes());
                bytes.extend(failure.object.bytes().take(MESSAGE_MAX - bytes.len()));
                bytes
            }
        }
    }

    /// From bytes off the line; `None` for anything malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |from: usize| Some(i32::from_le_bytes(bytes.get(from..from + 4)?.try_into().ok()?));
        match bytes.first()? {
            b'T' => Some(Self::Terminal),
            b'E' => Some(Self::Ended(number(1)?)),
            b'F' => Some(Self::Failed(SetupFailure {
                step: *Step::ALL.get(usize::from(*bytes.get(1)?))?,
                errno: number(2)?,
                object: String::from_utf8_lossy(bytes.get(6..)?).into_owned(),
            })),
            _ => None,
        }
    }
}

fn position<T: PartialEq>(all: &[T], one: T) -> u8 {
    all.iter().position(|each| *each == one).and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_line() {
        let failure = SetupFailure { step: Step::Mount, object: String::from("/w"), errno: 13 };
        for message in [Message::Terminal, Message::Ended(0x0900), Message::Failed(failure)] {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn garbage_is_no_message() {
        assert_eq!(Message::decode(b""), None);
        assert_eq!(Message::decode(b"E1"), None);
        assert_eq!(Message::decode(b"F\xff\0\0\0\0"), None);
    }
}
