//! What the system tells of processes.
//!
//! Answers for the calls of `libproc`, which leave nothing behind. It leaves which processes are looked at to
//! [`super::tree`].
//! Invariant: a process that only waits to be reaped is gone.

use libc::{c_int, c_void, pid_t};

/// The most processes that are told of at once.
const MOST: usize = 4096;

/// When a process was born, to the microsecond.
pub(super) type Birth = (u64, u64);

/// The processes of a group.
pub(super) fn members(group: pid_t) -> Vec<pid_t> {
    listed(|buffer, size| {
        // SAFETY: `buffer` is writable for `size` bytes.
        unsafe { libc::proc_listpids(PROC_PGRP_ONLY, group.unsigned_abs(), buffer, size) }
    })
}

/// Asks for processes of one group only.
const PROC_PGRP_ONLY: u32 = 2;

/// The children of a process.
pub(super) fn children(pid: pid_t) -> Vec<pid_t> {
    listed(|buffer, size| {
        // SAFETY: `buffer` is writable for `size` bytes.
        unsafe { libc::proc_listchildpids(pid, buffer, size) }
    })
}

/// The numbers that a call writes into a buffer. Calls differ in whether they answer in bytes or in numbers, so
/// what was not written stays zero and is left out.
fn listed(call: impl Fn(*mut c_void, c_int) -> c_int) -> Vec<pid_t> {
    let mut pids: Vec<pid_t> = vec![0; MOST];
    let size = c_int::try_from(size_of_val(pids.as_slice())).unwrap_or(c_int::MAX);
    if call(pids.as_mut_ptr().cast(), size) <= 0 {
        return Vec::new();
    }
    pids.retain(|pid| *pid > 1);
    pids
}

/// When a process was born; none when it is gone or only waits to be reaped.
pub(super) fn birth(pid: pid_t) -> Option<Birth> {
    // SAFETY: an all-zero `proc_bsdinfo` is a valid value of that plain C structure.
    let mut info: libc::proc_bsdinfo = unsafe { std::mem::zeroed() };
    let size = c_int::try_from(size_of_val(&info)).ok()?;
    // SAFETY: `info` is writable for `size` bytes.
    let read =
        unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, (&raw mut info).cast::<c_void>(), size) };
    let dead = info.pbi_status == libc::SZOMB;
    (read == size && !dead).then_some((info.pbi_start_tvsec, info.pbi_start_tvusec))
}

/// Bytes of memory that a process uses.
pub(super) fn footprint(pid: pid_t) -> u64 {
    // SAFETY: an all-zero `rusage_info_v2` is a valid value of that plain C structure.
    let mut usage: libc::rusage_info_v2 = unsafe { std::mem::zeroed() };
    // SAFETY: the flavour names the structure that the pointer leads to.
    let read = unsafe { libc::proc_pid_rusage(pid, libc::RUSAGE_INFO_V2, (&raw mut usage).cast()) };
    if read == 0 { usage.ri_phys_footprint } else { 0 }
}
