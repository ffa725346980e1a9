//! TLS that is opened, so that requests can be judged and secrets put in.
//!
//! Answers for both of its sides: verified towards the host, and in the host's name towards the program inside. It leaves
//! requests to `http`.
//! Invariant: nothing is answered in a host's name before the host itself was reached and verified.

use super::ahead::Ahead;
use super::bounds;
use super::flow::{Aim, Ended, Refused};
use super::http::{self, Open, Serving};
use super::relay::Meter;
use super::service::Service;
use super::sniff::{Greeting, greeting};
use crate::capability::Host;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

impl Service {
    /// Opens TLS, so that requests can be judged and secrets put in; the other side may be `reached` already.
    pub(super) async fn inspect(
        self: &Arc<Self>,
        stream: &mut Option<TcpStream>,
        mut client: TcpStream,
        mut first: Vec<u8>,
        aim: &Aim,
        meter: &Arc<Meter>,
        reached: Option<(TcpStream, Option<IpAddr>)>,
    ) -> Ended {
        let said = match timely(greeting(&mut client, &mut first)).await {
            Ok(said) => said,
            Err(error) => {
                *stream = Some(client);
                return Err(error.into());
            }
        };
        let prepared = async {
            self.check_name(&said, aim)?;
            let issuer =
                self.issuer.get().ok_or_else(|| Refused::Failed(io::ErrorKind::Unsupported.into()))?;
            // What is trusted is read while the other side is on its way.
            let reach = async {
                match reached {
                    Some(reached) => Ok(reached),
                    None => self.reach(&aim.target).await,
                }
            };
            let (reached, _) = tokio::join!(reach, self.outer_tls.roots());
            let (outer, judged) = reached?;
            let (outer, http2) =
                timely(self.outer_tls.connect(&aim.target.host, outer, &said.protocols, meter)).await?;
            Ok::<_, Refused>((issuer.answer_for(&aim.target.host, http2)?, outer, http2, judged))
        };
        let (config, mut outer, http2, judged) = match prepared.await {
            Ok(prepared) => prepared,
            Err(refused) => {
                *stream = Some(client);
                return Err(refused);
            }
        };
        let accepting = TlsAcceptor::from(config).accept(Ahead::new(first, client, meter));
        let mut inner = timely(accepting).await?;
        let route = self.route(aim, true, judged);
        if http2 {
            meter.while_alive(http::serve_two(self, inner, outer, route, meter)).await?;
            return Ok("inspected http2");
        }
        // What comes as one buffer goes on in few calls.
        inner.get_mut().1.set_buffer_limit(Some(bounds::SEALED));
        outer.get_mut().1.set_buffer_limit(Some(bounds::SEALED));
        let serving = Serving::Fixed(route, Some(Open::new(Box::new(outer), false)));
        meter.while_alive(http::serve(self, inner, Vec::new(), serving, meter)).await?;
        Ok("inspected http")
    }

    /// A greeting must name the host its connection goes to; an address has no name to give.
    pub(super) fn check_name(&self, said: &Greeting, aim: &Aim) -> Result<(), Refused> {
        let named = said.name.as_deref().map(Host::parse);
        let fits = match (&named, &aim.target.host) {
            (Some(Ok(named)), host) => named == host || aim.aliases.contains(named),
            (None, Host::Ip(_)) => true,
            (None, Host::Name(_)) => aim.aliases.iter().any(|alias| matches!(alias, Host::Ip(_))),
            (Some(Err(_)), _) => false,
        };
        if fits {
            return Ok(());
        }
        let why = "the TLS greeting does not name the host that the connection goes to";
        self.report.malformed("connection", Some(&aim.target), why);
        Err(Refused::Told)
    }
}

/// Bounds what belongs to a handshake.
pub(super) async fn timely<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(bounds::HANDSHAKE, work)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
