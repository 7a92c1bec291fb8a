//! A server that reads a request and sends a constant body: what HTTP itself costs on this machine, for `cargo xtask bench serve`.
//! It has the connection settings of `http/accept.rs`; nothing of it is in the product.
//!
//! `empty_handler BYTES THREADS`: bytes of the body that it sends, and threads of its runtime. It prints its address.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(bytes), Some(threads)) = (words.next(), words.next()) else {
        return Err("empty_handler BYTES THREADS".into());
    };
    let body = Bytes::from(vec![b' '; bytes.parse()?]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.parse()?)
        .enable_all()
        .build()?;
    runtime.block_on(serve(body))?;
    Ok(())
}

async fn serve(body: Bytes) -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let body = body.clone();
        tokio::spawn(async move {
            let mut builder = Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new());
            let service = service_fn(move |request| answer(request, body.clone()));
            // A connection that breaks is the generator's affair.
            drop(builder.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

/// Reads the whole body, as a server that needs it would, and sends the constant one.
async fn answer(
    request: Request<Incoming>,
    body: Bytes,
) -> Result<Response<Full<Bytes>>, Infallible> {
    drop(request.into_body().collect().await);
    let mut response = Response::new(Full::new(body));
    let kind = hyper::header::HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
