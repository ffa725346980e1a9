//! What every connection of one launch is served with.

use super::authority::Authority;
use super::bounds;
use super::issuer;
use super::names::{Resolver, Table};
use super::outer_proxy::OuterProxy;
use super::outer_tls::OuterTls;
use super::relay::Meter;
use super::report::Report;
use super::secret::Secrets;
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::Semaphore;

/// The parts that serving needs, shared by all connections.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) authority: Authority,
    pub(crate) report: Report,
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) table: Arc<Mutex<Table>>,
    pub(crate) secrets: Secrets,
    pub(crate) outer_proxy: Option<OuterProxy>,
    pub(crate) outer_tls: OuterTls,
    /// Who answers for inspected hosts; never set where nothing is inspected.
    pub(crate) issuer: OnceLock<issuer::Authority>,
    /// Whether what is allowed is also done.
    pub(crate) dials: bool,
    large: Arc<Semaphore>,
    /// Bounds the connections of HTTP/2 with room for much.
    pub(super) large_two: Arc<Semaphore>,
}

impl Service {
    pub(crate) fn new(
        authority: Authority,
        report: Report,
        secrets: Secrets,
        outer_proxy: Option<OuterProxy>,
        dials: bool,
    ) -> Self {
        Self {
            authority,
            report,
            resolver: Arc::new(Resolver::new()),
            table: Arc::new(Mutex::new(Table::new(bounds::NAMES))),
            secrets,
            outer_proxy,
            outer_tls: OuterTls::default(),
            issuer: OnceLock::new(),
            dials,
            large: Arc::new(Semaphore::new(bounds::LARGE_BUFFERS)),
            large_two: Arc::new(Semaphore::new(bounds::H2_LARGE)),
        }
    }

    /// A meter for a new connection.
    pub(crate) fn meter(&self) -> Meter {
        Meter::new(self.large.clone())
    }
}
