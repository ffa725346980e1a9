//! A server from its first line to its last: streams, signals, files that change, and the end.
//!
//! Answers for reading no more than can be worked on, for writing lines whole, and for nothing being left behind. It
//! leaves what a line means to [`server`](super::server).
//! Invariant: the end of the input or a signal ends every call and everything that was left running.

use super::pool::Pool;
use super::scene::{Means, Source};
use super::server::{Handled, Server};
use crate::audit::{Event, Sink, new_session};
use crate::mcp::gate::Teller;
use crate::mcp::protocol::{Fault, Line, LineReader};
use crate::mcp::watch::{PAUSE, Stamp, stamps};
use crate::mcp::wrap::{Out, Patient};
use crate::run::Setting;
use crate::run::session::sweep;
use sbx_platform::{Backend, Signals};
use serde_json::json;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// Calls that run at a time.
const WORKERS: usize = 32;
/// Calls that are answered without starting anything, at a time.
const QUICK: usize = 2;
/// How long calls may take to end by themselves once the client has no more to say. It may still read; one that does
/// not want to wait sends a signal.
const GRACE: Duration = Duration::from_secs(5);
/// How long calls that were ended may take to be gone.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How often calls that go on are looked at.
const TICK: Duration = Duration::from_millis(250);

/// What is served, and how.
#[derive(Debug)]
pub struct Serve {
    /// The world at the start.
    pub setting: Setting,
    /// The agent's name, or the path of its record.
    pub agent: String,
    /// Where calls are made.
    pub cwd: PathBuf,
    /// How the fence is built; none for the strongest that works.
    pub backend: Option<Backend>,
    /// Guarantees that are done without.
    pub accepted: Vec<String>,
    /// The longest line that is taken.
    pub most: usize,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The record is not right.
    #[error("{0}")]
    Scene(String),
    /// The streams cannot be had.
    #[error("cannot reach the streams to the client")]
    Streams(#[from] io::Error),
    /// What cannot be recorded is not served.
    #[error("the start cannot be recorded, so nothing is served")]
    Audit(#[source] io::Error),
}

/// Why a server ends.
enum Ending {
    /// The client has no more to say, or hears nothing more.
    ClientGone,
    Signal(i32),
}

impl Serve {
    /// Serves this process's own streams until the client is gone or a signal comes; the status a shell would see.
    ///
    /// # Errors
    /// When nothing could be served.
    pub fn run(self, log: Arc<dyn Sink>, teller: Arc<dyn Teller>) -> Result<u8, ServeError> {
        // Before any thread is started, so that the signals come to us and to nobody else; a remark starts one.
        let signals = Signals::collect().ok();
        sweep();
        let mut source = Source::new(self.setting, self.agent, self.cwd.clone());
        let (scene, changes) = source.load().map_err(ServeError::Scene)?;
        for change in changes {
            teller.tell(&format!("{}: {}", change.file.display(), change.message));
        }
        // Once more with the files' stamps known, so that no change in between is missed.
        let seen = stamps(&source.files(&scene));
        let (scene, _) = source.load().map_err(ServeError::Scene)?;
        let (agent, session) = (scene.agent().to_owned(), new_session());
        teller.tell(&scene.rules.allowlist.summary());
        let begun = json!({ "server": "sbx", "serves": session, "cwd": self.cwd.to_string_lossy() });
        log.record(Event::new("mcp", &agent, begun)).map_err(ServeError::Audit)?;
        let means = Means::new(&session, self.backend, self.accepted, Arc::clone(&log));
        let server = Server::new(scene, means, Arc::clone(&teller));
        let out = Out::to_client()?;
        let (tell, heard) = channel();
        read(&server, &out, &tell, self.most);
        signals.into_iter().for_each(|signals| collect(signals, tell.clone()));
        tick(&server, &out);
        watch(source, seen, &server, &out, teller);
        let status = match heard.recv() {
            Ok(Ending::Signal(number)) => u8::try_from(128 + number).unwrap_or(u8::MAX),
            Ok(Ending::ClientGone) | Err(_) => {
                server.calls.ended_within(GRACE);
                0
            }
        };
        server.calls.cancel_all();
        server.calls.ended_within(PATIENCE);
        server.means().session().close();
        let _ = log.record(Event::new("mcp", &agent, json!({ "server": "sbx", "served": session })));
        Ok(status)
    }
}

/// Reads lines and has them worked on, until there are no more.
fn read(server: &Arc<Server>, out: &Out, tell: &Sender<Ending>, most: usize) {
    let (server, out, tell) = (Arc::clone(server), out.clone(), tell.clone());
    let (slow, quick) = (Pool::new(WORKERS), Pool::new(QUICK));
    thread::spawn(move || {
        let mut reader = LineReader::new(Patient(io::stdin()), most);
        loop {
            let handled = match reader.next_line() {
                Ok(Some(Line::Whole(line))) => server.handle(line),
                Ok(Some(Line::TooLong { head, .. })) => server.refuse(&Fault::TooLong(most), head),
                Ok(Some(Line::Unfinished(rest))) => server.refuse(&Fault::Unfinished, rest),
                Ok(None) | Err(_) => break,
            };
            match handled {
                Handled::Nothing => {}
                Handled::Answer(line) => {
                    if out.write(line.as_bytes()).is_err() {
                        break;
                    }
                }
                Handled::Call(job) => {
                    let pool = if job.is_quick() { &quick } else { &slow };
                    let (out, tell) = (out.clone(), tell.clone());
                    pool.submit(
                        job.bytes,
                        Box::new(move || {
                            job.run(&|line| {
                                if out.write(line.as_bytes()).is_err() {
                                    let _ = tell.send(Ending::ClientGone);
                                }
                            });
                        }),
                    );
                }
            }
        }
        let _ = tell.send(Ending::ClientGone);
    });
}

fn collect(signals: Signals, tell: Sender<Ending>) {
    thread::spawn(move || {
        loop {
            if let Some(number) = signals.next_within(Duration::from_secs(3600))
                && tell.send(Ending::Signal(number)).is_err()
            {
                return;
            }
        }
    });
}

/// Tells clients that want to know of calls that go on.
fn tick(server: &Arc<Server>, out: &Out) {
    let (server, out) = (Arc::clone(server), out.clone());
    thread::spawn(move || {
        loop {
            thread::sleep(TICK);
            // A client that is gone is noticed by whoever answers it.
            server.calls.tell_progress(&|line| drop(out.write(line.as_bytes())));
        }
    });
}

/// Takes up files that change, once they stand still.
fn watch(mut source: Source, mut read: Vec<Stamp>, server: &Arc<Server>, out: &Out, teller: Arc<dyn Teller>) {
    let (server, out) = (Arc::clone(server), out.clone());
    thread::spawn(move || {
        let mut last = read.clone();
        loop {
            thread::sleep(PAUSE);
            let now = stamps(&source.files(&server.scene()));
            let still = now == last;
            last.clone_from(&now);
            if now == read || !still {
                continue;
            }
            read = now;
            match source.load() {
                Ok((scene, changes)) => {
                    let summary = format!("reloaded: {}", scene.rules.allowlist.summary());
                    let changed = server.swap(scene);
                    // Whoever hears of the new scene is judged by it.
                    for change in changes {
                        teller.tell(&format!("{}: {}", change.file.display(), change.message));
                    }
                    teller.tell(&summary);
                    let lines = if changed { server.notices.list_changed() } else { Vec::new() };
                    lines.iter().for_each(|line| drop(out.write(line.as_bytes())));
                }
                Err(error) => {
                    teller.tell(&format!("error: not reloaded, the agent stays as it was: {error}"));
                }
            }
        }
    });
}
