//! Processor time of a whole launch.
//!
//! Answers for adding up what the processes of a tree have used, those that have ended included. It leaves what is
//! allowed to the supervisor, and the time of one process to the kernel.
//! Invariant: reading only. A process that has its children's end ignored hides what they used; this is no promise,
//! and none is made of it.

use std::fs;
use std::time::Duration;

use libc::pid_t;

/// The most processes that are looked at.
const MOST: usize = 4096;

/// What the process, all that descend from it, and all they have waited for have used.
pub(crate) fn by_tree(first: pid_t) -> Duration {
    let ticks = ticks_per_second();
    let (mut pending, mut used) = (vec![first], 0_u64);
    for _ in 0..MOST {
        let Some(process) = pending.pop() else { break };
        used += fs::read_to_string(format!("/proc/{process}/stat")).map_or(0, |line| ticks_in(&line));
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            pending.extend(children.split_whitespace().filter_map(|number| number.parse::<pid_t>().ok()));
        }
    }
    Duration::from_millis(used.saturating_mul(1000) / ticks)
}

/// Own time and that of waited-for children: the 14th to the 17th field, counted after the name, which may hold
/// anything but ends with the last bracket.
fn ticks_in(line: &str) -> u64 {
    let rest = line.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum()
}

fn ticks_per_second() -> u64 {
    // SAFETY: takes and answers with an integer.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_after_any_name() {
        let line = "12 (a b) 9) 7 (x) S 1 12 12 0 -1 4194560 100 0 0 0 3 4 5 6 20 0 1 0";
        assert_eq!(ticks_in(line), 18);
        assert_eq!(ticks_in("garbage"), 0);
    }

    /// Asked of another process than this one: where processors are emulated, what a process is told of itself is made up.
    #[test]
    fn a_child_that_is_gone_counts_for_its_parent() {
        use std::io::{BufRead, BufReader};
        use std::process::{Command, Stdio};
        let script = "(i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done); echo done; read end";
        let mut shell = Command::new("/bin/sh");
        let mut parent =
            shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let used = by_tree(pid_t::try_from(parent.id()).unwrap());
        drop(parent.stdin.take());
        parent.wait().unwrap();
        assert_eq!(line, "done\n");
        assert!(used > Duration::from_millis(30), "{used:?}");
    }
}
