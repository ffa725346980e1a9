//! The tracer: tells what a command and everything it starts asks of files, programs and the network, with the answers.
//!
//! Answers for following every thread of the launch. Calls reach it by the filter, so that all others run at full
//! speed; calls that the broker performs are told by the broker, which knows their answers itself.
//! It decides nothing: a call goes on as it was made, or is answered with the error that the filter says. What is told
//! may be untrue where a command wants it to be, because another thread can exchange a name after it was read.
//! Invariant: nothing that is watched waits longer than it takes to look at it.

mod asks;
mod question;

use std::collections::HashMap;
use std::io;
use std::path::Path;

use libc::{c_int, pid_t};

pub(crate) use asks::{asks, asks_if_replaced, named};

use crate::linux::broker::Caller;
use crate::linux::seccomp::{Arch, name_of};
use crate::linux::sys::process;
use crate::linux::sys::trace::{self, At, Onward};
use crate::report::{Act, Verb};

/// Waits for threads as well as for processes.
pub(crate) const ALL: c_int = libc::__WALL;
/// Marks the stop at which a call is answered.
const ANSWERED: c_int = libc::SIGTRAP | 0x80;
/// Every thread that is made asks for it first and then does without.
const FALLS_BACK: &str = "clone3";
/// Answers from here on are the kernel's own: the call is made again.
const RESTARTED: i64 = 512;

/// Follows the threads of a launch.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    /// What threads have asked and were not answered yet.
    asked: HashMap<pid_t, (Vec<Act>, Option<Act>)>,
    /// What is to be told.
    found: Vec<Act>,
}

impl Tracer {
    /// Watches `pid`, a child that waits before it becomes the command.
    pub(crate) fn seize(pid: pid_t) -> io::Result<Self> {
        trace::seize(pid)?;
        Ok(Self::default())
    }

    /// Follows `pid` until it has become the command, or has ended.
    pub(crate) fn until_born(&mut self, pid: pid_t) {
        while let Ok(Some((_, status))) = process::reap(pid, ALL) {
            if !libc::WIFSTOPPED(status) {
                return;
            }
            self.stopped(pid, status);
            if event(status) == libc::PTRACE_EVENT_EXEC {
                return;
            }
        }
    }

    /// A thread has stopped: looks at it and lets it go on.
    pub(crate) fn stopped(&mut self, thread: pid_t, status: c_int) {
        let signal = libc::WSTOPSIG(status);
        let (how, signal) = match event(status) {
            libc::PTRACE_EVENT_SECCOMP => (self.called(thread), 0),
            libc::PTRACE_EVENT_EXEC => {
                let asker = trace::event_message(thread).unwrap_or(thread);
                self.note_answer(asker, 0);
                (Onward::Free, 0)
            }
            libc::PTRACE_EVENT_STOP if stops(signal) => (Onward::Stopped, 0),
            0 if signal == ANSWERED => {
                if let Ok(At::Answer { value }) = trace::at(thread) {
                    self.note_answer(thread, value);
                }
                (Onward::Free, 0)
            }
            0 => (Onward::Free, signal),
            _ => (Onward::Free, 0),
        };
        // It may have been killed meanwhile.
        let _ = trace::resume(thread, how, signal);
    }

    /// A thread is gone.
    pub(crate) fn ended(&mut self, thread: pid_t) {
        self.asked.remove(&thread);
    }

    /// What was found since the last time.
    pub(crate) fn take(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.found)
    }

    /// A thread is about to make a call that the filter has sent here: one to look at, or one that is refused.
    fn called(&mut self, thread: pid_t) -> Onward {
        match trace::event_message(thread) {
            Ok(0) => self.note_call(thread),
            refused => {
                let error = refused.unwrap_or(libc::EPERM);
                self.note_refusal(thread, error);
                if trace::answer(thread, error).is_err() {
                    // What cannot be refused is not let go on.
                    let _ = process::kill(thread, libc::SIGKILL);
                }
                Onward::Free
            }
        }
    }

    fn note_refusal(&mut self, thread: pid_t, error: i32) {
        let Some((call, arguments)) = call_of(thread) else { return };
        if call != FALLS_BACK {
            let path = std::path::PathBuf::new();
            let words = kind_of(call, arguments).into_iter().map(Into::into).collect();
            self.found.push(Act { verb: Verb::Call, path, call, error, words });
        }
    }

    fn note_call(&mut self, thread: pid_t) -> Onward {
        let (Some((name, arguments)), Ok(tid)) = (call_of(thread), u32::try_from(thread)) else {
            return Onward::Free;
        };
        let caller = Caller::of(tid);
        let acts: Vec<Act> = asks(name, arguments, &caller)
            .into_iter()
            .filter_map(|ask| named(ask, name, &caller, Path::new("/proc")))
            .collect();
        if acts.is_empty() {
            return Onward::Free;
        }
        let replaced =
            asks_if_replaced(name, arguments).and_then(|ask| named(ask, name, &caller, Path::new("/proc")));
        self.asked.insert(thread, (acts, replaced));
        Onward::ToAnswer
    }

    fn note_answer(&mut self, thread: pid_t, value: i64) {
        let Some((acts, replaced)) = self.asked.remove(&thread) else { return };
        if value <= -RESTARTED {
            return;
        }
        let error = if value < 0 { i32::try_from(-value).unwrap_or(0) } else { 0 };
        let replaced = replaced.filter(|_| error != 0);
        self.found.extend(acts.into_iter().chain(replaced).map(|act| Act { error, ..act }));
    }
}

/// Which of its kinds a refused call is, where that is worth telling apart.
fn kind_of(call: &str, arguments: [u64; 6]) -> Option<&'static str> {
    (call == "socket" && arguments[0] == libc::AF_UNIX as u64).then_some("unix")
}

/// The call that a thread is about to make, if it is known by name.
fn call_of(thread: pid_t) -> Option<(&'static str, [u64; 6])> {
    let Ok(At::Call { number, arguments }) = trace::at(thread) else { return None };
    Some((name_of(u32::try_from(number).ok()?, Arch::NATIVE)?, arguments))
}

fn event(status: c_int) -> c_int {
    status >> 16
}

fn stops(signal: c_int) -> bool {
    matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}
