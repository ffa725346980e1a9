//! The system call filter.
//!
//! Answers for installing a program and for the line on which the kernel asks about watched calls. It leaves
//! the list to [`policy`].
//! Invariant: a filter is only ever added, in a process that has forbidden itself new privileges.

mod assemble;
mod policy;
mod table;

use std::io;
use std::os::fd::OwnedFd;

use libc::c_ulong;

pub(crate) use assemble::Instruction;
pub(crate) use policy::{Filter, Inet, Watch};
pub(crate) use table::{Arch, name_of, number};

use crate::linux::sys::{check, fd};

/// Every call that is refused, whatever its arguments or for some of them, with the reason.
pub(crate) fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    let always =
        table::REFUSED.iter().flat_map(|refusal| refusal.calls.iter().map(|call| (call.name, refusal.why)));
    always.chain(policy::REASONS.iter().copied())
}

#[repr(C)]
struct Program {
    length: u16,
    first: *const Instruction,
}

const SET_MODE_FILTER: c_ulong = 1;

fn install_with(program: &[Instruction], flags: c_ulong) -> io::Result<libc::c_long> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    let program = Program { length, first: program.as_ptr() };
    // SAFETY: `program` describes a live slice of instructions laid out as the kernel reads them.
    check(unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const program) })
}

/// Puts this process and its descendants under `program`.
pub(crate) fn install(program: &[Instruction]) -> io::Result<()> {
    install_with(program, 0).map(drop)
}

/// As [`install`], and opens the line on which watched calls arrive.
pub(crate) fn install_watched(program: &[Instruction]) -> io::Result<OwnedFd> {
    const NEW_LISTENER: c_ulong = 1 << 3;
    const WAIT_KILLABLE: c_ulong = 1 << 5;
    match install_with(program, NEW_LISTENER | WAIT_KILLABLE) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            fd::own(install_with(program, NEW_LISTENER)?)
        }
        other => fd::own(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller's view of one system call.
    struct Seen {
        arch: u32,
        number: u32,
        arguments: [u64; 6],
    }

    fn word(seen: &Seen, offset: u32) -> u32 {
        match offset {
            0 => seen.number,
            4 => seen.arch,
            _ => {
                let argument = seen.arguments[usize::try_from((offset - 16) / 8).unwrap()];
                u32::try_from(argument & 0xffff_ffff).unwrap()
            }
        }
    }

    /// Runs a program as the kernel would; every jump is forward, so it ends.
    fn run(program: &[Instruction], seen: &Seen) -> u32 {
        let (mut at, mut value) = (0_usize, 0_u32);
        loop {
            let (code, yes, no, k) = assemble_parts(program[at]);
            at += 1;
            let jump = |hit: bool| usize::from(if hit { yes } else { no });
            match code {
                0x20 => value = word(seen, k),
                0x15 => at += jump(value == k),
                0x35 => at += jump(value >= k),
                0x45 => at += jump(value & k != 0),
                0x05 => at += usize::try_from(k).unwrap(),
                0x54 => value &= k,
                0x06 => return k,
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    fn assemble_parts(instruction: Instruction) -> (u16, u8, u8, u32) {
        // SAFETY: both types are eight bytes of plain integers in C layout.
        let bytes: [u8; 8] = unsafe { std::mem::transmute(instruction) };
        let code = u16::from_ne_bytes([bytes[0], bytes[1]]);
        (code, bytes[2], bytes[3], u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]))
    }

    const CLOSED: Filter = Filter {
        unix: false,
        inet: Inet::Own,
        ipc: true,
        memory_files: false,
        watch: Watch::Off,
        times: false,
        trace: false,
    };
    const ALLOW: u32 = 0x7fff_0000;
    const NOTIFY: u32 = 0x7fc0_0000;
    const TRACED: u32 = 0x7ff0_0000;

    fn ask(filter: Filter, arch: Arch, number: u32, arguments: &[u64]) -> u32 {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let seen = Seen { arch: arch.audit(), number, arguments: all };
        let first = run(&filter.program(arch), &seen);
        if !filter.has_watching() {
            return first;
        }
        stricter(run(&filter.watching(arch), &seen), first)
    }

    /// Of two answers the one the kernel takes: the newer program's, unless the older one's is stricter.
    fn stricter(newer: u32, older: u32) -> u32 {
        let action = |answer: u32| (answer & 0xffff_0000).cast_signed();
        if action(older) < action(newer) { older } else { newer }
    }

    fn refused(errno: i32) -> u32 {
        0x0005_0000 | u32::try_from(errno).unwrap()
    }

    /// The tracer answers with this error.
    fn told(errno: i32) -> u32 {
        TRACED | u32::try_from(errno).unwrap()
    }

    #[test]
    fn every_listed_call_is_refused_on_both_architectures() {
        for (arch, watch) in [Arch::X86_64, Arch::Aarch64]
            .into_iter()
            .flat_map(|arch| [Watch::Off, Watch::Making, Watch::MakingAndRemoving].map(|watch| (arch, watch)))
        {
            for refusal in table::REFUSED {
                for call in refusal.calls {
                    let Some(number) = call.number(arch) else { continue };
                    for trace in [false, true] {
                        let answer = ask(Filter { watch, trace, ..CLOSED }, arch, number, &[]);
                        let wanted = if trace { told(refusal.errno) } else { refused(refusal.errno) };
                        assert_eq!(answer, wanted, "{} {watch:?}", call.name);
                    }
                }
            }
        }
    }

    #[test]
    fn foreign_conventions_and_unknown_numbers_do_not_exist() {
        let program = CLOSED.program(Arch::X86_64);
        let seen = |arch, number| Seen { arch, number, arguments: [0; 6] };
        assert_eq!(run(&program, &seen(0x4000_0003, 0)), 0x8000_0000);
        assert_eq!(ask(CLOSED, Arch::X86_64, 39 | 0x4000_0000, &[]), refused(libc::ENOSYS));
        assert_eq!(ask(CLOSED, Arch::X86_64, 470, &[]), refused(libc::ENOSYS));
        assert_eq!(ask(CLOSED, Arch::X86_64, 39, &[]), ALLOW);
    }

    #[test]
    fn garbage_in_the_high_half_changes_nothing() {
        let unshare = 272;
        assert_eq!(ask(CLOSED, Arch::X86_64, unshare, &[0x1000_0000 | 0xdead << 32]), refused(libc::EPERM));
        assert_eq!(ask(CLOSED, Arch::X86_64, 41, &[1 | 7 << 32, 1, 0]), refused(libc::EPERM));
    }

    #[test]
    fn sockets_are_ip_streams_and_datagrams_only() {
        let socket = |family, kind, protocol| ask(CLOSED, Arch::X86_64, 41, &[family, kind, protocol]);
        assert_eq!(socket(2, 1 | 0x80000, 0), ALLOW);
        assert_eq!(socket(10, 2, 17), ALLOW);
        assert_eq!(socket(2, 3, 1), refused(libc::EPERM));
        assert_eq!(socket(2, 1, 262), refused(libc::EPROTONOSUPPORT));
        assert_eq!(socket(16, 3, 0), ALLOW);
        assert_eq!(socket(16, 3, 9), refused(libc::EAFNOSUPPORT));
        for family in [17, 38, 40, 31, 29, 15, 44] {
            assert_eq!(socket(family, 1, 0), refused(libc::EAFNOSUPPORT), "family {family}");
        }
        let shut = Filter { inet: Inet::Refused, ..CLOSED };
        assert_eq!(ask(shut, Arch::X86_64, 41, &[2, 1, 0]), refused(libc::EPERM));
    }

    #[test]
    fn on_behalf_there_are_only_streams_and_the_broker_connects_them() {
        let behalf = Filter { inet: Inet::OnBehalf, ..CLOSED };
        let ask = |number, arguments: &[u64]| ask(behalf, Arch::X86_64, number, arguments);
        for family in [2, 10] {
            assert_eq!(ask(41, &[family, 1 | 0x80800, 0]), ALLOW);
            assert_eq!(ask(41, &[family, 1, 6]), ALLOW);
            assert_eq!(ask(41, &[family, 2, 0]), refused(libc::EPERM));
            assert_eq!(ask(41, &[family, 2, 17]), refused(libc::EPERM));
            assert_eq!(ask(41, &[family, 3, 6]), refused(libc::EPERM));
            for protocol in [17, 132, 256, 262] {
                assert_eq!(ask(41, &[family, 1, protocol]), refused(libc::EPROTONOSUPPORT));
            }
        }
        for family in [15, 16, 17, 29, 31, 38, 40, 43, 44] {
            assert_eq!(ask(41, &[family, 3, 0]), refused(libc::EAFNOSUPPORT), "family {family}");
        }
        for number in [42, 49, 50] {
            assert_eq!(ask(number, &[]), NOTIFY, "call {number}");
        }
        for (number, flags) in [(44, 3), (46, 2), (307, 3)] {
            let mut arguments = [0; 6];
            assert_eq!(ask(number, &arguments), ALLOW);
            arguments[flags] = 0x2000_4000 | 7 << 32;
            assert_eq!(ask(number, &arguments), refused(libc::EPERM), "call {number}");
        }
        assert_eq!(ask(54, &[0, 1, 15]), refused(libc::ENOPROTOOPT));
        assert_eq!(ask(54, &[0, 1, 2]), ALLOW);
        assert_eq!(ask(438, &[]), refused(libc::EPERM));
        assert_eq!(ask(310, &[]), refused(libc::EPERM));
        assert_eq!(ask(257, &[0, 0, 0o101, 0o644]), ALLOW);
    }

    #[test]
    fn volumes_are_nobodys_and_sharing_content_is_everybodys() {
        let ioctl = |number| ask(CLOSED, Arch::X86_64, 16, &[3, number]);
        for number in [0x5412, 0x4018_6f04, 0x5000_940e, 0x5000_9401, 0x5000_9417, 0x4010_bc10, 0xc018_9437] {
            assert_eq!(ioctl(number), refused(libc::EPERM), "{number:#x}");
        }
        for number in [0x4004_9409, 0x4020_940d, 0xc018_9436, 0x5401, 0x5413, 0x8004_6601, 0x94, 0xbc] {
            assert_eq!(ioctl(number), ALLOW, "{number:#x}");
        }
    }

    #[test]
    fn where_there_is_no_network_of_ones_own_no_socket_gets_a_name() {
        assert_eq!(ask(CLOSED, Arch::X86_64, 49, &[3]), ALLOW);
        let shut = Filter { inet: Inet::Refused, ..CLOSED };
        assert_eq!(ask(shut, Arch::X86_64, 49, &[3]), refused(libc::EPERM));
    }

    #[test]
    fn pairs_stay_pairs() {
        let pair = |filter, kind| ask(filter, Arch::X86_64, 53, &[1, kind, 0]);
        for flags in [0, 0x80000, 0x800, 0x80800] {
            assert_eq!(pair(CLOSED, 1 | flags), ALLOW);
            assert_eq!(pair(CLOSED, 5 | flags), ALLOW);
            assert_eq!(pair(CLOSED, 2 | flags), refused(libc::EPERM));
            assert_eq!(pair(Filter { unix: true, ..CLOSED }, 2 | flags), ALLOW);
        }
    }

    #[test]
    fn set_id_modes_and_devices_are_not_made() {
        let openat = |flags, mode| ask(CLOSED, Arch::X86_64, 257, &[0, 0, flags, mode]);
        assert_eq!(openat(0o101, 0o4755), refused(libc::EPERM));
        assert_eq!(openat(0o1, 0o4755), ALLOW);
        assert_eq!(openat(0o101, 0o755), ALLOW);
        assert_eq!(ask(CLOSED, Arch::X86_64, 133, &[0, 0x2000, 0]), refused(libc::EPERM));
        assert_eq!(ask(CLOSED, Arch::X86_64, 133, &[0, 0x1000, 0]), ALLOW);
        assert_eq!(ask(CLOSED, Arch::X86_64, 90, &[0, 0o2755]), refused(libc::EPERM));
        let watched = Filter { watch: Watch::Making, ..CLOSED };
        assert_eq!(ask(watched, Arch::X86_64, 90, &[0, 0o2755]), NOTIFY, "it may be a directory");
        assert_eq!(ask(watched, Arch::X86_64, 90, &[0, 0o6755]), refused(libc::EPERM));
    }

    #[test]
    fn the_broker_is_asked_about_changes_and_not_about_reading() {
        let watched = Filter { watch: Watch::Making, ..CLOSED };
        let openat = |flags| ask(watched, Arch::X86_64, 257, &[0, 0, flags, 0o644]);
        assert_eq!(openat(0), ALLOW);
        assert_eq!(openat(0x20_0000 | 0o101), ALLOW);
        for flags in [0o1, 0o2, 0o100, 0o1000, 0x41_0002] {
            assert_eq!(openat(flags), NOTIFY, "flags {flags:o}");
        }
        assert_eq!(openat(0o101 | 0o4000), NOTIFY);
        for number in [82, 264, 316, 86, 265, 88, 266, 83, 258, 85, 76, 90, 91, 268, 452] {
            assert_eq!(ask(watched, Arch::X86_64, number, &[]), NOTIFY, "call {number}");
        }
        assert_eq!(ask(watched, Arch::X86_64, 87, &[]), ALLOW);
        for number in [132, 235, 261, 280] {
            assert_eq!(ask(watched, Arch::X86_64, number, &[]), ALLOW, "call {number}");
            let times = Filter { times: true, ..watched };
            assert_eq!(ask(times, Arch::X86_64, number, &[]), NOTIFY, "call {number}");
        }
        assert_eq!(ask(watched, Arch::X86_64, 444, &[]), refused(libc::EOPNOTSUPP));
        assert_eq!(ask(watched, Arch::X86_64, 437, &[]), refused(libc::ENOSYS));
        assert_eq!(ask(watched, Arch::X86_64, 157, &[4]), refused(0));
        for (number, arguments) in
            [(257, [0, 0, 0o101, 0o4755]), (85, [0, 0o4755, 0, 0]), (133, [0, 0x2000, 0, 0])]
        {
            assert_eq!(ask(watched, Arch::X86_64, number, &arguments), refused(libc::EPERM), "call {number}");
        }
    }

    #[test]
    fn the_tracer_is_told_of_the_rest_and_nobody_else_may_trace() {
        let traced = Filter { trace: true, ..CLOSED };
        for number in [2, 257, 4, 262, 59, 83, 87, 42, 44] {
            assert_eq!(ask(traced, Arch::X86_64, number, &[]), TRACED, "call {number}");
        }
        assert_eq!(ask(CLOSED, Arch::X86_64, 101, &[]), refused(libc::EPERM));
        assert_eq!(ask(traced, Arch::X86_64, 101, &[]), told(libc::EPERM));
        // What arguments decide is told where it is refused, and only there.
        assert_eq!(ask(traced, Arch::X86_64, 272, &[0x1000_0000]), told(libc::EPERM));
        assert_eq!(ask(traced, Arch::X86_64, 272, &[0x400]), ALLOW);
        assert_eq!(ask(traced, Arch::X86_64, 41, &[17, 1, 0]), told(libc::EAFNOSUPPORT));
        assert_eq!(ask(traced, Arch::X86_64, 41, &[2, 1, 0]), ALLOW);
        // Whoever cannot be followed is refused it all the same.
        let alone = Seen { arch: Arch::X86_64.audit(), number: 101, arguments: [0; 6] };
        assert_eq!(run(&traced.unfollowed(Arch::X86_64), &alone), refused(libc::EPERM));
        // What the broker performs stays refused to it.
        assert_eq!(ask(traced, Arch::X86_64, 90, &[0, 0o4755]), refused(libc::EPERM));
        let both = Filter { watch: Watch::MakingAndRemoving, ..traced };
        assert_eq!(ask(both, Arch::X86_64, 83, &[0, 0o755]), NOTIFY);
        assert_eq!(ask(both, Arch::X86_64, 257, &[0, 0, 0]), TRACED);
        assert_eq!(ask(both, Arch::X86_64, 257, &[0, 0, 0o101]), NOTIFY);
        for arch in [Arch::X86_64, Arch::Aarch64] {
            assert!(both.watching(arch).len() < 220, "{}", both.watching(arch).len());
        }
    }

    #[test]
    fn leases_are_refused_and_only_oneself_is_scheduled_where_others_have_numbers() {
        let bare = Filter { ipc: false, ..CLOSED };
        assert_eq!(ask(CLOSED, Arch::X86_64, 72, &[3, 1024, 1]), refused(libc::EINVAL));
        assert_eq!(ask(CLOSED, Arch::X86_64, 72, &[3, 1, 0]), ALLOW);
        assert_eq!(ask(CLOSED, Arch::X86_64, 203, &[77]), ALLOW);
        assert_eq!(ask(bare, Arch::X86_64, 203, &[77]), refused(libc::EPERM));
        assert_eq!(ask(bare, Arch::X86_64, 203, &[0]), ALLOW);
        assert_eq!(ask(bare, Arch::X86_64, 141, &[0, 77, 5]), refused(libc::EPERM));
    }

    #[test]
    fn the_program_stays_small() {
        let watched = Filter { watch: Watch::MakingAndRemoving, ..CLOSED };
        for arch in [Arch::X86_64, Arch::Aarch64] {
            assert!(CLOSED.program(arch).len() < 240, "{}", CLOSED.program(arch).len());
            assert!(watched.watching(arch).len() < 90, "{}", watched.watching(arch).len());
        }
    }
}
