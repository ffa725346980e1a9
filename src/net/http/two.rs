//! HTTP/2, request by request: each is judged before it is passed on.
//!
//! Answers for one connection to one other; bodies and trailers pass as they come.
//! Invariant: a request goes only to the host its connection was made to.

use super::meant::other_methods;
use super::refusal::{Refusal, forbidden};
use super::route::{Route, host_line};
use crate::capability::Target;
use crate::decide::Denial;
use crate::net::bounds;
use crate::net::dial::Duplex;
use crate::net::relay::{Meter, Way};
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
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{Context, Poll};

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
const FRAME: u32 = 64 << 10;

/// Serves a connection to its end.
pub(crate) async fn serve<C: Duplex + 'static, O: Duplex + 'static>(
    service: &Arc<Service>,
    client: C,
    outer: O,
    route: Route,
    meter: &Arc<Meter>,
) -> io::Result<()> {
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
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
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_concurrent_streams(bounds::H2_STREAMS)
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
        let exchange = Arc::new(Exchange::new(self, method, &path));
        let Some(request) = self.prepared(request, &path, exchange.clone()) else {
            return refuse(&Refusal::malformed(400, "the request cannot be passed on"));
        };
        match self.sender.clone().send_request(request).await {
            Ok(answer) => {
                exchange.status.store(answer.status().as_u16(), Ordering::Relaxed);
                answer.map(|body| Counted { body, way: Way::In, exchange }.boxed())
            }
            Err(error) => refuse(&Refusal::unreachable(&format!("{target} did not answer: {error}"))),
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
        let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let Route { target, judged, .. } = &self.route;
        self.service.authority.carried((method, path), kind, target, *judged)
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
        Some(Request::from_parts(parts, Counted { body, way: Way::Out, exchange }))
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
    service: Arc<Service>,
    /// Of the whole connection.
    connection: Arc<Meter>,
    own: Meter,
    target: Target,
    method: String,
    path: String,
    /// None until there is an answer.
    status: AtomicU16,
}

impl Exchange {
    fn new(shared: &Shared, method: String, path: &str) -> Self {
        Self {
            service: shared.service.clone(),
            connection: shared.meter.clone(),
            own: shared.service.meter(),
            target: shared.route.target.clone(),
            method,
            path: path.to_owned(),
            status: AtomicU16::new(0),
        }
    }

    fn count(&self, way: Way, frame: &Frame<Bytes>) {
        if let Some(data) = frame.data_ref() {
            self.own.count(way, data.len());
        }
        // Trailers are a sign of life too.
        self.connection.count(way, frame.data_ref().map_or(1, Bytes::len));
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let status = self.status.load(Ordering::Relaxed);
        if status != 0 {
            let report = &self.service.report;
            report.request(&self.target, &self.method, &self.path, status, self.own.passed());
        }
    }
}

/// A body whose bytes are counted as they pass.
struct Counted {
    body: Incoming,
    way: Way,
    exchange: Arc<Exchange>,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.exchange.count(self.way, frame);
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
