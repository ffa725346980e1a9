//! What the processes of a launch tell one another.
//!
//! Answers for messages from the inner stage to the supervisor, and for outcomes from a launcher process to the
//! program that started it, both as bytes. It leaves sending them to [`super::sys::socket`] and pipes.
//! Invariant: what is cut short or malformed is no message.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use crate::backend::{Backend, Enforcement, Guarantee};
use crate::error::PlatformError;
use crate::linux::seccomp::{Arch, name_of, number};
use crate::report::{Act, End, Limit, Lost, Outcome, SetupFailure, Step, Stream, Verb};
use crate::text::{escape, unescape};

/// A message from an inner stage to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The fence could not be built.
    Failed(SetupFailure),
    /// The command ended with this raw wait status.
    Ended(i32),
    /// The master side of the private terminal comes with this message.
    Terminal,
    /// A file was asked for.
    Asked(Act),
    /// The view stands; what is left to build takes less time than to hear this.
    Standing,
    /// The command is about to be started: from now on it may have run.
    Starting,
    /// The command was stopped from its terminal.
    Stopped,
}

/// Longest message; objects are cut to fit. A path of any length fits.
pub(crate) const MESSAGE_MAX: usize = 6144;

/// Stands for a call that is not known by name.
const NONE: u32 = u32::MAX;

impl Message {
    /// As bytes for the line.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Terminal => vec![b'T'],
            Self::Standing => vec![b'V'],
            Self::Starting => vec![b'S'],
            Self::Stopped => vec![b'Z'],
            Self::Asked(act) => {
                let mut bytes = vec![b'A', position(&Verb::ALL, act.verb)];
                bytes.extend(act.error.to_le_bytes());
                bytes.extend(number(act.call, Arch::NATIVE).unwrap_or(NONE).to_le_bytes());
                // Neither a path nor a word has a NUL in it. What is too long is cut.
                bytes.extend(act.path.as_os_str().as_bytes());
                for word in &act.words {
                    bytes.push(0);
                    bytes.extend(word.as_bytes());
                }
                bytes.truncate(MESSAGE_MAX);
                bytes
            }
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
        let number_at = |from: usize| Some(i32::from_le_bytes(bytes.get(from..from + 4)?.try_into().ok()?));
        match bytes.first()? {
            b'T' => Some(Self::Terminal),
            b'V' => Some(Self::Standing),
            b'S' => Some(Self::Starting),
            b'Z' => Some(Self::Stopped),
            b'A' => {
                let mut texts = bytes.get(10..)?.split(|byte| *byte == 0).map(std::ffi::OsStr::from_bytes);
                Some(Self::Asked(Act {
                    verb: *Verb::ALL.get(usize::from(*bytes.get(1)?))?,
                    error: number_at(2)?,
                    call: name_of(u32::from_le_bytes(bytes.get(6..10)?.try_into().ok()?), Arch::NATIVE)
                        .unwrap_or_default(),
                    path: texts.next()?.into(),
                    words: texts.map(std::ffi::OsStr::to_owned).collect(),
                }))
            }
            b'E' => Some(Self::Ended(number_at(1)?)),
            b'F' => Some(Self::Failed(SetupFailure {
                step: *Step::ALL.get(usize::from(*bytes.get(1)?))?,
                errno: number_at(2)?,
                object: String::from_utf8_lossy(bytes.get(6..)?).into_owned(),
            })),
            _ => None,
        }
    }
}

fn position<T: PartialEq>(all: &[T], one: T) -> u8 {
    all.iter().position(|each| *each == one).and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}

impl Outcome {
    /// An outcome, or why there is none, as text for another process.
    pub(crate) fn to_text(outcome: &Result<Self, PlatformError>) -> String {
        let mut out = String::new();
        let mut line = |word: &str, field: &[u8]| {
            out.push_str(word);
            out.push(' ');
            escape(std::ffi::OsStr::from_bytes(field), &mut out);
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
                for limit in &outcome.reached {
                    line("reached", limit.name().as_bytes());
                }
                for lost in &outcome.lost {
                    let stream = position(&Stream::ALL, lost.stream);
                    line("lost", format!("{stream} {}", lost.errno).as_bytes());
                }
                for act in &outcome.acts {
                    line("act", &Message::Asked(act.clone()).encode());
                }
                line("stdout", &outcome.stdout);
                line("stderr", &outcome.stderr);
            }
        }
        out
    }

    /// The outcome in `text`; `None` if it breaks off or is not understood.
    pub(crate) fn from_text(text: &str) -> Option<Result<Self, PlatformError>> {
        let (mut end, mut duration, mut backend, mut landlock) = (None, None, None, 0);
        let (mut given, mut acts, mut stdout, mut stderr) = (Vec::new(), Vec::new(), None, None);
        let (mut reached, mut lost) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let (word, field) = line.split_once(' ')?;
            let field = unescape(field)?;
            let number = || field.to_str()?.parse::<u64>().ok();
            match word {
                "error" => {
                    let reason = field.to_string_lossy().into_owned();
                    return Some(Err(PlatformError::Launcher { reason }));
                }
                "exited" => end = Some(End::Exited(i32::try_from(number()?).ok()?)),
                "signaled" => end = Some(End::Signaled(i32::try_from(number()?).ok()?)),
                "limit" => end = Some(End::Limit(limit_of(&field)?)),
                "reached" => reached.push(limit_of(&field)?),
                "lost" => {
                    let (stream, errno) = field.to_str()?.split_once(' ')?;
                    let stream = *Stream::ALL.get(stream.parse::<usize>().ok()?)?;
                    lost.push(Lost { stream, errno: errno.parse().ok()? });
                }
                "setup" => {
                    let Message::Failed(failure) = Message::decode(field.as_bytes())? else { return None };
                    end = Some(End::Setup(failure));
                }
                "duration" => duration = Some(Duration::from_nanos(number()?)),
                "backend" => backend = Some(Backend::from_name(field.to_str()?)?),
                "landlock" => landlock = u32::try_from(number()?).ok()?,
                "given" => given.push(Guarantee::from_name(field.to_str()?)?),
                "act" => {
                    let Message::Asked(act) = Message::decode(field.as_bytes())? else { return None };
                    acts.push(act);
                }
                "stdout" => stdout = Some(field.into_vec()),
                "stderr" => stderr = Some(field.into_vec()),
                _ => return None,
            }
        }
        let enforcement = Enforcement { backend: backend?, given, landlock };
        Some(Ok(Self {
            end: end?,
            duration: duration?,
            enforcement,
            stdout: stdout?,
            stderr: stderr?,
            acts,
            reached,
            lost,
        }))
    }
}

fn limit_of(field: &std::ffi::OsStr) -> Option<Limit> {
    Limit::ALL.into_iter().find(|limit| field == limit.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_line() {
        let failure = SetupFailure { step: Step::Mount, object: String::from("/w"), errno: 13 };
        let words = vec!["a".into(), String::new().into(), "b c".into()];
        let act = Act { verb: Verb::Run, path: "/a b".into(), call: "execve", error: 13, words };
        let act = Message::Asked(act);
        for message in [
            Message::Terminal,
            Message::Starting,
            Message::Stopped,
            Message::Ended(0x0900),
            Message::Failed(failure),
            act,
        ] {
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
