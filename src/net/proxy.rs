//! The door for programs that were told of a proxy: HTTP, CONNECT and SOCKS5 on one port.
//!
//! Answers for understanding what they ask. It leaves carrying what they asked for to the flow.
//! Invariant: every request goes through the same decision as a connection made without a proxy.

use super::bounds;
use super::dial::DialError;
use super::flow::Aim;
use super::http::{self, Form, Serving, Wire, forbidden, parse_request};
use super::service::Service;
use super::socks;
use super::telling::Telling;
use crate::capability::{Host, Target};
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

impl Service {
    /// Serves one connection to the proxy.
    pub(crate) async fn serve_proxy(self: &Arc<Self>, mut stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut first = [0];
        let peeked = tokio::time::timeout(bounds::FIRST_WORD, stream.peek(&mut first)).await;
        let served = match peeked {
            Ok(Ok(1)) if first == [5] => self.serve_socks(&mut stream).await,
            Ok(Ok(1)) => self.serve_http_proxy(&mut stream).await,
            Ok(Ok(_) | Err(_)) | Err(_) => Ok(None),
        };
        // What was asked for by CONNECT or SOCKS is carried as if it had been connected to.
        if let Ok(Some(aim)) = served {
            let meter = Arc::new(self.meter());
            self.carry_to_end(stream, &aim, &meter).await;
        }
    }

    async fn serve_http_proxy(self: &Arc<Self>, stream: &mut TcpStream) -> io::Result<Option<Aim>> {
        let mut wire = Wire::new(&mut *stream, Vec::new());
        let reading = async {
            loop {
                match parse_request(wire.pending()) {
                    Ok(Some((head, length))) => return Ok(Some((head, length))),
                    Err(_) => return Ok(None),
                    Ok(None) => {}
                }
                if wire.more().await? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
            }
        };
        let head = tokio::time::timeout(bounds::HANDSHAKE, reading)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        match head {
            Some((head, length)) if matches!(head.form, Form::Authority(_)) => {
                wire.take(length);
                // A client that does not wait for the answer would have its bytes read as something else.
                let early = !wire.pending().is_empty();
                let Form::Authority(authority) = &head.form else { return Ok(None) };
                let target = connect_target(authority, head.host.as_deref());
                self.answer_connect(stream, target, early).await
            }
            Some(_) | None => {
                let (_, first) = wire.into_parts();
                let meter = self.meter();
                meter.while_alive(http::serve(self, stream, first, Serving::Named, &meter)).await?;
                Ok(None)
            }
        }
    }

    async fn answer_connect(
        self: &Arc<Self>,
        stream: &mut TcpStream,
        target: Result<Target, &'static str>,
        early: bool,
    ) -> io::Result<Option<Aim>> {
        let target = match target {
            Ok(target) if !early => target,
            Ok(_) => return self.bad(stream, "bytes came before the answer").await,
            Err(why) => return self.bad(stream, why).await,
        };
        match self.admit(&target).await {
            Ok(aim) => {
                stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                Ok(Some(aim))
            }
            Err(Admission::Denied(denial)) => {
                self.report.refused("connection", &denial);
                stream.write_all(&forbidden(&denial).bytes("GET", false)).await?;
                stream.shutdown().await?;
                Ok(None)
            }
            Err(Admission::Failed(why)) => {
                stream.write_all(&http::Refusal::unreachable(&why).bytes("GET", false)).await?;
                stream.shutdown().await?;
                Ok(None)
            }
        }
    }

    async fn bad(&self, stream: &mut TcpStream, why: &'static str) -> io::Result<Option<Aim>> {
        self.report.malformed("connection", None, why);
        stream.write_all(&http::Refusal::malformed(400, why).bytes("GET", false)).await?;
        stream.shutdown().await?;
        Ok(None)
    }

    async fn serve_socks(self: &Arc<Self>, stream: &mut TcpStream) -> io::Result<Option<Aim>> {
        let asked = tokio::time::timeout(bounds::HANDSHAKE, socks::read(stream))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let target = match asked {
            Ok(target) => target,
            Err(reply) => {
                self.report.malformed("connection", None, "not a SOCKS5 connection to a name or address");
                stream.write_all(&socks::reply(reply)).await?;
                stream.shutdown().await?;
                return Ok(None);
            }
        };
        match self.admit(&target).await {
            Ok(aim) => {
                stream.write_all(&socks::reply(socks::GRANTED)).await?;
                Ok(Some(aim))
            }
            Err(Admission::Denied(denial)) => {
                self.report.refused("connection", &denial);
                stream.write_all(&socks::reply(socks::NOT_ALLOWED)).await?;
                stream.shutdown().await?;
                Ok(None)
            }
            Err(Admission::Failed(_)) => {
                stream.write_all(&socks::reply(socks::UNREACHABLE)).await?;
                stream.shutdown().await?;
                Ok(None)
            }
        }
    }

    /// Whether a target may be connected to; where it leads is found out first, so that the answer is true.
    async fn admit(&self, target: &Target) -> Result<Aim, Admission> {
        let aim = self.aim_of(target)?;
        let target = &aim.target;
        self.authority.hold(target, None).map_err(Admission::Denied)?;
        let meter = self.meter();
        let telling = Telling::new(&self.report, target, &meter);
        let led = self.leads(target).await;
        if let Err(DialError::Failed(error)) = led {
            telling.ended("failed", &error.kind().to_string());
            return Err(Admission::Failed(format!("{target}: {error}")));
        }
        // Whoever carries or refuses it tells the rest.
        telling.told();
        if let Err(DialError::Denied(denial)) = led {
            return Err(Admission::Denied(denial));
        }
        Ok(aim)
    }

    /// What a target stands for: as for one that is connected to, an address of a name inside is that name, and this
    /// machine has two names.
    fn aim_of(&self, target: &Target) -> Result<Aim, Admission> {
        let ip = match &target.host {
            Host::Ip(ip) => Some(*ip),
            Host::Name(name) if &**name == "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
            Host::Name(_) => None,
        };
        match ip.zip(target.port) {
            None => Ok(Aim { target: target.clone(), aliases: Vec::new() }),
            Some((ip, port)) => self.aim(ip, port).map_err(|why| {
                self.report.malformed("connection", Some(target), why);
                Admission::Failed(format!("{target}: {why}"))
            }),
        }
    }
}

/// Why a target cannot be connected to.
enum Admission {
    Denied(Box<crate::decide::Denial>),
    Failed(String),
}

/// The target of CONNECT; `Host`, where there is one, must say the same.
fn connect_target(authority: &str, host: Option<&str>) -> Result<Target, &'static str> {
    let parse = |text: &str| match Target::parse(text) {
        Ok(target) if !text.contains('@') => Ok(target),
        Ok(_) | Err(_) => Err("the target of CONNECT is not `host:port`"),
    };
    let target = parse(authority)?;
    if target.port.is_none() {
        return Err("the target of CONNECT has no port");
    }
    match host.map(parse).transpose()? {
        Some(named)
            if named.host != target.host || named.port.is_some_and(|port| Some(port) != target.port) =>
        {
            Err("`Host` is not the target of CONNECT")
        }
        _ => Ok(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_names_a_host_and_a_port() {
        let of = |authority: &str, host: Option<&str>| connect_target(authority, host).map(|t| t.to_string());
        assert_eq!(of("a.example:443", Some("a.example:443")).as_deref(), Ok("a.example:443"));
        assert_eq!(of("A.Example.:443", Some("a.example")).as_deref(), Ok("a.example:443"));
        for odd in ["a.example", "u@a.example:1", "0x7f000001:1", "a\0b:1", "a.example:0", "a?b:1", ":1"] {
            assert!(of(odd, None).is_err(), "{odd:?}");
        }
        assert!(of("a.example:443", Some("b.example:443")).is_err());
    }
}
