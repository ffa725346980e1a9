//! What a fenced process tries, when sbx tries its own fence.
//!
//! Answers for a small set of acts that this very program carries out behind the fence, and for telling how each
//! went. It leaves to others which acts mean what.
//! Invariant: an act needs no other program, no shell and no network of its own.

use super::reaching;
use sbx_platform::attempt;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The word by which our own program knows that it is to try things.
const WORD: &str = "__acts";
/// A request that is asked of the proxy inside.
pub(super) const BY_PROXY: &str = "request-by-proxy";
/// The most that is read of a file, which need not end.
const MOST_READ: u64 = 1 << 20;
/// How long a connection is tried.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a process that should have been ended waits before it shows that it was not.
const LINGER: Duration = Duration::from_millis(150);

/// How long a process that waits to be killed stays, and how often it looks whether it may go on.
const STAY: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(5);

/// Something to try: what, and on what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// One of the names below.
    pub name: &'static str,
    /// A path, an address, a number.
    pub object: OsString,
}

/// How an act went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Which.
    pub name: String,
    /// The kernel's error number when it was refused; none when it was done.
    pub error: Option<i32>,
}

type Doing = fn(&OsStr) -> io::Result<()>;

/// Every act there is.
const DOINGS: &[(&str, Doing)] = &[
    ("read", |path| {
        let mut file = attempt::open(Path::new(path), false)?.take(MOST_READ);
        match io::copy(&mut file, &mut io::sink()) {
            // It is a pipe, and open.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            read => read.map(drop),
        }
    }),
    ("list", |path| fs::read_dir(path).map(drop)),
    ("look", |path| fs::symlink_metadata(path).map(drop)),
    ("write", |path| attempt::open(Path::new(path), true).map(drop)),
    ("create", |path| OpenOptions::new().write(true).create_new(true).open(path).map(drop)),
    ("truncate", |path| attempt::truncate(Path::new(path))),
    ("chmod", |path| fs::set_permissions(path, fs::Permissions::from_mode(0o640))),
    ("delete", |path| fs::remove_file(path)),
    ("may-delete", |path| may_delete(Path::new(path))),
    ("may-execute", |path| may_execute(Path::new(path))),
    ("exec", |path| Command::new(path).stdout(Stdio::null()).stderr(Stdio::null()).status().map(drop)),
    ("connect", |address| TcpStream::connect_timeout(&parsed(address)?, PATIENCE).map(drop)),
    ("socket", |path| UnixStream::connect(path).map(drop)),
    ("loopback", |_| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        TcpStream::connect_timeout(&listener.local_addr()?, PATIENCE).map(drop)
    }),
    ("arrive", |address| reaching::arrive(parsed(address)?)),
    ("reach", |address| reaching::reach(parsed(address)?)),
    ("be-found", |address| reaching::be_found(parsed(address)?)),
    ("ask", |server| reaching::ask(parsed(server)?)),
    ("request", reaching::request),
    (BY_PROXY, reaching::request_by_proxy),
    ("terminal", |_| OpenOptions::new().read(true).write(true).open("/dev/ptmx").map(drop)),
    ("process", |process| same_process(process)),
    ("signal", |process| attempt::signal(parsed(process)?)),
    ("memory", |number| attempt::find_memory(parsed(number)?)),
    ("namespace", |_| attempt::user_namespace()),
    ("crowd", |number| crowd(parsed(number)?)),
    ("hoard", |bytes| hoard(parsed(bytes)?)),
    ("outlive", |path| beside("linger", path)),
    ("linger", |path| {
        std::thread::sleep(LINGER);
        File::create(path).map(drop)
    }),
    ("remain", |dir| {
        beside("wait", dir)?;
        wait(Path::new(dir))
    }),
    ("wait", |dir| wait(Path::new(dir))),
];

/// Another process of this program that does one act.
fn beside(name: &str, object: &OsStr) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(WORD).arg(argument(name, object));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}

/// Says that it began, and once it is told to go on, that it still lives.
fn wait(dir: &Path) -> io::Result<()> {
    File::create(dir.join("begun"))?;
    let until = Instant::now() + STAY;
    while !dir.join("go").exists() {
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(GLANCE);
    }
    File::create(dir.join("lived")).map(drop)
}

/// How long after a launch nothing of it can show itself any more.
pub const SURELY_GONE: Duration = Duration::from_millis(400);

/// So many threads at once, which rest until the last one is there.
fn crowd(number: usize) -> io::Result<()> {
    const SMALL: usize = 64 << 10;
    let (rest, wake) = std::sync::mpsc::channel::<()>();
    let wake = std::sync::Arc::new(std::sync::Mutex::new(wake));
    let mut threads = Vec::new();
    let mut refused = Ok(());
    for _ in 0..number {
        let wake = wake.clone();
        let resting = move || drop(wake.lock().map(|wake| wake.recv()));
        match std::thread::Builder::new().stack_size(SMALL).spawn(resting) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                refused = Err(error);
                break;
            }
        }
    }
    drop(rest);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    refused
}

/// So much memory, all of it used. Where it is bounded this process may not live to tell.
fn hoard(bytes: usize) -> io::Result<()> {
    const STEP: usize = 1 << 20;
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for step in 0..bytes / STEP {
        let mut block: Vec<u8> = Vec::new();
        block.try_reserve_exact(STEP).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        block.resize(STEP, u8::try_from(step % 251 + 1).unwrap_or(1));
        kept.push(block);
    }
    std::hint::black_box(&kept);
    Ok(())
}

/// Whether a file could be deleted, without deleting it: asked the wrong way, the kernel checks the right first and
/// then says that it is no directory, or that it is one.
fn may_delete(path: &Path) -> io::Result<()> {
    use io::ErrorKind::{IsADirectory, NotADirectory};
    if cfg!(not(target_os = "linux")) {
        return Err(io::Error::from_raw_os_error(0));
    }
    let directory = fs::symlink_metadata(path)?.is_dir();
    let (asked, yes) =
        if directory { (fs::remove_file(path), IsADirectory) } else { (fs::remove_dir(path), NotADirectory) };
    match asked {
        Err(error) if error.kind() == yes => Ok(()),
        Err(error) => Err(error),
        Ok(()) => Err(io::Error::other("it was neither a file nor a directory")),
    }
}

/// Whether a program could be executed, without executing it. A kernel that cannot be asked cannot be asked about
/// this very program either, which is running.
fn may_execute(path: &Path) -> io::Result<()> {
    let own = std::env::current_exe()?;
    if attempt::may_execute(&own).is_err() {
        return Err(io::Error::from_raw_os_error(0));
    }
    attempt::may_execute(path)
}

fn parsed<T: std::str::FromStr>(text: &OsStr) -> io::Result<T> {
    let parsed = text.to_str().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

/// A process by its number and the moment it began: inside, the same number may be another's.
fn same_process(process: &OsStr) -> io::Result<()> {
    let known = process.to_str().and_then(|text| text.split_once(':'));
    let (number, began) = known.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let same = process_began(number).as_deref() == Some(began);
    if same { Ok(()) } else { Err(io::Error::from_raw_os_error(2)) }
}

/// When a process began, in the kernel's own count.
#[must_use]
pub fn process_began(number: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

fn argument(name: &str, object: &OsStr) -> OsString {
    let mut argument = OsString::from(format!("{name}="));
    argument.push(object);
    argument
}

/// The command line that carries out acts, for a given program that is sbx.
#[must_use]
pub fn acting(program: &Path, acts: &[Act]) -> Vec<OsString> {
    let arguments = acts.iter().map(|act| argument(act.name, &act.object));
    [program.into(), WORD.into()].into_iter().chain(arguments).collect()
}

/// Carries out acts if this process was started for that; else returns at once.
#[must_use]
pub fn act(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != WORD {
        return None;
    }
    for argument in arguments {
        let bytes = argument.as_bytes();
        let at = bytes.iter().position(|byte| *byte == b'=').unwrap_or(bytes.len());
        let (name, object) = (&bytes[..at], OsStr::from_bytes(bytes.get(at + 1..).unwrap_or_default()));
        let Some((name, doing)) = DOINGS.iter().find(|(known, _)| known.as_bytes() == name) else {
            return Some(ExitCode::FAILURE);
        };
        let error = doing(object).err().map(|error| error.raw_os_error().unwrap_or(0));
        let line = json!({ "act": name, "error": error });
        if writeln!(io::stdout(), "{line}").is_err() {
            return Some(ExitCode::FAILURE);
        }
    }
    Some(ExitCode::SUCCESS)
}

/// What acts said of themselves, in order.
#[must_use]
pub fn told(output: &[u8]) -> Vec<Tried> {
    let text = String::from_utf8_lossy(output);
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).ok()?;
        let error = value.get("error")?.as_i64().and_then(|error| i32::try_from(error).ok());
        Some(Tried { name: value.get("act")?.as_str()?.to_owned(), error })
    };
    text.lines().filter_map(line).collect()
}

impl Act {
    /// An act.
    #[must_use]
    pub fn new(name: &'static str, object: impl Into<OsString>) -> Self {
        Self { name, object: object.into() }
    }

    /// Does it here and now, without any fence.
    ///
    /// # Errors
    /// What the kernel said, or that there is no such act.
    pub fn here(&self) -> io::Result<()> {
        let known = DOINGS.iter().find(|(name, _)| *name == self.name);
        known.map_or_else(
            || Err(io::Error::from(io::ErrorKind::Unsupported)),
            |(_, doing)| doing(&self.object),
        )
    }

    /// A connection.
    #[must_use]
    pub fn connect(address: SocketAddr) -> Self {
        Self::new("connect", address.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_act_is_told_in_order() {
        let output = b"{\"act\":\"read\",\"error\":null}\nnoise\n{\"act\":\"look\",\"error\":2}\n";
        let told = told(output);
        assert_eq!(told.len(), 2);
        assert_eq!((told[0].name.as_str(), told[0].error), ("read", None));
        assert_eq!((told[1].name.as_str(), told[1].error), ("look", Some(2)));
    }

    #[test]
    fn other_command_lines_are_not_taken_over() {
        assert!(act(["sbx", "exec"].map(OsString::from)).is_none());
        assert!(act(["sbx"].map(OsString::from)).is_none());
    }
}
