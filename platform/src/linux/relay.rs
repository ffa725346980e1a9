//! Moving bytes between the host's descriptors and the command's.
//!
//! Answers for relaying and counting. It leaves the order of events to the supervisor.
//! Invariant: a host file, a terminal or a socket that could be led elsewhere is never handed inside, a slow reader never
//! stops the supervisor, and what goes to one place keeps its order.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::error::PlatformError;
use crate::linux::input::Input;
use crate::linux::sys::{check_int, fd, inet, number};
use crate::plan::{Plan, Stdio};
use crate::report::{Lost, Stream};

/// Bytes moved at once.
const CHUNK: usize = 64 << 10;
/// Bytes a pipe that says "writable" takes without waiting.
const PIPE_CHUNK: usize = 4096;
/// Captured output when the plan names no limit.
pub(crate) const OUTPUT_DEFAULT: u64 = 8 << 20;

/// Where relayed bytes come from.
#[derive(Debug)]
enum From {
    Host(RawFd, Input),
    Own(OwnedFd),
}

/// Where relayed bytes go.
#[derive(Debug)]
enum To {
    Host(RawFd),
    Own(OwnedFd),
    Memory(Vec<u8>),
}

impl To {
    /// A descriptor of the host. A terminal is opened once more, not to be waited for: it may say that there is room,
    /// take a part and keep a writer until somebody lets it go on.
    fn host(number: RawFd) -> Self {
        let again = || {
            // SAFETY: only asks.
            check_int(unsafe { libc::isatty(number) }).ok().filter(|is| *is == 1)?;
            let name = CString::new(format!("/proc/self/fd/{number}")).ok()?;
            fd::open(fd::cwd(), &name, libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY, 0).ok()
        };
        again().map_or(Self::Host(number), Self::Own)
    }
}

/// One direction.
#[derive(Debug)]
pub(crate) struct Relay {
    from: Option<From>,
    to: Option<To>,
    /// Where they came from, when nothing more does.
    read: Option<From>,
    held: Vec<u8>,
    chunk: usize,
    /// The stream of output these bytes are of, if they are output.
    output: Option<Stream>,
    /// The first error in writing them, but for that of a reader who is gone.
    error: Option<i32>,
}

/// The command's descriptors and what has to be relayed for them.
#[derive(Debug)]
pub(crate) struct Arranged {
    /// Descriptors 0, 1 and 2 of the command.
    pub(crate) ends: [OwnedFd; 3],
    /// Standard input, output and error, as far as they are relayed; output and error by one where both lead to one place.
    pub(crate) relays: Vec<Relay>,
}

/// Decides for each of 0, 1, 2 whether it is handed in or relayed.
pub(crate) fn arrange(plan: &Plan) -> Result<Arranged, PlatformError> {
    let mut relays = Vec::new();
    let wrap =
        |number: RawFd| move |error| PlatformError::on("arrange descriptor", number.to_string(), error);
    let input = one(plan, 0, &mut relays).map_err(wrap(0))?;
    let output = one(plan, 1, &mut relays).map_err(wrap(1))?;
    let errors = if go_together(plan, &relays) {
        fd::dup_above(output.as_raw_fd(), 3)
    } else {
        one(plan, 2, &mut relays)
    };
    Ok(Arranged { ends: [input, output, errors.map_err(wrap(2))?], relays })
}

/// Whether errors are relayed with the output: two pipes would not tell what of both was written first.
fn go_together(plan: &Plan, relays: &[Relay]) -> bool {
    let relayed = relays.last().is_some_and(Relay::is_output);
    plan.stdio == Stdio::Inherit && relayed && lead_together(1, 2).unwrap_or(false)
}

/// Whether what is written to either comes to stand behind what was written to the other before: both are one opening, or
/// lead to something that is only ever written at its end. Two openings of a file write over each other, each at its own
/// position, and go on doing so.
fn lead_together(one: RawFd, other: RawFd) -> io::Result<bool> {
    let place = |number| fd::stat(number).map(|found| (found.st_dev, found.st_ino));
    let flags = fd::flags(one)?;
    if place(one)? != place(other)? || flags != fd::flags(other)? {
        return Ok(false);
    }
    let at = fd::position(one).ok();
    let at_its_end = flags & libc::O_APPEND != 0 || at.is_none();
    // Where the kernel does not tell openings apart, those that stand at one position are taken for one: written apart,
    // one of them would be lost under the other.
    let is_one = || fd::is_one_opening(one, other).unwrap_or_else(|_| at == fd::position(other).ok());
    Ok(at_its_end || is_one())
}

fn one(plan: &Plan, number: RawFd, relays: &mut Vec<Relay>) -> io::Result<OwnedFd> {
    let input = number == 0;
    match plan.stdio {
        Stdio::Pty => null(),
        Stdio::Capture if input => null(),
        Stdio::Capture => {
            let (read, write) = fd::pipe()?;
            relays.push(Relay::output(read, To::Memory(Vec::new()), number)?);
            Ok(write)
        }
        Stdio::Inherit => {
            let counted = !input && plan.limits.output.is_some();
            match kind(number)? {
                Kind::Absent | Kind::Null => null(),
                Kind::Pipe if !counted => fd::dup_above(number, 3),
                Kind::Pipe | Kind::Other => {
                    let (read, write) = fd::pipe()?;
                    if input {
                        fd::set_nonblocking(write.as_raw_fd())?;
                        let from = From::Host(0, Input::of(0, &read)?);
                        relays.push(Relay::new(from, To::Own(write), None));
                        return Ok(read);
                    }
                    relays.push(Relay::output(read, To::host(number), number)?);
                    Ok(write)
                }
            }
        }
    }
}

/// The relays of a private terminal.
pub(crate) fn terminal(master: OwnedFd) -> io::Result<[Relay; 2]> {
    let copy = fd::dup_above(master.as_raw_fd(), 3)?;
    let output = Relay::new(From::Own(master), To::host(1), Some(Stream::Output));
    Ok([Relay::new(From::Host(0, Input::Terminal), To::Own(copy), None), output])
}

fn null() -> io::Result<OwnedFd> {
    fd::open(fd::cwd(), c"/dev/null", libc::O_RDWR, 0)
}

enum Kind {
    Absent,
    Null,
    Pipe,
    Other,
}

fn kind(number: RawFd) -> io::Result<Kind> {
    let found = match fd::stat(number) {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => return Ok(Kind::Absent),
        other => other?,
    };
    Ok(match found.st_mode & libc::S_IFMT {
        // One with a name is a file of the host, whose mode and times could be changed through it.
        libc::S_IFIFO if fd::is_unnamed(number)? => Kind::Pipe,
        libc::S_IFSOCK if inet::is_joined(number) => Kind::Pipe,
        libc::S_IFCHR if found.st_rdev == libc::makedev(1, 3) => Kind::Null,
        _ => Kind::Other,
    })
}

impl Relay {
    fn new(from: From, to: To, output: Option<Stream>) -> Self {
        let target = match &to {
            To::Host(raw) => Some(*raw),
            To::Own(own) => Some(own.as_raw_fd()),
            To::Memory(_) => None,
        };
        let regular = target
            .and_then(|raw| fd::stat(raw).ok())
            .is_some_and(|found| found.st_mode & libc::S_IFMT == libc::S_IFREG);
        let chunk = if target.is_none() || regular { CHUNK } else { PIPE_CHUNK };
        Self { from: Some(from), to: Some(to), read: None, held: Vec::new(), chunk, output, error: None }
    }

    fn output(read: OwnedFd, to: To, number: RawFd) -> io::Result<Self> {
        fd::set_nonblocking(read.as_raw_fd())?;
        let stream = if number == libc::STDERR_FILENO { Stream::Error } else { Stream::Output };
        Ok(Self::new(From::Own(read), to, Some(stream)))
    }

    /// Whether these bytes count as output.
    pub(crate) fn is_output(&self) -> bool {
        self.output.is_some()
    }

    /// What could not be written, if something could not.
    pub(crate) fn lost(&self) -> Option<Lost> {
        Some(Lost { stream: self.output?, errno: self.error? })
    }

    /// What to wait for: the source while nothing is held, the target while something is.
    pub(crate) fn wants(&self) -> libc::pollfd {
        let (fd, events) = match (&self.from, &self.to) {
            (_, Some(to)) if !self.held.is_empty() => match to {
                To::Host(raw) => (*raw, libc::POLLOUT),
                To::Own(own) => (own.as_raw_fd(), libc::POLLOUT),
                To::Memory(_) => (-1, 0),
            },
            (Some(from), Some(_)) if !from.is_behind() => (from.raw(), libc::POLLIN),
            _ => (-1, 0),
        };
        libc::pollfd { fd, events, revents: 0 }
    }

    /// Whether this is the caller's terminal, and somebody else is in front of it: of the end of that nobody tells.
    pub(crate) fn is_behind(&self) -> bool {
        self.held.is_empty() && self.to.is_some() && self.from.as_ref().is_some_and(From::is_behind)
    }

    /// All has ended: what was read from the caller's file and taken by nobody is left in it.
    pub(crate) fn give_back(&self) {
        if let Some(From::Host(raw, input)) = self.from.as_ref().or(self.read.as_ref()) {
            input.give_back(*raw, self.held.len());
        }
    }

    /// Moves what can be moved without waiting; answers with the bytes read.
    pub(crate) fn step(&mut self) -> usize {
        if !self.held.is_empty() {
            self.push();
            return 0;
        }
        let Some(from) = self.from.as_ref().filter(|from| !from.is_behind()) else { return 0 };
        let room = match &mut self.to {
            Some(To::Memory(all)) => all,
            Some(To::Host(_) | To::Own(_)) | None => &mut self.held,
        };
        match fd::read_more(from.raw(), room, CHUNK) {
            Ok(0) => {
                self.close();
                0
            }
            Ok(length) => length,
            Err(error) if is_later(&error) => 0,
            Err(_) => {
                self.close();
                0
            }
        }
    }

    fn push(&mut self) {
        let to = match &self.to {
            Some(To::Host(raw)) => *raw,
            Some(To::Own(own)) => own.as_raw_fd(),
            Some(To::Memory(_)) | None => return,
        };
        let length = self.held.len().min(self.chunk);
        match fd::write(to, &self.held[..length]) {
            Ok(written) => drop(self.held.drain(..written)),
            Err(error) if is_later(&error) => {}
            Err(error) => {
                // A reader who is gone wants no more.
                let errno = number(&error);
                self.error = Some(errno).filter(|errno| *errno != libc::EPIPE);
                self.held.clear();
                self.close();
            }
        }
    }

    /// Nothing more comes: lets go of both ends, except what was collected.
    fn close(&mut self) {
        if let Some(from @ From::Host(..)) = self.from.take() {
            self.read = Some(from);
        }
        if !matches!(self.to, Some(To::Memory(_))) {
            self.to = None;
        }
    }

    /// Whether anything may still move.
    pub(crate) fn is_open(&self) -> bool {
        self.from.is_some() || !self.held.is_empty() && self.to.is_some()
    }

    /// Nothing more is taken in; what is held still goes out.
    pub(crate) fn read_no_more(&mut self) {
        self.from = None;
    }

    /// Drops the last of a piece of output, so that a limit is kept to the byte.
    pub(crate) fn cut(&mut self, surplus: usize) {
        let bytes = match &mut self.to {
            Some(To::Memory(all)) => all,
            Some(To::Host(_) | To::Own(_)) | None => &mut self.held,
        };
        bytes.truncate(bytes.len().saturating_sub(surplus));
    }

    /// What was collected in memory.
    pub(crate) fn collected(self) -> Option<Vec<u8>> {
        match self.to {
            Some(To::Memory(all)) => Some(all),
            Some(To::Host(_) | To::Own(_)) | None => None,
        }
    }
}

impl From {
    fn raw(&self) -> RawFd {
        match self {
            Self::Host(raw, _) => *raw,
            Self::Own(own) => own.as_raw_fd(),
        }
    }

    fn is_behind(&self) -> bool {
        match self {
            Self::Host(raw, input) => input.is_behind(*raw),
            Self::Own(_) => false,
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn together(one: &OwnedFd, other: &OwnedFd) -> bool {
        lead_together(one.as_raw_fd(), other.as_raw_fd()).expect("told")
    }

    #[test]
    fn what_is_one_opening_or_is_written_at_its_end_only_leads_together() {
        let path = std::env::temp_dir().join(format!("sbx-together-{}", std::process::id()));
        let name = CString::new(path.to_str().expect("text")).expect("a path");
        let open = |flags| fd::open(fd::cwd(), &name, flags | libc::O_CREAT, 0o600).expect("opened");
        let copy = |of: &OwnedFd| fd::dup_above(of.as_raw_fd(), 3).expect("copied");
        let (file, appended) = (open(libc::O_WRONLY), open(libc::O_WRONLY | libc::O_APPEND));
        fd::write(file.as_raw_fd(), b"some").expect("written");
        assert!(together(&file, &copy(&file)));
        // At another position, and in another way.
        assert!(!together(&file, &open(libc::O_WRONLY)) && !together(&file, &appended));
        fd::write(appended.as_raw_fd(), b"more").expect("written");
        assert!(together(&appended, &open(libc::O_WRONLY | libc::O_APPEND)));
        std::fs::remove_file(&path).expect("removed");

        let ((read, write), (_other, others)) = (fd::pipe().expect("a pipe"), fd::pipe().expect("a pipe"));
        assert!(together(&write, &copy(&write)));
        assert!(!together(&write, &others) && !together(&write, &read));
    }
}
