//! Groups of processes.

use std::io;

/// Ends every process of the group that this child leads. Its number is its own until somebody waits for it, which is
/// for the caller to do afterwards.
///
/// # Errors
/// What the kernel said.
pub fn kill(leader: u32) -> io::Result<()> {
    let group = libc::pid_t::try_from(leader).ok().filter(|group| *group > 1);
    let group = group.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: plain numbers; it is not one of those that mean everybody.
    match unsafe { libc::kill(-group, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
