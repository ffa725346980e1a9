//! A launch as plain data: what is seen, what may be done, what runs, how long and how much.
//!
//! Answers for the vocabulary between whoever decides and whoever enforces. It leaves every decision to
//! the caller and every system call to the backends.
//! Invariant: paths are absolute, without `.`, `..` or patterns; a plan never means more than it lists.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::ops::BitOr;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Guarantee;

/// What the machine is called inside, where it has a name of its own there.
pub const HOSTNAME: &str = "sbx";

/// Everything a backend needs to run one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How the file tree inside is put together, applied in order to an empty root.
    pub mounts: Vec<MountOp>,
    /// What may be done below which path, as seen inside. Rights add up from a path to its ancestors.
    pub rights: Vec<Place>,
    /// Paths that stay as they are even inside a writable place: existing ones cannot be changed, absent
    /// ones cannot be made. Each stands for itself and all below it.
    pub protect: Vec<PathBuf>,
    /// Names that stay as they are wherever they stand in a writable place.
    pub protect_names: Arc<Vec<ProtectedName>>,
    /// The file to execute, as seen inside.
    pub program: PathBuf,
    /// The argument vector, the first being the name the program sees for itself.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, as seen inside.
    pub cwd: PathBuf,
    /// What descriptors 0, 1 and 2 are.
    pub stdio: Stdio,
    /// Further descriptors to hand over, under the same numbers.
    pub pass_fds: Vec<RawFd>,
    /// What of a network there is.
    pub network: Network,
    /// Which files can be executed.
    pub exec: Exec,
    /// Whether new UNIX sockets can be made inside.
    pub unix_sockets: UnixSockets,
    /// Bounds on time, memory, processes and output.
    pub limits: Limits,
    /// The host name seen inside.
    pub hostname: String,
    /// The user and group seen inside.
    pub identity: Identity,
    /// Promises without which the command must not run.
    pub required: Vec<Guarantee>,
    /// Whether refused changes are told as they happen, to whoever started the launch in a process of its own.
    pub tells: bool,
    /// Whether to tell afterwards which files were asked for, at some cost.
    pub trace: bool,
    /// Nothing can watch over protected paths here: what stands is laid over, and nothing else is kept.
    pub unwatched: bool,
    /// Some places are only the files that matched when the plan was made.
    pub narrowed: bool,
}

impl Plan {
    /// An empty view, no rights, and `program` with `argv` to run in `/`.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, argv: Vec<OsString>) -> Self {
        Self {
            mounts: Vec::new(),
            rights: Vec::new(),
            protect: Vec::new(),
            protect_names: Arc::default(),
            program: program.into(),
            argv,
            env: Vec::new(),
            cwd: PathBuf::from("/"),
            stdio: Stdio::Inherit,
            pass_fds: Vec::new(),
            network: Network::None,
            exec: Exec::Open,
            unix_sockets: UnixSockets::PairsOnly,
            limits: Limits::default(),
            hostname: String::from(HOSTNAME),
            identity: Identity::Same,
            required: Vec::new(),
            tells: false,
            trace: false,
            unwatched: false,
            narrowed: false,
        }
    }
}

impl Plan {
    /// Whether changes of some place are kept apart.
    #[must_use]
    pub fn copies(&self) -> bool {
        self.mounts.iter().any(|op| matches!(op, MountOp::Bind { access: Access::Copied, .. }))
    }
}

/// A name, or several in a row, that stays as it is wherever it stands in a writable place.
///
/// A name of one part is the launch's own in a directory that the launch made itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedName {
    /// Consecutive parts of a path; `*` is any one, `**` one or more.
    pub components: Vec<Cow<'static, OsStr>>,
    /// Paths of this name that may be made and written after all, each with all below it.
    pub may_make: Vec<PathBuf>,
    /// Paths of this name that may be removed after all, each with all below it.
    pub may_take: Vec<PathBuf>,
    /// What may be made under the name, when the directory it stands in was made by the launch itself.
    pub inside_new: InsideNew,
}

/// What may be made under a protected name in a directory that is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsideNew {
    /// Nothing.
    Nothing,
    /// Anything.
    Anything,
    /// Directories, and files whose names end so.
    Ending(OsString),
    /// A file of settings, put in place by renaming, in which only these keys occur (`section.key`; a `*` stands
    /// for a subsection or any key).
    Settings(Arc<[Cow<'static, str>]>),
}

/// One step in putting the file tree together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountOp {
    /// Shows `source` of the host (with everything mounted below it) at `dest`.
    Bind {
        /// A path on the host, free of symbolic links.
        source: PathBuf,
        /// Where it appears inside.
        dest: PathBuf,
        /// Whether anything below can be changed.
        access: Access,
        /// Whether files below can be executed or mapped as code.
        code: Code,
    },
    /// An empty private directory in memory.
    Tmpfs {
        /// Where it appears inside.
        dest: PathBuf,
        /// The most bytes it holds; where none is named it shares [`Limits::scratch`] with all others of its kind.
        size: Option<u64>,
        /// Permission bits of its root.
        mode: u32,
        /// Whether files below can be executed or mapped as code.
        code: Code,
    },
    /// An empty directory that is part of the read-only root.
    Dir {
        /// Where it appears inside.
        dest: PathBuf,
    },
    /// A symbolic link that is part of the read-only root.
    Symlink {
        /// What the link says.
        target: PathBuf,
        /// Where it appears inside.
        dest: PathBuf,
    },
    /// A small file that is part of the read-only root.
    File {
        /// Where it appears inside.
        dest: PathBuf,
        /// Its content.
        data: Vec<u8>,
    },
    /// A process list of this launch only.
    Proc {
        /// Where it appears inside, usually `/proc`.
        dest: PathBuf,
    },
    /// null, zero, full, random, urandom, private terminals and shared memory.
    Dev {
        /// Where it appears inside, usually `/dev`.
        dest: PathBuf,
    },
}

impl MountOp {
    /// Where it appears inside.
    #[must_use]
    pub fn dest(&self) -> &Path {
        match self {
            Self::Bind { dest, .. }
            | Self::Tmpfs { dest, .. }
            | Self::Dir { dest }
            | Self::Symlink { dest, .. }
            | Self::File { dest, .. }
            | Self::Proc { dest }
            | Self::Dev { dest } => dest,
        }
    }
}

/// Whether a bound place can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing below can be changed, metadata included.
    ReadOnly,
    /// What [`Plan::rights`] says can be changed.
    ReadWrite,
    /// The same, but changes are kept apart in memory and are gone at the end; the host's files stay as they are.
    /// What is mounted below is not shown. The native backend only.
    Copied,
}

/// Whether a place may hold code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Files can be executed where [`Plan::rights`] says so.
    Allowed,
    /// Nothing below can be executed or mapped executable.
    Refused,
}

/// Rights on a path and all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path, as seen inside.
    pub path: PathBuf,
    /// What may be done there.
    pub rights: Rights,
}

/// A set of file rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// List directories.
    pub const LIST: Self = Self(1);
    /// Read the content of files.
    pub const READ: Self = Self(1 << 1);
    /// Write to, truncate and make files, directories and links, and move them between directories.
    pub const WRITE: Self = Self(1 << 2);
    /// Unlink files and directories, which includes renaming them away or over one another.
    pub const REMOVE: Self = Self(1 << 3);
    /// Execute files.
    pub const EXECUTE: Self = Self(1 << 4);
    /// Write to existing files only: devices and `/proc`.
    pub const MODIFY: Self = Self(1 << 5);
    /// Device control calls: terminals.
    pub const CONTROL: Self = Self(1 << 6);

    /// Whether all of `other` is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set as a number, for storing it.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set for a number; unknown bits are dropped.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0x7f)
    }
}

impl BitOr for Rights {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What descriptors 0, 1 and 2 of the command are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// The launcher's own: pipes and pairs of sockets are handed in, everything else is relayed through pipes;
    /// output and errors that lead to one place through one, so that they keep their order. With an output limit
    /// everything the command writes is relayed, so that it can be counted.
    Inherit,
    /// Standard input is empty, output and errors are collected into the outcome.
    Capture,
    /// A private terminal, relayed to the launcher's own.
    Pty,
}

/// What one descriptor of a command that is started and left running is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// A new pipe, the other end being with whoever started it.
    New,
    /// The parent's own descriptor, handed in or relayed as the plan says.
    Inherit,
}

/// What of a network there is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// A network of its own with nothing but a loopback device.
    None,
    /// A network of its own whose only ways out are the [`crate::door::Doors`].
    Gateway(Gateway),
}

/// What is to come out of a fenced network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gateway {
    /// Ports that may be asked for; they get listeners where connections cannot be redirected.
    pub ports: Vec<u16>,
    /// Ports of the command that are to be reached from outside.
    pub published: Vec<u16>,
    /// Loopback addresses that lead to [`crate::door::Doors::streams`] although they are local inside:
    /// services of the host that may be asked for. Each gets a listener of its own inside.
    pub services: Vec<SocketAddr>,
    /// The port of 127.0.0.1 inside that leads to [`crate::door::Doors::proxy`].
    pub proxy: Option<u16>,
}

/// Which files can be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exec {
    /// Every file below a place with [`Rights::EXECUTE`].
    Open,
    /// As `Open`, and no code can come from anonymous memory files either. The caller lists single files in
    /// [`Plan::rights`], shows only what they need and refuses code in writable places.
    Listed,
}

/// Whether new UNIX sockets can be made inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnixSockets {
    /// Connected pairs only, so that no socket in a visible place can be reached.
    PairsOnly,
    /// Any, within what is visible.
    Allowed,
}

/// Bounds; `None` means that the launcher's own limit stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time from launch to end.
    pub wall: Option<Duration>,
    /// Processor seconds of one process.
    pub cpu: Option<Duration>,
    /// Bytes of memory, for the whole tree where a control group is to be had, else for each process.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Open descriptors of one process.
    pub open_files: Option<u64>,
    /// Bytes of one file.
    pub file_size: Option<u64>,
    /// Bytes written to standard output and standard error together.
    pub output: Option<u64>,
    /// Bytes in private directories, `/dev/shm` among them: of all together behind native, of each elsewhere.
    pub scratch: Option<u64>,
}

/// The user and group seen inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The launcher's own numbers, but 1000 where those are 0.
    Same,
    /// These numbers, standing for the launcher's own.
    Mapped {
        /// User number inside.
        uid: u32,
        /// Group number inside.
        gid: u32,
    },
}
