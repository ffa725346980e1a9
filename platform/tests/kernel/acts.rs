//! What the probe does inside: one act, one answer. `ok`, `errno N`, or what was asked for.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::Duration;

/// Does the act in `words` and prints the answer.
pub(crate) fn run(words: &[String]) -> u8 {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let answer = match words.as_slice() {
        ["exit", code] => return code.parse().unwrap_or(255),
        ["then", rest @ ..] => several(rest),
        _ => one(&words),
    };
    println!("{answer}");
    0
}

/// Acts separated by `;`, answers by spaces.
fn several(words: &[&str]) -> String {
    words.split(|word| *word == ";").map(one).collect::<Vec<_>>().join(" ")
}

fn one(words: &[&str]) -> String {
    let done = |result: io::Result<()>| match result {
        Ok(()) => String::from("ok"),
        Err(error) => format!("errno {}", error.raw_os_error().unwrap_or(-1)),
    };
    match words {
        ["nothing"] => String::from("ok"),
        ["read", path] => match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => done(Err(error)),
        },
        ["stat", path] => done(fs::symlink_metadata(path).map(drop)),
        ["write", path] => done(fs::write(path, "changed")),
        ["append", path] => done(append(path)),
        ["mkdir", path] => done(fs::create_dir(path)),
        ["remove", path] => done(fs::remove_file(path)),
        ["rmdir", path] => done(fs::remove_dir(path)),
        ["rename", from, to] => done(fs::rename(from, to)),
        ["link", from, to] => done(fs::hard_link(from, to)),
        ["symlink", target, path] => done(symlink(target, path)),
        ["chmod", path] => done(fs::set_permissions(path, PermissionsExt::from_mode(0o600))),
        ["truncate", path] => done(truncate(path)),
        ["list", path] => list(path),
        ["run", path, rest @ ..] => match Command::new(path).args(rest).output() {
            Ok(output) if !output.status.success() => format!("{}", output.status),
            other => done(other.map(drop)),
        },
        ["connect", address] => done(std::net::TcpStream::connect(address).map(drop)),
        ["env"] => {
            std::env::vars().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
        }
        ["descriptors"] => descriptors(),
        ["pid"] => std::process::id().to_string(),
        ["copy-input"] => done(copy_input()),
        ["sleep", _marker] => {
            std::thread::sleep(Duration::from_secs(60));
            String::from("woke")
        }
        ["daemon", marker] => done(daemon(marker)),
        ["flood"] => done(flood()),
        ["grow", path] => done(fs::write(path, vec![0; 4 << 20])),
        ["threads", paths @ ..] => {
            let write = |path: &&str| {
                std::thread::spawn({
                    let path = (*path).to_owned();
                    move || fs::write(path, "")
                })
            };
            let threads: Vec<_> = paths.iter().map(write).collect();
            threads.into_iter().for_each(|thread| drop(thread.join()));
            String::from("ok")
        }
        ["follow"] => {
            // SAFETY: asks to be followed by the parent; nothing is read or written.
            let asked = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
            done(if asked < 0 { Err(io::Error::last_os_error()) } else { Ok(()) })
        }
        ["crowd", number] => crowd(number.parse().unwrap_or(0)),
        other => crate::network::act(other).unwrap_or_else(|| format!("unknown act {other:?}")),
    }
}

fn append(path: &str) -> io::Result<()> {
    fs::OpenOptions::new().append(true).open(path)?.write_all(b"more")
}

fn truncate(path: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.set_len(0)
}

fn list(path: &str) -> String {
    match fs::read_dir(path) {
        Ok(entries) => {
            let mut names: Vec<String> =
                entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names.join(",")
        }
        Err(error) => format!("errno {}", error.raw_os_error().unwrap_or(-1)),
    }
}

/// Open descriptors above 2, by trying.
fn descriptors() -> String {
    let open = |number: &u32| fs::read_link(format!("/proc/self/fd/{number}")).is_ok();
    (3..64).filter(open).map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

fn copy_input() -> io::Result<()> {
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    io::stdout().write_all(&text)
}

/// Leaves a process behind that has nothing to do with us any more.
fn daemon(marker: &str) -> io::Result<()> {
    let own = std::env::current_exe()?;
    let null = std::process::Stdio::null;
    let mut command = Command::new("/usr/bin/setsid");
    command.arg("--fork").arg(own).args(["act", "sleep", marker]);
    command.stdin(null()).stdout(null()).stderr(null()).status().map(drop)
}

fn flood() -> io::Result<()> {
    let line = [b'x'; 4096];
    for _ in 0..100_000 {
        io::stdout().write_all(&line)?;
    }
    Ok(())
}

/// How many of `number` sleeping children could be started.
fn crowd(number: usize) -> String {
    let mut children = Vec::new();
    for _ in 0..number {
        match Command::new("/usr/bin/sleep").arg("5").spawn() {
            Ok(child) => children.push(child),
            Err(_) => break,
        }
    }
    let count = children.len();
    for mut child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
    if count < number { String::from("bounded") } else { String::from("unbounded") }
}
