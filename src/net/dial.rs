//! Connections to the outside: looked up once, judged, dialled.
//!
//! Answers for reaching a target that is allowed, directly or through the caller's own proxy.
//! Invariant: the address that is dialled is one that the authority allowed for that very target.

use super::bounds;
use super::names::{Found, Trouble};
use super::outer_proxy::OuterProxy;
use super::report::UNKEPT;
use super::service::Service;
use crate::capability::{Host, Target};
use crate::decide::Denial;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection both ways.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection to the outside.
pub(crate) type Outer = Box<dyn Duplex>;

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum DialError {
    /// It may not be made.
    Denied(Box<Denial>),
    /// It could not be made.
    Failed(io::Error),
}

impl Service {
    /// Connects to a target; also tells the address when it is inside.
    pub(crate) async fn dial(&self, target: &Target) -> Result<(TcpStream, Option<IpAddr>), DialError> {
        self.dial_as(target, false).await
    }

    /// The proxy further out, where it is the way to a target.
    pub(crate) fn proxy_to(&self, target: &Target) -> Option<&OuterProxy> {
        self.outer_proxy.as_ref().filter(|proxy| proxy.serves(target))
    }

    /// The same as dialling; `asked` where the proxy on the way is to be asked for each request and for no connection.
    pub(crate) async fn dial_as(
        &self,
        target: &Target,
        asked: bool,
    ) -> Result<(TcpStream, Option<IpAddr>), DialError> {
        if self.report.is_unkept() {
            return Err(DialError::Failed(io::Error::other(UNKEPT)));
        }
        self.authority.hold(target, None).map_err(DialError::Denied)?;
        let port = target.port.ok_or_else(|| DialError::Failed(io::ErrorKind::InvalidInput.into()))?;
        if !self.dials {
            return Err(self.not_dialled(target));
        }
        let allowed = self.leads(target).await?;
        if let Some(proxy) = self.proxy_to(target) {
            let through = async { if asked { proxy.ask().await } else { proxy.connect(target).await } };
            let stream = timely(through).await.map_err(DialError::Failed)?;
            return Ok((stream, allowed.iter().find_map(|found| found.judged())));
        }
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for found in allowed {
            match timely(TcpStream::connect(SocketAddr::new(found.ip, port))).await {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return Ok((stream, found.judged()));
                }
                Err(error) => last = error,
            }
        }
        Err(DialError::Failed(last))
    }

    /// The addresses at which a target may be reached.
    pub(crate) async fn leads(&self, target: &Target) -> Result<Vec<Found>, DialError> {
        if self.proxy_to(target).is_some() {
            return self.leads_beyond(target).await.map_err(DialError::Denied);
        }
        let found = self.resolver.find(&target.host).await.map_err(|trouble| {
            let why = match trouble {
                Trouble::NoSuchName => "there is no such name",
                Trouble::Failed => "the name could not be looked up",
            };
            DialError::Failed(io::Error::new(io::ErrorKind::NotFound, why))
        })?;
        self.authority.reachable(target, &found).map_err(DialError::Denied)
    }

    /// The same for a target that a proxy further out looks up once more and picks an address of: every address that is
    /// found here must be allowed, and where none is found only what is granted by name is. Where all is granted by name
    /// nothing need be found.
    async fn leads_beyond(&self, target: &Target) -> Result<Vec<Found>, Box<Denial>> {
        let unknown = [Found::unknown()];
        if self.authority.is_held_by_name(target) {
            return Ok(Vec::new());
        }
        let found = self.resolver.find(&target.host).await;
        let found = found.as_deref().unwrap_or(&unknown);
        for one in found {
            self.authority.hold(target, one.judged())?;
        }
        Ok(found.to_vec())
    }

    /// What is said in place of dialling; where a name leads is not looked up for it.
    fn not_dialled(&self, target: &Target) -> DialError {
        let literal = match target.host {
            Host::Ip(ip) => self.authority.reachable(target, &[Found::new(ip)]).map(drop),
            Host::Name(_) => Ok(()),
        };
        match literal {
            Ok(()) => DialError::Failed(io::Error::other("nothing is dialled in a trial")),
            Err(denial) => DialError::Denied(denial),
        }
    }
}

async fn timely<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(bounds::CONNECTING, work)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
