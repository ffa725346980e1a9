//! System calls, one wrapper each, without policy.
//!
//! Answers for turning integers and pointers into typed, owned values. It leaves order and meaning to the
//! modules above.
//! Invariant: every function here is safe to call with any arguments; a bad one gives an error.

pub(crate) mod datagram;
pub(crate) mod dir;
pub(crate) mod fd;
pub(crate) mod inet;
pub(crate) mod memory;
pub(crate) mod mount;
pub(crate) mod process;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) mod trace;

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::c_long;

/// Turns the C convention (-1 and `errno`) into a result.
pub(crate) fn check(value: c_long) -> io::Result<c_long> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// As [`check`], for calls that answer with an `int`.
pub(crate) fn check_int(value: libc::c_int) -> io::Result<libc::c_int> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// A path as C wants it.
pub(crate) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// The error with this number.
pub(crate) fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// The number in an error, or `EIO` for one that did not come from the kernel.
pub(crate) fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
