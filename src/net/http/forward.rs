//! A request on its way out and its answer on the way back.
//!
//! Answers for writing the head anew and for both bodies passing at once. It leaves judging to [`super::exchange`].
//! Invariant: nothing of a request is written but its parsed parts, its body, and secrets that are meant for that host.

use super::body::{Broken, Passing};
use super::exchange::{Connection, Next};
use super::head::RequestHead;
use super::refusal::Refusal;
use super::response::parse_response;
use super::route::host_line;
use super::underway::Underway;
use super::wire::Wire;
use crate::capability::Target;
use crate::net::bounds;
use crate::net::dial::{Duplex, Outer};
use crate::net::outer_proxy::OuterProxy;
use crate::net::relay::{Meter, Way};
use crate::net::report::ANSWERED;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use zeroize::Zeroizing;

/// What a proxy answers to whom it does not know.
const PROXY_WANTS_CREDENTIALS: u16 = 407;

impl<S: Duplex> Connection<'_, S> {
    /// Passes an allowed request on, and its answer back.
    pub(super) async fn forward(
        &mut self,
        head: &RequestHead,
        path: &str,
        target: &Target,
        underway: &Underway<&Meter>,
    ) -> io::Result<Next> {
        let secure = self.route.as_ref().is_some_and(|route| route.secure);
        let asked = self.open.as_ref().is_some_and(|open| open.asked);
        let bytes = self.head_bytes(head, path, target, (secure, asked));
        let Some(open) = &mut self.open else { return Ok(Next::Close) };
        let whole = AtomicBool::new(false);
        let received = {
            let (client, reply, meter) = (&mut self.client, &mut self.reply, self.meter);
            let (outer_read, outer_write) = (&mut open.read, &mut open.write);
            let mut send = pin!(async {
                send(head, bytes, client, outer_write, meter).await?;
                whole.store(true, Ordering::Relaxed);
                hung_up(client).await?;
                // Some clients say that they have said all, and still listen.
                meter.half_close();
                outer_write.shutdown().await.map_err(Broken::Sink)
            });
            let mut receive = pin!(receive(outer_read, reply, underway, meter, asked));
            let mut over = false;
            loop {
                tokio::select! {
                    biased;
                    done = &mut receive => break done,
                    sent = &mut send, if !over => match sent {
                        // A server may answer before it has taken all; what it says still counts.
                        Ok(()) | Err(Broken::Sink(_)) => over = true,
                        Err(broken) => break Err(Answered::Left(broken)),
                    },
                }
            }
        };
        let keep_alive = match received {
            Ok(keep_alive) => keep_alive,
            Err(failed) => return self.broken(head, target, underway, failed).await,
        };
        underway.ends(ANSWERED);
        match (underway.status(), &head.upgrade) {
            (101, Some(_)) => return Ok(Next::Upgraded),
            // Nobody asked for another protocol, and none was judged.
            (101, None) => return Ok(Next::Close),
            _ => {}
        }
        let reusable = keep_alive && head.keep_alive && whole.into_inner();
        Ok(if reusable { Next::Again } else { Next::Close })
    }

    /// Ends an exchange that broke off; who can still be told why is told.
    async fn broken(
        &mut self,
        head: &RequestHead,
        target: &Target,
        underway: &Underway<&Meter>,
        failed: Answered,
    ) -> io::Result<Next> {
        // The other side is not to wait for what does not come any more.
        self.open = None;
        match failed {
            Answered::Never(error) => {
                underway.ends("no answer");
                let refusal = Refusal::unreachable(&format!("{target} did not answer: {error}"));
                self.refuse(head, &refusal).await.map(|_| Next::Close)
            }
            Answered::Left(Broken::Odd) => {
                let why = "the body is not in plain chunks";
                if underway.is_answered() {
                    self.service.report.malformed("request", Some(target), why);
                    return Ok(Next::Close);
                }
                self.refuse_malformed(400, why).await.map(|()| Next::Close)
            }
            Answered::Partly(error) => Err(error),
            Answered::Left(broken) => Err(broken.into()),
        }
    }

    /// The head as it is written to the other side, from its parts.
    fn head_bytes(
        &self,
        head: &RequestHead,
        path: &str,
        target: &Target,
        (secure, asked): (bool, bool),
    ) -> Zeroizing<Vec<u8>> {
        let injected = self.service.secrets.apply(target, secure, &head.headers);
        // Room for all of it, because a vector that grows leaves what it held behind.
        let lines = head.headers.iter().map(|(name, value)| name.len() + value.len() + 4);
        let more = injected.iter().map(|(name, value)| name.len() + value.len() + 4);
        let proxy = self.service.outer_proxy.as_ref().filter(|_| asked);
        let credentials = proxy.map(OuterProxy::credentials).unwrap_or_default();
        let room = 1024
            + credentials.len()
            + path.len()
            + lines.chain(more).sum::<usize>()
            + self.client.pending().len();
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        // In the spelling that was compared: another could mean another host to the server.
        let named = head.host.as_deref().filter(|_| self.fixed).and_then(|host| Target::parse(host).ok());
        let host = match named {
            Some(named) => named.to_string(),
            None => host_line(target, if secure { 443 } else { 80 }),
        };
        let whole = match (asked, path) {
            (false, path) => path.to_owned(),
            (true, "*") => format!("http://{}", host_line(target, 80)),
            (true, path) => format!("http://{}{path}", host_line(target, 80)),
        };
        let first = format!("{} {whole} HTTP/1.{}\r\nHost: {host}\r\n", head.method, head.minor);
        bytes.extend(first.as_bytes());
        bytes.extend(credentials.as_bytes());
        let mut line = |name: &str, value: &[u8]| {
            bytes.extend(name.as_bytes());
            bytes.extend(b": ");
            bytes.extend(value);
            bytes.extend(b"\r\n");
        };
        for (name, value) in &head.headers {
            let replaced = injected.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
            if replaced.is_none() {
                line(name, value);
            }
        }
        for (name, value) in &injected {
            line(name, value);
        }
        bytes.extend(b"\r\n");
        bytes
    }
}

/// How an answer failed.
enum Answered {
    /// Nothing of it was passed on.
    Never(io::Error),
    /// Some of it was.
    Partly(io::Error),
    /// The client left before it had sent all, or sent what cannot be passed on.
    Left(Broken),
}

/// Passes a request on, with the part of its body that has come already in the same write.
async fn send<S: Duplex>(
    head: &RequestHead,
    mut bytes: Zeroizing<Vec<u8>>,
    client: &mut Wire<ReadHalf<S>>,
    to: &mut WriteHalf<Outer>,
    meter: &Meter,
) -> Result<(), Broken> {
    let mut body = Passing::new(head.framing, Way::Out);
    bytes.extend(body.ready(client)?);
    to.write_all(&bytes).await.map_err(Broken::Sink)?;
    to.flush().await.map_err(Broken::Sink)?;
    meter.count(Way::Out, bytes.len());
    body.run(client, to, meter).await
}

/// Waits until the client hangs up; a next request that it sends before waits here.
async fn hung_up<S: Duplex>(client: &mut Wire<ReadHalf<S>>) -> Result<(), Broken> {
    while client.pending().len() < bounds::HEAD {
        if client.more().await.map_err(Broken::Source)? == 0 {
            return Ok(());
        }
    }
    std::future::pending().await
}

/// Passes an answer back; whether the connection may be used again.
async fn receive<S: Duplex>(
    from: &mut Wire<ReadHalf<Outer>>,
    reply: &mut WriteHalf<S>,
    underway: &Underway<&Meter>,
    meter: &Meter,
    asked: bool,
) -> Result<bool, Answered> {
    loop {
        let head = match parse_response(from.pending(), underway.method()) {
            Err(why) => return Err(Answered::Never(io::Error::new(io::ErrorKind::InvalidData, why.0))),
            Ok(Some(head)) => head,
            Ok(None) => match from.more().await {
                Ok(0) => return Err(Answered::Never(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => continue,
                Err(error) => return Err(Answered::Never(error)),
            },
        };
        // Between the proxy and the gateway only: whoever is inside knows of no such proxy.
        if asked && head.status == PROXY_WANTS_CREDENTIALS {
            let why = "the proxy further out does not accept its credentials";
            return Err(Answered::Never(io::Error::new(io::ErrorKind::PermissionDenied, why)));
        }
        let mut bytes = from.take(head.length);
        underway.answers(head.status);
        let passed = async {
            // The first part of the body often comes with the head; one write carries both.
            let mut body = Passing::new(head.framing, Way::In);
            bytes.extend(body.ready(from)?);
            reply.write_all(&bytes).await?;
            reply.flush().await?;
            meter.count(Way::In, bytes.len());
            Ok::<(), io::Error>(body.run(from, reply, meter).await?)
        };
        passed.await.map_err(Answered::Partly)?;
        if head.status == 101 || head.status >= 200 {
            return Ok(head.keep_alive);
        }
    }
}
