//! `sbx check --batch`: many questions, as JSON lines.
//!
//! Invariant: where answers are recorded, none is given that is not.

use super::check::{event, live, to_json};
use super::ui::quiet_pipe;
use super::{CliError, Exit};
use crate::audit::{Event, Log, Sink};
use crate::decide::{Decision, Request, decide};
use crate::policy::{Grant, Policy};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};

/// The longest request line that is read.
const MAX_LINE: u64 = 1 << 20;
/// Answers that wait to be given together, in bytes.
const WAITING: usize = 1 << 16;
/// Answers that are recorded together at most.
const TOGETHER: usize = 32;

/// Answers that are not given yet, and what is to be recorded before they are.
struct Answers<'l> {
    output: io::StdoutLock<'static>,
    text: Vec<u8>,
    events: Vec<Event>,
    log: Option<&'l Log>,
}

impl Answers<'_> {
    /// Adds an answer; it may wait when the next question is here already. Whether anybody still listens.
    fn add(&mut self, answer: &str, event: Option<Event>, may_wait: bool) -> Result<bool, CliError> {
        self.text.extend_from_slice(answer.as_bytes());
        self.text.push(b'\n');
        self.events.extend(event);
        let wait = may_wait && self.text.len() < WAITING && self.events.len() < TOGETHER;
        if wait { Ok(true) } else { self.give() }
    }

    /// Records what is to be recorded, and gives the answers. Whether anybody still listens.
    fn give(&mut self) -> Result<bool, CliError> {
        let events = std::mem::take(&mut self.events);
        if let Some(log) = self.log.filter(|_| !events.is_empty()) {
            log.record_all(events)?;
        }
        let given = self.output.write_all(&self.text).and_then(|()| self.output.flush());
        self.text.clear();
        let gone = given.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
        quiet_pipe(given).map(|()| !gone)
    }
}

/// Answers every line; a bad one is answered with its error, and the rest go on.
pub(super) fn batch(policy: &Policy, log: Option<&Log>) -> Result<Exit, CliError> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut answers = Answers {
        output: io::stdout().lock(),
        text: Vec::with_capacity(2 * WAITING),
        events: Vec::new(),
        log,
    };
    if let Some(log) = log {
        log.stay_open();
    }
    let permitted = permitted(policy);
    let mut exit = Exit::Fine;
    let mut line = Vec::new();
    for number in 1usize.. {
        line.clear();
        let read = input.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let (answer, event, outcome) = answer_line(policy, &permitted, &line, number, log.is_some());
        exit = worse(exit, outcome);
        let too_long = read as u64 > MAX_LINE;
        // A harness that asks one question at a time waits for its answer.
        let listens = answers.add(&answer, event, !too_long && !input.buffer().is_empty())?;
        if too_long {
            return Err(CliError::new(format!("line {number} is longer than {MAX_LINE} bytes")));
        }
        if !listens {
            return Ok(exit);
        }
    }
    answers.give()?;
    Ok(exit)
}

/// The answers to what each grant allows, prepared once.
fn permitted(policy: &Policy) -> Vec<String> {
    let answer =
        |grant: &Grant| json!({ "decision": "allow", "grant": grant.spec.to_string(), "place": grant.place });
    policy.grants().iter().map(|grant| answer(grant).to_string()).collect()
}

fn answer_line<'a>(
    policy: &Policy,
    permitted: &'a [String],
    line: &[u8],
    number: usize,
    recorded: bool,
) -> (Cow<'a, str>, Option<Event>, Exit) {
    let bad = |message: String| {
        let error = json!({ "code": "bad_request", "message": message, "line": number });
        (json!({ "decision": "error", "error": error }).to_string().into(), None, Exit::BadInput)
    };
    if line.len() as u64 > MAX_LINE {
        return bad("the line is too long".to_owned());
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return bad(format!("not JSON: {error}")),
    };
    match Request::from_json(&value, policy.facts(), live) {
        Err(error) => bad(error.to_string()),
        Ok(request) => {
            let decision = decide(policy, &request);
            let event = recorded.then(|| event(&decision));
            match &decision {
                Decision::Allow(permit) => {
                    (permitted[permit.grant_id().index()].as_str().into(), event, Exit::Fine)
                }
                Decision::Deny(_) => (to_json(&decision).to_string().into(), event, Exit::Denied),
            }
        }
    }
}

fn worse(a: Exit, b: Exit) -> Exit {
    match (a, b) {
        (Exit::BadInput, _) | (_, Exit::BadInput) => Exit::BadInput,
        (Exit::Denied, _) | (_, Exit::Denied) => Exit::Denied,
        _ => Exit::Fine,
    }
}
