//! Ways past a fenced network that have worked somewhere, by plain system calls.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

fn check(value: i64) -> io::Result<i64> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// A socket of any kind.
fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain integers.
    let raw = check(unsafe { libc::socket(family, kind, protocol) }.into())?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(raw as i32) })
}

/// What the probe does inside.
pub(crate) fn act(words: &[&str]) -> Option<String> {
    let done = |result: io::Result<()>| match result {
        Ok(()) => String::from("ok"),
        Err(error) => format!("errno {}", error.raw_os_error().unwrap_or(-1)),
    };
    Some(match words {
        ["socket", kind] => {
            let numbers: Vec<i32> = kind.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [family, kind, protocol] = numbers[..] else { return None };
            done(socket(family, kind, protocol).map(drop))
        }
        _ => return None,
    })
}
