//! What somebody does to the files while they are worked on, and files that are not files.

use crate::world::World;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ALL: &[&str] = &["fs.read{in=$P}", "fs.write{in=$P}", "fs.delete{in=$P}"];

#[test]
fn a_pipe_a_socket_and_a_directory_are_not_files_and_nothing_waits() {
    let world = World::new(ALL);
    assert!(Command::new("mkfifo").arg(world.path("pipe")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(world.path("socket")).unwrap();
    world.write("dir/x", "");
    for name in ["pipe", "socket", "dir"] {
        assert_eq!(world.call(&["fs", "read", name]).code(), "wrong_kind", "{name}");
        assert_eq!(world.call_with(&["fs", "write", name], b"x").code(), "wrong_kind", "{name}");
        assert_eq!(
            world.call(&["fs", "edit", name, "--old", "x", "--new", "y"]).code(),
            "wrong_kind",
            "{name}"
        );
    }
    assert_eq!(world.call(&["fs", "delete", "dir"]).code(), "wrong_kind");
    assert_eq!(world.call(&["fs", "delete", "dir", "--directory"]).code(), "wrong_kind");
    assert_eq!(world.call(&["fs", "list", "pipe"]).code(), "wrong_kind");
    assert_eq!(world.call(&["fs", "search", "x"]).status, 0);
    assert_eq!(world.call(&["fs", "delete", "pipe"]).json["kind"], "other");
}

/// Exchanges two names again and again, in one step each time.
fn exchange(world: &World, one: &str, other: &str) -> (Arc<AtomicBool>, std::thread::JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let path = |name: &str| world.path(name);
    let (one, other, stopped) = (path(one), path(other), stop.clone());
    let work = move || {
        let spare = one.with_extension("spare");
        while !stopped.load(Ordering::Relaxed) {
            // Somebody without such a call takes three steps.
            let _ = std::fs::rename(&one, &spare);
            let _ = std::fs::rename(&other, &one);
            let _ = std::fs::rename(&spare, &other);
        }
    };
    (stop, std::thread::spawn(work))
}

#[test]
fn a_link_that_is_put_in_place_meanwhile_is_not_followed() {
    let world = World::new(ALL);
    let outside = world.env.write("outside/f.txt", "secret");
    world.write("d/f.txt", "inside");
    std::os::unix::fs::symlink(outside.parent().unwrap(), world.path("e")).unwrap();
    let (stop, work) = exchange(&world, "d", "e");
    let mut read = 0;
    for _ in 0..12 {
        let said = world.call(&["fs", "read", "d/f.txt"]);
        assert!(!said.json.to_string().contains("secret"), "{said:?}");
        read += usize::from(said.json["content"] == "inside");
        let said = world.call_with(&["fs", "write", "d/f.txt", "--old"], b"inside");
        assert!(
            matches!(
                said.code(),
                "" | "changed" | "refused" | "not_found" | "scope_violation" | "wrong_kind"
            ),
            "{said:?}"
        );
        let _ = world.call(&["fs", "delete", "d/g.txt"]);
    }
    stop.store(true, Ordering::Relaxed);
    work.join().unwrap();
    assert_eq!(std::fs::read(&outside).unwrap(), b"secret", "after {read} reads inside");
    assert_eq!(std::fs::read_dir(outside.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn a_file_that_grows_while_it_is_read_is_bounded() {
    let world = World::new(ALL);
    let path = world.write("grows", "x");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let work = std::thread::spawn(move || {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        let mut size = 0;
        while !stopped.load(Ordering::Relaxed) {
            size = (size + (1 << 20)) % (64 << 20);
            file.set_len(size).unwrap();
        }
    });
    for _ in 0..6 {
        let said = world.call(&["fs", "read", "grows"]);
        let length = said.json["content"].as_str().map_or(0, str::len);
        assert!(length <= 4 << 20 && matches!(said.code(), "" | "too_large"), "{} {length}", said.code());
    }
    stop.store(true, Ordering::Relaxed);
    work.join().unwrap();
}

#[test]
fn a_device_is_not_read() {
    let world = World::new(&["fs.read{in=/dev}"]).broken();
    let said = world.call(&["fs", "read", "/dev/zero"]);
    assert_eq!(said.status, 2, "{said:?}");
    // Where root may make one, a device in a granted place is no file either.
    let world = World::new(ALL);
    let path = CString::new(world.path("null").as_os_str().as_bytes()).unwrap();
    let made = Command::new("mknod").arg(path.to_str().unwrap()).args(["c", "1", "3"]).output().unwrap();
    if made.status.success() {
        assert_eq!(world.call(&["fs", "read", "null"]).code(), "wrong_kind");
        assert_eq!(world.call_with(&["fs", "write", "null"], b"x").code(), "wrong_kind");
    } else {
        assert_ne!(world.call(&["fs", "read", "null"]).status, 0);
    }
}
