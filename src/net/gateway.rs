//! The gateway of one launch: takes the doors and serves them from one thread of its own.
//!
//! Answers for starting, bounding and ending. It leaves each connection to the flow and the proxy.
//! Invariant: what is not served fails; no door opens to anything but what is served here.

use super::authority::Authority;
use super::bounds;
use super::doors::start;
use super::inbound::publish;
use super::issuer;
use super::report::Report;
use super::secret::Secrets;
use super::service::Service;
use super::settings::{Settings, further_out};
use crate::capability::Capability;
use crate::decide::Denial;
use crate::policy::{Grant, PlacedScope, Policy};
use sbx_platform::door::{Doors, Porter};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use tokio::runtime::{self, Runtime};
use tokio::sync::Notify;

/// Serves the network of one launch.
#[derive(Debug)]
pub struct Gateway {
    service: Arc<Service>,
    /// Whether some connections are opened.
    inspects: bool,
    published: Vec<TcpListener>,
    /// What serves the doors, until it does.
    runtime: Option<Runtime>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    stop: Arc<Notify>,
    thread: JoinHandle<()>,
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
    /// When a port to publish is taken, or the proxy further out cannot be read.
    pub fn new(policy: &Policy, settings: Settings) -> io::Result<Self> {
        let listen = &policy.sections().listen;
        let authority = Authority::new(policy);
        let outer_proxy = further_out(&settings)?;
        let secrets = Secrets(settings.secrets);
        let inspects = needs_issuer(policy, &secrets);
        let listen = listen.iter().filter(|_| settings.dials);
        let published = listen.map(|port| publish(*port)).collect::<io::Result<Vec<_>>>()?;
        let report = Report::apart(authority.agent(), settings.sink);
        let service = Arc::new(Service::new(authority, report, secrets, outer_proxy, settings.dials));
        Ok(Self { service, inspects, published, runtime: None, running: None })
    }

    /// Whether some connections are opened, so that programs inside must trust a certificate of this launch.
    #[must_use]
    pub fn inspects(&self) -> bool {
        self.inspects
    }

    /// That certificate, made when it is first asked for: keys take time, and while a fence is being built there is some.
    /// None where nothing is inspected.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn trust(&self) -> io::Result<Option<&str>> {
        let issuer = &self.service.issuer;
        if self.inspects && issuer.get().is_none() {
            let _ = issuer.set(issuer::Authority::new()?);
        }
        Ok(issuer.get().map(issuer::Authority::pem))
    }

    /// What was refused so far, each once.
    #[must_use]
    pub fn refused(&self) -> Vec<Denial> {
        self.service.report.refusals()
    }

    /// Says that the launch is over. Serving ends beside whatever else is to be done; dropping waits for it.
    pub fn stop(&self) {
        if let Some(running) = &self.running {
            self.service.report.ending();
            running.stop.notify_one();
        }
    }
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

fn make_runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(bounds::RESOLVING_THREADS)
        .build()
}

impl Porter for Gateway {
    /// Makes what takes time and needs no doors; no thread yet, because another fence may be tried after this one.
    fn begun(&mut self) -> io::Result<()> {
        self.trust()?;
        if self.runtime.is_none() {
            self.runtime = Some(make_runtime()?);
        }
        Ok(())
    }

    fn open(&mut self, doors: Doors) -> io::Result<()> {
        self.trust()?;
        let runtime = self.runtime.take().map_or_else(make_runtime, Ok)?;
        let service = self.service.clone();
        let published = std::mem::take(&mut self.published);
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
            // Connections end with what they belong to, and are told of as they are dropped; nothing waits for a
            // resolver that does not answer.
            runtime.shutdown_background();
        };
        let thread = Builder::new().name("sbx-gateway".to_owned()).spawn(work)?;
        self.running = Some(Running { stop, thread });
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
        if let Some(running) = self.running.take() {
            let _ = running.thread.join();
            self.service.report.end();
        }
        if let Some(unused) = self.runtime.take() {
            unused.shutdown_background();
        }
    }
}
