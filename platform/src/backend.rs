//! The fences that exist and the promises they make, by name.
//!
//! Answers for the names. Which promise holds on this kernel is found out by [`crate::probe()`]; which ones are
//! needed is for the caller to say.
//! Invariant: a promise that was not seen to hold is not listed.

use std::fmt;

/// A way to build the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Own namespaces, Landlock and seccomp; needs no other program.
    Native,
    /// The same view built by bubblewrap; Landlock, seccomp and limits added inside.
    Bwrap,
    /// Landlock and seccomp only.
    Landlock,
    /// A Seatbelt profile, put in force by the system's own program.
    #[cfg(target_os = "macos")]
    Seatbelt,
}

impl Backend {
    /// All backends of this system, strongest first.
    #[cfg(target_os = "macos")]
    pub const ALL: [Self; 1] = [Self::Seatbelt];
    /// All backends of this system, strongest first.
    #[cfg(not(target_os = "macos"))]
    pub const ALL: [Self; 3] = [Self::Native, Self::Bwrap, Self::Landlock];

    /// The name users type.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
            #[cfg(target_os = "macos")]
            Self::Seatbelt => "seatbelt",
        }
    }

    /// The backend with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.name() == name)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

macro_rules! guarantees {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// One promise about a fenced process.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Guarantee { $($(#[doc = $doc])+ $variant,)+ }

        impl Guarantee {
            /// All promises.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name users type and read.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What is promised, in one sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

guarantees! {
    /// Files outside the view do not exist: no content, no names, no metadata.
    FsHidden = "fs-hidden",
    /// File content is readable only below places with the right to read.
    FsRead = "fs-read",
    /// Files change, and are made, only below places with the right to write.
    FsWrite = "fs-write",
    /// Nothing is unlinked or renamed away without the right to remove.
    FsDelete = "fs-delete",
    /// Permissions, owners, times and attributes change only below places that are writable.
    FsMetadata = "fs-metadata",
    /// Files are truncated only below places with the right to write.
    FsTruncate = "fs-truncate",
    /// Patterns open new names as they come; without it only files that match when a command starts.
    FsGlob = "fs-glob",
    /// Only listed files are executed, for all descendants.
    ExecOnly = "exec-only",
    /// No network but a private loopback and the doors of the plan.
    NetNone = "net-none",
    /// Connections leave only through whoever serves the doors, and are decided on by name.
    NetHosts = "net-hosts",
    /// Connections to every port come to the doors; without it only those to ports that were asked for.
    NetPorts = "net-ports",
    /// Names can be asked for by datagram; without it only by stream, which not every program does.
    NetNames = "net-names",
    /// What the command listens on is out of reach for other users of the host.
    NetListen = "net-listen",
    /// Processes of one launch can talk to each other over a loopback device of their own.
    Loopback = "loopback",
    /// Programs can make terminals for their own children.
    Terminals = "terminals",
    /// Processes outside are neither visible nor reachable.
    PidHidden = "pid-hidden",
    /// Processes outside cannot be signalled.
    Signals = "signals",
    /// Protected paths inside writable places stay as they are, whether they exist or not.
    ProtectedPaths = "protected-paths",
    /// Shared memory, message queues and semaphores of the host are out of reach.
    IpcHidden = "ipc-hidden",
    /// Sockets of the host, in the file system or abstract, are out of reach.
    SocketsHidden = "sockets-hidden",
    /// Temporary files and the home directory are private, sized and gone at the end.
    PrivateTmp = "private-tmp",
    /// Dangerous system calls, foreign call conventions and unknown numbers are refused.
    SyscallFilter = "syscall-filter",
    /// Memory is bounded for the whole tree; without it only for each process.
    MemoryLimit = "memory-limit",
    /// The number of processes is bounded.
    PidsLimit = "pids-limit",
    /// Everything ends with the command, the time limit or a signal to the launcher.
    Teardown = "teardown",
    /// Everything ends even when the launcher is killed without warning.
    TeardownKilled = "teardown-killed",
}

impl Guarantee {
    /// The promise with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|guarantee| guarantee.name() == name)
    }
}

impl Guarantee {
    /// Whether less is open without it, rather than more: nobody has to accept that.
    #[must_use]
    pub const fn only_opens(self) -> bool {
        matches!(self, Self::FsGlob)
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What one launch was really given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enforcement {
    /// Who built the fence.
    pub backend: Backend,
    /// The promises that held.
    pub given: Vec<Guarantee>,
    /// The Landlock level in force, 0 for none.
    pub landlock: u32,
}

impl Enforcement {
    /// Whether `guarantee` held.
    #[must_use]
    pub fn has(&self, guarantee: Guarantee) -> bool {
        self.given.contains(&guarantee)
    }

    /// The promises that did not hold.
    pub fn missing(&self) -> impl Iterator<Item = Guarantee> + '_ {
        Guarantee::ALL.iter().copied().filter(|guarantee| !self.has(*guarantee))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for guarantee in Guarantee::ALL {
            assert_eq!(Guarantee::from_name(guarantee.name()), Some(*guarantee));
        }
        for backend in Backend::ALL {
            assert_eq!(Backend::from_name(backend.name()), Some(backend));
        }
    }
}
