//! The backends against the real kernel, as root and as an ordinary user.
//!
//! This program is runner, launcher and probe in one: a case builds a plan whose command is this very file
//! with the word `act`, runs it behind each backend and compares what the probe says. A case is passed over
//! only where the backend has announced that it does not give what the case is about.

#![expect(clippy::print_stdout, reason = "a test runner reports on standard output")]
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its world has failed")]

mod acts;
mod attacks;
mod cases;
mod endings;
mod following;
mod held;
mod ladder;
mod network;
mod support;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use sbx_platform::Backend;
use support::{Tally, World};

/// The ordinary user the cases are run as when root starts them.
const ORDINARY: u32 = 64_321;

fn main() -> ExitCode {
    sbx_platform::take_over(std::env::args_os());
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("act") => return ExitCode::from(acts::run(&words[2..])),
        Some("launch-and-wait") => return endings::launch_and_wait(&words[2..]),
        Some("launch-and-serve") => return network::launch_and_serve(&words[2..]),
        Some("probe") => return ladder::print_probe(),
        _ => {}
    }
    let mut tally = Tally::default();
    run_all(&mut tally);
    if support::is_root() && std::env::var_os("SBX_KERNEL_CHILD").is_none() {
        tally.failed += run_as_ordinary();
    }
    println!("{} passed, {} not given, {} failed", tally.passed, tally.withheld, tally.failed);
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_all(tally: &mut Tally) {
    let who = if support::is_root() { "root" } else { "user" };
    for backend in Backend::ALL {
        let all = cases::ALL.iter().chain(held::ALL).chain(endings::ALL);
        for (name, case) in all.chain(following::ALL).chain(network::ALL) {
            if !wanted(&format!("{who} {backend} {name}")) {
                continue;
            }
            let world = World::new(backend);
            let verdict = case(&world);
            tally.count(&format!("{who} {backend} {name}"), &verdict);
        }
    }
    for (name, case) in ladder::ALL.iter().filter(|(name, _)| wanted(&format!("{who} {name}"))) {
        tally.count(&format!("{who} {name}"), &case());
    }
}

/// Whether the case is among those asked for: `SBX_KERNEL_ONLY` is a part of its name, or several with `|` between them.
fn wanted(name: &str) -> bool {
    std::env::var("SBX_KERNEL_ONLY").map_or(true, |parts| parts.split('|').any(|part| name.contains(part)))
}

/// Runs this program again as someone without privileges.
fn run_as_ordinary() -> usize {
    let dir = support::scratch("ordinary");
    let program = dir.join("kernel");
    let own = std::env::current_exe().unwrap();
    std::fs::copy(own, &program).unwrap();
    let status = Command::new(&program)
        .env("SBX_KERNEL_CHILD", "1")
        .uid(ORDINARY)
        .gid(ORDINARY)
        .current_dir("/")
        .status();
    std::fs::remove_dir_all(dir).unwrap();
    usize::from(!status.unwrap().success())
}
