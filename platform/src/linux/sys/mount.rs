//! The descriptor-based mount calls.
//!
//! Answers for detached trees, their attributes and where they are put. It leaves the order to
//! [`crate::linux::mounts`].
//! Invariant: no path is resolved here except below a descriptor the caller holds.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_long, c_uint};

use super::{check, check_int, fd};

/// Nothing below can be changed.
pub(crate) const RDONLY: u64 = 0x1;
/// Set-user-ID bits have no effect.
pub(crate) const NOSUID: u64 = 0x2;
/// Device nodes have no effect.
pub(crate) const NODEV: u64 = 0x4;
/// Nothing below can be executed.
pub(crate) const NOEXEC: u64 = 0x8;

const OPEN_TREE_CLONE: c_uint = 1;
const AT_RECURSIVE: c_uint = 0x8000;
const MOVE_F_EMPTY: c_uint = 0x04;
const MOVE_T_EMPTY: c_uint = 0x40;

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

const CLONE: c_uint = OPEN_TREE_CLONE
    | AT_RECURSIVE
    | libc::O_CLOEXEC as c_uint
    | libc::AT_EMPTY_PATH as c_uint
    | libc::AT_SYMLINK_NOFOLLOW as c_uint;

/// A detached copy of the tree at `start`/`path`, with everything mounted below it, all of which gets the attributes
/// `set`.
pub(crate) fn clone_tree(start: BorrowedFd<'_>, path: &CStr, set: u64) -> io::Result<OwnedFd> {
    // Kernels since 6.15 do both at once. What others answer says nothing, and may not be theirs but a filter's.
    if let Ok(tree) = clone_at_once(start, path, set) {
        return Ok(tree);
    }
    // SAFETY: `path` is NUL-terminated and lives through the call.
    let raw = unsafe { libc::syscall(libc::SYS_open_tree, start.as_raw_fd(), path.as_ptr(), CLONE) };
    let tree = fd::own(check(raw)?)?;
    set_attributes(tree.as_fd(), set, true)?;
    Ok(tree)
}

fn clone_at_once(start: BorrowedFd<'_>, path: &CStr, set: u64) -> io::Result<OwnedFd> {
    /// `open_tree_attr`, by the same number everywhere.
    const OPEN_TREE_ATTR: c_long = 467;
    let attr = MountAttr { set, clear: 0, propagation: libc::MS_PRIVATE, userns: 0 };
    // SAFETY: `path` is NUL-terminated; it and `attr`, whose size is passed along, live through the call.
    let raw = unsafe {
        libc::syscall(
            OPEN_TREE_ATTR,
            start.as_raw_fd(),
            path.as_ptr(),
            CLONE,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    fd::own(check(raw)?)
}

/// Sets attributes on the mount at `tree`, and below it too when `recursive`. Either way it is cut off from the
/// host's mount events: what is mounted there later would come without these attributes.
pub(crate) fn set_attributes(tree: BorrowedFd<'_>, set: u64, recursive: bool) -> io::Result<()> {
    let attr = MountAttr { set, clear: 0, propagation: libc::MS_PRIVATE, userns: 0 };
    let depth = if recursive { AT_RECURSIVE } else { 0 };
    let flags = depth | libc::AT_EMPTY_PATH as c_uint;
    // SAFETY: `attr` outlives the call and its size is passed along; the path is the empty string.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    check(done).map(drop)
}

/// Puts a detached tree onto the object `dest` leads to.
pub(crate) fn attach(tree: BorrowedFd<'_>, dest: BorrowedFd<'_>) -> io::Result<()> {
    attach_at(tree, dest, c"")
}

/// Puts a detached tree onto `path` below `start`, not following a link in its last part.
pub(crate) fn attach_at(tree: BorrowedFd<'_>, start: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    // SAFETY: `path` is NUL-terminated and the other path is the empty string.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            start.as_raw_fd(),
            path.as_ptr(),
            MOVE_F_EMPTY | MOVE_T_EMPTY,
        )
    };
    check(done).map(drop)
}

/// A new, detached file system of `kind`; an option without a value is a mere word.
pub(crate) fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: u64,
) -> io::Result<OwnedFd> {
    const FSOPEN_CLOEXEC: c_uint = 1;
    const FSMOUNT_CLOEXEC: c_uint = 1;
    // SAFETY: `kind` is NUL-terminated.
    let context = fd::own(check(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })?)?;
    for (key, value) in options {
        match value.is_empty() {
            true => configure(&context, 0, key.as_ptr(), std::ptr::null())?,
            false => configure(&context, 1, key.as_ptr(), value.as_ptr())?,
        }
    }
    configure(&context, 6, std::ptr::null(), std::ptr::null())?;
    // SAFETY: a descriptor and two integers.
    let raw = unsafe {
        libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, attributes as c_uint)
    };
    fd::own(check(raw)?)
}

fn configure(
    context: &OwnedFd,
    command: c_uint,
    key: *const libc::c_char,
    value: *const libc::c_char,
) -> io::Result<()> {
    let nothing: c_int = 0;
    // SAFETY: both pointers come from live C strings or are null, as `new_filesystem` passes them.
    let done =
        unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, key, value, nothing) };
    check(done).map(drop)
}

/// Cuts every mount below `/` off from the host's mount events.
pub(crate) fn make_private() -> io::Result<()> {
    let none = std::ptr::null();
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: all strings are literals or null.
    check_int(unsafe { libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) }).map(drop)
}

/// Takes what is mounted at `path` out of the tree; whoever uses it keeps it.
pub(crate) fn detach(path: &CStr) -> io::Result<()> {
    // SAFETY: `path` is NUL-terminated.
    check_int(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) }).map(drop)
}

/// Makes `root` the root directory and lets go of the old one.
pub(crate) fn pivot(root: BorrowedFd<'_>) -> io::Result<()> {
    change_dir(root)?;
    // SAFETY: two literals.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) })?;
    // SAFETY: a literal; "." is the old root, which pivot_root has stacked on the new one.
    check_int(unsafe { libc::umount2(c".".as_ptr(), libc::MNT_DETACH) })?;
    // SAFETY: a literal.
    check_int(unsafe { libc::chdir(c"/".as_ptr()) }).map(drop)
}

/// `fchdir`.
pub(crate) fn change_dir(dir: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a descriptor the caller holds.
    check_int(unsafe { libc::fchdir(dir.as_raw_fd()) }).map(drop)
}

/// `mkdirat`.
pub(crate) fn make_dir(start: BorrowedFd<'_>, name: &CStr, mode: u32) -> io::Result<()> {
    // SAFETY: `name` is NUL-terminated.
    check_int(unsafe { libc::mkdirat(start.as_raw_fd(), name.as_ptr(), mode) }).map(drop)
}

/// `fchmodat`, of something that is no link.
pub(crate) fn change_mode(start: BorrowedFd<'_>, path: &CStr, mode: u32) -> io::Result<()> {
    // SAFETY: `path` is NUL-terminated.
    check_int(unsafe { libc::fchmodat(start.as_raw_fd(), path.as_ptr(), mode, 0) }).map(drop)
}

/// Makes an empty file.
pub(crate) fn make_file(start: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let mode = libc::S_IFREG | 0o644;
    // SAFETY: `name` is NUL-terminated.
    check_int(unsafe { libc::mknodat(start.as_raw_fd(), name.as_ptr(), mode, 0) }).map(drop)
}

/// `symlinkat`.
pub(crate) fn make_link(target: &CStr, start: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    // SAFETY: both strings are NUL-terminated.
    check_int(unsafe { libc::symlinkat(target.as_ptr(), start.as_raw_fd(), name.as_ptr()) }).map(drop)
}

/// The magic number of the file system `fd` lies on.
pub(crate) fn filesystem_kind(fd: BorrowedFd<'_>) -> io::Result<c_long> {
    // SAFETY: an all-zero `statfs` is a valid value of that plain C structure.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is a writable structure of the right type.
    check_int(unsafe { libc::fstatfs(fd.as_raw_fd(), &raw mut found) })?;
    Ok(found.f_type as c_long)
}
