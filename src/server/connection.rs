//! One connection, HTTP/1.1 or HTTP/2, to its end.

use super::stall::Impatient;
use super::unread;
use crate::config::policy::Server as Settings;
use crate::stack::router::Peer;
use http::HeaderValue;
use http::header::CONNECTION;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::Watcher;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tower::ServiceExt;

/// Serves it by the settings of the moment it came in; a request on it has the policy of the moment it arrives.
pub(super) fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: SocketAddr,
    router: axum::Router,
    settings: &Settings,
    graceful: Watcher,
) -> impl Future<Output = ()> + Send + 'static {
    let asked = Arc::new(AtomicBool::new(false));
    let first = asked.clone();
    let most = settings.max_body;
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        first.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Peer(peer));
        let http1 = request.version() < http::Version::HTTP_2;
        let (request, rest) = unread::lend(request);
        let answer = router.clone().oneshot(request.map(axum::body::Body::new));
        async move {
            let mut response = answer.await?;
            // HTTP/2 ends a stream without ending its connection.
            if http1 && !rest.discard(most).await {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    // Without a timer hyper would wait for a slow head for ever.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(settings.header_timeout);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(settings.header_timeout)).max_concurrent_streams(1_024);
    let connection = builder.serve_connection(TokioIo::new(Impatient::new(stream)), service).into_owned();
    let connection = graceful.watch(connection);
    let patience = settings.header_timeout;
    async move {
        let mut connection = std::pin::pin!(connection);
        // hyper's own timer starts once it knows the protocol; whoever sends too little to tell is cut here.
        let ended = match timeout(patience, &mut connection).await {
            Err(_) if !asked.load(Ordering::Relaxed) => return,
            Err(_) => connection.await,
            Ok(ended) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, %peer, "a connection ended badly");
        }
    }
}
