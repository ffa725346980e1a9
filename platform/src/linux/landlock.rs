//! Landlock: rights on files, by place.
//!
//! Answers for translating [`Rights`] into the bits this kernel knows and for restricting the process. It
//! leaves which places to the plan and hiding them to the mounts.
//! Invariant: every right the level knows is handled, so what is not listed is refused.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use crate::linux::sys::fd;
use crate::linux::sys::{c_path, check, number};
use crate::plan::{Place, Rights, UnixSockets};
use crate::report::{SetupFailure, Step};

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SOCK: u64 = 1 << 9;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_SYM: u64 = 1 << 12;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// The thirteen rights of level 1, MAKE_CHAR and MAKE_BLOCK among them, which are never given.
const LEVEL_1: u64 = (1 << 13) - 1;
/// Rights that make sense on a single file.
const ON_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
/// Both TCP rights; none is ever given here.
const NET_TCP: u64 = 3;
/// The level from which TCP can be refused.
pub(crate) const TCP: u32 = 4;
/// Abstract sockets and signals stay inside.
const SCOPES: u64 = 3;
/// The level from which they can be kept there.
const SCOPED: u32 = 6;
/// The size of everything that a ruleset can be about.
const FULL: usize = size_of::<RulesetAttr>();
/// The newest level this table was tested against; newer kernels are used at this level.
const NEWEST: u32 = 7;

/// Descriptors that are closed together.
const AT_ONCE: usize = 64;

#[repr(C)]
struct RulesetAttr {
    fs: u64,
    net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

/// Whether TCP is refused by Landlock too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tcp {
    /// Left to the network namespace.
    Free,
    /// Refused.
    Refused,
}

/// Who keeps files that may only be read from being cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cutting {
    /// Landlock.
    Refused,
    /// The mounts, which are read-only. Whenever a file is opened, the kernel looks for the right to cut it too, up to
    /// the root unless it finds it; so it finds it where reading is allowed.
    LeftToMounts,
}

/// How rights are read that depend on more than the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holds {
    /// What reading goes with.
    pub(crate) cutting: Cutting,
    /// Whether whoever may make files may make names of sockets too: a pair needs none, but can be given one.
    pub(crate) sockets: UnixSockets,
}

/// The level of this kernel, 0 for none, at most [`NEWEST`].
pub(crate) fn level() -> u32 {
    const VERSION: u32 = 1;
    let none: *const RulesetAttr = std::ptr::null();
    // SAFETY: with this flag the kernel reads no attribute and only answers with a number.
    let found = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) };
    check(found).ok().and_then(|level| u32::try_from(level).ok()).unwrap_or(0).min(NEWEST).min(pretended())
}

/// As [`level`], with the scopes that come with it tried: some kernels carry the number without them. For those to whom
/// nothing but Landlock keeps signals inside.
pub(crate) fn level_with_scopes() -> u32 {
    let level = level();
    if level < SCOPED || make(&RulesetAttr { fs: 0, net: 0, scoped: SCOPES }, FULL).is_ok() {
        return level;
    }
    SCOPED - 1
}

/// The level a test wants this kernel to have at most.
fn pretended() -> u32 {
    #[cfg(feature = "test-hooks")]
    if let Some(level) = crate::hooks::landlock_level() {
        return level;
    }
    u32::MAX
}

/// File rights known at `level`.
fn known(level: u32) -> u64 {
    let mut bits = LEVEL_1;
    for (least, bit) in [(2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)] {
        if level >= least {
            bits |= bit;
        }
    }
    bits
}

/// `rights` in the kernel's bits.
fn translate(rights: Rights) -> u64 {
    let table = [
        (Rights::LIST, READ_DIR),
        (Rights::READ, READ_FILE),
        (
            Rights::WRITE,
            WRITE_FILE | TRUNCATE | REFER | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM,
        ),
        (Rights::REMOVE, REMOVE_DIR | REMOVE_FILE),
        (Rights::EXECUTE, EXECUTE),
        (Rights::MODIFY, WRITE_FILE | TRUNCATE),
        (Rights::CONTROL, IOCTL_DEV),
    ];
    table.iter().filter(|(right, _)| rights.contains(*right)).fold(0, |bits, (_, more)| bits | more)
}

/// Restricts this process and its descendants to `places`. Needs `no_new_privs`.
///
/// Places that do not exist are passed over: there is nothing to allow.
pub(crate) fn restrict(level: u32, places: &[Place], holds: Holds, tcp: Tcp) -> Result<(), SetupFailure> {
    let fail = |path: &Path, error: &io::Error| SetupFailure {
        step: Step::Landlock,
        object: path.display().to_string(),
        errno: number(error),
    };
    let root = Path::new("/");
    let ruleset = create(level, tcp).map_err(|error| fail(root, &error))?;
    // Closed together, which is cheaper than one by one.
    let mut shown = Vec::with_capacity(places.len().min(AT_ONCE));
    for (index, place) in places.iter().enumerate() {
        // By letter: a place that is written in two ways gets two rules, which add up.
        let same = |other: &&Place| other.path.as_os_str() == place.path.as_os_str();
        if places[..index].iter().any(|other| same(&other)) {
            continue;
        }
        let rights = places[index..].iter().filter(same).fold(Rights::NONE, |all, other| all | other.rights);
        let allowed = holds.read(translate(rights)) & known(level);
        shown.extend(add(&ruleset, &place.path, allowed).map_err(|error| fail(&place.path, &error))?);
        if shown.len() == AT_ONCE {
            fd::close_all(shown.drain(..));
        }
    }
    fd::close_all(shown);
    enforce(&ruleset).map_err(|error| fail(root, &error))
}

/// Refuses this process and its descendants all TCP, and nothing else. Needs `no_new_privs` and level [`TCP`].
pub(crate) fn refuse_tcp() -> io::Result<()> {
    let attr = RulesetAttr { fs: 0, net: NET_TCP, scoped: 0 };
    let ruleset = make(&attr, 16)?;
    enforce(&ruleset)
}

fn create(level: u32, tcp: Tcp) -> io::Result<OwnedFd> {
    let net = if level >= TCP && tcp == Tcp::Refused { NET_TCP } else { 0 };
    let scoped = if level >= SCOPED { SCOPES } else { 0 };
    let attr = RulesetAttr { fs: known(level), net, scoped };
    let size = match level {
        0..=3 => 8,
        4..=5 => 16,
        _ => FULL,
    };
    match make(&attr, size) {
        // Whoever relies on the scopes has tried them; to all others namespaces give the same.
        Err(error) if scoped != 0 && error.raw_os_error() == Some(libc::EINVAL) => {
            make(&RulesetAttr { scoped: 0, ..attr }, size)
        }
        other => other,
    }
}

fn make(attr: &RulesetAttr, size: usize) -> io::Result<OwnedFd> {
    #[cfg(feature = "test-hooks")]
    if attr.scoped != 0 && crate::hooks::scopes_missing() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: `attr` outlives the call and the callers pass a `size` that does not exceed it.
    fd::own(check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const *attr, size, 0) })?)
}

fn enforce(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: a descriptor and an integer.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) }).map(drop)
}

impl Holds {
    fn read(self, allowed: u64) -> u64 {
        let allowed = match self.cutting {
            Cutting::LeftToMounts if allowed & READ_FILE != 0 => allowed | TRUNCATE,
            Cutting::LeftToMounts | Cutting::Refused => allowed,
        };
        match self.sockets {
            UnixSockets::Allowed => allowed,
            UnixSockets::PairsOnly => allowed & !MAKE_SOCK,
        }
    }
}

/// Allows this below `path`; the descriptor the kernel was shown, if there is anything there.
fn add(ruleset: &OwnedFd, path: &Path, allowed: u64) -> io::Result<Option<OwnedFd>> {
    // Links were followed when the place was decided on; one that stands there now was put there since.
    let target = match fd::open2(fd::cwd(), &c_path(path)?, libc::O_PATH, 0, fd::NO_SYMLINKS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    match allow(ruleset, &target, allowed) {
        // The kernel knows what it is, and takes no rights of directories for a file.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && allowed & !ON_FILES != 0 => {
            allow(ruleset, &target, allowed & ON_FILES)?;
        }
        other => other?,
    }
    Ok(Some(target))
}

fn allow(ruleset: &OwnedFd, target: &OwnedFd, allowed: u64) -> io::Result<()> {
    const PATH_BENEATH: u32 = 1;
    if allowed == 0 {
        return Ok(());
    }
    let rule = PathBeneath { allowed, parent: target.as_raw_fd() };
    let none: u32 = 0;
    // SAFETY: `rule` has the layout the kernel documents for this rule type and outlives the call.
    let done = unsafe {
        libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), PATH_BENEATH, &raw const rule, none)
    };
    check(done).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_is_apart_from_writing() {
        assert_eq!(translate(Rights::WRITE) & (REMOVE_DIR | REMOVE_FILE), 0);
        assert_eq!(translate(Rights::REMOVE), REMOVE_DIR | REMOVE_FILE);
    }

    #[test]
    fn cutting_goes_with_reading_only_where_mounts_keep_it_off() {
        for rights in [Rights::LIST, Rights::READ, Rights::REMOVE, Rights::EXECUTE] {
            let bits = translate(rights);
            let read = |cutting| Holds { cutting, sockets: UnixSockets::Allowed }.read(bits);
            assert_eq!(read(Cutting::Refused), bits);
            let more = if rights == Rights::READ { TRUNCATE } else { 0 };
            assert_eq!(read(Cutting::LeftToMounts), bits | more);
        }
    }

    #[test]
    fn where_sockets_come_in_pairs_only_none_gets_a_name() {
        let read = |sockets| Holds { cutting: Cutting::Refused, sockets }.read(translate(Rights::WRITE));
        assert_eq!(read(UnixSockets::Allowed) & !read(UnixSockets::PairsOnly), MAKE_SOCK);
    }

    #[test]
    fn device_nodes_are_never_made() {
        let all = Rights::from_bits(u8::MAX);
        assert_eq!(translate(all) & (1 << 6 | 1 << 11), 0);
    }

    #[test]
    fn a_level_never_asks_for_what_it_does_not_know() {
        assert_eq!(known(1) & (REFER | TRUNCATE | IOCTL_DEV), 0);
        assert_eq!(known(2) & (TRUNCATE | IOCTL_DEV), 0);
        assert_ne!(known(7) & IOCTL_DEV, 0);
    }
}
