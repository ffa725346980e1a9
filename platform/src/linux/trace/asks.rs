//! What a system call asks for: from its name and arguments to files, programs and addresses.
//!
//! Answers for where in the arguments names and addresses are. It leaves reading them to [`Caller`].
//! Invariant: every call that the filter sends to the tracer has a row here, or is let go.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use libc::c_int;

use super::question;
use crate::linux::broker::Caller;
use crate::path::normalize;
use crate::report::{Act, Verb};

/// The most words of a command line that are told.
const WORDS: usize = 64;
/// The longest address of a socket.
const ADDRESS_MAX: usize = 128;

/// One thing a call asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Something of the name at this address, seen from this directory.
    Name {
        /// What.
        verb: Verb,
        /// The directory's descriptor.
        dir: c_int,
        /// Where the name is.
        name: u64,
        /// Where the words of a command line are.
        words: Option<u64>,
    },
    /// Something of this object.
    Object(Verb, PathBuf),
}

/// What `call` asks for.
pub(crate) fn asks(call: &str, a: [u64; 6], caller: &Caller) -> Vec<Ask> {
    let here = libc::AT_FDCWD;
    let name = |verb, dir, name| Ask::Name { verb, dir, name, words: None };
    let run = |dir, name, words| Ask::Name { verb: Verb::Run, dir, name, words: Some(words) };
    let dir = |at: usize| a[at] as c_int;
    match call {
        "open" => vec![name(opening(a[1]), here, a[0])],
        "openat" => vec![name(opening(a[2]), dir(0), a[1])],
        "stat" | "lstat" | "access" | "readlink" | "chdir" => vec![name(Verb::Look, here, a[0])],
        "newfstatat" | "statx" | "faccessat" | "faccessat2" | "readlinkat" => {
            vec![name(Verb::Look, dir(0), a[1])]
        }
        "execve" => vec![run(here, a[0], a[1])],
        "execveat" => vec![run(dir(0), a[1], a[2])],
        "creat" | "mkdir" | "mknod" | "truncate" | "chmod" | "utime" | "utimes" => {
            vec![name(Verb::Write, here, a[0])]
        }
        "mkdirat" | "mknodat" | "fchmodat" | "fchmodat2" | "futimesat" | "utimensat" => {
            vec![name(Verb::Write, dir(0), a[1])]
        }
        "unlink" | "rmdir" => vec![name(Verb::Remove, here, a[0])],
        "unlinkat" => vec![name(Verb::Remove, dir(0), a[1])],
        "rename" => vec![name(Verb::Remove, here, a[0]), name(Verb::Write, here, a[1])],
        "renameat" | "renameat2" => {
            vec![name(Verb::Remove, dir(0), a[1]), name(Verb::Write, dir(2), a[3])]
        }
        "link" => vec![name(Verb::Write, here, a[1])],
        "linkat" => vec![name(Verb::Write, dir(2), a[3])],
        "symlink" => vec![name(Verb::Write, here, a[1])],
        "symlinkat" => vec![name(Verb::Write, dir(1), a[2])],
        "connect" => {
            address(caller, a).map(|object| Ask::Object(Verb::Connect, object)).into_iter().collect()
        }
        "bind" => address(caller, a).map(|object| Ask::Object(Verb::Listen, object)).into_iter().collect(),
        "sendto" | "sendmmsg" => {
            let asked = question::asked(call, a, caller);
            asked.into_iter().map(|name| Ask::Object(Verb::Resolve, name.into())).collect()
        }
        _ => Vec::new(),
    }
}

/// What else `call` asks for where it fails: what a rename would replace is taken away, if it is there.
pub(crate) fn asks_if_replaced(call: &str, a: [u64; 6]) -> Option<Ask> {
    let replaced = |dir, name| Ask::Name { verb: Verb::Remove, dir, name, words: None };
    match call {
        "rename" => Some(replaced(libc::AT_FDCWD, a[1])),
        "renameat" | "renameat2" => Some(replaced(a[2] as c_int, a[3])),
        _ => None,
    }
}

/// What opening with these flags asks for.
fn opening(flags: u64) -> Verb {
    const UNNAMED: c_int = 0x40_0000;
    let flags = flags as c_int;
    let changing = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | UNNAMED;
    if flags & libc::O_PATH != 0 {
        Verb::Look
    } else if flags & changing != 0 {
        Verb::Write
    } else {
        Verb::Read
    }
}

/// An ask as an act, its name read and made absolute as it stands; `None` for what has no name.
pub(crate) fn named(ask: Ask, call: &'static str, caller: &Caller, proc: &Path) -> Option<Act> {
    let act = |verb, path, words| Act { verb, path, call, error: 0, words };
    match ask {
        Ask::Object(verb, path) => Some(act(verb, path, Vec::new())),
        Ask::Name { verb, dir, name, words } => {
            let name = caller.name(name).ok().filter(|name| !name.is_empty())?;
            let name = Path::new(OsStr::from_bytes(name.to_bytes()));
            let path =
                if name.is_absolute() { name.to_owned() } else { start(caller, dir, proc)?.join(name) };
            let words = words.map(|at| self::words(caller, at)).unwrap_or_default();
            Some(act(verb, normalize(&path), words))
        }
    }
}

/// Where a name without a leading slash starts.
fn start(caller: &Caller, dir: c_int, proc: &Path) -> Option<PathBuf> {
    let thread = proc.join(caller.thread().to_string());
    let link = if dir == libc::AT_FDCWD { thread.join("cwd") } else { thread.join(format!("fd/{dir}")) };
    std::fs::read_link(link).ok().filter(|path| path.is_absolute())
}

/// The words of a command line, as far as they can be read.
fn words(caller: &Caller, at: u64) -> Vec<OsString> {
    let mut words = Vec::new();
    for index in 0..WORDS as u64 {
        let mut pointer = [0; 8];
        if caller.bytes(at.wrapping_add(index * 8), &mut pointer).is_err() {
            break;
        }
        match u64::from_ne_bytes(pointer) {
            0 => break,
            address => match caller.name(address) {
                Ok(word) => words.push(OsString::from_vec(word.into_bytes())),
                Err(_) => break,
            },
        }
    }
    words
}

/// The address a call names: `1.2.3.4:80`, `[::1]:80`, or the path of a socket.
fn address(caller: &Caller, a: [u64; 6]) -> Option<PathBuf> {
    let length = usize::try_from(a[2]).ok().filter(|length| (2..=ADDRESS_MAX).contains(length))?;
    let mut bytes = [0; ADDRESS_MAX];
    let bytes = bytes.get_mut(..length)?;
    caller.bytes(a[1], bytes).ok()?;
    socket_address(bytes)
}

fn socket_address(bytes: &[u8]) -> Option<PathBuf> {
    let family = i32::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
    let port = || Some(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
    match family {
        libc::AF_INET => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(SocketAddr::from((Ipv4Addr::from(octets), port()?)).to_string().into())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(SocketAddr::from((Ipv6Addr::from(octets), port()?)).to_string().into())
        }
        libc::AF_UNIX => {
            let name = bytes.get(2..)?;
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            // One without a path has no place in the file tree.
            (end > 0).then(|| PathBuf::from(OsStr::from_bytes(&name[..end])))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_what_opening_asks_for() {
        assert_eq!(opening(0), Verb::Read);
        assert_eq!(opening(libc::O_DIRECTORY as u64), Verb::Read);
        assert_eq!(opening(libc::O_PATH as u64), Verb::Look);
        for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC, libc::O_TMPFILE] {
            assert_eq!(opening(flags as u64), Verb::Write, "{flags:o}");
        }
    }

    #[test]
    fn addresses_are_read_as_the_kernel_lays_them_out() {
        let mut four = vec![2, 0, 0, 80, 10, 0, 0, 1];
        four.extend([0; 8]);
        assert_eq!(socket_address(&four), Some("10.0.0.1:80".into()));
        let mut six = vec![10, 0, 1, 187, 0, 0, 0, 0];
        six.extend(Ipv6Addr::LOCALHOST.octets());
        six.extend([0; 4]);
        assert_eq!(socket_address(&six), Some("[::1]:443".into()));
        assert_eq!(socket_address(b"\x01\0/run/x\0junk"), Some("/run/x".into()));
        for odd in [&b"\x01\0\0hidden"[..], b"\x02\0\0", b"\x10\0\0\0\0\0\0\0", b""] {
            assert_eq!(socket_address(odd), None, "{odd:?}");
        }
    }
}
