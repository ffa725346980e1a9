//! Linux capabilities, all given up.
//!
//! Answers for leaving a process with no privilege and no way to regain one. It leaves the moment to the stage.
//! Invariant: after [`drop_all`] the effective, permitted, inheritable and ambient sets are empty, and `execve`
//! adds nothing, not even for user 0.

use std::io;

use crate::linux::sys::{check, check_int, process};

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Being user 0 means nothing, set-user-ID changes nothing, ambient sets stay empty; all of it locked.
const ROOT_IS_NOBODY: libc::c_ulong = 0xef;

/// Empties every set `execve` could draw from and forbids new privileges.
pub(crate) fn drop_all() -> io::Result<()> {
    match process::prctl(libc::PR_SET_SECUREBITS, ROOT_IS_NOBODY) {
        Ok(_) => {}
        // Without privilege the bits stay, but then there is nothing to regain either.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
        Err(error) => return Err(error),
    }
    let zero: libc::c_ulong = 0;
    let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong;
    // SAFETY: integers only.
    check_int(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, clear, zero, zero, zero) })?;
    let header = Header { version: 0x2008_0522, pid: 0 };
    let none = [Sets::default(); 2];
    // SAFETY: version 3 takes a header and two sets, both live through the call.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) })?;
    process::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).map(drop)
}
