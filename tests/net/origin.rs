//! A server that remembers what reached it.

use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A request as the origin saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) host: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: usize,
    pub(crate) version: Version,
}

/// What the origin remembers.
pub(crate) type Log = Arc<Mutex<Vec<Seen>>>;

/// How an origin speaks.
#[derive(Clone)]
pub(crate) enum Speaks {
    Http,
    /// HTTP/2 without TLS.
    Http2,
    Https(Arc<rustls::ServerConfig>),
}

/// An origin on an address of this machine.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    log: Log,
}

impl Origin {
    /// Starts one; it lasts as long as the test program.
    pub(crate) fn start(ip: &str, speaks: Speaks) -> Self {
        let log: Log = Log::default();
        let (send, receive) = std::sync::mpsc::channel();
        let (ip, kept) = (ip.to_owned(), log.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind((ip.as_str(), 0)).await.unwrap();
                send.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let Ok((stream, _)) = listener.accept().await else { continue };
                    let _ = stream.set_nodelay(true);
                    let (log, speaks) = (kept.clone(), speaks.clone());
                    tokio::spawn(async move {
                        match speaks {
                            Speaks::Http => serve(stream, log, false).await,
                            Speaks::Http2 => serve(stream, log, true).await,
                            Speaks::Https(config) => {
                                if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                                    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                                    serve(stream, log, http2).await;
                                }
                            }
                        }
                    });
                }
            });
        });
        Self { address: receive.recv().unwrap(), log }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// What it saw, and forgets it.
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, log: Log, http2: bool) {
    let answer = service_fn(move |request| {
        let log = log.clone();
        async move { Ok::<_, Infallible>(answer(request, log).await) }
    });
    let io = TokioIo::new(stream);
    if http2 {
        let _ =
            hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, answer).await;
    } else {
        let _ = hyper::server::conn::http1::Builder::new()
            // A client that has said all may still listen.
            .half_close(true)
            .serve_connection(io, answer)
            .with_upgrades()
            .await;
    }
}

async fn answer(mut request: Request<Incoming>, log: Log) -> Response<Frames> {
    let header = |name: &str| {
        request.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let authority = request.uri().authority().map(ToString::to_string);
    let mut seen = Seen {
        method: request.method().to_string(),
        path: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
        host: header("host").or(authority).unwrap_or_default(),
        authorization: header("authorization").or_else(|| header("x-key")),
        body: 0,
        version: request.version(),
    };
    if header("upgrade").is_some() {
        log.lock().unwrap().push(seen);
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let Ok(stream) = upgraded.await else { return };
            let mut stream = TokioIo::new(stream);
            let mut room = [0; 1024];
            while let Ok(read @ 1..) = stream.read(&mut room).await {
                let _ = stream.write_all(&room[..read]).await;
            }
        });
        let mut response = Response::new(Frames::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert("connection", "upgrade".parse().unwrap());
        response.headers_mut().insert("upgrade", "websocket".parse().unwrap());
        return response;
    }
    let path = seen.path.clone();
    if path.starts_with("/early") {
        log.lock().unwrap().push(seen);
        return Response::new(Frames::text("early"));
    }
    if path.starts_with("/chat") {
        log.lock().unwrap().push(seen);
        return Response::new(Frames { echoed: Some(request.into_body()), ..Frames::default() });
    }
    let body = request.body_mut();
    while let Some(Ok(frame)) = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
    {
        seen.body += frame.data_ref().map_or(0, Bytes::len);
    }
    let said = format!("{} {} {} {}\n", seen.method, seen.path, seen.host, seen.body);
    log.lock().unwrap().push(seen);
    match path.split(['?', '/']).nth(1) {
        Some("ticks") => Response::new(Frames::ticks(5)),
        Some("steps") => Response::new(Frames { log: Some(log), ..Frames::ticks(5) }),
        Some("trailers") => Response::new(Frames::text(&said).trailer()),
        Some("big") => {
            let size = path.rsplit('/').next().and_then(|size| size.parse().ok()).unwrap_or(0);
            Response::new(Frames::zeros(size))
        }
        _ => Response::new(Frames::text(&said)),
    }
}

/// A body of frames, each at its time.
#[derive(Default)]
pub(crate) struct Frames {
    frames: VecDeque<Frame<Bytes>>,
    zeros: u64,
    pause: Option<Duration>,
    waiting: Option<Pin<Box<tokio::time::Sleep>>>,
    /// Where further requests are seen, if each frame waits for one more of them.
    log: Option<Log>,
    given: usize,
    /// What is given back as it comes, while more of it does.
    echoed: Option<Incoming>,
}

impl Frames {
    fn text(text: &str) -> Self {
        Self { frames: [Frame::data(Bytes::from(text.to_owned()))].into(), ..Self::default() }
    }

    fn ticks(count: usize) -> Self {
        let frames = (0..count).map(|tick| Frame::data(Bytes::from(format!("data: {tick}\n\n")))).collect();
        Self { frames, pause: Some(Duration::from_millis(100)), ..Self::default() }
    }

    fn zeros(size: u64) -> Self {
        Self { zeros: size, ..Self::default() }
    }

    fn trailer(mut self) -> Self {
        let mut trailers = hyper::HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        self.frames.push_back(Frame::trailers(trailers));
        self
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(body) = &mut self.echoed {
            let Poll::Ready(frame) = Pin::new(body).poll_frame(context) else { return Poll::Pending };
            return Poll::Ready(match frame {
                Some(Ok(frame)) if frame.is_data() => Some(Ok(frame)),
                last => {
                    self.echoed = None;
                    let mut trailers =
                        last.and_then(|last| last.ok()?.into_trailers().ok()).unwrap_or_default();
                    trailers.insert("grpc-status", "0".parse().unwrap());
                    Some(Ok(Frame::trailers(trailers)))
                }
            });
        }
        if let Some(pause) = self.pause {
            let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
            if waiting.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.waiting = None;
            let steps = |log: &Log| log.lock().unwrap().iter().filter(|seen| seen.path == "/step").count();
            if self.log.as_ref().is_some_and(|log| steps(log) <= self.given) && !self.frames.is_empty() {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.given += 1;
        }
        if self.zeros > 0 {
            let size = self.zeros.min(256 << 10);
            self.zeros -= size;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![0; usize::try_from(size).unwrap()])))));
        }
        Poll::Ready(self.frames.pop_front().map(Ok))
    }
}
