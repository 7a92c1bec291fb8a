//! The accept loop: connections are counted and limited, slow senders are cut, and stopping lets requests end. A loop of
//! our own, because the usual one has no timer for slow heads and no limit of connections.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Request, Response, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::failure::{Failure, Kind};

/// Bytes of the head of a request, at most.
const HEAD_BYTES: usize = 16 << 10;
/// The same over HTTP/2 where it is read at all, so that longer ones than [`HEAD_BYTES`] are refused with a sentence. It counts 32
/// bytes more for each header. Those beyond it get a status alone.
const LISTED_BYTES: u32 = 64 << 10;
/// Bytes that are read from a connection at a time, at most: bodies come in few pieces.
const READ_BYTES: usize = 64 << 10;
/// Streams of a connection at a time, at most.
const STREAMS: u32 = 256;

/// How long idle connections stay open once the server stops.
const LINGER: Duration = Duration::from_secs(1);
/// How long connections that are half made when the server stops have to be made.
const HALF_MADE: Duration = Duration::from_millis(50);
/// A connection without a request at work is closed after so long.
const IDLE: Duration = Duration::from_secs(75);

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Connections at a time.
    pub connections: usize,
    /// Time in which the head of a request must arrive.
    pub read_time: Duration,
    /// Time in which requests may end once the server stops.
    pub stop_time: Duration,
}

/// Serves until `stop` is done, with TLS if there is an acceptor; then takes no more connections and lets requests end, within a bound. Returns whether all
/// of them ended.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    tls: Option<TlsAcceptor>,
    stop: impl Future<Output = ()>,
) -> bool {
    let (builder, graceful) = (Arc::new(protocols(limits)), GracefulShutdown::new());
    let places = Arc::new(Semaphore::new(limits.connections));
    let start = |stream: TcpStream, place: OwnedSemaphorePermit| {
        // Answers are short: they should not wait for more to send.
        drop(stream.set_nodelay(true));
        let (builder, router, tls) = (Arc::clone(&builder), router.clone(), tls.clone());
        let watcher = graceful.watcher();
        tokio::spawn(async move {
            connection(stream, &builder, router, tls, watcher, limits.read_time).await;
            drop(place);
        });
    };
    tokio::pin!(stop);
    loop {
        // A place first: beyond the limit, connections wait in the operating system's own queue.
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            () = &mut stop => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match (accepted, place) {
            (Ok((stream, _)), Ok(place)) => start(stream, place),
            // Out of file handles, for instance: others may close.
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    let last = tokio::time::Instant::now() + limits.stop_time;
    // Those whose connection stands wait in the system's queue: closing it would break them. No others may stand meanwhile.
    refuse_more(&listener);
    let end = last.min(tokio::time::Instant::now() + HALF_MADE);
    while let Ok(place) = Arc::clone(&places).try_acquire_owned()
        && let Ok(Ok((stream, _))) = tokio::time::timeout_at(end, listener.accept()).await
    {
        start(stream, place);
    }
    drop(listener);
    // An idle connection is closed at once when the server stops, a request on its way or not: so it gets a moment more.
    let all_closed = places.acquire_many(limits.connections.try_into().unwrap_or(u32::MAX));
    drop(tokio::time::timeout(LINGER.min(limits.stop_time), all_closed).await);
    tokio::time::timeout_at(last, graceful.shutdown()).await.is_ok()
}

/// Lets no further connection stand: their first packets are dropped, so that they are refused when the listener is closed, and
/// none is broken that stood. Elsewhere than on Linux those of the last moment may be.
fn refuse_more(listener: &TcpListener) {
    #[cfg(target_os = "linux")]
    {
        use socket2::SockFilter;
        // Instructions of a packet filter: a byte of the packet, its bits under a mask, a comparison, and how many bytes are kept.
        const LOAD_BYTE: u16 = 0x30;
        const AND: u16 = 0x54;
        const IF_EQUAL: u16 = 0x15;
        const RETURN: u16 = 0x06;
        // The flags of a TCP header; the first packet of a connection has SYN and not ACK.
        const FLAGS: u32 = 13;
        const SYN: u32 = 0x02;
        const ACK: u32 = 0x10;
        let program = [
            SockFilter::new(LOAD_BYTE, 0, 0, FLAGS),
            SockFilter::new(AND, 0, 0, SYN | ACK),
            SockFilter::new(IF_EQUAL, 0, 1, SYN),
            SockFilter::new(RETURN, 0, 0, 0),
            SockFilter::new(RETURN, 0, 0, u32::MAX),
        ];
        // Without the filter the listener is closed as everywhere else.
        drop(socket2::SockRef::from(listener).attach_filter(&program));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = listener;
}

/// Serves one connection to its end. One that breaks, or whose handshake fails, is its caller's affair.
async fn connection(
    stream: TcpStream,
    builder: &Builder<TokioExecutor>,
    router: Router,
    tls: Option<TlsAcceptor>,
    watcher: Watcher,
    read_time: Duration,
) {
    let activity = Arc::new(Activity::default());
    let own = Arc::clone(&activity);
    let service = service_fn(move |request| answer(router.clone(), request, own.begin()));
    let work = async {
        match tls {
            None => {
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                drop(watcher.watch(connection.into_owned()).await);
            }
            Some(tls) => {
                let shaken = tokio::time::timeout(read_time, tls.accept(stream)).await;
                if let Ok(Ok(stream)) = shaken {
                    let connection = builder.serve_connection(TokioIo::new(stream), service);
                    drop(watcher.watch(connection.into_owned()).await);
                }
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = activity.over(read_time) => {}
    }
}

/// Both versions of HTTP, with their own limits.
fn protocols(limits: ConnectionLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.read_time)
        .max_buf_size(READ_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(LISTED_BYTES)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    builder
}

/// Answers one request, which is at work until its response is sent.
async fn answer(
    router: Router,
    request: Request<Incoming>,
    at_work: AtWork,
) -> Result<Response<Body>, Infallible> {
    let response = if head_bytes(&request) > HEAD_BYTES {
        long_head(request.headers())
    } else {
        router.oneshot(request.map(Body::new)).await?
    };
    Ok(response.map(|body| Body::new(Watched { body, _at_work: at_work })))
}

/// The refusal of a long head, as the caller's protocol has it.
fn long_head(headers: &HeaderMap) -> Response<Body> {
    let what = format!("the head is longer than {HEAD_BYTES} bytes");
    let failure = Failure::new(Kind::LongHead, what);
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    if kind.starts_with(b"application/grpc") {
        return tonic::Status::from(failure).into_http();
    }
    failure.into_response()
}

/// Bytes of the head of a request, about: names, values and the address.
fn head_bytes<B>(request: &Request<B>) -> usize {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + 4);
    let address = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    address + headers.sum::<usize>()
}

/// What a connection does. The protocol's own timers see the head of a request; these see connections without any.
#[derive(Debug)]
struct Activity {
    start: Instant,
    begun: AtomicU64,
    at_work: AtomicUsize,
    /// Milliseconds from the start to the end of the last request.
    last_ms: AtomicU64,
}

impl Default for Activity {
    fn default() -> Self {
        let (begun, at_work, last_ms) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicU64::new(0));
        Self { start: Instant::now(), begun, at_work, last_ms }
    }
}

impl Activity {
    fn begin(self: &Arc<Self>) -> AtWork {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.at_work.fetch_add(1, Ordering::Relaxed);
        AtWork(Arc::clone(self))
    }

    /// Returns once no request has come in time, or none has been at work for long.
    async fn over(&self, read_time: Duration) {
        loop {
            let limit = if self.begun.load(Ordering::Relaxed) == 0 { read_time } else { IDLE };
            let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let idle = self.start.elapsed().saturating_sub(last);
            let is_idle = self.at_work.load(Ordering::Relaxed) == 0;
            if is_idle && idle >= limit {
                return;
            }
            let left = if is_idle { limit.saturating_sub(idle) } else { limit };
            // Not less: a request that begins now has its time.
            tokio::time::sleep(left.max(Duration::from_millis(10))).await;
        }
    }
}

/// A request at work, until it is dropped.
#[derive(Debug)]
struct AtWork(Arc<Activity>);

impl Drop for AtWork {
    fn drop(&mut self) {
        let now = self.0.start.elapsed().as_millis() as u64;
        self.0.last_ms.fetch_max(now, Ordering::Relaxed);
        self.0.at_work.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of a response with the request that it ends.
struct Watched {
    body: Body,
    _at_work: AtWork,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use axum::routing::get;

    use super::*;

    /// A server of one constant answer that stops when the sender is dropped.
    async fn server(
        connections: usize,
    ) -> (std::net::SocketAddr, tokio::sync::oneshot::Sender<()>, tokio::task::JoinHandle<bool>)
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (read_time, stop_time) = (Duration::from_secs(5), Duration::from_secs(5));
        let limits = ConnectionLimits { connections, read_time, stop_time };
        let router = Router::new().route("/", get(|| async { "answered" }));
        let stopped = async move { drop(stopped.await) };
        (address, stop, tokio::spawn(serve(listener, router, limits, None, stopped)))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_request_on_its_way_when_the_server_stops_is_answered() {
        let (address, stop, served) = server(8).await;
        let said = tokio::task::spawn_blocking(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            drop(stop);
            std::thread::sleep(Duration::from_millis(30));
            stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut said = String::new();
            drop(stream.read_to_string(&mut said));
            said
        });
        let said = said.await.unwrap();
        assert!(said.ends_with("answered"), "{said}");
        assert!(served.await.unwrap(), "all requests ended");
        assert!(std::net::TcpStream::connect(address).is_err(), "no more connections are taken");
    }

    /// Asks again and again, each time over a new connection, until there is none; returns how often it was answered, and how
    /// often a connection stood and no answer came.
    fn ask_until_closed(address: std::net::SocketAddr) -> (usize, usize) {
        let (mut answered, mut lost) = (0, 0);
        while let Ok(mut stream) =
            std::net::TcpStream::connect_timeout(&address, Duration::from_secs(3))
        {
            let mut said = String::new();
            drop(
                stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
            );
            drop(stream.read_to_string(&mut said));
            let is_answered = said.ends_with("answered");
            answered += usize::from(is_answered);
            lost += usize::from(!is_answered);
        }
        (answered, lost)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_connection_that_stands_when_the_server_stops_is_answered() {
        for _ in 0..3 {
            let (address, stop, served) = server(64).await;
            let ask = || tokio::task::spawn_blocking(move || ask_until_closed(address));
            let callers: Vec<_> = (0..8).map(|_| ask()).collect();
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop(stop);
            assert!(served.await.unwrap(), "all requests ended");
            for caller in callers {
                let (answered, lost) = caller.await.unwrap();
                assert!(answered > 0);
                assert_eq!(lost, 0, "of {answered}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn long_heads_are_refused_with_a_sentence() {
        let (address, stop, served) = server(8).await;
        let said = tokio::task::spawn_blocking(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            let long = "a".repeat(HEAD_BYTES);
            let head = format!("GET / HTTP/1.1\r\nConnection: close\r\nX: {long}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let mut said = String::new();
            drop(stream.read_to_string(&mut said));
            said
        });
        let said = said.await.unwrap();
        assert!(said.starts_with("HTTP/1.1 431"), "{said}");
        assert!(said.contains("the head is longer than 16384 bytes"), "{said}");
        drop(stop);
        assert!(served.await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_connections_the_server_stops_at_once() {
        let (_, stop, served) = server(8).await;
        let start = std::time::Instant::now();
        drop(stop);
        assert!(served.await.unwrap());
        assert!(start.elapsed() < LINGER, "{:?}", start.elapsed());
    }
}
