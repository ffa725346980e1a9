//! Ports of the command that are published on this machine.
//!
//! Answers for listening on the machine's own address and for carrying what comes. Which ports are published is said by
//! the record.
//! Invariant: nothing is listened on but the loopback address.

use super::relay::both;
use super::service::Service;
use super::telling::Telling;
use crate::capability::{Host, Target};
use sbx_platform::door::Inward;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use tokio::net::TcpStream;

/// Listens on this machine's own address for a port of the command.
pub(super) fn publish(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        io::Error::new(error.kind(), format!("port {port} of this machine cannot be listened on: {error}"))
    })
}

impl Service {
    /// Carries a connection from this machine to a port inside.
    pub(super) async fn let_in(&self, stream: TcpStream, inward: Arc<dyn Inward>, port: u16) {
        if self.report.is_unkept() {
            return super::flow::reset(stream);
        }
        let meter = self.meter();
        let target = Target { host: Host::Ip(Ipv4Addr::LOCALHOST.into()), port: Some(port) };
        let telling = Telling::new(&self.report, &target, &meter);
        let inner = match connected(inward, port).await {
            Ok(inner) => inner,
            Err(error) => {
                telling.ended("failed", &error.kind().to_string());
                return super::flow::reset(stream);
            }
        };
        let _ = (stream.set_nodelay(true), inner.set_nodelay(true));
        let ended = both(inner, stream, &meter).await;
        let end = ended.map_or_else(|error| error.kind().to_string(), |()| "closed".to_owned());
        telling.ended("published", &end);
    }
}

/// A connection to a port inside.
async fn connected(inward: Arc<dyn Inward>, port: u16) -> io::Result<TcpStream> {
    let inner =
        tokio::task::spawn_blocking(move || inward.connect(port)).await.map_err(io::Error::other)??;
    inner.set_nonblocking(true)?;
    TcpStream::from_std(inner)
}
