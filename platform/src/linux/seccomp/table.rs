//! System call numbers by name, for each architecture.
//!
//! Answers for the numbers and for the plain refusals with their reasons. Which calls are looked at more
//! closely, and how, is in [`super::policy`].
//! Invariant: a name absent on an architecture has no number there, so it cannot be matched by accident.

/// An architecture the filter can be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the system call filter knows x86-64 and 64-bit ARM only");

impl Arch {
    /// The architecture this was built for.
    pub(crate) const NATIVE: Self = if cfg!(target_arch = "x86_64") { Self::X86_64 } else { Self::Aarch64 };

    /// The number by which the kernel names the calling convention.
    pub(crate) const fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }
}

/// The newest system call looked at when this table was made; later ones do not exist inside.
pub(crate) const NEWEST: u32 = 469;

/// A call with its number on x86-64 and on 64-bit ARM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The name in the manual.
    pub(crate) name: &'static str,
    x86_64: Option<u32>,
    aarch64: Option<u32>,
}

impl Call {
    /// The number on `arch`, if the call exists there.
    pub(crate) const fn number(self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }
}

const fn call(name: &'static str, x86_64: u32, aarch64: u32) -> Call {
    Call { name, x86_64: Some(x86_64), aarch64: Some(aarch64) }
}

const fn x86_only(name: &'static str, number: u32) -> Call {
    Call { name, x86_64: Some(number), aarch64: None }
}

/// A group of calls refused whatever their arguments.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Why.
    pub(crate) why: &'static str,
    /// The error they answer with.
    pub(crate) errno: i32,
    /// Which.
    pub(crate) calls: &'static [Call],
}

/// Calls refused whatever their arguments.
pub(crate) const REFUSED: &[Refusal] = &[
    Refusal {
        why: "Other processes",
        errno: libc::EPERM,
        calls: &[
            call("ptrace", 101, 117),
            call("process_vm_readv", 310, 270),
            call("process_vm_writev", 311, 271),
            call("kcmp", 312, 272),
            call("pidfd_getfd", 438, 438),
            call("process_madvise", 440, 440),
            call("process_mrelease", 448, 448),
        ],
    },
    Refusal {
        why: "The kernel keyring, which namespaces do not isolate",
        errno: libc::EPERM,
        calls: &[call("add_key", 248, 217), call("request_key", 249, 218), call("keyctl", 250, 219)],
    },
    Refusal {
        why: "Large attack surface",
        errno: libc::EPERM,
        calls: &[
            call("bpf", 321, 280),
            call("perf_event_open", 298, 241),
            call("userfaultfd", 323, 282),
            call("fanotify_init", 300, 262),
        ],
    },
    Refusal {
        why: "Files by handle, past every mount",
        errno: libc::EPERM,
        calls: &[call("open_by_handle_at", 304, 265), call("name_to_handle_at", 303, 264)],
    },
    Refusal {
        why: "The shape of the file tree",
        errno: libc::EPERM,
        calls: &[
            call("setns", 308, 268),
            call("mount", 165, 40),
            call("umount2", 166, 39),
            call("pivot_root", 155, 41),
            call("chroot", 161, 51),
        ],
    },
    Refusal {
        why: "Administration of the machine",
        errno: libc::EPERM,
        calls: &[
            call("syslog", 103, 116),
            call("acct", 163, 89),
            call("quotactl", 179, 60),
            call("quotactl_fd", 443, 443),
            call("swapon", 167, 224),
            call("swapoff", 168, 225),
            call("reboot", 169, 142),
            call("sethostname", 170, 161),
            call("setdomainname", 171, 162),
            x86_only("iopl", 172),
            x86_only("ioperm", 173),
            x86_only("create_module", 174),
            call("init_module", 175, 105),
            call("finit_module", 313, 273),
            call("delete_module", 176, 106),
            call("kexec_load", 246, 104),
            call("kexec_file_load", 320, 294),
            call("settimeofday", 164, 170),
            call("clock_settime", 227, 112),
            call("vhangup", 153, 58),
            call("nfsservctl", 180, 42),
            x86_only("uselib", 134),
            x86_only("_sysctl", 156),
            call("lookup_dcookie", 212, 18),
            x86_only("modify_ldt", 154),
        ],
    },
    Refusal {
        why: "Memory placement",
        errno: libc::EPERM,
        calls: &[
            call("mbind", 237, 235),
            call("set_mempolicy", 238, 237),
            call("get_mempolicy", 239, 236),
            call("migrate_pages", 256, 238),
            call("move_pages", 279, 239),
            call("set_mempolicy_home_node", 450, 450),
        ],
    },
    Refusal { why: "Security labels", errno: libc::EPERM, calls: &[call("lsm_set_self_attr", 460, 460)] },
    Refusal {
        why: "Flags behind a pointer, where a filter cannot look; libraries fall back",
        errno: libc::ENOSYS,
        calls: &[call("clone3", 435, 435)],
    },
    Refusal {
        why: "Calls made by a ring are not filtered",
        errno: libc::ENOSYS,
        calls: &[
            call("io_uring_setup", 425, 425),
            call("io_uring_enter", 426, 426),
            call("io_uring_register", 427, 427),
        ],
    },
    Refusal {
        why: "The new mount interface",
        errno: libc::ENOSYS,
        calls: &[
            call("open_tree", 428, 428),
            call("move_mount", 429, 429),
            call("fsopen", 430, 430),
            call("fsconfig", 431, 431),
            call("fsmount", 432, 432),
            call("fspick", 433, 433),
            call("mount_setattr", 442, 442),
            call("open_tree_attr", 467, 467),
        ],
    },
    Refusal {
        why: "Attributes: an access list among them is a mode by another name",
        errno: libc::EOPNOTSUPP,
        calls: &[
            call("setxattr", 188, 5),
            call("lsetxattr", 189, 6),
            call("fsetxattr", 190, 7),
            call("removexattr", 197, 14),
            call("lremovexattr", 198, 15),
            call("fremovexattr", 199, 16),
            call("setxattrat", 463, 463),
            call("removexattrat", 466, 466),
        ],
    },
    Refusal {
        why: "Memory hidden from the kernel; attributes behind a pointer",
        errno: libc::ENOSYS,
        calls: &[call("memfd_secret", 447, 447), call("file_setattr", 469, 469)],
    },
];

/// Calls whose arguments decide, that only some plans refuse, or that are told of.
pub(crate) const CHECKED: &[Call] = &[
    call("openat2", 437, 437),
    call("memfd_create", 319, 279),
    call("clone", 56, 220),
    call("unshare", 272, 97),
    call("ioctl", 16, 29),
    call("fcntl", 72, 25),
    call("setpriority", 141, 140),
    call("ioprio_set", 251, 30),
    call("sched_setparam", 142, 118),
    call("sched_setscheduler", 144, 119),
    call("sched_setaffinity", 203, 122),
    call("sched_setattr", 314, 274),
    x86_only("chmod", 90),
    call("fchmod", 91, 52),
    call("fchmodat", 268, 53),
    call("fchmodat2", 452, 452),
    x86_only("creat", 85),
    x86_only("mkdir", 83),
    call("mkdirat", 258, 34),
    x86_only("open", 2),
    call("openat", 257, 56),
    x86_only("mknod", 133),
    call("mknodat", 259, 33),
    call("personality", 135, 92),
    call("prlimit64", 302, 261),
    call("socket", 41, 198),
    call("socketpair", 53, 199),
    call("connect", 42, 203),
    call("bind", 49, 200),
    call("listen", 50, 201),
    call("setsockopt", 54, 208),
    call("sendto", 44, 206),
    call("sendmsg", 46, 211),
    call("sendmmsg", 307, 269),
    call("prctl", 157, 167),
    x86_only("rename", 82),
    call("renameat", 264, 38),
    call("renameat2", 316, 276),
    x86_only("link", 86),
    call("linkat", 265, 37),
    x86_only("symlink", 88),
    call("symlinkat", 266, 36),
    call("truncate", 76, 45),
    x86_only("utime", 132),
    x86_only("utimes", 235),
    x86_only("futimesat", 261),
    call("utimensat", 280, 88),
    x86_only("chown", 92),
    call("fchown", 93, 55),
    x86_only("lchown", 94),
    call("fchownat", 260, 54),
    call("umask", 95, 166),
    call("shmget", 29, 194),
    call("shmat", 30, 196),
    call("shmctl", 31, 195),
    call("semget", 64, 190),
    call("semop", 65, 193),
    call("semtimedop", 220, 192),
    call("semctl", 66, 191),
    call("msgget", 68, 186),
    call("msgsnd", 69, 189),
    call("msgrcv", 70, 188),
    call("msgctl", 71, 187),
    call("mq_open", 240, 180),
    x86_only("unlink", 87),
    call("unlinkat", 263, 35),
    x86_only("rmdir", 84),
    call("landlock_create_ruleset", 444, 444),
    x86_only("stat", 4),
    x86_only("lstat", 6),
    x86_only("access", 21),
    x86_only("readlink", 89),
    call("chdir", 80, 49),
    call("newfstatat", 262, 79),
    call("statx", 332, 291),
    call("faccessat", 269, 48),
    call("faccessat2", 439, 439),
    call("readlinkat", 267, 78),
    call("execve", 59, 221),
    call("execveat", 322, 281),
];

/// Every call with a name.
fn all() -> impl Iterator<Item = &'static Call> {
    CHECKED.iter().chain(REFUSED.iter().flat_map(|refusal| refusal.calls))
}

/// The number of a call.
pub(crate) fn number(name: &str, arch: Arch) -> Option<u32> {
    all().find(|call| call.name == name)?.number(arch)
}

/// The name of a call.
pub(crate) fn name_of(number: u32, arch: Arch) -> Option<&'static str> {
    all().find(|call| call.number(arch) == Some(number)).map(|call| call.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! numbers {
        ($($name:ident)+) => { &[$((stringify!($name), libc::$name)),+] };
    }

    /// What the C library calls them, on both architectures.
    const EVERYWHERE: &[(&str, libc::c_long)] = numbers! {
        SYS_acct SYS_add_key SYS_bind SYS_bpf SYS_chdir SYS_chroot SYS_clock_settime SYS_clone
        SYS_clone3 SYS_connect SYS_delete_module SYS_execve SYS_execveat SYS_faccessat
        SYS_faccessat2 SYS_fanotify_init SYS_fchmod SYS_fchmodat SYS_fcntl SYS_finit_module
        SYS_fremovexattr SYS_fsconfig SYS_fsetxattr SYS_fsmount SYS_fsopen SYS_fspick
        SYS_get_mempolicy SYS_init_module SYS_io_uring_enter SYS_io_uring_register
        SYS_io_uring_setup SYS_ioctl SYS_ioprio_set SYS_kcmp SYS_kexec_load SYS_keyctl
        SYS_landlock_create_ruleset SYS_linkat SYS_listen SYS_lookup_dcookie SYS_lremovexattr
        SYS_lsetxattr SYS_mbind SYS_memfd_create SYS_memfd_secret SYS_migrate_pages SYS_mkdirat
        SYS_mknodat SYS_mount SYS_mount_setattr SYS_move_mount SYS_move_pages SYS_mq_open
        SYS_msgctl SYS_msgget SYS_msgrcv SYS_msgsnd SYS_name_to_handle_at SYS_newfstatat
        SYS_nfsservctl SYS_open_by_handle_at SYS_open_tree SYS_openat SYS_openat2
        SYS_perf_event_open SYS_personality SYS_pidfd_getfd SYS_pivot_root SYS_prctl
        SYS_prlimit64 SYS_process_madvise SYS_process_mrelease SYS_process_vm_readv
        SYS_process_vm_writev SYS_ptrace SYS_quotactl SYS_quotactl_fd SYS_readlinkat SYS_reboot
        SYS_removexattr SYS_renameat2 SYS_request_key SYS_sched_setaffinity SYS_sched_setattr
        SYS_sched_setparam SYS_sched_setscheduler SYS_semctl SYS_semget SYS_semop SYS_semtimedop
        SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_set_mempolicy SYS_set_mempolicy_home_node
        SYS_setdomainname SYS_sethostname SYS_setns SYS_setpriority SYS_setsockopt
        SYS_settimeofday SYS_setxattr SYS_shmat SYS_shmctl SYS_shmget SYS_socket SYS_socketpair
        SYS_statx SYS_swapoff SYS_swapon SYS_symlinkat SYS_syslog SYS_truncate SYS_umask
        SYS_umount2 SYS_unlinkat SYS_unshare SYS_userfaultfd SYS_utimensat SYS_vhangup
        SYS_fchown SYS_fchownat
    };

    /// What it knows on this one besides.
    #[cfg(target_arch = "x86_64")]
    const HERE: &[(&str, libc::c_long)] = numbers! {
        SYS__sysctl SYS_access SYS_chmod SYS_creat SYS_fchmodat2 SYS_futimesat SYS_ioperm SYS_iopl
        SYS_kexec_file_load SYS_link SYS_lstat SYS_mkdir SYS_mknod SYS_modify_ldt SYS_open
        SYS_readlink SYS_rename SYS_renameat SYS_rmdir SYS_stat SYS_symlink SYS_unlink
        SYS_uselib SYS_utime SYS_utimes SYS_chown SYS_lchown
    };
    #[cfg(target_arch = "aarch64")]
    const HERE: &[(&str, libc::c_long)] = &[];

    /// What it does not know everywhere, being too old or too new.
    const UNKNOWN: &[&str] = &[
        "create_module",
        "fchmodat2",
        "file_setattr",
        "kexec_file_load",
        "lsm_set_self_attr",
        "open_tree_attr",
        "removexattrat",
        "renameat",
        "setxattrat",
    ];

    /// The first number that means the same call on every architecture.
    const SHARED: u32 = 424;

    #[test]
    fn every_number_is_the_c_librarys() {
        let mut compared = 0;
        for call in all() {
            let known =
                EVERYWHERE.iter().chain(HERE).find(|(name, _)| name.strip_prefix("SYS_") == Some(call.name));
            match (call.number(Arch::NATIVE), known) {
                (Some(own), Some((name, number))) => assert_eq!(i64::from(own), *number, "{name}"),
                (Some(_), None) => {
                    assert!(UNKNOWN.contains(&call.name), "{} is compared with nothing", call.name)
                }
                (None, known) => assert_eq!(known, None, "{} has a number here", call.name),
            }
            compared += usize::from(known.is_some());
        }
        // Each once, so that none is compared in vain.
        assert_eq!(compared, EVERYWHERE.len() + HERE.len());
    }

    #[test]
    fn new_calls_have_one_number_on_both_architectures() {
        for call in all() {
            let (one, other) = (call.number(Arch::X86_64), call.number(Arch::Aarch64));
            if one.max(other) >= Some(SHARED) {
                assert_eq!(one, other, "{}", call.name);
            }
        }
    }

    #[test]
    fn every_refusal_says_why_and_no_number_is_newer_than_the_table() {
        for refusal in REFUSED {
            assert!(!refusal.why.is_empty());
            for call in refusal.calls {
                assert!(call.number(Arch::X86_64).is_none_or(|number| number <= NEWEST), "{}", call.name);
                assert!(call.number(Arch::Aarch64).is_none_or(|number| number <= NEWEST), "{}", call.name);
            }
        }
    }
}
