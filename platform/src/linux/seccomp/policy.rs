//! Which system calls are refused, looked at or sent to the broker, and why.
//!
//! Answers for the list. It leaves numbers to [`super::table`] and machine code to [`super::assemble`].
//! Invariant: an `int` argument is compared by its low half only, and a decision never depends on memory the
//! caller could change.

use super::assemble::{self, ALLOW, Instruction, NOTIFY, error};
use super::table::{self, Arch, NEWEST, REFUSED};

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Always the same answer.
    Return(u32),
    /// The arguments decide.
    Look(Check),
}

/// A look at integer arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Refused if any bit of `mask` is set.
    NoneOfBits { argument: u32, mask: u32, otherwise: u32 },
    /// `answer` if the argument is one of `values`.
    NoneOf { argument: u32, values: &'static [u32], answer: u32 },
    /// Refused unless the argument is one of `values`.
    OneOf { argument: u32, values: &'static [u32] },
    /// Opening with `changing` flags goes to `otherwise`; a set-ID mode is refused.
    Open { flags: u32, mode: u32, changing: u32, otherwise: u32 },
    /// No device nodes and no set-ID mode.
    Node { mode: u32, otherwise: u32 },
    /// Socket families and kinds.
    Socket { unix: bool, inet: bool },
}

/// All namespace flags of `clone`.
const NAMESPACES: u32 = 0x7e02_0000;
/// The time namespace flag, which shares a bit with the exit signal of `clone`.
const NEW_TIME: u32 = 0x80;
/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;
/// TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD: typing into, or taking over, a terminal.
const TERMINAL_TRICKS: &[u32] = &[0x5412, 0x541c, 0x541d, 0x5423];
/// Linux, `ADDR_NO_RANDOMIZE`-free 32-bit, and "only asking".
const PERSONALITIES: &[u32] = &[0, 8, 0xffff_ffff];
/// `PR_SET_DUMPABLE`.
const SET_DUMPABLE: &[u32] = &[4];
/// `O_CREAT` and the marker bit of `O_TMPFILE`.
const MAKING: u32 = 0x40_0040;
/// `O_WRONLY`, `O_RDWR`, `O_CREAT`, `O_TRUNC`: a file may change.
const CHANGING: u32 = 0o3 | 0o100 | 0o1000;

/// System V and POSIX message, semaphore and shared memory calls.
const IPC: [&str; 12] = [
    "shmget",
    "shmat",
    "shmctl",
    "semget",
    "semop",
    "semtimedop",
    "semctl",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
    "mq_open",
];

/// How the broker reads names from its callers.
const READING: &str = "process_vm_readv";

/// What the broker is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Nothing.
    Off,
    /// Whatever makes, replaces or opens a name for writing.
    Making,
    /// Removing names too, where no read-only mount prevents it.
    MakingAndRemoving,
}

/// The choices a filter depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Whether UNIX sockets can be made.
    pub(crate) unix: bool,
    /// Whether IP sockets can be made: only in a network namespace of one's own.
    pub(crate) inet: bool,
    /// Whether shared memory, semaphores and queues can be used: only in an ipc namespace of one's own.
    pub(crate) ipc: bool,
    /// Whether files in anonymous memory can be made.
    pub(crate) memory_files: bool,
    /// What the broker is asked about.
    pub(crate) watch: Watch,
    /// Whether this is for the broker itself, which resolves paths on behalf of others.
    pub(crate) broker: bool,
}

impl Filter {
    /// The program for `arch`.
    pub(crate) fn program(self, arch: Arch) -> Vec<Instruction> {
        let mut rules: Vec<(u32, Action)> = Vec::with_capacity(128);
        for refusal in REFUSED {
            let answer = Action::Return(error(refusal.errno));
            let calls = refusal.calls.iter().filter(|call| !(self.broker && call.name == READING));
            rules.extend(calls.filter_map(|call| call.number(arch)).map(|at| (at, answer)));
        }
        for (name, action) in self.looked_at() {
            rules.extend(table::number(name, arch).map(|at| (at, action)));
        }
        rules.sort_unstable_by_key(|(number, _)| *number);
        let foreign_bit = match arch {
            Arch::X86_64 => Some(0x4000_0000),
            Arch::Aarch64 => None,
        };
        assemble::assemble(arch.audit(), foreign_bit, &steps(&rules))
    }

    fn looked_at(self) -> Vec<(&'static str, Action)> {
        let gone = Action::Return(error(libc::ENOSYS));
        let bits = |argument, mask| Action::Look(Check::NoneOfBits { argument, mask, otherwise: ALLOW });
        let mut list = vec![
            ("clone", bits(0, NAMESPACES)),
            ("unshare", bits(0, NAMESPACES | NEW_TIME)),
            ("ioctl", none_of(1, TERMINAL_TRICKS, error(libc::EPERM))),
            ("chmod", bits(1, SET_ID)),
            ("fchmod", bits(1, SET_ID)),
            ("fchmodat", bits(2, SET_ID)),
            ("fchmodat2", bits(2, SET_ID)),
            ("personality", Action::Look(Check::OneOf { argument: 0, values: PERSONALITIES })),
            ("socket", Action::Look(Check::Socket { unix: self.unix, inet: self.inet })),
        ];
        if !self.broker {
            list.push(("openat2", gone));
        }
        if !self.ipc {
            list.extend(IPC.map(|name| (name, Action::Return(error(libc::EPERM)))));
        }
        if !self.memory_files {
            list.push(("memfd_create", gone));
        }
        list.extend(self.names());
        list
    }

    /// Calls that make, replace or open names.
    fn names(self) -> Vec<(&'static str, Action)> {
        let watched = if self.watch == Watch::Off { ALLOW } else { NOTIFY };
        let changing = if self.watch == Watch::Off { MAKING } else { CHANGING | MAKING };
        let open = |flags| Action::Look(Check::Open { flags, mode: flags + 1, changing, otherwise: watched });
        let made = |argument| Action::Look(Check::NoneOfBits { argument, mask: SET_ID, otherwise: watched });
        let node = |mode| Action::Look(Check::Node { mode, otherwise: watched });
        let mut list = vec![
            ("open", open(1)),
            ("openat", open(2)),
            ("creat", made(1)),
            ("mkdir", made(1)),
            ("mkdirat", made(2)),
            ("mknod", node(1)),
            ("mknodat", node(2)),
        ];
        if self.watch == Watch::Off {
            return list;
        }
        let ask = Action::Return(NOTIFY);
        for name in
            ["rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "truncate", "umask"]
        {
            list.push((name, ask));
        }
        if self.watch == Watch::MakingAndRemoving {
            list.extend(["unlink", "unlinkat", "rmdir"].map(|name| (name, ask)));
        }
        // The broker reads names from the caller's memory, so callers stay readable; and it acts with the
        // rights of the launch, so that no caller may believe it has fewer.
        list.push(("prctl", none_of(0, SET_DUMPABLE, error(0))));
        list.push(("landlock_create_ruleset", Action::Return(error(libc::EOPNOTSUPP))));
        list
    }
}

fn none_of(argument: u32, values: &'static [u32], answer: u32) -> Action {
    Action::Look(Check::NoneOf { argument, values, answer })
}

/// Fills the gaps between rules with "allow" and ends with "no such call".
fn steps(rules: &[(u32, Action)]) -> Vec<(u32, Action)> {
    let allow = Action::Return(ALLOW);
    let mut steps: Vec<(u32, Action)> = vec![(0, allow)];
    let mut set = |from: u32, action: Action| {
        if steps.last().is_some_and(|(at, _)| *at == from) {
            steps.pop();
        }
        if steps.last().is_none_or(|(_, last)| *last != action) {
            steps.push((from, action));
        }
    };
    for (number, action) in rules {
        set(*number, *action);
        set(number + 1, allow);
    }
    set(NEWEST + 1, Action::Return(error(libc::ENOSYS)));
    steps
}
