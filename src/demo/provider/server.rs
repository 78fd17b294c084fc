//! The listener: one task per connection, all of them owned by the accepting task.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Extension, Router,
    body::Body,
    extract::State,
    routing::{any, get, post},
};
use http::Request;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{net::TcpListener, task::JoinSet};
use tower::Service;

use super::{Shared, serve, socket, socket::Line};
use crate::wire::Api;

/// Accepts connections until the task is aborted.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let router = router(shared);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Small events must leave at once. An error here means the client has gone again.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(connection(stream, router.clone()));
                }
                // Out of file descriptors, most likely: let some connections end first.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves one connection, HTTP/1.1 or HTTP/2 without TLS, until either side or a fault ends it.
async fn connection(stream: tokio::net::TcpStream, router: Router) {
    let (line, socket) = socket::share(stream);
    let on_line = line.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(on_line.clone());
        let mut router = router.clone();
        async move { Ok::<_, Infallible>(router.call(request.map(Body::new)).await.unwrap_or_else(|never| match never {})) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Clients under test may send more and longer headers than hyper's defaults allow.
    builder.http1().max_buf_size(1 << 20).keep_alive(true);
    let serving = builder.serve_connection(TokioIo::new(socket), service);
    tokio::select! {
        // An error is the client's doing, and the log already says how each request ended.
        _ = serving => {}
        () = line.ended() => {}
    }
}

fn router(shared: Arc<Shared>) -> Router {
    let to = |api: Api| {
        move |State(shared): State<Arc<Shared>>, Extension(line): Extension<Line>, request: Request<Body>| {
            serve::answer(shared, line, Some(api), request)
        }
    };
    let unknown = |State(shared): State<Arc<Shared>>, Extension(line): Extension<Line>, request: Request<Body>| {
        serve::answer(shared, line, None, request)
    };
    Router::new()
        .route("/v1/chat/completions", post(to(Api::Chat)))
        .route("/v1/responses", post(to(Api::Responses)))
        .route("/v1/completions", post(to(Api::Completions)))
        .route("/v1/embeddings", post(to(Api::Embeddings)))
        .route("/v1/messages", post(to(Api::Messages)))
        .route("/v1/messages/count_tokens", post(to(Api::CountTokens)))
        .route("/v1/models", get(to(Api::Models)))
        .route("/v1/models/{*id}", get(to(Api::Models)))
        .fallback(any(unknown))
        .method_not_allowed_fallback(unknown)
        .with_state(shared)
}
