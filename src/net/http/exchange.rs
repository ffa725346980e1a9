//! One connection of HTTP/1: request after request, each judged before it is passed on.
//!
//! Answers for requests following one another. It leaves who may be reached to the authority, passing a request on to
//! [`super::forward`] and saying no to [`super::refusal`].
//! Invariant: a request is written to the other side only after it was allowed, and from its parsed parts.

use super::head::{Framing, Malformed, RequestHead, parse_request};
use super::meant::other_methods;
use super::refusal::{Refusal, forbidden};
use super::route::{Route, destination};
use super::underway::Underway;
use super::wire::Wire;
use crate::capability::Target;
use crate::decide::Denial;
use crate::net::authority::Hold;
use crate::net::bounds;
use crate::net::dial::{DialError, Duplex, Outer};
use crate::net::relay::{Meter, Way, copy};
use crate::net::service::Service;
use std::io;
use std::net::IpAddr;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};

/// How requests say where they go.
pub(crate) enum Serving {
    /// All to one host, which the connection was made to; the other side may be connected already.
    Fixed(Route, Option<Open>),
    /// Each says it, as for a proxy.
    Named,
}

/// The other side.
pub(crate) struct Open {
    pub(super) read: Wire<ReadHalf<Outer>>,
    pub(super) write: WriteHalf<Outer>,
    /// Whether it is a proxy that is asked for each request.
    pub(super) asked: bool,
}

/// A connection from inside and what belongs to it.
pub(super) struct Connection<'a, S> {
    pub(super) service: &'a Service,
    pub(super) meter: &'a Meter,
    pub(super) client: Wire<ReadHalf<S>>,
    pub(super) reply: WriteHalf<S>,
    /// Whether all requests go to one host.
    pub(super) fixed: bool,
    pub(super) route: Option<Route>,
    pub(super) open: Option<Open>,
}

/// What to do after a request.
pub(super) enum Next {
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
    let (fixed, route, open) = match serving {
        Serving::Fixed(route, open) => (true, Some(route), open),
        Serving::Named => (false, None, None),
    };
    let client = Wire::new(read, first);
    let mut connection = Connection { service, meter, client, reply, fixed, route, open };
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
    /// A connection to a host, or to a proxy that is `asked` for each request.
    pub(crate) fn new(outer: Outer, asked: bool) -> Self {
        let (read, write) = tokio::io::split(outer);
        Self { read: Wire::new(read, Vec::new()), write, asked }
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

    async fn exchange(&mut self, head: RequestHead) -> io::Result<Next> {
        let (target, path) = match destination(&head, self.route.as_ref().filter(|_| self.fixed)) {
            Ok(found) => found,
            Err(why) => return self.refuse_malformed(421, why.0).await.map(|()| Next::Close),
        };
        let judged =
            self.route.as_ref().filter(|route| route.target == target).and_then(|route| route.judged);
        if let Err(denial) = self.judge(&head, &path, &target, judged) {
            self.service.report.refused("request", &denial);
            return self.refuse(&head, &forbidden(&denial)).await;
        }
        let begun = Underway::begin(&self.service.report, self.meter, &target, (&head.method, &path));
        let underway = match begun {
            Ok(underway) => underway,
            Err(refusal) => return self.refuse(&head, &refusal).await,
        };
        if let Err(next) = self.connect(&head, &path, &target, &underway).await? {
            return Ok(next);
        }
        self.forward(&head, &path, &target, &underway).await
    }

    fn judge(
        &self,
        head: &RequestHead,
        path: &str,
        target: &Target,
        judged: Option<IpAddr>,
    ) -> Result<(), Box<Denial>> {
        let authority = &self.service.authority;
        authority.request(&head.method, path, target, judged)?;
        let lines = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        other_methods(lines).try_for_each(|method| authority.request(&method, path, target, judged))?;
        if head.framing != Framing::None {
            let lines = head.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            let mut kinds = lines.map(|(_, value)| value.as_slice());
            authority.carried((&head.method, path), &mut kinds, target, judged)?;
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
        underway: &Underway<&Meter>,
    ) -> io::Result<Result<(), Next>> {
        let secure = self.route.as_ref().is_some_and(|route| route.secure);
        // What a request is to become something else by, few proxies pass on.
        let asked = !secure && head.upgrade.is_none() && self.service.proxy_to(target).is_some();
        let same = self.route.as_ref().is_some_and(|route| route.target == *target);
        if same && self.open.as_ref().is_some_and(|open| open.asked == asked) {
            return Ok(Ok(()));
        }
        self.open = None;
        let (stream, judged) = match self.service.dial_as(target, asked).await {
            Ok(dialled) => dialled,
            Err(DialError::Denied(denial)) => {
                underway.told();
                self.service.report.refused("request", &denial);
                return self.refuse(head, &forbidden(&denial)).await.map(Err);
            }
            Err(DialError::Failed(error)) => {
                underway.ends("not reached");
                let refusal = Refusal::unreachable(&format!("{target} cannot be reached: {error}"));
                return self.refuse(head, &refusal).await.map(Err);
            }
        };
        if let Err(denial) = self.judge(head, path, target, judged) {
            underway.told();
            self.service.report.refused("request", &denial);
            return self.refuse(head, &forbidden(&denial)).await.map(Err);
        }
        self.open = Some(Open::new(Box::new(stream), asked));
        match &mut self.route {
            Some(route) if self.fixed => route.judged = judged,
            route => {
                let target = target.clone();
                *route = Some(Route { target, aliases: Vec::new(), secure: false, judged });
            }
        }
        Ok(Ok(()))
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
