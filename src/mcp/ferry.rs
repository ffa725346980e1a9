//! Lines carried both ways, by one thread.
//!
//! Answers for which side is read and written when. It leaves judging lines to the [`Gate`], and the end of a server
//! to [`wrap`](super::wrap).
//! Invariant: it never waits for one side alone, so that neither holds the other up, and of what either says no more
//! than a line waits here.
//!
//! An answer mostly follows soon, and to be woken for it takes longer than all that is done to a line. So for a moment
//! after each line it is looked for the next one without going to sleep.

use super::gate::{Gate, Passage};
use super::protocol::{Fault, Line, LineReader};
use super::wrap::{Heard, Out};
use sbx_platform::ready::{Wanted, never_wait, ready, write_now};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How long it is looked for the next line before going to sleep: a little longer than it takes to wake a server on
/// another processor of a virtual machine, and to have its answer.
const BRISK: Duration = Duration::from_micros(100);
/// How long what a client said last may wait to be taken once it has left; clients wait two seconds for the end.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Pieces that are written before the other side has its turn.
const PIECES: usize = 64;

/// Something on its way to one side.
#[derive(Debug)]
enum Load {
    /// The line that the other side said last, as it is.
    AsIs,
    /// This instead.
    Text(String),
}

impl Load {
    fn bytes<'b>(&'b self, said: &'b LineReader<File>) -> &'b [u8] {
        match self {
            Self::AsIs => said.last_with_end(),
            Self::Text(text) => text.as_bytes(),
        }
    }
}

/// What carries lines between a client and a server.
#[derive(Debug)]
pub(super) struct Ferry<'a> {
    gate: &'a Gate,
    tell: Sender<Heard>,
    client: LineReader<File>,
    server: LineReader<File>,
    /// None once the client has no more to say, or the server takes nothing any more.
    to_server: Option<File>,
    inward: Option<Load>,
    inward_sent: usize,
    out: &'a Out,
    /// The way to the client, to see whether somebody is at its end.
    listener: File,
    /// The way to the client while something is on it: nobody else writes in the middle of a line.
    held: Option<MutexGuard<'a, File>>,
    outward: VecDeque<Load>,
    outward_sent: usize,
    /// Set when the client has no more to say.
    all_said: &'a AtomicBool,
    server_silent: bool,
    client_there: bool,
    /// Since when nobody adds to what the client said, and none of it was taken.
    left: Option<Instant>,
}

impl<'a> Ferry<'a> {
    /// Between this process's own streams and those of a server.
    ///
    /// # Errors
    /// When there is no standard input.
    pub(super) fn new(
        gate: &'a Gate,
        out: &'a Out,
        (to_server, from_server): (File, File),
        most: usize,
        all_said: &'a AtomicBool,
        tell: Sender<Heard>,
    ) -> io::Result<Self> {
        let client = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        // These ends are nobody else's; the client's may be.
        never_wait(to_server.as_fd())?;
        never_wait(from_server.as_fd())?;
        Ok(Self {
            gate,
            tell,
            client: LineReader::new(client, most),
            server: LineReader::new(from_server, most),
            to_server: Some(to_server),
            inward: None,
            inward_sent: 0,
            out,
            listener: File::from(io::stdout().as_fd().try_clone_to_owned()?),
            held: None,
            outward: VecDeque::new(),
            outward_sent: 0,
            all_said,
            server_silent: false,
            client_there: true,
            left: None,
        })
    }

    /// Carries lines until neither side has more. `meanwhile` is done every `pause`; what it says is for the client.
    ///
    /// # Errors
    /// When the system cannot tell which side is ready.
    pub(super) fn run(
        mut self,
        pause: Duration,
        mut meanwhile: impl FnMut() -> Vec<String>,
    ) -> io::Result<()> {
        // Where there is one processor, whoever is waited for needs it.
        let several = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        let mut now = Instant::now();
        let (mut brisk_until, mut again) = (now, now + pause);
        while !(self.is_all_said() && self.server_silent && self.outward.is_empty()) {
            if now >= again {
                self.outward.extend(meanwhile().into_iter().map(Load::Text));
                self.push_outward();
                self.wait_for_last_words(now);
                again = now + pause;
            }
            let patience =
                if now < brisk_until { Duration::ZERO } else { again.saturating_duration_since(now) };
            let stirred = self.step(patience)?;
            now = Instant::now();
            if stirred && several {
                brisk_until = now + BRISK;
            }
        }
        Ok(())
    }

    /// Waits until something can be done, and does it; whether somebody said something.
    fn step(&mut self, patience: Duration) -> io::Result<bool> {
        let [client, server, _, listener] = ready(self.wanted(), patience)?;
        let reads = self.reads_client();
        if client && !reads {
            self.left = Some(Instant::now());
        }
        if listener && self.outward.is_empty() {
            self.nobody_listens();
        }
        if client && reads && self.client.fill().is_err_and(|error| !is_later(&error)) {
            self.client_is_done();
        }
        if server && self.server.fill().is_err_and(|error| !is_later(&error)) {
            self.server_is_done();
        }
        self.push_inward();
        self.push_outward();
        while self.takes_inward() && self.take_inward() {
            self.push_inward();
            self.push_outward();
            self.gate.finish_record();
        }
        while self.takes_outward() && self.take_outward() {
            self.push_outward();
            self.gate.settle_many();
        }
        if self.client.is_done() && self.inward.is_none() {
            self.client_is_done();
        }
        if self.server.is_done() && self.outward.is_empty() {
            self.server_is_done();
        }
        Ok(client || server)
    }

    /// What is worth waking up for.
    fn wanted(&self) -> [Wanted<'_>; 4] {
        let pick = |wanted, so| if so { wanted } else { Wanted::Nothing };
        let server_reads = self.takes_outward() && !self.server_silent && !self.server.is_over();
        let to_server = self.to_server.as_ref().filter(|_| self.inward.is_some());
        let to_client = self.held.as_ref().filter(|_| !self.outward.is_empty());
        // A client may leave while nothing is read from it or written to it.
        let client = self.client.source().as_fd();
        let there = self.left.is_none() && !self.client.is_over() && !self.is_all_said();
        let client_left = pick(Wanted::Left(client), there);
        let listener_left = pick(Wanted::Left(self.listener.as_fd()), self.client_there);
        [
            if self.reads_client() { Wanted::Read(client) } else { client_left },
            pick(Wanted::Read(self.server.source().as_fd()), server_reads),
            to_server.map_or(Wanted::Nothing, |to| Wanted::Write(to.as_fd())),
            to_client.map_or(listener_left, |to| Wanted::Write(to.as_fd())),
        ]
    }

    /// Whether more of what the client says is read now.
    fn reads_client(&self) -> bool {
        self.takes_inward() && !self.is_all_said() && !self.client.is_over()
    }

    fn is_all_said(&self) -> bool {
        self.all_said.load(Ordering::Relaxed)
    }

    /// Whether a line of the client's can be taken: there is room for it and, if it is answered here, for the answer.
    fn takes_inward(&self) -> bool {
        self.inward.is_none() && self.outward.len() < 2
    }

    fn takes_outward(&self) -> bool {
        self.outward.is_empty()
    }

    /// Takes a line of the client's, if there is one.
    fn take_inward(&mut self) -> bool {
        let most = self.client.most();
        let passage = match self.client.take_line() {
            Some(Line::Whole(line)) => self.gate.from_client(line),
            Some(Line::TooLong { head, tail }) => {
                self.gate.refuse_from_client(&Fault::TooLong(most), head, tail)
            }
            Some(Line::Unfinished(rest)) => self.gate.refuse_from_client(&Fault::Unfinished, rest, &[]),
            None => return false,
        };
        self.left = None;
        match passage {
            Passage::AsIs => self.inward = Some(Load::AsIs),
            Passage::Instead(line) => self.inward = Some(Load::Text(line)),
            Passage::Back(line) => self.outward.push_back(Load::Text(line)),
            Passage::Dropped => {}
        }
        true
    }

    /// Takes a line of the server's, if there is one.
    fn take_outward(&mut self) -> bool {
        let most = self.server.most();
        let passage = match self.server.take_line() {
            Some(Line::Whole(line)) => self.gate.from_server(line),
            Some(Line::TooLong { head, tail }) => {
                self.gate.refuse_from_server(&Fault::TooLong(most), head, tail)
            }
            Some(Line::Unfinished(rest)) => self.gate.refuse_from_server(&Fault::Unfinished, rest, &[]),
            None => return false,
        };
        match passage {
            Passage::AsIs => self.outward.push_back(Load::AsIs),
            Passage::Instead(line) | Passage::Back(line) => self.outward.push_back(Load::Text(line)),
            Passage::Dropped => {}
        }
        true
    }

    /// Writes to the server what it takes now. One that is gone is noticed by its silence: what the client still says
    /// is not lost on the gate.
    fn push_inward(&mut self) {
        let Some(load) = &self.inward else { return };
        let before = self.inward_sent;
        let pushed = match &mut self.to_server {
            Some(to) => push(load.bytes(&self.client), &mut self.inward_sent, |rest| to.write(rest)),
            None => Ok(true),
        };
        if pushed.is_err() {
            self.to_server = None;
        }
        if self.inward_sent > before {
            self.left = None;
        }
        if pushed.unwrap_or(true) {
            (self.inward, self.inward_sent) = (None, 0);
        }
    }

    /// Writes to the client what it takes now. Without one the server is read on: one whose output nobody takes dies
    /// noisily in the middle of its own end.
    fn push_outward(&mut self) {
        while let Some(load) = self.outward.front() {
            let pushed = match self.client_there {
                true => {
                    let to = self.held.get_or_insert_with(|| self.out.lock());
                    push(load.bytes(&self.server), &mut self.outward_sent, |rest| write_now(to.as_fd(), rest))
                }
                false => Ok(true),
            };
            if pushed.is_err() {
                self.nobody_listens();
            }
            if !pushed.unwrap_or(true) {
                return;
            }
            (self.held, self.outward_sent) = (None, 0);
            self.outward.pop_front();
        }
    }

    fn nobody_listens(&mut self) {
        if std::mem::replace(&mut self.client_there, false) {
            let _ = self.tell.send(Heard::ClientGone);
        }
    }

    /// A client that has left is not kept waiting by a server that does not take its last words.
    fn wait_for_last_words(&mut self, now: Instant) {
        if self.left.is_some_and(|left| now.saturating_duration_since(left) >= LAST_WORDS) {
            self.left = None;
            let _ = self.tell.send(Heard::ClientGone);
        }
    }

    fn client_is_done(&mut self) {
        if !self.all_said.swap(true, Ordering::Release) {
            self.to_server = None;
            let _ = self.tell.send(Heard::ClientGone);
        }
    }

    fn server_is_done(&mut self) {
        if !std::mem::replace(&mut self.server_silent, true) {
            let _ = self.tell.send(Heard::ServerGone);
        }
    }
}

/// Writes on from `sent` as long as it need not wait; whether all is written.
fn push(
    bytes: &[u8],
    sent: &mut usize,
    mut write: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<bool> {
    for _ in 0..PIECES {
        if *sent == bytes.len() {
            return Ok(true);
        }
        match write(&bytes[*sent..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => *sent += written,
            Err(error) if is_later(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(*sent == bytes.len())
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
