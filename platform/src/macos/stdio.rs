//! The command's descriptors: handed in, relayed or captured.
//!
//! Answers for never handing a host file, a socket or the user's terminal inside, and for counting output. Relays
//! are threads; each ends with the bytes it moves.
//! Invariant: what is handed in is a pipe, the null device or a private terminal.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::process::Stdio as End;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::plan::{Pipe, Plan, Stdio};
use crate::terminal::copy_size;

const CHUNK: usize = 64 << 10;
/// How long output is waited for once everything that could be found has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is relayed for a command.
#[derive(Debug, Default)]
pub(super) struct Relays {
    /// Bytes of output so far.
    pub(super) written: Arc<AtomicU64>,
    /// Standard output and standard error, where they are captured or relayed, and what was captured so far.
    outputs: Vec<(RawFd, JoinHandle<()>, Captured)>,
}

impl Relays {
    /// Waits for what was written; answers with what was captured. A process that was not found may hold its end
    /// open for good, so the wait has an end too, and what had come by then is the answer.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<u8>) {
        let mut captured = (Vec::new(), Vec::new());
        let until = Instant::now() + PATIENCE;
        for (number, relay, kept) in self.outputs {
            while !relay.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
            let bytes = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
            if number == 1 { captured.0 = bytes } else { captured.1 = bytes }
        }
        captured
    }

    fn output(&mut self, number: RawFd, from: OwnedFd, to: Option<File>, most: u64) {
        let (written, kept) = (Arc::clone(&self.written), Captured::default());
        let into = to.map_or_else(|| Goal::Kept(Arc::clone(&kept)), Goal::File);
        let relay = std::thread::spawn(move || drain(File::from(from), into, &written, most));
        self.outputs.push((number, relay, kept));
    }
}

/// Bytes that go nowhere else, readable while they arrive.
type Captured = Arc<Mutex<Vec<u8>>>;

/// Where relayed bytes go.
enum Goal {
    File(File),
    Kept(Captured),
}

impl Goal {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(bytes),
            Self::Kept(kept) => {
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
                Ok(())
            }
        }
    }
}

/// The other end of a descriptor that a caller asked a pipe for.
pub(super) type Ours = Option<File>;

/// What descriptor `number` of the command is to be.
pub(super) fn arrange(
    plan: &Plan,
    number: RawFd,
    asked: Pipe,
    relays: &mut Relays,
) -> io::Result<(End, Ours)> {
    let most = plan.limits.output.unwrap_or(u64::MAX);
    if asked == Pipe::New {
        let (read, write) = pipe()?;
        let (own, other) = if number == 0 { (write, read) } else { (read, write) };
        return Ok((other.into(), Some(own.into())));
    }
    match (plan.stdio, number) {
        (Stdio::Pty, _) | (Stdio::Capture, 0) => Ok((End::null(), None)),
        (Stdio::Capture, _) => {
            let (read, write) = pipe()?;
            relays.output(number, read, None, most);
            Ok((write.into(), None))
        }
        (Stdio::Inherit, _) => inherit(plan, number, most, relays).map(|end| (end, None)),
    }
}

fn inherit(plan: &Plan, number: RawFd, most: u64, relays: &mut Relays) -> io::Result<End> {
    let Ok(own) = duplicate(number) else { return Ok(End::null()) };
    let own = File::from(own);
    let meta = own.metadata()?;
    let kind = meta.file_type();
    // A socket could be led elsewhere, in the network it was made in.
    let harmless = kind.is_fifo();
    let counted = number != 0 && plan.limits.output.is_some();
    if harmless && !counted {
        return Ok(own.into());
    }
    if is_null(&meta) {
        return Ok(End::null());
    }
    let (read, write) = pipe()?;
    if number == 0 {
        std::thread::spawn(move || drain(own, Goal::File(File::from(write)), &AtomicU64::new(0), u64::MAX));
        Ok(read.into())
    } else {
        relays.output(number, read, Some(own), most);
        Ok(write.into())
    }
}

fn is_null(meta: &std::fs::Metadata) -> bool {
    let null = std::fs::metadata("/dev/null");
    meta.file_type().is_char_device() && null.is_ok_and(|null| null.rdev() == meta.rdev())
}

/// Moves bytes until either side ends.
fn drain(mut from: File, mut to: Goal, written: &AtomicU64, most: u64) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let before = written.fetch_add(read as u64, Ordering::Relaxed);
        let room = usize::try_from(most.saturating_sub(before)).unwrap_or(usize::MAX);
        if to.take(&buffer[..read.min(room)]).is_err() {
            return;
        }
    }
}

/// A pipe that no other program started meanwhile inherits.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe()?;
    Ok((read.into(), write.into()))
}

fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes integers and answers with a new descriptor or an error.
    let new = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if new < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(new) })
}

/// A private terminal: our side, the command's side and its path.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) ours: File,
    pub(super) theirs: OwnedFd,
    pub(super) path: PathBuf,
}

impl Terminal {
    pub(super) fn open() -> io::Result<Self> {
        let (mut ours, mut theirs) = (-1, -1);
        let mut name: [libc::c_char; 128] = [0; 128];
        let none = std::ptr::null_mut();
        // SAFETY: both numbers and the name are writable; a terminal's path is shorter than the buffer; no mode and
        // no size are handed over.
        let made = unsafe {
            libc::openpty(&raw mut ours, &raw mut theirs, name.as_mut_ptr(), none, std::ptr::null_mut())
        };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the name was written by the call above and ends with a zero byte.
        let path = unsafe { CStr::from_ptr(name.as_ptr()) }.to_bytes();
        // SAFETY: the descriptor is new and nobody else's.
        let ours = unsafe { File::from_raw_fd(ours) };
        // SAFETY: as above.
        let theirs = unsafe { OwnedFd::from_raw_fd(theirs) };
        let path = PathBuf::from(OsStr::from_bytes(path));
        copy_size(0, ours.as_raw_fd());
        Ok(Self { ours, theirs, path })
    }

    /// Relays between this terminal and the user's own.
    pub(super) fn relay(&self, relays: &mut Relays, most: u64) -> io::Result<()> {
        let input = File::from(duplicate(0)?);
        let output = File::from(duplicate(1)?);
        let to = self.ours.try_clone()?;
        std::thread::spawn(move || drain(input, Goal::File(to), &AtomicU64::new(0), u64::MAX));
        relays.output(1, self.ours.try_clone()?.into(), Some(output), most);
        Ok(())
    }
}
