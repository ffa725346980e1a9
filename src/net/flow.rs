//! One connection from inside: where it was meant to go, whether it may, and as what.
//!
//! Answers for choosing between bytes that pass untouched, requests that are judged and no connection at all.
//! It leaves every decision to the authority.
//! Invariant: without all four verbs nothing passes that was not read as a request.

use super::authority::Hold;
use super::bounds;
use super::dial::{DialError, Duplex, Outer};
use super::http::{self, Route, Serving};
use super::prefixed::Prefixed;
use super::relay::{Meter, both};
use super::service::Service;
use super::sniff::{Start, greeting, start};
use crate::capability::{Host, Target};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// The port on which nothing but TLS passes untouched.
const HTTPS: u16 = 443;
/// How long a client that began something that may be a request is waited for before bytes pass untouched.
const UNDECIDED: Duration = Duration::from_secs(5);

/// How a connection ended, for the audit.
type Ended = Result<&'static str, Refused>;

/// A connection that is refused: it is reset.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The authority says no, or the bytes do not fit what is held; both are reported.
    Told,
    /// Something failed.
    Failed(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Where a connection is meant to go.
#[derive(Clone, Debug)]
pub(crate) struct Aim {
    pub(crate) target: Target,
    /// Other names of the same host.
    pub(crate) aliases: Vec<Host>,
}

impl Service {
    /// What an address and port inside stand for.
    pub(crate) fn aim(&self, ip: IpAddr, port: u16) -> Result<Aim, &'static str> {
        let ip = ip.to_canonical();
        let aim = |host: Host, aliases| Aim { target: Target { host, port: Some(port) }, aliases };
        if let IpAddr::V4(v4) = ip
            && super::names::is_synthetic(v4)
        {
            let name = self.table.lock().unwrap_or_else(std::sync::PoisonError::into_inner).name_of(v4);
            let name = name.ok_or("the address stands for no name")?;
            return Ok(aim(Host::Name(name), Vec::new()));
        }
        let own = Host::Ip(ip);
        if ip.is_loopback() {
            let localhost = Host::Name("localhost".into());
            let named = self.authority.hold(&Target { host: own.clone(), port: Some(port) }, None).is_ok();
            return Ok(if named { aim(own, vec![localhost]) } else { aim(localhost, vec![own]) });
        }
        Ok(aim(own, Vec::new()))
    }

    /// Serves one connection that was meant to go somewhere.
    pub(crate) async fn serve_flow(self: &Arc<Self>, stream: TcpStream, ip: IpAddr, port: u16) {
        let meter = Arc::new(self.meter());
        let aim = match self.aim(ip, port) {
            Ok(aim) => aim,
            Err(why) => {
                let target = Target { host: Host::Ip(ip.to_canonical()), port: Some(port) };
                self.report.malformed("connection", Some(&target), why);
                return reset(stream);
            }
        };
        let _ = stream.set_nodelay(true);
        let mut stream = Some(stream);
        let ended = self.carry(&mut stream, &aim, &meter).await;
        self.conclude(&aim.target, &meter, ended);
        if let Some(stream) = stream {
            reset(stream);
        }
    }

    /// Reports how a connection ended.
    pub(crate) fn conclude(&self, target: &Target, meter: &Meter, ended: Ended) {
        match ended {
            Ok(how) => self.report.connection(target, how, meter.passed(), "closed"),
            Err(Refused::Told) => {}
            Err(Refused::Failed(error)) => {
                self.report.connection(target, "failed", meter.passed(), &error.kind().to_string());
            }
        }
    }

    /// Carries a connection; what is left in `stream` is to be reset.
    pub(crate) async fn carry(
        self: &Arc<Self>,
        stream: &mut Option<TcpStream>,
        aim: &Aim,
        meter: &Arc<Meter>,
    ) -> Ended {
        let target = &aim.target;
        let hold = self.authority.hold(target, None).map_err(|denial| self.told(&denial))?;
        let opened = self.secrets.concern(target);
        if hold == Hold::Whole && self.dials && !opened && target.port != Some(HTTPS) {
            return self.carry_whole(stream, aim, meter).await;
        }
        let Some(client) = stream.as_mut() else { return Ok("nothing") };
        let mut first = Vec::new();
        let begun = self.first_word(client, &mut first).await?;
        let Some(client) = stream.take() else { return Ok("nothing") };
        match begun {
            Start::Tls if hold == Hold::Whole && !opened => {
                *stream = Some(client);
                self.carry_tls_untouched(stream, first, aim, meter, None).await
            }
            Start::Tls => self.inspect(stream, client, first, aim, meter).await,
            Start::Http1 => self.carry_http(client, first, aim, meter, None).await,
            Start::Http2 => {
                let (outer, judged) = self.reach(target).await?;
                let route = self.route(aim, false, judged);
                http::serve_two(self, Prefixed::new(first, client), outer, route, meter).await?;
                Ok("http2")
            }
            Start::Other | Start::More => {
                let why = "neither TLS nor HTTP, which is all that can be judged without all four verbs";
                self.report.malformed("connection", Some(target), why);
                *stream = Some(client);
                Err(Refused::Told)
            }
        }
    }

    /// With all four verbs: dials at once, and looks at what the client says first, if it speaks first.
    async fn carry_whole(&self, stream: &mut Option<TcpStream>, aim: &Aim, meter: &Meter) -> Ended {
        let (mut outer, judged) = self.reach(&aim.target).await?;
        let Some(client) = stream.as_mut() else { return Ok("nothing") };
        let mut first = Vec::new();
        let begun = loop {
            let undecided = !first.is_empty();
            let mut room = [0; 4096];
            tokio::select! {
                biased;
                read = client.read(&mut room) => match read? {
                    0 => break Start::Other,
                    read => {
                        first.extend(&room[..read]);
                        match start(&first) {
                            Start::More => {}
                            begun => break begun,
                        }
                    }
                },
                ready = outer.readable() => { ready?; break Start::Other }
                () = tokio::time::sleep(UNDECIDED), if undecided => break Start::Other,
            }
        };
        match begun {
            Start::Tls => self.carry_tls_untouched(stream, first, aim, meter, Some(outer)).await,
            Start::Http1 => {
                let Some(client) = stream.take() else { return Ok("nothing") };
                self.carry_http(client, first, aim, meter, Some((outer, judged))).await
            }
            Start::Http2 | Start::Other | Start::More => {
                outer.write_all(&first).await?;
                meter.count(super::relay::Way::Out, first.len());
                let Some(client) = stream.take() else { return Ok("nothing") };
                both(client, outer, meter).await?;
                Ok("untouched")
            }
        }
    }

    /// TLS that passes untouched once its greeting names the host it goes to.
    async fn carry_tls_untouched(
        &self,
        stream: &mut Option<TcpStream>,
        mut first: Vec<u8>,
        aim: &Aim,
        meter: &Meter,
        outer: Option<TcpStream>,
    ) -> Ended {
        let Some(client) = stream.as_mut() else { return Ok("nothing") };
        let said = timely(greeting(client, &mut first)).await?;
        self.check_name(&said, aim)?;
        let mut outer = match outer {
            Some(outer) => outer,
            None => self.reach(&aim.target).await?.0,
        };
        outer.write_all(&first).await?;
        meter.count(super::relay::Way::Out, first.len());
        let Some(client) = stream.take() else { return Ok("nothing") };
        both(client, outer, meter).await?;
        Ok("tls untouched")
    }

    /// A greeting must name the host its connection goes to; an address has no name to give.
    fn check_name(&self, said: &super::sniff::Greeting, aim: &Aim) -> Result<(), Refused> {
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

    async fn carry_http(
        &self,
        client: impl Duplex,
        first: Vec<u8>,
        aim: &Aim,
        meter: &Meter,
        outer: Option<(TcpStream, Option<IpAddr>)>,
    ) -> Ended {
        let (outer, judged) = outer.map_or((None, None), |(outer, judged)| (Some(outer), judged));
        let route = self.route(aim, false, judged);
        let serving = Serving::Fixed(route, outer.map(|outer| Box::new(outer) as Outer));
        meter.while_alive(http::serve(self, client, first, serving, meter)).await?;
        Ok("http")
    }

    /// Opens TLS, so that requests can be judged and secrets put in.
    async fn inspect(
        self: &Arc<Self>,
        stream: &mut Option<TcpStream>,
        mut client: TcpStream,
        mut first: Vec<u8>,
        aim: &Aim,
        meter: &Arc<Meter>,
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
                self.issuer.as_ref().ok_or_else(|| Refused::Failed(io::ErrorKind::Unsupported.into()))?;
            let (outer, judged) = self.reach(&aim.target).await?;
            let (outer, http2) =
                timely(self.outer_tls.connect(&aim.target.host, outer, &said.protocols)).await?;
            Ok::<_, Refused>((issuer.answer_for(&aim.target.host, http2)?, outer, http2, judged))
        };
        let (config, outer, http2, judged) = match prepared.await {
            Ok(prepared) => prepared,
            Err(refused) => {
                *stream = Some(client);
                return Err(refused);
            }
        };
        let accepting = TlsAcceptor::from(config).accept(Prefixed::new(first, client));
        let inner = timely(accepting).await?;
        let route = self.route(aim, true, judged);
        if http2 {
            meter.while_alive(http::serve_two(self, inner, outer, route, meter)).await?;
            return Ok("inspected http2");
        }
        let serving = Serving::Fixed(route, Some(Box::new(outer)));
        meter.while_alive(http::serve(self, inner, Vec::new(), serving, meter)).await?;
        Ok("inspected http")
    }

    fn route(&self, aim: &Aim, secure: bool, judged: Option<IpAddr>) -> Route {
        Route { target: aim.target.clone(), aliases: aim.aliases.clone(), secure, judged }
    }

    /// Dials; a denial is reported.
    pub(crate) async fn reach(&self, target: &Target) -> Result<(TcpStream, Option<IpAddr>), Refused> {
        self.dial(target).await.map_err(|error| match error {
            DialError::Denied(denial) => self.told(&denial),
            DialError::Failed(error) => Refused::Failed(error),
        })
    }

    fn told(&self, denial: &crate::decide::Denial) -> Refused {
        self.report.refused("connection", denial);
        Refused::Told
    }

    /// Reads until it is clear what the client begins with.
    async fn first_word(&self, client: &mut TcpStream, first: &mut Vec<u8>) -> io::Result<Start> {
        let reading = async {
            loop {
                let mut room = [0; 4096];
                let read = client.read(&mut room).await?;
                first.extend(&room[..read]);
                match start(first) {
                    Start::More if read > 0 => {}
                    begun => return Ok(begun),
                }
            }
        };
        tokio::time::timeout(bounds::FIRST_WORD, reading).await.unwrap_or(Ok(Start::Other))
    }
}

/// Ends a connection so that the other side sees an error and not an end.
pub(crate) fn reset(stream: TcpStream) {
    let _ = stream.set_zero_linger();
}

async fn timely<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(bounds::HANDSHAKE, work)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
