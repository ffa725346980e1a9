//! Helpers end with their owner, and an end in the middle leaves nothing behind.

use crate::support::program;
use crate::world::World;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Processes whose arguments hold a text, by number.
fn processes(text: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|number| {
            let words = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            let exe = std::fs::read_link(format!("/proc/{number}/exe")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word == text.as_bytes()) && exe == program()
        })
        .collect()
}

/// The descendants of a process that run the helper.
pub(crate) fn helpers_of(parent: u32) -> Vec<u32> {
    let is_below = |number: u32| {
        let mut at = number;
        for _ in 0..16 {
            if at == parent {
                return true;
            }
            let stat = std::fs::read_to_string(format!("/proc/{at}/stat")).unwrap_or_default();
            let Some(above) =
                stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok())
            else {
                return false;
            };
            at = above;
        }
        false
    };
    processes("__hands").into_iter().filter(|number| is_below(*number)).collect()
}

pub(crate) fn until(mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

pub(crate) fn is_alive(number: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// A tree in which a search takes long enough to be interrupted.
pub(crate) fn many_files(world: &World) {
    let text = format!("{}\n", "abcdefghij".repeat(8)).repeat(4000);
    for number in 0..120 {
        world.write(&format!("many/{number}.txt"), &text);
    }
}

#[test]
fn nothing_survives_when_the_owner_is_killed() {
    let world = World::new(&["fs.read{in=$P}", "fs.write{in=$P}", "fs.delete{in=$P}"]);
    many_files(&world);
    let mut command = world.command(&["fs", "search", "(a|b|c)+(x|y)+z", "--limit", "2000"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut helpers = Vec::new();
    assert!(until(|| {
        helpers = helpers_of(child.id());
        !helpers.is_empty() || child.try_wait().unwrap().is_some()
    }));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!helpers.is_empty(), "the search ended before it could be interrupted");
    assert!(until(|| !helpers.iter().any(|helper| is_alive(*helper))), "{helpers:?} live on");
}

#[test]
fn a_helper_that_is_killed_is_told_of_and_the_next_call_works() {
    let world = World::new(&["fs.read{in=$P}"]);
    many_files(&world);
    let mut command = world.command(&["fs", "search", "(a|b|c)+(x|y)+z"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut killed = 0;
    // A read is begun anew once, so both helpers are ended.
    while killed < 2 && until(|| !helpers_of(child.id()).is_empty()) {
        for helper in helpers_of(child.id()) {
            let pid = helper.to_string();
            killed += usize::from(
                std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success(),
            );
            assert!(until(|| !is_alive(helper)));
        }
    }
    let output = child.wait_with_output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["code"], "failed", "{said}");
    assert!(said["message"].as_str().unwrap().contains("helper ended"), "{said}");
    assert_eq!(world.call(&["fs", "read", "many/0.txt"]).status, 0);
}

#[test]
fn a_write_that_is_cut_off_leaves_the_old_file_or_the_new() {
    let world = World::new(&["fs.read{in=$P}", "fs.write{in=$P}", "fs.delete{in=$P}"]);
    let old = vec![b'o'; 1 << 20];
    let new = vec![b'n'; 12 << 20];
    for round in 0..10_u64 {
        world.write("f.bin", &old);
        let mut command = world.command(&["fs", "write", "f.bin"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&new).unwrap();
        let mut helpers = Vec::new();
        until(|| {
            helpers = helpers_of(child.id());
            !helpers.is_empty() || child.try_wait().unwrap().is_some()
        });
        std::thread::sleep(Duration::from_millis(round * 4));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(until(|| !helpers.iter().any(|helper| is_alive(*helper))));
        let content = std::fs::read(world.path("f.bin")).unwrap();
        assert!(
            content == old || content == new || !has_nameless_files(&world.env.project()),
            "round {round}"
        );
        take_away_aside(&world, &new);
        assert_eq!(world.names(), [".git", "f.bin"], "round {round}");
    }
}

/// No kernel puts a nameless file in the place of another in one step: between getting a name and being moved there is
/// a moment in which an end leaves that name. Then it is the whole new file, and there is one of it.
fn take_away_aside(world: &World, new: &[u8]) {
    let is_aside = |name: &&String| name.starts_with(".sbx-") && name.ends_with("-f.bin");
    if let [aside] = world.names().iter().filter(is_aside).collect::<Vec<_>>()[..] {
        assert!(std::fs::read(world.path(aside)).unwrap() == new, "{aside} is not the new file");
        std::fs::remove_file(world.path(aside)).unwrap();
    }
}

/// Whether the file system has files without a name, which is what makes replacing whole.
fn has_nameless_files(dir: &Path) -> bool {
    sbx_platform::walk::Dir::at(dir).and_then(|dir| dir.unnamed()).is_ok()
}
