//! HTTP/2, request by request: each is judged before it is passed on.
//!
//! Answers for one connection to one other; bodies and trailers pass as they come.
//! Invariant: a request goes only to the host its connection was made to.

use super::meant::other_methods;
use super::refusal::{Refusal, forbidden};
use super::route::{Route, host_line};
use super::underway::Underway;
use crate::decide::Denial;
use crate::net::bounds;
use crate::net::dial::Duplex;
use crate::net::relay::{Meter, Way};
use crate::net::report::ANSWERED;
use crate::net::service::Service;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http2::SendRequest;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

/// How much one connection may hold of what its other side has not taken yet.
struct Room {
    stream: u32,
    connection: u32,
    frame: u32,
    streams: u32,
    /// What waits to be sent on one stream.
    sending: usize,
    /// Bounds how many have much.
    _large: Option<OwnedSemaphorePermit>,
}

impl Room {
    fn new(service: &Service) -> Self {
        let large = service.large_two.clone().try_acquire_owned().ok();
        let [stream, connection] = match &large {
            Some(_) => [bounds::H2_LARGE_STREAM, bounds::H2_LARGE_CONNECTION],
            None => [bounds::H2_STREAM, bounds::H2_CONNECTION],
        };
        let (frame, streams, sending) = match &large {
            Some(_) => (bounds::H2_LARGE_FRAME, bounds::H2_LARGE_STREAMS, bounds::H2_LARGE_SENDING),
            None => (bounds::H2_FRAME, bounds::H2_STREAMS, bounds::H2_SENDING),
        };
        Self { stream, connection, frame, streams, sending, _large: large }
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve<C: Duplex + 'static, O: Duplex + 'static>(
    service: &Arc<Service>,
    client: C,
    outer: O,
    route: Route,
    meter: &Arc<Meter>,
) -> io::Result<()> {
    let room = Room::new(service);
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(room.stream)
        .initial_connection_window_size(room.connection)
        .max_frame_size(room.frame)
        .max_send_buf_size(room.sending)
        .max_header_list_size(u32::try_from(bounds::HEAD).unwrap_or(u32::MAX))
        .handshake(TokioIo::new(outer))
        .await
        .map_err(io::Error::other)?;
    let shared = Arc::new(Shared { service: service.clone(), meter: meter.clone(), route, sender });
    let answer = move |request: Request<Incoming>| {
        let shared = shared.clone();
        async move { Ok::<_, hyper::Error>(shared.exchange(request).await) }
    };
    let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(room.stream)
        .initial_connection_window_size(room.connection)
        .max_frame_size(room.frame)
        .max_send_buf_size(room.sending)
        .max_concurrent_streams(room.streams)
        .max_header_list_size(u32::try_from(bounds::HEAD).unwrap_or(u32::MAX))
        .serve_connection(TokioIo::new(client), service_fn(answer));
    let (mut serving, mut connection) = (pin!(serving), pin!(connection));
    tokio::select! {
        done = &mut serving => return done.map_err(io::Error::other),
        _ = &mut connection => {}
    }
    // The other side hung up: what it has answered is still delivered, and nothing new is begun.
    serving.as_mut().graceful_shutdown();
    serving.await.map_err(io::Error::other)
}

struct Shared {
    service: Arc<Service>,
    meter: Arc<Meter>,
    route: Route,
    sender: SendRequest<Counted>,
}

impl Shared {
    async fn exchange(&self, request: Request<Incoming>) -> Answer {
        let (method, path) = (request.method().as_str().to_owned(), path_of(&request));
        let target = &self.route.target;
        if let Err(why) = self.check_host(&request) {
            self.service.report.malformed("request", Some(target), why);
            return refuse(&Refusal::malformed(421, why));
        }
        if let Err(denial) = self.judge(&request, &method, &path) {
            self.service.report.refused("request", &denial);
            return refuse(&forbidden(&denial));
        }
        let exchange = match Exchange::begin(self, &method, &path) {
            Ok(exchange) => Arc::new(exchange),
            Err(refusal) => return refuse(&refusal),
        };
        let Some(request) = self.prepared(request, &path, exchange.clone()) else {
            return refuse(&Refusal::malformed(400, "the request cannot be passed on"));
        };
        match self.sender.clone().send_request(request).await {
            Ok(answer) => {
                exchange.own.answers(answer.status().as_u16());
                answer.map(|body| Counted::new(body, Way::In, exchange).boxed())
            }
            Err(error) => {
                exchange.own.ends("no answer");
                refuse(&Refusal::unreachable(&format!("{target} did not answer: {error}")))
            }
        }
    }

    fn judge(&self, request: &Request<Incoming>, method: &str, path: &str) -> Result<(), Box<Denial>> {
        let judge = |method: &str| {
            self.service.authority.request(method, path, &self.route.target, self.route.judged)
        };
        judge(method)?;
        let lines = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        other_methods(lines).try_for_each(|method| judge(&method))?;
        if request.body().is_end_stream() {
            return Ok(());
        }
        let mut kinds = request.headers().get_all(CONTENT_TYPE).iter().map(HeaderValue::as_bytes);
        let Route { target, judged, .. } = &self.route;
        self.service.authority.carried((method, path), &mut kinds, target, *judged)
    }

    /// Everything that names a host must name the connection's.
    fn check_host(&self, request: &Request<Incoming>) -> Result<(), &'static str> {
        let authority = request.uri().authority().map(|authority| authority.as_str());
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = hosts.next().map(|host| host.to_str().unwrap_or_default());
        if hosts.next().is_some() || (authority.is_none() && host.is_none()) {
            return Err("there is not one host");
        }
        for named in authority.into_iter().chain(host) {
            self.route.same(named).map_err(|why| why.0)?;
        }
        Ok(())
    }

    /// The request as it is sent on.
    fn prepared(
        &self,
        request: Request<Incoming>,
        path: &str,
        exchange: Arc<Exchange>,
    ) -> Option<Request<Counted>> {
        let (mut parts, body) = request.into_parts();
        parts.headers.remove(HOST);
        let (scheme, default) = if self.route.secure { ("https", 443) } else { ("http", 80) };
        let authority = host_line(&self.route.target, default);
        parts.uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build().ok()?;
        if self.service.secrets.concern(&self.route.target) {
            let line =
                |(name, value): (&HeaderName, &HeaderValue)| (name.to_string(), value.as_bytes().to_vec());
            let written: Vec<(String, Vec<u8>)> = parts.headers.iter().map(line).collect();
            for (name, value) in self.service.secrets.apply(&self.route.target, self.route.secure, &written) {
                let name = HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes()).ok()?;
                let mut value = HeaderValue::from_bytes(&value).ok()?;
                value.set_sensitive(true);
                parts.headers.insert(name, value);
            }
        }
        Some(Request::from_parts(parts, Counted::new(body, Way::Out, exchange)))
    }
}

fn path_of(request: &Request<Incoming>) -> String {
    request.uri().path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string)
}

fn refuse(refusal: &Refusal) -> Answer {
    let body = Full::new(Bytes::from(refusal.body.clone())).map_err(|never| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::FORBIDDEN);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert("x-sbx", HeaderValue::from_static("refused"));
    answer
}

/// One request and its answer, told of when the bodies of both have ended.
struct Exchange {
    /// Of the whole connection.
    connection: Arc<Meter>,
    own: Underway<Box<Meter>>,
}

impl Exchange {
    fn begin(shared: &Shared, method: &str, path: &str) -> Result<Self, Refusal> {
        let (service, target) = (&shared.service, &shared.route.target);
        let own = Underway::begin(&service.report, Box::new(service.meter()), target, (method, path))?;
        Ok(Self { connection: shared.meter.clone(), own })
    }

    fn count(&self, way: Way, frame: &Frame<Bytes>) {
        if let Some(data) = frame.data_ref() {
            self.own.meter().count(way, data.len());
        }
        // Trailers are a sign of life too.
        self.connection.count(way, frame.data_ref().map_or(1, Bytes::len));
    }
}

/// A body whose bytes are counted as they pass.
struct Counted {
    body: Incoming,
    way: Way,
    exchange: Arc<Exchange>,
}

impl Counted {
    fn new(body: Incoming, way: Way, exchange: Arc<Exchange>) -> Self {
        let counted = Self { body, way, exchange };
        counted.note_end(false);
        counted
    }

    /// An answer is whole once its body has ended.
    fn note_end(&self, ended: bool) {
        if self.way == Way::In && (ended || self.body.is_end_stream()) {
            self.exchange.own.ends(ANSWERED);
        }
    }
}

impl Body for Counted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.exchange.count(self.way, frame);
                self.note_end(false);
            }
            Poll::Ready(None) => self.note_end(true),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
