//! Tries acts from inside a fence: one a line on stdin (`verb path`), one answer a line (`ok` or an error number).
//!
//! For tests. The acts leave nothing behind that a later act depends on.

#![expect(clippy::print_stdout, reason = "answers go to standard output")]

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Read};

fn main() {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some((verb, path)) = line.split_once(' ') else { continue };
        match attempt(verb, path) {
            Ok(()) => println!("ok"),
            Err(error) => println!("{}", error.raw_os_error().unwrap_or(-1)),
        }
    }
}

fn attempt(verb: &str, path: &str) -> io::Result<()> {
    match verb {
        "read" => fs::File::open(path)?.read(&mut [0; 1]).map(drop),
        "list" => fs::read_dir(path).map(drop),
        "write" => OpenOptions::new().append(true).open(path).map(drop),
        "truncate" => OpenOptions::new().write(true).truncate(true).open(path).map(drop),
        "create" => OpenOptions::new().write(true).create_new(true).open(path).map(drop),
        "mkdir" => fs::create_dir(path),
        "delete" => fs::remove_file(path),
        "rename" => fs::rename(path, format!("{path}.moved")),
        "exec" => std::process::Command::new(path).output().map(drop),
        _ => Err(io::Error::from_raw_os_error(22)),
    }
}
