//! One connection, HTTP/1.1 or HTTP/2, to its end.

use super::door::Front;
use super::first::{self, Speaks};
use super::stall::Impatient;
use super::unread;
use crate::config::policy::Server as Settings;
use crate::stack::router::Peer;
use http::HeaderValue;
use http::header::CONNECTION;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Serves it by the settings of the moment it came in; a request on it has the policy of the moment it arrives. Whoever has said nothing
/// when `closing` comes is not waited for.
pub(super) fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: SocketAddr,
    front: Front,
    settings: &Settings,
    (graceful, closing): (Watcher, CancellationToken),
) -> Pin<Box<impl Future<Output = ()> + Send + 'static>> {
    let asked = Arc::new(AtomicBool::new(false));
    let first = asked.clone();
    let most = settings.max_body;
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        first.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Peer(peer));
        let persists = request.version() < http::Version::HTTP_2;
        let (request, rest) = unread::lend(request);
        let answer = front.clone().answer(request.map(axum::body::Body::new));
        // Boxed, so that it is gone once it has answered: hyper keeps the room for this future as long as the connection, and a reply may
        // stream for minutes.
        Box::pin(async move {
            let mut response = answer.await;
            // HTTP/2 ends a stream without ending its connection.
            if persists && !rest.discard(most).await {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(response)
        })
    });
    let patience = settings.header_timeout;
    // Boxed as a whole: every future around it would have room for it twice, where it came from and where it is polled.
    Box::pin(async move {
        let connection = async {
            let Some(looked) = closing.run_until_cancelled(first::look(stream)).await else { return };
            let ended = match looked {
                Ok((stream, Speaks::Http1)) => {
                    let mut http1 = http1::Builder::new();
                    // Without a timer hyper would wait for a slow head for ever.
                    http1.timer(TokioTimer::new()).header_read_timeout(patience);
                    graceful.watch(http1.serve_connection(TokioIo::new(Impatient::new(stream)), service)).await
                }
                Ok((stream, Speaks::Http2)) => {
                    let mut http2 = http2::Builder::new(TokioExecutor::new());
                    http2.timer(TokioTimer::new()).keep_alive_interval(Some(patience)).max_concurrent_streams(1_024);
                    // Boxed, since it is twice as large as the other.
                    let connection = http2.serve_connection(TokioIo::new(Impatient::new(stream)), service);
                    Box::pin(graceful.watch(connection)).await
                }
                Err(error) => return tracing::debug!(%error, %peer, "a connection ended before it began"),
            };
            if let Err(error) = ended {
                tracing::debug!(%error, %peer, "a connection ended badly");
            }
        };
        let mut connection = std::pin::pin!(connection);
        // hyper's own timer starts once it knows the protocol; whoever sends too little to tell is cut here.
        match timeout(patience, &mut connection).await {
            Err(_) if asked.load(Ordering::Relaxed) => connection.await,
            _ => {}
        }
    })
}
