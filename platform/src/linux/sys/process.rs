//! Making, watching and ending processes.
//!
//! Answers for process identity: a child is held by a pidfd, never by a bare number that could be reused.
//! It leaves what the child does to the callers.
//! Invariant: nothing here is called from a process with more than one thread, except [`thread_count`].

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use libc::{c_int, c_long, c_ulong, pid_t};

use super::{check, check_int, fd};

/// Those a set of processors has room for.
const MOST_PROCESSORS: usize = libc::CPU_SETSIZE as usize;

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Which side of a fork this is.
pub(crate) enum Fork {
    /// The new process.
    Child(Born),
    /// The old one, holding the new one.
    Parent(OwnedFd, pid_t),
}

/// Where a new process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Born {
    /// Where it was to be.
    Inside,
    /// Still in its parent's control group: this kernel, or a filter around it, makes none elsewhere.
    Outside,
}

/// How many threads this process has.
pub(crate) fn thread_count() -> io::Result<u64> {
    use std::os::linux::fs::MetadataExt;
    Ok(std::fs::metadata("/proc/self/task")?.st_nlink().saturating_sub(2))
}

/// Makes a child that shares no memory, in the new namespaces of `flags` and in `cgroup` if given and if it can be.
pub(crate) fn fork_into(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Fork> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let mut pidfd: RawFd = -1;
    let mut args = CloneArgs {
        flags: flags | libc::CLONE_PIDFD as u64,
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::try_from(cgroup.as_raw_fd()).unwrap_or(0);
    }
    // SAFETY: without CLONE_VM the child has its own copy of everything, and the callers make sure that this
    // process has one thread, so that no lock is left held in the copy; `args` outlives the call.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) });
    let pid = match pid {
        // Inside another fence the call does not exist; a plain fork needs none of its flags.
        Err(error) if flags == 0 && error.raw_os_error() == Some(libc::ENOSYS) => {
            return fork_plainly(if cgroup.is_some() { Born::Outside } else { Born::Inside });
        }
        other => other?,
    };
    if pid == 0 {
        return Ok(Fork::Child(Born::Inside));
    }
    // SAFETY: the kernel has just stored a fresh descriptor there.
    Ok(Fork::Parent(unsafe { OwnedFd::from_raw_fd(pidfd) }, pid as pid_t))
}

fn fork_plainly(born: Born) -> io::Result<Fork> {
    match fork()? {
        None => Ok(Fork::Child(born)),
        Some(pid) => Ok(Fork::Parent(pidfd_open(pid)?, pid)),
    }
}

/// Goes to another processor, if this process may use one. The kernel leaves a new process on its parent's until the
/// parent sleeps, even if another has nothing to do; so both go on at once.
pub(crate) fn step_aside() {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: an all-zero set of processors is a valid one without any.
    let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is writable and as long as said.
    let known = check_int(unsafe { libc::sched_getaffinity(0, size, &raw mut all) });
    // SAFETY: takes nothing.
    let here = usize::try_from(unsafe { libc::sched_getcpu() });
    let (Ok(_), Ok(here @ 0..MOST_PROCESSORS)) = (known, here) else { return };
    let mut others = all;
    // SAFETY: the number is one that the set has room for.
    unsafe { libc::CPU_CLR(here, &mut others) };
    // SAFETY: looks at a set that is there.
    if unsafe { libc::CPU_COUNT(&others) } == 0 {
        return;
    }
    for set in [others, all] {
        // SAFETY: `set` is readable and as long as said.
        unsafe { libc::sched_setaffinity(0, size, &raw const set) };
    }
}

/// A plain fork.
pub(crate) fn fork() -> io::Result<Option<pid_t>> {
    // SAFETY: this process has one thread, so the child may run any code.
    let pid = check_int(unsafe { libc::fork() })?;
    Ok((pid != 0).then_some(pid))
}

/// Ends this process at once, running no destructor or exit handler of the parent's.
pub(crate) fn leave(status: c_int) -> ! {
    // SAFETY: always sound; it does not return.
    unsafe { libc::_exit(status) }
}

/// Sends `signal` to the process behind `pidfd`.
pub(crate) fn send(pidfd: BorrowedFd<'_>, signal: c_int) -> io::Result<()> {
    let none: *const libc::siginfo_t = std::ptr::null();
    // SAFETY: a descriptor, integers and a null pointer.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, none, 0) }).map(drop)
}

/// Sends `signal` to a process or, for a negative number, to a group.
pub(crate) fn kill(pid: pid_t, signal: c_int) -> io::Result<()> {
    // SAFETY: plain integers.
    check_int(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Collects one ended child (`-1` for any), if there is one: its number and raw status.
pub(crate) fn reap(pid: pid_t, flags: c_int) -> io::Result<Option<(pid_t, c_int)>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is writable.
        match check_int(unsafe { libc::waitpid(pid, &raw mut status, flags) }) {
            Ok(0) => return Ok(None),
            Ok(pid) => return Ok(Some((pid, status))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits for a child's end: its raw status, and the processor time that it and all it has waited for have used.
pub(crate) fn reap_counting(pid: pid_t) -> io::Result<(c_int, Duration)> {
    let mut status = 0;
    // SAFETY: an all-zero `rusage` is a valid value of that plain C structure.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both are writable and of the right types.
        match check_int(unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut used) }) {
            Ok(_) => return Ok((status, time(used.ru_utime) + time(used.ru_stime))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn time(value: libc::timeval) -> Duration {
    let seconds = Duration::from_secs(u64::try_from(value.tv_sec).unwrap_or(0));
    seconds + Duration::from_micros(u64::try_from(value.tv_usec).unwrap_or(0))
}

/// `prctl` with integer arguments.
pub(crate) fn prctl(option: c_int, value: c_ulong) -> io::Result<c_int> {
    let zero: c_ulong = 0;
    // SAFETY: callers use options whose arguments are integers.
    check_int(unsafe { libc::prctl(option, value, zero, zero, zero) })
}

/// Starts a session without a terminal.
pub(crate) fn new_session() -> io::Result<()> {
    // SAFETY: takes nothing.
    check_int(unsafe { libc::setsid() }).map(drop)
}

/// Moves this process into a new network namespace.
pub(crate) fn new_network() -> io::Result<()> {
    // SAFETY: a plain integer; only this process is concerned.
    check_int(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves this process into a mount namespace of its own, with the same mounts.
pub(crate) fn new_mounts() -> io::Result<()> {
    // SAFETY: a plain integer; only this process is concerned.
    check_int(unsafe { libc::unshare(libc::CLONE_NEWNS) }).map(drop)
}

/// Effective user and group number.
pub(crate) fn ids() -> (u32, u32) {
    // SAFETY: takes nothing and cannot fail.
    let uid = unsafe { libc::geteuid() };
    // SAFETY: takes nothing and cannot fail.
    let gid = unsafe { libc::getegid() };
    (uid, gid)
}

/// Sets what is taken from the modes of new files; what was taken before.
pub(crate) fn set_mask(mask: libc::mode_t) -> libc::mode_t {
    // SAFETY: takes and answers with a plain integer.
    unsafe { libc::umask(mask) }
}

/// This process's number in its own pid namespace.
pub(crate) fn own_pid() -> pid_t {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// A pidfd for a process that this one is a parent of or may signal.
pub(crate) fn pidfd_open(pid: pid_t) -> io::Result<OwnedFd> {
    // SAFETY: plain integers.
    fd::own(check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?)
}

/// A pidfd for any thread.
pub(crate) fn pidfd_open_thread(thread: pid_t) -> io::Result<OwnedFd> {
    const THREAD: c_int = libc::O_EXCL;
    // SAFETY: plain integers.
    fd::own(check(unsafe { libc::syscall(libc::SYS_pidfd_open, thread, THREAD) })?)
}

/// A copy of another process's descriptor.
pub(crate) fn copy_descriptor(pidfd: &OwnedFd, number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain integers; the kernel checks whether this process may.
    fd::own(check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0) })?)
}

/// Sets the soft and hard limit of `resource`, clamped to the hard limit in force.
pub(crate) fn set_limit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let mut now = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a null new limit only asks; `now` is writable.
    check(unsafe {
        libc::syscall(libc::SYS_prlimit64, 0, resource, std::ptr::null::<libc::rlimit64>(), &raw mut now)
    })?;
    let hard = hard.min(now.rlim_max);
    let wanted = libc::rlimit64 { rlim_cur: soft.min(hard), rlim_max: hard };
    let none = std::ptr::null_mut::<libc::rlimit64>();
    // SAFETY: `wanted` is readable and the old limit is not asked for.
    let done: c_long = unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, &raw const wanted, none) };
    check(done).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_steps_aside_may_come_back() {
        let allowed = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap().to_owned()
        };
        let before = allowed();
        step_aside();
        assert_eq!(allowed(), before);
    }
}
