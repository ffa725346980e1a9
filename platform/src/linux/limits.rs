//! Resource limits the kernel keeps for each process.
//!
//! Answers for `setrlimit`. It leaves whole-tree limits to [`super::cgroup`], sized file systems to the
//! mounts, and time and output to the supervisor.
//! Invariant: core files are always refused, a dump helper included.

use std::io;

use crate::linux::sys::process::set_limit;
use crate::plan::Limits;

const CPU: u32 = 0;
const FILE_SIZE: u32 = 1;
const DATA: u32 = 2;
const CORE: u32 = 4;
const PROCESSES: u32 = 6;
const OPEN_FILES: u32 = 7;

/// Which limit could not be set.
pub(crate) type Refused = (&'static str, io::Error);

/// Sets every limit of the plan on this process.
///
/// `memory` is counted as private writable memory of one process: unlike a limit on address space it does not
/// break programs that reserve much and use little.
pub(crate) fn apply(limits: &Limits) -> Result<(), Refused> {
    // One byte, not none: with 1 the kernel runs no dump helper either.
    set("core size", CORE, 1, 1)?;
    if let Some(cpu) = limits.cpu {
        let seconds = cpu.as_secs().max(1);
        set("processor time", CPU, seconds, seconds.saturating_add(1))?;
    }
    if let Some(memory) = limits.memory {
        set("memory", DATA, memory, memory)?;
    }
    if let Some(pids) = limits.pids {
        set("processes", PROCESSES, pids, pids)?;
    }
    if let Some(files) = limits.open_files {
        set("open files", OPEN_FILES, files, files)?;
    }
    if let Some(size) = limits.file_size {
        set("file size", FILE_SIZE, size, size)?;
    }
    Ok(())
}

fn set(name: &'static str, resource: u32, soft: u64, hard: u64) -> Result<(), Refused> {
    set_limit(resource, soft, hard).map_err(|error| (name, error))
}
