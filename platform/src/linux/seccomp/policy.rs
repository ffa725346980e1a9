//! Which system calls are refused, looked at or sent to the broker, and why.
//!
//! Answers for the list. It leaves numbers to [`super::table`] and machine code to [`super::assemble`].
//! Invariant: an `int` argument is compared by its low half only, and a decision never depends on memory the
//! caller could change.

use super::assemble::{self, ALLOW, Instruction, NOTIFY, Sheet, TRACE, error, told};
use super::table::{self, Arch, NEWEST, REFUSED, Refusal};

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Always the same answer.
    Return(u32),
    /// The arguments decide.
    Look(Check),
    /// The same, and the tracer gives the refusals, so that it knows of them.
    LookAndTell(Check),
}

/// A look at integer arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Refused if any bit of `mask` is set.
    NoneOfBits { argument: u32, mask: u32 },
    /// `answer` if the argument is one of `values`.
    NoneOf { argument: u32, values: &'static [u32], answer: u32 },
    /// Refused unless the argument is one of `values`.
    OneOf { argument: u32, values: &'static [u32] },
    /// Refused unless the first arguments are exactly these.
    Exactly { values: [u32; 2] },
    /// Opening with `changing` flags goes to `otherwise`, any other to `reading`; a set-ID mode is refused.
    Open { flags: u32, mode: u32, changing: u32, otherwise: u32, reading: u32 },
    /// No device nodes and no set-ID mode.
    Node { mode: u32 },
    /// No device call that is one of `tricks`, or belongs to one of `owners` and is not `open` to all.
    Device { tricks: &'static [u32], owners: [u32; 2], open: [u32; 3] },
    /// Socket families and kinds.
    Socket { unix: bool, inet: Inet },
}

/// All namespace flags of `clone`.
const NAMESPACES: u32 = 0x7e02_0000;
/// The time namespace flag, which shares a bit with the exit signal of `clone`.
const NEW_TIME: u32 = 0x80;
/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;
/// The first of them.
const SET_USER_ID: u32 = 0o4000;
/// TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD: typing into, or taking over, a terminal. FS_IOC_SETFLAGS, its 32-bit form and
/// FS_IOC_FSSETXATTR: a directory that is made to fold letters knows protected names by others. FS_IOC_SETVERSION and
/// its 32-bit form: no rule of the kernel's knows it. OCFS2_IOC_REFLINK: makes a file by its name.
const DEVICE_TRICKS: &[u32] = &[
    0x5412,
    0x541c,
    0x541d,
    0x5423,
    0x4008_6602,
    0x4004_6602,
    0x401c_5820,
    0x4008_7602,
    0x4004_7602,
    0x4018_6f04,
];
/// Calls of btrfs and bcachefs, by the byte that says whose they are: subvolumes and copies of them are made and taken away
/// without any rule of the kernel's being asked.
const VOLUMES: [u32; 2] = [0x9400, 0xbc00];
/// FICLONE, FICLONERANGE and FIDEDUPERANGE, which are everybody's: content is shared between files that are open.
const SHARING: [u32; 3] = [0x4004_9409, 0x4020_940d, 0xc018_9436];
/// `F_SETLEASE`: a lease would keep whoever opens the file, the broker among them, waiting.
const LEASES: &[u32] = &[1024];
/// Calls that choose a process to schedule otherwise, by its number; 0 is the caller.
const SCHEDULING: [&str; 4] = ["sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"];
/// Those that may also choose a group or a user: what stands for one process, and 0 for the caller.
const PRIORITIES: [(&str, [u32; 2]); 2] = [("setpriority", [0, 0]), ("ioprio_set", [1, 0])];
/// Linux, `ADDR_NO_RANDOMIZE`-free 32-bit, and "only asking".
const PERSONALITIES: &[u32] = &[0, 8, 0xffff_ffff];
/// Pairs that stay pairs: streams and packets, with and without the flags for blocking and `execve`. A pair of
/// datagram sockets can still send to any socket by name.
const PAIRS: &[u32] = &[1, 5, 0x80001, 0x80005, 0x801, 0x805, 0x80801, 0x80805];
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

/// Calls that open a name, and where their flags are; the mode follows.
const OPENING: [(&str, u32); 2] = [("open", 1), ("openat", 2)];

/// Calls that make a file or a directory, and where their mode is.
const MAKING_NAMES: [(&str, u32); 3] = [("creat", 1), ("mkdir", 1), ("mkdirat", 2)];

/// Calls that make any kind of node, and where their mode is.
const NODES: [(&str, u32); 2] = [("mknod", 1), ("mknodat", 2)];

/// Calls that change permissions, and where the mode is.
const MODES: [(&str, u32); 4] = [("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)];

/// Calls that take a name away.
const REMOVING: [&str; 3] = ["unlink", "unlinkat", "rmdir"];

/// Calls that change times.
const TIMES: [&str; 4] = ["utime", "utimes", "futimesat", "utimensat"];

/// Calls that change owners. Nobody inside has another owner to give, but they take away what a mode says of set-ID.
const OWNERS: [&str; 4] = ["chown", "fchown", "lchown", "fchownat"];

/// Calls that give a socket an address or another end; they are performed on the caller's behalf.
const CONNECTING: [&str; 3] = ["connect", "bind", "listen"];

/// Calls that can connect a socket while sending, and where their flags are.
const SENDING: [(&str, u32); 3] = [("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)];

/// `MSG_FASTOPEN`: connect while sending.
const FAST_OPEN: u32 = 0x2000_0000;

/// `SO_REUSEPORT`: a port shared with a listener of the host would lead there, as if it were one's own.
const SHARED_PORT: &[u32] = &[15];

/// How the broker takes a copy of a caller's socket.
const TAKING: &str = "pidfd_getfd";

/// How the broker and the tracer read names from their callers.
const READING: &str = "process_vm_readv";

/// How the tracer follows them.
const FOLLOWING: &str = "ptrace";

/// Why calls are refused whose arguments decide, or that only some plans refuse.
pub(super) const REASONS: &[(&str, &str)] = &[
    ("clone", "New namespaces, in which a process has privileges"),
    ("unshare", "New namespaces, in which a process has privileges"),
    ("ioctl", "Typing into a terminal or taking it over; flags by which files are known otherwise; volumes"),
    ("personality", "Other conventions for programs, which weaken the layout of memory"),
    ("socket", "Sockets of a kind that leads past the network's own doors"),
    ("bind", "Names of sockets that the whole host knows"),
    ("socketpair", "Sockets of a kind that leads past the network's own doors"),
    ("memfd_create", "Code from memory, where only listed programs run"),
    ("shmget", SHARED),
    ("semget", SHARED),
    ("msgget", SHARED),
    ("mq_open", SHARED),
];

const SHARED: &str = "Memory, semaphores and queues of the host, which are shared without namespaces";

/// Calls that are told of, beside those that the broker performs.
const TOLD: &[&str] = &[
    "open",
    "openat",
    "creat",
    "stat",
    "lstat",
    "newfstatat",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "chdir",
    "execve",
    "execveat",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "truncate",
    "unlink",
    "unlinkat",
    "rmdir",
    "chmod",
    "fchmodat",
    "fchmodat2",
    "connect",
    "bind",
    "sendto",
    "sendmmsg",
];

/// How the broker resolves them; its arguments lie in memory, so that no other may use it.
const RESOLVING: &str = "openat2";

/// Which IP sockets can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inet {
    /// None: there is no network of one's own.
    Refused,
    /// Streams and datagrams, in a network namespace of one's own.
    Own,
    /// Streams that the broker connects, in the host's network.
    OnBehalf,
}

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
    /// Which IP sockets can be made.
    pub(crate) inet: Inet,
    /// Whether shared memory, semaphores and queues can be used: only in an ipc namespace of one's own.
    pub(crate) ipc: bool,
    /// Whether files in anonymous memory can be made.
    pub(crate) memory_files: bool,
    /// What the broker is asked about.
    pub(crate) watch: Watch,
    /// Whether it is asked about times too: some place is mounted to be changed and nothing may be written there.
    pub(crate) times: bool,
    /// Whether what is asked for is told to a tracer.
    pub(crate) trace: bool,
}

impl Filter {
    /// The program for `arch` under which everything stands: the command, and the broker if there is one.
    pub(crate) fn program(self, arch: Arch) -> Vec<Instruction> {
        let mut rules = Rules::new(arch);
        for refusal in REFUSED {
            let calls = refusal.calls.iter().filter(|call| !self.is_for_broker(call.name));
            calls.for_each(|call| rules.add_number(call.number(arch), self.refusal_of(refusal)));
        }
        self.look_at(&mut rules);
        rules.assemble(Action::Return(error(libc::ENOSYS)))
    }

    /// What the command alone stands under in addition, so that the broker is asked. Of two programs the
    /// stricter answer counts, so this one leaves out what the other refuses.
    pub(crate) fn watching(self, arch: Arch) -> Vec<Instruction> {
        self.inner(arch, self.trace)
    }

    /// The same for a command that was to be followed and cannot be: nobody is told, and nothing more is open.
    pub(crate) fn unfollowed(self, arch: Arch) -> Vec<Instruction> {
        self.inner(arch, false)
    }

    fn inner(self, arch: Arch, tells: bool) -> Vec<Instruction> {
        let voice = Self { trace: tells, ..self };
        let mut rules = Rules::new(arch);
        for refusal in REFUSED {
            let kept = refusal.calls.iter().filter(|call| self.is_for_broker(call.name));
            kept.for_each(|call| rules.add_number(call.number(arch), voice.refusal_of(refusal)));
        }
        rules.add(RESOLVING, Action::Return(error(libc::ENOSYS)));
        if self.watch != Watch::Off {
            voice.watch_names(&mut rules);
        }
        if self.inet == Inet::OnBehalf {
            CONNECTING.iter().for_each(|name| rules.add(name, Action::Return(NOTIFY)));
        }
        if tells {
            TOLD.iter().for_each(|name| rules.add_new(name, Action::Return(TRACE)));
        }
        // The broker reads names from the caller's memory, so callers stay readable; and it acts with the
        // rights of the launch, so that no caller may believe it has fewer.
        rules.add("prctl", none_of(0, SET_DUMPABLE, error(0)));
        rules.add("landlock_create_ruleset", Action::Return(error(libc::EOPNOTSUPP)));
        rules.assemble(Action::Return(ALLOW))
    }

    /// Calls about names that the broker is asked about.
    fn watch_names(self, rules: &mut Rules) {
        let ask = Action::Return(NOTIFY);
        for (name, flags) in OPENING {
            let (changing, otherwise) = (CHANGING | MAKING, NOTIFY);
            let reading = if self.trace { TRACE } else { ALLOW };
            rules.add(
                name,
                Action::Look(Check::Open { flags, mode: flags + 1, changing, otherwise, reading }),
            );
        }
        MAKING_NAMES.iter().chain(&NODES).for_each(|(name, _)| rules.add(name, ask));
        MOVING.iter().for_each(|name| rules.add(name, ask));
        MODES.iter().for_each(|(name, _)| rules.add(name, ask));
        if self.watch == Watch::MakingAndRemoving {
            REMOVING.iter().for_each(|name| rules.add(name, ask));
        }
        if self.times {
            TIMES.iter().for_each(|name| rules.add(name, ask));
            OWNERS.iter().for_each(|name| rules.add(name, Action::Return(error(libc::EPERM))));
        }
    }

    /// Whether the command stands under a program that others do not.
    pub(crate) fn has_watching(self) -> bool {
        self.is_watched() || self.trace
    }

    /// Whether there is a broker.
    pub(crate) fn is_watched(self) -> bool {
        self.watch != Watch::Off || self.inet == Inet::OnBehalf
    }

    /// Whether a call that is otherwise refused is one the broker or the tracer needs.
    fn is_for_broker(self, name: &str) -> bool {
        self.has_watching() && name == READING
            || self.trace && name == FOLLOWING
            || self.inet == Inet::OnBehalf && name == TAKING
    }

    /// What a call gets that is refused: where everything is told, the tracer answers, so that it knows of it.
    fn refusal(self, errno: i32) -> u32 {
        if self.trace { told(errno) } else { error(errno) }
    }

    fn refusal_of(self, refusal: &Refusal) -> Action {
        Action::Return(self.refusal(refusal.errno))
    }

    /// A look at arguments whose refusals are worth telling.
    fn look(self, check: Check) -> Action {
        if self.trace { Action::LookAndTell(check) } else { Action::Look(check) }
    }

    /// Calls whose arguments decide, or that only some plans refuse.
    fn look_at(self, rules: &mut Rules) {
        let gone = Action::Return(error(libc::ENOSYS));
        let bits = |argument, mask| Action::Look(Check::NoneOfBits { argument, mask });
        rules.add("clone", self.look(Check::NoneOfBits { argument: 0, mask: NAMESPACES }));
        rules.add("unshare", self.look(Check::NoneOfBits { argument: 0, mask: NAMESPACES | NEW_TIME }));
        rules
            .add("ioctl", self.look(Check::Device { tricks: DEVICE_TRICKS, owners: VOLUMES, open: SHARING }));
        rules.add("fcntl", none_of(1, LEASES, error(libc::EINVAL)));
        // On a directory a set-group-ID only says whose the files in it are; that it is one the broker sees.
        let kept_back = if self.watch == Watch::Off { SET_ID } else { SET_USER_ID };
        for (name, mode) in MODES {
            rules.add(name, bits(mode, kept_back));
        }
        // Only one's own limits: the keeper is a process of the same user.
        rules.add("prlimit64", Action::Look(Check::OneOf { argument: 0, values: &[0] }));
        rules.add("personality", self.look(Check::OneOf { argument: 0, values: PERSONALITIES }));
        rules.add("socket", self.look(Check::Socket { unix: self.unix, inet: self.inet }));
        if self.inet == Inet::Refused {
            // One of a pair could take a name that the whole host knows.
            rules.add("bind", Action::Return(self.refusal(libc::EPERM)));
        }
        if self.inet == Inet::OnBehalf {
            SENDING.iter().for_each(|(name, flags)| rules.add(name, bits(*flags, FAST_OPEN)));
            rules.add("setsockopt", none_of(2, SHARED_PORT, error(libc::ENOPROTOOPT)));
        }
        if !self.is_watched() {
            rules.add(RESOLVING, gone);
        }
        if !self.unix {
            rules.add("socketpair", self.look(Check::OneOf { argument: 1, values: PAIRS }));
        }
        if !self.ipc {
            let refused = Action::Return(self.refusal(libc::EPERM));
            IPC.iter().for_each(|name| rules.add(name, refused));
            // Without namespaces the processes of the host have numbers here, too.
            let only_self = Action::Look(Check::OneOf { argument: 0, values: &[0] });
            SCHEDULING.iter().for_each(|name| rules.add(name, only_self));
            for (name, values) in PRIORITIES {
                rules.add(name, Action::Look(Check::Exactly { values }));
            }
        }
        if !self.memory_files {
            rules.add("memfd_create", Action::Return(self.refusal(libc::ENOSYS)));
        }
        for (name, flags) in OPENING {
            let (otherwise, reading) = (ALLOW, ALLOW);
            let check = Check::Open { flags, mode: flags + 1, changing: MAKING, otherwise, reading };
            rules.add(name, Action::Look(check));
        }
        // The kernel itself takes such a mode from directories that are made.
        rules.add("creat", bits(1, SET_ID));
        for (name, mode) in NODES {
            rules.add(name, Action::Look(Check::Node { mode }));
        }
    }
}

/// What happens to which call, while it is being gathered.
struct Rules {
    arch: Arch,
    sheet: Sheet,
    numbers: Vec<(u32, u8)>,
}

impl Rules {
    fn new(arch: Arch) -> Self {
        Self { arch, sheet: Sheet::default(), numbers: Vec::with_capacity(160) }
    }

    fn add(&mut self, name: &str, action: Action) {
        self.add_number(table::number(name, self.arch), action);
    }

    /// Adds an action for a call that has none yet.
    fn add_new(&mut self, name: &str, action: Action) {
        let number = table::number(name, self.arch);
        if number.is_some_and(|number| self.numbers.iter().all(|(known, _)| *known != number)) {
            self.add_number(number, action);
        }
    }

    fn add_number(&mut self, number: Option<u32>, action: Action) {
        if let Some(number) = number {
            self.numbers.push((number, self.sheet.colour(action)));
        }
    }

    /// The program; numbers that the table does not know lead to `unknown`, all others are allowed.
    fn assemble(mut self, unknown: Action) -> Vec<Instruction> {
        self.numbers.sort_unstable();
        let allow = self.sheet.colour(Action::Return(ALLOW));
        self.sheet.mark(0, allow);
        for (number, colour) in self.numbers {
            self.sheet.mark(number, colour);
            self.sheet.mark(number + 1, allow);
        }
        let unknown = self.sheet.colour(unknown);
        self.sheet.mark(NEWEST + 1, unknown);
        let foreign_bit = match self.arch {
            Arch::X86_64 => Some(0x4000_0000),
            Arch::Aarch64 => None,
        };
        assemble::assemble(self.arch.audit(), foreign_bit, &self.sheet)
    }
}

fn none_of(argument: u32, values: &'static [u32], answer: u32) -> Action {
    Action::Look(refusing(argument, values, answer))
}

fn refusing(argument: u32, values: &'static [u32], answer: u32) -> Check {
    Check::NoneOf { argument, values, answer }
}
