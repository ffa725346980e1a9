//! Which system calls are refused, looked at or sent to the broker, and why.
//!
//! Answers for the list. It leaves numbers to [`super::table`] and machine code to [`super::assemble`].
//! Invariant: an `int` argument is compared by its low half only, and a decision never depends on memory the
//! caller could change.

use super::assemble::{self, ALLOW, Instruction, NOTIFY, Sheet, error};
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
    /// Opening with `changing` flags goes to `otherwise`, any other to `reading`; a set-ID mode is refused.
    Open { flags: u32, mode: u32, changing: u32, otherwise: u32, reading: u32 },
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

/// Calls that give a name to something that exists, and `umask`, on which new modes depend.
const MOVING: [&str; 9] =
    ["rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "truncate", "umask"];

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
    /// Whether opening for reading is told to the broker too.
    pub(crate) trace: bool,
    /// Whether this is for the broker itself, which resolves paths on behalf of others.
    pub(crate) broker: bool,
}

impl Filter {
    /// The program for `arch`.
    pub(crate) fn program(self, arch: Arch) -> Vec<Instruction> {
        let mut sheet = Sheet::default();
        let mut rules: Vec<(u32, u8)> = Vec::with_capacity(160);
        for refusal in REFUSED {
            let colour = sheet.colour(Action::Return(error(refusal.errno)));
            let calls = refusal.calls.iter().filter(|call| !(self.broker && call.name == READING));
            rules.extend(calls.filter_map(|call| call.number(arch)).map(|number| (number, colour)));
        }
        self.look_at(&mut |name, action| {
            if let Some(number) = table::number(name, arch) {
                rules.push((number, sheet.colour(action)));
            }
        });
        rules.sort_unstable();
        let allow = sheet.colour(Action::Return(ALLOW));
        sheet.mark(0, allow);
        for (number, colour) in rules {
            sheet.mark(number, colour);
            sheet.mark(number + 1, allow);
        }
        let gone = sheet.colour(Action::Return(error(libc::ENOSYS)));
        sheet.mark(NEWEST + 1, gone);
        let foreign_bit = match arch {
            Arch::X86_64 => Some(0x4000_0000),
            Arch::Aarch64 => None,
        };
        assemble::assemble(arch.audit(), foreign_bit, &sheet)
    }

    /// Calls whose arguments decide, or that only some plans refuse.
    fn look_at(self, rule: &mut impl FnMut(&'static str, Action)) {
        let gone = Action::Return(error(libc::ENOSYS));
        let bits = |argument, mask| Action::Look(Check::NoneOfBits { argument, mask, otherwise: ALLOW });
        rule("clone", bits(0, NAMESPACES));
        rule("unshare", bits(0, NAMESPACES | NEW_TIME));
        rule("ioctl", none_of(1, TERMINAL_TRICKS, error(libc::EPERM)));
        for (name, argument) in [("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)] {
            rule(name, bits(argument, SET_ID));
        }
        // Only one's own limits: the keeper is a process of the same user.
        rule("prlimit64", Action::Look(Check::OneOf { argument: 0, values: &[0] }));
        rule("personality", Action::Look(Check::OneOf { argument: 0, values: PERSONALITIES }));
        rule("socket", Action::Look(Check::Socket { unix: self.unix, inet: self.inet }));
        if !self.broker {
            rule("openat2", gone);
        }
        if !self.ipc {
            IPC.iter().for_each(|name| rule(name, Action::Return(error(libc::EPERM))));
        }
        if !self.memory_files {
            rule("memfd_create", gone);
        }
        self.look_at_names(rule);
    }

    /// Calls that make, replace or open names.
    fn look_at_names(self, rule: &mut impl FnMut(&'static str, Action)) {
        let watched = if self.watch == Watch::Off { ALLOW } else { NOTIFY };
        let changing = if self.watch == Watch::Off { MAKING } else { CHANGING | MAKING };
        let reading = if self.trace { NOTIFY } else { ALLOW };
        for (name, flags) in [("open", 1), ("openat", 2)] {
            let check = Check::Open { flags, mode: flags + 1, changing, otherwise: watched, reading };
            rule(name, Action::Look(check));
        }
        for (name, argument) in [("creat", 1), ("mkdir", 1), ("mkdirat", 2)] {
            rule(name, Action::Look(Check::NoneOfBits { argument, mask: SET_ID, otherwise: watched }));
        }
        for (name, mode) in [("mknod", 1), ("mknodat", 2)] {
            rule(name, Action::Look(Check::Node { mode, otherwise: watched }));
        }
        if self.watch == Watch::Off {
            return;
        }
        let ask = Action::Return(NOTIFY);
        MOVING.iter().for_each(|name| rule(name, ask));
        if self.watch == Watch::MakingAndRemoving {
            ["unlink", "unlinkat", "rmdir"].iter().for_each(|name| rule(name, ask));
        }
        // The broker reads names from the caller's memory, so callers stay readable; and it acts with the
        // rights of the launch, so that no caller may believe it has fewer.
        rule("prctl", none_of(0, SET_DUMPABLE, error(0)));
        rule("landlock_create_ruleset", Action::Return(error(libc::EOPNOTSUPP)));
    }
}

fn none_of(argument: u32, values: &'static [u32], answer: u32) -> Action {
    Action::Look(Check::NoneOf { argument, values, answer })
}
