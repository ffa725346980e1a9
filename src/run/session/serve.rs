//! The supervisor of one session: holds its processes and answers its clients, until nobody needs it.
//!
//! Answers for the session's end: by word, when nobody has asked for long, or with this process. It leaves deciding
//! to the same code that every call goes through.
//! Invariant: a session is one agent's, and only its owner's clients reach it.

use super::place::{SessionError, SessionPlace, Taken};
use super::wire::{Answer, Ask, Asked, StartAsk, receive, send};
use super::{Session, Status};
use crate::run::live::LiveFor;
use crate::run::record::audit;
use crate::run::setting::Setting;
use crate::run::tools::{Caller, Catalogue, Stop};
use crate::text::Source;
use crate::tool::{Given, Layer, Tool, read_definitions};
use sbx_platform::Backend;
use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How long a session lives that nobody asks anything of.
pub const IDLE: Duration = Duration::from_secs(30 * 60);
/// Connections that wait to be served.
const WAITING: usize = 16;
/// The most files of tools one session takes.
const MOST_FILES: usize = 64;

/// Supervises a session until it ends; `ready` is called when clients can come.
///
/// # Errors
/// When the session's place cannot be had. One that has a supervisor already is fine.
pub fn supervise(id: &str, idle: Duration, ready: impl FnOnce()) -> Result<(), SessionError> {
    let place = SessionPlace::open(id)?;
    let path = place.socket();
    let Some(taken) = place.take()? else { return Ok(()) };
    let failed = |source| SessionError::State { path: path.clone(), source };
    let listener = UnixListener::bind(taken.place.socket()).map_err(failed)?;
    let _ = sbx_platform::own::leave_session();
    let (send, queue) = sync_channel(WAITING);
    std::thread::spawn(move || accept(&listener, &send));
    ready();
    let setting = Setting::from_env().ok();
    let sink: Arc<dyn crate::audit::Sink> = match &setting {
        Some(setting) => audit(setting),
        None => Arc::new(crate::audit::Nowhere),
    };
    let session = Session::new(id, sink.clone());
    Server {
        taken,
        session,
        sink,
        agent: None,
        files: Vec::new(),
        tools: Vec::new(),
        catalogue: None,
        leases: Arc::default(),
    }
    .serve(&queue, idle);
    Ok(())
}

fn accept(listener: &UnixListener, queue: &SyncSender<UnixStream>) {
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => {
                if queue.send(stream).is_err() {
                    return;
                }
            }
            // Out of descriptors or the like; it may get better.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The fields are dropped in this order: processes end before their state is forgotten.
#[derive(Debug)]
struct Server {
    session: Session,
    taken: Taken,
    sink: Arc<dyn crate::audit::Sink>,
    agent: Option<String>,
    files: Vec<(String, String)>,
    tools: Vec<Tool>,
    /// Kept from call to call, so that a file that is broken by an edit keeps its last good tools.
    catalogue: Option<Catalogue>,
    leases: Arc<AtomicUsize>,
}

impl Server {
    fn serve(mut self, queue: &Receiver<UnixStream>, idle: Duration) {
        let mut deadline = Instant::now() + idle;
        loop {
            match queue.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(stream) => {
                    if self.answer(stream) {
                        return;
                    }
                    deadline = Instant::now() + idle;
                }
                Err(RecvTimeoutError::Timeout) if self.leases.load(Ordering::Relaxed) > 0 => {
                    deadline = Instant::now() + idle;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Answers one client; whether the session is to end.
    fn answer(&mut self, mut stream: UnixStream) -> bool {
        let Ok(asked) = receive::<Asked>(&stream) else { return false };
        let closes = matches!(asked.ask, Ask::Close);
        let leases = matches!(asked.ask, Ask::Lease);
        let answer = self.judge(asked);
        let ends = closes && answer.ok;
        if ends {
            self.session.processes.stop_all();
        }
        let sent = send(&mut stream, &answer);
        if leases && answer.ok && sent.is_ok() {
            let held = Arc::clone(&self.leases);
            held.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let _ = stream.set_read_timeout(None);
                let _ = stream.read(&mut [0; 1]);
                held.fetch_sub(1, Ordering::Relaxed);
            });
        }
        ends
    }

    fn judge(&mut self, asked: Asked) -> Answer {
        let agent = asked.agent;
        if let (Some(own), Some(agent)) = (&self.agent, &agent)
            && own != agent
        {
            return error(format!("the session `{}` is {own}'s, not {agent}'s", self.session.id()));
        }
        let answer = match asked.ask {
            Ask::Start(start) => match &agent {
                Some(agent) => self.start(agent, &start),
                None => error("a start is on behalf of an agent".to_owned()),
            },
            Ask::Status { tool: Some(tool) } => told(self.session.status(&tool)),
            Ask::Status { tool: None } => {
                let all: Vec<Value> = self.session.all().iter().map(Status::to_json).collect();
                fine(json!({ "session": self.session.id(), "agent": self.agent, "processes": all }))
            }
            Ask::Stop { tool } => {
                let stopped = self.session.stop(&tool);
                if stopped.is_ok() {
                    let body = json!({ "act": "stop", "tool": tool, "session": self.session.id() });
                    let agent = self.agent.clone().unwrap_or_default();
                    let _ = self.sink.record(crate::audit::Event::new("tool", agent, body));
                }
                told(stopped)
            }
            Ask::Add { file, text } => self.add(file, text),
            Ask::Added => fine(json!(self.files)),
            Ask::Lease => self.lease(),
            Ask::Close => fine(json!({ "session": self.session.id(), "closed": true })),
        };
        if answer.ok && self.agent.is_none() {
            self.agent = agent;
        }
        answer
    }

    fn lease(&mut self) -> Answer {
        let dir = self.session.dir().map(std::path::Path::to_path_buf);
        match dir.and_then(|dir| self.taken.remember(&dir).map(|()| dir)) {
            Ok(dir) => match dir.to_str() {
                Some(dir) => fine(json!({ "dir": dir })),
                None => error(format!("the session's directory is not named in UTF-8: {}", dir.display())),
            },
            Err(problem) => error(format!("the session's directory cannot be made: {problem}")),
        }
    }

    fn start(&mut self, agent: &str, ask: &StartAsk) -> Answer {
        let setting = match Setting::at(&ask.cwd) {
            Ok(setting) => setting,
            Err(problem) => return error(problem.to_string()),
        };
        let named = ask.record.as_ref().map_or_else(|| agent.to_owned(), |path| path.display().to_string());
        let loaded = match setting.agent(&named) {
            Ok(loaded) if loaded.policy.agent() == agent => loaded,
            Ok(_) => return error(format!("{named} is another agent's record")),
            Err(problem) => return error(problem.to_string()),
        };
        let agent = loaded;
        let (mut catalogue, changes) = match self.catalogue.take() {
            Some(mut catalogue) => {
                let changes = catalogue.follow(&setting, &agent.policy);
                (catalogue, changes)
            }
            None => Catalogue::open(&setting, &agent.policy),
        };
        self.tools.iter().cloned().for_each(|tool| catalogue.add(tool));
        let found = catalogue.tools().find(agent.policy.agent(), &ask.tool).cloned();
        self.catalogue = Some(catalogue);
        let tool = match found {
            Ok(tool) => tool,
            Err(denial) => return told(Err(Stop::Denied(denial))),
        };
        let variables = ask.variables.iter().map(|(name, value)| (name.clone(), value.into())).collect();
        let host = LiveFor { variables };
        let given = Given { values: ask.values.clone(), args: ask.args.clone() };
        let id = self.session.id().to_owned();
        let dir = match tool.wants_session_dir().then(|| self.lease()) {
            Some(answer) if !answer.ok => return answer,
            Some(answer) => answer.body["dir"].as_str().map(std::path::PathBuf::from),
            None => None,
        };
        let caller = Caller {
            policy: &agent.policy,
            cwd: &ask.cwd,
            session: Some(&id),
            session_dir: dir.as_deref(),
            backend: ask.backend.as_deref().and_then(Backend::from_name),
            accepted: &ask.accepted,
            audit: &self.sink,
            host: &host,
            own: None,
            cancel: None,
        };
        let mut answer = told(self.session.start(&tool, &given, &caller));
        if answer.ok {
            let remarks = changes
                .iter()
                .map(|change| format!("warning: {}: {}", change.file.display(), change.message));
            answer.text = remarks.collect::<Vec<_>>().join("\n");
        }
        answer
    }

    fn add(&mut self, file: String, text: String) -> Answer {
        let source = Source::new(file.as_str(), text.as_str());
        let read = read_definitions(&source, Layer::Session);
        if let Some(fault) = read.faults.first() {
            return Answer {
                ok: false,
                body: fault.to_json(&source),
                text: format!("{}: {}", fault.field, fault.message),
            };
        }
        self.files.retain(|(known, _)| *known != file);
        if self.files.len() >= MOST_FILES {
            return error(format!("a session takes {MOST_FILES} files of tools"));
        }
        self.files.push((file, text));
        let names: Vec<String> = read.tools.iter().map(|tool| tool.name.clone()).collect();
        self.tools.retain(|known| !names.contains(&known.name));
        self.tools.extend(read.tools);
        fine(json!({ "session": self.session.id(), "added": names }))
    }
}

fn fine(body: Value) -> Answer {
    Answer { ok: true, body, text: String::new() }
}

fn error(text: String) -> Answer {
    Answer { ok: false, body: json!({ "is_error": true, "message": text }), text }
}

fn told(result: Result<Status, Stop>) -> Answer {
    match result {
        Ok(status) => fine(status.to_json()),
        Err(stop) => Answer { ok: false, body: stop.to_json(), text: stop.to_string() },
    }
}
