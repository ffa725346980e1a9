//! What a gateway is made with beside the policy.

use super::outer_proxy::OuterProxy;
use super::secret::Secret;
use crate::audit::{Nowhere, Sink};
use std::fmt;
use std::io;
use std::sync::Arc;

/// Where events go, which secrets there are, and whether anything is really done.
#[derive(Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Where events go.
    pub sink: Arc<dyn Sink>,
    /// The secrets that are put into requests.
    pub secrets: Vec<Secret>,
    /// The caller's own proxy.
    pub outer_proxy: Option<Further>,
    /// Whether what is allowed is also done; without it nothing is looked up, dialled or published.
    pub dials: bool,
}

/// The caller's own proxy, as it is written.
#[derive(Clone)]
pub struct Further {
    /// The URL of the one that is asked for connections.
    pub tunnels: String,
    /// The URL of the one that is asked for requests of plain HTTP.
    pub requests: String,
    /// The hosts that are reached without it.
    pub without: String,
}

impl fmt::Debug for Further {
    /// Without the URLs, which may carry a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Further").field("without", &self.without).finish_non_exhaustive()
    }
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

    /// The same, going out through a proxy.
    #[must_use]
    pub fn outer_proxy(mut self, proxy: Option<Further>) -> Self {
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

/// The proxy further out, if there is one.
pub(super) fn further_out(settings: &Settings) -> io::Result<Option<OuterProxy>> {
    let Some(Further { tunnels, requests, without }) = &settings.outer_proxy else { return Ok(None) };
    let unreadable = || io::Error::new(io::ErrorKind::InvalidInput, "the proxy is not `http://host:port`");
    OuterProxy::parse(tunnels, requests, without).map(Some).ok_or_else(unreadable)
}
