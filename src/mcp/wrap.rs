//! A fenced server and the streams around its gate.
//!
//! Answers for the end of either side, and for nothing being left behind. It leaves carrying lines to the [`Ferry`],
//! judging them to the [`Gate`] and the fence to the platform.
//! Invariant: no line reaches the server or the client except through the gate; no queue is unbounded.

use super::ferry::Ferry;
use super::gate::{Gate, Teller};
use super::protocol::{Kind, Line, LineReader, Message, error_line};
use super::watch::{PAUSE, Watch};
use sbx_platform::ready::{Wanted, ready, write_now};
use sbx_platform::{Child, Outcome, PlatformError, Signals};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to end by itself once the client is gone; clients wait two seconds themselves.
const GRACE: Duration = Duration::from_millis(1500);
/// How long one that was told to end may take.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long requests that are already on their way are waited for when there is no server to answer them.
const LATE: Duration = Duration::from_millis(250);
/// How long a client is waited for to read the last that it is told.
pub(super) const PARTING: Duration = Duration::from_millis(500);
/// How long a client is answered for whom no server could be started: it may try one era after the other.
const DECLINING: Duration = Duration::from_secs(1);
const SIGTERM: i32 = 15;

/// What the wrap hears of.
#[derive(Debug)]
pub(super) enum Heard {
    ClientGone,
    ServerGone,
    Signal(i32),
}

/// The way to the client, shared by all who write to it: a line is written whole or not at all.
#[derive(Clone, Debug)]
pub(super) struct Out(Arc<Mutex<File>>);

impl Out {
    pub(super) fn to_client() -> io::Result<Self> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        write_whole(&mut *self.lock(), bytes)
    }

    /// Writes for a client that may not read any more, while somebody may be in the middle of a line to it.
    pub(super) fn write_until(&self, until: Instant, bytes: &[u8]) -> io::Result<()> {
        let to = loop {
            match self.0.try_lock() {
                Ok(to) => break to,
                Err(TryLockError::Poisoned(to)) => break to.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(ErrorKind::TimedOut.into());
                }
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            }
        };
        write_until(to.as_fd(), until, bytes)
    }

    /// The way to the client, for whoever writes a line piece by piece.
    pub(super) fn lock(&self) -> MutexGuard<'_, File> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes everything, also to a pipe whose other end made it non-blocking.
fn write_whole(to: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes everything that is taken until then.
pub(super) fn write_until(to: BorrowedFd<'_>, until: Instant, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write_now(to, bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(ErrorKind::TimedOut.into());
                }
                ready([Wanted::Write(to)], left)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads, also from a pipe whose other end made it non-blocking.
pub(super) struct Patient<R>(pub(super) R);

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    thread::sleep(Duration::from_millis(1))
                }
                other => return other,
            }
        }
    }
}

/// Carries lines between this process's own streams and a server until one side ends.
///
/// # Errors
/// When the streams cannot be had, or the launcher failed.
pub(super) fn carry(
    mut child: Child,
    signals: Signals,
    gate: Arc<Gate>,
    mut watch: Watch,
    teller: Arc<dyn Teller>,
    out: Out,
    most: usize,
) -> Result<Carried, WrapError> {
    let (Some(to_server), Some(from_server)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::from(ErrorKind::BrokenPipe).into());
    };
    let (tell, heard) = channel();
    let all_said = Arc::new(AtomicBool::new(false));
    spawn_signals(signals, tell.clone());
    {
        let all_said = Arc::clone(&all_said);
        thread::spawn(move || {
            let streams = (to_server, from_server);
            let ferried = Ferry::new(&gate, &out, streams, most, &all_said, tell.clone())
                .and_then(|ferry| ferry.run(PAUSE, || look_around(&mut watch, &gate, teller.as_ref())));
            if let Err(error) = ferried {
                teller.tell(&format!("error: lines are not carried any more: {error}"));
                let _ = tell.send(Heard::ClientGone);
            }
        });
    }
    let outcome = see_out(child, &heard)?;
    Ok(Carried { outcome, all_said })
}

/// How a server that was carried to its end fared.
pub(super) struct Carried {
    /// How it ended.
    pub(super) outcome: Outcome,
    /// Whether the client had nothing more to say, so that nothing of its can be on its way.
    all_said: Arc<AtomicBool>,
}

impl Carried {
    /// Waits for what the client has sent in the meantime, unless there is no more of it.
    pub(super) fn hear_out(&self) {
        let until = Instant::now() + LATE;
        while !self.all_said.load(Ordering::Acquire) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Tells the client why its requests stay unanswered, if it still reads.
pub(super) fn farewell(gate: &Gate, out: &Out, why: &str) {
    let (lines, until) = (gate.farewell(why).concat(), Instant::now() + PARTING);
    let _ = out.write_until(until, lines.as_bytes());
}

/// Answers the requests of a client for whom no server could be started, for a moment.
pub fn decline(why: &str) {
    let (tell, heard) = channel();
    let text = why.to_owned();
    thread::spawn(move || {
        let Ok(out) = Out::to_client() else { return };
        let mut reader = LineReader::new(Patient(io::stdin()), 1 << 20);
        while let Ok(Some(line)) = reader.next_line() {
            let Line::Whole(line) = line else { continue };
            if let Ok(Message { kind: Kind::Request { id, .. }, .. }) = Message::read(line) {
                let line = error_line(Some(id.spelled()), super::protocol::INTERNAL_ERROR, &text, None);
                if out.write(line.as_bytes()).is_err() || tell.send(()).is_err() {
                    return;
                }
            }
        }
    });
    let until = Instant::now() + DECLINING;
    // A client that asks nothing is not waited for so long.
    let mut patience = LATE;
    while heard.recv_timeout(patience).is_ok() {
        patience = until.saturating_duration_since(Instant::now());
    }
}

/// Why a server could not be wrapped to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WrapError {
    /// The streams cannot be had.
    #[error("cannot reach the streams between client and server")]
    Streams(#[from] io::Error),
    /// The launcher failed.
    #[error(transparent)]
    Platform(#[from] PlatformError),
}

fn spawn_signals(signals: Signals, tell: Sender<Heard>) {
    thread::spawn(move || {
        loop {
            if let Some(number) = signals.next_within(Duration::from_secs(3600))
                && tell.send(Heard::Signal(number)).is_err()
            {
                return;
            }
        }
    });
}

/// Waits for the end, and hastens it when one side is gone.
fn see_out(mut child: Child, heard: &Receiver<Heard>) -> Result<Outcome, PlatformError> {
    let mut told_to_end: Option<Instant> = None;
    let mut ends_at: Option<Instant> = None;
    loop {
        let event = match ends_at {
            None => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => heard.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match event {
            Ok(Heard::ClientGone) => {
                ends_at.get_or_insert_with(|| Instant::now() + GRACE);
            }
            Ok(Heard::ServerGone) => {
                if child.ends_within(GRACE) {
                    return child.wait();
                }
                ends_at = Some(Instant::now());
            }
            Ok(Heard::Signal(number)) => {
                let _ = child.signal(number);
                told_to_end = Some(Instant::now());
                ends_at = Some(Instant::now() + PATIENCE);
            }
            Err(_) if child.ends_within(Duration::ZERO) => return child.wait(),
            Err(_) if told_to_end.is_none() => {
                let _ = child.signal(SIGTERM);
                told_to_end = Some(Instant::now());
                ends_at = Some(Instant::now() + PATIENCE);
            }
            Err(_) => {
                child.kill();
                return child.wait();
            }
        }
    }
}

/// What is done from time to time: old ends of calls are kept, and other rules taken up. What the client is to hear.
fn look_around(watch: &mut Watch, gate: &Gate, teller: &dyn Teller) -> Vec<String> {
    gate.settle_old();
    if watch.look(gate, teller) { gate.list_changed() } else { Vec::new() }
}
