//! One connection of HTTP/1: request after request, each judged before it is passed on.
//!
//! Answers for requests and answers following one another. It leaves who may be reached to the authority.
//! Invariant: a request is written to the other side only after it was allowed, and from its parsed parts.

use super::body::Passing;
use super::head::{Form, Framing, Malformed, RequestHead, parse_request, parse_response};
use super::meant::other_methods;
use super::refusal::{Refusal, forbidden};
use super::wire::Wire;
use crate::capability::{Host, Target};
use crate::net::authority::Hold;
use crate::net::bounds;
use crate::net::dial::{DialError, Duplex, Outer};
use crate::net::relay::{Meter, Way, copy};
use crate::net::report::Passed;
use crate::net::service::Service;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use zeroize::Zeroizing;

/// Where requests of a connection go.
pub(crate) struct Route {
    /// The host and port.
    pub(crate) target: Target,
    /// Other names under which the same host may be addressed.
    pub(crate) aliases: Vec<Host>,
    /// Whether this goes over verified TLS.
    pub(crate) secure: bool,
    /// The address that was dialled, when it is inside.
    pub(crate) judged: Option<IpAddr>,
}

/// How requests say where they go.
pub(crate) enum Serving {
    /// All to one host, which the connection was made to; the other side may be connected already.
    Fixed(Route, Option<Outer>),
    /// Each says it, as for a proxy.
    Named,
}

struct Open {
    read: Wire<ReadHalf<Outer>>,
    write: WriteHalf<Outer>,
}

struct Connection<'a, S> {
    service: &'a Service,
    meter: &'a Meter,
    client: Wire<ReadHalf<S>>,
    reply: WriteHalf<S>,
    fixed: bool,
    route: Option<Route>,
    open: Option<Open>,
}

/// What to do after a request.
enum Next {
    Again,
    Close,
    /// The connection carries something else now.
    Upgraded,
}

/// Serves a connection to its end; `first` was read of it already.
pub(crate) async fn serve<S: Duplex>(
    service: &Service,
    client: S,
    first: Vec<u8>,
    serving: Serving,
    meter: &Meter,
) -> io::Result<()> {
    let (read, reply) = tokio::io::split(client);
    let (fixed, route, outer) = match serving {
        Serving::Fixed(route, outer) => (true, Some(route), outer),
        Serving::Named => (false, None, None),
    };
    let client = Wire::new(read, first);
    let mut connection =
        Connection { service, meter, client, reply, fixed, route, open: outer.map(Open::new) };
    loop {
        let Some(head) = connection.next_head().await? else { return connection.reply.shutdown().await };
        let head = match head {
            Ok(head) => head,
            Err(why) => return connection.refuse_malformed(400, why.0).await,
        };
        match connection.exchange(head).await? {
            Next::Again => {}
            Next::Close => return connection.reply.shutdown().await,
            Next::Upgraded => return connection.become_tunnel().await,
        }
    }
}

impl Open {
    fn new(outer: Outer) -> Self {
        let (read, write) = tokio::io::split(outer);
        Self { read: Wire::new(read, Vec::new()), write }
    }
}

impl<S: Duplex> Connection<'_, S> {
    /// The next request's head; none when either side has hung up.
    async fn next_head(&mut self) -> io::Result<Option<Result<RequestHead, Malformed>>> {
        let mut begun: Option<tokio::time::Instant> = None;
        loop {
            // Empty lines before a request are nobody's request.
            while self.client.pending().starts_with(b"\r\n") {
                self.client.take(2);
            }
            match parse_request(self.client.pending()) {
                Err(why) => return Ok(Some(Err(why))),
                Ok(Some((head, length))) => {
                    self.client.take(length);
                    return Ok(Some(Ok(head)));
                }
                Ok(None) => {}
            }
            if begun.is_none() && !self.client.pending().is_empty() {
                begun = Some(tokio::time::Instant::now() + bounds::HANDSHAKE);
            }
            let read = match (&mut self.open, begun) {
                (_, Some(deadline)) => tokio::time::timeout_at(deadline, self.client.more())
                    .await
                    .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??,
                (None, None) => self.client.more().await?,
                (Some(open), None) => tokio::select! {
                    read = self.client.more() => read?,
                    // The other side hung up or spoke out of turn: this connection is over.
                    _ = open.read.more() => return Ok(None),
                },
            };
            if read == 0 {
                return Ok(None);
            }
        }
    }

    /// Where a request goes, and the path it asks for there.
    fn destination(&self, head: &RequestHead) -> Result<(Target, String), Malformed> {
        let (authority, path) = match &head.form {
            Form::Origin(path) => (None, path.clone()),
            Form::Absolute { authority, path } => (Some(authority.as_str()), path.clone()),
            Form::Authority(_) => return Err(Malformed("CONNECT is for proxies, once")),
        };
        let target = match (&self.route, authority) {
            (Some(route), None) if self.fixed => route.target.clone(),
            (Some(route), Some(authority)) if self.fixed => {
                route.same(authority)?;
                route.target.clone()
            }
            (_, Some(authority)) => Target { port: parse(authority)?.port.or(Some(80)), ..parse(authority)? },
            (_, None) => return Err(Malformed("the target does not name a host")),
        };
        match (&head.host, authority) {
            (None, _) => {}
            (Some(host), _) if self.fixed => {
                if let Some(route) = &self.route {
                    route.same(host)?;
                }
            }
            (Some(host), _) => {
                let named = parse(host)?;
                if named.host != target.host || named.port.is_some_and(|port| Some(port) != target.port) {
                    return Err(Malformed("`Host` is not the host of the target"));
                }
            }
        }
        Ok((target, path))
    }

    async fn exchange(&mut self, head: RequestHead) -> io::Result<Next> {
        let (target, path) = match self.destination(&head) {
            Ok(found) => found,
            Err(why) => return self.refuse_malformed(421, why.0).await.map(|()| Next::Close),
        };
        let judged =
            self.route.as_ref().filter(|route| route.target == target).and_then(|route| route.judged);
        if let Err(denial) = self.judge(&head, &path, &target, judged) {
            self.service.report.refused("request", &denial);
            return self.refuse(&head, &forbidden(&denial)).await;
        }
        if let Err(next) = self.connect(&head, &path, &target).await? {
            return Ok(next);
        }
        self.forward(&head, &path, &target).await
    }

    fn judge(
        &self,
        head: &RequestHead,
        path: &str,
        target: &Target,
        judged: Option<IpAddr>,
    ) -> Result<(), Box<crate::decide::Denial>> {
        let authority = &self.service.authority;
        authority.request(&head.method, path, target, judged)?;
        let lines = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        other_methods(lines).try_for_each(|method| authority.request(&method, path, target, judged))?;
        if head.framing != Framing::None {
            let kind = head.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            let kind = kind.map(|(_, value)| value.as_slice());
            authority.carried((&head.method, path), kind, target, judged)?;
        }
        match head.upgrade.as_deref() {
            None => Ok(()),
            Some("websocket") => authority.upgrade(target, judged),
            Some(_) => match authority.hold(target, judged)? {
                Hold::Whole => Ok(()),
                Hold::Part => authority.whole(target, judged),
            },
        }
    }

    /// Sees to it that there is a connection to the target; or answers why there is none.
    async fn connect(
        &mut self,
        head: &RequestHead,
        path: &str,
        target: &Target,
    ) -> io::Result<Result<(), Next>> {
        let same = self.route.as_ref().is_some_and(|route| route.target == *target);
        if self.open.is_some() && same {
            return Ok(Ok(()));
        }
        self.open = None;
        let (stream, judged) = match self.service.dial(target).await {
            Ok(dialled) => dialled,
            Err(DialError::Denied(denial)) => {
                self.service.report.refused("request", &denial);
                return self.refuse(head, &forbidden(&denial)).await.map(Err);
            }
            Err(DialError::Failed(error)) => {
                let refusal = Refusal::unreachable(&format!("{target} cannot be reached: {error}"));
                return self.refuse(head, &refusal).await.map(Err);
            }
        };
        if let Err(denial) = self.judge(head, path, target, judged) {
            self.service.report.refused("request", &denial);
            return self.refuse(head, &forbidden(&denial)).await.map(Err);
        }
        self.open = Some(Open::new(Box::new(stream)));
        match &mut self.route {
            Some(route) if self.fixed => route.judged = judged,
            route => {
                let target = target.clone();
                *route = Some(Route { target, aliases: Vec::new(), secure: false, judged });
            }
        }
        Ok(Ok(()))
    }

    /// Passes an allowed request on, and its answer back.
    async fn forward(&mut self, head: &RequestHead, path: &str, target: &Target) -> io::Result<Next> {
        let secure = self.route.as_ref().is_some_and(|route| route.secure);
        let mut bytes = self.head_bytes(head, path, target, secure);
        let Some(open) = &mut self.open else { return Ok(Next::Close) };
        let begun = Instant::now();
        let before = self.meter.passed();
        let mut sent = None;
        let received = {
            let (client, reply, meter) = (&mut self.client, &mut self.reply, self.meter);
            let (outer_read, outer_write) = (&mut open.read, &mut open.write);
            let send = async {
                let mut body = Passing::new(head.framing, Way::Out);
                bytes.extend(body.ready(client)?);
                outer_write.write_all(&bytes).await?;
                outer_write.flush().await?;
                meter.count(Way::Out, bytes.len());
                body.run(client, outer_write, meter).await
            };
            let mut receive = pin!(receive(outer_read, reply, &head.method, meter));
            let mut send = pin!(send);
            loop {
                tokio::select! {
                    done = &mut send, if sent.is_none() => {
                        // A server may answer before it has taken all; what it says still counts.
                        sent = Some(done.is_ok());
                    }
                    done = &mut receive => break done,
                }
            }
        };
        let (status, keep_alive) = match received {
            Ok(answer) => answer,
            Err(Answered::Never(error)) => {
                let refusal = Refusal::unreachable(&format!("{target} did not answer: {error}"));
                self.service.report.connection(target, "http", self.meter.passed(), "no answer");
                return self.refuse(head, &refusal).await.map(|_| Next::Close);
            }
            Err(Answered::Partly(error)) => return Err(error),
        };
        let now = self.meter.passed();
        let passed = Passed {
            sent: now.sent - before.sent,
            received: now.received - before.received,
            took: begun.elapsed(),
        };
        self.service.report.request(target, &head.method, path, status, passed);
        match (status, &head.upgrade) {
            (101, Some(_)) => return Ok(Next::Upgraded),
            // Nobody asked for another protocol, and none was judged.
            (101, None) => return Ok(Next::Close),
            _ => {}
        }
        let reusable = keep_alive && head.keep_alive && sent == Some(true);
        Ok(if reusable { Next::Again } else { Next::Close })
    }

    /// The head as it is written to the other side, from its parts.
    fn head_bytes(
        &self,
        head: &RequestHead,
        path: &str,
        target: &Target,
        secure: bool,
    ) -> Zeroizing<Vec<u8>> {
        let injected = self.service.secrets.apply(target, secure, &head.headers);
        // Room for all of it, because a vector that grows leaves what it held behind.
        let lines = head.headers.iter().map(|(name, value)| name.len() + value.len() + 4);
        let more = injected.iter().map(|(name, value)| name.len() + value.len() + 4);
        let room = 1024 + path.len() + lines.chain(more).sum::<usize>() + self.client.pending().len();
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        let host = match (&head.host, self.fixed) {
            (Some(host), true) => host.to_ascii_lowercase(),
            _ => host_line(target, if secure { 443 } else { 80 }),
        };
        let first = format!("{} {path} HTTP/1.{}\r\nHost: {host}\r\n", head.method, head.minor);
        bytes.extend(first.as_bytes());
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

    /// Says no and goes on, where the request has no body that would be in the way.
    async fn refuse(&mut self, head: &RequestHead, refusal: &Refusal) -> io::Result<Next> {
        let keep = head.keep_alive && head.framing == Framing::None;
        self.reply.write_all(&refusal.bytes(&head.method, keep)).await?;
        self.reply.flush().await?;
        if keep {
            return Ok(Next::Again);
        }
        self.linger().await?;
        Ok(Next::Close)
    }

    async fn refuse_malformed(&mut self, status: u16, why: &'static str) -> io::Result<()> {
        let target = self.route.as_ref().map(|route| &route.target);
        self.service.report.malformed("request", target, why);
        self.reply.write_all(&Refusal::malformed(status, why).bytes("GET", false)).await?;
        self.reply.flush().await?;
        self.linger().await
    }

    /// Takes a little of what is still coming, so that the answer is not lost with it.
    async fn linger(&mut self) -> io::Result<()> {
        let _ = self.reply.shutdown().await;
        let drain = async {
            let mut room = [0; 8192];
            let mut taken = 0;
            while taken < bounds::DRAINED {
                match self.client.stream.read(&mut room).await {
                    Ok(0) | Err(_) => return,
                    Ok(read) => taken += read,
                }
            }
        };
        let _ = tokio::time::timeout(bounds::DRAINING, drain).await;
        Ok(())
    }

    /// Carries anything both ways after an upgrade.
    async fn become_tunnel(mut self) -> io::Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let early = self.client.take(usize::MAX);
        open.write.write_all(&early).await?;
        open.write.flush().await?;
        let answered = open.read.take(usize::MAX);
        self.reply.write_all(&answered).await?;
        self.reply.flush().await?;
        let out = copy(&mut self.client.stream, &mut open.write, Way::Out, self.meter);
        let back = copy(&mut open.read.stream, &mut self.reply, Way::In, self.meter);
        tokio::try_join!(out, back).map(|_| ())
    }
}

/// How an answer failed.
enum Answered {
    /// Nothing of it was passed on.
    Never(io::Error),
    /// Some of it was.
    Partly(io::Error),
}

/// Passes an answer back; its status, and whether the connection may be used again.
async fn receive<S: Duplex>(
    from: &mut Wire<ReadHalf<Outer>>,
    reply: &mut WriteHalf<S>,
    method: &str,
    meter: &Meter,
) -> Result<(u16, bool), Answered> {
    loop {
        let head = match parse_response(from.pending(), method) {
            Err(why) => return Err(Answered::Never(io::Error::new(io::ErrorKind::InvalidData, why.0))),
            Ok(Some(head)) => head,
            Ok(None) => match from.more().await {
                Ok(0) => return Err(Answered::Never(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => continue,
                Err(error) => return Err(Answered::Never(error)),
            },
        };
        let mut bytes = from.take(head.length);
        let passed = async {
            // The first part of the body often comes with the head; one write carries both.
            let mut body = Passing::new(head.framing, Way::In);
            bytes.extend(body.ready(from)?);
            reply.write_all(&bytes).await?;
            reply.flush().await?;
            meter.count(Way::In, bytes.len());
            body.run(from, reply, meter).await
        };
        passed.await.map_err(Answered::Partly)?;
        if head.status == 101 || head.status >= 200 {
            return Ok((head.status, head.keep_alive));
        }
    }
}

impl Route {
    /// Whether a text names this route's host and port.
    pub(super) fn same(&self, authority: &str) -> Result<(), Malformed> {
        let named = parse(authority)?;
        let host = named.host == self.target.host || self.aliases.contains(&named.host);
        // A port that is left out says nothing; the connection's own stands.
        let port = named.port.is_none() || named.port == self.target.port;
        if host && port {
            Ok(())
        } else {
            Err(Malformed("the request is for another host than its connection"))
        }
    }
}

fn parse(authority: &str) -> Result<Target, Malformed> {
    if authority.contains('@') {
        return Err(Malformed("the host carries credentials"));
    }
    Target::parse(authority).map_err(|_| Malformed("the host is not one"))
}

/// What `Host` says of a target.
pub(crate) fn host_line(target: &Target, default: u16) -> String {
    match target.port {
        Some(port) if port != default => format!("{}:{port}", target.host),
        _ => target.host.to_string(),
    }
}
