//! What comes out of a tool: its value, what it printed, or why it stopped.

use crate::decide::Denial;
use crate::tool::{Output, Tool, ToolCode};
use sbx_platform::{End, Outcome};
use serde_json::{Value, json};

/// What a tool printed, as far as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What the output comes to.
    pub value: Value,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Whether standard output was longer.
    pub stdout_truncated: bool,
    /// Whether standard error was longer.
    pub stderr_truncated: bool,
    /// What the command returned; none when it was ended.
    pub exit_code: Option<i32>,
    /// How long it took.
    pub duration_ms: u64,
    /// How the value stands for the content of a file: `utf-8` or `base64`; none for the output of a command.
    pub encoding: Option<String>,
}

/// A tool that ran and did not do what it should, or could not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What kind.
    pub code: ToolCode,
    /// Which tool.
    pub tool: String,
    /// What happened.
    pub message: String,
    /// What it printed until then.
    pub report: Option<Box<Report>>,
}

/// Why a call has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It was not allowed.
    Denied(Box<Denial>),
    /// It failed.
    Failed(Failure),
}

impl Stop {
    /// A failure without output.
    pub(crate) fn failed(code: ToolCode, tool: &str, message: impl Into<String>) -> Self {
        Self::Failed(Failure { code, tool: tool.to_owned(), message: message.into(), report: None })
    }

    /// The same for machines; a denial is the denial that it is everywhere.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Denied(denial) => denial.to_json(),
            Self::Failed(failure) => {
                let mut body = failure.report.as_ref().map_or_else(|| json!({}), |report| report.to_json());
                body["is_error"] = json!(true);
                body["code"] = json!(failure.code.name());
                body["tool"] = json!(failure.tool);
                body["message"] = json!(failure.message);
                body
            }
        }
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Denied(denial) => write!(f, "{denial}"),
            Self::Failed(failure) => write!(f, "{}: {}: {}", failure.code, failure.tool, failure.message),
        }
    }
}

impl Report {
    /// What a finished command printed, cut to what the tool keeps.
    pub(super) fn of(tool: &Tool, outcome: &Outcome) -> Self {
        let (stdout, stdout_truncated) = kept(&outcome.stdout, tool.constraints.max_stdout);
        let (stderr, stderr_truncated) = kept(&outcome.stderr, tool.constraints.max_stderr);
        let exit_code = match outcome.end {
            End::Exited(code) => Some(code),
            End::Signaled(_) | End::Limit(_) | End::Setup(_) => None,
        };
        let duration_ms = u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            value: Value::Null,
            stdout,
            stderr,
            stdout_truncated,
            stderr_truncated,
            exit_code,
            duration_ms,
            encoding: None,
        }
    }

    /// The same for machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "value": self.value, "stdout": self.stdout, "stderr": self.stderr,
            "stdout_truncated": self.stdout_truncated, "stderr_truncated": self.stderr_truncated,
            "exit_code": self.exit_code, "duration_ms": self.duration_ms,
            "encoding": self.encoding,
        })
    }

    /// The value of the output, in the form the tool declares.
    pub(super) fn evaluate(mut self, tool: &Tool, end: &End) -> Result<Self, Stop> {
        let failure = match end {
            End::Exited(0) => self.read(tool).map(|value| self.value = value).err(),
            End::Exited(code) => Some((ToolCode::NonzeroExit, format!("it ended with status {code}"))),
            End::Signaled(number) => {
                Some((ToolCode::NonzeroExit, format!("it was ended by signal {number}")))
            }
            End::Limit(limit) => Some((
                ToolCode::LimitExceeded,
                format!("the {} limit was reached; everything was ended", limit.name()),
            )),
            End::Setup(failure) => Some((ToolCode::NotStarted, failure.to_string())),
        };
        match failure {
            None => Ok(self),
            Some((code, message)) => {
                let report = Some(Box::new(self));
                Err(Stop::Failed(Failure { code, tool: tool.name.clone(), message, report }))
            }
        }
    }

    fn read(&self, tool: &Tool) -> Result<Value, (ToolCode, String)> {
        let text = self.stdout.trim();
        match tool.output {
            _ if text.is_empty() && tool.output != Output::Lines => Ok(Value::Null),
            Output::Text => Ok(json!(text)),
            Output::Lines => {
                let lines = self.stdout.lines().map(str::trim).filter(|line| !line.is_empty());
                Ok(lines.collect())
            }
            Output::Json if self.stdout_truncated => {
                Err((ToolCode::InvalidOutput, "the JSON it printed was longer than is kept".to_owned()))
            }
            Output::Json => serde_json::from_str(text)
                .map_err(|error| (ToolCode::InvalidOutput, format!("what it printed is not JSON: {error}"))),
        }
    }
}

/// The first bytes as text, whole characters only, and whether there were more.
fn kept(bytes: &[u8], most: u64) -> (String, bool) {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if bytes.len() <= most {
        return (String::from_utf8_lossy(bytes).into_owned(), false);
    }
    let mut end = most;
    while end > most.saturating_sub(4) && end < bytes.len() && bytes[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_cut_between_characters() {
        assert_eq!(kept("aé€".as_bytes(), 10), ("aé€".to_owned(), false));
        assert_eq!(kept("aé€".as_bytes(), 5), ("aé".to_owned(), true));
        assert_eq!(kept("aé€".as_bytes(), 2), ("a".to_owned(), true));
        assert!(kept(&[0x80; 10], 5).1);
        assert_eq!(kept(b"ab", 0), (String::new(), true));
    }
}
