//! What a gateway is made with beside the policy.

use super::outer_proxy::OuterProxy;
use super::secret::Secret;
use crate::audit::{Nowhere, Sink};
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

/// The proxy further out, if there is one.
pub(super) fn further_out(settings: &Settings) -> io::Result<Option<OuterProxy>> {
    let Some((url, without)) = &settings.outer_proxy else { return Ok(None) };
    let unreadable = || io::Error::new(io::ErrorKind::InvalidInput, "the proxy is not `http://host:port`");
    OuterProxy::parse(url, without).map(Some).ok_or_else(unreadable)
}
