//! Requests that sbx itself makes for an agent: the gateway's own way out, without a fence in front of it.
//!
//! Answers for one request and its answer, judged, dialled, verified and recorded as one from inside would be: it is
//! handed to the same code over a pipe in memory. It leaves following redirects to the caller, who asks anew.
//! Invariant: there is no way from here to a host but through what serves connections from inside.

use super::authority::Authority;
use super::bounds;
use super::dial::{DialError, Outer};
use super::http::{self, Answer, Open, Route, Serving, host_line, read_answer};
use super::report::{Passed, Report};
use super::secret::Secrets;
use super::service::Service;
use super::settings::{Settings, further_out};
use crate::capability::Target;
use crate::decide::Denial;
use crate::policy::Policy;
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, DuplexStream};

/// How often a request that waits looks whether it was called off.
const GLANCE: Duration = Duration::from_millis(25);
/// How long the other end may take to end, once there is an answer.
const ENDING: Duration = Duration::from_millis(500);
/// What is on its way between the two ends in memory.
const PIPE: usize = 64 << 10;

/// Makes requests with one agent's authority.
#[derive(Debug)]
pub struct Fetcher {
    service: Service,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The method.
    pub method: String,
    /// Whether it goes over TLS.
    pub secure: bool,
    /// Host and port.
    pub target: Target,
    /// The path and query, at least `/`, without characters that belong encoded.
    pub path: String,
    /// Header lines beside those that carry the message.
    pub headers: Vec<(String, String)>,
    /// The body; none is sent where there is none.
    pub body: Option<Vec<u8>>,
    /// The most bytes of the answer's body; the rest is not waited for.
    pub most: usize,
    /// How long it may take.
    pub time: Duration,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The status.
    pub status: u16,
    /// Header lines.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, as far as it was wanted.
    pub body: Vec<u8>,
    /// Whether there was more.
    pub truncated: bool,
}

/// Why nothing came back.
#[derive(Debug)]
pub enum FetchError {
    /// It may not be asked.
    Denied(Box<Denial>),
    /// It could not be had.
    Failed(io::Error),
    /// It took too long.
    TimedOut,
    /// It was called off.
    Cancelled,
}

impl From<io::Error> for FetchError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Fetcher {
    /// Requests with a policy's authority.
    ///
    /// # Errors
    /// When the proxy further out cannot be read.
    pub fn new(policy: &Policy, settings: Settings) -> io::Result<Self> {
        let authority = Authority::new(policy);
        let outer_proxy = further_out(&settings)?;
        let report = Report::new(authority.agent(), settings.sink);
        let secrets = Secrets(settings.secrets);
        Ok(Self { service: Service::new(authority, report, secrets, outer_proxy, true) })
    }

    /// Makes a request and waits for its answer, unless `is_cancelled` says otherwise.
    ///
    /// # Errors
    /// When it is denied, called off, takes too long or comes to nothing.
    pub fn fetch(&self, fetch: &Fetch, is_cancelled: &dyn Fn() -> bool) -> Result<Fetched, FetchError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(bounds::RESOLVING_THREADS)
            .build()?;
        let called_off = async {
            while !is_cancelled() {
                tokio::time::sleep(GLANCE).await;
            }
        };
        let fetched = runtime.block_on(async {
            tokio::select! {
                biased;
                () = called_off => Err(FetchError::Cancelled),
                fetched = self.service.fetch(fetch) => fetched,
                () = tokio::time::sleep(fetch.time) => Err(FetchError::TimedOut),
            }
        });
        // Nothing waits for a resolver that does not answer.
        runtime.shutdown_background();
        fetched
    }
}

impl Service {
    async fn fetch(&self, fetch: &Fetch) -> Result<Fetched, FetchError> {
        let target = &fetch.target;
        let denied = |denial: Box<Denial>| {
            self.report.refused("request", &denial);
            FetchError::Denied(denial)
        };
        self.authority.request(&fetch.method, &fetch.path, target, None).map_err(denied)?;
        let asked = !fetch.secure && self.proxy_to(target).is_some();
        let not_reached = || {
            let (line, end) = ((fetch.method.as_str(), fetch.path.as_str()), (None, "not reached"));
            self.report.request(target, line, end, Passed::default());
        };
        let (stream, judged) = self.dial_as(target, asked).await.map_err(|error| match error {
            DialError::Denied(denial) => denied(denial),
            DialError::Failed(error) => {
                not_reached();
                FetchError::Failed(error)
            }
        })?;
        // Where the name leads is known only now.
        self.authority.request(&fetch.method, &fetch.path, target, judged).map_err(denied)?;
        let meter = self.meter();
        let outer: Outer = if fetch.secure {
            let offered = [b"http/1.1".to_vec()];
            let connecting = self.outer_tls.connect(&target.host, stream, &offered, &meter);
            let timely = tokio::time::timeout(bounds::HANDSHAKE, connecting).await;
            let connected = timely.map_err(|_| FetchError::TimedOut).and_then(|done| Ok(done?));
            Box::new(connected.inspect_err(|_| not_reached())?.0)
        } else {
            Box::new(stream)
        };
        let route = Route { target: target.clone(), aliases: Vec::new(), secure: fetch.secure, judged };
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let serving = http::serve(
            self,
            theirs,
            Vec::new(),
            Serving::Fixed(route, Some(Open::new(outer, asked))),
            &meter,
        );
        let answer = converse(fetch, ours, serving).await?;
        let Answer { status, headers, body, truncated } = answer;
        Ok(Fetched { status, headers, body, truncated })
    }
}

/// Sends a request and reads its answer while the other end serves them.
async fn converse(
    fetch: &Fetch,
    ours: DuplexStream,
    serving: impl Future<Output = io::Result<()>>,
) -> io::Result<Answer> {
    let (read, mut write) = tokio::io::split(ours);
    let sending = async {
        write.write_all(&head(fetch)).await?;
        write.write_all(fetch.body.as_deref().unwrap_or_default()).await
    };
    let (mut sending, mut serving) = (pin!(sending), pin!(serving));
    let mut reading = Box::pin(read_answer(read, &fetch.method, fetch.most));
    let (mut sent, mut served) = (false, None);
    let answer = loop {
        tokio::select! {
            // A server may answer before it has taken all; what it says still counts.
            _ = &mut sending, if !sent => sent = true,
            done = &mut serving, if served.is_none() => served = Some(done),
            answer = &mut reading => break answer,
        }
    };
    // Nobody reads any more; the other end tells what happened before it ends.
    drop(reading);
    if served.is_none() {
        served = tokio::time::timeout(ENDING, serving).await.ok();
    }
    match (answer, served) {
        (Err(_), Some(Err(error))) => Err(error),
        (answer, _) => answer,
    }
}

/// The head of a request, in the one form that is read the same everywhere.
fn head(fetch: &Fetch) -> Vec<u8> {
    let default = if fetch.secure { 443 } else { 80 };
    let mut text = format!(
        "{} {} HTTP/1.1\r\nHost: {}\r\n",
        fetch.method,
        fetch.path,
        host_line(&fetch.target, default)
    );
    for (name, value) in &fetch.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = &fetch.body {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("Connection: close\r\n\r\n");
    text.into_bytes()
}
