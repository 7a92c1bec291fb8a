//! The accept loop: connections are counted and limited, slow senders are cut, and stopping lets requests end. A loop of
//! our own, because the usual one has no timer for slow heads and no limit of connections.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Bytes of the head of a request, at most.
const HEAD_BYTES: usize = 16 << 10;
/// Streams of a connection at a time, at most.
const STREAMS: u32 = 256;

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
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.read_time)
        .max_buf_size(HEAD_BYTES.max(8192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let builder = Arc::new(builder);
    let (graceful, places) =
        (GracefulShutdown::new(), Arc::new(Semaphore::new(limits.connections)));
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
        let Ok((stream, _)) = accepted else {
            // Out of file handles, for instance: others may close.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Answers are short: they should not wait for more to send.
        drop(stream.set_nodelay(true));
        let service = TowerToHyperService::new(router.clone());
        let (builder, watcher, tls) = (Arc::clone(&builder), graceful.watcher(), tls.clone());
        tokio::spawn(async move {
            // A connection that breaks, or a handshake that fails, is its caller's affair.
            match tls {
                None => {
                    let connection = builder.serve_connection(TokioIo::new(stream), service);
                    drop(watcher.watch(connection.into_owned()).await);
                }
                Some(tls) => {
                    let shaken = tokio::time::timeout(limits.read_time, tls.accept(stream)).await;
                    if let Ok(Ok(stream)) = shaken {
                        let connection = builder.serve_connection(TokioIo::new(stream), service);
                        drop(watcher.watch(connection.into_owned()).await);
                    }
                }
            }
            drop(place);
        });
    }
    drop(listener);
    tokio::time::timeout(limits.stop_time, graceful.shutdown()).await.is_ok()
}
