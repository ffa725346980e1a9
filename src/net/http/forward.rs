//! A request on its way out and its answer on the way back.
//!
//! Answers for writing the head anew and for both bodies passing at once. It leaves judging to [`super::exchange`].
//! Invariant: nothing of a request is written but its parsed parts, its body, and secrets that are meant for that host.

use super::body::Passing;
use super::exchange::{Connection, Next};
use super::head::RequestHead;
use super::refusal::Refusal;
use super::response::parse_response;
use super::route::host_line;
use super::wire::Wire;
use crate::capability::Target;
use crate::net::dial::{Duplex, Outer};
use crate::net::relay::{Meter, Way};
use crate::net::report::Passed;
use std::io;
use std::pin::pin;
use std::time::Instant;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use zeroize::Zeroizing;

impl<S: Duplex> Connection<'_, S> {
    /// Passes an allowed request on, and its answer back.
    pub(super) async fn forward(
        &mut self,
        head: &RequestHead,
        path: &str,
        target: &Target,
    ) -> io::Result<Next> {
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
