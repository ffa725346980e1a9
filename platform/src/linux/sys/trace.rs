//! Watching another process from call to call.
//!
//! Answers for attaching without stopping, for letting a stopped thread go on, and for what a thread is about to
//! ask or was answered. It leaves the meaning to [`crate::linux::trace`].
//! Invariant: nothing is written into the watched process but the answer to a call that is not made.

use std::io;

use libc::{c_int, c_uint, c_ulong, pid_t};

use super::{check, errno};

/// All that is told of: threads and processes made, programs executed, calls the filter sends here.
const OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_EXITKILL;

/// How a stopped thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    /// Until something happens.
    Free,
    /// Until its call is answered.
    ToAnswer,
    /// Not at all, until it is continued: it was stopped by a signal that stops.
    Stopped,
}

/// Where a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// About to make this call.
    Call {
        /// Its number.
        number: u64,
        /// Its arguments.
        arguments: [u64; 6],
    },
    /// The call was answered.
    Answer {
        /// With this value, or minus an error number.
        value: i64,
    },
    /// Elsewhere.
    Elsewhere,
}

/// What the kernel says of a stop; the largest of its forms.
#[repr(C)]
#[derive(Default)]
struct Info {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction: u64,
    stack: u64,
    words: [u64; 8],
}

fn ptrace(request: c_uint, pid: pid_t, address: usize, data: usize) -> io::Result<libc::c_long> {
    // SAFETY: callers pass integers, or the address and size of a structure that outlives the call and that the
    // kernel reads, or fills up to that size; requests that write to the other process concern its registers only.
    check(unsafe { libc::syscall(libc::SYS_ptrace, c_ulong::from(request), pid, address, data) })
}

/// Watches `pid` and everything it starts, without stopping it.
pub(crate) fn seize(pid: pid_t) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE as c_uint, pid, 0, OPTIONS as usize).map(drop)
}

/// Lets a stopped thread go on, with `signal` delivered (0 for none).
pub(crate) fn resume(thread: pid_t, how: Onward, signal: c_int) -> io::Result<()> {
    let request = match how {
        Onward::Free => libc::PTRACE_CONT,
        Onward::ToAnswer => libc::PTRACE_SYSCALL,
        Onward::Stopped => libc::PTRACE_LISTEN,
    };
    ptrace(request as c_uint, thread, 0, signal as usize).map(drop)
}

/// Where a stopped thread stands.
pub(crate) fn at(thread: pid_t) -> io::Result<At> {
    const GET_SYSCALL_INFO: c_uint = 0x420e;
    let mut info = Info::default();
    ptrace(GET_SYSCALL_INFO, thread, size_of::<Info>(), &raw mut info as usize)?;
    let [number, a, b, c, d, e, f, _] = info.words;
    match info.op {
        1 | 3 => Ok(At::Call { number, arguments: [a, b, c, d, e, f] }),
        2 => Ok(At::Answer { value: number as i64 }),
        _ => Ok(At::Elsewhere),
    }
}

/// Answers the call that a thread is about to make with an error, so that it is not made.
#[cfg(target_arch = "x86_64")]
pub(crate) fn answer(thread: pid_t, error: c_int) -> io::Result<()> {
    const VALUE: usize = 10 * 8;
    const NUMBER: usize = 15 * 8;
    let poke = |at: usize, value: i64| ptrace(libc::PTRACE_POKEUSER as c_uint, thread, at, value as usize);
    poke(NUMBER, -1)?;
    poke(VALUE, -i64::from(error)).map(drop)
}

/// Answers the call that a thread is about to make with an error, so that it is not made.
#[cfg(target_arch = "aarch64")]
pub(crate) fn answer(thread: pid_t, error: c_int) -> io::Result<()> {
    const GENERAL: usize = 1;
    const NUMBER: usize = 0x404;
    let registers = |request: c_uint, set: usize, start: *mut libc::c_void, length: usize| {
        let mut window = libc::iovec { iov_base: start, iov_len: length };
        ptrace(request, thread, set, &raw mut window as usize)
    };
    let (get, put) = (libc::PTRACE_GETREGSET as c_uint, libc::PTRACE_SETREGSET as c_uint);
    let mut number: c_int = -1;
    registers(put, NUMBER, (&raw mut number).cast(), size_of::<c_int>())?;
    let mut general = [0_u64; 34];
    registers(get, GENERAL, general.as_mut_ptr().cast(), size_of_val(&general))?;
    general[0] = (-i64::from(error)).cast_unsigned();
    registers(put, GENERAL, general.as_mut_ptr().cast(), size_of_val(&general)).map(drop)
}

/// The number that comes with an event: for a program executed, the thread that asked for it; for a call that the
/// filter sends here, the error it is to be answered with.
pub(crate) fn event_message(thread: pid_t) -> io::Result<pid_t> {
    let mut message: c_ulong = 0;
    ptrace(libc::PTRACE_GETEVENTMSG as c_uint, thread, 0, &raw mut message as usize)?;
    pid_t::try_from(message).map_err(|_| errno(libc::ESRCH))
}
