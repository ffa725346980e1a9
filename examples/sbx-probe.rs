//! Tries acts from inside a fence: one a line on stdin (a verb and its words, by tabs), one answer a line (`ok` or an
//! error number).
//!
//! For tests. The acts leave nothing behind that a later act depends on.

#![expect(clippy::print_stdout, reason = "answers go to standard output")]

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Read};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::process::{Command, Stdio};

/// `O_TRUNC`, which empties a file even when it is opened to be read.
const TRUNCATE: i32 = 0o1000;

fn main() {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split('\t').collect();
        match attempt(&words) {
            Ok(()) => println!("ok"),
            Err(error) => println!("{}", error.raw_os_error().unwrap_or(-1)),
        }
    }
}

fn attempt(words: &[&str]) -> io::Result<()> {
    match *words {
        ["exec", program, ref arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().map(drop)
        }
        ["rename", from, to] => fs::rename(from, to),
        ["link", from, to] => fs::hard_link(from, to),
        ["symlink", target, at] => symlink(target, at),
        ["read-led", target, at] => symlink(target, at).and_then(|()| on_path("read", at)),
        ["write-led", target, at] => symlink(target, at).and_then(|()| on_path("write", at)),
        ["make-led", target, at] => symlink(target, at).and_then(|()| on_path("make", at)),
        [verb, path] => on_path(verb, path),
        _ => Err(io::Error::from_raw_os_error(22)),
    }
}

fn on_path(verb: &str, path: &str) -> io::Result<()> {
    match verb {
        "read" => fs::File::open(path)?.read(&mut [0; 1]).map(drop),
        "list" => fs::read_dir(path).map(drop),
        "write" => OpenOptions::new().append(true).open(path).map(drop),
        "truncate" => OpenOptions::new().write(true).truncate(true).open(path).map(drop),
        "resize" => OpenOptions::new().write(true).open(path)?.set_len(0),
        "cut" => cut(path),
        "empty" => OpenOptions::new().read(true).custom_flags(TRUNCATE).open(path).map(drop),
        "touch" => fs::File::open(path)?.set_modified(std::time::SystemTime::now()),
        "create" => OpenOptions::new().write(true).create_new(true).open(path).map(drop),
        "make" => OpenOptions::new().append(true).create(true).open(path).map(drop),
        "mkdir" => fs::create_dir(path),
        "rmdir" => fs::remove_dir(path),
        "delete" => fs::remove_file(path),
        _ => Err(io::Error::from_raw_os_error(22)),
    }
}

/// Truncates by name, without opening: a call that only other languages have.
fn cut(path: &str) -> io::Result<()> {
    let script = "truncate($ARGV[0], 0) or exit($! + 0)";
    let status = Command::new("perl").args(["-e", script, path]).stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::from_raw_os_error(status.code().unwrap_or(5))) }
}
