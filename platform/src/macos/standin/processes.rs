//! What Linux tells of processes, in the words of the module it stands for.

use std::fs;

use libc::pid_t;

/// When a process was born, in the kernel's own count.
pub(crate) type Birth = (u64, u64);

/// What follows the name of a process in its line: state, parent, group and so on.
fn line(pid: pid_t) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn all_with(field: usize, value: pid_t) -> Vec<pid_t> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &pid_t| line(*pid).is_some_and(|line| line[field] == value.to_string());
    pids.filter(has).collect()
}

pub(crate) fn members(group: pid_t) -> Vec<pid_t> {
    all_with(2, group)
}

pub(crate) fn children(pid: pid_t) -> Vec<pid_t> {
    all_with(1, pid)
}

pub(crate) fn birth(pid: pid_t) -> Option<Birth> {
    let line = line(pid)?;
    let dead = matches!(line[0].as_str(), "Z" | "X");
    (!dead).then(|| line[19].parse().ok()).flatten().map(|began| (began, 0))
}

pub(crate) fn footprint(pid: pid_t) -> u64 {
    let pages = line(pid).and_then(|line| line[21].parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
