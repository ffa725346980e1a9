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
        ["empty", path] => done(empty(path)),
        ["cut", path] => done(by_name(path, |name| {
            // SAFETY: a NUL-terminated path and an integer.
            unsafe { libc::truncate(name, 0) }
        })),
        ["touch", path] => done(by_name(path, |name| {
            // SAFETY: a NUL-terminated path, and no times for the present one.
            unsafe { libc::utimensat(libc::AT_FDCWD, name, std::ptr::null(), 0) }
        })),
        ["date", path] => done(date(path)),
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
        ["masks"] => masks(),
        ["follow"] => {
            // SAFETY: asks to be followed by the parent; nothing is read or written.
            let asked = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
            done(if asked < 0 { Err(io::Error::last_os_error()) } else { Ok(()) })
        }
        ["crowd", number] => crowd(number.parse().unwrap_or(0)),
        other => crate::network::act(other).unwrap_or_else(|| format!("unknown act {other:?}")),
    }
}

/// Changes the mask of the process while another thread makes files, again and again: what that thread makes afterwards
/// has the new one.
fn masks() -> String {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    for round in 0..200 {
        // SAFETY: takes and answers with a plain integer.
        unsafe { libc::umask(0) };
        let changed = Arc::new(AtomicBool::new(false));
        let maker = std::thread::spawn({
            let changed = Arc::clone(&changed);
            move || -> io::Result<u32> {
                while !changed.load(Ordering::SeqCst) {
                    fs::File::create("before")?;
                }
                let made = fs::File::create("after")?.metadata()?.permissions().mode() & 0o777;
                fs::remove_file("after").map(|()| made)
            }
        });
        std::thread::sleep(Duration::from_micros(500));
        // SAFETY: as above.
        unsafe { libc::umask(0o077) };
        changed.store(true, Ordering::SeqCst);
        match maker.join() {
            Ok(Ok(0o600)) => {}
            other => return format!("{other:?} in round {round}"),
        }
    }
    String::from("ok")
}

fn append(path: &str) -> io::Result<()> {
    fs::OpenOptions::new().append(true).open(path)?.write_all(b"more")
}

fn truncate(path: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.set_len(0)
}

/// Empties a file that is opened to be read.
fn empty(path: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().read(true).custom_flags(libc::O_TRUNC).open(path).map(drop)
}

/// A call that takes a path and answers with 0.
fn by_name(path: &str, call: impl FnOnce(*const libc::c_char) -> libc::c_int) -> io::Result<()> {
    let name = std::ffi::CString::new(path)?;
    if call(name.as_ptr()) == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets a time through a descriptor that only reads, and sees whether it is there.
fn date(path: &str) -> io::Result<()> {
    let (file, wanted) = (fs::File::open(path)?, std::time::UNIX_EPOCH + Duration::new(1_000_000, 5000));
    file.set_times(fs::FileTimes::new().set_modified(wanted))?;
    let found = file.metadata()?.modified()?;
    if found == wanted { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EIO)) }
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
