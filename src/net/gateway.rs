//! The gateway of one launch: takes the doors and serves them from one thread of its own.
//!
//! Answers for starting, bounding and ending. It leaves each connection to the flow and the proxy.
//! Invariant: what is not served fails; no door opens to anything but what is served here.

use super::authority::Authority;
use super::bounds;
use super::issuer;
use super::names::{Datagrams, Stub};
use super::outer_proxy::OuterProxy;
use super::relay::both;
use super::report::Report;
use super::secret::{Secret, Secrets};
use super::service::Service;
use crate::audit::{Nowhere, Sink};
use crate::capability::{Capability, Target};
use crate::decide::Denial;
use crate::policy::{Grant, PlacedScope, Policy};
use sbx_platform::door::{Destinations, Doors, Inward, Porter};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};

/// Serves the network of one launch.
#[derive(Debug)]
pub struct Gateway {
    service: Arc<Service>,
    published: Vec<TcpListener>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    stop: Arc<Notify>,
    thread: JoinHandle<()>,
    keeping: JoinHandle<()>,
}

/// What a gateway is made with beside the policy.
#[derive(Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Where events go.
    pub sink: Arc<dyn Sink>,
    /// The secrets that are put into requests.
    pub secrets: Vec<Secret>,
    /// The caller's own proxy, and who is reached without it.
    pub outer_proxy: Option<(String, String)>,
    /// Whether what is allowed is also done; without it nothing is looked up, dialled or published.
    pub dials: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { sink: Arc::new(Nowhere), secrets: Vec::new(), outer_proxy: None, dials: true }
    }
}

impl Settings {
    /// The same, with events going elsewhere.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn Sink>) -> Self {
        self.sink = sink;
        self
    }

    /// The same, with secrets.
    #[must_use]
    pub fn secrets(mut self, secrets: Vec<Secret>) -> Self {
        self.secrets = secrets;
        self
    }

    /// The same, going out through a proxy: its URL, and hosts that are reached without it.
    #[must_use]
    pub fn outer_proxy(mut self, proxy: Option<(String, String)>) -> Self {
        self.outer_proxy = proxy;
        self
    }

    /// The same, only judging: what is allowed is told to be out of reach, and nothing leaves this machine.
    #[must_use]
    pub fn only_judging(mut self) -> Self {
        self.dials = false;
        self
    }
}

impl Gateway {
    /// Whether a policy has anything to serve.
    #[must_use]
    pub fn is_needed(policy: &Policy) -> bool {
        let reaches = |grant: &Grant| matches!(&grant.scope, PlacedScope::Net { hosts } if !hosts.is_empty());
        !policy.sections().listen.is_empty() || policy.grants().iter().any(reaches)
    }

    /// A gateway for a policy.
    ///
    /// # Errors
    /// When a port to publish is taken, the proxy further out cannot be read, or no key can be made.
    pub fn new(policy: &Policy, settings: Settings) -> io::Result<Self> {
        let listen = &policy.sections().listen;
        let authority = Authority::new(policy);
        let outer_proxy = further_out(&settings)?;
        let secrets = Secrets(settings.secrets);
        let issuer =
            if needs_issuer(policy, &secrets) { Some(Arc::new(issuer::Authority::new()?)) } else { None };
        let listen = listen.iter().filter(|_| settings.dials);
        let published = listen.map(|port| publish(*port)).collect::<io::Result<Vec<_>>>()?;
        let report = Report::new(authority.agent(), settings.sink);
        let service = Arc::new(Service::new(authority, report, secrets, outer_proxy, issuer, settings.dials));
        Ok(Self { service, published, running: None })
    }

    /// The certificate that programs inside must trust; none where nothing is inspected.
    #[must_use]
    pub fn trust(&self) -> Option<&str> {
        self.service.issuer.as_deref().map(issuer::Authority::pem)
    }

    /// What was refused so far, each once.
    #[must_use]
    pub fn refused(&self) -> Vec<Denial> {
        self.service.report.refusals()
    }
}

/// The proxy further out, if there is one.
pub(super) fn further_out(settings: &Settings) -> io::Result<Option<OuterProxy>> {
    let Some((url, without)) = &settings.outer_proxy else { return Ok(None) };
    let unreadable = || io::Error::new(io::ErrorKind::InvalidInput, "the proxy is not `http://host:port`");
    OuterProxy::parse(url, without).map(Some).ok_or_else(unreadable)
}

/// Listens on this machine's own address for a port of the command.
fn publish(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        io::Error::new(error.kind(), format!("port {port} of this machine cannot be listened on: {error}"))
    })
}

/// Whether some host could be held with fewer than four verbs, or is given a secret.
fn needs_issuer(policy: &Policy, secrets: &Secrets) -> bool {
    let verbs = [Capability::NetGet, Capability::NetPost, Capability::NetPut, Capability::NetDelete];
    let entries = |verb: Capability| {
        let mut entries: Vec<_> = policy
            .held(verb)
            .flat_map(|grant| match &grant.scope {
                PlacedScope::Net { hosts } => hosts.as_slice(),
                _ => &[],
            })
            .cloned()
            .collect();
        entries.sort();
        entries.dedup();
        entries
    };
    let first = entries(verbs[0]);
    !secrets.0.is_empty() || verbs[1..].iter().any(|verb| entries(*verb) != first)
}

impl Porter for Gateway {
    fn open(&mut self, doors: Doors) -> io::Result<()> {
        let service = self.service.clone();
        let published = std::mem::take(&mut self.published);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(bounds::RESOLVING_THREADS)
            .build()?;
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let work = move || {
            runtime.block_on(async {
                if let Err(error) = start(service.clone(), doors, published) {
                    service.report.malformed("connection", None, &format!("the gateway failed: {error}"));
                    return;
                }
                stopped.notified().await;
            });
            // Connections end with what they belong to; nothing waits for a resolver that does not answer.
            runtime.shutdown_background();
        };
        let keeping = self.service.report.begin()?;
        let thread = std::thread::Builder::new().name("sbx-gateway".to_owned()).spawn(work)?;
        self.running = Some(Running { stop, thread, keeping });
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.notify_one();
            let _ = running.thread.join();
            self.service.report.end();
            let _ = running.keeping.join();
        }
    }
}

/// Begins serving every door.
fn start(service: Arc<Service>, doors: Doors, published: Vec<TcpListener>) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(connections()));
    let destinations: Arc<dyn Destinations> = Arc::from(doors.destinations);
    let elsewhere = service.outer_proxy.is_some() || !service.dials;
    let stub = Stub::new(
        service.authority.clone(),
        service.report.clone(),
        service.resolver.clone(),
        service.table.clone(),
        elsewhere,
    );
    for socket in doors.names {
        tokio::spawn(stub.clone().serve(Datagrams::new(socket)?));
    }
    let name_slots = Arc::new(Semaphore::new(bounds::NAME_STREAMS));
    for listener in doors.name_streams {
        let (stub, destinations) = (stub.clone(), destinations.clone());
        accept(listener, name_slots.clone(), move |stream| {
            let (stub, ours) = (stub.clone(), destinations.of(stream.as_fd()).is_some());
            async move {
                if ours {
                    stub.serve_stream(stream).await;
                } else {
                    super::flow::reset(stream);
                }
            }
        })?;
    }
    for listener in doors.streams {
        let (service, destinations) = (service.clone(), destinations.clone());
        accept(listener, slots.clone(), move |stream| {
            let (service, aimed) = (service.clone(), destinations.of(stream.as_fd()));
            async move {
                match aimed {
                    Some(to) => service.serve_flow(stream, to.ip(), to.port()).await,
                    None => super::flow::reset(stream),
                }
            }
        })?;
    }
    if let Some(listener) = doors.proxy {
        let service = service.clone();
        accept(listener, slots.clone(), move |stream| {
            // Without a network of its own the door stands on the host, where anybody can find it.
            let (service, ours) = (service.clone(), destinations.of(stream.as_fd()).is_some());
            async move {
                if ours {
                    service.serve_proxy(stream).await;
                } else {
                    super::flow::reset(stream);
                }
            }
        })?;
    }
    if let Some(inward) = doors.inward {
        let inward: Arc<dyn Inward> = Arc::from(inward);
        for listener in published {
            let (service, inward) = (service.clone(), inward.clone());
            let port = listener.local_addr()?.port();
            accept(listener, slots.clone(), move |stream| {
                let (service, inward) = (service.clone(), inward.clone());
                async move { service.let_in(stream, inward, port).await }
            })?;
        }
    }
    Ok(())
}

impl Service {
    /// Carries a connection from this machine to a port inside.
    async fn let_in(&self, stream: TcpStream, inward: Arc<dyn Inward>, port: u16) {
        let connected = tokio::task::spawn_blocking(move || inward.connect(port)).await;
        let Ok(Ok(inner)) = connected else { return super::flow::reset(stream) };
        if inner.set_nonblocking(true).is_err() {
            return;
        }
        let Ok(inner) = TcpStream::from_std(inner) else { return };
        let _ = (stream.set_nodelay(true), inner.set_nodelay(true));
        let meter = self.meter();
        let ended = both(inner, stream, &meter).await;
        let host = crate::capability::Host::Ip(Ipv4Addr::LOCALHOST.into());
        let end = ended.map_or_else(|error| error.kind().to_string(), |()| "closed".to_owned());
        self.report.connection(&Target { host, port: Some(port) }, "published", meter.passed(), &end);
    }
}

/// Serves a listener; what it cannot serve yet waits in the kernel.
fn accept<F, W>(listener: TcpListener, slots: Arc<Semaphore>, serve: F) -> io::Result<()>
where
    F: Fn(TcpStream) -> W + Send + 'static,
    W: Future<Output = ()> + Send + 'static,
{
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tokio::spawn(async move {
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let serving = serve(stream);
                    tokio::spawn(async move {
                        serving.await;
                        drop(slot);
                    });
                }
                // No descriptor is free, or the peer is gone: others may end meanwhile.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        }
    });
    Ok(())
}

/// How many connections there are descriptors for.
fn connections() -> usize {
    let text = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    let files = line.and_then(|line| line.split_whitespace().next()).and_then(|soft| soft.parse().ok());
    let files: usize = files.unwrap_or(256);
    let room = files.saturating_sub(bounds::OTHER_FILES) / bounds::FILES_PER_CONNECTION;
    room.clamp(8, bounds::CONNECTIONS)
}
