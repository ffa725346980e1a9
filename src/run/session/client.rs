//! Reaching a session's supervisor, and starting one where there is none.

use super::place::{SessionError, SessionPlace};
use super::wire::{Answer, Ask, Asked, receive, send};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often a supervisor that is coming or going is tried again.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(40);

/// A connection to a supervisor, good for one question.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    agent: Option<String>,
}

/// A hold on a session: it lasts at least as long as this.
#[derive(Debug)]
pub struct Lease {
    _stream: UnixStream,
    /// The session's private directory.
    pub dir: PathBuf,
}

fn unanswered(source: io::Error) -> SessionError {
    SessionError::Supervisor { what: "does not answer", source }
}

impl Client {
    /// Reaches a session that lives; none when there is none.
    ///
    /// # Errors
    /// When its place is not the user's own, or cannot be read.
    pub fn existing(id: &str, agent: Option<&str>) -> Result<Option<Self>, SessionError> {
        let place = SessionPlace::open(id)?;
        match UnixStream::connect(place.socket()) {
            Ok(stream) => Ok(Some(Self { stream, agent: agent.map(str::to_owned) })),
            Err(error) if is_absent(&error) => {
                // What a dead supervisor left, or the directory made just now, is removed.
                drop(place.take()?);
                Ok(None)
            }
            Err(source) => Err(unanswered(source)),
        }
    }

    /// Reaches a session, starting its supervisor where there is none.
    ///
    /// # Errors
    /// When its place is not the user's own, or no supervisor can be started.
    pub fn ensure(id: &str, agent: &str, idle: Option<Duration>) -> Result<Self, SessionError> {
        let mut last = io::Error::from(io::ErrorKind::TimedOut);
        for attempt in 0..ATTEMPTS {
            let place = SessionPlace::open(id)?;
            match UnixStream::connect(place.socket()) {
                Ok(stream) => return Ok(Self { stream, agent: Some(agent.to_owned()) }),
                Err(error) if is_absent(&error) => last = error,
                Err(source) => return Err(unanswered(source)),
            }
            drop(place);
            if attempt % 10 == 0 {
                start_supervisor(id, idle)?;
            } else {
                std::thread::sleep(PAUSE);
            }
        }
        Err(unanswered(last))
    }

    /// Asks.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn ask(mut self, ask: Ask) -> Result<Answer, SessionError> {
        self.exchange(ask).map_err(unanswered)
    }

    fn exchange(&mut self, ask: Ask) -> io::Result<Answer> {
        send(&mut self.stream, &Asked { agent: self.agent.clone(), ask })?;
        receive(&self.stream)
    }

    /// Holds on to the session.
    ///
    /// # Errors
    /// When there is no answer, or the session is another agent's.
    pub fn lease(mut self) -> Result<Result<Lease, Answer>, SessionError> {
        let answer = self.exchange(Ask::Lease).map_err(unanswered)?;
        let dir = answer.body["dir"].as_str().map(PathBuf::from);
        match dir.filter(|_| answer.ok) {
            Some(dir) => Ok(Ok(Lease { _stream: self.stream, dir })),
            None => Ok(Err(answer)),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Starts this program again as the session's supervisor and waits until it listens or gives up.
fn start_supervisor(id: &str, idle: Option<Duration>) -> Result<(), SessionError> {
    let failed = |source| SessionError::Supervisor { what: "cannot be started", source };
    let own = if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe().map_err(failed)?
    };
    let mut command = Command::new(own);
    command.args(["tools", "supervise", "--session", id]).current_dir("/");
    if let Some(idle) = idle {
        command.arg("--idle").arg(format!("{}ms", idle.as_millis()));
    }
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(failed)?;
    // One line says that it listens; the end of the pipe, that it will not.
    let mut word = [0; 1];
    if let Some(mut stdout) = child.stdout.take() {
        let _ = stdout.read(&mut word);
    }
    Ok(())
}
