//! The kernel's line of watched calls.
//!
//! Answers for taking calls off and putting answers on. It leaves what they mean to the broker.
//! Invariant: each call gets at most one answer; one whose caller has died gets none.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_ulong};

use super::waiting::Waiting;
use crate::linux::seccomp::{Arch, name_of};
use crate::linux::sys::{check_int, process};

const RECEIVE: c_ulong = 0xc050_2100;
const SEND: c_ulong = 0xc018_2101;
const IS_VALID: c_ulong = 0x4008_2102;
const ADD_DESCRIPTOR: c_ulong = 0x4018_2103;
const SET_FLAGS: c_ulong = 0x4008_2104;
/// The answer wakes the caller on this processor, which saves a migration each way.
const SYNC_WAKE_UP: c_ulong = 1;
/// The descriptor is the answer.
const ADD_AND_SEND: u32 = 2;
const CONTINUE: u32 = 1;

/// One watched call, as the kernel lays it out.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Call {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction: u64,
    arguments: [u64; 6],
}

impl Call {
    /// The calling thread, as numbered here.
    pub(super) fn thread(&self) -> u32 {
        self.pid
    }

    /// One argument.
    pub(super) fn argument(&self, index: usize) -> u64 {
        self.arguments[index]
    }

    /// All arguments.
    pub(super) fn arguments(&self) -> [u64; 6] {
        self.arguments
    }

    /// The call's name; empty for one that is not watched.
    pub(super) fn name(&self) -> &'static str {
        u32::try_from(self.number).ok().and_then(|number| name_of(number, Arch::NATIVE)).unwrap_or("")
    }
}

#[repr(C)]
struct Reply {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

#[repr(C)]
struct AddDescriptor {
    id: u64,
    flags: u32,
    source: u32,
    target: u32,
    target_flags: u32,
}

/// What the caller gets.
#[derive(Debug)]
pub(super) enum Answer {
    /// Success with this value.
    Value(i64),
    /// This error.
    Error(i32),
    /// This descriptor, with the close-on-exec flag as asked.
    Descriptor(OwnedFd, c_int),
    /// The kernel goes on: only for calls without pointers, about which nothing is decided.
    Continue,
}

/// The line.
#[derive(Debug)]
pub(super) struct Listener<'l> {
    line: BorrowedFd<'l>,
}

impl<'l> Listener<'l> {
    pub(super) fn new(line: BorrowedFd<'l>) -> Self {
        // SAFETY: SET_FLAGS takes its flags as a plain integer. A kernel that does not know it only refuses.
        unsafe { libc::ioctl(line.as_raw_fd(), SET_FLAGS as _, SYNC_WAKE_UP) };
        Self { line }
    }

    /// The next call.
    pub(super) fn next(&self) -> io::Result<Call> {
        let mut call = Call::default();
        // SAFETY: RECEIVE writes one structure of this layout, which must be zero before.
        check_int(unsafe { libc::ioctl(self.line.as_raw_fd(), RECEIVE as _, &raw mut call) })?;
        Ok(call)
    }

    /// Whether the caller still waits.
    pub(super) fn is_valid(&self, call: &Call) -> bool {
        // SAFETY: IS_VALID reads one 64-bit number.
        unsafe { libc::ioctl(self.line.as_raw_fd(), IS_VALID as _, &raw const call.id) == 0 }
    }

    /// Answers; a caller that has died is no concern.
    pub(super) fn reply(&self, call: &Call, answer: Answer) {
        let (value, error, flags) = match answer {
            Answer::Value(value) => (value, 0, 0),
            Answer::Error(number) => (0, -number, 0),
            Answer::Continue => (0, 0, CONTINUE),
            Answer::Descriptor(file, open_flags) => match self.hand_over(call, &file, open_flags) {
                Ok(()) => return,
                Err(error) => (0, -error.raw_os_error().unwrap_or(libc::EIO), 0),
            },
        };
        let reply = Reply { id: call.id, value, error, flags };
        // SAFETY: SEND reads one structure of this layout.
        unsafe { libc::ioctl(self.line.as_raw_fd(), SEND as _, &raw const reply) };
    }

    fn hand_over(&self, call: &Call, file: &OwnedFd, open_flags: c_int) -> io::Result<()> {
        let add = AddDescriptor {
            id: call.id,
            flags: ADD_AND_SEND,
            source: file.as_raw_fd() as u32,
            target: 0,
            target_flags: (open_flags & libc::O_CLOEXEC) as u32,
        };
        // SAFETY: ADD_DESCRIPTOR reads one structure of this layout.
        check_int(unsafe { libc::ioctl(self.line.as_raw_fd(), ADD_DESCRIPTOR as _, &raw const add) })
            .map(drop)
    }

    /// Leaves a call that must wait to a process of its own, so that others are not held up.
    /// `None` when this process has nothing more to do with it.
    pub(super) fn answer_later(&self, call: &Call, waiting: Waiting) -> Option<()> {
        match process::fork() {
            Ok(Some(_)) => None,
            Ok(None) => {
                let answer = loop {
                    if !self.is_valid(call) {
                        process::leave(0);
                    }
                    match waiting.try_open() {
                        Some(Ok(file)) => break Answer::Descriptor(file, waiting.flags()),
                        Some(Err(error)) => break Answer::Error(error.raw_os_error().unwrap_or(libc::EIO)),
                        None => std::thread::sleep(std::time::Duration::from_millis(2)),
                    }
                };
                self.reply(call, answer);
                process::leave(0)
            }
            Err(error) => {
                self.reply(call, Answer::Error(error.raw_os_error().unwrap_or(libc::EAGAIN)));
                None
            }
        }
    }
}

impl AsFd for Listener<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line
    }
}
