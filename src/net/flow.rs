//! One connection from inside: where it was meant to go, whether it may, and as what.
//!
//! Answers for choosing between bytes that pass untouched, requests that are judged and no connection at all.
//! It leaves every decision to the authority.
//! Invariant: without all four verbs nothing passes that was not read as a request.

use super::ahead::Ahead;
use super::authority::Hold;
use super::bounds;
use super::dial::{DialError, Duplex};
use super::http::{self, Open, Route, Serving};
use super::relay::Meter;
use super::service::Service;
use super::sniff::{Start, start};
use super::telling::Telling;
use crate::capability::{Host, Target};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The port on which TLS is not expected.
const HTTP: u16 = 80;

/// How a connection ended, for the audit.
pub(super) type Ended = Result<&'static str, Refused>;

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
        self.carry_to_end(stream, &aim, &meter).await;
    }

    /// Carries a connection, tells how it ended, and resets it where it did not end well.
    pub(crate) async fn carry_to_end(self: &Arc<Self>, stream: TcpStream, aim: &Aim, meter: &Arc<Meter>) {
        let mut stream = Some(stream);
        let telling = Telling::new(&self.report, &aim.target, meter);
        let ended = self.carry(&mut stream, aim, meter).await;
        match ended {
            Ok(how) => telling.ended(how, "closed"),
            Err(Refused::Told) => telling.told(),
            Err(Refused::Failed(error)) => telling.ended("failed", &error.kind().to_string()),
        }
        if let Some(stream) = stream {
            reset(stream);
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
        if hold == Hold::Whole && self.dials {
            return self.carry_whole(stream, aim, meter, opened).await;
        }
        let inspected = hold == Hold::Part || opened;
        if inspected && self.dials && target.port != Some(HTTP) && !self.outer_tls.is_ready() {
            // What is trusted is read while the client prepares its greeting.
            let service = self.clone();
            tokio::spawn(async move { service.outer_tls.roots().await });
        }
        let Some(client) = stream.as_mut() else { return Ok("nothing") };
        let mut first = Vec::new();
        let begun = self.first_word(client, &mut first).await?;
        let Some(client) = stream.take() else { return Ok("nothing") };
        match begun {
            Start::Tls if !inspected => {
                *stream = Some(client);
                self.carry_tls_untouched(stream, first, aim, meter, None).await
            }
            Start::Tls => self.inspect(stream, client, first, aim, meter, None).await,
            Start::Http1 => self.carry_http(client, first, aim, meter, None).await,
            Start::Http2 => {
                let reached = self.reach(target).await?;
                self.carry_http_two(client, first, aim, meter, reached).await
            }
            Start::Other | Start::More => {
                *stream = Some(client);
                let missing = self.authority.missing(target, None);
                if missing.is_empty() {
                    // Only a trial comes here, and it says so.
                    return self.reach(target).await.map(|_| "nothing");
                }
                self.report.refused_whole(&missing);
                Err(Refused::Told)
            }
        }
    }

    pub(super) async fn carry_http_two(
        self: &Arc<Self>,
        client: TcpStream,
        first: Vec<u8>,
        aim: &Aim,
        meter: &Arc<Meter>,
        (outer, judged): (TcpStream, Option<IpAddr>),
    ) -> Ended {
        let route = self.route(aim, false, judged);
        let client = Ahead::new(first, client, meter);
        meter.while_alive(http::serve_two(self, client, outer, route, meter)).await?;
        Ok("http2")
    }

    pub(super) async fn carry_http(
        &self,
        client: impl Duplex,
        first: Vec<u8>,
        aim: &Aim,
        meter: &Meter,
        outer: Option<(TcpStream, Option<IpAddr>)>,
    ) -> Ended {
        let (outer, judged) = outer.map_or((None, None), |(outer, judged)| (Some(outer), judged));
        let route = self.route(aim, false, judged);
        let serving = Serving::Fixed(route, outer.map(|outer| Open::new(Box::new(outer), false)));
        meter.while_alive(http::serve(self, client, first, serving, meter)).await?;
        Ok("http")
    }

    pub(super) fn route(&self, aim: &Aim, secure: bool, judged: Option<IpAddr>) -> Route {
        Route { target: aim.target.clone(), aliases: aim.aliases.clone(), secure, judged }
    }

    /// Dials; a denial is reported.
    pub(crate) async fn reach(&self, target: &Target) -> Result<(TcpStream, Option<IpAddr>), Refused> {
        self.dial(target).await.map_err(|error| match error {
            DialError::Denied(denial) => self.told(&denial),
            DialError::Failed(error) => Refused::Failed(error),
        })
    }

    /// Whether bytes may pass untouched to where a connection leads; what is missing for that is reported.
    pub(super) fn check_whole(&self, target: &Target, judged: Option<IpAddr>) -> Result<(), Refused> {
        let missing = self.authority.missing(target, judged);
        if missing.is_empty() {
            return Ok(());
        }
        self.report.refused_whole(&missing);
        Err(Refused::Told)
    }

    fn told(&self, denial: &crate::decide::Denial) -> Refused {
        self.report.refused("connection", denial);
        Refused::Told
    }

    /// Reads until it is clear what the client begins with.
    pub(super) async fn first_word(&self, client: &mut TcpStream, first: &mut Vec<u8>) -> io::Result<Start> {
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
